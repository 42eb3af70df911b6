"""Run a sweep: one training for each combination of the values of --seed and --sweep.

Each run is a process of its own: train.py with one value of each flag. The same command skips the
runs that are finished, and goes on with the others.
"""

import contextlib
import itertools
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

from programs.sandbox.box import cores
from training.run_folder import ROOT, read_summary, run_path, task_stem, warn_of_other_code

OWN = ("--seed", "--sweep", "--jobs", "--run")  # a run has none of these, or another value
# Flags in which an earlier run may differ from what the sweep would start.
FREE = {"run", "resume", "debug", "sweep", "jobs", "device", "engine"}


def is_sweep(args) -> bool:
    """Return whether these flags of train.py, as they were given, ask for several runs."""
    return bool(args.sweep) or isinstance(args.seed, list)


def plan(args, argv: list[str]) -> dict[Path, list[str]]:
    """Return the flags of each run of a sweep, by its folder. argv: the words that gave `args`."""
    if args.resume or args.dry_run:
        raise ValueError("--resume and --dry-run are of one run: not with a sweep")
    values = {flag: text.split(",") for flag, text in (args.sweep or {}).items()}
    if "seed" in values:
        raise ValueError("--sweep seed: give the seeds as --seed 0 1 2")
    seeds = args.seed if isinstance(args.seed, list) else [args.seed]
    values["seed"] = list(map(str, seeds))
    kept = without(argv, OWN)
    runs = {}
    for combination in itertools.product(*values.values()):
        name = args.run or task_stem(args.task)
        flags = list(kept)
        for flag, value in zip(values, combination, strict=True):
            name += f"-{flag}{short(value)}"
            flags += words(flag, value)
        if run_path(name) in runs:
            raise ValueError(f"two runs of this sweep would be {run_path(name)}")
        runs[run_path(name)] = [*flags, "--run", name]
    return runs


def without(argv: list[str], names: tuple[str, ...]) -> list[str]:
    """Return the words of a command line without these flags and their values."""
    kept = []
    dropped = False
    for word in argv:
        if word.startswith(("--", "@")):
            dropped = word.partition("=")[0] in names
        if not dropped:
            kept.append(word)
    return kept


def short(value: str) -> str:
    """Return a flag's value for the name of a run: 1e-4 as 0.0001, a path as its last part."""
    with contextlib.suppress(ValueError):
        return f"{float(value):g}"
    return re.sub(r"[^\w.+-]+", "_", Path(value).name)


def words(flag: str, value: str) -> list[str]:
    """Return a flag with its value for a command line. A value may be several words."""
    switches = {"true": [f"--{flag}"], "false": [f"--no-{flag}"]}
    return switches.get(value) or [f"--{flag}", *shlex.split(value)]


def check_same(directory: Path, recorded: dict, args) -> None:
    """Raise ValueError if a run's recorded flags are not the resolved ones of the sweep."""
    for name, value in recorded.items():
        given = getattr(args, name)
        later = given is None and name in ("bits", "max_steps")  # a run resolves it
        if name not in FREE and not later and given != value:
            raise ValueError(
                f"{directory} has another --{name.replace('_', '-')} ({value}, and not {given}): "
                "choose another --run for this sweep"
            )


def run_all(runs: dict[Path, list[str]], jobs: int) -> int:
    """Train the runs that are not finished, `jobs` at a time. Return the exit status.

    A signal goes to every run that is at work, which ends as it would alone.
    """
    signals = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, frame: signals.append(number))
    waiting = unfinished(runs)
    running = {}
    failed = []
    stopped = False
    while waiting or running:
        while waiting and len(running) < jobs:
            directory = waiting.pop(0)
            verb = "goes on" if has_begun(directory) else "begins"
            tell(f"{directory} {verb}, {len(waiting)} after it")
            running[directory] = start(directory, runs[directory], jobs)
        time.sleep(0.1)
        for directory, process in list(running.items()):
            if process.poll() is not None:
                del running[directory]
                tell(f"{directory} {ending(directory, process.returncode, jobs)}")
                if process.returncode:
                    failed.append(directory)
        while signals:
            stopped = True
            waiting.clear()
            number = signals.pop(0)
            for process in running.values():
                os.killpg(process.pid, number)
    if stopped:
        tell("stopped: the same command goes on")
        return 130
    tell(f"{len(runs) - len(failed)} of {len(runs)} runs are finished")
    for directory in failed:
        tell(f"{directory} is not finished: the same command tries it again")
    return 1 if failed else 0


def unfinished(runs: Iterable[Path]) -> list[Path]:
    """Return the runs that are to train, and say which are not."""
    waiting = []
    for directory in runs:
        if read_summary(directory):
            tell(f"{directory} was finished before")
            warn_of_other_code(directory)
        else:
            waiting.append(directory)
    return waiting


def has_begun(directory: Path) -> bool:
    return (directory / "args.json").is_file()


def start(directory: Path, flags: list[str], jobs: int) -> subprocess.Popen:
    """Start a run, or go on with it. Beside other runs, it has its share of the cores, and a log.

    A terminal's Ctrl-C does not reach it, because it has a process group of its own.
    """
    if has_begun(directory):
        flags = ["--resume", str(directory)]
    command = [sys.executable, os.path.relpath(ROOT / "train.py"), *flags]
    environment = dict(os.environ)
    if jobs == 1:
        output = contextlib.nullcontext()  # the terminal
    else:
        environment.setdefault("OMP_NUM_THREADS", str(max(cores() // jobs, 1)))
        directory.parent.mkdir(parents=True, exist_ok=True)
        output = log_path(directory).open("ab")
    with output as file:
        return subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            process_group=0,
        )


def log_path(directory: Path) -> Path:
    return directory.with_name(f"{directory.name}.log")


def ending(directory: Path, status: int, jobs: int) -> str:
    """Return how a run ended, in words."""
    if status == 0:
        return "is finished"
    if status == 130:
        return "was stopped"
    text = f"ended with exit status {status}"
    if jobs > 1:
        log = log_path(directory)
        last = log.read_text("utf-8", "replace").rstrip().rpartition("\n")[2]
        text += f": {last:.200} ({log})"
    return text


def tell(text: str) -> None:
    print(f"sweep: {text}", flush=True)
