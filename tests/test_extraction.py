"""Checks what is kept of a model's text for the function it was asked for, and what is dropped.

python -m pytest tests/test_extraction.py
"""

import gc
import textwrap
import threading

import pytest

from programs import extraction
from programs.extraction import extract

SOLVE = frozenset({"solve"})
PLAIN = "def aux(x):\n    return x % 2 == 0"
CONTEXT = "from decimal import *\ngetcontext().prec = 3\ndef aux(x):\n    return Decimal(x)"
FENCED = 'def aux(x):\n    """So:\n    ```\n    aux(2)\n```\n    """\n    return x'
# text -> what is kept of it for the function aux
EXTRACTED = {
    "plain": (PLAIN, PLAIN),
    "indented": ("    def aux(x):\n        return x % 2 == 0\n", PLAIN),
    "fence": (f"Sure! Here's the helper:\n\n```python\n{PLAIN}\n```\nIt's (very) short.", PLAIN),
    "fence not closed": (f"```py\n{PLAIN}\n", PLAIN),
    "two fences": (
        f"```\ndef aux(x):\n    return 0\n```\nor better\n```\n{PLAIN}\n```",
        f"def aux(x):\n    return 0\n{PLAIN}",  # the later one wins
    ),
    "example": (f"{PLAIN}\n\nresult = aux(3)\nprint(result)\nassert aux(2)\n", PLAIN),
    "a main guard": (f"{PLAIN}\nif __name__ == '__main__':\n    x = 3\n    print(aux(x))\n", PLAIN),
    "truncated after": (f"{PLAIN}\n\ndef test_aux():\n    assert aux(", PLAIN),
    "truncated rewrite": (f"{PLAIN}\n\ndef aux(x):\n    return [x for", PLAIN),
    "the partner's function": (f"{PLAIN}\n\ndef solve(xs):\n    return aux(xs)\n", PLAIN),
    "decorator, import": (
        "from functools import cache\nimport os\n@cache\ndef aux(x):\n    return x\n",
        "from functools import cache\n@cache\ndef aux(x):\n    return x",
    ),
    "lines": (
        "So\ndef aux(\n    x: list[int],\n    k: int = (1),\n) -> list[int]:\n    return [\nx]\nok",
        "def aux(x: list[int], k: int=1) -> list[int]:\n    return [x]",
    ),
    "text at the margin": (
        'Now\ndef aux(x):\n    """Even?\nFor example:\n>>> aux(2)\n"""\n    return x\nok?',
        'def aux(x):\n    """Even?\nFor example:\n>>> aux(2)\n"""\n    return x',
    ),
    "what it needs": (
        "LIMIT = 3\nOTHER = 4\nTABLE = {}\nTABLE.update(a=LIMIT)\n"
        "for i in range(2):\n    TABLE[i] = i\nclass Box:\n    size = LIMIT\n"
        "def unused():\n    return 1\n\n"
        "def inner(x):\n    return Box.size + x\n\ndef aux(x):\n    return inner(TABLE[x])\n",
        "LIMIT = 3\nTABLE = {}\nTABLE.update(a=LIMIT)\nfor i in range(2):\n    TABLE[i] = i\n"
        "class Box:\n    size = LIMIT\ndef inner(x):\n    return Box.size + x\n"
        "def aux(x):\n    return inner(TABLE[x])",
    ),
    "a local name is no need": (
        "result = aux(1)\n\ndef aux(x):\n    result = x\n    return result\n",
        "def aux(x):\n    result = x\n    return result",
    ),
    "recursion limit": (
        "import sys\nsys.setrecursionlimit(10)\ndef aux(x):\n    return x\nsys.exit()\n",
        "import sys\nsys.setrecursionlimit(10)\ndef aux(x):\n    return x",
    ),
    "a loop that fills": (
        "import sys\nP = []\nfor n in range(2, 9):\n    if n % 2:\n        P.append(n)\n"
        "for m in P:\n    sys.exit()\ndef aux(x):\n    return P[x] + sys.maxsize\n",
        "import sys\nP = []\nfor n in range(2, 9):\n    if n % 2:\n        P.append(n)\n"
        "def aux(x):\n    return P[x] + sys.maxsize",
    ),
    "a context": ("import decimal\n" + CONTEXT + "\nimport os\n", CONTEXT),
    "star": (
        "from math import *\nfrom partner import *\ndef aux(x):\n    return floor(x)\n",
        "from math import *\ndef aux(x):\n    return floor(x)",
    ),
    "an import of itself": (f"{PLAIN}\n\nfrom my_module import aux\nprint(aux(2))\n", PLAIN),
    "a fence in a docstring": (f"It's:\n```python\n{FENCED}\n```\nBob's", FENCED),
}


@pytest.mark.parametrize("name", EXTRACTED)
def test_extraction_keeps_what_the_function_needs(name):
    text, expected = EXTRACTED[name]
    part = extract(text, "aux", SOLVE)
    assert list(filter(None, part.source.split("\n"))) == list(filter(None, expected.split("\n")))
    assert part.returns
    assert not part.broken


NEEDED = {  # what a text runs before aux, which returns T
    "a function's argument": "def fill(t):\n    t[1] = 2\nT = {}\nfill(T)",
    "an argument, and a value": "def fill(t):\n    t[1] = 2\n    return t\nT = {}\nok = fill(T)",
    "a library function's": "import heapq\nT = [3, 2, 1]\nheapq.heapify(T)\nheapq.heappop(T)",
    "one that aux calls": "from heapq import heapify\nT = [3, 2, 1]\nheapify(T)\n"
    "def aux(x):\n    heapify([x])\n    return T",
    "setattr": "class T:\n    pass\nsetattr(T, 'size', 3)\nT = T.size",
    "global": "def inner():\n    global T\n    T = 3\ndef init():\n    inner()\nT = 0\ninit()",
    "without an argument": "def init(k):\n    T[k] = k\nT = {}\nfor k in range(3):\n    init(k)",
    "a decorator": "T = []\ndef put(f):\n    T.append(f(1))\n@put\ndef one(x):\n    return x",
    "a part": "T = [[1], [2]]\nfor row in T:\n    row.append(0)\nlast = T[1]\nlast[0] = 5",
    "a tree": "T = {}\ndef put(w):\n    t = T\n    for c in w:\n"
    "        t = t.setdefault(c, {})\nput('ab')",
    "a comprehension": "T = []\n[T.append(x) for x in range(3)]",
    "a value for nobody": "T = []\n_ = [T.append(x) for x in range(3)]",
    "deletion": "T = [1, 2]\ndel T[0]",
    "a new name": "from functools import partial\nT = []\nadd = partial(T.append)\nadd(1)",
    "a method": "class A:\n    def put(self):\n        self.x = 1\na = A()\na.put()\nT = vars(a)",
    "a counter": "T = 0\ndef aux(x):\n    global T\n    T += x\n    return T",
    "a context": "import decimal\ndecimal.getcontext().prec = 3\nT = decimal.Decimal(1) / 3",
}


@pytest.mark.parametrize("name", NEEDED)
def test_what_fills_the_data_is_kept(name):
    text = NEEDED[name]
    if "def aux" not in text:
        text += "\ndef aux(x):\n    return T"
    values = []
    for source in (text, extract(text, "aux", SOLVE).source):
        space = {}
        exec(source, space)
        values.append(space["aux"](3))
    assert values[0] == values[1]


DROPPED = [
    "while True:\n    print(aux(input()))",
    "def main():\n    out = []\n    out.append(aux(1))\n    print(out, T)\nmain()",
    "def check(candidate):\n    assert candidate(1) == 2\ncheck(aux)",
    "import unittest\nclass Test(unittest.TestCase):\n    def test(self):\n"
    "        self.assertEqual(aux(1), 2)\nunittest.main()",
    "print(T, T.get(1))\nassert T[1] == aux(1)",
    "size = len(T)\nfor x in T:\n    y = aux(x)\n    print(x, y)",
    "aux(T)",  # it changes T, as in every test
    "import sys\nsys.exit()\nexit(1)",
]


@pytest.mark.parametrize("example", DROPPED)
def test_what_shows_the_function_is_dropped(example):
    text = "T = {}\ndef aux(x):\n    T[0] = x\n    return T"
    assert extract(f"{text}\n{example}\n", "aux", SOLVE).source == text


@pytest.mark.parametrize(
    "text",
    [
        "def aux(x):\n    return (x +",
        "def aux(x):",
        "def aux(x):\nreturn x",
        f"{PLAIN}\n    And so it is",
        "def aux(x, x):\n    return x",
        "def aux(x):\n    return x\n    break",
    ],
)
def test_a_function_cut_short_does_not_parse(text):
    part = extract(text, "aux", SOLVE)
    assert part.broken
    assert not part.returns
    assert not part.source


RETURNS = {
    "return 1": True,
    "if x:\n    return x\nelse:\n    raise ValueError": True,
    "return": False,
    "return None": False,
    "def inner():\n    return x\ninner()": False,
    "y = lambda: (yield 1)": False,
}


@pytest.mark.parametrize("body", RETURNS)
def test_what_returns_a_value(body):
    text = "def aux(x):\n" + textwrap.indent(body, "    ")
    assert extract(text, "aux", SOLVE).returns is RETURNS[body]


def test_a_partner_name_is_never_bound():
    text = (
        f"from math import sqrt as solve\nimport solve\nsolve = aux = 1\n{PLAIN}\nclass solve: pass"
    )
    assert extract(text, "aux", SOLVE).source == PLAIN


@pytest.mark.parametrize(
    "text",
    [
        "class aux:\n    def __init__(self, x):\n        self.x = x",
        "import functools\naux = functools.partial(int, base=2)",
        "if True:\n    def aux(x):\n        return x",
    ],
)
def test_anything_that_may_be_callable_is_a_definition(text):
    part = extract(text, "aux", SOLVE)
    assert part.returns
    assert part.source
    assert not part.raw  # code_paper's rules are for functions
    assert not extract("aux = 'text'", "aux", SOLVE).returns


TAME = [
    "return sum(sorted(x)) or [y.upper() for y in x if y.isdigit()]",
    "from collections import Counter\nreturn Counter(x).most_common(1)[0]",
    "import math\nimport re\nreturn math.sqrt(len(re.findall('a', x)))",
    "try:\n    return int(x)\nexcept ValueError as error:\n    return str(error)",
    "match x:\n    case [first, *_] | {'a': first}:\n        return first",
]
WILD = [  # each leads to something that two modules of one process share
    "import sys\nreturn x",
    "import collections.abc\nreturn x",
    "from re import enum\nreturn x",
    "import re\nreturn re.enum",
    "import math\nmath.pi = 3\nreturn x",
    "import math\nfor math.pi in x:\n    return x",
    "import math\ndel math.pi\nreturn x",
    "from . import y\nreturn x",
    "return getattr(x, 'a')",
    "f = setattr\nreturn f(x, 'a', 1)",
    "return __builtins__",
    "return x.__class__",
    "return (y for y in x).gi_frame",
    "class A:\n    pass\nreturn A()",
    "return type('A', (), {})",
    "match x:\n    case object(__class__=c):\n        return c",
    "f'{x.__class__}'\nreturn x",
    "def getattr(y):\n    return y\nreturn x",
    "async def f():\n    pass\nreturn f()",
]


@pytest.mark.parametrize("body", TAME + WILD)
def test_what_outlasts_no_module_is_shareable(body):
    text = "def aux(x):\n" + textwrap.indent(body, "    ")
    assert extract(text, "aux", SOLVE).shareable is (body in TAME)


def test_two_threads_may_parse_at_once():
    """The second one comes in whenever Python collects garbage in the first one."""
    asked, answered, over = threading.Event(), threading.Event(), threading.Event()
    main = threading.current_thread()
    visits = []

    def visit():
        while not over.is_set():
            if asked.wait(0.01):
                asked.clear()
                extraction.syntax_tree("x = (1 + 2) * 3")
                answered.set()

    def collects(phase, info):
        if threading.current_thread() is main and phase == "start" and len(visits) < 20:
            asked.set()
            visits.append(answered.wait(0.05))
            answered.clear()

    visitor = threading.Thread(target=visit)
    visitor.start()
    before = gc.get_threshold()
    gc.callbacks.append(collects)
    gc.set_threshold(1)
    try:
        tree = extraction.syntax_tree(f"{PLAIN}\n" * 50)
    finally:
        gc.callbacks.remove(collects)
        gc.set_threshold(*before)
        over.set()
        visitor.join()
    assert len(tree.body) == 50
    assert len(visits) == 20
