"""Checks which program a response becomes: tests/data/extraction_cases.py has responses with a test
that the function of each has to pass.

python -m pytest tests/test_extraction.py
"""

import gc
import textwrap
import threading
import time

import pytest
from extraction_cases import CASES, PLAIN

from programs import extraction, teams
from programs.extraction import characters, extract, share_of

SOLVE = frozenset({"solve"})


@pytest.mark.parametrize("name", CASES)
def test_the_program_that_the_model_wrote_is_the_one_that_runs(name):
    text, test = CASES[name]
    part = extract(text, "aux", SOLVE)
    verdict = teams.run({"tests": [test]}, {"aux": part})
    assert verdict.errors == [None]
    assert part.returns
    assert not part.broken


def test_a_partner_s_function_is_out_of_reach():
    text = "from math import sqrt as solve\nimport solve\nsolve = aux = 1\n" + PLAIN
    text += "\nclass solve: pass\nmatch 1:\n    case solve: pass\nfor solve in [1]: pass"
    assert extract(text, "aux", SOLVE).statements == (PLAIN,)


KEPT = [  # what a function needs, and what shows it
    (f"from partner import solve\n{PLAIN}", []),
    ("import os\nfrom functools import cache\n@cache\ndef aux(x):\n    return x", ["import os"]),
    ("T = {}\nT.update(a=3)\ndef aux(x):\n    return T[x]", []),
    ("T = []\ndef put(x):\n    T.append(x)\nput(1)\ndef aux(x):\n    return T", []),
    (f"{PLAIN}\nresult = aux(3)\nprint(result)\nassert aux(2)", ["result", "print", "assert"]),
    (f"{PLAIN}\ndef odd(x):\n    return not aux(x)", ["def odd"]),
    ("def half(x):\n    return x // 2\ndef aux(x):\n    return half(x)\nprint(half(2))", ["print"]),
    (f"{PLAIN}\ndef main():\n    print(aux(2))\nmain()", ["def main", "main()"]),
    (f"{PLAIN}\nwhile True:\n    print(aux(input()))", ["while"]),
]


@pytest.mark.parametrize("text, thrown", KEPT)
def test_text_that_only_shows_the_function_counts_as_thrown_away(text, thrown):
    part = extract(text, "aux", SOLVE)
    statements, _ = extraction.top_level(text)
    for index, statement in enumerate(statements):
        shows = statement.lines.startswith(tuple(thrown))
        assert (index not in part.kept) == shows, statement.lines
    kept = sum(characters(statements[index].lines) for index in part.kept)
    assert share_of(text, part.kept) == kept / characters(text)


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


@pytest.mark.parametrize("line", ["@a", "f(x,", "a b c"])
def test_a_line_that_a_model_repeats_is_parsed_a_few_times(line, monkeypatch):
    """Times grow with the lines, not with their square or cube. A function before it is found."""
    parsed = []
    parse = extraction.syntax_tree
    monkeypatch.setattr(extraction, "syntax_tree", lambda text: parsed.append(1) or parse(text))
    part = extract(f"{PLAIN}\n" + f"{line}\n" * 300, "aux", SOLVE)
    assert len(parsed) < 900
    assert part.returns


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


LONG = {  # what takes quadratic time, if it can
    "a chain": "\n".join(f"a{i} = a{i + 1}" for i in range(2000)),
    "a line": "T = 1\n" + "T = T; " * 4000,
    "prompts": ">>> aux(2)\n" * 3000,
    "headers": "def aux(x:\n" * 3000,
    "quotes": "'\"`" * 10_000,
    "fences": "```\n" * 8000,
}


@pytest.mark.parametrize("name", LONG)
def test_any_text_gets_an_answer_in_bounded_time(name):
    text = f"def aux(x):\n    return a0, T\n{LONG[name]}"
    start = time.process_time()
    part = extract(text, "aux", SOLVE)
    assert 0 <= share_of(text, part.kept) <= 1
    assert time.process_time() - start < 10


def test_two_threads_may_parse_at_once():
    """The second one comes in whenever Python collects garbage in the first one."""
    main = threading.current_thread()
    visitors = []

    def collects(*_):
        if threading.current_thread() is main and len(visitors) < 60:
            visitor = threading.Thread(target=extraction.syntax_tree, args=["x = (1 + 2) * 3"])
            visitors.append(visitor)
            visitor.start()
            visitor.join(0.02)

    before = gc.get_threshold()
    gc.callbacks.append(collects)
    gc.set_threshold(1)
    try:
        tree = extraction.syntax_tree(f"{PLAIN}\n" * 50)
    finally:
        gc.callbacks.remove(collects)
        gc.set_threshold(*before)
    assert len(tree.body) == 50
    assert len(visitors) == 60
