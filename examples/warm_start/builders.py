"""The texts of task build's warm start: targets, and commands for them in every order, with faults.
make.py says what is designed in them, and what is not."""

import itertools
import random
import re

from examples.building import blocks
from examples.building.tasks import Build
from examples.building.world import AIR

# How often an author goes by what, each of it upwards or downwards; "any" is a new permutation each
# time. A first corner belongs to one rectangle, so a way and its reverse are exactly that.
ORDERS = {
    "any": (0.20, None),
    "as listed": (0.30, lambda place, one: place),
    "from left to right": (0.25, lambda place, one: one[:2]),
    "from below to above": (0.25, lambda place, one: one[1::-1]),
}
TEAMS = {1: 0.15, 2: 0.80, 3: 0.05}  # agents
SECOND = 0.20  # share that is given a second turn; an eighth has one, of 1 to LIMIT rectangles
MALFORMED = 0.12  # share of responses with a fault of form
# A token is no longer than: a cell, which is two numbers; a number; a word; a mark.
PIECES = r"\n| \d \d| ?\d| ?[^\s\d.]+|."
LIMIT = 5  # rectangles that are left, in a second turn: more are not a small problem


class Author:
    """Writes the corpus: responses as an imperfect author would give them, alone or in a team."""

    def __init__(self, seed: int):
        self.rng = random.Random(seed)

    def items(self, seed: int):
        """Items without end, some of them in their second turn: (item, feedback)."""
        task = Build()
        for rectangles in blocks.problems("train", f"/warm start {seed}"):
            item, feedback = {"rectangles": rectangles}, ""
            if self.rng.random() < SECOND:
                responses = [self.response(item) for _ in range(2)]
                feedback = task.feedback(item, responses)[0]
                item = task.advance(item, responses)
                if not 0 < len(blocks.left(item)) <= LIMIT:
                    continue
            yield item, feedback

    def response(self, item: dict) -> str:
        """All that is left, in some order; whatever anybody else may do, and however few blocks
        there are: what they do not suffice for is refused, and what comes after it is not."""
        rng, rectangles = self.rng, blocks.left(item)
        _, key = rng.choices(list(ORDERS.values()), [share for share, _ in ORDERS.values()])[0]
        places = rng.sample(range(len(rectangles)), len(rectangles))
        if key:
            downwards = rng.random() < 0.5
            places.sort(key=lambda place: key(place, rectangles[place]), reverse=downwards)
        return self.spoilt(blocks.listed([rectangles[place] for place in places]))

    def spoilt(self, text: str) -> str:
        """The commands; at times with one fault of form in all of them."""
        if self.rng.random() >= MALFORMED:
            return text
        colors = "|".join((*blocks.COLORS, AIR))
        faults = ((f" ({colors})", ""), ("/fill", "/all"), ("/fill ", ""))
        return re.sub(*self.rng.choice(faults), text)

    def example(self, item: dict, feedback: str) -> tuple[str, str]:
        """An observation's last line, and a response."""
        agents = self.rng.choices(list(TEAMS), list(TEAMS.values()))[0]
        return observed(item, feedback, agents)[1], self.response(item)


def observed(item: dict, feedback: str, agents: int) -> tuple[str, str]:
    """An observation in two parts: what is the same for every team, and the line that is not."""
    text = Build(num_agents=agents).observe(0, item, [("", feedback)] if feedback else [])
    head, _, tail = text.removesuffix("\n").rpartition("\n")
    return head + "\n", tail + "\n"


def rows(seed: int, problems: int, examples: int) -> list[tuple[str, list[tuple[str, str]]]]:
    """Problems with their examples, as make.py takes them."""
    author = Author(seed)
    return [
        (observed(item, feedback, 1)[0], [author.example(item, feedback) for _ in range(examples)])
        for item, feedback in itertools.islice(author.items(seed), problems)
    ]
