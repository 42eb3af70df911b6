"""Coop for three agents and four: its problems, its reward, its warm start. pytest"""

import itertools

import pytest
from helpers import read_json, total, train_run, words

import train
from examples.warm_start import divisions, make
from examples.warm_start import problems as coop
from policies.model_names import EMBEDDED
from rewards import code

MANY = make.TINY / "many"


def some(agents: int, count: int) -> list[dict]:
    return list(itertools.islice(coop.problems("test", distinct=True, agents=agents), count))


def team(item: dict, order: list[str], way: str) -> list[str]:
    """A team that divides a problem; order: the helpers of its predicates and of its transform."""
    job = {"elements": "predicate", "lists": "filter"}[way]
    jobs = [job, *[f"{job} second"] * (len(order) - 2), "transform"]
    helpers = []
    for name, job in sorted(zip(order, jobs, strict=True)):
        helpers.append(divisions.helper(job, item["parts"], name, False))
    return [*helpers, divisions.main_function(way, item["parts"], order)]


@pytest.mark.parametrize(("agents", "way"), [(3, "elements"), (4, "elements"), (4, "lists")])
def test_whoever_takes_which_part_earns_all_of_the_reward(agents, way):
    names = ["aux", "aux2", "aux3"][: agents - 1]
    for item, order in zip(some(agents, 2), (names, names[::-1]), strict=True):
        parts = code(item, team(item, order, way))
        assert total(parts) == code.maximum, parts
        assert parts["metric/load_bearing"] == parts["metric/coop"] == 1


@pytest.mark.slow
def test_three_agents_learn_to_need_each_other(tmp_path):
    run = train_run(tmp_path / "run", "--num-agents 3 --max-steps 60")
    found = read_json(run / "summary.json")
    assert found["before"]["metric/coop"] < 0.05
    assert found["after"]["metric/coop"] > 0.5


def test_who_starts_from_the_adapter():
    for agents, model in ((1, EMBEDDED), (2, EMBEDDED), (3, MANY), (8, MANY)):
        assert train.parse(words("--num-agents", agents)).model == [str(model)] * agents
    assert train.parse(words("--num-agents 3 --model tiny")).model == [str(EMBEDDED)] * 3


def test_which_joint_responses_are_scored_by_default():
    for argv, joint in (
        ("", "cross"),
        ("--num-agents 3", 4),
        ("--num-agents 3 --joint cross", "cross"),
        ("--num-agents 3 --num-generations 2", 4),
    ):
        assert train.parse(argv.split()).joint == joint
