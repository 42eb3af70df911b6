"""examples/gym.py, where reasoning-gym is installed: python -m pytest tests/examples/test_gym.py"""

import re
import sys

import pytest
from helpers import ROOT, refused

from training.plugins import TaskOptions, find_reward, make_task

GYM = f"{ROOT}/examples/gym.py:Gym"


def task(agents: int = 1, **words):
    pytest.importorskip("reasoning_gym")
    return make_task(TaskOptions(GYM, agents, None, None, None, words))


def test_without_the_package_there_is_one_line(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "reasoning_gym", None)
    line = refused(capsys, "--task", GYM, "--task-arg dataset=gcd")
    assert "examples/gym.py needs pip install reasoning-gym==0.1.25" in line


@pytest.mark.parametrize("dataset", ["basic_arithmetic", "leg_counting"])
def test_the_solutions_of_a_data_set_earn_everything(dataset):
    gym = task(dataset=dataset, size=20)
    reward = find_reward(gym)
    splits = [gym.items(split) for split in ("train", "dev", "test")]
    questions = [{item["prompt"] for item in items} for items in splits]
    assert splits[0] == gym.items("train")
    assert len(splits[0]) == 20
    assert 0 < len(splits[1]) <= 4
    assert not questions[0] & (questions[1] | questions[2])
    assert not questions[1] & questions[2]
    for item in splits[0]:
        answer = item["entry"]["answer"]
        for text in (answer, f"so <answer> {answer} </answer>."):
            assert reward(item, [text]) == {"score": 1.0, "metric/pass": 1.0}
        assert reward(item, ["I do not know"])["score"] < 1


def test_the_planner_is_asked_for_a_hint_and_the_solver_reads_it():
    gym = task(2, size=5)
    [item, *_] = gym.items("train")
    reward = find_reward(gym)
    assert (gym.speakers(item, 0), gym.speakers(item, 1)) == ([0], [1])
    assert item["prompt"] in gym.observe(0, item, [])
    assert reward(item, ["a hint", ""]) == {}
    later = gym.advance(item, ["a hint", ""])
    assert item["prompt"] in gym.observe(1, later, [])
    assert "a hint" in gym.observe(1, later, [])
    solved = ["", item["entry"]["answer"]]
    assert reward(later, solved)["score"] == 1
    assert gym.advance(later, solved) is None  # a third turn would score the planner


@pytest.mark.parametrize(
    ("words", "error"),
    [
        ({"dataset": "nope"}, "refuses nope with {}: Dataset 'nope' not registered"),
        ({"config": {"max_terms": 1}}, "max_terms must be >= min_terms"),
        ({"dataset": "countdown"}, "countdown does not compare answers as texts"),
    ],
)
def test_a_data_set_is_refused_in_one_line(words, error):
    with pytest.raises(ValueError, match=re.escape(error)):
        task(**words)
