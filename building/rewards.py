"""The strict building rewards: nothing built is 0, everything correct is 1. The authors' rewards
are in paper.py.

A team's score V is intersection over union: its correct cells over those that the target or a block
has, so that a wrong block counts against it. Pay is V, capped by the least useful agent: what V
loses without that agent, divided by the share of the target that its partners could not build.

    pay = min( V(team), min_i (V(team) - V(team without i)) / least )

"Without i" means that i writes nothing: the difference reward of Wolpert and Tumer (2002). A team
with a silent agent, or with two that write the same list, is paid 0. A team that divides the work
in any way, of two agents up to 3 to 1 where material has no limit, is paid V.

| a cell of the target is correct if it holds |                                        |
|---------------------------------------------|----------------------------------------|
| strbuild                                    | a block whose texture no neighbour has |
| housebuild, build                           | the target's block                     |

housebuild's spiders take a tenth of the pay, or less if they do little damage, unless an agent
writes /kill. A needless /kill takes a tenth, too: without spiders, or if the partner writes it.
"""

from collections import Counter

from building import blocks, houses, labour, letters
from building.paper import spider_damage
from building.world import Rules, World, build

SPIDERS = 0.1


def least_share(rules: Rules, target: dict) -> float:
    """The share of the target that one agent cannot build, which its partners therefore have to: by
    the limits of material, or 1 / 2n of n agents if the material of one suffices for everything. 0
    if it suffices for what is left after earlier turns: either agent may finish that alone."""
    agents = len(rules.palettes)
    if agents == 1:
        return 1.0
    if not rules.material:
        return 1 / (2 * agents)
    done = {cell for cell, (block, _) in rules.standing.items() if target.get(cell) == block}
    counts = Counter(block for cell, block in target.items() if cell not in done)
    by_block = sum(min(rules.material.get(block, count), count) for block, count in counts.items())
    share = (counts.total() - min(by_block, rules.material.get("", by_block))) / len(target)
    return share or (0.0 if rules.standing else 1 / (2 * agents))


def _score(site, item: dict, responses: list[str]) -> tuple[dict[str, float], World]:
    """The pay and the measures of a team, and its world. site: the module with the task's rules,
    target and correct cells."""
    rules, target = site.rules(item, len(responses)), site.target(item)

    def score(built: World) -> float:
        return labour.iou(target, site.correct(target, built), built)

    built, least = build(rules, responses), least_share(rules, target)
    team = score(built)
    without = ([*responses[:i], "", *responses[i + 1 :]] for i in range(len(responses)))
    lost = min(team - score(build(rules, texts)) for texts in without)
    pay = max(0.0, min(team, lost / least if least else team))
    measures = labour.measures(rules, built, target, site.correct(target, built))
    return {"building": pay} | measures, built


def strbuild(item: dict, responses: list[str]) -> dict[str, float]:
    """The string item["rows"] shows, in blocks of which no two neighbours look alike; 0 to 1."""
    return _score(letters, item, responses)[0]


def housebuild(item: dict, responses: list[str]) -> dict[str, float]:
    """The house item["layers"] shows, block by block, and its spiders; 0 to 1."""
    parts, built = _score(houses, item, responses)
    needless = built.kills() > bool(item["spiders"])
    cost = 1.0 if needless else spider_damage(item, built)
    return parts | {"spiders": -SPIDERS * cost * parts["building"]}


def build_together(item: dict, responses: list[str]) -> dict[str, float]:
    """The rectangles of task build; each agent has material for a part of them; 0 to 1."""
    return _score(blocks, item, responses)[0]


build_together.maximum = strbuild.maximum = housebuild.maximum = 1.0
