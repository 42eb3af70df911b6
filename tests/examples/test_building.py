"""The world of the building tasks, their data sets, prompts and rewards. pytest test_building.py

The values of the published rewards are those that the authors' own simulator and scorer gave for
the same teams.
"""

import time

import pytest
from helpers import SMALL, read_json, total, train_run

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


def layers(item, *agents) -> list[str]:
    """Each agent builds the layers of its range, and the first one kills."""
    texts = []
    for numbers in agents:
        texts.append(fill(part for part in houses.rectangles(item) if part[0][1] in numbers))
    return ["/kill\n" + texts[0], texts[1]]


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


@pytest.mark.parametrize(
    ("name", "items", "team", "strict", "paper"),  # the least and the largest of the ten
    [
        ("strbuild", STRINGS, lambda item: ["", ""], "0.00 0.00", "-0.50 -0.50"),
        (
            "strbuild",
            STRINGS,
            lambda item: [checkered(goal(item), OAK, STONE), checkered(goal(item), WHITE, BLACK)],
            "0.00 0.00",
            "1.75 1.75",
        ),
        ("strbuild", STRINGS, halves, "1.00 1.00", "2.00 2.00"),
        ("housebuild", HOUSES, lambda item: ["/kill", ""], "0.00 0.00", "0.29 0.50"),
        (
            "housebuild",
            HOUSES,
            lambda item: layers(item, range(7), range(7)),
            "0.00 0.00",
            "0.76 0.86",
        ),
        (
            "housebuild",
            HOUSES,
            lambda item: layers(item, range(3), range(3, 7)),
            "0.71 0.84",
            "0.82 0.92",
        ),
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


@pytest.mark.parametrize(
    ("reward", "items", "team"),
    [(rewards.strbuild, STRINGS, halves), (rewards.housebuild, HOUSES, in_turn)],
)
def test_the_whole_box_and_more_commands_than_are_read_earn_nothing(reward, items, team):
    whole = "\n".join(f"/fill 0 0 0 5 6 6 {block}" for block in houses.INVENTORY.values())
    idle = "/setblock 0 0 0 air\n/fill 0 0 0 0 0 0 air\n" * 300
    for item in items:
        assert total(reward(item, [idle + text for text in team(item)])) == 0
        assert total(reward(item, [whole, whole])) == 0


@pytest.mark.parametrize(
    ("kind", "item", "mine", "theirs"),
    [
        (StrBuild, STRINGS[8], "/setblock 0 0 0 oak_planks", "/setblock 1 0 0 obsidian"),
        (
            HouseBuild,
            HOUSES[0],
            "/fill 0 0 1 5 0 5 white_concrete",
            "/fill 0 4 0 5 4 0 stone_stairs",
        ),
    ],
)
def test_later_turns_show_the_own_commands_and_never_the_partners(kind, item, mine, theirs):
    task = kind(feedback=kind.modes[0])
    response = f"Here:\n{mine}\nnonsense"
    told = task.feedback(item, [response, theirs])
    text = task.observe(0, item, [(response, told[0])])
    assert text.startswith(task.observe(0, item, []).removesuffix("\nCommands:\n"))
    assert "Turn 2. " in text
    assert mine in text
    assert "nonsense" not in text
    assert theirs not in text


@pytest.mark.slow
@pytest.mark.parametrize("name", ["StrBuild", "HouseBuild"])
def test_a_step_of_a_team(tmp_path, name):
    task = f"--max-prompt-tokens 4096 --task examples.building.tasks.{name}"
    line = read_json(train_run(tmp_path / "run", SMALL, task) / "metrics.jsonl")
    assert {"reward/building", "metric/built/0", "metric/built/1", "metric/twice"} <= line.keys()
