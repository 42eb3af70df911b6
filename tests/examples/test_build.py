"""Task build, the embedded team's second problem: python -m pytest tests/test_build.py"""

import itertools
import json
import random

import helpers
import pytest
from transformers import AutoModelForCausalLM, AutoTokenizer

import eval as evaluation
import train
from examples.building import blocks, rewards
from examples.building.tasks import Build
from examples.building.world import build
from examples.warm_start import builders

TASK, BUILD = Build(), Build.model
DEV = TASK.items("dev")


def pay(item: dict, *responses: str) -> float:
    parts = rewards.build_together(item, list(responses))
    return sum(value for name, value in parts.items() if "/" not in name)


def grid(item: dict) -> list[list[str]]:
    """The target, by a computation of this file."""
    rows = [["air"] * 6 for _ in range(6)]
    for x1, y1, x2, y2, color in item["rectangles"]:
        for y, x in itertools.product(range(y1, y2 + 1), range(x1, x2 + 1)):
            assert rows[y][x] == "air"  # no two of them overlap
            rows[y][x] = color
    return rows


def test_no_agent_has_the_material_for_three_quarters():
    for split in ("train", "dev", "test"):
        for item in TASK.items(split):
            total = sum(cell != "air" for row in grid(item) for cell in row)
            largest = max((x2 - x1 + 1) * (y2 - y1 + 1) for x1, y1, x2, y2, _ in item["rectangles"])
            material = blocks.rules(item, 2).material[""]
            assert 0.6 * total <= material <= 0.7 * total
            assert 2 * material >= total + largest  # enough to begin at the two ends
            assert blocks.rules(item, 1).material == {"": total}
            TASK.check(json.loads(json.dumps(item)))  # as --ask has it


def test_the_splits_share_no_target():
    layouts = {}
    for split in ("train", "dev", "test"):
        found = [tuple(sorted(one[:4] for one in i["rectangles"])) for i in TASK.items(split)]
        layouts[split] = set(found)
    for one, other in itertools.combinations(layouts.values(), 2):
        assert not one & other
    # The warm start's are those of train, also in other colours and in another order.
    starts = itertools.islice(blocks.problems("train", "/warm start 0"), 500)
    made = {tuple(sorted(one[:4] for one in rectangles)) for rectangles in starts}
    assert not made & (layouts["dev"] | layouts["test"])


def test_items_are_always_the_same():
    assert Build().items("dev") == DEV
    assert len({json.dumps(sorted(item["rectangles"])) for item in DEV}) == 100


GOOD = [[3, 0, 3, 3, "tan"], [0, 2, 0, 5, "green"], [1, 0, 2, 1, "green"], [1, 5, 3, 5, "pink"]]


def test_ask_refuses_what_is_no_target(capsys):
    wrong_ones = ([1, 5, 3, 5], [0, 0, 6, 0, "red"], 5, ["a", 0, 1, 1, "red"])
    for rectangles, wrong in ((None, []), (5, 5), *(([*GOOD, one], one) for one in wrong_ones)):
        item = json.dumps({"rectangles": rectangles})
        said = helpers.refused(capsys, "--task", "build", "--ask", item, program=evaluation)
        assert f"task build: {wrong} is no [x1, y1, x2, y2, colour], 0 <= x1" in said


def test_ask_lets_the_team_build_a_target_of_the_user_s(capsys):
    evaluation.main(["--task", "build", "--ask", json.dumps({"rectangles": GOOD})])
    assert "/fill 3 0 3 3 tan" in capsys.readouterr().out


def test_the_prompt_lists_what_builds_the_target_and_tells_no_role():
    item = DEV[0]
    assert TASK.observe(0, item, []) == TASK.observe(1, item, [])
    alone = Build(num_agents=1).observe(0, item, []).splitlines()[-1]
    assert alone == f"# {len(blocks.target(item))} blocks"
    head, *lines, team = TASK.observe(0, item, []).splitlines()
    assert head == "# a picture to build"
    assert len(lines) == len(item["rectangles"])
    built = build(blocks.rules(item, 1), ["\n".join(lines)])
    rows = grid(item)
    assert all(built.block((x, y)) == rows[y][x] for x, y in itertools.product(range(6), range(6)))
    assert team == f"# 2 agents, {blocks.rules(item, 2).material['']} blocks each"


def test_the_same_list_twice_is_worth_nothing_and_opposite_orders_everything():
    for item in DEV:
        order = item["rectangles"]
        assert pay(item, blocks.listed(order), blocks.listed(order)) == 0.0
        assert pay(item, blocks.listed(order), blocks.listed(order[::-1])) == pytest.approx(1.0)
        assert pay(item, "", "") == 0.0
        assert pay(item, item["solution"]) == 1.0  # one agent with all the material
    for item in DEV[:20]:  # and what one agent of two builds is 0, however its material cuts it
        for order in itertools.permutations(item["rectangles"]):
            parts = rewards.build_together(item, [blocks.listed(order), ""])
            assert parts["building"] == 0.0
            assert parts["metric/iou"] <= 0.7


def test_wrong_cells_are_counted_against_it():
    """Against what the docstring of examples/building/rewards.py says, computed here."""
    rng = random.Random(0)
    author = builders.Author(1)
    for item in DEV[:40]:
        responses = [author.response(item) for _ in range(2)]
        responses[0] += f"\n/fill {rng.randrange(6)} 0 5 0 red"  # spoils some of it
        wanted = {(x, y): c for y, row in enumerate(grid(item)) for x, c in enumerate(row)}
        wanted = {cell: color for cell, color in wanted.items() if color != "air"}

        def value(texts, item=item, wanted=wanted):
            cells = build(blocks.rules(item, 2), texts).cells
            right = sum(cell in cells and cells[cell][0] == c for cell, c in wanted.items())
            return right / len(wanted.keys() | cells.keys())

        both = value(responses)
        spare = 1 - blocks.rules(item, 2).material[""] / len(wanted)
        lost = min(both - value(["", responses[1]]), both - value([responses[0], ""]))
        assert pay(item, *responses) == pytest.approx(max(0.0, min(both, lost / spare)))


def test_the_world_stays_and_the_next_turn_is_about_what_is_left():
    item = DEV[0]
    one, *rest = item["rectangles"]
    texts = [blocks.listed([one]) + "\n/setblock 0 0 red", ""]
    assert grid(item)[0][0] == "air"
    after = TASK.advance(item, texts)
    assert "standing" not in item
    told = TASK.feedback(item, texts)
    assert told == [f"# {len(blocks.cells(one))} of {len(blocks.target(item))} cells are right"] * 2
    lines = TASK.observe(0, after, [(texts[0], told[0])]).splitlines()
    assert lines[1:-2] == blocks.listed([*rest, (0, 0, 0, 0, "air")]).split("\n")
    assert lines[-2] == told[0]
    clear = "\n/fill 0 0 0 0 air"
    assert pay(after, blocks.listed(rest) + clear, blocks.listed(rest[::-1])) == pytest.approx(1.0)
    assert pay(after, blocks.listed(rest), blocks.listed(rest[::-1])) < 1.0
    assert pay(after, blocks.listed(rest), blocks.listed(rest)) == 0.0
    done = TASK.advance(after, [blocks.listed(rest) + clear, blocks.listed(rest[::-1])])
    assert blocks.left(done) == []
    assert pay(done, "", "") == 1.0  # nothing is left to do
    assert pay(done, "/fill 0 0 0 0 red", "") == 1.0  # nor is there material for it
    assert pay(done, "/fill 0 0 5 5 air", "") == 0.0
    *most, last = rest  # one agent has material for the last rectangle, whichever it is
    almost = TASK.advance(after, [blocks.listed(most) + clear, blocks.listed(most[::-1])])
    assert pay(almost, blocks.listed([last]), "") == pay(almost, "", blocks.listed([last])) == 1.0


def test_it_copies_rectangles():
    """Greedily, of held-out problems: every command is one of the target's."""
    model = AutoModelForCausalLM.from_pretrained(BUILD).eval()
    tokenizer = AutoTokenizer.from_pretrained(BUILD)
    for item in DEV[:5]:
        ids = tokenizer(TASK.observe(0, item, []), return_tensors="pt").input_ids
        new = model.generate(ids, max_new_tokens=60, do_sample=False)[0, ids.shape[1] :]
        text = tokenizer.decode(new, skip_special_tokens=True)
        assert sorted(text.split("\n")) == sorted(item["solution"].split("\n"))


@pytest.mark.slow
def test_a_team_learns_to_divide_the_work(tmp_path):
    train.main(["--task", "build", "--max-steps", "60", "--run", str(tmp_path / "run")])
    found = json.loads((tmp_path / "run" / "summary.json").read_text())
    before, after = found["before"], found["after"]
    assert before["greedy/return"] < 0.1
    assert before["greedy/metric/twice"] > 0.9
    assert after["return"] > before["return"] + 0.25
    assert after["metric/twice"] < before["metric/twice"] / 2
