"""Problems of task build: coloured rectangles on a 6 x 6 grid, with too little material for one.

A target has four or five rectangles. Each of two agents has material for 60 to 70 % of its cells;
each of n agents has ceil((T + (n - 1) M) / n) blocks, where T is the number of cells to build and M
that of the largest rectangle. That is just enough for two agents that begin at the two ends of any
order. A cell that several agents build gains nothing.
"""

import math
import random
from collections.abc import Iterator

from examples.building.letters import split_of
from examples.building.world import AIR, Cell, Rules, box

SIDE, COLORS, MOST = 6, ("red", "green", "pink", "tan"), 12  # commands of one agent
COUNTS, LONGEST, LEAST_CELLS, MOST_CELLS = (4, 5), 4, 14, 24  # of a target's rectangles

Rectangle = tuple[int, int, int, int, str]  # x1 y1 x2 y2 colour, as /fill has them


def cells(rectangle: Rectangle) -> list[Cell]:
    x1, y1, x2, y2, _ = rectangle
    return list(box((x1, y1), (x2, y2)))


def listed(rectangles: list[Rectangle]) -> str:
    """Rectangles as commands, one on each line."""
    return "\n".join(f"/fill {' '.join(map(str, one))}" for one in rectangles)


def target(item: dict) -> dict[Cell, str]:
    return {cell: one[4] for one in item["rectangles"] for cell in cells(one)}


def standing(item: dict) -> dict[Cell, tuple[str, int]]:
    """(block, agent) of each cell that earlier turns have built."""
    return {(x, y): (block, agent) for x, y, block, agent in item.get("standing", ())}


def left(item: dict) -> list[Rectangle]:
    """What is still to do: rectangles with a wrong cell, and cells that have to become air."""
    stands, wanted = standing(item), target(item)
    found = [
        tuple(one)
        for one in item["rectangles"]
        if any(cell not in stands or stands[cell][0] != one[4] for cell in cells(one))
    ]
    return found + [(x, y, x, y, AIR) for x, y in sorted(stands.keys() - wanted.keys())]


def material(rectangles: list[Rectangle], agents: int) -> int:
    """Blocks of each agent, by the formula above."""
    areas = [(x2 - x1 + 1) * (y2 - y1 + 1) for x1, y1, x2, y2, kind in rectangles if kind != AIR]
    return math.ceil((sum(areas) + (agents - 1) * max(areas, default=0)) / agents)


def rules(item: dict, agents: int) -> Rules:
    palettes, commands = (frozenset(COLORS),) * agents, frozenset({"fill", "setblock"})
    high, most = (SIDE - 1, SIDE - 1), {"": material(left(item), agents)}
    return Rules(high, palettes, MOST, target(item), commands, most, standing(item))


def problems(split: str, seed: str = "") -> Iterator[list[Rectangle]]:
    """Targets of a split, without end. It depends on where rectangles lie, not on their colours."""
    rng = random.Random(f"build/{split}{seed}")
    while True:
        layout = _layout(rng, rng.choice(COUNTS))
        if layout and split_of(str(sorted(layout))) == split:
            rng.shuffle(layout)
            yield [(*corners, rng.choice(COLORS)) for corners in layout]


def _layout(rng: random.Random, count: int) -> list[tuple[int, int, int, int]]:
    """Corners of rectangles that do not overlap; [] where a draw does not fit."""
    sizes = [(rng.randint(1, LONGEST), rng.randint(1, LONGEST)) for _ in range(count)]
    total = sum(width * height for width, height in sizes)
    enough = material([(1, 1, width, height, "") for width, height in sizes], 2)
    if not (LEAST_CELLS <= total <= MOST_CELLS and 0.6 * total <= enough <= 0.7 * total):
        return []
    found = []
    for width, height in sizes:
        corners = box((0, 0), (SIDE - width, SIDE - height))
        places = ((x, y, x + width - 1, y + height - 1) for x, y in corners)
        free = [place for place in places if all(_apart(place, other) for other in found)]
        if not free:
            return []
        found.append(rng.choice(free))
    return found


def _apart(one: tuple, other: tuple) -> bool:
    """Whether two rectangles share no cell."""
    x1, y1, x2, y2 = one
    return x1 > other[2] or other[0] > x2 or y1 > other[3] or other[1] > y2
