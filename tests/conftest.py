"""The tests are of the CPU, so that a machine with a GPU runs the same ones (a card has
tests/pretend/, too). CUDA_VISIBLE_DEVICES=0 in the environment runs them on that GPU nevertheless.
"""

import itertools
import os
from pathlib import Path

import pytest

import train

os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
# What can be deleted takes its tests along.
ROOT = Path(__file__).parent.parent
TESTED_BY = {
    "examples": ["examples"],
    "policies/fast": ["fast"],
    "bench": ["test_bench.py"],
}
collect_ignore = []
for room, tests in TESTED_BY.items():
    if not (ROOT / room).is_dir():
        collect_ignore += tests


@pytest.fixture(scope="session", autouse=True)
def elsewhere(tmp_path_factory):
    """Let fixtures of a wider scope work outside the project, whose runs/ is the user's."""
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(tmp_path_factory.mktemp("elsewhere"))
        patched.setenv("PYTHONPATH", str(ROOT))  # for the programs that tests start
        patched.setenv("GIT_CONFIG_GLOBAL", os.devnull)  # a user may sign every commit
        # Of coop's 2,000 problems it takes a second, each time that a run begins.
        check = train.check_prompts
        first = lambda rollout, items: check(rollout, itertools.islice(items, 20))  # noqa: E731
        patched.setattr(train, "check_prompts", first)
        yield


@pytest.fixture(autouse=True)
def own_folder(elsewhere, tmp_path, monkeypatch):
    """Let each test work in a folder of its own."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def quick():
    """Let a program that does not end take a fifth of a second, rather than two."""
    from programs import teams
    from programs.sandbox.box import Sandbox

    with Sandbox(test_timeout=0.2) as box, pytest.MonkeyPatch.context() as patched:
        patched.setattr(teams, "box", box)
        yield


@pytest.fixture(scope="session")
def trained(elsewhere, tmp_path_factory):
    """A run of two steps in which every agent moved, to be read."""
    from test_train import MOVING, run

    return run(tmp_path_factory.mktemp("runs") / "trained", MOVING)


def pytest_collection_modifyitems(items):
    """Let the longest files begin first: otherwise one worker waits for the other at the end."""
    longest = ("test_parallel.py", "test_faults.py", "test_train.py")
    items.sort(key=lambda item: item.path.name not in longest)
