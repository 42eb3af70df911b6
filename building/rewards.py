"""How a joint response of a building team is scored, strictly: nothing built is 0, all of it right
is 1. The authors' rewards are in paper.py.

A team is paid for what it builds right, but for no more than what it would lose without the agent
that it could best spare, over what no partner can do in its place:

    min( V(team), min_i (V(team) - V(team without i)) / spare )

V is the share of cells that are right, of those that belong to the target or hold a block
(intersection over union, with colour): a block in the wrong place, or of the wrong kind, is counted
against it. `spare` is the part of the target for which one agent's material does not suffice, or
1 / 2n where it suffices for all. V(team) - V(team without i) is the difference reward of
Wolpert and Tumer (2002), with silence as the default action: what several agents would have built
is owed to none of them, so a silent partner, or one that writes the same list again, leaves the
team with nothing, while whoever divides the work in any way, up to 3 to 1 of two agents, has V.

| right is    | a cell of the target that ...                             |
|-------------|-----------------------------------------------------------|
| strbuild    | holds a block whose texture no block beside it has        |
| housebuild, | holds the target's block                                  |
| build       |                                                           |

housebuild's spiders take a tenth of that, or less if they do little damage, where nobody writes
/kill; and so does a /kill in vain: where no spiders are, or where the partner writes it too.
"""

import math
from collections import Counter

from building import blocks, houses, labour, letters
from building.paper import damage_of
from building.world import Rules, World, build

SPIDERS = 0.1


def iou(target: dict, right: set, built: World) -> float:
    """V: right cells over those that the target or a block has."""
    return len(right) / len(target.keys() | built.cells.keys())


def spare(rules: Rules, target: dict) -> float:
    """Share of the target that one agent cannot build: its partner's least part of the work."""
    agents = len(rules.palettes)
    if agents == 1:
        return 1.0
    if not rules.material:
        return 1 / (2 * agents)
    done = {cell for cell, (block, _) in rules.standing.items() if target.get(cell) == block}
    counts = Counter(block for cell, block in target.items() if cell not in done)
    alone = [
        sum(min(limits.get(block, math.inf), count) for block, count in counts.items())
        for limits in rules.material
    ]
    alone = max(map(min, alone, (limits.get("", math.inf) for limits in rules.material)))
    left = (counts.total() - min(alone, counts.total())) / len(target)
    return left or (0.0 if rules.standing else 1 / (2 * agents))  # a last stroke is anyone's


def shared(value, rules: Rules, responses: list[str], least: float) -> tuple[float, World]:
    """What a team is paid for its world, and the world. value: of a World; least: of the work, that
    each agent has to do."""
    built = build(rules, responses)
    team, lost = value(built), []
    for agent in range(len(responses)):
        without = [*responses[:agent], "", *responses[agent + 1 :]]
        lost.append(team - value(build(rules, without)))
    return max(0.0, min(team, min(lost) / least if least else team)), built


def _score(site, item: dict, responses: list[str]) -> tuple[dict[str, float], World]:
    rules, target = site.rules(item, len(responses)), site.target(item)

    def value(built: World) -> float:
        return iou(target, site.right(target, built), built)

    paid, built = shared(value, rules, responses, spare(rules, target))
    right, worth = site.right(target, built), value(built)
    parts = {"building": paid, "metric/pass": float(worth == 1), "metric/iou": worth}
    return parts | labour.measures(rules, built, right, len(target)), built


def strbuild(item: dict, responses: list[str]) -> dict[str, float]:
    """The string item["rows"] shows, in blocks of which no two that touch look alike; 0 to 1."""
    return _score(letters, item, responses)[0]


def housebuild(item: dict, responses: list[str]) -> dict[str, float]:
    """The house item["layers"] shows, block by block, and its spiders; 0 to 1."""
    parts, built = _score(houses, item, responses)
    damage, wrote = damage_of(item, built), built.kills()
    in_vain = wrote > bool(item["spiders"])
    return parts | {"spiders": -SPIDERS * (1.0 if in_vain else damage) * parts["building"]}


def build_together(item: dict, responses: list[str]) -> dict[str, float]:
    """The rectangles of task build, of which each agent has material for a part; 0 to 1."""
    return _score(blocks, item, responses)[0]


build_together.maximum = strbuild.maximum = housebuild.maximum = 1.0
