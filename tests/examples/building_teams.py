"""Teams by hand for the building tasks: functions of an item that return the agents' responses.

docs/results/strbuild.md has a table of what they earn.
"""

import itertools

from examples.building import houses, letters

(OAK, STONE), (WHITE, BLACK) = letters.PALETTES


def published(task) -> list[dict]:
    """Return the authors' ten strings or houses."""
    return task.items("train")[:8] + task.items("test")[:2]


def box(item) -> list[tuple]:
    return list(itertools.product(range(len(item["rows"][0])), range(len(item["rows"])), [0]))


def targets(item) -> list[tuple]:
    return sorted(letters.cells(item["rows"]))


def checkered(cells, *palette) -> str:
    """Return /setblock lines that take turns with the blocks of a palette."""
    return "\n".join(f"/setblock {x} {y} {z} {palette[(x + y + z) % 2]}" for x, y, z in cells)


def fill(rectangles) -> str:
    lines = []
    for low, high, block in rectangles:
        lines.append(" ".join(map(str, ["/fill", *low, *high, block])))
    return "\n".join(lines)


def cells_in_turn(item, agent: int) -> str:
    """Return every other cell of each block of a house."""
    cells = sorted(houses.target(item).items(), key=lambda pair: (pair[1], pair[0]))
    return fill((cell, cell, block) for cell, block in cells[agent::2])


def layers(item, numbers) -> str:
    return fill(r for r in houses.rectangles(item) if r[0][1] in numbers)


def everything(item) -> str:
    return fill(houses.rectangles(item))


LETTERS = {
    "nothing": lambda item: ["", ""],
    "agent 0 fills all targets, checkered": lambda item: [
        checkered(targets(item), OAK, STONE),
        "",
    ],
    "both fill all targets, checkered": lambda item: [
        checkered(targets(item), OAK, STONE),
        checkered(targets(item), WHITE, BLACK),
    ],
    "the map of perfect_feedback": lambda item: [
        checkered([cell for cell in targets(item) if sum(cell) % 2 == 0], OAK, OAK),
        checkered([cell for cell in targets(item) if sum(cell) % 2 == 1], BLACK, BLACK),
    ],
    "each a half of the targets, checkered": lambda item: [
        checkered(targets(item)[: len(targets(item)) // 2], OAK, STONE),
        checkered(targets(item)[len(targets(item)) // 2 :], WHITE, BLACK),
    ],
}
HOUSES = {
    "only /kill": lambda item: ["/kill", ""],
    "both write the same list": lambda item: ["/kill\n" + everything(item), everything(item)],
    "agent 0 layers 0 to 2, agent 1 the others": lambda item: [
        "/kill\n" + layers(item, range(3)),
        layers(item, range(3, 7)),
    ],
    "cells in turn": lambda item: ["/kill\n" + cells_in_turn(item, 0), cells_in_turn(item, 1)],
}
