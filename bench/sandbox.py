"""Programs per second on one worker, beside the bare rate of a process per program.

    python bench/sandbox.py [--programs 300] [--rounds 5]

`bare` is the plainest fork server: one warm interpreter with the same modules loaded. It forks for
each program, runs it with its asserts in the child, and takes the exit code as the verdict. It has
no locks, so any program can fake its verdict. The two take turns in every round, so that a busy
machine slows both. The table has medians.
CPU time sums all processes. Starting a worker has its own line. The last line divides the
sandbox's rate by the bare one. The ratio has to stay above one half.
"""

import argparse
import gc
import os
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[0] = str(ROOT)  # not this folder, whose sandbox.py is this file

CODE = '''
def aux(numbers):
    """Keep the even numbers."""
    return [number for number in numbers if number % 2 == 0]


def total(numbers, scale=1):
    kept = aux(numbers)
    result = 0
    for number in kept:
        result += number * scale
    return result
'''
TESTS = [
    "assert total([1, 2, 3]) == 2",
    "assert total([]) == 0",
    "assert total([2, 4], 2) == 12",
    "assert total(list(range(20))) == 90",
    "assert total([1, 3, 5]) == 0",
]


def sources(count: int, start: int) -> list[str]:
    """Return programs that differ, since the sandbox runs identical ones once."""
    return [f"{CODE}\n# {start + number}\n" for number in range(count)]


def bare_loop(count: int, start: int) -> None:
    """Fork once per program and print (seconds, CPU seconds). This is the child process of bare."""
    from programs.sandbox import worker

    worker.preload()
    gc.collect()
    gc.freeze()
    begin = time.perf_counter()
    used = cpu()
    for source in sources(count, start):
        if os.fork() == 0:
            try:
                space = {"__name__": "solution"}
                exec(compile(source, "<program>", "exec"), space)
                for test in TESTS:
                    exec(compile(test, "<test>", "exec"), space)
            except BaseException:
                os._exit(1)
            os._exit(0)
        if os.wait()[1]:
            raise SystemExit("a program failed")
    print(time.perf_counter() - begin, cpu() - used)


def cpu() -> float:
    """Return the CPU seconds of this process and of its children that have ended."""
    process = resource.getrusage(resource.RUSAGE_SELF)
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return process.ru_utime + process.ru_stime + children.ru_utime + children.ru_stime


def bare(count: int, start: int) -> tuple[float, float]:
    child = subprocess.run(
        [sys.executable, "-s", "-S", "-P", __file__, "--bare", str(count), str(start)],
        check=True,
        capture_output=True,
        text=True,
    )
    seconds, used = child.stdout.split()
    return float(seconds), float(used)


def sandboxed(count: int, start: int) -> tuple[float, float]:
    """Run programs in the sandbox. Only the CPU time includes the start of a worker."""
    from programs.sandbox.box import Program, Sandbox

    used = cpu()
    with Sandbox(workers=1) as box:
        box.run([])  # starts the worker
        begin = time.perf_counter()
        verdicts = box.run([Program(source, TESTS, "total") for source in sources(count, start)])
        seconds = time.perf_counter() - begin
    if not all(all(verdict.passed) for verdict in verdicts):
        raise SystemExit("a program failed")
    return seconds, cpu() - used


def measure(programs: int, rounds: int) -> tuple[dict, dict]:
    """Return programs per second and CPU milliseconds per program, by server and round."""
    servers = {"bare": bare, "sandbox": sandboxed}
    rates = {name: [] for name in servers}
    costs = {name: [] for name in servers}
    for number in range(rounds):
        for name, server in servers.items():
            seconds, used = server(programs, number * programs)
            if name == "sandbox":
                used -= sandboxed(0, 0)[1]
            rates[name].append(programs / seconds)
            costs[name].append(used / programs * 1000)
    return rates, costs


def main() -> None:
    if sys.argv[1:2] == ["--bare"]:
        return bare_loop(int(sys.argv[2]), int(sys.argv[3]))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--programs", type=int, default=300, help="programs per round")
    parser.add_argument("--rounds", type=int, default=5)
    flags = parser.parse_args()
    rates, costs = measure(flags.programs, flags.rounds)
    print(f"{'':20} programs/s   ms CPU per program")
    for name in rates:
        rate = statistics.median(rates[name])
        print(f"{name:20} {rate:10.0f} {statistics.median(costs[name]):12.2f}")
    print(f"starting a worker: {sandboxed(0, 0)[1] * 1000:.0f} ms CPU")
    ratios = [a / b for a, b in zip(rates["sandbox"], rates["bare"], strict=True)]
    by_round = " ".join(f"{ratio:.2f}" for ratio in ratios)
    print(f"sandbox / bare: {statistics.median(ratios):.2f} (rounds: {by_round})")


if __name__ == "__main__":
    main()
