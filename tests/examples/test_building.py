"""The world of the building tasks, their data sets and rewards. pytest tests/test_building.py

The values of the published rewards are those that the authors' own simulator and scorer gave for
the same teams. The strict rewards are compared with computations of this file.
"""

import itertools
import math
import random
import re
import time
from collections import Counter
from pathlib import Path

import building_teams as teams
import pytest

from examples.building import houses, letters, rewards
from examples.building.tasks import HouseBuild, StrBuild
from examples.building.world import Rules, build

STRINGS, HOUSES = teams.published(StrBuild()), teams.published(HouseBuild())
EXACT = {"abs": 1e-9, "rel": 0}


def worth(parts: dict) -> float:
    return sum(value for name, value in parts.items() if not name.startswith("metric/"))


BOX = Rules((5, 6, 6), (frozenset({"stone", "wood"}), frozenset({"glass"})), 300)


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
    docs = (Path(__file__).parents[2] / "docs" / "building.md").read_text()
    for name, items, by_hand in (
        ("strbuild", STRINGS, teams.LETTERS),
        ("housebuild", HOUSES, teams.HOUSES),
    ):
        for team, answer in by_hand.items():
            cells = [team]
            for reward in (getattr(rewards, name), getattr(rewards, f"{name}_paper")):
                values = [worth(reward(item, answer(item))) for item in items]
                low, high = f"{min(values):.2f}", f"{max(values):.2f}"
                cells.append(low if low == high else f"{low} to {high}")
            assert f"| {' | '.join(cells)} |" in docs


def test_the_published_rewards_take_off_what_is_outside_and_what_spiders_do():
    outside = [cell for cell in teams.box(STRINGS[0]) if cell not in teams.targets(STRINGS[0])]
    texts = [teams.checkered(outside, *letters.PALETTES[0]), ""]
    assert rewards.strbuild_paper(STRINGS[0], texts)["extra"] == -1.5
    house = HOUSES[0] | {"spiders": [3, 1]}
    for texts, cost in ((["", ""], -0.08), ([""], 0), (["/kill", ""], 0)):
        assert rewards.housebuild_paper(house, texts)["spiders"] == pytest.approx(cost)


def target_of(item: dict) -> dict:
    if "rows" in item:
        return dict.fromkeys(teams.targets(item), "any")
    target = {}
    for y, x, z in itertools.product(range(len(item["layers"])), range(6), range(7)):
        letter = item["layers"][y][z][x]
        if letter != "A":
            target[x, y, z] = houses.INVENTORY[letter]
    return target


def material(item: dict, agents: int) -> dict:
    """Of each block, what one of the agents has."""
    counts = Counter({} if "rows" in item else target_of(item).values())
    blocks = () if "rows" in item else houses.INVENTORY.values()
    return {b: math.ceil(counts[b] / agents) + math.floor(counts[b] / 2 / agents) for b in blocks}


def random_commands(item: dict, agent: int, rng: random.Random) -> list[tuple]:
    """(low, high, block), of which many are right; a block of None is /kill."""
    if "rows" in item:
        cells = [*teams.box(item), *teams.targets(item) * 2]
        chosen = rng.choices(cells, k=rng.randint(0, 40))
        return [(cell, cell, rng.choice([*letters.PALETTES[agent], "air"])) for cell in chosen]
    known = houses.rectangles(item)
    found = rng.sample(known, rng.randint(0, len(known)))
    for _ in range(rng.randint(0, 3)):
        corners = [sorted(rng.choices(range(most), k=2)) for most in (6, 7, 7)]
        low, high = zip(*corners, strict=True)
        found.append((low, high, rng.choice([*houses.INVENTORY.values(), None])))
    return rng.sample(found, len(found))


def as_text(item: dict, commands: list[tuple]) -> str:
    lines = []
    for low, high, block in commands:
        words = ["/setblock", *low, block] if "rows" in item else ["fill", *high, *low, block]
        lines.append(" ".join(map(str, words)) if block else "/kill @e")
    return "\n".join(lines)


def simulated(item: dict, team: list[list[tuple]]) -> dict:
    world = {}
    for commands in team:
        left = material(item, len(team))
        for low, high, block in commands:
            axes = (range(a, b + 1) for a, b in zip(low, high, strict=True))
            cells = [*itertools.product(*axes)] if block else []
            if block == "air" or left.get(block, math.inf) >= len(cells):
                left[block] = left.get(block, math.inf) - len(cells)
                world |= dict.fromkeys(cells, block)
    return {cell: block for cell, block in world.items() if block != "air"}


def beside(cell: tuple) -> list[tuple]:
    x, y, z = cell
    return [(x - 1, y, z), (x + 1, y, z), (x, y - 1, z), (x, y + 1, z)]


def score(item: dict, world: dict) -> float:
    """Intersection over union."""
    goal = target_of(item)
    fits = [cell for cell, block in world.items() if goal.get(cell) in ("any", block)]
    if "rows" in item:  # the four blocks have four textures
        fits = [c for c in fits if all(world.get(other) != world[c] for other in beside(c))]
    return len(fits) / len(goal.keys() | world.keys())


def strict(item: dict, team: list[list[tuple]]) -> float:
    agents, own, goal = len(team), material(item, len(team)), target_of(item)
    one = sum(min(own.get(b, n), n) for b, n in Counter(goal.values()).items())
    least = (1 - one / len(goal) or 1 / (2 * agents)) if agents > 1 else 1
    value = score(item, simulated(item, team))
    without = [[*team[:i], [], *team[i + 1 :]] for i in range(agents)]
    lost = value - max(score(item, simulated(item, others)) for others in without)
    return max(0, min(value, lost / least))


@pytest.mark.parametrize("number", range(20))
def test_rewards_are_what_a_count_by_hand_gives(number):
    rng = random.Random(number)
    item = [*STRINGS, *HOUSES][number] | {"spiders": rng.choice([[], [1], [3, 3]])}
    for agents in (1, 2, 2, 2):
        team = [random_commands(item, agent, rng) for agent in range(agents)]
        texts = [as_text(item, commands) for commands in team]
        expected = strict(item, team)
        if "rows" in item:
            parts = rewards.strbuild(item, texts)
        else:
            parts = rewards.housebuild(item, texts)
            kills = sum(any(block is None for *_, block in commands) for commands in team)
            damage = 0 if kills else min(1, sum(item["spiders"]) / 5)
            expected *= 1 - 0.1 * (1 if kills > bool(item["spiders"]) else damage)
        assert worth(parts) == pytest.approx(expected, **EXACT)
        assert parts["metric/iou"] == pytest.approx(score(item, simulated(item, team)), **EXACT)


def test_every_problem_can_be_solved():
    for item in StrBuild().items("test")[:20]:
        team = teams.LETTERS["each a half of the targets, checkered"](item)
        assert worth(rewards.strbuild(item, team)) == pytest.approx(1.0, **EXACT)
    for item in HouseBuild().items("test")[:20]:
        team = teams.HOUSES["cells in turn"](item)
        if not item["spiders"]:
            team[0] = team[0].removeprefix("/kill\n")
        assert worth(rewards.housebuild(item, team)) == pytest.approx(1.0, **EXACT)


def hacks(item: dict) -> dict[str, list[str]]:
    """Teams that do not work together, or whose answer is none; of both tasks."""
    strings = "rows" in item
    team = "each a half of the targets, checkered" if strings else "cells in turn"
    one, two = (teams.LETTERS if strings else teams.HOUSES)[team](item)
    idle = "/setblock 0 0 0 air\n" if strings else "/fill 0 0 0 0 0 0 air\n"
    whole = "\n".join(f"/fill 0 0 0 5 6 6 {block}" for block in houses.INVENTORY.values())
    return {
        "a silent partner": [one, ""],
        "the same twice": [one, one],
        "the whole box": [whole, whole],
        "prose": ["I will build the left half.", "Then I take the right one."],
        "more commands than are read": [idle * 300 + one, idle * 300 + two],
        "commands within prose": [" and then ".join(one.splitlines()), two],
        "outside": [one, re.sub(r"\d+", "99", two)],
        "relative": [one, re.sub(r"\d+", r"~\g<0>", two)],
        "no block of anybody's": [one, re.sub(r"[a-z_]+$", "dirt", two, flags=re.M)],
    }


@pytest.mark.parametrize("hack", hacks(STRINGS[0]))
def test_hacks_earn_nothing(hack):
    for item in [*STRINGS, *HOUSES]:
        reward = rewards.strbuild if "rows" in item else rewards.housebuild
        assert worth(reward(item, hacks(item)[hack])) == 0
