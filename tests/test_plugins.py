"""A user's file is imported, and what its task and its reward return is checked:
python -m pytest tests/test_plugins.py
"""

import itertools
import re
import sys

import numpy as np
import pytest
from helpers import table

import train
from tasks import Task
from training.episodes import follow
from training.plugins import ROOT, find_reward, make_task, plug_in, resolve
from training.reward_runner import Scorer
from training.run_folder import json_lines


@pytest.fixture(autouse=True)
def own_path(monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path])


MINE = """
from __future__ import annotations
import dataclasses
import numpy as np
import NEIGHBOUR
@dataclasses.dataclass
class Record:
    word: str = NEIGHBOUR.WORD
class Mine:
    reward = __file__ + ":reward"
    def __init__(self, num_agents=2, words=None):
        self.words = words
    def items(self, split):
        return [{"task_id": np.int64(number)} for number in range(3)]
    def observe(self, agent, item, history):
        return "a"
class Faulty(Mine):
    def __init__(self, num_agents=2, words=None):
        self.size = len(words)
def reward(item, responses):
    return eval(item["returns"])
reward.maximum = np.float32(0.5)
"""


def write(folder, stem="mine"):
    """A plug-in that imports the file beside it, which holds its folder's name."""
    folder.mkdir()
    neighbour = f"neighbour_in_{folder.name}"
    (folder / f"{neighbour}.py").write_text(f"WORD = {folder.name!r}\n")
    (folder / f"{stem}.py").write_text(MINE.replace("NEIGHBOUR", neighbour))
    return f"{folder}/{stem}.py"


def options(task, *flags):
    return train.parse(["--task", task, *flags])


@pytest.fixture
def file(tmp_path):
    return write(tmp_path / "folder")


@pytest.mark.parametrize("stem", ["mine", "json", "tasks", "wave", "two.dots"])
def test_a_file_is_imported_once_whatever_its_name(stem, tmp_path):
    """Also beside a file of that name in another folder, and a module of the library or ours."""
    modules = {name: sys.modules.get(name) for name in ("json", "tasks")}
    for name in ("a", "b"):
        file = write(tmp_path / name, stem)
        record = resolve(f"{file}:Record", {}, "task", callable)
        assert resolve(f"{file}:Record", {}, "task", callable) is record
        assert record().word == name
    assert {name: sys.modules.get(name) for name in modules} == modules


def test_a_plug_in_is_found_from_every_folder(file, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    recorded = plug_in("folder/mine.py:Mine")
    assert recorded == f"{file}:Mine"
    monkeypatch.chdir(ROOT)
    assert make_task(options(recorded)).words is None
    if (ROOT / "examples").is_dir():
        assert plug_in(f"{ROOT}/examples/ledger.py:Ledger") == "examples/ledger.py:Ledger"
        monkeypatch.chdir("/")
        assert make_task(options("examples/ledger.py:Ledger")).lines == 8


@pytest.mark.parametrize(
    "word, value", [("3", 3), ("false", False), ("a=b", "a=b"), ("[1]", [1]), ("", "")]
)
def test_an_argument_of_a_task_is_json_or_text(word, value, file):
    task = make_task(options(f"{file}:Mine", "--task-arg", f"words={word}"))
    assert repr(task.words) == repr(value)


def test_a_fault_in_a_constructor_is_no_wrong_argument(file):
    with pytest.raises(TypeError, match="has no len"):
        make_task(options(f"{file}:Faulty", "--task-arg", "words=3"))


def test_a_task_id_is_written_as_a_text_where_json_cannot_hold_it():
    assert json_lines([{"task_id": np.int64(3)}]) == '{"task_id": "3"}\n'


# What a reward returns: its parts, or what is wrong with it.
RETURNED = """
0.5                                                {'reward': 0.5}
{'a': np.float32(0.25), 'agent/1': 0.5}            {'a': 0.25, 'agent/1': 0.5}
{'a': 0.2, 'agent/1': 0.3 + 1e-7, 'metric/b': 7}   {'a': 0.2, 'agent/1': 0.3 + 1e-7, 'metric/b': 7}
{}                                                 {}
1                                                  above its maximum of 0.5
{'a': 0.3, 'agent/1': 0.6}                         above its maximum
float('nan')                                       returned nan, which is not finite
{'metric/a': float('inf')}                         not finite
None                                               returned None, which is neither a number nor a
{'a': 'b'}                                         neither a number
{0: 0.1}                                           neither a number
{'agent/2': 0.1}                                   in a team of 2
{'agent/01': 0.1}                                  in a team of 2
"""


@pytest.mark.parametrize("returns, want", table(RETURNED))
def test_what_a_reward_returns_is_checked(returns, want, file):
    scorer = Scorer(find_reward(make_task(options(f"{file}:Mine"))))
    assert repr(scorer.maximum) == "0.5"
    joints = [({"returns": returns, "text": "x" * 999}, ["x", "y"])]
    if want.startswith("{"):
        assert scorer(joints) == [eval(want)]
    else:
        said = f"(?s){want}.*, for item .* and responses .'x', 'y'"
        with pytest.raises(ValueError, match=said) as error:
            scorer(joints)
        assert len(str(error.value)) < 600  # an item is shortened


# The body of a play, where ASK asks agent 0, and what is wrong with it.
PLAYS = """
ASK; yield ['x', 'y']                                  -
ASK; yield {1: 'b'}; return item, ['x', 'y']           -
texts = ASK; texts[0] = ''; yield texts                -
yield ['x', 'y']                                       has to ask an agent before it scores
return; ASK                                            has to ask an agent before
yield {2: 'a'}                                         play asks {2}, and the team has agents 0 to 1
ASK; yield {'0': 'a', 1: 'b'}                          play asks {'0'}
ASK; yield {}                                          play gave {}, which is neither prompts
ASK; yield                                             play gave None, which is neither
ASK; yield 'xy'                                        play gave 'xy', which is neither
ASK; yield ['x', 1]                                    nor a list of 2 texts
ASK; yield item, ['x']                                 nor a list of 2 texts
ASK; yield ['x', 'y']; return ['x', 'y']               play scores twice at one turn
yield {0: str(next(clock))}; yield {}                  asked {0: '0'} at turn 0, and asks {0: '1'}
yield {0: len(item) * 'a'}; item['b'] = 1; ASK         asked {0: ''} at turn 0, and asks {0: '
"""


@pytest.mark.parametrize("body, error", table(PLAYS))
def test_what_an_episode_yields_is_checked(body, error):
    names = {"clock": itertools.count()}
    exec("def play(self, item): " + body.replace("ASK", "yield {0: 'a'}"), names)
    task = type("Mine", (Task,), {"play": names["play"]})()
    item = {}
    history = []

    def played():
        step = follow(task, item, history)
        while step.asked and len(history) < 3:
            history.append((step.asked, ["x", "y"]))
            step = follow(task, item, history)
        return step.scored

    if error == "-":
        assert played() == (item, ["" if "texts" in body else "x", "y"])
    else:
        with pytest.raises(ValueError, match=re.escape(error)):
            played()
    assert all(texts == ["x", "y"] for _, texts in history), "the episode has a copy"


@pytest.mark.parametrize(
    "told, error", [("ab", "not 'ab'"), (None, "not None"), (["a"], r"2 texts, not \['a'\]")]
)
def test_feedback_of_another_length_is_refused(told, error, file):
    task = make_task(options(f"{file}:Mine"))
    task.feedback = lambda item, responses: told
    with pytest.raises(ValueError, match=error):
        follow(task, {}, [({0: "a", 1: "a"}, ["b", "c"])])
