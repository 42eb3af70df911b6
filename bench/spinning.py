"""Seconds of two default runs at once beside one alone: at most 2.2 times, on two idle cores.

    python bench/spinning.py [--rounds 3] [--steps 6]

policies/__init__.py sets how often a waiting thread spins. GOMP_SPINCOUNT=N in front of the command
measures another number.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time


def wall_seconds(steps: int, runs: int) -> float:
    """Return the seconds that so many default runs at once take."""
    environment = {name: text for name, text in os.environ.items() if name != "OMP_NUM_THREADS"}
    with tempfile.TemporaryDirectory() as folder:
        began = time.monotonic()
        processes = []
        for number in range(runs):
            flags = f"--max-steps {steps} --eval-limit none --logger none --run {folder}/{number}"
            command = [sys.executable, "train.py", *flags.split()]
            started = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
            processes.append(started)
        for process in processes:
            process.wait()
        return time.monotonic() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=6)
    flags = parser.parse_args()
    for _ in range(flags.rounds):
        load, *_ = os.getloadavg()
        alone = wall_seconds(flags.steps, 1)
        both = wall_seconds(flags.steps, 2)
        print(f"load {load:.1f}: one run {alone:.0f} s, two {both:.0f} s, {both / alone:.2f} times")


if __name__ == "__main__":
    main()
