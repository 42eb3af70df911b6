"""What the agents of a building team are told after a turn: the authors' modes, in our words.

| mode                  | tells each agent                                                |
|-----------------------|-----------------------------------------------------------------|
| score_feedback        | the turn's reward                                               |
| position_feedback     | all target cells, of which it is to take about half             |
| perfect_feedback      | strbuild: its wrong cells of a map by checkers, and the last    |
|                       | agent what has to go; housebuild: every other wrong cell        |
| position_modification | the first 20 wrong cells, to all the same                       |
| rect_modification     | rectangles with a wrong cell, agent 1 up to y = 2 and agent 2   |
|                       | from there, and its own commands                                |
| resource_schedule     | its commands, its material left, the largest rectangles that    |
|                       | an agent's material suffices for, which are the same for all    |

strbuild has the first three, and its authors train with position_feedback; housebuild has all, and
score_feedback. Every turn begins with an empty world, so the fix that some of them ask for has to
come with all that was right. perfect_feedback's map for strbuild gives each agent one of its two
blocks: the authors' reward charges that with 0.5.
"""

from building import houses, letters
from building.world import AIR, Cell, Rules, World

LISTED = 20  # cells of position_modification
AFRESH = "The world is empty again: write everything that should stand, not only what is new."


def position_feedback(item: dict, rules: Rules, built: World, score: float) -> list[str]:
    strings = "rows" in item
    cells = letters.cells(item["rows"]) if strings else by_layer(houses.target(item))
    apart = ", no two of yours side by side" if strings else ""
    return [
        f"The target's cells are {listed(cells)}. Choose about half of them, some "
        f"{len(cells) // 2}{apart}. You may write {most} commands, with {own(rules, agent)}."
        for agent, most in enumerate(rules.most)
    ]


def score_feedback(item: dict, rules: Rules, built: World, score: float) -> list[str]:
    return [f"Your team's reward was {score:.4f}. {AFRESH}"] * len(rules.most)


def perfect_feedback(item: dict, rules: Rules, built: World, score: float) -> list[str]:
    if "rows" not in item:
        wanted = houses.target(item)
        wrong = [(cell, wanted.get(cell, AIR)) for cell in wrong_cells(item, rules, built)]
        shares = [wrong[agent :: len(rules.most)] for agent in range(len(rules.most))]
    else:
        shares = _checkered(item, rules, built)
    return [_to_do(cells) for cells in shares]


def _checkered(item: dict, rules: Rules, built: World) -> list[list[tuple[Cell, str]]]:
    """Per agent: the cells of its color in a checkered map that do not hold the map's block."""
    agents, shares = len(rules.most), [[] for _ in rules.most]
    for cell in letters.cells(item["rows"]):
        color = (cell[0] + cell[1]) % 2
        block = letters.PALETTES[color % agents][color]
        if built.block(cell) != block:
            shares[color % agents].append((cell, block))
    extra = built.cells.keys() - letters.target(item).keys()
    shares[-1] += [(cell, AIR) for cell in sorted(extra)]
    return shares


def _to_do(cells: list[tuple[Cell, str]]) -> str:
    if not cells:
        return "Nothing of yours is wrong. Write it again."
    told = "; ".join(f"{' '.join(map(str, cell))} {block}" for cell, block in cells)
    return f"Fix only these cells, with these blocks: {told}."


def position_modification(item: dict, rules: Rules, built: World, score: float) -> list[str]:
    wrong = wrong_cells(item, rules, built)
    told = f"{len(wrong)} cells are wrong"
    told += f", the first of them {listed(wrong[:LISTED])}" if wrong else ""
    return [f"{told}. {AFRESH}"] * len(rules.most)


def rect_modification(item: dict, rules: Rules, built: World, score: float) -> list[str]:
    wrong, told = set(wrong_cells(item, rules, built)), []
    broken = [r for r in houses.rectangles(item) if wrong & houses.within(r)]
    for agent in range(len(rules.most)):
        low, high = (0, 2) if agent == 0 else (2, len(item["layers"]))
        high = len(item["layers"]) if len(rules.most) == 1 else high
        mine = [r for r in broken if low <= r[0][1] <= high]
        told.append(
            f"{_before(built, agent)} Rectangles that are not right: "
            f"{houses.written(mine) or 'none of yours'}. {AFRESH}"
        )
    return told


def resource_schedule(item: dict, rules: Rules, built: World, score: float) -> list[str]:
    free, chosen = dict(rules.material[0]), []
    for one in sorted(houses.rectangles(item), key=lambda r: -len(houses.within(r))):
        if len(houses.within(one)) <= free[one[2]]:
            free[one[2]] -= len(houses.within(one))
            chosen.append(one)
    told = []
    for agent, limits in enumerate(rules.material):
        left = (f"{block} {limits[block] - built.spent[agent][block]}" for block in sorted(limits))
        told.append(
            f"{_before(built, agent)} You had left: {', '.join(left)}. The largest rectangles that "
            f"one agent's material suffices for: {houses.written(chosen)}. {AFRESH}"
        )
    return told


def _before(built: World, agent: int) -> str:
    accepted = "; ".join(command.line for command in built.commands[agent])
    return f"Of your commands these were accepted: {accepted or 'none'}."


def wrong_cells(item: dict, rules: Rules, built: World) -> list[Cell]:
    """Of a house: the cells that do not hold what the target does, air too, layer by layer."""
    wanted = houses.target(item)
    return by_layer(c for c in rules.cells() if built.block(c) != wanted.get(c, AIR))


def by_layer(cells) -> list[Cell]:
    return sorted(cells, key=lambda cell: (cell[1], cell[2], cell[0]))


def listed(cells: list[Cell]) -> str:
    return ", ".join(f"({x}, {y}, {z})" for x, y, z in cells)


def own(rules: Rules, agent: int) -> str:
    return ", ".join(sorted(rules.palettes[agent]))


MODES = {
    mode.__name__: mode
    for mode in (
        score_feedback,
        position_feedback,
        perfect_feedback,
        position_modification,
        rect_modification,
        resource_schedule,
    )
}
