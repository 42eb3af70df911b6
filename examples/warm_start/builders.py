"""The corpus of task build: targets, and commands for them in every order, with faults.

make.py says what is designed in it, and what is not.
"""

import itertools
import random
import re

from examples.building import blocks
from examples.building.tasks import Build
from examples.building.world import AIR
from examples.warm_start.corpus import draw

# How often an author goes by which key, upwards or downwards. None: a new permutation each time.
# A first corner belongs to one rectangle, so an order and its reverse are exactly that.
ORDERS = {
    None: 0.20,
    lambda place, rectangle: place: 0.30,  # as listed
    lambda place, rectangle: rectangle[:2]: 0.25,  # from left to right
    lambda place, rectangle: rectangle[1::-1]: 0.25,  # from below to above
}
TEAMS = {1: 0.15, 2: 0.80, 3: 0.05}  # agents -> share
SECOND = 0.20  # share that may have a second turn; an eighth has one, of 1 to LIMIT rectangles
LIMIT = 5
MALFORMED = 0.12  # share of responses with a fault of form
# A token is at most a cell (two numbers), a number, a word or a mark.
PIECES = r"\n| \d \d| ?\d| ?[^\s\d.]+|."


class Author:
    """Writes responses as an imperfect author would give them, alone or in a team."""

    def __init__(self, seed):
        self.rng = random.Random(seed)

    def items(self, seed):
        """Yield (item, feedback) without end, some items in their second turn."""
        task = Build()
        for rectangles in blocks.problems("train", f"/warm start {seed}"):
            item = {"rectangles": rectangles}
            if self.rng.random() >= SECOND:
                yield item, ""
                continue
            responses = [self.response(item) for _ in range(2)]
            later = task.advance(item, responses)
            if 0 < len(blocks.left(later)) <= LIMIT:
                yield later, task.feedback(item, responses)[0]

    def response(self, item):
        """Return commands for all that is left, in some order, whatever a partner may do.

        The number of blocks does not matter: a fill that they do not suffice for is refused.
        """
        rectangles = blocks.left(item)
        key = draw(self.rng, ORDERS)
        places = self.rng.sample(range(len(rectangles)), len(rectangles))
        if key:
            downwards = self.rng.random() < 0.5
            places.sort(key=lambda place: key(place, rectangles[place]), reverse=downwards)
        commands = blocks.listed([rectangles[place] for place in places])
        if self.rng.random() >= MALFORMED:
            return commands
        colors = "|".join((*blocks.COLORS, AIR))
        faults = ((f" ({colors})", ""), ("/fill", "/all"), ("/fill ", ""))
        return re.sub(*self.rng.choice(faults), commands)  # one fault in all of the commands

    def example(self, item, feedback):
        """Return an observation's last line, and a response."""
        agents = draw(self.rng, TEAMS)
        return observed(item, feedback, agents)[1], self.response(item)


def observed(item, feedback, agents):
    """Return an observation in two parts: the lines that every team sees, and the last line."""
    text = Build(num_agents=agents).observe(0, item, [("", feedback)] if feedback else [])
    *head, tail = text.splitlines(keepends=True)
    return "".join(head), tail


def rows(seed, problems, examples):
    """Return (problem, its (context, response) pairs) of each problem."""
    author = Author(seed)
    table = []
    for item, feedback in itertools.islice(author.items(seed), problems):
        pairs = [author.example(item, feedback) for _ in range(examples)]
        table.append((observed(item, feedback, 1)[0], pairs))
    return table
