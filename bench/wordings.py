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

# Two other problems, a convention of what aux says, and the answer as a file to be continued.
_YES_OR_NO = '''\
Two programmers write each of these programs. One writes helper.py with the function `aux`, the
other one writes main.py, which calls `aux`. Neither sees the file of the other. `aux` takes one
value and says whether it counts: True or False.

### Program 1

def late_trains(trains):
    """Each train is (number, planned, actual), with times such as "17:05".
    Return the numbers of the trains that are more than five minutes late, sorted.
    """

helper.py:
```python
def aux(value):
    _, planned, actual = value
    minutes = [60 * int(time[:2]) + int(time[3:]) for time in (planned, actual)]
    return minutes[1] - minutes[0] > 5
```

main.py:
```python
from helper import aux

def late_trains(trains):
    return sorted(train[0] for train in trains if aux(train))
```

### Program 2

def first_free_row(rows):
    """Rows are strings in which "x" is a taken seat and "." a free one. Return the number of the
    first row in which no seat is taken, or -1.
    """

helper.py:
```python
def aux(value):
    return "x" not in value
```

main.py:
```python
from helper import aux

def first_free_row(rows):
    for number, row in enumerate(rows):
        if aux(row):
            return number
    return -1
```

### Program 3

{problem}

'''
_THEIR_FILE = """\
helper.py:
```python
def aux(value):
    ...  # written by the other programmer
```

"""

WORDINGS = {
    "paper": PAPER,
    "has to call": {"helper": PAPER["helper"], "main": _HAS_TO_CALL},
    "worked": {role: _WORKED + name for role, name in _FILE_NAMES.items()},
    "yes or no": {
        "helper": _YES_OR_NO + "helper.py:\n```python\n",
        "main": _YES_OR_NO + _THEIR_FILE + "main.py:\n```python\nfrom helper import aux\n\n",
    },
}
