"""The world of the building tasks, their data sets, prompts and rewards. pytest test_building.py

The values of the published rewards are those that the authors' own simulator and scorer gave for
the same teams.
"""

import time

import pytest
from helpers import total

from examples.building import houses, letters, rewards
from examples.building.tasks import HouseBuild, StrBuild
from examples.building.world import Rules, build

STRINGS = StrBuild().items("train")[:8] + StrBuild().items("test")[:2]  # the authors'
HOUSES = HouseBuild().items("train")[:8] + HouseBuild().items("test")[:2]
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


def goal(item) -> list[tuple]:
    return sorted(letters.cells(item["rows"]))


def checkered(cells, *palette) -> str:
    """Return /setblock lines that take turns with the blocks of a palette."""
    return "\n".join(f"/setblock {x} {y} {z} {palette[(x + y + z) % 2]}" for x, y, z in cells)


def fill(rectangles) -> str:
    lines = [" ".join(map(str, ["/fill", *low, *high, block])) for low, high, block in rectangles]
    return "\n".join(lines)


def halves(item) -> list[str]:
    """Each agent builds half of a string."""
    cells = goal(item)
    half = len(cells) // 2
    return [checkered(cells[:half], OAK, STONE), checkered(cells[half:], WHITE, BLACK)]


def in_turn(item) -> list[str]:
    """Each agent builds every other cell of each block of a house, and the first one kills."""
    cells = sorted(houses.target(item).items(), key=lambda pair: (pair[1], pair[0]))
    texts = [fill((cell, cell, block) for cell, block in cells[agent::2]) for agent in (0, 1)]
    return ["/kill\n" + texts[0], texts[1]]


def in_layers(item) -> list[str]:
    """The first agent kills and builds three layers, the second the others."""
    low, high = [], []
    for part in houses.rectangles(item):
        (low if part[0][1] < 3 else high).append(part)
    return ["/kill\n" + fill(low), fill(high)]


@pytest.mark.parametrize(
    "text",
    [
        "  SetBlock 1 2 3 minecraft:stone\r",
        "- /setblock 1 2 3 stone",
        "/fill 1 2 3 1 2 3 stone",
        "/setblock 9 9 9 stone\n```mcfunction\n/setblock 1 2 3 stone\n```\n/setblock 0 0 0 stone",
        "one fence ``` is none\n/setblock 1 2 3 stone",
        "/setblock 1 2 3 wood\n/setblock 1 2 3 stone",
        "/fill 1 2 3 2 2 3 stone\n/fill 2 2 3 2 2 3 air",
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


def doubled(item) -> list[str]:
    """Both agents build the whole string."""
    return [checkered(goal(item), OAK, STONE), checkered(goal(item), WHITE, BLACK)]


@pytest.mark.parametrize(
    ("name", "items", "team", "strict", "paper"),  # the least and the largest of the ten
    [
        ("strbuild", STRINGS, lambda item: ["", ""], "0.00 0.00", "-0.50 -0.50"),
        ("strbuild", STRINGS, doubled, "0.00 0.00", "1.75 1.75"),
        ("strbuild", STRINGS, halves, "1.00 1.00", "2.00 2.00"),
        ("housebuild", HOUSES, lambda item: ["/kill", ""], "0.00 0.00", "0.29 0.50"),
        ("housebuild", HOUSES, in_layers, "0.71 0.84", "0.82 0.92"),
        ("housebuild", HOUSES, in_turn, "1.00 1.00", "1.00 1.00"),
    ],
)
def test_what_teams_by_hand_earn(name, items, team, strict, paper):
    for reward, wanted in ((name, strict), (f"{name}_paper", paper)):
        values = [total(getattr(rewards, reward)(item, team(item))) for item in items]
        assert f"{min(values):.2f} {max(values):.2f}" == wanted


def test_a_string_is_paid_by_its_cells_and_by_its_least_useful_agent():
    item, cells = STRINGS[0], goal(STRINGS[0])
    outside = next((x, 1, 0) for x in range(5) if (x, 1, 0) not in cells)
    size = len(cells)
    half = size // 2
    for first, second, value in (
        (cells[:half], cells[half:-1], 1 - 1 / size),
        ([*cells[:half], outside], cells[half:], size / (size + 1)),
        (cells[:1], cells[1:], 4 / size),  # one cell, of the quarter that each has to add
    ):
        texts = [checkered(first, OAK, STONE), checkered(second, WHITE, BLACK)]
        assert total(rewards.strbuild(item, texts)) == pytest.approx(value, **EXACT)
    x, y, z = next(cell for cell in cells if (cell[0] + 1, *cell[1:]) in cells)
    for block, right in ((STONE, 2), (OAK, 0)):  # equal neighbours are wrong
        text = checkered([(x, y, z), (x + 1, y, z)], OAK, block)
        assert rewards.strbuild(item, [text, ""])["metric/iou"] == pytest.approx(right / size)


@pytest.mark.parametrize(
    ("spiders", "kills", "value"),
    [([], 0, 1.0), ([], 1, 0.9), ([1], 1, 1.0), ([1], 2, 0.9), ([1], 0, 0.98), ([3, 3], 0, 0.9)],
)
def test_spiders_and_needless_kills_cost_a_tenth(spiders, kills, value):
    house = HOUSES[0] | {"spiders": spiders}
    texts = [text.removeprefix("/kill\n") for text in in_turn(house)]
    texts = ["/kill\n" * (agent < kills) + text for agent, text in enumerate(texts)]
    assert total(rewards.housebuild(house, texts)) == pytest.approx(value, **EXACT)


def test_more_commands_than_are_read_earn_nothing():
    idle = "/setblock 0 0 0 air\n" * 300
    assert total(rewards.strbuild(STRINGS[0], [idle + text for text in halves(STRINGS[0])])) == 0


def test_later_turns_show_the_own_commands_and_never_the_partners():
    task = StrBuild(feedback="position_feedback")
    mine, theirs = "/setblock 0 0 0 oak_planks", "/setblock 1 0 0 obsidian"
    response = f"Here:\n{mine}\nnonsense"
    told = task.feedback(STRINGS[8], [response, theirs])
    text = task.observe(0, STRINGS[8], [(response, told[0])])
    assert text.startswith(task.observe(0, STRINGS[8], []).removesuffix("\nCommands:\n"))
    assert "Turn 2. " in text
    assert mine in text
    assert "nonsense" not in text
    assert theirs not in text
    told = HouseBuild(feedback="score_feedback").feedback(HOUSES[0], in_turn(HOUSES[0]))
    assert told[0].startswith("Your team's reward was 1.0000.")
