"""Wordings that bench/prompts.py plays: those of coding/tasks.py, and others that were tried."""

from coding.tasks import PAPER

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
_FILE_NAMES = {
    "helper": "File helper.py, with the function `{name}`:\n\n",
    "main": "File main.py, with the function `{entry}`, which calls {helpers}:\n\n",
}

# No example, but what aux is called with.
_ONE_VALUE = """\
Two programmers solve every problem together, without seeing what the other one writes. One writes
a helper `aux` in helper.py, the other one main.py, which imports `aux` and calls it. Both know:
`aux` takes one value, which is an argument of the main function or one element of it.

Problem:

{problem}

{rules}
"""

# What aux is called with, and the answer as code to be continued.
_FILES = """\
{problem}

Several programmers solve this problem together, and none of them sees what another one writes.
helper.py defines `aux`. main.py defines `{entry}`, which calls `aux` and works with the result.
A helper takes one value: an argument of `{entry}`, or one element of an argument.
Write only code: no docstrings, no comments, no tests.
"""

# The worked pair, and the answer as code to be continued.
_OPEN = _WORKED.partition("{rules}")[0]

WORDINGS = {
    "paper": PAPER,
    "files": {
        "helper": _FILES + "helper.py, with the function `{name}`:\n\n```python\n",
        "main": _FILES + "main.py:\n\n```python\nfrom helper import aux  # called by `{entry}`\n\n",
    },
    "has to call": {"helper": PAPER["helper"], "main": _HAS_TO_CALL},
    "one value": {role: _ONE_VALUE + name for role, name in _FILE_NAMES.items()},
    "worked": {role: _WORKED + name for role, name in _FILE_NAMES.items()},
    "worked, open": {
        "helper": _OPEN + "File helper.py:\n\n```python\n",
        "main": _OPEN + "File main.py:\n\n```python\nfrom helper import aux\n\n",
    },
}
