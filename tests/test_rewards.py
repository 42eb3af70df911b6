"""Checks what `code` and `code_paper` pay for honest teams and for every hack we know, and that no
text and no thread can upset them.

    python -m pytest tests/test_rewards.py
"""

from concurrent.futures import ThreadPoolExecutor

import pytest
from code_pairs import (
    EVEN,
    FILTERED,
    GARBAGE,
    HACKS,
    SCHEMES,
    SQUARES,
    TESTS,
    main,
    teams_of,
    thrown,
)
from helpers import total, watch

import rewards
from programs import teams
from programs.sandbox.box import Sandbox

PAIRS = SCHEMES | HACKS
METRICS = ("pass", "aux_called", "load_bearing", "coop")
MEASURED = {  # METRICS of some pairs
    "strategy filter": "1111",
    "three tests of five": "0100",
    "wrapper": "1110",
    "wrapper by a loop": "1110",
    "a box": "1110",
    "with its type": "1100",
    "fallback for an error": "1100",
    "after the return": "1100",
    "aux( in a comment": "1000",
}

pytestmark = pytest.mark.usefixtures("quick")


def code(*responses, **changes):
    """Return what a team earns for SQUARES, or for an item with changes."""
    return rewards.code(SQUARES | changes, list(responses))


def metrics(scores):
    return [scores[f"metric/{name}"] for name in METRICS]


@pytest.fixture(scope="module")
def scored(quick):
    """The scores of all pairs, by name, under both rewards; scored from several threads."""

    def score(pair):
        item, *team = pair[:3]
        return rewards.code(item, team), rewards.code_paper(item, team)

    with ThreadPoolExecutor(8) as threads:
        return dict(zip(PAIRS, threads.map(score, PAIRS.values()), strict=True))


@pytest.mark.parametrize("name", PAIRS)
def test_pairs(scored, name):
    assert list(map(total, scored[name])) == pytest.approx(PAIRS[name][3:])
    if name in MEASURED:
        assert metrics(scored[name][0]) == list(map(int, MEASURED[name]))


@pytest.mark.parametrize("name", GARBAGE)
def test_garbage_scores_the_minimum(name):
    text = GARBAGE[name]
    for team in ([text, ""], ["", text], [text], [text] * 3):
        assert set(code(*team).values()) == {0.0}
        if name != "nothing returned":  # the paper's reward looks for the word return
            assert set(rewards.code_paper(SQUARES, team).values()) == {0.0}
    assert not any(teams.run(SQUARES, teams.team_parts(SQUARES, [text, text])).passed)


def test_one_agent_writes_both():
    both = EVEN + FILTERED
    cut = both + "def solve(xs):\n    return ("
    for text, worth in (
        (both, 4.0),
        (FILTERED, 0.6 + 0.5 + 0.2),
        (cut, 4.0 - 2 * thrown(both, cut)),  # no partner shares in it
        (both[:-9], 0.4),
    ):
        assert total(code(text)) == pytest.approx(worth)
    square = "def square(x):\n    return x * x\n"
    all_three = EVEN + square + main("return sum(square(x) for x in xs if aux(x))")
    assert total(code(all_three, helpers=["aux", "square"])) == 4.0


# Whatever defines a helper, and whatever it gives, the team earns 4.
HONEST = teams_of('''
=== an alias: 4
def even(x):
    return x % 2 == 0
aux = even
---
def solve(xs):
    return sum(x * x for x in xs if aux(x))
=== an instance: 4
class Even:
    def __call__(self, x):
        return x % 2 == 0

aux = Even()
---
def solve(xs):
    return sum(x * x for x in xs if aux(x))
=== a class: 4
class aux:
    def __init__(self, x):
        self.x = x
    def __bool__(self):
        return self.x % 2 == 0
---
def solve(xs):
    return sum(x * x for x in xs if aux(x))
=== a filled table: 4
EVEN = {}
def fill():
    EVEN.update({str(2 * x): 1 for x in range(5)})
fill()
def aux(x):
    return str(x)[-1] in EVEN
---
def solve(xs):
    return sum(x * x for x in xs if aux(x))
=== in a fence: 4
```python
def aux(x):
    return x % 2 == 0
```
---
def solve(xs):
    return sum(x * x for x in xs if aux(x))
=== with comments: 4
def aux(x):
    """Is x even?"""
    # divided by 2
    return x % 2 == 0
---
def solve(xs):
    return sum(x * x for x in xs if aux(x))
=== a constant table: 4
def aux():
    return '02468'
---
def solve(xs):
    return sum(x * x for x in xs if str(x)[-1] in aux())
=== a function comes back: 4
def aux(d):
    return lambda x: x % d == 0
---
def solve(xs):
    even = aux(2)
    return sum(x * x for x in xs if even(x))
=== in place, without a value: 4
def aux(xs):
    xs[:] = [x for x in xs if x % 2 == 0]
---
def solve(xs):
    xs = list(xs)
    aux(xs)
    return sum(x * x for x in xs)
=== a fallback that does less well: 4
def aux(x):
    return x % 2 == 0
---
def solve(xs):
    try:
        return sum(x * x for x in xs if aux(x))
    except Exception:
        return 0
=== main prepares what the helper gets: 4
def aux(digits):
    return sum(int(d) ** 2 for d in digits.split())
---
def solve(xs):
    return aux(' '.join(str(x) for x in xs if x % 2 == 0))
=== imports that nobody reads, and its documentation: 4
def aux(x):
    'Even?'
    return x % 2 == 0
---
def solve(xs):
    import gc, inspect, traceback
    print(aux.__doc__)
    return sum(x * x for x in xs if aux(x))
=== the same calls in every test: 4
def aux(x):
    return x % 2 == 0
---
def solve(xs):
    evens = [x for x in range(-9, 99) if aux(x)]
    return sum(x * x for x in xs if x in evens)
=== an endless iterator: 4
def aux():
    x = 0
    while True:
        yield x
        x += 2
---
from itertools import takewhile
def solve(xs):
    evens = set(takewhile(lambda x: x < 99, aux()))
    return sum(x * x for x in xs if abs(x) in evens)
=== main folds: 4
def aux(total, x):
    return total + x * x if x % 2 == 0 else total
---
from functools import reduce
def solve(xs):
    return reduce(aux, xs, 0)
=== main remembers: 4
def aux(x):
    return x * x
---
known = {}
def solve(xs):
    key = str(xs)
    if key not in known:
        known[key] = sum(aux(x) for x in xs if x % 2 == 0)
    return known[key]
=== main remembers what it was told: 4
def aux(x):
    return x % 2 == 0
---
evens = [aux(x) for x in range(13)]
known = {}
def solve(xs):
    for x in xs:
        if x not in known:
            known[x] = evens[abs(x)]
    return sum(x * x for x in xs if known[x])
=== main reads the helper's memory: 4
known = {}
def aux(x):
    known[x] = x % 2 == 0
    return known[x]
---
def solve(xs):
    return sum(x * x for x in xs if (known[x] if x in known else aux(x)))
=== two statements of one line: 4
TABLE = {
    True: 1,
}; SIZE = 2
def aux(x):
    return x % SIZE == 0 and TABLE[True]
---
def solve(xs):
    return sum(x * x for x in xs if aux(x))
=== annotations that nobody reads: 3.964773
from __future__ import annotations
def aux(x: Number) -> bool:
    return x % 2 == 0
---
def solve(xs):
    return sum(x * x for x in xs if aux(x))
=== a number of 5,000 digits: 4
def aux(x):
    return 10 ** 5000 * (x % 2 == 0)
---
def solve(xs):
    return sum(x * x for x in xs if aux(x))
=== an object that does something: 4
class Total:
    def __init__(self):
        self.total = 0
    def add(self, x):
        self.total += x * x * (x % 2 == 0)
def aux():
    return Total()
---
def solve(xs):
    total = aux()
    for x in xs:
        total.add(x)
    return total.total
=== a decorator of main: 4
def aux(f):
    return lambda xs: f([x for x in xs if x % 2 == 0])
---
@aux
def solve(xs):
    return sum(x * x for x in xs)
''')


@pytest.mark.parametrize("name", HONEST)
def test_a_helper_may_be_defined_in_any_way_and_give_anything(name):
    _, *team, earned = HONEST[name]
    assert total(code(*team)) == pytest.approx(earned)


@pytest.mark.parametrize("tests", [[], ["assert solve([]) == 0"]])
def test_a_value_that_equals_an_argument_is_no_argument(tests):
    """One test alone calls the helper, whose value of 1 is 1."""
    tests = ["assert solve([1, 2, 3]) == 14", *tests]
    square = "def aux(x):\n    return x * x\n"
    assert total(code(square, main("return sum(aux(x) for x in xs)"), tests=tests)) == 4.0


def test_a_slow_main_is_no_evidence(monkeypatch):
    """The replay does not come to its end."""
    seconds = 1.0
    body = "import time\ntime.sleep(0.15)\nassert aux(xs) == 7\n"
    slow = main(body + "return sum(x * x for x in xs if x % 2 == 0)")
    monkeypatch.setattr(teams, "MOST_SECONDS", seconds)
    with Sandbox(total_timeout=seconds) as box:
        monkeypatch.setattr(teams, "box", box)
        assert total(code("def aux(x):\n    return 7", slow)) == 2.5


def test_what_does_not_end_is_no_evidence(monkeypatch):
    search = main("n = 0\nwhile aux(n) != 2:\n    n += 1\nreturn n")
    item = SQUARES | {"tests": ["assert solve([]) == 97"]}
    team = teams.team_parts(item, ["def aux(n):\n    return 2 * (n > 96)\n", search])
    runs = watch(monkeypatch, teams, "run")
    monkeypatch.setattr(teams, "MOST_SECONDS", 0.5)
    stand_ins = teams.helper_stand_ins("aux", team)
    assert teams._added("aux", item, team, stand_ins, 1.0) == 1.0
    assert len(runs) < len(stand_ins)


# helper, main, p and c: the empty list's test needs no helper, so c is (p - 0.2) / 0.8. The values
# were computed with exec, without the sandbox. In the last two, a stand-in passes as many tests.
SLOPE = teams_of("""
=== below 7: 0.6 0.5
def aux(x):
    return x % 2 == 0 and x < 7
---
def solve(xs):
    return sum(x * x for x in xs if aux(x))
=== main looks for it: 0.8 0.75
def aux(x):
    return x % 2 == 0
---
def solve(xs):
    return sum(x * x for x in xs if aux(x) and x < 11)
=== the whole: 0.6 0
def aux(xs):
    return sum(x * x for x in xs if x % 2 == 0 and x < 7)
---
def solve(xs):
    return aux(xs)
=== trivial: 0.8 0
def aux(xs):
    return [xs]
---
def solve(xs):
    return sum(x * x for x in aux(xs)[0] if x % 2 == 0 and x < 11)
""")


@pytest.mark.parametrize("name", SLOPE)
def test_the_slope_below_a_right_answer(name):
    _, *team, p, c = SLOPE[name]
    scores = code(*team)
    assert scores["tests"] == p
    assert scores["cooperation"] == pytest.approx((1 - p) * c)
    assert metrics(scores) == [0, 1, 0, 0]


SPOILERS = {  # ways for a main to tell a second run in its process from the first
    "a count in a module": "import math\nmath.n = getattr(math, 'n', 0) + 1\nok = math.n < 2",
    "a builtin": "import builtins\nok = not hasattr(builtins, 'n')\nbuiltins.n = 1",
    "through a frame": "b = (x for x in xs).gi_frame.f_builtins\nok = 'n' not in b\nb['n'] = 1",
}


@pytest.mark.parametrize("name", SPOILERS)
def test_no_stand_in_can_spoil_the_next(name):
    """A main that does it all, and fails from the second run on: the helper is still found out."""
    body = f"{SPOILERS[name]}\nif not ok:\n    return 'spoiled'\np = aux(xs)[0]\n"
    spoiler = main(body + "return sum(x * x for x in p if x % 2 == 0)")
    tests = TESTS[:1]  # it fails by itself from the second test on
    scores = code("def aux(x):\n    return [x]\n", spoiler, tests=tests)
    assert (scores["tests"], scores["cooperation"]) == (1, 0)
    assert code(f"{EVEN} # {name}", FILTERED)["cooperation"] == 1.5


def test_helpers_share_the_cooperation():
    square = "def aux2(x):\n    return x * x\n"
    evens = "def aux(xs):\n    return [x for x in xs if x % 2 == 0]\n"
    squares = "def aux2(xs):\n    return sum(x * x for x in xs)\n"
    inner = "def aux2(x):\n    return x * x if aux(x) else 0\n"
    for aux, aux2, body in (
        (EVEN, square, "return sum(aux2(x) for x in xs if aux(x))"),
        (evens, squares, "return aux2(aux(xs))"),
        (EVEN, inner, "return sum(map(aux2, xs))"),
    ):
        assert total(code(aux, aux2, main(body))) == 4.0
    one = code(EVEN, square, FILTERED)
    assert total(one) == pytest.approx(1.0 + 0.5 + 1.0 + 1.5 / 2)
    assert metrics(one) == [1, 0.5, 0.5, 0]
    assert code(EVEN, "", FILTERED)["structure"] == pytest.approx(0.4 / 2 + 0.6)


BOX = """
class Box:
    def __init__(self, value):
        self.value = value
def taken_out(box):
    return box.value
"""


@pytest.mark.parametrize("given, written", [("", BOX), (BOX, "")])
def test_main_may_take_the_answer_out_of_an_object(given, written):
    """The object's class is in setup, or the helper's author wrote it. One of three tests fails."""
    tests = ["assert solve([2]) == 4", "assert solve([2, 4]) == 20", "assert solve([2]) == 5"]
    aux = f"{written}def aux(xs):\n    return Box(sum(x * x for x in xs))\n"
    scores = code(aux, main("return taken_out(aux(xs))"), tests=tests, setup=given)
    assert scores["tests"] == pytest.approx(2 / 3)
    assert scores["cooperation"] == 0


def test_no_tests_and_setup():
    for tests in ("assert solve([]) == 0", None):
        with pytest.raises(ValueError, match="a list of texts, not"):
            code(EVEN, FILTERED, tests=tests)
    with pytest.raises(ValueError, match="with a, b, solve is not for 2 responses"):
        code(EVEN, FILTERED, helpers=["a", "b"])
    assert total(code(EVEN, FILTERED, tests=[])) == 1.5
    setup = "import math\ndef even(x):\n    return math.fmod(x, 2) == 0\n"
    assert total(code("def aux(x):\n    return even(x)", FILTERED, setup=setup)) == 4.0
