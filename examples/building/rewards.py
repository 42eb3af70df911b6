"""The building rewards: the strict ones, to train with, and the authors' as they publish them.

Nothing built earns 0, everything correct earns 1. A team's score V is intersection over union: its
correct cells over the cells that the target or a block has. So a wrong block counts against the
team. The reward is V, capped by the least useful agent. The cap is the part of V that is lost
without that agent, divided by the share of the target that its partners cannot build.

    reward = min(V(team), min_i (V(team) - V(team without i)) / least)

"Without i" means that i writes nothing. This is the difference reward of Wolpert and Tumer (2002).
At the first turn, a team with a silent agent, or with two that write the same list, earns 0. A team
that divides the work in any way earns V. (Where material has no limit, two agents may divide it up
to 3 to 1.) A cell of the target is correct if it holds the target's block. In strbuild that is any
block that no neighbour has.

Spiders of housebuild cost a tenth of the reward, or less if they do little damage, unless an agent
writes /kill. A needless /kill costs a tenth, too: without spiders, or if the partner writes it.

The authors' rewards follow (OpenMLRL/LLM_Collab_Minecraft). `strbuild_paper` is -3 to 2:

    `coverage`    2.0    Share of the target's cells that hold any block of any agent.
    `extra`       -1.5    Share of the other cells that hold one.
    `adjacency`   -1.0    Share of the pairs of blocks side by side that are equal.
    `missing`     -0.25   For each agent that has a block which stands nowhere.

`housebuild_paper` is at most 1:

    `match`       1.0    Share of all cells, air included, that hold what the target does.
    `spiders`     -0.1    The spiders' damage over the player's hit points, at most 1. It is 0 if an
                      agent wrote /kill, and for one agent. (The paper's weight is 0.2.)

The authors train with these values less 2 and less 1, which changes no advantage.
"""

import math
from collections import Counter

from examples.building import blocks, houses, letters
from examples.building.world import AIR, beside, build

SPIDERS = 0.1
HIT_POINTS = 5


def iou(built, correct):
    """Return intersection over union: correct cells over those of the target or a block."""
    return len(correct) / len(built.rules.target.keys() | built.cells.keys())


def measures(built, correct):
    """Return the metrics of a world. examples/building/README.md says what each name means."""
    value = iou(built, correct)
    parts = {"metric/pass": float(value == 1), "metric/iou": value}
    owners = Counter(built.cells[cell][1] for cell in correct)
    writers = Counter()  # cell -> agents that put a block there
    for agent, commands in enumerate(built.commands):
        parts[f"metric/built/{agent}"] = owners[agent] / len(built.rules.target)
        cells = set()
        for command in commands:
            if command.block != AIR:
                cells.update(command.cells)
        writers.update(cells)
    twice = sum(count > 1 for count in writers.values())
    parts["metric/twice"] = twice / max(len(writers), 1)
    return parts


def least_share(rules):
    """Return the share of the target that all agents but one cannot build, so that the one has to.

    The limits of material decide. If the others' material suffices for everything, it is 1 / 2n for
    n agents. If it suffices for what earlier turns left, it is 0: they may finish without the one.
    """
    others = max(len(rules.palettes) - 1, 1)  # one agent builds alone
    unfinished = rules.target.keys() - build(rules, []).correct()
    counts = Counter(rules.target[cell] for cell in unfinished)
    enough = 0  # cells that the others' material suffices for
    for block, count in counts.items():
        enough += min(others * rules.material.get(block, count), count)
    enough = min(enough, others * rules.material.get("", enough))
    share = (counts.total() - enough) / len(rules.target)
    if share == 0 and not rules.standing:
        return 1 / (2 * len(rules.palettes))
    return share


def _score(built):
    """Return the strict reward of a team's world, with its measures."""
    correct = built.correct()
    score = iou(built, correct)
    reward = score
    least = least_share(built.rules)
    if least:
        for agent in range(len(built.commands)):
            without = built.without(agent)
            lost = score - iou(without, without.correct())
            reward = min(reward, lost / least)
    return {"building": max(0.0, reward)} | measures(built, correct)


def build_together(item, responses):
    """Score the rectangles of task build, 0 to 1."""
    return _score(build(blocks.rules(item, len(responses)), responses))


def strbuild(item, responses):
    """Score the string that item["rows"] shows, 0 to 1."""
    return _score(build(letters.rules(item, len(responses)), responses))


def housebuild(item, responses):
    """Score the house that item["layers"] shows, and its spiders, 0 to 1."""
    built = build(houses.rules(item, len(responses)), responses)
    parts = _score(built)
    needless = built.kills() > bool(item["spiders"])
    cost = 1.0 if needless else spider_damage(item, built)
    return parts | {"spiders": -SPIDERS * cost * parts["building"]}


def strbuild_paper(item, responses):
    rules = letters.rules(item, len(responses))
    built = build(rules, responses)
    colors = {cell: block for cell, (block, _) in built.cells.items()}
    covered = rules.target.keys() & colors.keys()
    others = math.prod(rules.size) - len(rules.target)
    equal = []  # of each pair of blocks side by side, twice
    for cell, block in colors.items():
        neighbours = colors.keys() & beside(cell)
        equal += [colors[neighbour] == block for neighbour in neighbours]
    missing = sum(not palette <= set(colors.values()) for palette in rules.palettes)
    parts = {
        "coverage": 2.0 * len(covered) / len(rules.target),
        "extra": 1.5 * (len(covered) - len(colors)) / max(others, 1),
        "adjacency": -sum(equal) / max(len(equal), 1),
        "missing": 0.25 * -missing,
    }
    return parts | measures(built, covered)


def housebuild_paper(item, responses):
    built = build(houses.rules(item, len(responses)), responses)
    correct = built.correct()
    cells = math.prod(built.rules.size)
    air = cells - len(built.rules.target.keys() | built.cells.keys())  # in both
    damage = spider_damage(item, built) if len(responses) > 1 else 0.0
    parts = {"match": (air + len(correct)) / cells, "spiders": -SPIDERS * damage}
    return parts | measures(built, correct)


def spider_damage(item, built):
    """Return the living spiders' damage over the player's hit points, at most 1."""
    return 0.0 if built.kills() else min(1.0, sum(item["spiders"]) / HIT_POINTS)


build_together.maximum = strbuild.maximum = housebuild.maximum = housebuild_paper.maximum = 1.0
strbuild_paper.maximum = 2.0
