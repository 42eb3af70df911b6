"""Two friends and a message board: a world that changes between turns.

    python train.py --task examples/board.py:Board --turns 2 --branching chain --max-steps 25
    python train.py --task examples/board.py:NoBoard --turns 2 --branching chain --max-steps 25

The town is that of rendezvous.py, but each friend knows only one of the two open cafes. Both go
somewhere at every turn. At the first turn the best is to go where one knows, which earns half of
the reward. The board keeps who went where (`advance`) and shows it at the second turn (`observe`).
Now they meet if one follows and the other stays. Nobody says who does which. The return is at most
0.75 with the board, and hardly above 0.5 without.

The board is the one place where these agents may talk: a partner's text reaches nobody else.
"""

from examples.rendezvous import CAFES, MAP, ROLES, pairs, place

NOTE = "numbers greater than {}"


class NoBoard:
    """Both turns are alike: nobody learns where the other went."""

    reward = "examples.rendezvous.meet"

    def __init__(self, data=None, num_agents=2):
        if num_agents != 2:
            raise ValueError(f"the board is for 2 friends, not {num_agents}")

    def items(self, split):
        return [{"task_id": f"board/{a}-{b}", "open": (a, b)} for a, b in pairs(split)]

    def observe(self, agent, item, history):
        known = item["open"][agent]
        if "board" not in item:
            return MAP.format(NOTE.format(known), ROLES[0])  # the same role: nobody can follow yet
        return MAP.format(CAFES.format(item["board"][1 - agent], known), ROLES[agent])


class Board(NoBoard):
    def advance(self, item, responses):
        """Return the next turn's item, the same town with where each went; 0 is nowhere."""
        return item | {"board": [place(text) for text in responses]}
