"""The world of the building tasks, their data sets and rewards. pytest tests/test_building.py

The values of the published rewards are those that the authors' own simulator and scorer gave for
the same teams; the rest is compared with computations of this file.
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


@pytest.mark.parametrize(("kind", "field"), [(StrBuild, "rows"), (HouseBuild, "layers")])
def test_the_splits_share_nothing_and_are_the_same_every_time(kind, field):
    items = {split: kind().items(split) for split in ("train", "dev", "test")}
    seen = [{str(item[field]) for item in some} for some in items.values()]
    assert not any(one & other for one, other in itertools.combinations(seen, 2))
    same = {StrBuild: (0, 0), HouseBuild: (4, 1)}[kind]  # houses that are published twice
    assert [len(some) for some in seen] == [1000 - same[0], 100, 100 - same[1]]
    assert items["dev"] == kind().items("dev")
    assert len({item["task_id"] for some in items.values() for item in some}) == 1200


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


def target_of(item: dict) -> dict:
    if "rows" in item:
        return dict.fromkeys(teams.targets(item), "any")
    found = {}
    for y, rows in enumerate(item["layers"]):
        for (z, row), x in itertools.product(enumerate(rows), range(6)):
            if row[x] != "A":
                found[x, y, z] = houses.INVENTORY[row[x]]
    return found


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


def published(item: dict, world: dict, agents: int) -> float:
    goal = target_of(item)
    if "rows" not in item:
        space = itertools.product(range(6), range(7), range(7))
        return sum(goal.get(cell) == world.get(cell) for cell in space) / 294
    pairs = [world[c] == world[d] for c in world for d in beside(c) if d in world]
    found = 2 * len(goal.keys() & world.keys()) / len(goal) - sum(pairs) / max(len(pairs), 1)
    found -= 1.5 * len(world.keys() - goal.keys()) / (len(teams.box(item)) - len(goal))
    lacking = [{*palette} - {*world.values()} for palette in letters.PALETTES[:agents]]
    return found - 0.25 * sum(map(bool, lacking))


@pytest.mark.parametrize("number", range(20))
def test_rewards_are_what_a_count_by_hand_gives(number):
    rng = random.Random(number)
    for agents in (1, 2, 2, 2):
        item = [*STRINGS, *HOUSES][number]
        item = item | {"spiders": rng.choice([[], [1], [3, 3]])}
        team = [random_commands(item, agent, rng) for agent in range(agents)]
        texts, world = [as_text(item, mine) for mine in team], simulated(item, team)
        pay, by_paper = strict(item, team), published(item, world, agents)
        if "rows" in item:
            found = rewards.strbuild(item, texts), rewards.strbuild_paper(item, texts)
        else:
            found = rewards.housebuild(item, texts), rewards.housebuild_paper(item, texts)
            kills = sum(any(block is None for _, _, block in mine) for mine in team)
            damage = 0 if kills else min(1, sum(item["spiders"]) / 5)
            by_paper -= 0.1 * damage if agents > 1 else 0
            pay *= 1 - 0.1 * (1 if kills > bool(item["spiders"]) else damage)
        assert [worth(parts) for parts in found] == pytest.approx([pay, by_paper], **EXACT)
        assert found[0]["metric/iou"] == pytest.approx(score(item, world), **EXACT)


def test_every_problem_can_be_solved():
    for item in StrBuild().items("test")[:20]:
        team = teams.LETTERS["each a half of the targets, checkered"](item)
        assert worth(rewards.strbuild(item, team)) == pytest.approx(1.0, **EXACT)
    for item in HouseBuild().items("test")[:20]:
        one, two = teams.HOUSES["cells in turn"](item)
        one = one if item["spiders"] else one.removeprefix("/kill\n")
        parts = rewards.housebuild(item, [one, two])
        assert worth(parts) == pytest.approx(1.0, **EXACT)
        assert parts["metric/pass"] == 1


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
