"""The texts of task build's warm start: targets, and commands for them in every order, with faults.
make.py says what is designed in them, and what is not."""

import itertools
import random
import re

from building import blocks
from building.embedded import Build
from building.world import AIR

# How often an author begins where; "any" is a new permutation each time.
ORDERS = {
    "any": (0.44, None),
    "first": (0.08, lambda place, one: place),
    "last": (0.08, lambda place, one: -place),
    "left": (0.08, lambda place, one: one[0]),
    "right": (0.08, lambda place, one: -one[2]),
    "below": (0.08, lambda place, one: one[1]),
    "above": (0.08, lambda place, one: -one[3]),
    "large": (0.04, lambda place, one: -len(blocks.cells(one))),
    "small": (0.04, lambda place, one: len(blocks.cells(one))),
}
TEAMS = {1: 0.15, 2: 0.80, 3: 0.05}  # agents
SECOND = 0.20  # share of problems that are in their second turn
SLIP = 0.03  # share of commands with a wrong number or colour
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
            item, told = {"rectangles": rectangles}, ""
            if self.rng.random() < SECOND:
                responses = [self.response(item, 2) for _ in range(2)]
                told = task.feedback(item, responses)[0]
                item = task.advance(item, responses)
                if not 0 < len(blocks.left(item)) <= LIMIT:
                    continue
            yield item, told

    def response(self, item: dict, agents: int) -> str:
        """In some order, as long as there are blocks; whatever anybody else may do."""
        rng, rectangles = self.rng, blocks.left(item)
        _, key = rng.choices(list(ORDERS.values()), [share for share, _ in ORDERS.values()])[0]
        places = rng.sample(range(len(rectangles)), len(rectangles))
        if key:
            places.sort(key=lambda place: key(place, rectangles[place]))
        material, chosen = blocks.material(rectangles, agents), []
        for one in (rectangles[place] for place in places):
            material -= len(blocks.cells(one)) * (one[4] != AIR)
            if material < 0:
                break
            chosen.append(self.slipped(one) if rng.random() < SLIP else one)
        return self.spoilt(blocks.listed(chosen))

    def slipped(self, one: blocks.Rectangle) -> blocks.Rectangle:
        at = self.rng.randrange(5)
        other = self.rng.choice(blocks.COLORS) if at == 4 else self.rng.randrange(blocks.SIDE)
        return (*one[:at], other, *one[at + 1 :])

    def spoilt(self, text: str) -> str:
        """The commands; at times with one fault of form in all of them."""
        if self.rng.random() >= MALFORMED:
            return text
        colors = "|".join((*blocks.COLORS, AIR))
        faults = ((f" ({colors})", ""), ("/fill", "/all"), ("/fill ", ""))
        pattern, other = self.rng.choice(faults)
        return re.sub(pattern, other, text)

    def example(self, item: dict, told: str) -> tuple[str, str]:
        """An observation's last line, and a response."""
        agents = self.rng.choices(list(TEAMS), list(TEAMS.values()))[0]
        return observed(item, told, agents)[1], self.response(item, agents)


def observed(item: dict, told: str, agents: int) -> tuple[str, str]:
    """An observation in two parts: what is the same for every team, and the line that is not."""
    text = Build(num_agents=agents).observe(0, item, [("", told)] if told else [])
    head, _, tail = text.removesuffix("\n").rpartition("\n")
    return head + "\n", tail + "\n"


def rows(seed: int, problems: int, examples: int) -> list[tuple[str, list[tuple[str, str]]]]:
    """Problems with their examples, as make.py takes them."""
    author = Author(seed)
    return [
        (observed(item, told, 1)[0], [author.example(item, told) for _ in range(examples)])
        for item, told in itertools.islice(author.items(seed), problems)
    ]
