"""Wordings that were tried for two agents, for bench/prompts.py to play. The tasks' own is in
programs/tasks.py, the paper's in programs/paper.py."""

from programs import paper
from programs.items import signature
from programs.tasks import CoopHumanEval, fenced

_HAS_TO_CALL = """\
{problem}

Two programmers solve this problem together, and none of them sees what the other one writes.
Your partner has written `aux`, which does a part of the work.
You write the function `{entry}`, which has to call `aux`. Do not define `aux` yourself.
{rules}
Write `{entry}` and nothing else, with exactly this signature:

{signature}
    # your code here
    return result

Your code:
"""

# One other problem, solved by such a pair.
_WORKED = '''\
Two programmers solve every problem together, without seeing what the other one writes. One writes
a helper `aux` in helper.py, the other one main.py, which imports `aux` and calls it. An example:

def late_trains(trains):
    """Each train is (number, planned, actual), with times such as "17:05".
    Return the numbers of the trains that are more than five minutes late, sorted.
    """

File helper.py:

```python
def aux(train):
    _, planned, actual = train
    minutes = [60 * int(time[:2]) + int(time[3:]) for time in (planned, actual)]
    return minutes[1] - minutes[0]
```

File main.py:

```python
from helper import aux

def late_trains(trains):
    return sorted(train[0] for train in trains if aux(train) > 5)
```

Now this problem:

{problem}

{rules}
'''
_FILE_NAMES = [
    "File helper.py, with the function `aux`:\n\n",
    "File main.py, with the function `{entry}`, which calls `aux`:\n\n",
]


class HasToCall(paper.CoopHumanEval):
    """The paper's roles, but main is told to call a helper that is written already."""

    def observe(self, agent: int, item: dict, history: list[tuple[str, str]]) -> str:
        return _asked(_HAS_TO_CALL, item) if agent else super().observe(agent, item, history)


class Worked(CoopHumanEval):
    """One other problem solved by such a pair, and two files to be written from the start."""

    stop = ""

    def observe(self, agent: int, item: dict, history: list[tuple[str, str]]) -> str:
        return _asked(_WORKED + _FILE_NAMES[agent], item)


class Stub(CoopHumanEval):
    """The tasks' own until November 2026: main's prompt shows a stub of the helper, which models
    copy."""

    def observe(self, agent: int, item: dict, history: list[tuple[str, str]]) -> str:
        text, main, begun = super().observe(agent, item, history).rpartition("main.py:")
        stub = "def aux(value):\n    ...  # written by another programmer\n"
        return text + (fenced("helper", stub) + "```\n\n" if agent else "") + main + begun


def _asked(text: str, item: dict) -> str:
    entry, problem = item["entry_point"], item["prompt"].strip("\n")
    return text.format(
        problem=problem, entry=entry, signature=signature(item["prompt"], entry), rules=paper.RULES
    )
