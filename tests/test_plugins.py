"""A user's file is imported, and what its task and its reward return is checked:
python -m pytest tests/test_plugins.py
"""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

import train
from training import reward_runner
from training.flags import part_of
from training.plugins import (
    ROOT,
    TaskOptions,
    find_reward,
    load_file,
    make_task,
    plug_in,
    resolve,
)
from training.reward_runner import Scorer
from training.run_folder import json_line
from training.terminal import is_mistake


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
        if words == -1:
            raise ValueError("words has to be above 0")
    def items(self, split):
        return [{"task_id": np.int64(number)} for number in range(3)]
    def observe(self, agent, item, history):
        return "a"
    def feedback(self, item, responses):
        return responses[0]
def reward(item, responses):
    return eval(item["returns"])
reward.maximum = np.float32(0.5)
"""


def write(folder: Path, stem: str = "mine") -> str:
    """A plug-in that imports the file beside it, which holds its folder's name."""
    folder.mkdir()
    neighbour = f"neighbour_in_{folder.name}"
    (folder / f"{neighbour}.py").write_text(f"WORD = {folder.name!r}\n")
    (folder / f"{stem}.py").write_text(MINE.replace("NEIGHBOUR", neighbour))
    return f"{folder}/{stem}.py"


def options(task: str, *flags: str) -> TaskOptions:
    return part_of(train.parse(["--task", task, *flags]), TaskOptions)


@pytest.fixture
def file(tmp_path) -> str:
    return write(tmp_path / "folder")


@pytest.mark.parametrize("stem", ["mine", "json", "tasks", "wave", "two.dots"])
def test_a_file_is_imported_once_whatever_its_name(stem, tmp_path):
    """Also beside a file of that name in another folder, and a module of the library or ours."""
    modules = {name: sys.modules.get(name) for name in ("json", "tasks")}
    for name in ("a", "b"):
        file = write(tmp_path / name, stem)
        record = resolve(f"{file}:Record", {}, "task")
        assert resolve(f"{file}:Record", {}, "task") is record
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


def test_an_error_in_a_users_file_is_no_mistake_of_the_flags(tmp_path):
    """Its traceback shows the line. Where our code finds the mistake, one line does."""
    file = tmp_path / "own.py"
    text = "from programs.rows import file_rows\ndef number(text): return int(text)\n"
    file.write_text(text + "def rows(name): return file_rows(name)\n")
    own = load_file(file)
    for call, is_told in (
        (lambda: own.number("x"), False),
        (lambda: own.rows("nowhere.csv"), False),
        (lambda: resolve("nothing", {}, "task"), True),
        (lambda: json.loads("{"), False),
        (lambda: Path("nowhere").read_bytes(), True),
        (lambda: {}["key"], False),
    ):
        with pytest.raises(Exception) as raised:  # noqa: PT011
            call()
        assert is_mistake(raised.value) == is_told


@pytest.mark.parametrize(
    ("word", "value"), [("3", 3), ("false", False), ("a=b", "a=b"), ("[1]", [1]), ("", "")]
)
def test_an_argument_of_a_task_is_json_or_text(word, value, file):
    task = make_task(options(f"{file}:Mine", "--task-arg", f"words={word}"))
    assert repr(task.words) == repr(value)


def test_flags_that_a_task_does_not_take_are_refused(file):
    for flags, error in (
        (("--task-arg", "word=3"), "unexpected keyword argument 'word'; it takes: num_agents, w"),
        (("--task-arg", "num_agents=3"), "multiple values"),
        (("--task-arg", "words=-1"), "Mine': words has to be above 0"),
        (("--data", file), "it takes no --data"),
        (("--turns", "2", "--feedback", "all"), "unknown --feedback 'all'; .* has: none"),
    ):
        with pytest.raises(ValueError, match=error):
            make_task(options(f"{file}:Mine", *flags))


def test_a_task_id_is_written_as_a_text_where_json_cannot_hold_it():
    assert json_line({"task_id": np.int64(3)}) == '{"task_id": "3"}\n'


RETURNED = [  # what a reward returns: its parts, or what is wrong with it
    ("0.5", {"reward": 0.5}),
    ("{'a': np.float32(0.25), 'agent/1': 0.5}", {"a": 0.25, "agent/1": 0.5}),
    ("{}", {}),
    ("1", "above its maximum of 0.5"),
    ("{'a': 0.3, 'agent/1': 0.6}", "above its maximum"),
    ("float('nan')", "returned nan, which is not finite"),
    ("{'metric/a': float('inf')}", "not finite"),
    ("None", "returned None, which is neither a number nor a dict"),
    ("{'a': 'b'}", "neither a number"),
    ("{'agent/2': 0.1}", "in a team of 2"),
]


@pytest.mark.parametrize(("returns", "want"), RETURNED)
def test_what_a_reward_returns_is_checked(returns, want, file):
    scorer = Scorer(find_reward(make_task(options(f"{file}:Mine"))))
    assert repr(scorer.maximum) == "0.5"
    joints = [({"returns": returns}, ["x", "y"])]
    if isinstance(want, str):
        with pytest.raises(ValueError, match=f"{want}.*, for item .* and responses .'x', 'y'"):
            scorer(joints)
    else:
        assert scorer(joints) == [want]


def test_an_error_of_a_reward_is_its_own_with_what_it_was_given(file):
    scorer = Scorer(find_reward(make_task(options(f"{file}:Mine"))))
    with pytest.raises(KeyError, match="gone") as raised:
        scorer([({"returns": "{}['gone']"}, ["x", "y"])])
    assert raised.value.__notes__[0].startswith("(the reward, for item {'returns': ")
    assert not is_mistake(raised.value)


@pytest.mark.parametrize(("texts", "error"), [("ab", "not 'ab'"), (["a"], r"2 texts, not \['a'\]")])
def test_feedback_of_another_length_is_refused(texts, error, file):
    task = make_task(options(f"{file}:Mine"))
    scorer = Scorer(find_reward(task))
    item = {"task_id": 1}
    assert scorer.outcomes(task, [(item, [["c", "d"], "b"])]) == [(item, ["c", "d"])]
    with pytest.raises(ValueError, match=error):
        scorer.outcomes(task, [(item, [texts, "b"])])


def test_a_call_has_a_limit_of_its_own(file, monkeypatch):
    """The calls behind it have not begun, and are not made."""
    monkeypatch.setattr(reward_runner, "LIMIT", 0.2)
    scorer = Scorer(find_reward(make_task(options(f"{file}:Mine"))))
    late = {"returns": "__import__('time').sleep(1)"}
    with pytest.raises(ValueError, match=r"the reward did not answer within 0 s\n.*'x', 'y'"):
        scorer([(late, ["x", "y"])])
