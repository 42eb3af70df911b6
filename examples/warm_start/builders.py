"""The corpus of task build: targets, and commands for them in every order, with faults.

make.py says what is designed in it, and what is not.
"""

import itertools
import random
import re
from operator import itemgetter

from examples.building import blocks
from examples.building.tasks import Build
from examples.building.world import AIR
from examples.warm_start.corpus import draw

# How often an author goes by which order, upwards or downwards. random: a new one each time.
# A first corner belongs to one rectangle, so an order and its reverse are exactly that.
ORDERS = {"random": 0.20, "as listed": 0.30, "from the left": 0.25, "from below": 0.25}
TEAMS = {1: 0.15, 2: 0.80, 3: 0.05}  # agents -> share
SECOND = 0.20  # share that may have a second turn; a seventh has one, of 1 to LIMIT rectangles
LIMIT = 5
MALFORMED = 0.12  # share of responses with a fault of form
# A token is at most a cell (two numbers), a number, a word or a mark.
PIECES = r"\n| \d \d| ?\d| ?[^\s\d.]+|."


def items(rng):
    """Yield (item, feedback) without end, some items in their second turn."""
    task = Build()
    for rectangles in blocks.problems("train", "/warm start 0"):
        item = {"rectangles": rectangles}
        if rng.random() >= SECOND:
            yield item, ""
            continue
        responses = [response(rng, item) for _ in range(2)]
        later = task.after(item, responses)
        if 0 < len(blocks.left(later)) <= LIMIT:
            yield later, task.feedback(item, responses)[0]


def response(rng, item):
    """Return an imperfect author's commands for all that is left, whatever a partner may do.

    The number of blocks does not matter: a fill that they do not suffice for is refused.
    """
    rectangles = blocks.left(item)
    order = draw(rng, ORDERS)
    ordered = rng.sample(rectangles, len(rectangles))
    if order != "random":
        keys = {
            "as listed": rectangles.index,
            "from the left": itemgetter(0, 1),
            "from below": itemgetter(1, 0),
        }
        ordered.sort(key=keys[order], reverse=rng.random() < 0.5)
    commands = blocks.listed(ordered)
    if rng.random() >= MALFORMED:
        return commands
    colors = "|".join((*blocks.COLORS, AIR))
    faults = ((f" ({colors})", ""), ("/fill", "/all"), ("/fill ", ""))
    return re.sub(*rng.choice(faults), commands)  # one fault in all of the commands


def observed(item, feedback, agents):
    """Return an observation in two parts: the lines that every team sees, and the last line."""
    text = Build(num_agents=agents).observe(0, item, [("", feedback)] if feedback else [])
    *head, tail = text.splitlines(keepends=True)
    return "".join(head), tail


def rows(problems, examples):
    """Return (problem, its (context, response) pairs) of each problem."""
    rng = random.Random(0)
    table = []
    for item, feedback in itertools.islice(items(rng), problems):
        pairs = []
        for _ in range(examples):
            problem, context = observed(item, feedback, draw(rng, TEAMS))
            pairs.append((context, response(rng, item)))
        table.append((problem, pairs))
    return table
