"""Estimators and the table made of them: python -m pytest tests/test_measures.py

pass@k and accuracy@k against all subsets, standard errors against literals.
"""

import itertools
import math
import statistics

import pytest

from evaluation import measures, report


@pytest.mark.parametrize("values", [[0, 0, 1], [0.2, 0.8, 0.8, 0.0, 1.0], [0.5]])
def test_best_of_k_is_the_mean_over_all_subsets(values):
    for k in range(1, len(values) + 1):
        brute = statistics.fmean(map(max, itertools.combinations(values, k)))
        assert measures.best_of_k(values, k) == pytest.approx(brute, abs=1e-12)
    assert math.isnan(measures.best_of_k(values, len(values) + 1))


OWN = {"pass@k": "metric/pass", "accuracy@k": "tests", "coop_rate": "cooperation"}


def record(method, item, sample, passed, greedy=False, tokens=((3, 5),)):
    parts = dict.fromkeys(("tests", "metric/pass"), float(passed))
    turn = {"responses": [str(sample), "b"], "parts": parts | {"cooperation": 1.5 * passed}}
    return {
        "method": method,
        "greedy": greedy,
        "item": item,
        "scheme": "decorator" if passed else "unused",
        "return": 2.5 * passed / 4,
        "turns": [turn | {"tokens": list(numbers)} for numbers in tokens],
    }


def test_the_table_has_every_measure():
    a = [record("a", item, s, item == 0 or s == 0) for item in (0, 1) for s in range(4)]
    a += [record("a", item, 0, True, greedy=True) for item in (0, 1)]
    b = [record("b", i, s, False, tokens=[(9, 1)]) for i in (1, 0) for s in range(4)]
    a[0]["speed"] = {"latency_s": 0.5}
    a[4]["speed"] = {"latency_s": 1.5}  # of the other item
    a, b = measures.summarize({"a": a, "b": b}, OWN).values()
    expected = {
        "return": (1 + 0.25) / 2 * 2.5 / 4,
        "return_se": 2.5 / 4 * 0.75 / 2,
        "greedy/return": 2.5 / 4,
        "pass@1": 0.625,
        "pass@3": (1 + 0.75) / 2,
        "accuracy@3": (1 + 0.75) / 2,
        "coop_rate": 0.625,
        "reward/cooperation": 1.5 * 0.625,
        "distinct": 1.0,
        "length/0": 3,
        "tokens_per_problem": 8,
        "latency_s": 1.0,
        "latency_s_se": 0.5,
        "longest": 5,
    }
    assert {name: a[name] for name in expected} == pytest.approx(expected)
    assert "pass@5" not in a  # there are four samples
    assert b["length/0"] == 9
    assert "latency_s" not in b
    assert (a["scheme/decorator"], a["scheme/unused"]) == (5 / 8, 3 / 8)
    assert (b["scheme/decorator"], b["scheme/unused"]) == (0, 1)
    expected = (-a["return"], a["return_se"])  # paired by problem, not by place
    assert (b["difference"], b["difference_se"]) == pytest.approx(expected)


def test_a_part_that_a_response_or_a_method_lacks_is_0():
    records = [record("a", item, s, True) for item in (0, 1) for s in (0, 1)]
    for lacking in records[1:]:
        lacking["turns"][0]["parts"] = {"cooperation": 1.5}
    other = record("b", 0, 0, True)
    other["turns"][0]["parts"] = {"style": 1.0}
    rows = {"a": records[::-1], "b": [other]}
    a, b = measures.summarize(rows, OWN, ["fallback"]).values()
    names = ["reward/tests", "metric/pass", "pass@1", "reward/style", "scheme/fallback"]
    assert [a[name] for name in names] == [0.25, 0.25, 0.25, 0, 0]
    names = ["reward/tests", "pass@1", "coop_rate", "scheme/fallback"]
    assert [b[name] for name in names] == [0] * 4
    assert "return_se" not in {*a, *b}  # equal values, and a value alone, show no error


def test_what_single_agents_are_paid_is_shown_and_nothing_of_agents_who_are_not_there():
    """A method of one agent comes first: the others' columns are shown, too."""
    alone, team = record("single", 0, 0, True), record("trained", 0, 0, True)
    alone["turns"][0] |= {"parts": {"agent/0": 1.0}, "responses": ["x"]}
    team["turns"][0] |= {"parts": {"agent/0": -2.0, "agent/1": 2.0}, "responses": ["x", "y"]}
    table = measures.summarize({"single": [alone], "trained": [team]}, OWN)
    assert "agent/1/reward" not in table["single"]
    lines = report.render(table, OWN).splitlines()
    cells = [line.split() for line in lines[:3]]
    assert cells[0][2:4] == ["agent/0/reward", "agent/1/reward"]
    assert [row[2:4] for row in cells[1:]] == [["1.000", "-"], ["-2.000", "2.000"]]


def test_the_length_of_a_response_is_that_of_the_turns_at_which_its_agent_spoke():
    a = record("a", 0, 0, True, tokens=[(3, 0), (0, 5)])
    a = measures.summarize({"a": [a]}, OWN)["a"]
    assert (a["length/0"], a["length/1"], a["tokens_per_problem"], a["longest"]) == (3, 5, 8, 8)
