"""Feedback between turns: what each mode tells, and what it never tells.

python -m pytest tests/test_feedback.py
"""

import re

import pytest
from blocks import blocks

from programs.feedback import configured
from tasks import Coop

ITEM = {
    "task_id": "largest",
    "prompt": 'def solve(xs, k):\n    """The sum of the k largest."""\n',
    "entry_point": "solve",
    "setup": "import math",
    "tests": [
        "assert solve([1, 2, 3], 2) == 5",
        "assert solve([], 1) == 0",
        "assert solve([4], 1) == 4",
    ],
}
AUX = "def aux(xs, k):\n    return sorted(xs)[-k:]"
MAIN = "def solve(xs, k):\n    return sum(aux(xs, k))"
FIVE = "def solve(xs, k):\n    return 5"


def told(responses, limit=0):
    return configured("tests", limit)(ITEM, responses)


# --- modes ----------------------------------------------------------------------------------------

# The reader, the responses, and what the reader is told before the tests.
STATES = """
=== 1
def aux(xs, k):
    return sorted(xs)[-k:]
---
def solve(xs, k):
    return sum(aux(xs, k))
---
solve: defined
aux, a partner's: defined
solve uses what aux returns
=== 0
I will not write it.
---
def solve(xs, k):
    return sum(aux(xs, k))
---
aux: missing
solve, a partner's: defined
=== 0
def aux(xs):
    xs.sort()
---
def solve(xs, k):
    return sum(aux(xs, k))
---
aux: defined, but returns no value
solve, a partner's: defined
=== 0
def aux(xs):
return xs
---
def solve(xs, k):
    return 5
---
aux: does not parse
solve, a partner's: defined
=== 1
import functools
aux = functools.partial(pow, 'text')
---
def solve(xs, k):
    return 5  # aux(xs, k)
---
solve: defined
aux, a partner's: defined
solve never calls aux
=== 1
def aux(xs, k):
    return sorted(xs)[-k:]
---
def solve(xs, k):
    x = aux(xs, k)
    return x
---
solve: defined
aux, a partner's: defined
solve only passes on what aux returns
=== 2
def aux(xs, k):
    return sorted(xs)[-k:]
---
def aux2(xs, k):
    return sorted(xs)[-k:]
---
def solve(xs, k):
    aux2(xs)
    return sum(aux(xs, k))
---
solve: defined
aux, a partner's: defined
aux2, a partner's: defined
solve uses what aux returns
solve calls aux2, but does not use what it returns
"""


@pytest.mark.parametrize("reader, part", blocks(STATES))
def test_the_state_of_each_function_and_the_use_of_helpers(reader, part):
    *responses, states = part.split("\n---\n")
    head, *lines = told(responses)[int(reader)].split("\n- ")
    assert head == "Feedback on the team's program:"
    assert "\n".join(lines).partition("\ntests passed: ")[0] == states


def test_failed_assertions_with_their_error_up_to_the_limit():
    number = "def solve(xs, k):\n    return 1 if k > 1 else xs[0]"
    first = "failed: assert solve([1, 2, 3], 2) == 5"
    for limit, lines in (
        (1, ["tests passed: 0 of 1", first]),
        (0, ["tests passed: 1 of 3", first, "failed: assert solve([], 1) == 0 raised IndexError"]),
    ):
        for text in told([AUX, number], limit):
            assert text.split("\n- ")[-len(lines) :] == lines


KEY_ERROR = (
    "# zebra comment\ndef aux(walrus, badger=1):\n    '''otter'''\n"
    "    ferret = {'stoat': walrus}\n    raise KeyError('weasel said ' + str(ferret['lynx']))"
)
NAMED = """
class zebra(KeyError): pass
class otter(Exception): __module__ = "builtins"
def aux(xs, k):
    raise otter("weasel: said") if xs else zebra("stoat")"""
ANIMALS = {"zebra", "walrus", "badger", "otter", "ferret", "stoat", "weasel", "lynx"}
BIRDS = {"gibbon", "heron", "ibis"}


@pytest.mark.parametrize(
    "aux, main, raised",
    [
        (KEY_ERROR, "def solve(xs, k):\n    return aux(xs).gibbon + heron(k)\n# ibis", "KeyError"),
        (KEY_ERROR, "def solve(xs, k):\n    return aux()", "TypeError"),
        (NAMED, MAIN, "KeyError"),  # a partner chooses no name of an exception
    ],
)
def test_a_partners_words_never_come_through(aux, main, raised):
    texts = [*told([aux, main]), *Coop().feedback(ITEM, [aux, main])]
    for text, partners in zip(texts, (BIRDS, ANIMALS, ANIMALS, ANIMALS), strict=True):
        assert not partners & set(re.findall(r"\w+", text)), text
    assert f" raised {raised}" in texts[1]


@pytest.mark.parametrize(
    "text", ["\x00", "\ud800", "(" * 5000, "def solve(xs, k):\n    return " + "-" * 400 + "1"]
)
def test_any_text_at_all_is_answered(text):
    for responses in ([text, MAIN], [AUX, text], [text], [text] * 3):
        assert [type(answer) for answer in told(responses)] == [str] * len(responses)
    assert configured("plain", 1)(ITEM, [text] * 3) == [""] * 3
