"""Who built what: how a team that writes commands for one world divides its work."""

from collections import Counter, defaultdict
from collections.abc import Callable

from building.world import Cell, Rules, World

MOSTLY = 0.9  # of the cells, for a scheme to be one


def measures(rules: Rules, built: World, right: set[Cell], cells: int) -> dict[str, float]:
    """What is logged of a world; right: the target's cells that are as they should be, of `cells`.

    metric/built/<agent>: share of the target that stands right and is this agent's. metric/twice:
    of the cells where any agent put a block, those where several did. metric/unused: share of the
    material that is left, where it is limited.
    """
    owners = Counter(built.cells[cell][1] for cell in right)
    found = {f"metric/built/{i}": owners[i] / cells for i in range(len(built.wrote))}
    writers = Counter(cell for wrote in built.wrote for cell in wrote)
    found["metric/twice"] = sum(n > 1 for n in writers.values()) / max(len(writers), 1)
    if rules.material:
        had = sum(sum(limits.values()) for limits in rules.material)
        found["metric/unused"] = 1 - sum(spent.total() for spent in built.spent) / max(had, 1)
    return found


def scheme(
    owners: dict[Cell, int],
    agents: int,
    halves: dict[tuple[str, str], Callable[[Cell], int]],
    groups: dict[str, Callable[[Cell], int | str]],
) -> str:
    """The simplest rule that tells who built nine cells in ten, of one agent or two.

    halves: (what is low, what is high) and a number of a cell: one agent has the low ones. It says
    which agent, so that a convention can be told from a division that is drawn by lot each time.
    groups: cells with one value belong to one agent, whichever it is. The first of the best is it.
    """
    if not owners or agents == 1:
        return "one agent" if owners else "nothing stands"
    ranked = Counter(owners.values()).most_common()
    if ranked[0][1] >= MOSTLY * len(owners):
        return f"agent {ranked[0][0]} alone"
    found = {}
    for (low, high), number in halves.items():
        values = sorted({number(cell) for cell in owners})
        for first, second in ((low, high), (high, low)):
            sides = [first == low, first != low]  # agent 0's: the low ones, the high ones
            found[f"agent 0 {first}, 1 {second}"] = max(
                (
                    sum((owners[c] == 0) == sides[number(c) >= v] for c in owners)
                    for v in values[1:]
                ),
                default=0,
            )
    for name, value in groups.items() if max(found.values()) < MOSTLY * len(owners) else ():
        by_value = defaultdict(Counter)
        for cell, owner in owners.items():
            by_value[value(cell)][owner] += 1
        found[name] = sum(max(counts.values()) for counts in by_value.values())
    best = max(found, key=found.get)
    return best if found[best] >= MOSTLY * len(owners) else "mixed"
