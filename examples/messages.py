"""A message that is learned: one friend knows the floor of a party, the other one the room, and
both have to find the door.

At the first turn each writes a message. At the second each answers with the partner's message in
sight, and the first two numbers of a response are the floor and the room it goes to. Half is paid
for each who finds the door. A message is cut after MOST characters, and each of them costs.

    python train.py --task examples/messages.py:Messages --turns 2 --branching chain --max-steps 60
    python train.py --task examples/messages.py:Told --turns 2 --branching chain --max-steps 60
    python train.py --task examples/messages.py:Deaf --turns 2 --branching chain --max-steps 60

Told, who read the partner's number itself, are the upper bound, and Deaf, who read a zero, the
lower one. Prompts have the shape that the embedded model has read. Dev and test have pairs of
their own.
"""

import itertools
import re

MOST, COST = 48, 0.003  # characters of a message; what each of them costs the team
FIRST = 'def solve(xs):\n    """Return the largest of the numbers greater than {} in xs."""\n{}\n'
SECOND = 'def solve(xs):\n    """Return the largest of the remainders modulo {} of the numbers '
SECOND += 'greater than {} in xs."""\n{}\n'
WRITE, ANSWER = "# write the helper aux", "# write solve, you can call aux"


class Messages:
    reward = f"{__file__}:find"

    def __init__(self, data=None, num_agents=2):
        if num_agents != 2:
            raise ValueError(f"two friends write to each other, not {num_agents}")

    def items(self, split):
        pairs = list(itertools.permutations(range(3, 10), 2))
        splits = {"dev": (0, 2), "test": (1, 5)}  # by the sum of the two, so in both orders
        of = {s: [p for p in pairs if sum(p) % 7 in kept] for s, kept in splits.items()}
        of["train"] = [p for p in pairs if p not in of["dev"] + of["test"]]
        return [{"task_id": f"messages/{a}-{b}", "door": (a, b)} for a, b in of[split]]

    def observe(self, agent, item, history):
        known = item["door"][agent]
        if "read" not in item:
            return FIRST.format(known, WRITE)
        seen = [known, item["read"][agent]]
        return SECOND.format(*(seen[::-1] if agent else seen), ANSWER)

    def advance(self, item, responses):
        """The next turn's item: what was written, and what each reads of it."""
        sent = [" ".join(text.split())[:MOST] for text in responses]
        return item | {"sent": sent, "read": self.read(item, sent)}

    def read(self, item, sent):
        return sent[::-1]

    def scheme(self, item, responses):
        """What the messages say."""
        if "sent" not in item:
            return None
        pairs = list(zip(item["sent"], item["door"], strict=True))
        if all(text == str(known) for text, known in pairs):
            return "numbers alone"
        told = sum(str(known) in re.findall("[0-9]+", text) for text, known in pairs)
        return ("no number of theirs", "one number among other words", "numbers among words")[told]


class Told(Messages):
    def read(self, item, sent):
        return item["door"][::-1]


class Deaf(Messages):
    def read(self, item, sent):
        return [0, 0]


def find(item, responses):
    """Nothing at the first turn; at the second who finds the door, and what the messages cost."""
    if "sent" not in item:
        return {}
    there = [re.findall("[0-9]+", text)[:2] == list(map(str, item["door"])) for text in responses]
    return {"found": sum(there) / 2, "length": -COST * sum(map(len, item["sent"])) / 2}


find.maximum = 1.0
