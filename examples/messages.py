"""A message that is learned: each of two friends knows one number, and both are asked for the
larger one.

At the first turn each writes a message, at the second each answers with the partner's message in
sight: the first number of a response is its answer. A message is cut after MOST characters, and
each of them costs. Half is paid for each right answer.

    python train.py --task examples/messages.py:Messages --turns 2 --branching chain --max-steps 60
    python train.py --task examples/messages.py:Told --turns 2 --branching chain --max-steps 60
    python train.py --task examples/messages.py:Deaf --turns 2 --branching chain --max-steps 60

Told, who read the partner's number itself, are the upper bound, and Deaf, who read nothing, the
lower one: whoever answers its own number earns 0.5 on average. Prompts have the shape that the
embedded model has read. Dev and test have pairs of their own.
"""

import itertools
import re

MOST, COST = 12, 0.01  # characters of a message; what each of them costs the team
FIRST = 'def solve(xs):\n    """Return the largest of the numbers greater than {} in xs."""\n{}\n'
SECOND = 'def solve(xs):\n    """Return the largest of the remainders modulo {} of the numbers '
SECOND += 'greater than {} in xs."""\n{}\n'
WRITE, ANSWER = "# write the helper aux", "# write solve, you can call aux"


class Messages:
    reward = f"{__file__}:larger"

    def __init__(self, data=None, num_agents=2):
        if num_agents != 2:
            raise ValueError(f"two friends write to each other, not {num_agents}")

    def items(self, split):
        pairs = list(itertools.permutations(range(3, 10), 2))
        splits = {"dev": (0, 2), "test": (1, 5)}  # by the sum of the two, so in both orders
        of = {s: [p for p in pairs if sum(p) % 7 in kept] for s, kept in splits.items()}
        of["train"] = [p for p in pairs if p not in of["dev"] + of["test"]]
        return [{"task_id": f"messages/{a}-{b}", "numbers": (a, b)} for a, b in of[split]]

    def observe(self, agent, item, history):
        known = item["numbers"][agent]
        if "read" not in item:
            return FIRST.format(known, WRITE)
        return SECOND.format(item["read"][agent], known, ANSWER)

    def advance(self, item, responses):
        """The next turn's item: what was written, and what each reads of it."""
        sent = [" ".join(text.split())[:MOST] for text in responses]
        return item | {"sent": sent, "read": self.read(item, sent)}

    def read(self, item, sent):
        return sent[::-1]

    def scheme(self, item, responses):
        """What the messages say: the number itself (each where it should be, or not), or less."""
        if "sent" not in item:
            return None
        said = [number(text) for text in item["sent"]]
        told = sum(a == b for a, b in zip(said, item["numbers"], strict=True))
        return ("neither says its number", "one says its number", "both say their number")[told]


class Told(Messages):
    def read(self, item, sent):
        return item["numbers"][::-1]


class Deaf(Messages):
    def read(self, item, sent):
        return [0, 0]


def number(text):
    found = re.search(r"[0-9]+", text)
    return int(found[0][:9]) if found else None


def larger(item, responses):
    """Nothing at the first turn; at the second one what both answer, and what they wrote costs."""
    if "sent" not in item:
        return {}
    right = sum(number(text) == max(item["numbers"]) for text in responses)
    return {"right": right / 2, "length": -COST * sum(map(len, item["sent"])) / 2}


larger.maximum = 1.0
