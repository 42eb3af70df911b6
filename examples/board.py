"""Two friends and a message board: a world that moves on between turns.

Each friend knows one open cafe of the town, another one each, and both go somewhere at every turn:
the first number of a response is where its author goes. A quarter is paid to each who finds an open
door, and half where they meet. At the first turn nobody knows what the other knows, so the best is
to go where one knows, and half of what there is. The board keeps who went where (`advance`), and
shows it at the second turn (`observe`): now they can meet, if one follows and the other stays, and
nobody says who does which. Return is at most 0.75 with the board, and hardly above 0.5 without:

    python train.py --task examples/board.py:Board --turns 2 --branching chain --max-steps 25
    python train.py --task examples/board.py:NoBoard --turns 2 --branching chain --max-steps 25

The board is the one place where these agents may talk: a partner's text reaches nobody but by it.
Prompts have the shape that the embedded model has read. Dev and test have pairs of their own.
"""

import itertools
import re

NOTE = 'def solve(xs):\n    """Return the largest of the numbers greater than {} in xs."""\n{}\n'
BOARD = 'def solve(xs):\n    """Return the largest of the remainders modulo {} of the numbers '
BOARD += 'greater than {} in xs."""\n{}\n'
ROLES = ("# write the helper aux", "# write solve, you can call aux")


class NoBoard:
    """Both turns are alike: nobody learns where the other went."""

    reward = f"{__file__}:meet"

    def __init__(self, data=None, num_agents=2):
        if num_agents != 2:
            raise ValueError(f"the board is for 2 friends, not {num_agents}")

    def items(self, split):
        pairs = list(itertools.permutations(range(3, 10), 2))
        splits = {"dev": (0, 2), "test": (1, 5)}  # by the sum of the two, so in both orders
        of = {s: [p for p in pairs if sum(p) % 7 in kept] for s, kept in splits.items()}
        of["train"] = [p for p in pairs if p not in of["dev"] + of["test"]]
        return [{"task_id": f"board/{a}-{b}", "open": (a, b)} for a, b in of[split]]

    def observe(self, agent, item, history):
        known = item["open"][agent]
        if "board" not in item:
            return NOTE.format(known, ROLES[0])  # both roles alike: there is nothing to follow
        return BOARD.format(item["board"][1 - agent], known, ROLES[agent])

    def feedback(self, item, responses):
        return ["", ""]  # what they hear is on the board


class Board(NoBoard):
    def advance(self, item, responses):
        """The next turn's item: the same town, and where each went; 0 is nowhere."""
        return item | {"board": [place(text) for text in responses]}


def place(text):
    found = re.search(r"[0-9]+", text)
    return int(found[0][:9]) if found else 0


def meet(item, responses):
    places = [place(text) for text in responses]
    there = [place in item["open"] for place in places]
    met = all(there) and places[0] == places[1]
    return {"open": sum(there) / 4, "met": met / 2}


meet.maximum = 1.0
