"""The world of the building tasks, their data sets and rewards. pytest tests/test_building.py

The values of the published rewards are those that the authors' own simulator and scorer gave for
the same teams; the rest is compared with computations of this file.
"""

import dataclasses
import itertools
import random
import re
import time

import pytest

from bench import building as teams
from building import houses, letters, paper, rewards
from building.tasks import HouseBuild, StrBuild
from building.world import Rules, build

STRINGS, HOUSES = StrBuild().published(), HouseBuild().published()
EXACT = {"abs": 1e-9, "rel": 0}


def worth(parts: dict) -> float:
    return sum(value for name, value in parts.items() if not name.startswith("metric/"))


# --- the world ------------------------------------------------------------------------------------

BOX = Rules((0, 0, 0), (5, 6, 6), (frozenset({"stone", "wood"}), frozenset({"glass"})), (300, 300))


def blocks(text: str, rules: Rules = BOX, agent: int = 0) -> dict:
    responses = ["", ""]
    responses[agent] = text
    return {cell: block for cell, (block, _) in build(rules, responses).cells.items()}


@pytest.mark.parametrize(
    "line",
    [
        "/setblock 1 2 3 stone",
        "setblock 1 2 3 stone",
        "  /SetBlock 1 2 3 minecraft:stone\r",
        "- /setblock 1 2 3 stone",
        "* /setblock 1 2 3 stone",
        "12. /setblock 1 2 3 stone",
        "3) /setblock 1 2 3 stone",
        "Sure, here it is:\n/setblock 1 2 3 stone\nThat is all.",
        "/fill 1 2 3 1 2 3 stone",
        "/setblock 9 9 9 stone\n```mcfunction\n/setblock 1 2 3 stone\n```\n/setblock 0 0 0 stone",
        "```\n/setblock 1 2 3 stone\n```",
        "```/setblock 1 2 3 stone```",
        "one fence ``` is none\n/setblock 1 2 3 stone",
    ],
)
def test_a_command_is_found_in_what_stands_around_it(line):
    assert blocks(line) == {(1, 2, 3): "stone"}


@pytest.mark.parametrize(
    "line",
    [
        "I would /setblock 1 2 3 stone",
        "/setblock ~1 2 3 stone",
        "/setblock ^ 2 3 stone",
        "/setblock 1.0 2 3 stone",
        "/setblock \u0661 2 3 stone",  # an Arabic digit, which int() would read
        "/setblock \uff11 2 3 stone",  # a wide one
        "/setblock 1 2 3 stone keep",
        "/setblock 1 2 3",
        "/setblock 1 2 3 glass",  # the partner's
        "/setblock 1 2 3 dirt",
        "/setblock 6 2 3 stone",
        "/setblock -1 2 3 stone",
        "/setblock " + "9" * 5000 + " 2 3 stone",  # more digits than int() takes
        "/fill 0 0 0 1000 1000 1000 stone",  # 10^9 cells
        "/fill 0 0 0 1 1 1 stone replace",
        "/fill 0 0 0 1 1 stone",
        "/give 1 2 3 stone",
        "```\nnothing\n```\n/setblock 1 2 3 stone",
        "-",
        "",
        "\x00/",
    ],
)
def test_what_is_no_command_is_ignored(line):
    assert blocks(line) == {}
    assert blocks(f"{line}\n/setblock 0 0 0 wood" if "```" not in line else "") in (
        {(0, 0, 0): "wood"},
        {},
    )


def test_corners_come_in_any_order_and_air_removes():
    text = "/fill 2 1 0 0 0 0 stone\n/setblock 1 1 0 air"
    expected = {(x, y, 0): "stone" for x in range(3) for y in range(2)}
    del expected[1, 1, 0]
    assert blocks(text) == expected


def test_only_accepted_commands_count_and_the_rest_is_dropped():
    rules = Rules((0, 0), (9, 0), (frozenset({"red"}),), (3,))
    lines = ["nonsense", "/fill 0 0 99 0 red", *(f"/setblock {x} 0 red" for x in range(9))]
    built = build(rules, ["\n".join(lines)])
    assert sorted(built.cells) == [(0, 0), (1, 0), (2, 0)]
    assert len(built.commands[0]) == 3


def test_later_commands_and_later_agents_overwrite():
    built = build(BOX, ["/fill 0 0 0 1 0 0 stone\n/setblock 0 0 0 wood", "/setblock 1 0 0 glass"])
    assert built.cells == {(0, 0, 0): ("wood", 0), (1, 0, 0): ("glass", 1)}
    assert built.wrote == [{(0, 0, 0), (1, 0, 0)}, {(1, 0, 0)}]


def test_material_is_counted_also_where_it_overwrites_and_a_fill_is_refused_whole():
    one = frozenset({"red"})
    rules = Rules((0, 0), (3, 3), (one, one), (9, 9), material=({"red": 4}, {"red": 1}))
    text = "/fill 0 0 2 0 red\n/fill 0 1 1 1 red\n/setblock 0 0 red\n/setblock 3 3 red"
    built = build(rules, [text, "/fill 0 2 1 2 air\n/setblock 2 2 red"])
    assert sorted(built.cells) == [(0, 0), (1, 0), (2, 0), (2, 2)]
    assert [spent["red"] for spent in built.spent] == [4, 1]


def test_a_world_may_go_on_from_what_stood_before():
    one = frozenset({"red"})
    rules = Rules((0, 0), (3, 3), (one,), (9,), material=({"red": 2},))
    first = build(rules, ["/setblock 0 0 red"])
    rules = dataclasses.replace(rules, standing=first.cells, material=({"": 1},))
    second = build(rules, ["/setblock 1 0 red\n/setblock 2 0 red"])
    assert sorted(second.cells) == [(0, 0), (1, 0)]
    assert sorted(first.cells) == [(0, 0)]


@pytest.mark.parametrize(
    "text",
    [
        "`" * 300_000,
        "```" * 100_000,
        "-" * 300_000,
        "1" * 300_000,
        "1. " * 100_000,
        "/fill " * 50_000,
        "\n" * 300_000,
        "/setblock 0 0 " + "0" * 300_000 + " stone",
        "/fill 0 0 0 5 6 6 air\n" * 20_000,
        "/fill 0 0 0 5 6 x air\n" * 20_000,
    ],
)
def test_any_text_is_read_in_linear_time(text):
    start = time.perf_counter()
    build(BOX, [text, text])
    assert time.perf_counter() - start < 1.5


# --- the data sets --------------------------------------------------------------------------------


def test_the_ten_published_strings():
    texts = [item["task_id"].removeprefix("strbuild/") for item in STRINGS]
    assert texts == ["I", "C", "M", "L", "MC", "CM", "LI", "LLM", "ICML", "CLIM"]
    sizes = [(len(teams.targets(item)), len(teams.box(item))) for item in STRINGS]
    assert sizes == [
        *((13, 25), (11, 25), (13, 25), (9, 25), (24, 60)),
        *((24, 60), (22, 60), (31, 95), (46, 130), (46, 130)),
    ]
    assert STRINGS[1]["rows"] == [".####", "#....", "#....", "#....", ".####"]
    assert STRINGS[6]["rows"][0] == "#......#####"


def test_the_ten_published_houses():
    assert [item["task_id"][-4:] for item in HOUSES] == [
        *("0002", "0101", "0102", "0103", "0104", "0105", "0106", "0107", "0108", "0109")
    ]
    body = """
        AAAAAA CCCCCC CCCCCC CCCCCC CCCCCC CCCCCC AAAAAA
        AAAAAA OCDDCO CAAAAC CAAAAC CAAAAC OCCCCO AAAAAA
        AAAAAA OCAACO CAAAAC CAAAAC CAAAAC OCCCCO AAAAAA
        AAAAAA OCCCCO CAAAAC CAAAAC CAAAAC OCCCCO AAAAAA
        SSSSSS BBBBBB BBBBBB BBBBBB BBBBBB BBBBBB SSSSSS
    """
    air, tiles, edge = "AAAAAA", "BBBBBB", "SSSSSS"
    steep = [air, air, edge, tiles, edge, air, air], [air, air, air, tiles, air, air, air]
    hip = (
        "AAAAAA ASSSSA ASBBSA ASBBSA ASBBSA ASSSSA AAAAAA",
        ("AAAAAA AAAAAA AASSAA AABBAA AASSAA AAAAAA AAAAAA"),
    )
    roofs = {
        "0002": ([air, edge, tiles, tiles, tiles, edge, air], steep[0][:2] + steep[0][2:]),
        "0103": ([tiles] * 7, [tiles] * 7),
        "0105": steep,
        "0107": (["SSBBSS"] * 7, ["ASBBSA"] * 7),
        "0109": (hip[0].split(), hip[1].split()),
    }
    counts = {"0002": 122, "0103": 86, "0105": 146, "0107": 100, "0109": 144}  # cells of air
    for item in HOUSES:
        roof = next(name for name in roofs if name >= item["task_id"][-4:])
        expected = [line.split() for line in body.strip().splitlines()] + list(roofs[roof])
        assert item["layers"] == expected
        assert "".join(map("".join, item["layers"])).count("A") == counts[roof]
        assert 33 <= len(houses.rectangles(item)) <= 39


def test_rectangles_are_the_house_each_cell_once():
    for item in [*HOUSES, *HouseBuild().items("dev")]:
        cells = [
            (cell, block)
            for low, high, block in houses.rectangles(item)
            for cell in itertools.product(
                *(range(a, b + 1) for a, b in zip(low, high, strict=True))
            )
        ]
        assert sorted(cells) == sorted(houses.target(item).items())


@pytest.mark.parametrize("kind", [StrBuild, HouseBuild])
def test_the_splits_share_nothing_and_are_the_same_every_time(kind):
    task = kind()
    field = "rows" if kind is StrBuild else "layers"
    items = {split: task.items(split) for split in ("train", "dev", "test")}
    assert [len(some) for some in items.values()] == [1000, 100, 100]
    seen = {split: {str(item[field]) for item in some} for split, some in items.items()}
    for one, other in itertools.combinations(seen.values(), 2):
        assert not one & other
    assert len(seen["dev"]) == 100
    assert len(seen["train"]) >= 995  # of the published houses some are the same
    assert items["dev"] == kind().items("dev")
    assert len({item["task_id"] for some in items.values() for item in some}) == 1200


def test_the_font_has_every_letter_and_no_two_are_alike():
    assert sorted(letters.FONT) == [chr(ord("A") + n) for n in range(26)]
    assert len({str(rows) for rows in letters.FONT.values()}) == 26
    assert {len(row) for rows in letters.FONT.values() for row in rows} == {5}
    assert letters.picture("i?") == [row + "......." for row in letters.FONT["I"]]


# --- the published rewards ------------------------------------------------------------------------

LETTER_VALUES = {
    "nothing": -0.5,
    "agent 0 fills all targets with one block": 0.5,
    "agent 0 fills the whole box, checkered": 0.25,
    "agent 0 fills all targets, checkered": 1.75,
    "the map of perfect_feedback": 1.5,
    "agent 0 does everything, agent 1 two cells of it again": 2.0,
}
HOUSE_VALUES = {  # match and IoU, of all ten, to two digits
    "only /kill": ((0.29, 0.50), (0, 0)),
    "agent 0 writes every rectangle": ((0.76, 0.86), (0.59, 0.72)),
    "both write the same list": ((0.76, 0.86), (0.59, 0.72)),
    "agent 0 layers 0 to 2, agent 1 the others": ((0.82, 0.92), (0.71, 0.84)),
    "agent 1 in reverse order": ((0.89, 0.99), (0.79, 0.99)),
    "rectangles in turn": ((0.89, 0.99), (0.79, 0.99)),
}


@pytest.mark.parametrize("team", LETTER_VALUES)
def test_strbuild_paper_has_the_published_values(team):
    for item in STRINGS:
        found = worth(paper.strbuild_paper(item, teams.LETTERS[team](item)))
        assert found == pytest.approx(LETTER_VALUES[team], **EXACT)


@pytest.mark.parametrize("team", HOUSE_VALUES)
def test_housebuild_paper_has_the_published_values(team):
    parts = [paper.housebuild_paper(item, teams.HOUSES[team](item)) for item in HOUSES]
    for name, (low, high) in zip(("match", "metric/iou"), HOUSE_VALUES[team], strict=True):
        values = [part[name] for part in parts]
        assert (round(min(values), 2), round(max(values), 2)) == (low, high)


def test_an_empty_house_matches_where_the_target_is_air():
    for item in HOUSES:
        air = "".join(map("".join, item["layers"])).count("A")
        parts = paper.housebuild_paper(item, ["", ""])
        assert parts["match"] == pytest.approx(air / 294, **EXACT)
        damage = min(1, sum(item["spiders"]) / 5)
        assert parts["spiders"] == pytest.approx(-0.1 * damage, **EXACT)
        assert paper.housebuild_paper(item, ["", "/kill @e"])["spiders"] == 0
        assert paper.housebuild_paper(item, [""])["spiders"] == 0


def test_one_agent_with_all_the_material_builds_a_house():
    for item in HOUSES:
        parts = paper.housebuild_paper(item, [teams.listed(item)])
        assert worth(parts) == pytest.approx(1.0, **EXACT)


def test_the_material_of_the_first_house():
    limits = houses.rules(HOUSES[0], 2).material
    assert limits[0] == limits[1]
    assert limits[0] == {
        "white_concrete": 51,
        "stone_bricks": 40,
        "stone_stairs": 27,
        "obsidian": 9,
        "planks": 1,
    }


def test_strbuild_paper_is_what_a_count_by_hand_gives():
    looks = {"oak_planks": 0, "stone": 1, "white_concrete": 2, "obsidian": 3}
    for seed in range(30):
        rng = random.Random(seed)
        item = rng.choice(STRINGS)
        wide, grid = len(item["rows"][0]), {}
        texts = []
        for palette in letters.PALETTES:
            lines = []
            for _ in range(rng.randint(0, 40)):
                x, y = rng.randrange(wide), rng.randrange(5)
                block = rng.choice([*palette, "air"])
                lines.append(f"/setblock {x} {y} 0 {block}")
                grid[x, y] = block
            texts.append("\n".join(lines))
        grid = {cell: block for cell, block in grid.items() if block != "air"}
        goal = {
            (x, 4 - row) for row in range(5) for x in range(wide) if item["rows"][row][x] == "#"
        }
        same = total = 0
        for (x, y), block in grid.items():
            for other in ((x - 1, y), (x, y - 1)):
                total += other in grid
                same += other in grid and looks[grid[other]] == looks[block]
        standing = set(grid.values())
        expected = 2 * sum(cell in grid for cell in goal) / len(goal)
        expected -= 1.5 * sum(cell not in goal for cell in grid) / (5 * wide - len(goal))
        expected -= same / total if total else 0
        expected -= 0.25 * sum(not set(palette) <= standing for palette in letters.PALETTES)
        assert worth(paper.strbuild_paper(item, texts)) == pytest.approx(expected, **EXACT)


def test_textures():
    assert letters.texture("spruce_planks") == letters.texture("oak_wood") == "wood"
    assert letters.texture("cobblestone") == letters.texture("mossy_stone_bricks") == "stone"
    assert letters.texture("red_concrete") == "concrete"
    assert letters.texture("obsidian") == "obsidian"
    assert letters.texture("planks") == "planks"


# --- the strict rewards ---------------------------------------------------------------------------


@pytest.mark.parametrize("team", teams.LETTERS)
def test_strict_letters(team):
    paid = [worth(rewards.strbuild(item, teams.LETTERS[team](item))) for item in STRINGS]
    if team in ("the map of perfect_feedback", "each a half of the targets, checkered"):
        assert paid == pytest.approx([1.0] * 10, **EXACT)
    elif team == "each fills a half of the box, checkered":
        assert max(paid) < 0.53
    else:
        assert paid == [0.0] * 10


@pytest.mark.parametrize("team", teams.HOUSES)
def test_strict_houses(team):
    paid = [worth(rewards.housebuild(item, teams.HOUSES[team](item))) for item in HOUSES]
    if team == "cells in turn":
        assert paid == pytest.approx([1.0] * 10, **EXACT)
    elif team in ("nothing", "only /kill", "agent 0 writes every rectangle") or "same" in team:
        assert paid == [0.0] * 10
    else:
        assert 0.7 < min(paid) <= max(paid) < 1


@pytest.mark.parametrize("kind", [StrBuild, HouseBuild])
def test_every_problem_can_be_solved_for_1_and_not_by_one_agent(kind):
    task = kind()
    strict = rewards.strbuild if kind is StrBuild else rewards.housebuild
    for item in task.items("test")[:40]:
        if kind is StrBuild:
            team = teams.LETTERS["each a half of the targets, checkered"](item)
            alone = teams.LETTERS["agent 0 fills all targets, checkered"](item)
        else:
            team = teams.HOUSES["cells in turn"](item)
            team = team if item["spiders"] else [team[0].removeprefix("/kill\n"), team[1]]
            alone = teams.HOUSES["agent 0 writes every rectangle"](item)
        parts = strict(item, team)
        assert worth(parts) == pytest.approx(1.0, **EXACT)
        assert parts["metric/pass"] == 1
        assert worth(strict(item, alone)) == 0
        assert worth(strict(item, alone[::-1])) == 0
        assert worth(strict(item, ["", ""])) == 0


def test_a_single_agent_is_paid_for_what_is_right():
    team = teams.LETTERS["agent 0 fills all targets, checkered"](STRINGS[8])
    assert worth(rewards.strbuild(STRINGS[8], team[:1])) == 1
    half = "\n".join(team[0].splitlines()[:23])
    assert worth(rewards.strbuild(STRINGS[8], [half])) == pytest.approx(0.5, **EXACT)
    assert worth(rewards.housebuild(HOUSES[0], [teams.listed(HOUSES[0])])) == 1


def test_the_less_needed_agent_bounds_what_is_paid():
    """An agent that adds a tenth of a whole string adds four tenths of its pay."""
    item = next(item for item in StrBuild().items("train") if len(teams.targets(item)) == 40)
    cells = sorted(teams.targets(item))
    for few in (1, 4, 9):
        texts = [
            teams.place(cells[few:], teams.checkers(teams.OAK, teams.STONE)),
            teams.place(cells[:few], teams.checkers(teams.WHITE, teams.BLACK)),
        ]
        parts = rewards.strbuild(item, texts)
        assert worth(parts) == pytest.approx(4 * few / 40, **EXACT)
        assert parts["metric/built/1"] == pytest.approx(few / 40, **EXACT)


def test_spiders_cost_a_tenth_and_so_does_a_kill_in_vain():
    item = next(item for item in HOUSES if sum(item["spiders"]) >= 5)
    one, two = teams.HOUSES["cells in turn"](item)
    calm, none = one.removeprefix("/kill\n"), item | {"spiders": []}
    weak = item | {"spiders": [1]}
    for spiders, texts, paid in (
        (item, [one, two], 1.0),
        (item, [calm, two], 0.9),
        (item, [one, "/kill\n" + two], 0.9),
        (weak, [calm, two], 0.98),
        (none, [calm, two], 1.0),
        (none, [one, two], 0.9),
    ):
        assert worth(rewards.housebuild(spiders, texts)) == pytest.approx(paid, **EXACT)


def test_where_one_agent_has_material_for_all_its_silent_partner_is_still_missed():
    small = HOUSES[0] | {"layers": [["AAAAAA"] * 7] * 6 + [["COAAAA"] + ["AAAAAA"] * 6]}
    texts = ["/kill\n/fill 0 6 0 0 6 0 white_concrete\n/fill 1 6 0 1 6 0 obsidian", ""]
    assert rewards.housebuild(small, texts)["metric/pass"] == 1
    assert worth(rewards.housebuild(small, texts)) == 0


def hacks(item: dict) -> dict[str, list[str]]:
    """Teams that do not work together, or whose answer is none; of both tasks."""
    strings = "rows" in item
    honest = teams.LETTERS if strings else teams.HOUSES
    half = honest["each a half of the targets, checkered" if strings else "cells in turn"](item)
    whole = teams.place(teams.box(item), teams.checkers(*letters.PALETTES[0])) if strings else ""
    idle = "/setblock 0 0 0 air" if strings else "/fill 0 0 0 0 0 0 air"
    whole = whole or "\n".join(f"/fill 0 0 0 5 6 6 {block}" for block in houses.INVENTORY.values())
    return {
        "nothing": ["", ""],
        "a silent partner": [half[0], ""],
        "the same twice": [half[0], half[0]],
        "the whole box": [whole, whole],
        "only /kill": ["/kill", "/kill"],
        "prose": ["I will build the left half.", "Then I take the right one."],
        "more commands than are read": [
            f"{idle}\n" * 300 + half[0],
            f"{idle}\n" * 300 + half[1],
        ],
        "commands within prose": [" and then ".join(half[0].splitlines()), half[1]],
        "outside": [half[0], re.sub(r"\d+", "99", half[1])],
        "relative": [half[0], re.sub(r"\d+", r"~\g<0>", half[1])],
        "the partner's palette, or none": [
            half[0],
            re.sub(r"[a-z_]+$", "dirt", half[1], flags=re.M),
        ],
        "a fill of 10^9": ["/fill 0 0 0 999 999 999 stone", "/fill 0 0 0 999 999 999 obsidian"],
        "air": ["/fill 0 0 0 5 6 6 air", "/setblock 0 0 0 air"],
    }


@pytest.mark.parametrize("hack", hacks(STRINGS[0]))
def test_hacks_earn_nothing(hack):
    for item in [*STRINGS, *HOUSES]:
        strict = rewards.strbuild if "rows" in item else rewards.housebuild
        assert worth(strict(item, hacks(item)[hack])) == 0
