"""Who built what: measures of a team's work, and a name for how it divided that work."""

import itertools
from collections import Counter
from collections.abc import Callable
from operator import itemgetter

from building.world import AIR, Cell, Rules, World

MOSTLY = 0.9  # share of the cells that a rule has to fit
Divisions = dict[tuple[str, str], Callable[[Cell], int]]  # (low, high): a number of each cell
X, Y, Z = itemgetter(0), itemgetter(1), itemgetter(2)
DIVISIONS: Divisions = {
    ("left", "right"): X,
    ("below", "above"): Y,
    ("in front", "behind"): Z,
    ("even", "odd"): lambda cell: sum(cell) % 2,  # a checkerboard
}


def iou(target: dict[Cell, str], correct: set[Cell], built: World) -> float:
    """Intersection over union: correct cells over those that the target or a block has."""
    return len(correct) / len(target.keys() | built.cells.keys())


def measures(
    rules: Rules, built: World, target: dict[Cell, str], correct: set[Cell]
) -> dict[str, float]:
    """What is logged of a world: metric/iou; metric/pass, 1 where everything is correct;
    metric/built/<agent>, the share of the target that is correct and this agent's; metric/twice, of
    the cells where any agent put a block, the share where several did; and where material is
    limited, metric/unused, the share of it that is left.
    """
    value = iou(target, correct, built)
    owners = Counter(built.cells[cell][1] for cell in correct)
    found = {"metric/pass": float(value == 1), "metric/iou": value}
    found |= {f"metric/built/{i}": owners[i] / len(target) for i in range(len(built.commands))}
    wrote = [[cell for c in mine if c.block != AIR for cell in c.cells] for mine in built.commands]
    writers = Counter(itertools.chain(*map(set, wrote)))
    found["metric/twice"] = sum(n > 1 for n in writers.values()) / max(len(writers), 1)
    if rules.material:
        had = sum(rules.material.values()) * len(wrote)
        found["metric/unused"] = 1 - sum(map(len, wrote)) / max(had, 1)
    return found


def scheme(owners: dict[Cell, int], agents: int, divisions: Divisions) -> str:
    """The name of the rule that fits best, if it fits nine in ten of the correct cells.

    Each division orders the cells by a number; the rule is that one agent has the cells up to some
    number, and the other has the rest. The name says which agent has which side: so a convention
    that holds for all problems is one name, and a division by chance is two. Of several rules that
    fit alike, the first is named.
    """
    if not owners or agents == 1:
        return "one agent" if owners else "nothing stands"
    agent, most = Counter(owners.values()).most_common(1)[0]
    if most >= MOSTLY * len(owners):
        return f"agent {agent} alone"
    fits = {}
    for (low, high), number in divisions.items():
        numbers = {cell: number(cell) for cell in owners}
        cuts = sorted(set(numbers.values()))[:-1]  # how many cells fit "0 low, 1 high" at each cut
        fit = [sum((owners[c] == 0) == (numbers[c] <= cut) for c in owners) for cut in cuts]
        fits[f"agent 0 {low}, 1 {high}"] = max(fit, default=0)
        fits[f"agent 0 {high}, 1 {low}"] = len(owners) - min(fit, default=len(owners))
    best = max(fits, key=fits.get)
    return best if agents == 2 and fits[best] >= MOSTLY * len(owners) else "mixed"
