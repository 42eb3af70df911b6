"""Coop for three agents and four: its problems, its reward, its warm start. pytest"""

import itertools
import json
import random
from pathlib import Path

import pytest
from transformers import AutoTokenizer

import train
from examples.warm_start import divisions, make
from policies.finding import EMBEDDED, base_of
from rewards import code
from tasks import Coop
from tiny import problems as coop

MANY = make.TINY / "many"
HALF = make.TINY / "half"
SPLITS = ("train", "dev", "test")


def some(agents: int, count: int, split: str = "test") -> list[dict]:
    return list(itertools.islice(coop.problems(split, distinct=True, agents=agents), count))


ITEMS = {agents: some(agents, 25) for agents in (3, 4)}


def team(item: dict, order: list[str], way: str = "elements") -> list[str]:
    """A team that divides a problem; order: the helpers of its predicates and of its transform."""
    jobs = ["predicate", *["second"] * (len(order) - 2), "transform"]
    jobs = dict(zip(order, jobs, strict=True))
    if way == "lists":
        jobs = {name: job.replace("predicate", "filter") for name, job in jobs.items()}
        jobs = {name: job.replace("second", "filter second") for name, job in jobs.items()}
    helpers = [divisions.helper(jobs[name], item["parts"], name, False) for name in sorted(order)]
    return [*helpers, divisions.main_function(way, item["parts"], order)]


@pytest.mark.parametrize("agents", [3, 4])
def test_splits_hold_compositions_of_their_own(agents):
    """Whichever of two predicates comes first."""
    found = {}
    for split in SPLITS:
        named = coop._compositions(agents)[split]
        assert {len(names) for names in named} == {4 if agents == 3 else 5}
        found[split] = {(n[0], frozenset((n[1], *n[4:])), *n[2:4]) for n in named}
    assert sum(map(len, found.values())) == len(set.union(*found.values()))
    parts = {s: {(c[0], part) for c in found[s] for part in (*c[1], *c[2:])} for s in SPLITS}
    assert parts["dev"] | parts["test"] <= parts["train"]


@pytest.mark.parametrize(("agents", "way"), [(3, "elements"), (4, "elements"), (4, "lists")])
def test_whoever_takes_which_part_earns_all_of_the_reward(agents, way):
    names = ["aux", "aux2", "aux3"][: agents - 1]
    for item, order in zip(ITEMS[agents][:2], itertools.permutations(names), strict=False):
        parts = code(item, team(item, list(order), way))
        assert sum(v for name, v in parts.items() if "/" not in name) == code.maximum, parts
        assert parts["metric/load_bearing"] == parts["metric/coop"] == 1


@pytest.mark.slow
def test_three_agents_learn_to_need_each_other(tmp_path):
    argv = ["--num-agents", "3", "--max-steps", "60", "--run", str(tmp_path / "run")]
    train.main(argv)
    found = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert found["before"]["metric/coop"] < 0.05
    assert found["after"]["metric/coop"] > 0.5


def test_who_starts_from_the_adapter():
    assert [Coop.model(agents) for agents in (1, 2)] == [None, None]
    assert [Path(Coop.model(agents)) for agents in (3, 4, 8)] == [MANY] * 3
    assert Path(base_of(MANY)).resolve() == MANY.parent
    assert train.parse(["--num-agents", "3"]).model == [str(MANY)] * 3
    assert train.parse(["--num-agents", "3", "--model", "tiny"]).model == [str(EMBEDDED)] * 3
    assert sum(path.stat().st_size for path in MANY.iterdir()) < 1_500_000


def test_which_joint_responses_are_scored_by_default():
    for argv, joint in (
        ("", "cross"),
        ("--num-agents 1", "cross"),
        ("--num-agents 3", 4),
        ("--num-agents 3 --joint cross", "cross"),
        ("--num-agents 3 --joint 64", 64),
        ("--num-agents 3 --num-generations 2", 4),
    ):
        assert train.parse(argv.split()).joint == joint


def test_four_agents_answer_what_their_role_asks():
    """Greedy, from the warm start: every helper's own name, and a solve that calls."""
    from policies.loading import load_model

    model, _ = load_model(str(MANY), 32, False)
    tokenizer, task = AutoTokenizer.from_pretrained(MANY.parent), Coop(num_agents=4)
    for agent, name in enumerate(["aux", "aux2", "aux3", "solve"]):
        said = []
        for item in random.Random(0).sample(ITEMS[4], 3):
            ids = tokenizer(task.observe(agent, item, []), return_tensors="pt")
            new = model.generate(**ids, max_new_tokens=80, do_sample=False)
            said.append(tokenizer.decode(new[0, ids.input_ids.shape[1] :]))
        assert sum(text.startswith(f"def {name}(x") for text in said) >= 2, said
