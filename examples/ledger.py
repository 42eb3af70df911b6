"""A split ledger. Each of two readers has half of the lines, so a message has to carry the rest.

    python train.py --task examples/ledger.py:Ledger --branching chain --model MODEL
    python train.py --task examples/ledger.py:Full --num-agents 1 --model MODEL

The lines say "Ana paid 137 to Bo.". The question is which amounts Ana paid. They are two or three,
each in either half. At the first turn reader 1 sees its half and the question, and writes a
message, cut after LIMIT characters. At the second turn reader 0 sees its own half and the message,
and answers.

    `Ledger`  Two readers, each with half of the lines.
    `Deaf`   The same, but the message is hidden from reader 0.
    `Half`   One agent that answers from reader 0's half.
    `Full`   One agent that answers from all lines.

An answer earns the F1 of its numbers. Each character of a right answer and of its message costs. A
wrong answer costs nothing. If none of a group is right, a cost would teach short texts. Agents
see one example in their chat. The splits have ledgers of their own, any number of lines too.
"""

import random
import re
from typing import ClassVar

LIMIT = 60  # characters of a message
COST = 0.001  # of each character, at most MOST in all
MOST = 0.1
SIZES = {"train": 600, "dev": 60, "test": 60}
NAMES = ("Ana", "Bo", "Cleo", "Dan", "Eve", "Finn", "Gia", "Hal")
EXAMPLE = {
    "who": "Ivy",
    "halves": [
        ["Jon paid 512 to Ivy.", "Ivy paid 348 to Kim."],
        ["Ivy paid 905 to Jon.", "Kim paid 164 to Ivy."],
    ],
    "message": "905",
}
QUESTION = "{lines}\nWhich amounts did {who} pay?"
HEARD = QUESTION + "\nPartner: {message}"
ANSWER = "List the amounts that one person paid."
READ = "List the amounts that one person paid, in your lines and your partner's."
WRITE = "Tell a partner the amounts that one person paid in your lines."


def ledger(draw, lines):
    """Return a ledger with two halves of so many lines each."""
    who = draw.choice(NAMES)
    amounts = draw.sample(range(100, 1000), 2 * lines)
    counting = draw.sample(range(2 * lines), draw.randint(2, 3))  # the lines that count
    texts = []
    for line, amount in enumerate(amounts):
        payer = who if line in counting else other(draw, who)
        texts.append(f"{payer} paid {amount} to {other(draw, payer)}.")
    return {
        "who": who,
        "halves": [texts[:lines], texts[lines:]],
        "amounts": [amounts[line] for line in sorted(counting)],
    }


def other(draw, name):
    return draw.choice([another for another in NAMES if another != name])


class Ledger:
    reward = f"{__file__}:found"
    measures: ClassVar = {"exact": "metric/exact"}  # a column of eval.py
    turns = 2
    per_episode = True
    agents = 2
    role = READ  # agent 0's task
    reply = "348, 905"  # its answer to the example

    def __init__(self, num_agents=2, lines: int = 8):
        """lines: the number of lines in each half."""
        if num_agents != self.agents:
            raise ValueError(f"this ledger is for {self.agents} agents, not {num_agents}")
        if not 2 <= lines <= 450:
            raise ValueError(f"each half of a ledger has 2 to 450 lines, not {lines}")
        self.lines = lines

    def items(self, split):
        draw = random.Random(f"{split} {self.lines}")
        return [ledger(draw, self.lines) for _ in range(SIZES[split])]

    def play(self, item):
        _, text = yield {1: self.chat(1, item)}
        message = " ".join(text.split())[:LIMIT]
        answer, _ = yield {0: self.chat(0, item, message)}
        return [answer, message]

    def chat(self, agent, item, message=""):
        """Return the messages of a chat: what to do, an example of it, and the question."""
        return [
            {"role": "system", "content": WRITE if agent else self.role},
            {"role": "user", "content": self.question(agent, EXAMPLE, EXAMPLE["message"])},
            {"role": "assistant", "content": EXAMPLE["message"] if agent else self.reply},
            {"role": "user", "content": self.question(agent, item, message)},
        ]

    def question(self, agent, item, message):
        """Return what an agent sees. The message comes last: what precedes it is read once."""
        lines = "\n".join(item["halves"][agent])
        template = QUESTION if agent else HEARD
        return template.format(lines=lines, who=item["who"], message=message)


class Deaf(Ledger):
    def chat(self, agent, item, message=""):
        return super().chat(agent, item)


class Full(Ledger):
    turns = 1
    agents = 1
    role = ANSWER

    def play(self, item):
        answer = yield {0: self.chat(0, item)}
        return answer

    def question(self, agent, item, message):
        return QUESTION.format(lines="\n".join(self.view(item)), who=item["who"])

    def view(self, item):
        return item["halves"][0] + item["halves"][1]


class Half(Full):
    reply = "348"

    def view(self, item):
        return item["halves"][0]


def f1(answer, amounts):
    """Return the harmonic mean of precision and recall of the numbers in an answer."""
    numbers = set(re.findall("[0-9]+", answer))
    return 2 * len(numbers.intersection(map(str, amounts))) / (len(numbers) + len(amounts))


def found(item, responses):
    """Pay the F1 of the answer's numbers, less what the texts of a right answer cost."""
    score = f1(responses[0], item["amounts"])
    exact = float(score == 1)
    written = sum(map(len, responses))
    return {
        "f1": score,
        "length": -exact * min(COST * written, MOST),
        "metric/exact": exact,
    }


found.maximum = 1.0
