"""A learned message. One friend knows the floor of a party, the other knows the room.

    python train.py @recipes/messages.args
    python train.py @recipes/messages.args --task examples/messages.py:Told
    python train.py @recipes/messages.args --task examples/messages.py:Deaf

At the first turn each friend writes a message. At the second each answers and sees the partner's
message. The first two numbers of a response are the floor and the room where its author goes. Each
friend who finds the door earns half. A message is cut after LIMIT characters. Each character costs
half of COST.

Told, who read the partner's number itself, are the upper bound. Deaf, who read a zero, are the
lower bound. Dev and test have pairs of their own.
"""

import re

from examples.rendezvous import CAFES, MAP, ROLES, pairs

LIMIT = 48  # characters of a message
COST = 0.001  # of a character in both messages
FIRST = "numbers greater than {}"


class Messages:
    reward = f"{__file__}:find"
    turns = 2
    per_episode = True

    def __init__(self, num_agents=2):
        if num_agents != 2:
            raise ValueError(f"two friends write to each other, not {num_agents}")

    def items(self, split):
        return [{"task_id": f"messages/{a}-{b}", "door": (a, b)} for a, b in pairs(split)]

    def play(self, item):
        door = item["door"]
        texts = yield {agent: MAP.format(FIRST.format(door[agent]), ROLES[0]) for agent in (0, 1)}
        sent = [" ".join(text.split())[:LIMIT] for text in texts]
        to_0, to_1 = self.read(item, sent)
        texts = yield {
            0: MAP.format(CAFES.format(door[0], to_0), ROLES[1]),
            1: MAP.format(CAFES.format(to_1, door[1]), ROLES[1]),
        }
        return item | {"sent": sent}, texts

    def read(self, item, sent):
        """Return what each friend reads."""
        return sent[::-1]


class Told(Messages):
    def read(self, item, sent):
        return item["door"][::-1]


class Deaf(Messages):
    def read(self, item, sent):
        return [0, 0]


def find(item, responses):
    """Pay for the door that is found, less what the messages cost."""
    door = list(map(str, item["door"]))
    right = sum(re.findall("[0-9]+", text)[:2] == door for text in responses)
    return {"found": right / 2, "length": -COST * sum(map(len, item["sent"])) / 2}


find.maximum = 1.0
