"""The building rewards as their authors publish them (OpenMLRL/LLM_Collab_Minecraft).

strbuild_paper, -3 to 2:

    coverage   2.0    share of the target's cells that hold a block, whosever and whichever
    extra     -1.5    share of the other cells that do
    adjacency -1.0    share of the pairs of blocks side by side whose textures are equal
    missing   -0.25   for each agent of whose blocks not every one stands somewhere

housebuild_paper, -0.1 to 1:

    match      1.0    share of all cells, air too, that hold what the target does
    spiders   -0.1    times the spiders' damage / the player's hit points, at most 1, unless an
                      agent wrote /kill; a single agent meets none (the paper's weight is 0.2,
                      the code's 0.1)

The authors train with the value less 2 and less 1, which changes no advantage. Nothing built earns
-0.5, and 0.29 to 0.5.
"""

from building import houses, labour, letters, world

HIT_POINTS = 5


def strbuild_paper(item: dict, responses: list[str]) -> dict[str, float]:
    rules = letters.rules(item, len(responses))
    built = world.build(rules, responses)
    target, stands = set(letters.cells(item["rows"])), built.cells.keys()
    others = sum(1 for _ in rules.cells()) - len(target)
    beside = letters.pairs(stands)
    alike = sum(
        letters.texture(built.block(a)) == letters.texture(built.block(b)) for a, b in beside
    )
    blocks = {block for block, _ in built.cells.values()}
    extra = len(stands - target)
    covered = stands & target
    return {
        "coverage": 2.0 * len(covered) / len(target),
        "extra": -1.5 * extra / others if others else 0.0,
        "adjacency": -1.0 * alike / len(beside) if beside else 0.0,
        "missing": -0.25 * sum(not palette <= blocks for palette in rules.palettes),
        **_measured(rules, built, target, covered),
    }


def housebuild_paper(item: dict, responses: list[str]) -> dict[str, float]:
    rules, target = houses.rules(item, len(responses)), houses.target(item)
    built = world.build(rules, responses)
    cells = list(rules.cells())
    right = sum(built.block(cell) == target.get(cell, world.AIR) for cell in cells)
    damage = damage_of(item, built) if len(responses) > 1 else 0.0
    return {
        "match": right / len(cells),
        "spiders": -0.1 * damage,
        **_measured(rules, built, target.keys(), houses.right(target, built)),
    }


def _measured(rules: world.Rules, built: world.World, target: set, right: set) -> dict[str, float]:
    iou = len(right) / len(target | built.cells.keys())
    shares = labour.measures(rules, built, right, len(target))
    return {"metric/pass": float(iou == 1), "metric/iou": iou} | shares


def damage_of(item: dict, built: world.World) -> float:
    """What the living spiders do, as a share of the player's hit points, at most 1."""
    return 0.0 if built.kills() else min(1.0, sum(item["spiders"]) / HIT_POINTS)


strbuild_paper.maximum, housebuild_paper.maximum = 2.0, 1.0
