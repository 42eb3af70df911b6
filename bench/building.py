"""What the building rewards pay for: teams by hand, under both. python -m bench.building

The table of docs/building.md, over the strings and houses of the published data sets. A team is a
function of an item that gives the agents' responses; tests/test_building.py holds what each has to
earn.
"""

import itertools

from examples.building import houses, letters
from examples.building.tasks import HouseBuild, StrBuild
from rewards import REWARDS
from training.plugins import resolve

OAK, STONE, WHITE, BLACK = (block for palette in letters.PALETTES for block in palette)


def published(task) -> list[dict]:
    """The authors' ten strings or houses."""
    return task.items("train")[:8] + task.items("test")[:2]


def place(cells, block) -> str:
    """/setblock lines; block: a name, or a function of the cell."""
    named = block if callable(block) else lambda cell: block
    return "\n".join(f"/setblock {x} {y} {z} {named((x, y, z))}" for x, y, z in cells)


def checkers(*blocks):
    return lambda cell: blocks[sum(cell) % 2]


def box(item) -> list:
    return list(itertools.product(range(len(item["rows"][0])), range(len(item["rows"])), [0]))


def targets(item) -> list:
    return letters.cells(item["rows"])


def two_blocks(item) -> str:
    """One cell with each of agent 1's blocks, where no neighbour looks like them."""
    cells = sorted(targets(item))
    return place(cells[:1], WHITE) + "\n" + place(cells[-1:], BLACK)


def share(item, agent: int, blocks: tuple[str, str]) -> str:
    """A half of the targets, from the left or from the right, in two colours."""
    cells = sorted(targets(item))
    middle = len(cells) // 2
    return place(cells[middle:] if agent else cells[:middle], checkers(*blocks))


LETTERS = {
    "nothing": lambda item: ["", ""],
    "agent 0 fills all targets with one block": lambda item: [place(targets(item), OAK), ""],
    "agent 0 fills the whole box, checkered": lambda item: [
        place(box(item), checkers(OAK, STONE)),
        "",
    ],
    "agent 0 fills all targets, checkered": lambda item: [
        place(targets(item), checkers(OAK, STONE)),
        "",
    ],
    "both fill all targets, checkered": lambda item: [
        place(targets(item), checkers(OAK, STONE)),
        place(targets(item), checkers(WHITE, BLACK)),
    ],
    "the map of perfect_feedback": lambda item: [
        place([c for c in targets(item) if sum(c) % 2 == agent], (OAK, BLACK)[agent])
        for agent in (0, 1)
    ],
    "agent 0 does everything, agent 1 two cells of it again": lambda item: [
        place(targets(item), checkers(OAK, STONE)),
        two_blocks(item),
    ],
    "each fills a half of the box, checkered": lambda item: [
        place(box(item)[: len(box(item)) // 2], checkers(OAK, STONE)),
        place(box(item)[len(box(item)) // 2 :], checkers(WHITE, BLACK)),
    ],
    "each a half of the targets, checkered": lambda item: [
        share(item, 0, (OAK, STONE)),
        share(item, 1, (WHITE, BLACK)),
    ],
}


def fill(rectangles) -> str:
    numbers = ((*low, *high, block) for low, high, block in rectangles)
    return "\n".join(f"/fill {' '.join(map(str, line))}" for line in numbers)


def below(item, low: bool) -> str:
    return fill(r for r in houses.rectangles(item) if (r[0][1] <= 2) == low)


HOUSES = {
    "nothing": lambda item: ["", ""],
    "only /kill": lambda item: ["/kill", ""],
    "agent 0 writes every rectangle": lambda item: [listed(item), ""],
    "both write the same list": lambda item: [listed(item), fill(houses.rectangles(item))],
    "agent 0 layers 0 to 2, agent 1 the others": lambda item: [
        "/kill\n" + below(item, True),
        below(item, False),
    ],
    "agent 1 in reverse order": lambda item: [listed(item), fill(houses.rectangles(item)[::-1])],
    "rectangles in turn": lambda item: [
        "/kill\n" + fill(houses.rectangles(item)[::2]),
        fill(houses.rectangles(item)[1::2]),
    ],
    "cells in turn": lambda item: [
        "/kill\n" + fill(single(item, 0)),
        fill(single(item, 1)),
    ],
}


def listed(item) -> str:
    return "/kill\n" + fill(houses.rectangles(item))


def single(item, agent: int) -> list:
    """Every other cell of each block."""
    cells = sorted(houses.target(item).items(), key=lambda pair: (pair[1], pair[0]))
    return [(cell, cell, block) for cell, block in cells[agent::2]]


def main() -> None:
    for task, teams in ((StrBuild(), LETTERS), (HouseBuild(), HOUSES)):
        items = published(task)
        names = (task.reward, f"{task.reward}_paper")
        print(f"| a team of {task.name} | " + " | ".join(names) + " |\n|---|---|---|")
        for team, answer in teams.items():
            cells = []
            for name in names:
                reward = resolve(name, REWARDS, "reward")
                paid = [worth(reward(item, answer(item))) for item in items]
                low, high = f"{min(paid):.2f}", f"{max(paid):.2f}"
                cells.append(low if low == high else f"{low} to {high}")
            print(f"| {team} | {' | '.join(cells)} |")
        print()


def worth(parts: dict[str, float]) -> float:
    return sum(value for name, value in parts.items() if not name.startswith("metric/"))


if __name__ == "__main__":
    main()
