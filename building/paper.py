"""The building rewards as their authors publish them (OpenMLRL/LLM_Collab_Minecraft).

strbuild_paper, -3 to 2:

    coverage   2.0    share of the target's cells that hold a block, whosever and whichever
    extra     -1.5    share of the other cells that hold one
    adjacency -1.0    share of the pairs of blocks side by side whose textures are equal
    missing   -0.25   for each agent of whose blocks not every one stands somewhere

housebuild_paper, -0.1 to 1:

    match      1.0    share of all cells, air included, that hold what the target does
    spiders   -0.1    times the spiders' damage over the player's hit points, at most 1; 0 if an
                      agent wrote /kill, and for a single agent (the paper's weight is 0.2, the
                      code's 0.1)

The authors train with these values less 2 and less 1, which changes no advantage. An empty world
earns -0.5, and 0.29 to 0.5 less the spiders' damage.
"""

from building import houses, labour, letters, world

HIT_POINTS = 5


def strbuild_paper(item: dict, responses: list[str]) -> dict[str, float]:
    rules, target = letters.rules(item, len(responses)), letters.target(item)
    built = world.build(rules, responses)
    covered = target.keys() & built.cells.keys()
    extra = len(built.cells) - len(covered)
    others = sum(1 for _ in rules.cells()) - len(target)
    textures = {cell: letters.texture(block) for cell, (block, _) in built.cells.items()}
    pairs = letters.pairs(textures)
    equal = sum(textures[a] == textures[b] for a, b in pairs)
    blocks = {block for block, _ in built.cells.values()}
    return {
        "coverage": 2.0 * len(covered) / len(target),
        "extra": -1.5 * extra / others if others else 0.0,
        "adjacency": -1.0 * equal / len(pairs) if pairs else 0.0,
        "missing": -0.25 * sum(not palette <= blocks for palette in rules.palettes),
        **labour.measures(rules, built, target, covered),
    }


def housebuild_paper(item: dict, responses: list[str]) -> dict[str, float]:
    rules, target = houses.rules(item, len(responses)), houses.target(item)
    built = world.build(rules, responses)
    cells = list(rules.cells())
    matching = sum(built.block(cell) == target.get(cell, world.AIR) for cell in cells)
    damage = spider_damage(item, built) if len(responses) > 1 else 0.0
    return {
        "match": matching / len(cells),
        "spiders": -0.1 * damage,
        **labour.measures(rules, built, target, houses.correct(target, built)),
    }


def spider_damage(item: dict, built: world.World) -> float:
    """The living spiders' damage as a share of the player's hit points, at most 1."""
    return 0.0 if built.kills() else min(1.0, sum(item["spiders"]) / HIT_POINTS)


strbuild_paper.maximum, housebuild_paper.maximum = 2.0, 1.0
