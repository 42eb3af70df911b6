"""Responses of models, each with a test that the function aux of the response has to pass.

Without a test it is EVEN.

A response's author may not bind `solve`, the partner's function. `PLAIN` is the function that most
of them write.
"""

PLAIN = "def aux(x):\n    return x % 2 == 0"
FENCED = 'def aux(x):\n    """So:\n    ```\n    aux(2)\n```\n    """\n    return x % 2 == 0'
EVEN = "assert aux(2) and not aux(3)"  # what PLAIN passes
RETURNS_2 = "assert aux(0) == 2"
RETURNS_T = "\ndef aux(x):\n    return T"
TRUE_LATER = "def aux(x):\n    return True\n"  # fails EVEN

TEXTS = {
    # the text around the code
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
        RETURNS_2,
    ),
    "elif, and a cut": (
        f"F = 0\nT = 1\nif F > 1:\n    T = 3\nelif F < 1:\n    T = 2{RETURNS_T}\nprint(aux(",
        RETURNS_2,
    ),
    "except and finally, and a cut": (
        f"T = 0\ntry:\n    T = 1 / 0\nexcept ZeroDivisionError:\n    T = 1\nfinally:\n"
        f"    T += 1{RETURNS_T}\nprint(aux(",
        RETURNS_2,
    ),
    "finally in prose": f"{PLAIN}\nfinally we return it\nelse it fails.",
    "stubs around it": (
        f"def aux(x):\n    pass\n\n{PLAIN}\n\n"
        'def aux(x: int) -> bool:\n    """Whether x is even."""'
    ),
    "two statements on a line": (
        "T = [1]; T.append(2)\ndef aux(x): return T",
        "assert aux(0) == [1, 2]",
    ),
    "a definition in an if": "if True:\n    def aux(x):\n        return x % 2 == 0",
    # names
    "the partner's function": f"{PLAIN}\n\ndef solve(xs):\n    return aux(xs)\n",
    "the partner's import": f"from partner import solve\n\n\n{PLAIN}",
    "an import of itself": f"{PLAIN}\n\nfrom my_module import aux\nprint(aux(2))\n",
    "annotations that nobody reads": (
        "from __future__ import annotations\ndef aux(x: X) -> Y:\n    return x\n",
        "assert aux(3) == 3",
    ),
    "a class": (
        "class aux:\n    def __init__(self, x):\n        self.x = x",
        "assert aux(3).x == 3",
    ),
    # what runs before and after it
    "what it needs": (
        "LIMIT = 3\nTABLE = {}\nTABLE.update(a=LIMIT)\n"
        "for i in range(2):\n    TABLE[i] = i\nclass Box:\n    size = LIMIT\n"
        "def inner(x):\n    return Box.size + x\n\ndef aux(x):\n    return inner(TABLE[x])\n",
        "assert aux('a') == 6 and aux(1) == 4",
    ),
    "an example": f"{PLAIN}\n\nresult = aux(3)\nprint(result)\nassert aux(3), 'odd'\n",
    "input for ever": f"{PLAIN}\nwhile True:\n    print(aux(input()))",
    "exit before it": f"import sys\nprint('usage')\nsys.exit()\n{PLAIN}",
}
CASES = {name: (case, EVEN) if isinstance(case, str) else case for name, case in TEXTS.items()}
