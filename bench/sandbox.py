"""Programs per second on one worker, beside the bare rate of a process per program.

    python bench/sandbox.py [--programs 300] [--rounds 5]

`bare` is a fork server in its plainest form: one warm interpreter with the same modules loaded
forks, runs the program and its asserts in the child and reads the verdict from the exit code. No
locks, no judge: any program can fake its verdict. `fresh` starts an interpreter per program. The
three take turns in every round, so that a busy machine slows all of them; medians are printed.
CPU time is of all processes together, without starting a worker, which is printed by itself.
Last line: the sandbox's rate over the bare one, which has to stay above one half.
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
sys.path[0] = str(ROOT)  # and not this folder, whose sandbox.py is this file

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
    """Programs that differ, since the sandbox runs identical ones once."""
    return [f"{CODE}\n# {start + number}\n" for number in range(count)]


def bare_loop(count: int, start: int) -> None:
    """What the child process `bare` does: fork per program, asserts included."""
    from programs.sandbox import worker

    worker.preload()
    gc.collect()
    gc.freeze()
    began, used = time.perf_counter(), cpu()
    for source in sources(count, start):
        if not os.fork():
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
    print(time.perf_counter() - began, cpu() - used)


def cpu() -> float:
    return sum(
        sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )


def bare(count: int, start: int) -> tuple[float, float]:
    child = subprocess.run(
        [sys.executable, "-s", "-S", "-P", __file__, "--bare", str(count), str(start)],
        check=True,
        capture_output=True,
        text=True,
    )
    seconds, used = child.stdout.split()
    return float(seconds), float(used)


def fresh(count: int, start: int) -> tuple[float, float]:
    began, used = time.perf_counter(), cpu()
    for source in sources(count, start):
        subprocess.run([sys.executable, "-I", "-S", "-c", "\n".join([source, *TESTS])], check=True)
    return time.perf_counter() - began, cpu() - used


def sandboxed(count: int, start: int) -> tuple[float, float]:
    """The CPU time holds the start of a worker, the wall time does not."""
    from programs.sandbox.box import Program, Sandbox

    used = cpu()
    with Sandbox(workers=1) as box:
        box.run([])  # starts it
        began = time.perf_counter()
        verdicts = box.run([Program(source, TESTS, "total") for source in sources(count, start)])
        seconds = time.perf_counter() - began
    if not all(all(verdict.passed) for verdict in verdicts):
        raise SystemExit("a program failed")
    return seconds, cpu() - used


def main() -> None:
    if sys.argv[1:2] == ["--bare"]:
        return bare_loop(int(sys.argv[2]), int(sys.argv[3]))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--programs", type=int, default=300, help="per way and round")
    parser.add_argument("--rounds", type=int, default=5)
    flags = parser.parse_args()
    ways = {"fresh": fresh, "bare": bare, "sandbox, 1 worker": sandboxed}
    rates, costs = {name: [] for name in ways}, {name: [] for name in ways}
    for turn in range(flags.rounds):
        for name, way in ways.items():
            count = flags.programs if way is not fresh else max(flags.programs // 10, 1)
            seconds, used = way(count, turn * flags.programs)
            rates[name].append(count / seconds)
            if way is sandboxed:
                used -= way(0, 0)[1]
            costs[name].append(used / count * 1000)
    print(f"{'':20} programs/s   ms CPU per program")
    for name in ways:
        print(
            f"{name:20} {statistics.median(rates[name]):10.0f} "
            f"{statistics.median(costs[name]):12.2f}"
        )
    print(f"starting a worker: {sandboxed(0, 0)[1] * 1000:.0f} ms CPU")
    ratios = [
        ours / floor for ours, floor in zip(rates["sandbox, 1 worker"], rates["bare"], strict=True)
    ]
    print(
        f"sandbox / bare: {statistics.median(ratios):.2f} (rounds: "
        + " ".join(f"{ratio:.2f}" for ratio in ratios)
        + ")"
    )


if __name__ == "__main__":
    main()
