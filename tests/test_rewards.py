"""Checks what `code` and `code_paper` pay for honest teams and for every hack we know, and that no
text and no thread can upset them.

    python -m pytest tests/test_rewards.py
"""

import math
from concurrent.futures import ThreadPoolExecutor

import pytest
from code_pairs import EVEN, GARBAGE, HACKS, SCHEMES, SQUARES, main

from coding import rewards

FILTER = main("return sum(x * x for x in xs if aux(x))")


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
        ("three tests of five", [0, 1, 0, 1, 0]),
        ("wrapper", [1, 1, 1, 1, 0]),
        ("wrapper by a loop", [1, 1, 1, 1, 0]),
        ("fallback for an error", [1, 1, 0, 0, 0]),
        ("always true", [1, 1, 0, 0, 0]),
        ("result dropped", [1, 1, 0, 0, 0]),
        ("result dropped in a try", [1, 1, 0, 0, 0]),
        ("after the return", [1, 0, 0, 0, 0]),
        ("aux( in a comment", [1, 0, 0, 0, 0]),
        ("all tests fail", [0, 0, 0, 0, 0]),
    ],
)
def test_metrics(scored, name, expected):
    assert metrics(scored[name][0]) == expected


@pytest.mark.parametrize("cut", ["def aux(x):\n    return (x", "```\ndef aux(x):\n    for y in x"])
def test_a_helper_cut_short_costs_syntax_and_tests(cut):
    alone = main("return sum(x * x for x in xs if x % 2 == 0)")
    assert total(rewards.code(SQUARES, [cut, alone])) == pytest.approx(0.6)
    assert total(rewards.code(SQUARES, ["", alone])) == pytest.approx(2.1)


def test_components():
    scores = rewards.code(SQUARES, [EVEN, FILTER])
    parts = [scores[key] for key in rewards.COMPONENTS]
    assert parts == pytest.approx([1.0, 0.5, 1.0, 1.5])
    assert total(scores) == rewards.code.maximum
    dropped = rewards.code(SQUARES, [EVEN.replace("return", "print"), main("return aux(xs[0])")])
    assert dropped["structure"] == pytest.approx(0.6)


@pytest.mark.parametrize("name", GARBAGE)
def test_garbage_scores_the_minimum(name):
    text = GARBAGE[name]
    for reward in (rewards.code, rewards.code_paper):
        if (name, reward) == ("nothing returned", rewards.code_paper):
            continue  # has the word return
        for team in ([text, ""], ["", text], [text], [text] * 3):
            scores = reward(SQUARES, team)
            assert set(scores.values()) == {0.0}
    assert not any(rewards.verdict(SQUARES, [text, text]).passed)


def test_a_helper_of_garbage_costs_main_no_test():
    alone = main("return sum(x * x for x in xs if x % 2 == 0)")
    for text in GARBAGE.values():
        scores = rewards.code(SQUARES, [text, alone])
        assert total(scores) in (0.6, 0.6 + 0.5 + 1.0)  # broken code in it, or none


def test_one_agent_writes_both():
    assert total(rewards.code(SQUARES, [EVEN + FILTER])) == 4.0
    assert total(rewards.code(SQUARES, [FILTER + EVEN])) == 4.0
    assert total(rewards.code(SQUARES, [FILTER])) == pytest.approx(0.6 + 0.5 + 0.2)
    assert total(rewards.code(SQUARES, [EVEN + FILTER + "def solve(xs):\n    return ("])) == 4.0
    assert total(rewards.code(SQUARES, [EVEN + FILTER[:-9]])) == pytest.approx(0.4)


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


def test_verdict_says_which_tests_passed():
    verdict = rewards.verdict(SQUARES, ["def aux(x):\n    return x.even", FILTER])
    assert verdict.passed == [False, True, False, False, False]
    assert verdict.errors[1] is None
    assert "AttributeError" in verdict.errors[0]


def test_same_scores_every_time_and_from_any_thread():
    team = ["def aux(x):\n    return x % 2 == 0 and x != 8\n", FILTER]
    expected = rewards.code(SQUARES, team)
    rewards.extract.cache_clear()
    with ThreadPoolExecutor(8) as threads:
        results = list(threads.map(lambda _: rewards.code(SQUARES, team), range(50)))
    assert all(list(scores.items()) == list(expected.items()) for scores in results)


def test_partners_share_the_programs_that_do_not_depend_on_them(monkeypatch):
    asked = []
    box = rewards.sandbox()

    class Spy:
        def run(self, programs):
            asked.extend(programs)
            return box.run(programs)

    monkeypatch.setattr(rewards, "sandbox", Spy)
    for helper in (EVEN, "def aux(x):\n    return not x % 2\n"):
        rewards.code(SQUARES, [helper, FILTER])
    assert len(asked) == 12  # a pair: the team, three stand-ins, frozen, first value
    assert len(set(asked)) == 9
    asked.clear()
    rewards.code(SQUARES, [EVEN, main("return 5")])
    rewards.code(SQUARES, [EVEN.replace("0", "1"), main("return 5")])
    assert len(asked) == 2
    assert len(set(asked)) == 1
