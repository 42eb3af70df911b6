"""Checks what `code` and `code_paper` pay for honest teams and for every hack we know, and that no
text and no thread can upset them.

    python -m pytest tests/test_rewards.py
"""

import contextlib
from concurrent.futures import ThreadPoolExecutor

import pytest
from code_pairs import EVEN, GARBAGE, HACKS, SCHEMES, SQUARES, TESTS, main, thrown
from code_pairs import FILTERED as FILTER
from helpers import total

import rewards
from programs import teams
from programs.sandbox.box import Sandbox

PAIRS = SCHEMES | HACKS


@pytest.fixture(scope="module")
def scored():
    """The scores of all pairs, by name, under both rewards; scored from several threads."""

    def score(pair):
        item, helper, main_function, *_ = pair
        team = [helper, main_function]
        return rewards.code(item, team), rewards.code_paper(item, team)

    with ThreadPoolExecutor(8) as threads:
        return dict(zip(PAIRS, threads.map(score, PAIRS.values()), strict=True))


@pytest.mark.parametrize("name", PAIRS)
def test_totals(scored, name):
    *_, strict, paper = PAIRS[name]
    totals = [total(scores) for scores in scored[name]]
    assert totals == pytest.approx([strict, paper])


METRICS = ("pass", "aux_called", "wrapper", "load_bearing", "coop")


def metrics(scores):
    return [scores[f"metric/{name}"] for name in METRICS]


MEASURED = {  # pass, aux_called, wrapper, load_bearing, coop
    "strategy filter": "11011",
    "three tests of five": "01000",
    "wrapper": "11110",
    "wrapper by a loop": "11110",
    "a box": "11110",
    "with its type": "11000",
    "fallback for an error": "11000",
    "after the return": "11000",
    "aux( in a comment": "10000",
}


@pytest.mark.parametrize("name", MEASURED)
def test_metrics(scored, name):
    assert metrics(scored[name][0]) == list(map(int, MEASURED[name]))


@pytest.mark.parametrize("name", GARBAGE)
def test_garbage_scores_the_minimum(name):
    text = GARBAGE[name]
    kinds = [rewards.code, rewards.code_paper]
    if name == "nothing returned":
        kinds = [rewards.code]  # the other one looks for the word return
    for reward in kinds:
        for team in ([text, ""], ["", text], [text], [text] * 3):
            assert set(reward(SQUARES, team).values()) == {0.0}
    assert not any(teams.verdict(SQUARES, [text, text]).passed)


def test_one_agent_writes_both():
    both = EVEN + FILTER
    cut = both + "def solve(xs):\n    return ("
    lost = 2 * thrown(both, cut)  # no partner shares in it
    for text, worth in (
        (both, 4.0),
        (FILTER + EVEN, 4.0),
        (FILTER, 0.6 + 0.5 + 0.2),
        (cut, 4.0 - lost),
        (both[:-9], 0.4),
    ):
        assert total(rewards.code(SQUARES, [text])) == pytest.approx(worth)
    square = "def square(x):\n    return x * x\n"
    all_three = EVEN + square + main("return sum(square(x) for x in xs if aux(x))")
    item = SQUARES | {"helpers": ["aux", "square"]}
    assert total(rewards.code(item, [all_three])) == 4.0


HONEST = {  # forms of a helper, all of them needed: each team earns 4.0
    "an alias": "def even(x):\n    return x % 2 == 0\naux = even\n",
    "a partial": "from functools import partial\n\ndef divides(d, x):\n    return x % d == 0\n\n"
    "aux = partial(divides, 2)\n",
    "an instance": "class Even:\n    def __call__(self, x):\n        return x % 2 == 0\n\n"
    "aux = Even()\n",
    "a class": "class aux:\n    def __init__(self, x):\n        self.x = x\n"
    "    def __bool__(self):\n        return self.x % 2 == 0\n",
    "a def in an if": f"if True:\n    {EVEN.replace(chr(10), chr(10) + '    ')}",
    "a filled table": "EVEN = {}\ndef fill():\n    EVEN.update({str(2 * x): 1 for x in range(5)})\n"
    "fill()\ndef aux(x):\n    return str(x)[-1] in EVEN\n",
    "a table": "EVEN = {'0', '2', '4', '6', '8'}\n\ndef aux(x):\n    return str(x)[-1] in EVEN\n",
    # what a function is made of costs nothing
    "in a fence": f"```python\n{EVEN}```",
    "with comments": EVEN.replace("return", '"""Is x even?"""\n    # divided by 2\n    return'),
}
HONEST_MAINS = {  # helper, main
    "a constant table": (
        "def aux():\n    return '02468'\n",
        "return sum(x * x for x in xs if str(x)[-1] in aux())",
    ),
    "a function comes back": (
        "def aux(d):\n    return lambda x: x % d == 0\n",
        "even = aux(2)\nreturn sum(x * x for x in xs if even(x))",
    ),
    "in place, without a value": (
        "def aux(xs):\n    xs[:] = [x for x in xs if x % 2 == 0]\n",
        "xs = list(xs)\naux(xs)\nreturn sum(x * x for x in xs)",
    ),
    "a fallback that does less well": (
        EVEN,
        "try:\n    return sum(x * x for x in xs if aux(x))\nexcept Exception:\n    return 0",
    ),
    "main prepares what the helper gets": (
        "def aux(digits):\n    return sum(int(d) ** 2 for d in digits.split())\n",
        "return aux(' '.join(str(x) for x in xs if x % 2 == 0))",
    ),
}


HONEST_TEAMS = {name: (helper, FILTER) for name, helper in HONEST.items()}
HONEST_TEAMS |= {name: (helper, main(body)) for name, (helper, body) in HONEST_MAINS.items()}
HONEST_TEAMS["a decorator of main"] = (
    "def aux(f):\n    return lambda xs: f([x for x in xs if x % 2 == 0])\n",
    "@aux\n" + main("return sum(x * x for x in xs)"),
)


LATER = "from __future__ import annotations\n"
HONEST_TEAMS["annotations that nobody reads"] = (
    LATER + EVEN,
    LATER + FILTER.replace("xs)", "xs: X)"),
)


@pytest.mark.parametrize("name", HONEST_TEAMS)
def test_a_helper_may_be_defined_in_any_way_and_give_anything(name):
    assert total(rewards.code(SQUARES, [*HONEST_TEAMS[name]])) == 4.0


def test_what_does_not_end_is_no_evidence(monkeypatch):
    search = main("n = 0\nwhile not aux(n):\n    n += 1\nreturn n")
    item = SQUARES | {"tests": ["assert solve([]) == 97"]}
    prime = "def aux(n):\n    return n > 96 and all(n % d for d in range(2, n))\n"
    outcomes = []

    def noted(*args, judged=teams.run, **options):
        verdict = judged(*args, **options)
        outcomes.append(verdict.outcome)
        return verdict

    with Sandbox(workers=2, test_timeout=0.3) as box:
        monkeypatch.setattr(teams, "box", box)
        assert total(rewards.code(item, [prime, search])) == 4.0
        team = [
            "def aux(n):\n    return 2 * (n > 96)\n",
            search.replace("not aux(n)", "aux(n) != 2"),
        ]
        monkeypatch.setattr(teams, "run", noted)
        found = teams.contributions(item, team, teams.team_parts(item, team), 1.0)
    assert found["aux"] == 1.0
    assert outcomes.count("timeout") == teams.MOST_HANGS


SLOPE = {  # helper, main: each passes some tests, of which a stand-in passes others
    "below 7": ("def aux(x):\n    return x % 2 == 0 and x < 7\n", FILTER),
    "main looks for it": (EVEN, main("return sum(x * x for x in xs if aux(x) and x < 11)")),
    "a list": (
        "def aux(xs):\n    return [x for x in xs if x % 2 == 0 and x < 7]\n",
        main("return sum(x * x for x in aux(xs))"),
    ),
    "the whole": (
        "def aux(xs):\n    return sum(x * x for x in xs if x % 2 == 0 and x < 7)\n",
        main("return aux(xs)"),
    ),
    "trivial": (
        "def aux(xs):\n    return [xs]\n",
        main("return sum(x * x for x in aux(xs)[0] if x % 2 == 0 and x < 11)"),
    ),
}


def passed_by(*sources: str) -> float:
    """The share of the tests of SQUARES, without any sandbox."""
    passed = 0
    for test in TESTS:
        call, _, answer = test.removeprefix("assert ").partition(" == ")
        space = {}
        with contextlib.suppress(Exception):
            exec("".join(sources), space)
            value = eval(call, space)
            passed += type(value) is int and value == int(answer)
    return passed / len(TESTS)


@pytest.mark.parametrize("name", SLOPE)
def test_the_slope_against_stand_ins_run_by_hand(name):
    helper, main_function = SLOPE[name]
    p = passed_by(helper, main_function)
    q_helper = max(passed_by(part.source, main_function) for part in teams.helper_stand_ins("aux"))
    mains = teams.main_stand_ins("solve", "aux", "aux(*args)")
    q_main = max(passed_by(helper, part.source) for part in mains)
    c = max(0, min((p - q_helper) / (1 - q_helper), (p - q_main) / (1 - q_main)))
    scores = rewards.code(SQUARES, [helper, main_function])
    assert scores["tests"] == p < 1
    assert scores["cooperation"] == pytest.approx(1 - (1 - p) * (1 - c) - p)
    assert (c > 0) == (name not in ("the whole", "trivial"))
    assert metrics(scores) == [0, 1, 0, 0, 0]


def test_a_partners_own_version_is_a_stand_in_as_far_as_it_goes():
    """main's own aux, which is dropped, passes 3 of 5 tests, and the helper's 4: c is 1/2."""
    own, better = (EVEN.replace("== 0", f"== 0 and x < {n}") for n in (7, 11))
    for solve, without in ((own + FILTER, 0.6), (FILTER, 0.2)):
        scores = rewards.code(SQUARES, [better, solve])
        assert scores["tests"] == 0.8
        assert scores["cooperation"] == pytest.approx(0.2 * (0.8 - without) / (1 - without))
    both = main("return sum(aux2(x) for x in xs if aux(x))")  # one of three has written two parts
    square = "def aux2(x):\n    return x * x\n"
    shared = rewards.code(SQUARES, [EVEN + square, square, both])
    assert shared["cooperation"] == pytest.approx(1.5 / 2)


THROWN_AWAY = {
    "prose before": ("Here is the helper:\n", ""),
    "prose after": ("", "\nIt tells even numbers."),
    "an example": ("", "print(aux(2))\n"),
    "a second function": ("", "def odd(x):\n    return not aux(x)\n"),
    "a comment outside": ("# even numbers\n", ""),
    "a cut function": ("", "def odd(x):\n    return not aux("),
}


@pytest.mark.parametrize("name", THROWN_AWAY)
def test_text_that_is_thrown_away_costs_by_its_length(name):
    before, after = THROWN_AWAY[name]
    for text in (before + EVEN + after, before + before + EVEN + after + after):
        scores = rewards.code(SQUARES, [text, FILTER])
        lost = thrown(EVEN, text)
        assert lost > 0
        assert scores["syntax"] == pytest.approx(0.5 - lost)
        assert total(scores) == pytest.approx(4.0 - lost)
    assert total(rewards.code_paper(SQUARES, [text, FILTER])) == 3.0


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
    item = SQUARES | {"tests": TESTS[:1]}  # it fails by itself from the second test on
    scores = rewards.code(item, ["def aux(x):\n    return [x]\n", spoiler])
    assert (scores["tests"], scores["cooperation"]) == (1, 0)
    after = rewards.code(SQUARES | {"task_id": "next"}, [f"{EVEN} # {name}", FILTER])
    assert after["cooperation"] == 1.5


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
        assert total(rewards.code(SQUARES, [aux, aux2, main(body)])) == 4.0
    one = rewards.code(SQUARES, [EVEN, square, FILTER])
    assert total(one) == pytest.approx(1.0 + 0.5 + 1.0 + 1.5 / 2)
    assert metrics(one) == [1, 0.5, 0, 0.5, 0]
    missing = rewards.code(SQUARES, [EVEN, "", FILTER])
    assert missing["structure"] == pytest.approx(0.4 / 2 + 0.6)


def test_no_tests_and_setup():
    assert total(rewards.code(SQUARES | {"tests": []}, [EVEN, FILTER])) == 1.5
    item = SQUARES | {"setup": "import math\ndef even(x):\n    return math.fmod(x, 2) == 0\n"}
    assert total(rewards.code(item, ["def aux(x):\n    return even(x)", FILTER])) == 4.0
