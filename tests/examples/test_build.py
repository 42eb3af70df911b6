"""Task Build, the embedded team's second problem: python -m pytest tests/examples/test_build.py"""

import itertools

import pytest
from helpers import total

from examples.building import blocks, rewards
from examples.building.tasks import Build
from examples.building.world import build

TASK = Build()
DEV = TASK.items("dev")
ITEM = DEV[0]


def pay(item, *responses):
    return total(rewards.build_together(item, list(responses)))


def layouts(rectangle_lists):
    """Targets, whatever their colours and the order of their rectangles."""
    return {tuple(sorted(one[:4] for one in rectangles)) for rectangles in rectangle_lists}


def test_the_splits_share_no_target_and_no_agent_has_the_material_for_three_quarters():
    splits = [TASK.items(split) for split in ("train", "dev", "test")]
    for item in [*splits[0][:200], *splits[1], *splits[2]]:
        areas = [(x2 - x1 + 1) * (y2 - y1 + 1) for x1, y1, x2, y2, _ in item["rectangles"]]
        cells = sum(areas)
        assert len(blocks.target(item)) == cells  # no two of them overlap
        assert 0.6 * cells <= blocks.rules(item, 2).material[""] <= 0.7 * cells
        assert blocks.rules(item, 1).material == {"": cells}
    learned, dev, test = (layouts(item["rectangles"] for item in items) for items in splits)
    warm_start = layouts(itertools.islice(blocks.problems("train", "/warm start 0"), 500))
    assert len(dev) == 100
    assert not (learned | warm_start) & (dev | test)
    assert not dev & test


def test_the_prompt_lists_what_builds_the_target_and_tells_no_role():
    target = blocks.target(ITEM)
    prompt = TASK.observe(0, ITEM, [])
    assert prompt == TASK.observe(1, ITEM, [])
    _, *lines, team = prompt.splitlines()
    built = build(blocks.rules(ITEM, 1), ["\n".join(lines)])
    assert {cell: block for cell, (block, _) in built.cells.items()} == target
    assert team == f"# 2 agents, {blocks.rules(ITEM, 2).material['']} blocks each"
    assert Build(num_agents=1).observe(0, ITEM, []).endswith(f"\n# {len(target)} blocks\n")


def test_the_same_list_twice_is_worth_nothing_and_opposite_orders_everything():
    for item in DEV:
        ahead, backwards = (blocks.listed(item["rectangles"][::way]) for way in (1, -1))
        twice = rewards.build_together(item, [ahead, ahead])
        assert (twice["building"], twice["metric/twice"], twice["metric/built/0"]) == (0, 1, 0)
        assert twice["metric/built/1"] == twice["metric/iou"] < 0.71
        assert pay(item, ahead, backwards) == pytest.approx(1.0)
        assert pay(item, "", "") == 0.0
        assert pay(item, item["solution"]) == 1.0  # one agent with all the material
    for order in itertools.permutations(ITEM["rectangles"]):  # one agent of two
        parts = rewards.build_together(ITEM, [blocks.listed(order), ""])
        assert parts["building"] == 0.0
        assert parts["metric/iou"] <= 0.7


def test_the_world_stays_and_the_next_turn_is_about_what_is_left():
    first, *rest = ITEM["rectangles"]
    texts = [blocks.listed([first]) + "\n/setblock 0 0 red", ""]
    assert (0, 0) not in blocks.target(ITEM)
    after = TASK.after(ITEM, texts)
    assert "standing" not in ITEM
    told = TASK.feedback(ITEM, texts)
    assert (
        told == [f"# {len(blocks.cells(first))} of {len(blocks.target(ITEM))} cells are right"] * 2
    )
    left = blocks.listed([*rest, (0, 0, 0, 0, "air")])
    assert f"\n{left}\n{told[0]}\n" in TASK.observe(0, after, [(texts[0], told[0])])
    ahead, backwards = blocks.listed(rest), blocks.listed(rest[::-1])
    cleared = ahead + "\n/fill 0 0 0 0 air"
    assert pay(after, cleared, backwards) == pytest.approx(1.0)
    assert pay(after, ahead, backwards) < 1.0
    assert pay(after, ahead, ahead) == 0.0
    done = TASK.after(after, [cleared, backwards])
    assert blocks.left(done) == []
    assert pay(done, "", "") == 1.0
    assert pay(done, "/fill 0 0 5 5 air", "") == 0.0
