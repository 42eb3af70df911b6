"""A user's file is one module, as if it were imported: python -m pytest tests/test_plugins.py"""

import importlib
import sys
from pathlib import Path

import pytest

from training.plugins import resolve, user_line


@pytest.fixture(autouse=True)
def own_path(monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path])


SOURCE = """
from __future__ import annotations
import dataclasses
import NEIGHBOUR
@dataclasses.dataclass
class Task:
    word: str = NEIGHBOUR.WORD
    seen = []
def reward(item, responses):
    Task.seen.append(item)
    raise KeyError
"""


def write(folder: Path, stem: str) -> str:
    """A plug-in that imports the file beside it, which holds its folder's name."""
    folder.mkdir()
    neighbour = f"neighbour_of_{stem.replace('.', '_')}_{folder.name}"
    (folder / f"{neighbour}.py").write_text(f"WORD = {folder.name!r}\n")
    (folder / f"{stem}.py").write_text(SOURCE.replace("NEIGHBOUR", neighbour))
    return f"{folder}/{stem}.py"


@pytest.mark.parametrize("stem", ["mine", "json", "tasks", "wave", "two.dots"])
def test_a_file_is_loaded_once_whatever_its_name(stem, tmp_path):
    """Also beside a file of that name in another folder, and a module of the library or ours."""
    kinds = []
    for name in ("a", "b"):
        file = write(tmp_path / name, stem)
        task, reward = resolve(f"{file}:Task", {}, "task"), resolve(f"{file}:reward", {}, "reward")
        assert resolve(f"{file}:Task", {}, "task") is task
        assert sys.modules[task.__module__].Task is task
        assert task().word == name
        with pytest.raises(KeyError) as raised:
            reward(name, [])
        assert user_line(raised.value) == f"{file}, line 11: "
        kinds.append(task)
    assert [task.seen for task in kinds] == [["a"], ["b"]]
    if stem in ("json", "tasks", "wave"):  # wave is imported here for the first time
        assert not hasattr(importlib.import_module(stem), "reward")


def test_a_dotted_path_names_the_same_module(tmp_path):
    file = write(tmp_path / "c", "own_plug_in")
    task = resolve(f"{file}:Task", {}, "task")
    assert resolve("own_plug_in.Task", {}, "task") is task


def test_a_file_is_loaded_anew_when_it_has_changed_or_failed(tmp_path):
    file = tmp_path / "changing.py"
    for value in (1, 2):
        file.write_text(f"reward = {value}")
        assert resolve(f"{file}:reward", {}, "reward") == value
    file.write_text("reward = 1 / 0")
    with pytest.raises(ValueError, match=r"cannot load the reward .* ZeroDivisionError"):
        resolve(f"{file}:reward", {}, "reward")
    file.write_text("reward = 3")
    assert resolve(f"{file}:reward", {}, "reward") == 3
