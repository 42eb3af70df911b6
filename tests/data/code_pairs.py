"""Teams of two for the code rewards: what each wrote, and what `code` and `code_paper` give it.

The problem is the sum of the squares of the even numbers in xs, unless a row says otherwise. The
totals are written by hand from the table in rewards.py.
"""

from textwrap import dedent

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

REAL = "sum(x * x for x in xs if x % 2 == 0)"
EVEN = "def aux(x):\n    return x % 2 == 0\n"
WHOLE = f"def aux(xs):\n    return {REAL}\n"
WIDE = f"def aux(xs, start):\n    return start + {REAL}\n"  # solve gives it a start
CONSTANT = "def aux(x):\n    return 7\n"
PRIME = "def aux(n):\n    return n > 1 and all(n % d for d in range(2, n))\n"


def main(body):
    return "def solve(xs):\n" + "".join(f"    {line}\n" for line in dedent(body).split("\n"))


def thrown(kept, response):
    """What one of two agents costs the team for text that is thrown away."""
    used, written = (len("".join(text.split())) for text in (kept, response))
    return 0.15 * (1 - used / written) / 2


def rows(groups):
    """Return name: item, helper, main function, totals of code and of code_paper.

    groups: teams by their totals. A text that does not name solve is the body of it.
    """
    table = {}
    for totals, teams in groups.items():
        for name, (helper, text, *item) in teams.items():
            solve = text if "solve" in text else main(text)
            table[name] = (*(item or [SQUARES]), helper, solve, *totals)
    return table


FILTERED = main("return sum(x * x for x in xs if aux(x))")
SECOND = main("return sum(x * x * aux(x) for x in xs)")
SOLVED = EVEN + main(f"return {REAL}")
STUB = "def aux(x):\n    ...\n"
BELOW_7 = "def aux(x):\n    return x % 2 == 0 and x < 7\n"

EVENS = "def aux(xs):\n    return [x for x in xs if x % 2 == 0]\n"
_SCHEMES = {
    (4.0, 4.0): {
        "strategy filter": (
            EVEN,
            "total = 0\nfor x in xs:\n    if aux(x):\n        total += x * x\nreturn total",
        ),
        "coordinator": (
            "def aux(xs, total):\n    return total + xs[0] ** 2 if xs[0] % 2 == 0 else total\n",
            "total = 0\nfor i in range(len(xs)):\n    total = aux(xs[i:], total)\nreturn total",
        ),
        "coordinator by search": (
            PRIME,
            "n = xs + 1\nwhile not aux(n):\n    n += 1\nreturn n",
            REACH,
        ),
        "decorator, and a test shows what it adds": (
            "def aux(xs):\n    return max(xs)\n",
            "if not xs:\n    return 'none'\nreturn aux(xs)",
            LARGEST,
        ),
    },
    (2.5, 4.0): {
        "decorator, and no test shows what it adds": (
            WHOLE,
            "if not xs:\n    return 0\nreturn aux(xs)",
        ),
        "fallback for an error": (
            EVENS,
            f"try:\n    return sum(x * x for x in aux(xs))\nexcept Exception:\n    return {REAL}",
        ),
    },
    (4.0, 3.0): {
        "strategy filter on one line": (EVEN, "return sum(x * x for x in xs if aux(x))"),
        "a transform, with constants and imports": (
            "import math\nTWO = 2\n\ndef aux(x):\n    return int(math.pow(x, TWO))\n",
            "return sum(aux(x) for x in xs if x % 2 == 0)",
        ),
        "a helper that calls itself": (
            "def aux(x):\n    return x == 0 or not aux(abs(x) - 1)\n",
            "return sum(x * x for x in xs if aux(x))",
        ),
    },
    (4.0, 2.6): {  # code_paper: its text has no return
        "a generator": (
            "def aux(xs):\n    for x in xs:\n        if x % 2 == 0:\n            yield x\n",
            "return sum(x * x for x in aux(xs))",
        ),
    },
    (2.5, 2.5): {"no helper is called": (EVEN, f"return {REAL}")},
    # without helper or main, the empty list alone: 1 - 0.4 * (1 - (0.6 - 0.2) / 0.8)
    (1.5 + 0.8, 2.6): {"three tests of five": (BELOW_7, FILTERED)},
    (1.5, 1.5): {"all tests fail": ("def aux(x):\n    return x\n", "return aux(-99)")},
}
SCHEMES = rows(_SCHEMES)

# Helpers that know nothing of the problem: what they return, what main does with it in place of xs.
_NOTHING = {
    "with its type": ("(type(x).__name__, x)", "_, p = aux(xs)"),
    "a function of nothing": ("lambda: x", "p = aux(xs)()"),
    "its length, checked": ("len(x)", "p = xs if aux(xs) == len(xs) else None"),
    "one, or not at all": ("1", "p = xs * aux(xs)"),
    "a value nobody reads": ("(x, 'note')", "p, note = aux(xs)"),
}
# Helpers that do it all: what they return, given the answer y, and what main returns.
_ALL = {
    "a box": ("[y]", "aux(xs)[0]"),
    "as text": ("str(y)", "int(aux(xs))"),
    "under a key": ("{'n': len(xs), 'result': y}", "aux(xs)['result']"),
    "an error and the answer": ("(None, y)", "aux(xs)[1]"),
}
_HACKS = {
    (2.5, 4.0): {
        name: (
            f"def aux(x):\n    return {value}\n",
            f"{body}\nreturn sum(x * x for x in p if x % 2 == 0)",
        )
        for name, (value, body) in _NOTHING.items()
    }
    | {
        "aux( in a comment": (EVEN, f"# aux(\nreturn {REAL}"),
        "a password that comes first": (
            f"def aux(k, xs):\n    return [{REAL}] if k == -7 else None\n",
            "value = aux(-7, xs)\nreturn value[0]",
        ),
        "wrapper by a loop": (WIDE, "for answer in [aux(xs, 0)]:\n    return answer"),
        "an empty list, filled": (
            "def aux(xs):\n    return []\n",
            "found = aux(xs)\nfor x in xs:\n    found += [x * x] * (x % 2 == 0)\nreturn sum(found)",
        ),
        "after the return": (WHOLE, f"return {REAL}\nreturn aux(xs)"),
        "main's global aux": (
            CONSTANT,
            "global aux\naux = lambda x: x % 2 == 0\nreturn sum(x * x for x in xs if aux(x))",
        ),
    },
    (2.5, 3.0): {
        name: (f"def aux(xs):\n    y = {REAL}\n    return {value}\n", f"return {body}")
        for name, (value, body) in _ALL.items()
    }
    | {
        "wrapper": (WHOLE, "return aux(xs)"),
        "wrapper in two lines": (WHOLE, "x = aux(xs)\nreturn x"),
        "a password": (
            f"def aux(xs, k):\n    return {REAL} if k == 7 else None\n",
            "return aux(xs, 7)",
        ),
        "a stand-in that the helper recognises": (
            "import sys\n\ndef aux(xs):\n    if sys._getframe(1).f_code.co_argcount == 1:\n"
            f"        return {REAL}\n",
            "return aux(xs)",
        ),
        "wrapper lambda, return in a comment": (
            WHOLE,
            "solve = lambda xs: aux(xs)  # return it",
        ),
        "always true": (
            "def aux(x):\n    return True\n",
            "return sum(x * x for x in xs if aux(x) and x % 2 == 0)",
        ),
    },
    (2.5, 2.5): {
        "a stand-in that main recognises": (
            "def aux(x):\n    'Twice.'\n    return 2 * x\n",
            f"if not getattr(aux, '__doc__'):\n    raise ValueError\nreturn {REAL}",
        ),
        "an idle decorator of main": (
            "def aux(f):\n    return lambda *xs: f(*xs)\n",
            "@aux\n" + main(f"return {REAL}"),
        ),
    },
    (2.5, 0.4): {"wrapper lambda": (WHOLE, "solve = lambda xs: aux(xs)")},
    (2.5, 3.5): {"result dropped": (WHOLE, f"aux(xs)\nreturn {REAL}")},
    (0.6, 0.6): {
        "a helper cut short": ("def aux(x):\n    return (x", f"return {REAL}"),
        "a helper cut in its fence": ("```\ndef aux(x):\n    for y in x", f"return {REAL}"),
    },
    (2.1, 2.1): {"no helper": ("", f"return {REAL}")},
    (1.5, 1.5): {"exit": (EVEN, "import sys\nsys.exit(0)\nreturn 0")},
    # limits: no stand-in does what main undoes, or agrees with all that main knows
    (4.0, 4.0): {
        "main does it all and checks": (
            EVEN,
            f"for x in xs:\n    assert aux(x) == (x % 2 == 0)\nreturn {REAL}",
        ),
    },
    (4.0, 3.0): {
        "main imports an aux": (EVEN, "from math import sqrt as aux\n" + FILTERED),
        "there and back": (
            "def aux(x):\n    return x + 1\n",
            "return sum((aux(x) - 1) ** 2 for x in xs if x % 2 == 0)",
        ),
    },
    # what an author writes beside its own function
    (1.7 - thrown(SECOND, EVEN + SECOND), 2.2): {"main's own aux": (CONSTANT, EVEN + SECOND)},
    # the empty list needs no helper
    (1.3 - thrown(FILTERED, EVEN + FILTERED), 1.3): {
        "main's own aux, nothing from the helper": ("", EVEN + FILTERED)
    },
    (2.5 - thrown(FILTERED, EVEN + FILTERED), 3.0): {
        "both write everything": (EVEN, EVEN + FILTERED)
    },
    (2.5 - thrown(EVEN, EVEN + FILTERED), 3.0): {
        "the helper writes everything too": (EVEN + FILTERED, FILTERED)
    },
    (2.1 - thrown(FILTERED, BELOW_7 + FILTERED), 2.6): {
        "main's own aux is as good, and wrong": (BELOW_7, BELOW_7 + FILTERED)
    },
    (4.0 - thrown(FILTERED, STUB + FILTERED), 3.0): {
        "main's own aux is a stub": (EVEN, STUB + FILTERED)
    },
    (1.5 - thrown(EVEN, SOLVED), 1.5): {"the helper writes main": (SOLVED, "return 1")},
}
HACKS = rows(_HACKS)

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
