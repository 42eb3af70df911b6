"""examples/gym.py, with a package of two data sets in place of reasoning-gym.

python -m pytest tests/examples/test_gym.py
"""

import re
import sys
from types import ModuleType

import pytest
from helpers import refused

from examples import gym


class ProceduralDataset(list):
    """The class whose verifier compares texts, as in the package."""

    def score_answer(self, answer, entry):
        return float(answer == entry["answer"])


class Evaluated(ProceduralDataset):
    def score_answer(self, answer, entry):
        return eval(answer)


def create_dataset(name, size, seed, lowest=0):
    assert lowest >= 0, "lowest must be >= 0"
    kind = {"sums": ProceduralDataset, "evaluated": Evaluated}[name]
    first = lowest + 45 * seed // 10_000_000  # so dev begins in the numbers of train
    numbers = range(first, first + size)
    return kind({"question": f"{n} + 1?", "answer": str(n + 1)} for n in numbers)


@pytest.fixture(autouse=True)
def package(monkeypatch):
    """Put the package where `import` finds it."""
    contents = {
        "": {"create_dataset": create_dataset},
        ".dataset": {"ProceduralDataset": ProceduralDataset},
        ".utils": {"extract_answer": lambda text: "8" if "<answer> 8 </answer>" in text else None},
    }
    for name, attributes in contents.items():
        module = ModuleType(f"reasoning_gym{name}")
        vars(module).update(attributes)
        monkeypatch.setitem(sys.modules, module.__name__, module)
    gym.make.cache_clear()


def test_an_answer_is_scored_by_the_verifier_and_no_split_holds_a_problem_of_train():
    task = gym.Gym(1, "sums", size=50, config={"lowest": 3})
    train, dev = task.items("train"), task.items("dev")
    assert [item["prompt"] for item in train[:2]] == ["3 + 1?", "4 + 1?"]
    assert not {item["prompt"] for item in train} & {item["prompt"] for item in dev}
    assert len(dev) == 5
    assert task.speakers(train[4], 0) is None
    for text, score in (("8", 1), ("So <answer> 8 </answer>.", 1), ("9", 0)):
        assert gym.verified(train[4], [text]) == {"score": score, "metric/pass": score}
    assert task.advance(train[4], ["8"]) is None


def test_the_planner_is_asked_for_a_hint_and_the_solver_ends_the_episode():
    task = gym.Gym(2, "sums", size=5)
    item = task.items("train")[4]
    assert [task.speakers(item, turn) for turn in (0, 1)] == [[0], [1]]
    assert item["prompt"] in task.observe(0, item, [])
    assert gym.verified(item, ["a hint", ""]) == {}
    later = task.advance(item, ["a hint", ""])
    assert item["prompt"] in task.observe(1, later, [])
    assert "a hint" in task.observe(1, later, [])
    assert gym.verified(later, ["", "5"])["score"] == 1
    assert task.advance(later, ["", "5"]) is None  # a third turn would score the planner


@pytest.mark.parametrize(
    ("name", "config", "error"),
    [
        ("nope", {}, "reasoning-gym refuses nope with {}: 'nope'"),
        ("sums", {"lowest": -1}, "lowest must be >= 0"),
        ("evaluated", {}, "evaluated does not compare answers as texts"),
    ],
)
def test_a_data_set_is_refused_in_one_line(name, config, error):
    with pytest.raises(ValueError, match=re.escape(error)):
        gym.Gym(1, name, config=config)


def test_without_the_package_there_is_one_line(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "reasoning_gym", None)
    line = refused(capsys, f"--task {gym.__file__}:Gym --task-arg dataset=sums")
    assert "examples/gym.py needs pip install reasoning-gym==0.1.25" in line
