"""Task Build, the embedded team's second problem: python -m pytest tests/examples/test_build.py"""

import itertools

import pytest
from helpers import read_json, total, train_run

from examples.building import blocks, pictures, rewards
from examples.building.tasks import Build
from examples.building.world import build

TASK = Build()
DEV = TASK.items("dev")


def pay(item: dict, *responses: str) -> float:
    return total(rewards.build_together(item, list(responses)))


def grid(item: dict) -> list[list[str]]:
    """The target, by a computation of this file."""
    rows = [["air"] * 6 for _ in range(6)]
    for x1, y1, x2, y2, color in item["rectangles"]:
        for y, x in itertools.product(range(y1, y2 + 1), range(x1, x2 + 1)):
            assert rows[y][x] == "air"  # no two of them overlap
            rows[y][x] = color
    return rows


def layouts(rectangle_lists) -> set[tuple]:
    """Targets, whatever their colours and the order of their rectangles."""
    return {tuple(sorted(one[:4] for one in rectangles)) for rectangles in rectangle_lists}


def test_the_splits_share_no_target_and_no_agent_has_the_material_for_three_quarters():
    splits = [TASK.items(split) for split in ("train", "dev", "test")]
    for item in [*splits[0][:200], *splits[1], *splits[2]]:
        cells = sum(cell != "air" for row in grid(item) for cell in row)
        largest = max((x2 - x1 + 1) * (y2 - y1 + 1) for x1, y1, x2, y2, _ in item["rectangles"])
        material = blocks.rules(item, 2).material[""]
        assert 0.6 * cells <= material <= 0.7 * cells
        assert 2 * material >= cells + largest  # enough to begin at the two ends
        assert blocks.rules(item, 1).material == {"": cells}
    learned, dev, test = (layouts(item["rectangles"] for item in items) for items in splits)
    assert len(dev) == 100
    warm_start = layouts(itertools.islice(blocks.problems("train", "/warm start 0"), 500))
    assert not (learned | warm_start) & (dev | test)
    assert not dev & test


def test_the_prompt_lists_what_builds_the_target_and_tells_no_role():
    item = DEV[0]
    assert TASK.observe(0, item, []) == TASK.observe(1, item, [])
    head, *lines, team = TASK.observe(0, item, []).splitlines()
    assert len(lines) == len(item["rectangles"])
    built = build(blocks.rules(item, 1), ["\n".join(lines)])
    rows = grid(item)
    assert all(built.block((x, y)) == rows[y][x] for x, y in itertools.product(range(6), range(6)))
    assert team == f"# 2 agents, {blocks.rules(item, 2).material['']} blocks each"
    alone = Build(num_agents=1).observe(0, item, []).splitlines()
    assert alone == [head, *lines, f"# {len(blocks.target(item))} blocks"]


def test_the_same_list_twice_is_worth_nothing_and_opposite_orders_everything():
    for item in DEV:
        order = item["rectangles"]
        twice = rewards.build_together(item, [blocks.listed(order)] * 2)
        assert (twice["building"], twice["metric/twice"], twice["metric/built/0"]) == (0, 1, 0)
        assert twice["metric/built/1"] == twice["metric/iou"] < 0.71
        assert pay(item, blocks.listed(order), blocks.listed(order[::-1])) == pytest.approx(1.0)
        assert pay(item, "", "") == 0.0
        assert pay(item, item["solution"]) == 1.0  # one agent with all the material
    for order in itertools.permutations(DEV[0]["rectangles"]):  # one agent of two
        parts = rewards.build_together(DEV[0], [blocks.listed(order), ""])
        assert parts["building"] == 0.0
        assert parts["metric/iou"] <= 0.7


def test_the_world_stays_and_the_next_turn_is_about_what_is_left():
    item = DEV[0]
    first, *rest = item["rectangles"]
    texts = [blocks.listed([first]) + "\n/setblock 0 0 red", ""]
    assert grid(item)[0][0] == "air"
    after = TASK.advance(item, texts)
    assert "standing" not in item
    told = TASK.feedback(item, texts)
    right = f"# {len(blocks.cells(first))} of {len(blocks.target(item))} cells are right"
    assert told == [right] * 2
    prompt = TASK.observe(0, after, [(texts[0], told[0])])
    left = blocks.listed([*rest, (0, 0, 0, 0, "air")])
    assert f"\n{left}\n{told[0]}\n" in prompt
    ahead, backwards = blocks.listed(rest), blocks.listed(rest[::-1])
    clear = "\n/fill 0 0 0 0 air"
    assert pay(after, ahead + clear, backwards) == pytest.approx(1.0)
    assert pay(after, ahead, backwards) < 1.0
    assert pay(after, ahead, ahead) == 0.0
    done = TASK.advance(after, [ahead + clear, backwards])
    assert blocks.left(done) == []
    assert pay(done, "", "") == 1.0
    assert pay(done, "/fill 0 0 5 5 air", "") == 0.0


@pytest.mark.slow
def test_a_team_learns_to_divide_the_work(tmp_path):
    run = train_run(tmp_path / "run", "--task examples.building.tasks.Build --max-steps 60")
    summary = read_json(run / "summary.json")
    before, after = summary["before"], summary["after"]
    assert before["greedy/metric/twice"] > 0.9
    assert after["return"] > before["return"] + 0.25
    assert after["metric/twice"] < before["metric/twice"] / 2
    pictures.draw_run(run)
    assert (run / "build.png").read_bytes()[1:4] == b"PNG"
