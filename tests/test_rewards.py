"""Checks what `code` and `code_paper` pay for honest teams and for every hack we know, and that no
text and no thread can upset them.

    python -m pytest tests/test_rewards.py
"""

import contextlib
import itertools
import math
from concurrent.futures import ThreadPoolExecutor

import pytest
from code_pairs import EVEN, GARBAGE, HACKS, SCHEMES, SQUARES, TESTS, main, thrown
from code_pairs import FILTERED as FILTER

import rewards
from programs import teams
from programs.sandbox.box import Sandbox


def total(scores):
    return sum(value for key, value in scores.items() if "/" not in key)


@pytest.fixture(scope="module")
def scored():
    """The scores of all pairs, by name, under both rewards; scored from several threads."""
    pairs = SCHEMES | HACKS

    def score(name):
        item, helper, main_function, *_ = pairs[name]
        team = [helper, main_function]
        return name, (rewards.code(item, team), rewards.code_paper(item, team))

    with ThreadPoolExecutor(8) as threads:
        return dict(threads.map(score, pairs))


@pytest.mark.parametrize("name", SCHEMES | HACKS)
def test_totals(scored, name):
    *_, strict, paper = (SCHEMES | HACKS)[name]
    assert total(scored[name][0]) == pytest.approx(strict)
    assert total(scored[name][1]) == pytest.approx(paper)


def test_keys_and_ranges(scored):
    keys = {"structure", "syntax", "tests", "cooperation"}
    keys |= {f"metric/{m}" for m in ("pass", "aux_called", "wrapper", "load_bearing", "coop")}
    for name, both in scored.items():
        for scores in both:
            assert set(scores) == keys, name
            assert all(math.isfinite(value) for value in scores.values()), name
            assert 0 <= total(scores) <= rewards.code.maximum == rewards.code_paper.maximum
            assert all(0 <= scores[key] <= 1 for key in keys if "/" in key), name


def metrics(scores):
    names = ("pass", "aux_called", "wrapper", "load_bearing", "coop")
    return [scores[f"metric/{name}"] for name in names]


@pytest.mark.parametrize(
    ("name", "expected"),  # pass, aux_called, wrapper, load_bearing, coop
    [
        ("strategy filter", [1, 1, 0, 1, 1]),
        ("three tests of five", [0, 1, 0, 0, 0]),
        ("wrapper", [1, 1, 1, 1, 0]),
        ("wrapper by a loop", [1, 1, 1, 1, 0]),
        ("fallback for an error", [1, 1, 0, 0, 0]),
        ("always true", [1, 1, 0, 0, 0]),
        ("result dropped", [1, 1, 0, 0, 0]),
        ("after the return", [1, 1, 0, 0, 0]),
        ("aux( in a comment", [1, 0, 0, 0, 0]),
        ("all tests fail", [0, 1, 0, 0, 0]),
    ],
)
def test_metrics(scored, name, expected):
    assert metrics(scored[name][0]) == expected


@pytest.mark.parametrize("cut", ["def aux(x):\n    return (x", "```\ndef aux(x):\n    for y in x"])
def test_a_helper_cut_short_costs_syntax_and_tests(cut):
    alone = main("return sum(x * x for x in xs if x % 2 == 0)")
    assert total(rewards.code(SQUARES, [cut, alone])) == pytest.approx(0.6)
    assert total(rewards.code(SQUARES, ["", alone])) == pytest.approx(2.1)


@pytest.mark.parametrize("name", GARBAGE)
def test_garbage_scores_the_minimum(name):
    text = GARBAGE[name]
    for reward in (rewards.code, rewards.code_paper):
        if (name, reward) == ("nothing returned", rewards.code_paper):
            continue  # has the word return
        for team in ([text, ""], ["", text], [text], [text] * 3):
            scores = reward(SQUARES, team)
            assert set(scores.values()) == {0.0}
    assert not any(teams.verdict(SQUARES, [text, text]).passed)


def test_one_agent_writes_both():
    assert total(rewards.code(SQUARES, [EVEN + FILTER])) == 4.0
    assert total(rewards.code(SQUARES, [FILTER + EVEN])) == 4.0
    assert total(rewards.code(SQUARES, [FILTER])) == pytest.approx(0.6 + 0.5 + 0.2)
    cut = EVEN + FILTER + "def solve(xs):\n    return ("
    lost = 2 * thrown(EVEN + FILTER, cut)  # no partner shares in it
    assert total(rewards.code(SQUARES, [cut])) == pytest.approx(4.0 - lost)
    assert total(rewards.code(SQUARES, [EVEN + FILTER[:-9]])) == pytest.approx(0.4)


HONEST = {  # forms of a helper, all of them needed: each team earns 4.0
    "an alias": "def even(x):\n    return x % 2 == 0\naux = even\n",
    "a partial": "from functools import partial\n\ndef divides(d, x):\n    return x % d == 0\n\n"
    "aux = partial(divides, 2)\n",
    "an instance": "class Even:\n    def __call__(self, x):\n        return x % 2 == 0\n\n"
    "aux = Even()\n",
    "a class": "class aux:\n    def __init__(self, x):\n        self.x = x\n"
    "    def __bool__(self):\n        return self.x % 2 == 0\n",
    "a def in an if": f"if True:\n    {EVEN.replace(chr(10), chr(10) + '    ')}",
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


@pytest.mark.parametrize("name", HONEST_TEAMS)
def test_a_helper_may_be_defined_in_any_way_and_give_anything(name):
    assert total(rewards.code(SQUARES, [*HONEST_TEAMS[name]])) == 4.0


def test_an_idle_decorator_of_main_earns_nothing():
    idle = "def aux(f):\n    return lambda *xs: f(*xs)\n"
    whole = "@aux\n" + main("return sum(x * x for x in xs if x % 2 == 0)")
    assert total(rewards.code(SQUARES, [idle, whole])) == 2.5


# Helpers that know nothing of the problem: what they return, what main does with it in place of xs.
TRIVIAL = {
    "with its type": ("(type(x).__name__, x)", "_, p = aux(xs)"),
    "a function of nothing": ("lambda: x", "p = aux(xs)()"),
    "backwards twice": ("x[::-1]", "p = aux(aux(xs))"),
    "its length, checked": ("len(x)", "p = xs if aux(xs) == len(xs) else None"),
    "one, or not at all": ("1", "p = xs * aux(xs)"),
    "a value nobody reads": ("(x, 'note')", "p, note = aux(xs)"),
}


@pytest.mark.parametrize("name", TRIVIAL)
def test_a_helper_that_fits_every_problem_earns_nothing(name):
    value, body = TRIVIAL[name]
    alone = main(f"{body}\nreturn sum(x * x for x in p if x % 2 == 0)")
    scores = rewards.code(SQUARES, [f"def aux(x):\n    return {value}\n", alone])
    assert (scores["tests"], scores["cooperation"], scores["metric/load_bearing"]) == (1, 0, 0)


# Helpers that do it all: what they return, given the answer y, and what main returns.
WHOLE_AND = {
    "a box": ("[y]", "aux(xs)[0]"),
    "as text": ("str(y)", "int(aux(xs))"),
    "under a key": ("{'n': len(xs), 'result': y}", "aux(xs)['result']"),
    "an error and the answer": ("(None, y)", "aux(xs)[1]"),
    "a first call for nothing": ("y", "aux([]) + aux(xs)"),
    "the larger of two": ("y", "max(aux([]), aux(xs))"),
}


@pytest.mark.parametrize("name", WHOLE_AND)
def test_a_main_that_unwraps_earns_nothing(name):
    value, body = WHOLE_AND[name]
    text = f"def aux(xs):\n    y = sum(x * x for x in xs if x % 2 == 0)\n    return {value}\n"
    scores = rewards.code(SQUARES, [text, main(f"return {body}")])
    assert (scores["tests"], scores["cooperation"], scores["metric/wrapper"]) == (1, 0, 1)


def test_what_does_not_end_is_no_evidence(monkeypatch):
    search = main("n = 0\nwhile not aux(n):\n    n += 1\nreturn n")
    item = SQUARES | {"tests": ["assert solve([]) == 97"]}
    prime = "def aux(n):\n    return n > 96 and all(n % d for d in range(2, n))\n"
    with Sandbox(workers=2, test_timeout=0.3) as box:
        monkeypatch.setattr(teams, "box", box)
        assert total(rewards.code(item, [prime, search])) == 4.0
        hangs = search.replace("not aux(n)", "aux(n) != 2")
        twice = "def aux(n):\n    return 2 * (n > 96)\n"
        team = teams.team_parts(item, [twice, hangs])
        verdicts = []
        judged = teams.run
        noted = lambda *a, **k: verdicts.append(judged(*a, **k)) or verdicts[-1]  # noqa: E731
        monkeypatch.setattr(teams, "run", noted)
        assert teams.contributions(item, [twice, hangs], team, 1.0)["aux"] == 1.0
    assert [verdict.outcome for verdict in verdicts].count("timeout") == teams.MOST_HANGS


SLOPE = {  # helper, main: each passes some tests, of which a stand-in passes others
    "below 7": ("def aux(x):\n    return x % 2 == 0 and x < 7\n", FILTER),
    "below 11": ("def aux(x):\n    return x % 2 == 0 and x < 11\n", FILTER),
    "no negative": ("def aux(x):\n    return x % 2 == 0 and x > 0\n", FILTER),
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
        space = {}
        with contextlib.suppress(Exception):
            exec("".join(sources), space)
            answer = eval(test.removeprefix("assert ").partition(" == ")[0], space)
            passed += type(answer) is int and answer == eval(test.partition(" == ")[2])
    return passed / len(TESTS)


@pytest.mark.parametrize("name", SLOPE)
def test_the_slope_against_stand_ins_run_by_hand(name):
    helper, main_function = SLOPE[name]
    p = passed_by(helper, main_function)
    q_helper = max(passed_by(part.source, main_function) for part in teams.helper_stand_ins("aux"))
    mains = teams.main_stand_ins("solve", "aux")
    q_main = max(passed_by(helper, part.source) for part in mains)
    c = max(0, min((p - q_helper) / (1 - q_helper), (p - q_main) / (1 - q_main)))
    scores = rewards.code(SQUARES, [helper, main_function])
    assert scores["tests"] == p < 1
    assert scores["cooperation"] == pytest.approx(1 - (1 - p) * (1 - c) - p)
    assert (c > 0) == (name not in ("the whole", "trivial"))
    assert metrics(scores) == [0, 1, 0, 0, 0]


def test_the_order_of_answers_for_any_number_of_tests():
    """p of n tests with the parts' contribution c: more than p alone, less than all alone."""
    for n in range(1, 21):
        for passed, without in itertools.product(range(1, n + 1), range(n + 1)):
            p, q = passed / n, without / n
            c = teams.contribution(p, q)
            earned = p + rewards.cooperation(p, c)
            assert (c > 0) == (q < p)
            assert 0 <= c <= 1
            assert p <= earned <= 2.5
            assert (earned > p) == (c > 0)
            assert (earned < 1.0) == (p < 1)  # 1.0 is what a right answer alone earns
            if q < p < 1:
                assert earned == pytest.approx(1 - (1 - p) * (1 - c))
                more = teams.contribution(p + 1 / n, q)
                assert p + 1 / n + rewards.cooperation(p + 1 / n, more) > earned
            if q and q <= p:
                less = teams.contribution(p, q - 1 / n)
                assert rewards.cooperation(p, less) >= rewards.cooperation(p, c)
        assert rewards.cooperation(1.0, teams.contribution(1.0, 0.5)) == 1.5


def test_a_partners_own_version_is_a_stand_in_as_far_as_it_goes():
    """main's own aux, which is dropped, passes 3 of 5 tests, and the helper's 4: c is 1/2."""
    own, better = (EVEN.replace("== 0", f"== 0 and x < {n}") for n in (7, 11))
    scores = rewards.code(SQUARES, [better, own + FILTER])
    assert scores["tests"] == 0.8
    assert scores["cooperation"] == pytest.approx(0.2 * (0.8 - 0.6) / (1 - 0.6))
    alone = rewards.code(SQUARES, [better, FILTER])
    assert alone["cooperation"] == pytest.approx(0.2 * (0.8 - 0.2) / (1 - 0.2))
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
    text = before + EVEN + after
    scores = rewards.code(SQUARES, [text, FILTER])
    lost = thrown(EVEN, text)
    assert scores["syntax"] == pytest.approx(0.5 - lost)
    assert lost > 0
    assert total(scores) == pytest.approx(4.0 - lost)
    assert rewards.code(SQUARES, [before + text + after, FILTER])["syntax"] < scores["syntax"]
    assert total(rewards.code_paper(SQUARES, [text, FILTER])) == 3.0


SMALL = {  # helpers of one short line that are a part of the work: test, helper, main
    "backwards": (
        "assert solve('ab cde') == 'ba edc'",
        "w):\n    return w[::-1]",
        "return ' '.join(map(aux, xs.split()))",
    ),
    "which is larger": (
        "assert solve([3, 1, 2]) == 2\nassert solve([1, 2]) == 0",
        "a, b):\n    return a > b",
        "n = len(xs)\nreturn sum(aux(xs[i], x) for j, x in enumerate(xs) for i in range(j))",
    ),
    "a line of a table": (
        "assert solve([[1, 2], [3]]) == '1,2;3'",
        "row):\n    return ','.join(map(str, row))",
        "return ';'.join(map(aux, xs))",
    ),
}


@pytest.mark.parametrize("name", SMALL)
def test_a_small_part_of_the_work_is_work(name):
    tests, helper, body = SMALL[name]
    item = SQUARES | {"tests": [tests]}
    assert total(rewards.code(item, [f"def aux({helper}\n", main(body)])) == 4.0


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
    both = main("return sum(aux2(x) for x in xs if aux(x))")
    assert total(rewards.code(SQUARES, [EVEN, square, both])) == 4.0
    one = rewards.code(SQUARES, [EVEN, square, FILTER])
    assert total(one) == pytest.approx(1.0 + 0.5 + 1.0 + 1.5 / 2)
    assert metrics(one) == [1, 0.5, 0, 0.5, 0]
    missing = rewards.code(SQUARES, [EVEN, "", FILTER])
    assert missing["structure"] == pytest.approx(0.4 / 2 + 0.6)
    chain = [
        "def aux(xs):\n    return [x for x in xs if x % 2 == 0]\n",
        "",
        main("return aux2(aux(xs))"),
    ]
    chain[1] = "def aux2(xs):\n    return sum(x * x for x in xs)\n"
    assert total(rewards.code(SQUARES, chain)) == 4.0
    inner = ["def aux(x):\n    return x % 2 == 0\n", "", main("return sum(map(aux2, xs))")]
    inner[1] = "def aux2(x):\n    return x * x if aux(x) else 0\n"
    assert total(rewards.code(SQUARES, inner)) == 4.0


def test_no_tests_and_setup():
    assert total(rewards.code(SQUARES | {"tests": []}, [EVEN, FILTER])) == 1.5
    item = SQUARES | {"setup": "import math\ndef even(x):\n    return math.fmod(x, 2) == 0\n"}
    assert total(rewards.code(item, ["def aux(x):\n    return even(x)", FILTER])) == 4.0
