"""Estimators and the table made of them: python -m pytest tests/test_measures.py

pass@k and accuracy@k against all subsets, standard errors against literals.
"""

import itertools
import statistics

import pytest

from evaluation import measures
from training.metrics import mean_parts


@pytest.mark.parametrize("values", [[0, 0, 1], [0.2, 0.8, 0.8, 0.0, 1.0], [0.5]])
def test_best_of_k_is_the_mean_over_all_subsets(values):
    for k in range(1, len(values) + 1):
        subsets = itertools.combinations(values, k)
        brute = statistics.fmean(max(subset) for subset in subsets)
        assert measures.best_of_k(values, k) == pytest.approx(brute, abs=1e-12)


def test_a_paired_comparison_sees_what_two_errors_do_not():
    values = [0.1, 0.9, 0.5, 0.3]
    gaps = [0.1, 0.12, 0.08, 0.1]
    others = [value - gap for value, gap in zip(values, gaps, strict=True)]
    found = measures.paired(values, others)
    assert found["difference"] == pytest.approx(0.1)
    assert found["difference_se"] == pytest.approx(statistics.stdev(gaps) / 2)
    assert measures.mean_and_error([0.5]) == (0.5, None)


MAIN = {True: "def solve(x):\n    return 1 + aux(x)", False: "def solve(x):\n    return x"}
OWN = {"pass@k": "metric/pass", "accuracy@k": "tests", "coop_rate": "cooperation"}
SCHEME = {True: "decorator", False: "unused"}


def record(method, item, sample, passed, greedy=False, tokens=(3, 5)) -> dict:
    return {
        "method": method,
        "greedy": greedy,
        "item": item,
        "sample": sample,
        "scheme": SCHEME[passed],
        "return": 2.5 * passed / 4,
        "turns": [
            {
                "responses": [f"def aux(x):\n    return {sample}", MAIN[passed]],
                "tokens": list(tokens),
                "parts": dict.fromkeys(("tests", "metric/pass"), float(passed))
                | {"cooperation": 1.5 * passed},
            }
        ],
    }


def summary(records: list[dict], timing=None) -> dict:
    header = {"settings": {"title": "head", "timed": "foot"}, "timing": timing or {}}
    return measures.summarize(header | {"measures": OWN}, records)


def table() -> dict:
    records = [record("a", item, s, item == 0 or s == 0) for item in (0, 1) for s in range(4)]
    records += [record("a", item, 0, True, greedy=True) for item in (0, 1)]
    records += [record("b", item, s, False, tokens=(9, 1)) for item in (0, 1) for s in range(4)]
    return summary(records, {"a": {"seconds": [0.5, 1.5], "tokens": [10, 30]}})


def test_the_measures_of_seeds_are_means_over_runs_and_those_of_one_run_are_not():
    """The team passes 1, 2 and 4 of the 4 samples to a problem. The untrained play in run 0."""
    records = []
    for run, passed in enumerate((1, 2, 4)):
        for item in (0, 1):
            for sample in range(4):
                tokens = (15, 5) if run == 2 else (3, 5)
                line = record("trained", item, sample, sample < passed, tokens=tokens)
                if (run, item) == (1, 0):
                    line["turns"][0]["parts"]["bonus"] = 1.0
                records.append(line | {"run": run})
    records += [record("naive", item, 0, item == 0) | {"run": 0} for item in (0, 1)]
    header = {"settings": {"title": ""}, "timing": {}, "measures": OWN}
    trained, naive = measures.over_runs(header, records)["methods"].values()
    for name, by_run in {"pass@1": (1 / 4, 1 / 2, 1), "pass@3": (3 / 4, 1, 1)}.items():
        assert trained[name] == pytest.approx(statistics.fmean(by_run))
        assert trained[f"{name}_se"] == pytest.approx(statistics.stdev(by_run) / 3**0.5)
    assert "pass@5" not in trained  # a run has four samples
    assert trained["longest"] == pytest.approx(25 / 3)  # 5, 5 and 15 tokens
    assert trained["reward/bonus"] == pytest.approx(0.5 / 3)  # run 1 alone earned it
    assert trained["schemes"]["decorator"]["count"] == 14
    assert (naive["pass@1"], naive["pass@1_se"]) == (0.5, 0.5)  # over problems
    gaps = [2.5 / 4 * (0.5 - share) for share in (1 / 4, 1 / 2, 1)]
    assert naive["vs"]["difference"] == pytest.approx(statistics.fmean(gaps))
    assert naive["vs"]["difference_se"] == pytest.approx(statistics.stdev(gaps) / 3**0.5)
    assert (naive["vs"]["win"], naive["vs"]["loss"]) == (1, 1)  # against the mean over runs


def test_methods_of_unlike_numbers_of_runs_are_paired_where_both_played():
    """The team passes 1 and 2 of the 4 samples, the agent alone 0, 3 and 4."""
    records = []
    for name, counts in {"trained": (1, 2), "single-trained": (0, 3, 4)}.items():
        for run, passed in enumerate(counts):
            for sample in range(4):
                records.append(record(name, 0, sample, sample < passed) | {"run": run})
    records += [record("naive", 0, 0, True) | {"run": 0}]
    header = {"settings": {"title": ""}, "timing": {}, "measures": OWN}
    _, alone, naive = measures.over_runs(header, records)["methods"].values()
    assert alone["pass@1"] == pytest.approx((0 + 3 + 4) / 12)
    assert alone["vs"]["method"] == naive["vs"]["method"] == "trained"
    assert alone["vs"]["difference"] == pytest.approx(2.5 / 4 * (-1 / 4 + 1 / 4) / 2)
    assert naive["vs"]["difference"] == pytest.approx(2.5 / 4 * (3 / 4 + 1 / 2) / 2)


@pytest.mark.parametrize("whole", [0, 3])
def test_a_part_that_a_response_lacks_is_0_as_in_training(whole):
    """One of four has the parts, in one of two problems."""
    records = [record("a", item, s, True) for item in (0, 1) for s in (0, 1)]
    parts = [played["turns"][0]["parts"] for played in records]
    for number in {0, 1, 2, 3} - {whole}:
        del parts[number]["tests"], parts[number]["metric/pass"]
    a = summary(records)["methods"]["a"]
    trained = mean_parts(parts)
    for name in ("reward/tests", "metric/pass"):
        assert a[name] == trained[name] == 0.25
    assert a["pass@1"] == 0.25
    assert a["schemes"] == {"decorator": {"count": 4, "pass_rate": 0.25}}


def test_a_method_that_was_never_scored_is_left_out():
    """Its return, of nothing, would be 0, and win where others are paid less."""
    naive, trained = (record(name, 0, 0, True) for name in ("naive", "trained"))
    naive["turns"][0]["parts"] = {}
    found = summary([naive, trained])
    assert list(found["methods"]) == ["trained"]
    assert "vs" not in found["methods"]["trained"]
    assert "no method naive: the reward scores none of its turns" in found["settings"]["title"]
    with pytest.raises(ValueError, match="the reward scores no turn of any method"):
        summary([naive])


def test_the_length_of_a_response_is_that_of_the_turns_at_which_its_agent_spoke():
    turns = record("a", 0, 0, True, tokens=(3, 0))["turns"]
    turns += record("a", 0, 0, True, tokens=(0, 5))["turns"]
    a = summary([record("a", 0, 0, True) | {"turns": turns}])["methods"]["a"]
    assert (a["length/0"], a["length/1"], a["tokens_per_problem"], a["longest"]) == (3, 5, 8, 8)


def test_the_table_has_every_measure():
    a, b = table()["methods"].values()
    for name, value in {
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
        "latency_s_median": 1.0,
        "latency_s_p90": 1.4,
        "latency_problems": 2,
        "longest": 5,
        "longest_median": 5,
        "longest_p90": 5,
        "tokens_per_s": 20.0,
    }.items():
        assert a[name] == pytest.approx(value), name
    assert "pass@5" not in a  # there are four samples
    assert b["length/0"] == 9
    assert "latency_s" not in b
    assert a["schemes"] == {
        "decorator": {"count": 5, "pass_rate": 1.0},
        "unused": {"count": 3, "pass_rate": 0.0},
    }
    difference = {"difference": -a["return"], "difference_se": a["return_se"]}
    expected = {"win": 0, "tie": 0, "loss": 2, **difference}
    assert b["vs"].pop("method") == "a"
    assert b["vs"] == pytest.approx(expected)
