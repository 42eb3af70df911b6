"""Two agents and a tool. One lets Python compute, the other reads what came out and answers.

    python train.py @recipes/tools.args
    python train.py @recipes/tools.args --num-agents 1
    python train.py @recipes/tools.args --task examples/tools.py:NoTool

The second line is the control: one agent calls and answers. The problems are arithmetic in words.
--task-arg level=2 has those with two operations, level=0 all.

At the first turn agent 0 may write an expression between <python> and </python>, which ends its
response. The sandbox computes it. At the second turn agent 1 (the one agent in the control) reads
the result as a tool's message and answers. The last number of its answer counts. Each character of
both texts costs if it is right. With NoTool the tool says nothing. Agents see messages of a chat,
with examples of what they may do.
"""

import operator
import random
import re
from typing import ClassVar

from programs.sandbox.box import Program
from programs.teams import box
from tasks import Task

LIMIT = 120  # characters of a result
COST = 0.001  # of each character, for the team, at most MOST in all
MOST = 0.2
COUNT = 780  # problems
SPLITS = {"train": slice(0, 600), "dev": slice(600, 660), "test": slice(660, COUNT)}
STARTS = (
    ("A baker has {} rolls and bakes {} more.", operator.add),
    ("A school has {} desks and throws {} of them away.", operator.sub),
    ("A farmer plants {} rows of {} trees.", operator.mul),
)
NEXT = (
    ("Then {} more come.", operator.add),
    ("Then {} are lost.", operator.sub),
    ("A year later there are {} times as many.", operator.mul),
)
QUESTION = "How many are there now?"
CALL = "A calculator is at hand. Write <python>, a Python expression and </python>."
ANSWER = "Answer the question with a number."
EXAMPLES = (  # a problem, the expression, the result
    ("A library has 12 shelves of 30 books. Then 5 are lost. " + QUESTION, "12 * 30 - 5", "355"),
    ("A shop has 410 pens and sells 38 of them. " + QUESTION, "410 - 38", "372"),
)


def problems():
    """Return the problems of all splits, no two of them alike. A third is of each level."""
    draw = random.Random(0)
    items = {}  # by problem
    while len(items) < COUNT:
        level = 1 + len(items) % 3  # number of operations
        text, operation = draw.choice(STARTS)
        numbers = [draw.randint(100, 999), draw.randint(11, 99)]
        problem = text.format(*numbers) + " "
        answer = operation(*numbers)
        for _ in range(level - 1):
            text, operation = draw.choice(NEXT)
            number = draw.randint(2, 9)
            problem += text.format(number) + " "
            answer = operation(answer, number)
        problem += QUESTION
        items[problem] = {"problem": problem, "level": level, "answer": answer}
    return list(items.values())


def computed(text):
    """Return what Python makes of the expression that a response ends with, "" without one."""
    *_, expression = text.partition("<python>")
    if not expression.strip():
        return ""
    code = f"def tool():\n    return (\n{expression}\n)"
    # A failing test shows the value: its error is told, and nothing else leaves the sandbox.
    program = Program(code, ("raise ArithmeticError(tool())",), "tool")
    [verdict] = box.run([program])
    # An empty text follows no colon.
    return verdict.errors[0].removeprefix("ArithmeticError").removeprefix(": ")[:LIMIT]


class Tools(Task):
    reward = f"{__file__}:answer"
    field = "problem"
    stop = "</python>"
    turns = 2
    per_episode = True
    measures: ClassVar = {"exact": "metric/exact", "called": "metric/called"}  # columns of eval.py

    def __init__(self, num_agents=2, level: int = 0):
        """Set the level, the number of operations: 1 to 3, or 0 for all three."""
        if num_agents > 2:
            raise ValueError(f"one agent calls, one answers: not {num_agents}")
        self.last = num_agents - 1  # the agent that answers
        self.level = level

    def items(self, split):
        return [item for item in problems()[SPLITS[split]] if self.level in (0, item["level"])]

    def play(self, item):
        called = (yield {0: self.chat(CALL, item)})[0]
        result = self.once(self.tool, called)
        texts = yield {self.last: self.chat(ANSWER, item, result)}
        return item | {"called": called}, texts

    def tool(self, called):
        return computed(called)

    def chat(self, instruction, item, result=""):
        """Return the messages of a chat: what to do, two examples of it, and the problem."""
        messages = [{"role": "system", "content": instruction}]
        for text, expression, value in [*EXAMPLES, (item["problem"], "", result)]:
            messages.append({"role": "user", "content": text})
            if instruction == ANSWER and value:
                messages.append({"role": "tool", "content": value})
            reply = value if instruction == ANSWER else f"<python>{expression}</python>"
            messages.append({"role": "assistant", "content": reply})
        return messages[:-1]  # the last reply is the agent's own to give


class NoTool(Tools):
    """The same without a tool: agent 1 answers alone."""

    def tool(self, called):
        return ""


def answer(item, responses):
    """Pay 1 for the right number, less what the texts cost.

    A wrong answer costs nothing: where none of a group is right, a cost would teach short texts.
    """
    called, text = item["called"], responses[-1]
    numbers = re.findall(r"-?\d+(?:\.\d+)?", text.replace(",", ""))
    exact = float(bool(numbers) and float(numbers[-1]) == item["answer"])
    return {
        "exact": exact,
        "length": -exact * min(COST * len(called + text), MOST),
        "metric/exact": exact,
        "metric/called": float("<python>" in called),
    }


answer.maximum = 1.0
