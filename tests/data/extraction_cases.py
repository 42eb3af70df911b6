"""Responses of models, each with a test that the function aux of the response has to pass.

Without a test it is EVEN.

A response's author may not bind `solve`, the partner's function. `PLAIN` is the function that most
of them write.
"""

PLAIN = "def aux(x):\n    return x % 2 == 0"
FENCED = 'def aux(x):\n    """So:\n    ```\n    aux(2)\n```\n    """\n    return x % 2 == 0'
EVEN = "assert aux(2) and not aux(3)"  # what PLAIN passes
FILLED = "assert aux(0) == "  # what aux returns of the data that the text fills
RETURNS_T = "\ndef aux(x):\n    return T"
TRUE_LATER = "def aux(x):\n    return True\n"  # fails EVEN

TEXTS = {
    # the text around the code
    "plain": PLAIN,
    "indented": "    def aux(x):\n        return x % 2 == 0\n",
    "fence": f"Sure! Here's the helper:\n\n```python\n{PLAIN}\n```\nIt's (very) short.",
    "fence not closed": f"```py\n{PLAIN}\n",
    "fence not opened": f"{PLAIN}\n```\nIt's short.",
    "tilde fence": f"So:\n~~~python\n{PLAIN}\n~~~\nDone.",
    "two fences": f"```\n{TRUE_LATER}```\nor better\n```\n{PLAIN}\n```",
    "carriage returns": f"```python\r\n{PLAIN}\r\n```".replace("\n    ", "\r\n    "),
    "prose": f"Now\n{PLAIN}\nok?",
    "a fence in a docstring": f"It's:\n```python\n{FENCED}\n```\nBob's",
    "a docstring at the margin": (
        'Now\ndef aux(x):\n    """Even?\nFor example:\n>>> aux(2)\n"""\n    return x % 2 == 0\nok?'
    ),
    "a header in lines": (
        "So\ndef aux(\n    x: list[int],\n    k: int = (1),\n) -> list[int]:\n    return [\nx]\nok",
        "assert aux(3) == [3]",
    ),
    "a binding in prose": f"sum = 6\n```python\n{PLAIN.replace('x %', 'sum([x]) %')}\n```",
    "a binding in an output": (
        f"```python\n{PLAIN.replace('x %', 'sum([x]) %')}\n```\nOutput:\n```\nsum = 6\n```"
    ),
    "a function in a text fence": f"```python\n{PLAIN}\n```\n```text\n{TRUE_LATER}```",
    "a bash fence": f"```python\n{PLAIN}\n```\n```bash\naux = 3\n```",
    "two Python fences": (
        "First\n```python\nimport math\n```\nthen\n```python\ndef aux(x):\n"
        "    return math.floor(x)\n```",
        "assert aux(2.5) == 2",
    ),
    "a bare fence": f"```\n{PLAIN}\n```\naux = 3",
    "a long text": f"{PLAIN}\n# {'x' * 20_001}",
    "a long fence": f"```python\n{PLAIN}\n```\n{'word ' * 4_001}",
    "a fence closed on the last line": f"```python\n{PLAIN}```\nIt's short.",
    "a block quote": "> ```python\n> " + PLAIN.replace("\n", "\n> ") + "\n> ```",
    "a quote without a fence": "Bob wrote\n> " + PLAIN.replace("\n", "\n> "),
    "prompts": ">>> " + PLAIN.replace("\n", "\n... ") + "\n...\n>>> aux(2)\nTrue",
    "a one-line tag": "<answer>def aux(x): return x % 2 == 0</answer>",
    "a tag": f"<answer>\n{PLAIN}\n</answer>",
    "no-break spaces": PLAIN.replace(" ", "\u00a0"),
    "zero-width spaces": "\u200b" + PLAIN.replace("return", "return\u200b"),
    "a byte-order mark": "\ufeff" + PLAIN,
    # what is cut off, and statements of several parts
    "truncated after": f"{PLAIN}\n\ndef test_aux():\n    assert aux(",
    "truncated rewrite": f"{PLAIN}\n\ndef aux(x):\n    return [x for",
    "else, and a cut": (
        f"F = 0\nif F:\n    T = 1\nelse:\n    T = 2{RETURNS_T}\nprint(aux(",
        f"{FILLED}2",
    ),
    "elif, and a cut": (
        f"F = 0\nT = 1\nif F > 1:\n    T = 3\nelif F < 1:\n    T = 2{RETURNS_T}\nprint(aux(",
        f"{FILLED}2",
    ),
    "except and finally, and a cut": (
        f"T = 0\ntry:\n    T = 1 / 0\nexcept ZeroDivisionError:\n    T = 1\nfinally:\n"
        f"    T += 1{RETURNS_T}\nprint(aux(",
        f"{FILLED}2",
    ),
    "finally in prose": f"{PLAIN}\nfinally we return it\nelse it fails.",
    "a stub after it": f'{PLAIN}\n\ndef aux(x: int) -> bool:\n    """Whether x is even."""',
    "a stub with an ellipsis": f"{PLAIN}\n\ndef aux(x):\n    ...",
    "a stub before it": f"def aux(x):\n    pass\n\n{PLAIN}",
    "two statements on a line": (
        "T = [1]; T.append(2)\ndef aux(x): return T",
        f"{FILLED}[1, 2]",
    ),
    "a definition in an if": "if True:\n    def aux(x):\n        return x % 2 == 0",
    # names
    "the partner's function": f"{PLAIN}\n\ndef solve(xs):\n    return aux(xs)\n",
    "the partner's import": f"from partner import solve\n\n\n{PLAIN}",
    "the partner's name": f"from math import sqrt as solve\nsolve = aux = 1\n{PLAIN}",
    "decorator, import": (
        "from functools import cache\nimport os\n@cache\ndef aux(x):\n    return x\n",
        "assert aux(3) == 3",
    ),
    "a local name": (
        "result = aux(1)\n\ndef aux(x):\n    result = x\n    return result\n",
        "assert aux(3) == 3",
    ),
    "star": (
        "from math import *\nfrom partner import *\ndef aux(x):\n    return floor(x)\n",
        "assert aux(2.5) == 2",
    ),
    "an import of itself": f"{PLAIN}\n\nfrom my_module import aux\nprint(aux(2))\n",
    "a package that is not there": f"import numpy as np\n{PLAIN}",
    "annotations that nobody reads": (
        "from __future__ import annotations\ndef aux(x: X) -> Y:\n    return x\n",
        "assert aux(3) == 3",
    ),
    "a capture of match": (
        f"match [1, 2]:\n    case [first, *T]:\n        pass{RETURNS_T}",
        f"{FILLED}[2]",
    ),
    "a walrus": (f"print(T := 5){RETURNS_T}", f"{FILLED}5"),
    "a class": (
        "class aux:\n    def __init__(self, x):\n        self.x = x",
        "assert aux(3).x == 3",
    ),
    "a partial": (
        "import functools\naux = functools.partial(int, base=2)",
        "assert aux('11') == 3",
    ),
    "an instance": (
        "class A:\n    def __call__(self, x):\n        return x\naux = A()",
        "assert aux(3) == 3",
    ),
    # what fills the data that aux reads
    "what it needs": (
        "LIMIT = 3\nOTHER = 4\nTABLE = {}\nTABLE.update(a=LIMIT)\n"
        "for i in range(2):\n    TABLE[i] = i\nclass Box:\n    size = LIMIT\n"
        "def unused():\n    return 1\n\n"
        "def inner(x):\n    return Box.size + x\n\ndef aux(x):\n    return inner(TABLE[x])\n",
        "assert aux('a') == 6 and aux(1) == 4",
    ),
    "a loop that fills": (
        "import sys\nP = []\nfor n in range(2, 9):\n    if n % 2:\n        P.append(n)\n"
        "for m in P:\n    sys.exit()\ndef aux(x):\n    return P[x] + (sys.maxsize > 0)\n",
        "assert aux(0) == 4",
    ),
    "recursion limit": (
        "import sys\nsys.setrecursionlimit(5000)\ndef aux(x):\n"
        "    return 0 if x == 0 else 1 + aux(x - 1)\nsys.exit()\n",
        "assert aux(2000) == 2000",
    ),
    "precision": (
        "import decimal\nfrom decimal import *\ngetcontext().prec = 3\n"
        "def aux(x):\n    return Decimal(1) / 3\nimport os\n",
        "assert str(aux(0)) == '0.333'",
    ),
    "precision of the module": (
        "import decimal\ndecimal.getcontext().prec = 3\nT = str(decimal.Decimal(1) / 3)"
        + RETURNS_T,
        f"{FILLED}'0.333'",
    ),
    "a function's argument": (
        f"def fill(t):\n    t[1] = 2\nT = {{}}\nfill(T){RETURNS_T}",
        f"{FILLED}{{1: 2}}",
    ),
    "an argument, and a value": (
        f"def fill(t):\n    t[1] = 2\n    return t\nT = {{}}\nok = fill(T){RETURNS_T}",
        f"{FILLED}{{1: 2}}",
    ),
    "a library function": (
        f"import heapq\nT = [3, 2, 1]\nheapq.heapify(T)\nheapq.heappop(T){RETURNS_T}",
        f"{FILLED}[2, 3]",
    ),
    "a function that aux calls": (
        "from heapq import heapify\nT = [3, 2, 1]\nheapify(T)\n"
        "def aux(x):\n    heapify([x])\n    return T",
        f"{FILLED}[1, 2, 3]",
    ),
    "setattr": (f"class T:\n    pass\nsetattr(T, 'size', 3)\nT = T.size{RETURNS_T}", f"{FILLED}3"),
    "global": (
        "def inner():\n    global T\n    T = 3\ndef init():\n    inner()\nT = 0\ninit()"
        + RETURNS_T,
        f"{FILLED}3",
    ),
    "without an argument": (
        f"def init(k):\n    T[k] = k\nT = {{}}\nfor k in range(2):\n    init(k){RETURNS_T}",
        f"{FILLED}{{0: 0, 1: 1}}",
    ),
    "a decorator": (
        "T = []\ndef put(f):\n    T.append(f(1))\n@put\ndef one(x):\n    return x" + RETURNS_T,
        f"{FILLED}[1]",
    ),
    "a part": (
        f"T = [[1], [2]]\nfor row in T:\n    row.append(0)\nlast = T[1]\nlast[0] = 5{RETURNS_T}",
        f"{FILLED}[[1, 0], [5, 0]]",
    ),
    "a tree": (
        "T = {}\ndef put(w):\n    t = T\n    for c in w:\n"
        f"        t = t.setdefault(c, {{}})\nput('ab'){RETURNS_T}",
        f"{FILLED}{{'a': {{'b': {{}}}}}}",
    ),
    "a comprehension": (
        f"T = []\n[T.append(x) for x in range(3)]{RETURNS_T}",
        f"{FILLED}[0, 1, 2]",
    ),
    "a value for nobody": (
        f"T = []\n_ = [T.append(x) for x in range(3)]{RETURNS_T}",
        f"{FILLED}[0, 1, 2]",
    ),
    "a value with a name": (
        f"T = []\ndone = [T.append(x) for x in range(3)]{RETURNS_T}",
        f"{FILLED}[0, 1, 2]",
    ),
    "deletion": (f"T = [1, 2]\ndel T[0]{RETURNS_T}", f"{FILLED}[2]"),
    "a new name": (
        f"from functools import partial\nT = []\nadd = partial(T.append)\nadd(1){RETURNS_T}",
        f"{FILLED}[1]",
    ),
    "a method": (
        "class A:\n    def put(self):\n        self.x = 1\na = A()\na.put()\nT = vars(a)"
        + RETURNS_T,
        f"{FILLED}{{'x': 1}}",
    ),
    "a counter": (
        "T = 0\ndef aux(x):\n    global T\n    T += x\n    return T",
        "assert aux(3) == 3",
    ),
    "a registered case": (
        "from functools import singledispatch\n@singledispatch\ndef aux(x):\n    return 0\n"
        "@aux.register\ndef _(x: str):\n    return 1",
        "assert aux('a') == 1 and aux(3) == 0",
    ),
    "a table of functions": (
        "class Ops(dict):\n    def add(self, f):\n        self[f.__name__] = f\n        return f\n"
        "OPS = Ops()\n@OPS.add\ndef double(x):\n    return 2 * x\n"
        "def aux(x):\n    return OPS['double'](x)",
        "assert aux(3) == 6",
    ),
    "a class body that fills": (
        f"T = {{}}\nclass Fill:\n    T['a'] = 1\n    for n in [0, 1]:\n        T[n] = n{RETURNS_T}",
        f"{FILLED}{{'a': 1, 0: 0, 1: 1}}",
    ),
    "names in texts": (f"T = [1]\nexec('T[0] = 2'){RETURNS_T}", f"{FILLED}[2]"),
    "globals": (f"globals()['T'] = 2{RETURNS_T}", f"{FILLED}2"),
    "a context manager": (
        "import contextlib\nT = []\nwith contextlib.suppress(KeyError):\n    T.append(1)\n    {}[1]"
        + RETURNS_T,
        f"{FILLED}[1]",
    ),
    "a subclass hook": (
        "T = []\nclass Base:\n    def __init_subclass__(cls):\n        T.append(cls.__name__)\n"
        f"class A(Base):\n    pass{RETURNS_T}",
        f"{FILLED}['A']",
    ),
    # what shows the function
    "an example": f"{PLAIN}\n\nresult = aux(3)\nprint(result)\nassert aux(2)\n",
    "a main guard": f"{PLAIN}\nif __name__ == '__main__':\n    x = 3\n    print(aux(x))\n",
    "input for ever": f"{PLAIN}\nwhile True:\n    print(aux(input()))",
    "a loop for ever": f"{PLAIN}\nn = 0\nwhile True:\n    n += aux(n)",
    "a loop for ever before it": f"while True:\n    pass\n{PLAIN}",
    "a main function": (
        f"{PLAIN}\ndef main():\n    out = []\n    out.append(aux(1))\n    print(out, T)\nmain()"
    ),
    "a check": f"{PLAIN}\ndef check(candidate):\n    assert candidate(1) == 2\ncheck(aux)",
    "a wrong assertion": f"{PLAIN}\nassert aux(3), 'odd'\nprint('passed')",
    "unittest": (
        f"{PLAIN}\nimport unittest\nclass Test(unittest.TestCase):\n    def test(self):\n"
        "        self.assertEqual(aux(1), 2)\nunittest.main()"
    ),
    "exit": f"{PLAIN}\nimport sys\nsys.exit()\nexit(1)",
    "exit before it": f"import sys\nprint('usage')\nsys.exit()\n{PLAIN}",
    "a partner that is not there": f"{PLAIN}\nprint(solve([1, 2]))\nT = solve([1])",
}
CASES = {name: (case, EVEN) if isinstance(case, str) else case for name, case in TEXTS.items()}
