"""Seconds of a default step by GOMP_SPINCOUNT, and of two default runs at once beside one alone.

    python bench/spinning.py [--counts 0 300 1000 3000 10000] [--rounds 3] [--steps 6]

The counts take turns, so that a busy machine slows all of them. Every line has the load when it
began, because the best count beside other jobs is not the best one on an idle machine. The reward
has no column: it runs in processes without OpenMP. The last lines are of the count that
policies/__init__.py sets. On two idle cores two runs should take at most 2.2 times one alone.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SET = ("OMP_NUM_THREADS", "OMP_WAIT_POLICY", "GOMP_SPINCOUNT")


def start(folder: Path, steps: int, count: int | None) -> subprocess.Popen:
    """Start a default run of so many steps. count: its GOMP_SPINCOUNT, None for train.py's own."""
    environment = {name: value for name, value in os.environ.items() if name not in SET}
    if count is not None:
        environment["GOMP_SPINCOUNT"] = str(count)
    flags = f"--max-steps {steps} --eval-limit none --logger none --run {folder}"
    command = [sys.executable, "train.py", *flags.split()]
    return subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)


def show_step(folder: Path, steps: int, count: int) -> None:
    """Print the median seconds of a step, and the CPU seconds of the whole run."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    load, *_ = os.getloadavg()
    start(folder, steps, count).wait()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    rows = list(map(json.loads, (folder / "metrics.jsonl").read_text("utf-8").splitlines()))
    parts = []
    for name in ("rollout", "update"):
        parts.append(statistics.median(row[f"seconds/{name}"] for row in rows[1:]))
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(f"{count:6} {load:6.1f} {parts[0]:8.2f} {parts[1]:7.2f} {cpu:8.1f}", flush=True)


def wall_seconds(folder: Path, steps: int, runs: int) -> float:
    """Return the seconds that so many default runs at once take."""
    began = time.monotonic()
    for process in [start(folder / str(number), steps, None) for number in range(runs)]:
        process.wait()
    return time.monotonic() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--counts", type=int, nargs="*", default=[0, 300, 1000, 3000, 10000])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=6)
    flags = parser.parse_args()
    print(" count   load  rollout  update  CPU of the run")
    with tempfile.TemporaryDirectory() as scratch:
        for number in range(flags.rounds):
            for count in flags.counts:
                show_step(Path(scratch) / f"{number}-{count}", flags.steps, count)
        for number in range(flags.rounds):
            load, *_ = os.getloadavg()
            one = wall_seconds(Path(scratch) / f"one-{number}", flags.steps, 1)
            two = wall_seconds(Path(scratch) / f"two-{number}", flags.steps, 2)
            print(f"load {load:.1f}: one run {one:.0f} s, two {two:.0f} s, {two / one:.2f} times")


if __name__ == "__main__":
    main()
