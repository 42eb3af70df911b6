"""Friends without telephones meet in a town. Their joint answer can be checked.

    python train.py --task examples/rendezvous.py:Rendezvous --max-steps 60 --run rendezvous
    python train.py --task examples/rendezvous.py:Rendezvous --num-agents 4 --max-steps 60

Two of the cafes 3 to 9 are open. Each friend names one of them without hearing the others. The maps
of two neighbouring friends list the two in opposite orders, so "the first one" is not an answer.
Some friends have to go to the first of their list, others to the second. Nobody says who.

The map has the shape of the prompts that the embedded model was trained on (a def line, a
docstring, a role). The first number of a response is where its author goes. Dev and test have pairs
of their own.
"""

import itertools
import re

MAP = 'def solve(xs):\n    """Return the largest of the {} in xs."""\n{}\n'
CAFES = "remainders modulo {} of the numbers greater than {}"
ROLES = ("# write the helper aux", "# write solve, you can call aux")  # friends 0, 2, ...; 1, 3
SPLITS = ("dev", "test", "dev", "train", "train", "test", "train")  # by the sum of a pair, modulo 7


class Rendezvous:
    reward = f"{__file__}:meet"  # used where --reward names no other

    def __init__(self, num_agents=2):
        if num_agents < 2:
            raise ValueError("a rendezvous is for 2 agents or more")

    def items(self, split):
        return [{"task_id": f"rendezvous/{a}-{b}", "open": (a, b)} for a, b in pairs(split)]

    def observe(self, agent, item, history):
        cafes = item["open"][::-1] if agent % 2 else item["open"]
        return MAP.format(CAFES.format(*cafes), ROLES[agent % 2])


def pairs(split):
    """Return the pairs of a split, each of them in both orders."""
    ordered = itertools.permutations(range(3, 10), 2)
    return [pair for pair in ordered if SPLITS[sum(pair) % 7] == split]


def place(text):
    """Return the first number of a text, 0 if it has none."""
    number = re.search("[0-9]+", text)
    return int(number[0][:9]) if number else 0


def meet(item, responses):
    """Pay half for the share of friends who find an open door, half if it is the same for all."""
    places = [place(text) for text in responses]
    right = [place in item["open"] for place in places]
    met = all(right) and len(set(places)) == 1
    return {"open": sum(right) / len(right) / 2, "met": met / 2}


meet.maximum = 1.0
