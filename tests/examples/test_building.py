"""The world of the building tasks, their data sets, prompts and rewards. pytest test_building.py

The values of the published rewards are those that the authors' own simulator and scorer gave for
the same teams.
"""

import itertools

import pytest
from helpers import total

from examples.building import blocks, houses, letters, rewards
from examples.building.blocks import listed
from examples.building.tasks import Build, HouseBuild, StrBuild
from examples.building.world import Rules, build

STRINGS = StrBuild().items("train")[:8] + StrBuild().items("test")[:2]  # the authors'
HOUSES = HouseBuild().items("train")[:8] + HouseBuild().items("test")[:2]
BOX = Rules(
    (6, 7, 7),
    (frozenset({"stone", "wood"}), frozenset({"glass"})),
    300,
    target={},
    commands={"setblock", "fill", "kill"},
    material={},
    standing={},
)


def goal(item):
    return sorted(letters.cells(item["rows"]))


def checkered(*shares):
    """Each agent sets its cells of a string, in turns to its two blocks."""
    texts = []
    for cells, palette in zip(shares, letters.PALETTES, strict=True):
        lines = [f"/setblock {x} {y} {z} {palette[(x + y + z) % 2]}" for x, y, z in cells]
        texts.append("\n".join(lines))
    return texts


def halves(item):
    cells = goal(item)
    half = len(cells) // 2
    return checkered(cells[:half], cells[half:])


def in_turn(item):
    """Each agent builds every other cell of each block of a house."""
    cells = sorted(houses.target(item).items(), key=lambda pair: (pair[1], pair[0]))
    commands = [(*cell, *cell, block) for cell, block in cells]
    return [listed(commands[::2]), listed(commands[1::2])]


def in_layers(item):
    """The first agent builds three layers, the second the others."""
    low, high = [], []
    for first, last, block in houses.rectangles(item):
        (low if first[1] < 3 else high).append((*first, *last, block))
    return [listed(low), listed(high)]


FOUND = [
    "  SetBlock 1 2 3 minecraft:stone\r",
    "- /setblock 1 2 3 stone",
    "/setblock 9 9 9 stone\n```mcfunction\n/fill 1 2 3 1 2 3 stone\n```\n/setblock 0 0 0 stone",
    "one fence ``` is none\n/setblock 1 2 3 stone",
    "/setblock 1 2 3 wood\n/setblock 1 2 3 stone",
    "/fill 1 2 3 2 2 3 stone\n/fill 2 2 3 2 2 3 air",
]
IGNORED = [
    "I would /setblock 0 0 0 stone",
    "/setblock ~0 0 0 stone",
    "/setblock \u0660 0 0 stone",  # an Arabic digit, which int() would read
    "/setblock 0 0 0",
    "/setblock 1 2 3 glass",  # the partner's
    "/setblock 6 2 3 stone",
    "/setblock " + "9" * 5000 + " 2 3 stone",  # more digits than int() takes
    "/fill 0 0 0 1000 1000 1000 stone",  # 10^9 cells
    "/give 1 2 3 stone",
    "\x00/",
]


@pytest.mark.parametrize("text", FOUND + [f"{FOUND[1]}\n{line}" for line in IGNORED])
def test_what_is_a_command(text):
    assert build(BOX, [text, ""]).cells == {(1, 2, 3): ("stone", 0)}


@pytest.mark.parametrize(
    "name, items, team, strict, paper",  # the least and the largest of the ten
    [
        ("strbuild", STRINGS, lambda item: ["", ""], "0.00 0.00", "-0.50 -0.50"),
        ("strbuild", STRINGS, lambda item: checkered(*[goal(item)] * 2), "0.00 0.00", "1.75 1.75"),
        ("strbuild", STRINGS, halves, "1.00 1.00", "2.00 2.00"),
        ("housebuild", HOUSES, lambda item: ["", ""], "0.00 0.00", "0.29 0.50"),
        ("housebuild", HOUSES, in_layers, "0.71 0.84", "0.82 0.92"),
        ("housebuild", HOUSES, in_turn, "1.00 1.00", "1.00 1.00"),
    ],
)
def test_what_teams_by_hand_earn(name, items, team, strict, paper):
    kill = "/kill\n" if name == "housebuild" else ""
    for reward, wanted in ((name, strict), (f"{name}_paper", paper)):
        values = []
        for item in items:
            first, second = team(item)
            values.append(total(getattr(rewards, reward)(item, [kill + first, second])))
        assert f"{min(values):.2f} {max(values):.2f}" == wanted


def test_a_string_is_paid_by_its_cells_and_by_its_least_useful_agent():
    item, cells = STRINGS[0], goal(STRINGS[0])  # the letter I, of 13 cells
    for first, second, value in (
        (cells[:6], cells[6:-1], 12 / 13),
        ([*cells[:6], (0, 1, 0)], cells[6:], 13 / 14),
        (cells[:1], cells[1:], 4 / 13),  # one cell, of the quarter that each has to add
    ):
        assert total(rewards.strbuild(item, checkered(first, second))) == pytest.approx(value)
    own, _ = checkered([(0, 0, 0), (1, 0, 0)], [])
    for text, right in ((own, 2), (own.replace("stone", "oak_planks"), 0)):  # equal ones are wrong
        assert rewards.strbuild(item, [text, ""])["metric/iou"] == pytest.approx(right / 13)


@pytest.mark.parametrize(
    "spiders, kills, value",
    [([], 1, 0.9), ([1], 1, 1.0), ([1], 2, 0.9), ([1], 0, 0.98), ([3, 3], 0, 0.9)],
)
def test_spiders_and_needless_kills_cost_a_tenth(spiders, kills, value):
    texts = in_turn(HOUSES[0])
    for agent in range(kills):
        texts[agent] = "/kill\n" + texts[agent]
    paid = rewards.housebuild(HOUSES[0] | {"spiders": spiders}, texts)
    assert total(paid) == pytest.approx(value)


@pytest.mark.parametrize("agents", [2, 3, 4])
def test_a_team_of_any_size_earns_its_score_if_each_builds_a_part(agents):
    task = Build(num_agents=agents)
    for item in task.items("test")[:20]:
        cells = sorted(blocks.target(item).items())
        ends = [len(cells) * number // agents for number in range(agents + 1)]
        texts = []
        for start, end in itertools.pairwise(ends):
            texts.append("\n".join(f"/setblock {x} {y} {b}" for (x, y), b in cells[start:end]))
        assert rewards.build_together(item, texts)["building"] == 1
        idle = rewards.build_together(item, [*texts[:-1], ""])
        assert idle["building"] == 0 < idle["metric/iou"] < 1


def test_more_commands_than_are_read_earn_nothing():
    idle = "/setblock 0 0 0 air\n" * 300
    assert total(rewards.strbuild(STRINGS[0], [idle + text for text in halves(STRINGS[0])])) == 0


def test_later_turns_show_the_own_commands_and_never_the_partners():
    task = StrBuild()
    own, partners = "/setblock 0 0 0 oak_planks", "/setblock 1 0 0 obsidian"
    texts = [f"Here:\n{own}\nnonsense", partners]
    text = task.observe(0, STRINGS[8], [(texts[0], task.feedback(STRINGS[8], texts)[0])])
    assert f"turn 1:\n{own}\n\nTurn 2. " in text
    assert partners not in text
    task = HouseBuild()
    task.reward = "mine.py:build"
    told = task.feedback(HOUSES[0], in_turn(HOUSES[0]))
    assert told[0].startswith("Your team's reward was 0.9200.")  # its spiders live
