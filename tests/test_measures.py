"""Estimators and the table made of them: python -m pytest tests/test_measures.py

pass@k and accuracy@k against all subsets, standard errors and intervals against simulation.
"""

import itertools
import random
import statistics
import types

import pytest

from evaluation import measures
from training.metrics import mean_parts


@pytest.mark.parametrize("values", [[0, 0, 1], [1, 1, 1, 1], [0.2, 0.8, 0.8, 0.0, 1.0], [0.5]])
def test_best_of_k_is_the_mean_over_all_subsets(values):
    for k in range(1, len(values) + 1):
        subsets = itertools.combinations(values, k)
        brute = statistics.fmean(max(subset) for subset in subsets)
        assert measures.best_of_k(values, k) == pytest.approx(brute, abs=1e-12)


def data(rng: random.Random, problems: int = 40, samples: int = 5) -> list[list[float]]:
    """Problems differ (deviation 0.3), and so do the samples of one (0.5)."""
    means = [rng.gauss(0.5, 0.3) for _ in range(problems)]
    return [[rng.gauss(mean, 0.5) for _ in range(samples)] for mean in means]


def test_a_paired_comparison_sees_what_two_errors_do_not():
    rng, gaps, errors = random.Random(2), [], []
    for _ in range(1000):
        values = [statistics.fmean(row) for row in data(rng)]
        others = [value - 0.1 + rng.gauss(0, 0.05) for value in values]
        found = measures.paired(values, others)
        gaps.append(found["difference"])
        errors.append(found["difference_se"])
    assert statistics.fmean(gaps) == pytest.approx(0.1, abs=0.002)
    assert statistics.fmean(errors) == pytest.approx(statistics.stdev(gaps), rel=0.06)
    assert measures.mean_and_error([0.5]) == (0.5, None)


@pytest.mark.parametrize("seeds", [1, 3])
def test_an_interval_covers_the_truth(seeds):
    """Runs differ by seed, problems by difficulty, and the same problems meet every seed."""
    rng, covered, trials = random.Random(seeds), 0, 250
    spread = 0.05 if seeds > 1 else 0.0
    for _ in range(trials):
        difficulty = [rng.gauss(0, 0.3) for _ in range(50)]
        runs = []
        for _ in range(seeds):
            level = 0.7 + rng.gauss(0, spread)
            runs.append([level + hard + rng.gauss(0, 0.1) for hard in difficulty])
        mean, low, high = measures.interval(runs)
        assert low <= mean <= high
        covered += low <= 0.7 <= high
    assert 0.89 <= covered / trials <= 0.99


MAIN = {True: "def solve(x):\n    return 1 + aux(x)", False: "def solve(x):\n    return x"}
OWN = {"pass@k": "metric/pass", "accuracy@k": "tests", "coop_rate": "cooperation"}
SCHEME = {True: "decorator", False: "unused"}


def record(method, item, sample, passed, greedy=False, tokens=(3, 5)) -> dict:
    parts = {"tests": float(passed), "cooperation": 1.5 * passed, "metric/pass": float(passed)}
    texts = [f"def aux(x):\n    return {sample}", MAIN[passed]]
    turn = {"responses": texts, "tokens": list(tokens), "parts": parts}
    worth = 2.5 * passed / 4
    head = {"method": method, "greedy": greedy, "item": item, "sample": sample}
    return head | {"scheme": SCHEME[passed], "return": worth, "turns": [turn]}


def summary(records: list[dict], timing=None) -> dict:
    header = {"settings": {"title": "head", "timed": "foot"}, "timing": timing or {}}
    return measures.summarize(header | {"measures": OWN}, records)


def table() -> dict:
    records = [record("a", item, s, item == 0 or s == 0) for item in (0, 1) for s in range(4)]
    records += [record("a", item, 0, True, greedy=True) for item in (0, 1)]
    records += [record("b", item, s, False, tokens=(9, 1)) for item in (0, 1) for s in range(4)]
    return summary(records, {"a": {"seconds": [0.5, 1.5], "tokens": [10, 30]}})


@pytest.mark.parametrize("whole", [0, 3])
def test_a_part_that_a_response_lacks_is_0_as_in_training(whole):
    """One of four has the parts, in one of two problems."""
    records = [record("a", item, s, True) for item in (0, 1) for s in (0, 1)]
    parts = [played["turns"][0]["parts"] for played in records]
    for number in {0, 1, 2, 3} - {whole}:
        del parts[number]["tests"], parts[number]["metric/pass"]
    a = summary(records)["methods"]["a"]
    trained = mean_parts([types.SimpleNamespace(parts=parts)])
    for name in ("reward/tests", "metric/pass"):
        assert a[name] == trained[name] == 0.25
    assert a["pass@1"] == 0.25
    assert a["schemes"] == {"decorator": {"count": 4, "pass_rate": 0.25}}


def test_a_method_that_was_never_scored_is_left_out():
    """Its return, of nothing, would be 0, and win where others are paid less."""
    records = [record(name, 0, s, True) for name in ("naive", "trained") for s in (0, 1)]
    for played in records[:2]:
        played["turns"][0]["parts"] = {}
    found = summary(records)
    assert list(found["methods"]) == ["trained"]
    assert "vs" not in found["methods"]["trained"]
    assert "no method naive: the reward scores none of its turns" in found["settings"]["title"]
    with pytest.raises(ValueError, match="the reward scores no turn of any method"):
        summary(records[:2])


def test_the_table_has_every_measure():
    a, b = table()["methods"].values()
    assert a["return"] == pytest.approx((1 + 0.25) / 2 * 2.5 / 4)
    assert a["return_se"] == pytest.approx(2.5 / 4 * 0.75 / 2)
    assert a["greedy/return"] == 2.5 / 4
    assert a["pass@1"] == pytest.approx(0.625)
    assert a["pass@3"] == pytest.approx((1 + 0.75) / 2)
    assert "pass@5" not in a  # there are four samples
    assert a["accuracy@3"] == a["pass@3"]
    assert a["coop_rate"] == pytest.approx(0.625)
    assert a["reward/cooperation"] == pytest.approx(1.5 * 0.625)
    assert a["distinct"] == 1.0
    assert (a["length/0"], b["length/0"], b["tokens_per_problem"]) == (3, 9, 10)
    assert (a["latency_s"], a["latency_s_se"], a["tokens_per_s"]) == (1.0, 0.5, 20.0)
    assert a["latency_problems"] == 2
    assert "latency_s" not in b
    assert a["schemes"] == {
        "decorator": {"count": 5, "pass_rate": 1.0},
        "unused": {"count": 3, "pass_rate": 0.0},
    }
    assert b["vs"] == {
        "method": "a",
        "difference": pytest.approx(-a["return"]),
        "difference_se": pytest.approx(a["return_se"]),
        "win": 0,
        "tie": 0,
        "loss": 2,
    }
