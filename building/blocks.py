"""Problems of task build: coloured rectangles on a 6 x 6 grid, with too little material for one.

A target has four or five rectangles. Each of two agents has material for 60 to 70 % of its cells;
each of n agents has ceil((T + (n - 1) M) / n) blocks, where T is the number of cells to build and M
that of the largest rectangle. That is just enough for two agents that begin at the two ends of any
order. A cell that several agents build gains nothing.
"""

import functools
import itertools
import json
import math
import random
from collections.abc import Iterator

from building.letters import split_of
from building.world import AIR, Cell, Rules, World, box

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
    """Blocks of each agent for these rectangles."""
    return share([len(cells(one)) for one in rectangles if one[4] != AIR], agents)


def share(areas: list[int], agents: int) -> int:
    """Blocks of each agent for rectangles of these areas: a fair part of the cells, and room for
    the rectangle in which that part ends, however large it is."""
    return math.ceil((sum(areas) + (agents - 1) * max(areas, default=0)) / agents)


def rules(item: dict, agents: int) -> Rules:
    return Rules(
        (0, 0),
        (SIDE - 1, SIDE - 1),
        (frozenset(COLORS),) * agents,
        (MOST,) * agents,
        frozenset({"fill", "setblock"}),
        ({"": material(left(item), agents)},) * agents,
        standing(item),
    )


def correct(target: dict[Cell, str], built: World) -> set[Cell]:
    return {cell for cell, color in target.items() if built.block(cell) == color}


def problems(split: str, seed: str = "") -> Iterator[list[Rectangle]]:
    """Targets of a split, without end. The split depends on where the rectangles lie, not on their
    colours and their order."""
    rng = random.Random(f"build/{split}{seed}")
    while True:
        layout = _layout(rng, rng.choice(COUNTS))
        if layout and split_of(str(sorted(layout))) == split:
            rng.shuffle(layout)
            yield [(*corners, rng.choice(COLORS)) for corners in layout]


def _layout(rng: random.Random, count: int) -> list[tuple[int, int, int, int]]:
    """Corners of rectangles that do not overlap; [] where a draw does not fit."""
    sizes = [(rng.randint(1, LONGEST), rng.randint(1, LONGEST)) for _ in range(count)]
    if not _suits([width * height for width, height in sizes]):
        return []
    found, taken = [], 0
    for width, height in sizes:
        free = [place for place in _places(width, height) if not place[1] & taken]
        if not free:
            return []
        corners, mask = rng.choice(free)
        found.append(corners)
        taken |= mask
    return found


def _suits(areas: list[int]) -> bool:
    """Whether rectangles of these areas make a target."""
    total = sum(areas)
    return LEAST_CELLS <= total <= MOST_CELLS and 0.6 * total <= share(areas, 2) <= 0.7 * total


@functools.cache
def _places(width: int, height: int) -> list[tuple[tuple[int, int, int, int], int]]:
    """Where a rectangle of this size may lie: its corners, and its cells as bits."""
    found = []
    for x, y in box((0, 0), (SIDE - width, SIDE - height)):
        corners = (x, y, x + width - 1, y + height - 1)
        found.append((corners, sum(1 << SIDE * a + b for a, b in cells((*corners, "")))))
    return found


def check(rectangles) -> None:
    """Raises ValueError where `problems` could never draw these rectangles."""
    given = rectangles if isinstance(rectangles, list) else [rectangles]
    strange = [one for one in given if json.dumps(one) not in _drawable()]
    areas = [] if strange else [len(cells(one)) for one in given]
    apart = not strange and len(target({"rectangles": given})) == sum(areas)
    if not (apart and len(given) in COUNTS and _suits(areas)):
        raise ValueError(
            f"task build has no target with {strange or given!s:.200}: it has {COUNTS[0]} or "
            f"{COUNTS[1]} rectangles [x1, y1, x2, y2, colour] that do not overlap, x1 <= x2 and "
            f"y1 <= y2 of 0 to {SIDE - 1}, sides of 1 to {LONGEST}, colours {', '.join(COLORS)}; "
            f"they have {LEAST_CELLS} to {MOST_CELLS} cells, and half of these with half of the "
            "largest rectangle's, rounded up, is 60 to 70 % of them"
        )


@functools.cache
def _drawable() -> set[str]:
    """All rectangles that a target may have, as JSON."""
    sides = range(1, LONGEST + 1)
    corners = [place for size in itertools.product(sides, sides) for place, _ in _places(*size)]
    return {json.dumps([*place, color]) for place in corners for color in COLORS}
