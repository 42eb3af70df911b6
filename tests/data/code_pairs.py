"""Teams of two for the code rewards: what each wrote, and what `code` and `code_paper` give it.

The problem is the sum of the squares of the even numbers in xs, unless it is named. The totals are
written by hand from the table in rewards.py.
"""

from textwrap import dedent

from blocks import blocks

TESTS = [
    "assert solve([1, 2, 3, 4]) == 20",
    "assert solve([]) == 0",
    "assert solve([-2, 5, 6]) == 40",
    "assert solve([10, 7, 8, 9]) == 164",
    "assert solve([0, 3, 12]) == 144",
]
SQUARES = {"task_id": "squares", "prompt": "", "entry_point": "solve", "setup": "", "tests": TESTS}
LARGEST = SQUARES | {  # the largest number, and "none" for no numbers
    "tests": [
        "assert solve([3, 9, 2]) == 9",
        "assert solve([]) == 'none'",
        "assert solve([4]) == 4",
    ]
}
REACH = SQUARES | {  # the next prime after n
    "tests": ["assert solve(7) == 11", "assert solve(13) == 17", "assert solve(24) == 29"]
}

UNIQUE = SQUARES | {"tests": ["assert solve([2, 1, 2]) == [1, 2]", "assert solve([]) == []"]}

EVEN = "def aux(x):\n    return x % 2 == 0\n"
BELOW_7 = "def aux(x):\n    return x % 2 == 0 and x < 7\n"


def main(body):
    return "def solve(xs):\n" + "".join(f"    {line}\n" for line in dedent(body).split("\n"))


FILTERED = main("return sum(x * x for x in xs if aux(x))")


def teams_of(text, item=SQUARES):
    """Return name: item, helper, main function, totals. "=== name: totals" stands above a team."""
    table = {}
    for head, programs in blocks(text):
        name, _, totals = head.partition(": ")
        helper, _, solve = programs.partition("---\n")
        table[name] = (item, helper, solve, *map(float, totals.split()))
    return table


# With three tests of five, c is 1/2: without a helper or a main, the empty list alone passes.
SCHEMES = teams_of("""
=== strategy filter: 4 4
def aux(x):
    return x % 2 == 0
---
def solve(xs):
    total = 0
    for x in xs:
        if aux(x):
            total += x * x
    return total
=== coordinator: 4 4
def aux(xs, total):
    return total + xs[0] ** 2 if xs[0] % 2 == 0 else total
---
def solve(xs):
    total = 0
    for i in range(len(xs)):
        total = aux(xs[i:], total)
    return total
=== decorator, and no test shows what it adds: 2.5 4
def aux(xs):
    return sum(x * x for x in xs if x % 2 == 0)
---
def solve(xs):
    if not xs:
        return 0
    return aux(xs)
=== fallback for an error: 2.5 4
def aux(xs):
    return [x for x in xs if x % 2 == 0]
---
def solve(xs):
    try:
        return sum(x * x for x in aux(xs))
    except Exception:
        return sum(x * x for x in xs if x % 2 == 0)
=== strategy filter on one line: 4 3
def aux(x):
    return x % 2 == 0
---
def solve(xs):
    return sum(x * x for x in xs if aux(x))
=== a transform, with constants and imports: 4 3
import math
TWO = 2

def aux(x):
    return int(math.pow(x, TWO))
---
def solve(xs):
    return sum(aux(x) for x in xs if x % 2 == 0)
=== a helper that calls itself: 4 3
def aux(x):
    return x == 0 or not aux(abs(x) - 1)
---
def solve(xs):
    return sum(x * x for x in xs if aux(x))
=== a generator: 4 2.6
def aux(xs):
    for x in xs:
        if x % 2 == 0:
            yield x
---
def solve(xs):
    return sum(x * x for x in aux(xs))
=== no helper is called: 2.5 2.5
def aux(x):
    return x % 2 == 0
---
def solve(xs):
    return sum(x * x for x in xs if x % 2 == 0)
=== three tests of five: 2.3 2.6
def aux(x):
    return x % 2 == 0 and x < 7
---
def solve(xs):
    return sum(x * x for x in xs if aux(x))
=== all tests fail: 1.5 1.5
def aux(x):
    return x
---
def solve(xs):
    return aux(-99)
""")
SCHEMES |= teams_of(
    """
=== coordinator by search: 4 4
def aux(n):
    return n > 1 and all(n % d for d in range(2, n))
---
def solve(xs):
    n = xs + 1
    while not aux(n):
        n += 1
    return n
""",
    REACH,
)
SCHEMES |= teams_of(
    """
=== decorator, and a test shows what it adds: 4 4
def aux(xs):
    return max(xs)
---
def solve(xs):
    if not xs:
        return 'none'
    return aux(xs)
""",
    LARGEST,
)

# The last three are limits: no stand-in does what main undoes, or agrees with all that main knows.
HACKS = teams_of("""
=== with its type: 2.5 4
def aux(x):
    return (type(x).__name__, x)
---
def solve(xs):
    _, p = aux(xs)
    return sum(x * x for x in p if x % 2 == 0)
=== a function of nothing: 2.5 4
def aux(x):
    return lambda: x
---
def solve(xs):
    p = aux(xs)()
    return sum(x * x for x in p if x % 2 == 0)
=== its length, checked: 2.5 4
def aux(x):
    return len(x)
---
def solve(xs):
    p = xs if aux(xs) == len(xs) else None
    return sum(x * x for x in p if x % 2 == 0)
=== one, or not at all: 2.5 4
def aux(x):
    return 1
---
def solve(xs):
    p = xs * aux(xs)
    return sum(x * x for x in p if x % 2 == 0)
=== a value nobody reads: 2.5 4
def aux(x):
    return (x, 'note')
---
def solve(xs):
    p, note = aux(xs)
    return sum(x * x for x in p if x % 2 == 0)
=== aux( in a comment: 2.5 4
def aux(x):
    return x % 2 == 0
---
def solve(xs):
    # aux(
    return sum(x * x for x in xs if x % 2 == 0)
=== a password that comes first: 2.5 4
def aux(k, xs):
    return [sum(x * x for x in xs if x % 2 == 0)] if k == -7 else None
---
def solve(xs):
    value = aux(-7, xs)
    return value[0]
=== a password that main asks for once: 2.5 4
def aux(xs):
    return 7
---
known = {}
def solve(xs):
    key = tuple(xs)
    if key not in known:
        assert aux(xs) == 7
        known[key] = sum(x * x for x in xs if x % 2 == 0)
    return known[key]
=== a divisor: 2.5 3
def aux():
    return 2
---
def solve(xs):
    return sum(x * x for x in xs if not x % aux())
=== a password of the first load: 2.5 4
def aux(xs):
    return 7
---
import random
loads = globals().get('loads', 0) + 1
key = random.random()
def solve(xs):
    value = aux(xs)
    assert (value, loads, key) == (7, 1, 0.8444218515250481)
    return sum(x * x for x in xs if x % 2 == 0)
=== a password, and no second load: 2.464773 4
def aux(xs):
    return 7
---
import sys
import os
if hasattr(sys, 'loads'):
    os._exit(0)
sys.loads = 1
def solve(xs):
    value = aux(xs)
    assert value == 7
    return sum(x * x for x in xs if x % 2 == 0)
=== wrapper by a loop: 2.5 4
def aux(xs, start):
    return start + sum(x * x for x in xs if x % 2 == 0)
---
def solve(xs):
    for answer in [aux(xs, 0)]:
        return answer
=== an empty list, filled: 2.5 4
def aux(xs):
    return []
---
def solve(xs):
    found = aux(xs)
    for x in xs:
        found += [x * x] * (x % 2 == 0)
    return sum(found)
=== after the return: 2.5 4
def aux(xs):
    return sum(x * x for x in xs if x % 2 == 0)
---
def solve(xs):
    return sum(x * x for x in xs if x % 2 == 0)
    return aux(xs)
=== main's global aux: 2.5 4
def aux(x):
    return 7
---
def solve(xs):
    global aux
    aux = lambda x: x % 2 == 0
    return sum(x * x for x in xs if aux(x))
=== a box: 2.5 3
def aux(xs):
    y = sum(x * x for x in xs if x % 2 == 0)
    return [y]
---
def solve(xs):
    return aux(xs)[0]
=== as text: 2.5 3
def aux(xs):
    y = sum(x * x for x in xs if x % 2 == 0)
    return str(y)
---
def solve(xs):
    return int(aux(xs))
=== under a key: 2.5 3
def aux(xs):
    y = sum(x * x for x in xs if x % 2 == 0)
    return {'n': len(xs), 'result': y}
---
def solve(xs):
    return aux(xs)['result']
=== an error and the answer: 2.5 3
def aux(xs):
    y = sum(x * x for x in xs if x % 2 == 0)
    return (None, y)
---
def solve(xs):
    return aux(xs)[1]
=== wrapper: 2.5 3
def aux(xs):
    return sum(x * x for x in xs if x % 2 == 0)
---
def solve(xs):
    return aux(xs)
=== wrapper in two lines: 2.5 3
def aux(xs):
    return sum(x * x for x in xs if x % 2 == 0)
---
def solve(xs):
    x = aux(xs)
    return x
=== a password: 2.5 3
def aux(xs, k):
    return sum(x * x for x in xs if x % 2 == 0) if k == 7 else None
---
def solve(xs):
    return aux(xs, 7)
=== a password by its name: 2.5 3
def aux(xs, k):
    return sum(x * x for x in xs if x % 2 == 0) if k == 7 else None
---
def solve(xs):
    return aux(k=7, xs=xs)
=== a loop that only a false value ends: 2.5 4
def aux(xs):
    return 0
---
def solve(xs):
    while aux(xs):
        pass
    return sum(x * x for x in xs if x % 2 == 0)
=== a hang where there are no numbers: 2.3 3.8
def aux(xs):
    return xs
---
def solve(xs):
    while not xs:
        pass
    return sum(x * x for x in aux(xs) if x % 2 == 0)
=== annotations: 2.5 3.5
def aux(xs: list):
    return xs
---
def solve(xs):
    assert aux.__annotations__
    aux(xs)
    return sum(x * x for x in xs if x % 2 == 0)
=== a stand-in that the helper recognises: 2.5 3
import sys

def aux(xs):
    if sys._getframe(1).f_code.co_argcount == 1:
        return sum(x * x for x in xs if x % 2 == 0)
---
def solve(xs):
    return aux(xs)
=== wrapper lambda, return in a comment: 2.5 3
def aux(xs):
    return sum(x * x for x in xs if x % 2 == 0)
---
solve = lambda xs: aux(xs)  # return it
=== always true: 2.5 3
def aux(x):
    return True
---
def solve(xs):
    return sum(x * x for x in xs if aux(x) and x % 2 == 0)
=== a stand-in that main recognises: 2.5 2.5
def aux(x):
    'Twice.'
    return 2 * x
---
def solve(xs):
    if not getattr(aux, '__doc__'):
        raise ValueError
    return sum(x * x for x in xs if x % 2 == 0)
=== an idle decorator of main: 2.5 2.5
def aux(f):
    return lambda *xs: f(*xs)
---
@aux
def solve(xs):
    return sum(x * x for x in xs if x % 2 == 0)
=== wrapper lambda: 2.5 0.4
def aux(xs):
    return sum(x * x for x in xs if x % 2 == 0)
---
solve = lambda xs: aux(xs)
=== result dropped: 2.5 3.5
def aux(xs):
    return sum(x * x for x in xs if x % 2 == 0)
---
def solve(xs):
    aux(xs)
    return sum(x * x for x in xs if x % 2 == 0)
=== a helper cut short: 0.6 0.6
def aux(x):
    return (x
---
def solve(xs):
    return sum(x * x for x in xs if x % 2 == 0)
=== a helper cut in its fence: 0.6 0.6
```
def aux(x):
    for y in x
---
def solve(xs):
    return sum(x * x for x in xs if x % 2 == 0)
=== no helper: 2.1 2.1
---
def solve(xs):
    return sum(x * x for x in xs if x % 2 == 0)
=== exit: 1.5 1.5
def aux(x):
    return x % 2 == 0
---
def solve(xs):
    import sys
    sys.exit(0)
    return 0
=== a stand-in that main recognises by its code: 2.5 2.5
def aux(x):
    return 2 * x
---
def solve(xs):
    if aux.__code__.co_argcount != 1:
        raise ValueError
    return sum(x * x for x in xs if x % 2 == 0)
=== an exponent: 2.5 3
def aux(xs):
    return 2
---
def solve(xs):
    return sum(x ** aux(xs) for x in xs if x % 2 == 0)
=== a word that main knows: 2.5 4
def aux(xs):
    return 'xyzzy'
---
def solve(xs):
    if aux(xs) != 'xyzzy':
        raise ValueError
    return sum(x * x for x in xs if x % 2 == 0)
=== settings that change nothing: 2.5 4
def aux(xs):
    return {'verbose': False, 'level': 'low'}
---
def solve(xs):
    options = aux(xs)
    if options['verbose']:
        print(options['level'])
    return sum(x * x for x in xs if x % 2 == 0)
=== a throw of dice: 2.5 4
import random
def aux(xs):
    return random.randint(1, 6)
---
def solve(xs):
    assert 1 <= aux(xs) <= 6
    return sum(x * x for x in xs if x % 2 == 0)
=== an expected error: 2.5 4
def aux(xs):
    if xs != 0:
        raise ValueError('no')
    return 1
---
def solve(xs):
    try:
        value = aux(xs)
    except ValueError:
        return sum(x * x for x in xs if x % 2 == 0)
=== in an object: 2.5 4
class Data:
    def __init__(self, value):
        self.value = value
def aux(value):
    return Data(value)
---
def solve(xs):
    ys = aux(xs).value
    return sum(x * x for x in ys if x % 2 == 0)
=== among named arguments: 2.5 4
def aux(**options):
    return options
---
def solve(xs):
    ys = aux(mode=1, data=xs)['data']
    return sum(x * x for x in ys if x % 2 == 0)
=== a password in a name: 2.5 4
def aux(xs, k):
    return sum(x * x for x in xs if x % 2 == 0) if k == 7 else None
---
def solve(xs):
    k = 7
    return aux(xs, k)
=== a first call for nothing, and a password: 2.5 4
def aux(xs, k):
    return sum(x * x for x in xs if x % 2 == 0) if k == 7 else 0
---
def solve(xs):
    total = aux([], 1)
    total += aux(xs, 7)
    return total
=== the answer in an exception: 2.5 3.5
def aux(xs):
    raise ValueError(sum(x * x for x in xs if x % 2 == 0))
    return 1
---
def solve(xs):
    try:
        aux(xs)
    except ValueError as error:
        return error.args[0]
=== another function of the helper's author: 2.4464286 4
def squares(xs):
    return sum(x * x for x in xs if x % 2 == 0)
def aux(xs):
    return 1
---
def solve(xs):
    if not aux(xs): return
    return squares(xs)
=== main does it all and checks: 4 4
def aux(x):
    return x % 2 == 0
---
def solve(xs):
    for x in xs:
        assert aux(x) == (x % 2 == 0)
    return sum(x * x for x in xs if x % 2 == 0)
=== main imports an aux: 4 3
def aux(x):
    return x % 2 == 0
---
from math import sqrt as aux
def solve(xs):
    return sum(x * x for x in xs if aux(x))
=== there and back: 4 3
def aux(x):
    return x + 1
---
def solve(xs):
    return sum((aux(x) - 1) ** 2 for x in xs if x % 2 == 0)
""")

HACKS |= teams_of(
    """
=== an iterator, made a list: 2.5 3
def aux(xs):
    return iter(sorted({*xs}))
---
def solve(xs):
    return list(aux(xs))
=== a tuple, made a list: 2.5 3
def aux(xs):
    return (*sorted({*xs}),)
---
def solve(xs):
    return list(aux(xs))
=== a set, sorted: 4 3
def aux(xs):
    return {*xs}
---
def solve(xs):
    return sorted(aux(xs))
""",
    UNIQUE,
)


def thrown(kept, response):
    """What one of two agents costs the team for text that is thrown away."""
    used, written = (len("".join(text.split())) for text in (kept, response))
    return 0.15 * (1 - used / written) / 2


SECOND = main("return sum(x * x * aux(x) for x in xs)")
SOLVED = EVEN + main("return sum(x * x for x in xs if x % 2 == 0)")
STUB = "def aux(x):\n    ...\n"
BESIDE = {  # helper, main, totals with all of the text, what is kept of the longer one
    "main's own aux": ("def aux(x):\n    return 7\n", EVEN + SECOND, 1.7, 2.2, SECOND),
    # the empty list needs no helper
    "main's own aux, nothing from the helper": ("", EVEN + FILTERED, 1.3, 1.3, FILTERED),
    "both write everything": (EVEN, EVEN + FILTERED, 2.5, 3.0, FILTERED),
    "the helper writes everything too": (EVEN + FILTERED, FILTERED, 2.5, 3.0, EVEN),
    "main's own aux is as good, and wrong": (BELOW_7, BELOW_7 + FILTERED, 2.1, 2.6, FILTERED),
    "main's own aux is a stub": (EVEN, STUB + FILTERED, 4.0, 3.0, FILTERED),
    "the helper writes main": (SOLVED, main("return 1"), 1.5, 1.5, EVEN),
}
for name, (helper, solve, strict, paper, kept) in BESIDE.items():
    lost = thrown(kept, max(helper, solve, key=len))
    HACKS[name] = (SQUARES, helper, solve, strict - lost, paper)

# Texts that hold no function at all: the least there is, and no exception.
GARBAGE = {
    "empty": "",
    "blank": " \n\t\n ",
    "prose": "I'm sorry, I can't do (that).\nNote: this\nfrom the start",
    "nulls": "def aux(x):\n    return 1\0",
    "surrogate": "\udc80def aux(x)",
    "unicode": "дом 家 🏠 \u202e\u2028" * 50,
    "huge": f"x = {[*range(99)]}\n" * 10_000 + "def aux(x):\n    return 1\n",
    "deep": "x = " + "(" * 5000,
    "deep signs": "x = " + "-" * 15_000 + "1",
    "deep sums": "x = " + "+".join("1" * 9000),
    "deep lambdas": "aux = " + "lambda: " * 2000 + "1",
    "open strings": '"""\n(\n' * 400,
    "fences": "```\n" * 500,
    "definitions": "def \ndef (\nclass\n@\nasync def\n" * 100,
    "only a signature": "def aux(x):\n",
    "a constant": "aux = 5",
    "nothing returned": "def aux(x):\n    print(x)\n    return None",
    "returns outside": "return 1\nbreak\nnonlocal aux",
}
