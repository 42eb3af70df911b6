"""The world of the building tasks, their data sets and rewards. pytest tests/test_building.py

The values of the published rewards are those that the authors' own simulator and scorer gave for
the same teams.
"""

import time
from pathlib import Path

import building_teams as teams
import pytest
from helpers import total

from examples.building import houses, letters, rewards
from examples.building.tasks import HouseBuild, StrBuild
from examples.building.world import Rules, build

STRINGS, HOUSES = teams.published(StrBuild()), teams.published(HouseBuild())
(OAK, STONE), (WHITE, BLACK) = letters.PALETTES
EXACT = {"abs": 1e-9, "rel": 0}


BOX = Rules(
    (6, 7, 7),
    (frozenset({"stone", "wood"}), frozenset({"glass"})),
    300,
    target={},
    commands={"setblock", "fill", "kill"},
    material={},
    standing={},
)


def blocks(text: str) -> dict:
    return {cell: block for cell, (block, _) in build(BOX, [text, ""]).cells.items()}


@pytest.mark.parametrize(
    "text",
    [
        "  SetBlock 1 2 3 minecraft:stone\r",
        "- /setblock 1 2 3 stone",
        "/fill 1 2 3 1 2 3 stone",
        "/setblock 9 9 9 stone\n```mcfunction\n/setblock 1 2 3 stone\n```\n/setblock 0 0 0 stone",
        "one fence ``` is none\n/setblock 1 2 3 stone",
    ],
)
def test_a_command_is_found_in_what_stands_around_it(text):
    assert blocks(text) == {(1, 2, 3): "stone"}


@pytest.mark.parametrize(
    "line",
    [
        "I would /setblock 1 2 3 stone",
        "/setblock ~1 2 3 stone",
        "/setblock \u0661 2 3 stone",  # an Arabic digit, which int() would read
        "/setblock 1 2 3",
        "/setblock 1 2 3 glass",  # the partner's
        "/setblock 1 2 3 dirt",  # nobody's
        "/setblock 6 2 3 stone",
        "/setblock " + "9" * 5000 + " 2 3 stone",  # more digits than int() takes
        "/fill 0 0 0 1000 1000 1000 stone",  # 10^9 cells
        "/give 1 2 3 stone",
        "\x00/",
    ],
)
def test_what_is_no_command_is_ignored(line):
    assert blocks(f"{line}\n/setblock 0 0 0 wood") == {(0, 0, 0): "wood"}


@pytest.mark.parametrize("text", ["```" * 100_000, "1. " * 100_000, "/fill " * 50_000])
def test_any_text_is_read_in_linear_time(text):
    start = time.process_time()
    build(BOX, [text, text])
    assert time.process_time() - start < 1.5


@pytest.mark.parametrize(
    ("kind", "field", "sizes"),
    [(StrBuild, "rows", [1000, 100, 100]), (HouseBuild, "layers", [996, 100, 99])],
)  # four houses of train and one of test are published twice
def test_the_splits_share_nothing_and_are_the_same_every_time(kind, field, sizes):
    items = [kind().items(split) for split in ("train", "dev", "test")]
    targets = [{str(item[field]) for item in split} for split in items]
    assert [len(split) for split in targets] == sizes
    assert len(set.union(*targets)) == sum(sizes)
    assert items[1] == kind().items("dev")
    assert len({item["task_id"] for split in items for item in split}) == 1200


def test_teams_by_hand_earn_what_the_docs_say():
    """The values of the published rewards there are those of the authors' own scorer."""
    docs = (Path(__file__).parents[2] / "docs/results/strbuild.md").read_text()
    for name, items, by_hand in (
        ("strbuild", STRINGS, teams.LETTERS),
        ("housebuild", HOUSES, teams.HOUSES),
    ):
        for team, answer in by_hand.items():
            cells = [team]
            for reward in (getattr(rewards, name), getattr(rewards, f"{name}_paper")):
                values = [total(reward(item, answer(item))) for item in items]
                low, high = f"{min(values):.2f}", f"{max(values):.2f}"
                cells.append(low if low == high else f"{low} to {high}")
            assert f"| {' | '.join(cells)} |" in docs


def test_a_string_is_paid_by_its_cells_and_by_its_least_useful_agent():
    item, goal = STRINGS[0], teams.targets(STRINGS[0])
    outside = next(cell for cell in teams.box(item) if cell not in goal)
    size = len(goal)
    half = size // 2
    for first, second, value in (
        (goal[:half], goal[half:-1], 1 - 1 / size),
        ([*goal[:half], outside], goal[half:], size / (size + 1)),
        (goal[:1], goal[1:], 4 / size),  # one cell, of the quarter that each has to add
    ):
        texts = [teams.checkered(first, OAK, STONE), teams.checkered(second, WHITE, BLACK)]
        assert total(rewards.strbuild(item, texts)) == pytest.approx(value, **EXACT)


def test_equal_neighbours_are_wrong():
    goal = teams.targets(STRINGS[0])
    x, y, z = next(cell for cell in goal if (cell[0] + 1, *cell[1:]) in goal)
    for block, right in ((STONE, 2), (OAK, 0)):
        text = teams.checkered([(x, y, z), (x + 1, y, z)], OAK, block)
        parts = rewards.strbuild(STRINGS[0], [text, ""])
        assert parts["metric/iou"] == pytest.approx(right / len(goal), **EXACT)


@pytest.mark.parametrize(
    ("spiders", "kills", "value"),
    [([], 0, 1.0), ([], 1, 0.9), ([1], 1, 1.0), ([1], 2, 0.9), ([1], 0, 0.98), ([3, 3], 0, 0.9)],
)
def test_spiders_and_needless_kills_cost_a_tenth(spiders, kills, value):
    house = HOUSES[0] | {"spiders": spiders}
    texts = ["/kill\n" * (agent < kills) + teams.cells_in_turn(house, agent) for agent in (0, 1)]
    assert total(rewards.housebuild(house, texts)) == pytest.approx(value, **EXACT)


def test_the_last_block_of_a_cell_stays_and_air_takes_it_away():
    assert blocks("/setblock 0 0 0 stone\n/setblock 0 0 0 wood") == {(0, 0, 0): "wood"}
    assert blocks("/fill 0 0 0 2 0 0 stone\n/fill 1 0 0 2 0 0 air") == {(0, 0, 0): "stone"}
    texts = ["/setblock 0 0 0 stone", "/setblock 0 0 0 glass"]
    assert build(BOX, texts).cells == {(0, 0, 0): ("glass", 1)}


def test_the_whole_box_and_more_commands_than_are_read_earn_nothing():
    """The docs have other hacks (building_teams.py)."""
    whole = "\n".join(f"/fill 0 0 0 5 6 6 {block}" for block in houses.INVENTORY.values())
    for item in [*STRINGS, *HOUSES]:
        reward, team = rewards.housebuild, teams.HOUSES["cells in turn"]
        if "rows" in item:
            reward, team = rewards.strbuild, teams.LETTERS["each a half of the targets, checkered"]
        idle = "/setblock 0 0 0 air\n/fill 0 0 0 0 0 0 air\n" * 300
        assert total(reward(item, [idle + text for text in team(item)])) == 0
        assert total(reward(item, [whole, whole])) == 0
