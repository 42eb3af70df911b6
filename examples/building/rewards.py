"""The building rewards: the strict ones, to train with, and the authors' as they publish them.

Strict: nothing built is 0, everything correct is 1. A team's score V is intersection over union:
its correct cells over those that the target or a block has, so that a wrong block counts against
it. Pay is V, capped by the least useful agent: what V loses without that agent, divided by the
share of the target that its partners could not build.

    pay = min( V(team), min_i (V(team) - V(team without i)) / least )

"Without i" means that i writes nothing: the difference reward of Wolpert and Tumer (2002). A team
with a silent agent, or with two that write the same list, is paid 0. A team that divides the work
in any way, of two agents up to 3 to 1 where material has no limit, is paid V. A cell of the target
is correct if it holds the target's block; of strbuild, a block that no neighbour has.

housebuild's spiders take a tenth of the pay, or less if they do little damage, unless an agent
writes /kill. A needless /kill takes a tenth, too: without spiders, or if the partner writes it.

The authors' (OpenMLRL/LLM_Collab_Minecraft), strbuild_paper of -3 to 2, housebuild_paper to 1:

    coverage   2.0    share of the target's cells that hold a block, whosever and whichever
    extra     -1.5    share of the other cells that hold one
    adjacency -1.0    share of the pairs of blocks side by side that are equal
    missing   -0.25   for each agent of whose blocks not every one stands somewhere

    match      1.0    share of all cells, air included, that hold what the target does
    spiders   -0.1    times the spiders' damage over the player's hit points, at most 1; 0 if an
                      agent wrote /kill, and for a single agent (the paper's weight is 0.2, the
                      code's 0.1)

They train with these values less 2 and less 1, which changes no advantage.
"""

import itertools
import math
from collections import Counter

from examples.building import blocks, houses, letters
from examples.building.world import AIR, Cell, Rules, World, beside, build

SPIDERS, HIT_POINTS = 0.1, 5


def iou(built: World, correct: set[Cell]) -> float:
    """Intersection over union: correct cells over those that the target or a block has."""
    return len(correct) / len(built.rules.target.keys() | built.cells.keys())


def measures(built: World, correct: set[Cell]) -> dict[str, float]:
    """What is logged of a world; docs/building.md says what each name means."""
    value, rules = iou(built, correct), built.rules
    owners = Counter(built.cells[cell][1] for cell in correct)
    found = {"metric/pass": float(value == 1), "metric/iou": value}
    for agent in range(len(built.commands)):
        found[f"metric/built/{agent}"] = owners[agent] / len(rules.target)
    wrote = [[cell for c in mine if c.block != AIR for cell in c.cells] for mine in built.commands]
    writers = Counter(itertools.chain(*map(set, wrote)))
    found["metric/twice"] = sum(n > 1 for n in writers.values()) / max(len(writers), 1)
    if rules.material:
        had = sum(rules.material.values()) * len(wrote)
        found["metric/unused"] = 1 - sum(map(len, wrote)) / max(had, 1)
    return found


def least_share(rules: Rules) -> float:
    """The share of the target that one agent cannot build, which its partners therefore have to: by
    the limits of material, or 1 / 2n of n agents if the material of one suffices for everything. 0
    if it suffices for what is left after earlier turns: either agent may finish that alone."""
    agents, target = len(rules.palettes), rules.target
    if agents == 1:
        return 1.0
    if not rules.material:
        return 1 / (2 * agents)
    done = {cell for cell, (block, _) in rules.standing.items() if target.get(cell) == block}
    counts = Counter(block for cell, block in target.items() if cell not in done)
    by_block = sum(min(rules.material.get(block, count), count) for block, count in counts.items())
    share = (counts.total() - min(by_block, rules.material.get("", by_block))) / len(target)
    return share or (0.0 if rules.standing else 1 / (2 * agents))


def _score(rules: Rules, responses: list[str]) -> tuple[dict[str, float], World]:
    """The pay and the measures of a team, and its world."""
    built, least = build(rules, responses), least_share(rules)
    team = iou(built, built.correct())
    without = ([*responses[:i], "", *responses[i + 1 :]] for i in range(len(responses)))
    others = (build(rules, texts) for texts in without)
    lost = min(team - iou(other, other.correct()) for other in others)
    pay = max(0.0, min(team, lost / least if least else team))
    return {"building": pay} | measures(built, built.correct()), built


def build_together(item: dict, responses: list[str]) -> dict[str, float]:
    """The rectangles of task build; each agent has material for a part of them; 0 to 1."""
    return _score(blocks.rules(item, len(responses)), responses)[0]


def strbuild(item: dict, responses: list[str]) -> dict[str, float]:
    """The string item["rows"] shows, in blocks of which no two neighbours look alike; 0 to 1."""
    return _score(letters.rules(item, len(responses)), responses)[0]


def housebuild(item: dict, responses: list[str]) -> dict[str, float]:
    """The house item["layers"] shows, block by block, and its spiders; 0 to 1."""
    parts, built = _score(houses.rules(item, len(responses)), responses)
    needless = built.kills() > bool(item["spiders"])
    cost = 1.0 if needless else spider_damage(item, built)
    return parts | {"spiders": -SPIDERS * cost * parts["building"]}


def strbuild_paper(item: dict, responses: list[str]) -> dict[str, float]:
    built = build(letters.rules(item, len(responses)), responses)
    rules, cells = built.rules, built.cells
    covered = rules.target.keys() & cells.keys()
    extra, others = len(cells) - len(covered), volume(rules) - len(rules.target)
    equal = [cells[c][0] == cells[d][0] for c in cells for d in beside(c) if d in cells]
    found = {block for block, _ in cells.values()}
    return {
        "coverage": 2.0 * len(covered) / len(rules.target),
        "extra": -1.5 * extra / others if others else 0.0,
        "adjacency": -1.0 * sum(equal) / len(equal) if equal else 0.0,
        "missing": -0.25 * sum(not palette <= found for palette in rules.palettes),
        **measures(built, covered),
    }


def housebuild_paper(item: dict, responses: list[str]) -> dict[str, float]:
    built = build(houses.rules(item, len(responses)), responses)
    correct, cells = built.correct(), volume(built.rules)
    air = cells - len(built.rules.target.keys() | built.cells.keys())  # in both
    damage = spider_damage(item, built) if len(responses) > 1 else 0.0
    parts = {"match": (air + len(correct)) / cells, "spiders": -SPIDERS * damage}
    return parts | measures(built, correct)


def volume(rules: Rules) -> int:
    return math.prod(most + 1 for most in rules.high)


def spider_damage(item: dict, built: World) -> float:
    """The living spiders' damage as a share of the player's hit points, at most 1."""
    return 0.0 if built.kills() else min(1.0, sum(item["spiders"]) / HIT_POINTS)


build_together.maximum = strbuild.maximum = housebuild.maximum = housebuild_paper.maximum = 1.0
strbuild_paper.maximum = 2.0
