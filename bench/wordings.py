"""Wordings that bench/prompts.py plays: those of coding/tasks.py, and others that were tried."""

from coding.tasks import PAPER, WORKED

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

# No example, but what aux is called with.
_ONE_VALUE = """\
Two programmers solve every problem together, without seeing what the other one writes. One writes
a helper `aux` in helper.py, the other one main.py, which imports `aux` and calls it. Both know:
`aux` takes one value, which is an argument of the main function or one element of it.

Problem:

{problem}

{rules}
"""
_ROLES = {role: WORKED[role].rpartition("{rules}\n")[2] for role in WORKED}

# The worked pair, and the answer as code to be continued.
_OPEN = WORKED["main"].partition("{rules}")[0]

# The worked pair, and what aux is called with.
_CONVENTION = "`aux` takes one value: an argument of the main function, or one element of it."
_BOTH = {
    role: text.replace("Now this problem:", f"{_CONVENTION}\nNow this problem:")
    for role, text in WORKED.items()
}

WORDINGS = {
    "paper": PAPER,
    "worked": WORKED,
    "has to call": {"helper": PAPER["helper"], "main": _HAS_TO_CALL},
    "one value": {role: _ONE_VALUE + _ROLES[role] for role in ("helper", "main")},
    "worked, one value": _BOTH,
    "worked, open": {
        "helper": _OPEN + "File helper.py:\n\n```python\n",
        "main": _OPEN + "File main.py:\n\n```python\nfrom helper import aux\n\n",
    },
}
