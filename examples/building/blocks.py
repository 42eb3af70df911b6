"""Problems of task Build: coloured rectangles on a 6 x 6 grid, too many blocks for one agent.

A target has four or five rectangles. Each of two agents has material for 60 to 70 % of its cells.
Each of n agents has ceil((T + (n - 1) M) / n) blocks. T is the number of cells to build. M is the
number of cells of the largest rectangle. That is just enough for two agents that begin at the two
ends of any order. A cell that several agents build gains nothing.
"""

import math
import random

from examples.building.letters import split_of
from examples.building.world import AIR, Rules, box

SIDE = 6
COLORS = ("red", "green", "pink", "tan")
MAX_COMMANDS = 12  # of one agent
LONGEST = 4  # side of a rectangle
MIN_CELLS = 14  # of a target
MAX_CELLS = 24


def cells(rectangle):
    """Return the cells of a rectangle: x1 y1 x2 y2 colour, as /fill has it, or without colour."""
    return list(box(rectangle[:2], rectangle[2:4]))


def listed(rectangles):
    """Return the rectangles as commands, one on each line."""
    return "\n".join(" ".join(map(str, ["/fill", *rectangle])) for rectangle in rectangles)


def target(item):
    colors = {}
    for rectangle in item["rectangles"]:
        colors |= dict.fromkeys(cells(rectangle), rectangle[4])
    return colors


def standing(item):
    """Return (block, agent) of each cell that earlier turns have built."""
    return {(x, y): (block, agent) for x, y, block, agent in item.get("standing", ())}


def left(item):
    """Return the rectangles with a wrong cell, then the cells that have to become air."""
    built = standing(item)
    unfinished = []
    for rectangle in item["rectangles"]:
        blocks = {built.get(cell, (AIR,))[0] for cell in cells(rectangle)}
        if blocks != {rectangle[4]}:
            unfinished.append(tuple(rectangle))
    extra = sorted(built.keys() - target(item).keys())
    return unfinished + [(x, y, x, y, AIR) for x, y in extra]


def material(rectangles, agents):
    """Return the number of blocks of each agent, by the formula above."""
    areas = [len(cells(rectangle)) for rectangle in rectangles if rectangle[-1] != AIR]
    largest = max(areas, default=0)
    return math.ceil((sum(areas) + (agents - 1) * largest) / agents)


def rules(item, agents):
    return Rules(
        size=(SIDE, SIDE),
        palettes=(frozenset(COLORS),) * agents,
        max_commands=MAX_COMMANDS,
        target=target(item),
        commands={"fill", "setblock"},
        material={"": material(left(item), agents)},
        standing=standing(item),
    )


def problems(split, seed=""):
    """Yield targets of a split, without end. The split depends on the layout, not on colours."""
    rng = random.Random(f"build/{split}{seed}")
    while True:
        layout = _layout(rng, rng.choice((4, 5)))
        if layout and split_of(str(sorted(layout))) == split:
            rng.shuffle(layout)
            yield [(*corners, rng.choice(COLORS)) for corners in layout]


def _layout(rng, count):
    """Return the corners of rectangles that do not overlap, [] if a draw does not fit."""
    shapes = [(0, 0, rng.randrange(LONGEST), rng.randrange(LONGEST)) for _ in range(count)]
    total = sum(len(cells(shape)) for shape in shapes)
    enough = material(shapes, 2)
    if not (MIN_CELLS <= total <= MAX_CELLS and 0.6 * total <= enough <= 0.7 * total):
        return []
    layout = []
    taken = set()
    for _, _, right, top in shapes:
        starts = box((0, 0), (SIDE - 1 - right, SIDE - 1 - top))
        places = [(x, y, x + right, y + top) for x, y in starts]
        free = [place for place in places if taken.isdisjoint(cells(place))]
        if not free:
            return []
        layout.append(rng.choice(free))
        taken.update(cells(layout[-1]))
    return layout
