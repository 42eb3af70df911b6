"""Friends without telephones meet in a town: a puzzle with a joint answer that can be checked.

Two of the cafes 3 to 9 are open, and each friend names one of them without hearing the others. The
maps of any two who follow each other list the two in opposite orders, so "the first one" is not an
answer: some have to go to the first of their list, others to the second, and nobody says who.

    python train.py --task examples/rendezvous.py:Rendezvous --max-steps 60 --run rendezvous
    python train.py --task examples/rendezvous.py:Rendezvous --num-agents 4 --max-steps 60

The map is drawn in the shape that the embedded model has read (a def line, a docstring, a role);
the first number of a response is where its author goes. Dev and test have pairs of their own.
"""

import itertools
import re

MAP = 'def solve(xs):\n    """Return the largest of the {} in xs."""\n{}\n'
CAFES = "remainders modulo {} of the numbers greater than {}"
ROLES = ("# write the helper aux", "# write solve, you can call aux")  # of friends 0, 2, ...; 1, 3


class Rendezvous:
    reward = f"{__file__}:meet"  # used where --reward names no other

    def __init__(self, data=None, num_agents=2):
        if num_agents < 2:
            raise ValueError("a rendezvous is for 2 agents or more")

    def items(self, split):
        pairs = list(itertools.permutations(range(3, 10), 2))
        splits = {"dev": (0, 2), "test": (1, 5)}  # by the sum of the two, so in both orders
        of = {s: [p for p in pairs if sum(p) % 7 in kept] for s, kept in splits.items()}
        of["train"] = [p for p in pairs if p not in of["dev"] + of["test"]]
        return [{"task_id": f"rendezvous/{a}-{b}", "open": (a, b)} for a, b in of[split]]

    def observe(self, agent, item, history):
        here = item["open"][::-1] if agent % 2 else item["open"]
        return MAP.format(CAFES.format(*here), ROLES[agent % 2])


def meet(item, responses):
    """Half is for the share of friends who find an open door, half if it is the same for all."""
    found = [re.search(r"[0-9]+", text) for text in responses]
    places = [int(match[0][:9]) if match else None for match in found]
    there = [place in item["open"] for place in places]
    met = all(there) and len(set(places)) == 1
    return {"open": sum(there) / len(there) / 2, "met": met / 2}


meet.maximum = 1.0
