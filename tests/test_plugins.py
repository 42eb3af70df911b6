"""A user's file is one module, as if it were imported, and what its functions return is checked:
python -m pytest tests/test_plugins.py
"""

import importlib
import re
import sys
from pathlib import Path

import pytest

from training import threads
from training.plugins import TaskOptions, find_reward, make_task, resolve, task_arguments, user_line
from training.reward_runner import RewardError, Scorer


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
    file.write_text("from policies.threads import TIMEOUT")
    with pytest.raises(ValueError, match=r"\(policies.threads is training.threads now\)"):
        resolve(f"{file}:reward", {}, "reward")
    file.write_text("reward = 3")
    assert resolve(f"{file}:reward", {}, "reward") == 3


# --- what a task and a reward return --------------------------------------------------------------

MINE = """
import enum, uuid
import numpy as np
from tasks import Coop
class Kind(str, enum.Enum):
    A = "a"
class Mine(Coop):
    reward = __file__ + ":reward"
    def METHOD
def reward(item, responses): return 0
reward.maximum = np.float32(0.5)
"""


def mine(folder: Path, method: str = "rest(self): pass"):
    (folder / "mine.py").write_text(MINE.replace("METHOD", method))
    return make_task(TaskOptions(f"{folder}/mine.py:Mine", 2, None, None, None, {}))


CONVERTED = [  # a method, what it is given, and what it returns in plain Python
    ("items(self, split): return [{'task_id': np.int64(7)}]", ["test"], [{"task_id": 7}]),
    ("items(self, split): return [{}, {'task_id': None}]", ["a"], [{"task_id": 1}, {"task_id": 2}]),
    ("speakers(self, item, turn): return {np.int64(1), 0}", [{}, 0], [0, 1]),
    ("observe(self, agent, item, history): return np.str_('a')", [0, {}, []], "a"),
    (
        "observe(self, agent, item, history): return [{'role': Kind.A, 'content': 'b'}]",
        [0, {}, []],
        [{"role": "a", "content": "b"}],
    ),
    ("begin(self, agent, item): return Kind.A", [0, {}], "a"),
    ("feedback(self, item, responses): return np.array(['a', 'b'])", [{}, []], ["a", "b"]),
    ("advance(self, item, responses): return {'task_id': Kind.A}", [{}, []], {"task_id": "a"}),
    ("scheme(self, item, responses): return Kind.A", [{}, []], "a"),
]


@pytest.mark.parametrize(("method", "given", "want"), CONVERTED)
def test_what_a_task_returns_becomes_plain_python(method, given, want, tmp_path):
    got = getattr(mine(tmp_path, method), method.partition("(")[0])(*given)
    assert repr(got) == repr(want)


CHANGING = [  # methods that change what they are given
    ("observe(self, agent, item, history): return item.pop('a') + history.pop()", [0]),
    ("advance(self, item, responses): return {'task_id': item.pop('a') + responses.pop()}", []),
]


@pytest.mark.parametrize(("method", "agent"), CHANGING)
def test_a_task_that_changes_an_item_or_a_history_changes_its_own_copy(method, agent, tmp_path):
    function = getattr(mine(tmp_path, method), method.partition("(")[0])
    name = "history" if agent else "responses"
    given = [*agent, {"a": "b"}, ["c"]]
    assert function(*given) == function(*given[:-1], **{name: given[-1]})
    assert given[-2:] == [{"a": "b"}, ["c"]]


REFUSED = [
    ("items(self, split): return [{}, {'task_id': uuid.UUID(int=0)}]", ["test"], "item 2: UUID"),
    ("items(self, split): return [{'task_id': '\\ud800'}]", ["test"], "item 1: .*surrogates not"),
    ("speakers(self, item, turn): return [2]", [{}, 0], "the agents are 0 to 1"),
    ("speakers(self, item, turn): return []", [{}, 0], "the agents are 0 to 1"),
    ("observe(self, agent, item, history): return '\\ud800'", [0, {}, []], "surrogates not"),
    ("observe(self, agent, item, history): return []", [0, {}, []], "chat messages.*neither"),
    ("observe(self, agent, item, history): return ['a']", [0, {}, []], "'a' is not a message"),
    ("begin(self, agent, item): return None", [0, {}], "begin has to return a text, not None"),
    ("feedback(self, item, responses): return 'ab'", [{}, []], "a list of 2 texts, not 'ab'"),
    ("feedback(self, item, responses): return ['a']", [{}, []], "every agent needs one"),
    ("feedback(self, item, responses): return ['a', None]", [{}, []], "None is not a text"),
    ("advance(self, item, responses): return item['task']", [{"task": 7}, []], "a dict or None"),
    ("scheme(self, item, responses): return 7", [{}, []], "a text or None, not 7"),
    ("ask(self, text): return text", ["a"], "a dict, not 'a'"),
    ("check(self, item): raise SystemExit", [{}], "Mine.check raised SystemExit"),
]


@pytest.mark.parametrize(("method", "given", "error"), REFUSED)
def test_a_task_that_returns_something_else_is_refused(method, given, error, tmp_path):
    function = getattr(mine(tmp_path, method), method.partition("(")[0])
    with pytest.raises((RuntimeError, ValueError), match=error):
        function(*given)


ASYNC = """
import asyncio
from tasks import Task
flying = set()
async def together(text):
    flying.add(text)
    while len(flying) < 40:
        await asyncio.sleep(0)
class Mine(Task):
    reward = "mine.py:pay"
    def items(self, split): return [{}]
    def observe(self, agent, item, history): return "a"
    async def feedback(self, item, responses):
        await together(responses[0])
        return item.get("told", responses)
async def pay(item, responses):
    await together(responses[0])
    return eval(item.get("bad", "float(responses[1])"))
pay.maximum = 99.0
"""


def test_coroutine_functions_are_awaited_all_at_once_and_fail_as_loudly(tmp_path, monkeypatch):
    """Each of the 40 calls waits for the others: no pool of threads is that large here."""
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(ASYNC, encoding="utf-8")
    task = make_task(TaskOptions("mine.py:Mine", 2, None, None, None, {}))
    scorer = Scorer(find_reward(task))
    texts = [[f"a{number}", str(number)] for number in range(40)]
    items = [{}] * 40
    scores = scorer([*zip(items, texts, strict=True)])
    assert [parts["reward"] for parts in scores] == list(range(40))
    flying = resolve("mine.py:flying", {}, "set")
    flying.clear()
    assert scorer.threads.map("feedback", task.feedback, items, texts) == texts
    for bad, error in (
        ("{}['gone']", "raised KeyError: 'gone', for item"),
        ("exit(3)", "raised RuntimeError: it raised SystemExit: 3, for item"),
        ("float('nan')", r"returned {'reward': nan}, for item"),
    ):
        with pytest.raises(RewardError, match=error):
            scorer([({"bad": bad}, texts[0])])
    flying.clear()
    monkeypatch.setattr(threads, "TIMEOUT", 0.2)
    with pytest.raises(RewardError, match="did not answer within 0 s"):
        scorer([({}, texts[0])])
    monkeypatch.undo()
    flying.update(range(40))
    with pytest.raises(
        ValueError, match=r"Mine.feedback has to return a list of 2 texts, not 'ab'"
    ):
        scorer.threads.map("feedback", task.feedback, [{"told": "ab"}], texts[:1])


def test_the_maximum_of_a_reward_becomes_plain_python(tmp_path):
    assert repr(find_reward(mine(tmp_path)).maximum) == "0.5"


# --- --task-arg -----------------------------------------------------------------------------------

TYPED = """
from __future__ import annotations
from typing import TYPE_CHECKING, Literal, Optional
if TYPE_CHECKING:
    from pandas import DataFrame
from tasks import Task
class Typed(Task):
    def __init__(
        self, data, num_agents, frame: DataFrame = None, numbers: list[int] = (),
        kind: Literal["a", 2] = "a", few: Optional[int] = None, mixed: int | str = 0, words=(),
        flag=False, free=None,
    ):
        pass
"""


@pytest.mark.parametrize(
    ("word", "text", "want"),
    [
        ("kind", "2", 2),
        ("kind", "b", "it is not Literal['a', 2]; a word may be an int"),
        ("few", "3", 3),
        ("few", "b", "it is not Optional[int]"),
        ("mixed", "3", 3),
        ("mixed", "b", "b"),
        ("flag", "true", True),
        ("free", "3", "3"),
        ("words", "3", "it is not tuple"),
        ("numbers", "3", "it is not list[int]"),
        ("frame", "3", "it is not 'DataFrame'"),
    ],
)
def test_an_argument_of_a_task_has_its_parameter_s_type(word, text, want, tmp_path):
    (tmp_path / "mine.py").write_text(TYPED)
    cls = resolve(f"{tmp_path}/mine.py:Typed", {}, "task")
    if isinstance(want, str) and want.startswith("it is not"):
        with pytest.raises(ValueError, match=re.escape(f"--task-arg {word}={text}: {want}")):
            task_arguments("typed", cls, {word: text})
    else:
        assert repr(task_arguments("typed", cls, {word: text})) == repr({word: want})
