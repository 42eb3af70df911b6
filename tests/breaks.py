"""Breaks of the project, each with a test that fails because of it: python tests/breaks.py [WORD]

In a copy of the project the tests pass. Then it gets one break after the other, and each has to
fail its test. It takes minutes. A word chooses the breaks whose file or test contains it.
"""

import importlib
import os
import shutil
import sys
import tempfile
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
LIBRARIES = ("lightning.pytorch", "pandas", "peft")  # most of what a test imports
FAILED = 1  # pytest's exit status; that of a test which does not run is another
BREAKS = tomllib.loads((ROOT / "tests/breaks.toml").read_text("utf-8"))["break"]


def run_tests(copy, *tests):
    """Return pytest's exit status. It runs in a fork, which need not import the libraries."""
    child = os.fork()
    if not child:
        status = -1
        try:
            os.chdir(copy)
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            paths = [f"tests/{test}" for test in tests]
            options = ["-x", "-q", "-p", "no:cacheprovider", f"--basetemp={copy.parent}/temp"]
            status = pytest.main([*options, *paths])
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)


def main(word=""):
    rows = [row for row in BREAKS if word in row["file"] or word in row["test"]]
    caught = 0
    for name in LIBRARIES:
        importlib.import_module(name)
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, "copy")
        shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(".*", "runs", "__pycache__"))
        if run_tests(copy, *dict.fromkeys(row["test"] for row in rows)):
            sys.exit("a test fails without a break")
        for row in rows:
            path = copy / row["file"]
            source = path.read_text("utf-8")
            path.write_text(source.replace(row["old"], row["new"]), "utf-8")
            failed = run_tests(copy, row["test"]) == FAILED
            path.write_text(source, "utf-8")
            caught += failed
            print("caught:" if failed else "NOT CAUGHT:", *row.values(), sep="  ", flush=True)
    print(f"{caught} of {len(rows)}")
    sys.exit(caught < len(rows))


if __name__ == "__main__":
    main(*sys.argv[1:])
