"""The tests are of the CPU, so that a machine with a GPU runs the same ones: tests/test_card.py has
what is a card's. CUDA_VISIBLE_DEVICES=0 in the environment runs them on that GPU all the same."""

import os
from pathlib import Path

import pytest

from concurrency import threads

os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
# The examples can be deleted: their tests go with them.
collect_ignore = [] if (Path(__file__).parent.parent / "examples").is_dir() else ["examples"]


class Unseen(set):
    def add(self, call):
        pass


@pytest.fixture(autouse=True)
def calls_are_not_seen(monkeypatch):
    """A program that a test calls ends with SystemExit, though a plug-in's thread may go on."""
    monkeypatch.setattr(threads, "RUNNING", Unseen())


def pytest_collection_modifyitems(items):
    """Let the longest file begin first: otherwise one worker waits for the other at the end."""
    items.sort(key=lambda item: item.path.name != "test_parallel.py")
