"""Runs as rows, groups of them, means and differences: python -m pytest tests/test_compare.py

Runs are written by hand. Statistics are computed a second time, with t quantiles from the integral
of Student's density.
"""

import itertools
import math
import re

import numpy as np
import pandas
import pytest
from helpers import edit_json, write_run

from evaluation import runs
from training.run_folder import lock_run_folder

STEPS = [{"return": 0.1 * step} for step in range(5)]


def write(folder, name: str, seed: int = 0, value: float = 0.5, **recorded):
    """Write a finished run whose held-out return is a value."""
    parts = recorded.pop("parts", {})
    after = {"return": value, "greedy/return": value, "metric/pass": value} | parts
    return write_run(folder / name, seed, STEPS, after=after, **recorded)


def table_of(folder, *metrics: str, by=None) -> pandas.DataFrame:
    """Return the table of --csv of the runs in a folder, by kind, group and metric."""
    runs.compare([str(folder)], by, list(metrics) or None, csv=folder / "csv")
    return pandas.read_csv(folder / "csv", index_col=["kind", "group", "metric"])


def groups_of(*folders, by=None) -> dict[str, list[int]]:
    """Return the seeds of each group."""
    rows = runs.read_runs(list(map(str, folders)))
    runs.group_runs(rows, by)
    return rows.groupby("group", sort=False)["seed"].agg(list).to_dict()


# --- groups ---------------------------------------------------------------------------------------


def test_what_changes_no_experiment_makes_no_group(tmp_path):
    write(tmp_path, "a", 0, batch_size=12)
    write(tmp_path, "b", 1, batch_size=6, devices=2, eval_every=3, logger="none")
    write(tmp_path, "c", 2, batch_size=12, code=["bbb"])
    write(tmp_path, "d", 3, batch_size=12, engine=["http://one"])
    write(tmp_path, "e", 4, batch_size=12, engine=["http://two"])
    assert groups_of(tmp_path) == {"engine false": [0, 1, 2], "engine true": [3, 4]}
    assert groups_of(tmp_path, by=["commit"]) == {"commit aaa": [0, 1, 3, 4], "commit bbb": [2]}
    assert groups_of(tmp_path, by=["advantage"]) == {"all": [0, 1, 2, 3, 4]}
    said = runs.compare([str(tmp_path)], ["advantage"])
    assert "\n\ncommit: aaa or bbb (all)" in said
    assert "\n\nengine: false or true (all)" in said


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"lr": [1e-4, 1e-4, 2e-4]}, {"lr": [1e-4, 2e-4, 2e-4]}),
        ({"bases": {"m": "1"}}, {"bases": {"m": "2"}}),
        ({"items": {"test": "1"}}, {"items": {"test": "2"}}),
        ({"maximum": 4.0}, {"maximum": 3.0}),
        ({"unit": "turn"}, {"unit": "episode"}),
        ({"task_arg": {}}, {"task_arg": {"a": 1}}),
    ],
)
def test_what_tells_experiments_apart_does_so_whoever_else_is_named(one, other, tmp_path):
    first = write(tmp_path, "x/run", 0, **one)
    second = write(tmp_path, "y/run", 1, **other)
    third = write(tmp_path, "z/run", 2, **one, advantage="std")
    assert list(groups_of(first, second).values()) == [[0], [1]]
    assert list(groups_of(first, second, third).values()) == [[0], [1], [2]]
    units = one.keys() & {"items", "maximum", "unit"}
    assert len(groups_of(first, second, by=["advantage"])) == 1 + len(units)


def test_runs_that_are_no_seeds_of_one_group_are_refused(tmp_path):
    write(tmp_path, "a")
    write(tmp_path, "b", code=["bbb"])
    with pytest.raises(ValueError, match=r"b has the seed of another run.*--by FLAG"):
        runs.compare([str(tmp_path)])
    assert "commit aaa" in runs.compare([str(tmp_path)], ["commit"])
    with pytest.raises(ValueError, match=r"--by advantag: no run has it .did you mean advantage"):
        runs.compare([str(tmp_path)], ["advantag"])
    with pytest.raises(ValueError, match=r"after/metric/pas: no run has it .did you mean"):
        runs.compare([str(tmp_path / "a")], None, ["metric/pas"])


def test_runs_of_an_older_version_are_named_and_not_compared(tmp_path):
    write(tmp_path, "a")
    old = write(tmp_path, "b", items=None)
    assert f"{old} is of an older version" in runs.compare([str(tmp_path)])


# --- statistics -----------------------------------------------------------------------------------


def quantile(freedom: int) -> float:
    """The t with 97.5 % of Student's density below it: by bisection of its integral."""
    constant = math.gamma((freedom + 1) / 2) / math.gamma(freedom / 2)
    constant /= math.sqrt(freedom * math.pi)
    low, high = 1.0, 20.0
    while high - low > 1e-6:
        t = (low + high) / 2
        x = np.linspace(0, t, 4001)
        inside = np.trapezoid(constant * (1 + x**2 / freedom) ** (-(freedom + 1) / 2), x)
        low, high = (t, high) if inside < 0.475 else (low, t)
    return low


def test_t_is_that_of_the_density():
    for count in (2, 3, 5, 10, 12, 15, 30, 100):
        assert runs.t95(count) == pytest.approx(quantile(count - 1), rel=5e-3)


def test_means_and_differences_of_the_pairs_of_one_seed(tmp_path):
    """Runs are named in another order than that of their seeds, and one has no partner."""
    values = {"a": {0: 0.8, 1: 0.5, 2: 0.9}, "b": {2: 0.4, 3: 0.7, 0: 0.2, 1: 0.1}}
    for name, seeds in values.items():
        for place, (seed, value) in enumerate(seeds.items()):
            write(tmp_path, f"{name}{place}", seed, value, reward=None, normalize=name)
    table = table_of(tmp_path, "return", "metric/pass")
    for name in "ab":
        drawn = np.array(list(values[name].values()))
        row = table.loc["mean", f"normalize {name}", "after/return"]
        half = quantile(len(drawn) - 1) * row["sem"]
        assert row["count"] == len(drawn)
        assert row["mean"] == pytest.approx(drawn.mean())
        assert row["sem"] == pytest.approx(drawn.std(ddof=1) / len(drawn) ** 0.5)
        ends = (drawn.mean() - half, drawn.mean() + half)
        assert (row["low"], row["high"]) == pytest.approx(ends, rel=1e-3)
    gaps = np.array([values["b"][seed] - values["a"][seed] for seed in range(3)])
    row = table.loc["difference", "normalize b", "after/metric/pass"]
    assert row["count"] == 3
    assert (row["mean"], row["sem"]) == pytest.approx((gaps.mean(), gaps.std(ddof=1) / 3**0.5))
    assert row["high"] == pytest.approx(gaps.mean() + quantile(2) * row["sem"], rel=1e-3)
    said = runs.compare([str(tmp_path)])
    assert f"{gaps.mean():+.3f} [{row['low']:+.3f}, {row['high']:+.3f}] (3)" in said
    assert " 0.733 ±0.120 (3)" in said


def test_one_run_has_no_error_and_equal_values_no_interval(tmp_path):
    for name, seed, value in (("a", 0, 0.8), ("a", 1, 0.6), ("b", 0, 0.5), ("c", 0, 0.7)):
        write(tmp_path, f"{name}{seed}", seed, value, normalize=name)
    write(tmp_path, "c1", 1, 0.5, normalize="c")
    said = runs.compare([str(tmp_path)], None, ["return"])
    rows = [
        ("normalize b", r" 0\.500 \(1\)"),
        ("normalize b", r" -0\.300 \(1\)"),
        ("normalize c", r" -0\.100 \(2\)"),
    ]
    for name, cell in rows:
        assert re.search(f"{name} +{cell}$", said, re.MULTILINE), said


@pytest.mark.parametrize(
    ("other", "subtracted"),
    [
        ({"advantage": "std"}, {"return", "reward/x", "metric/pass"}),
        ({"items": {"test": "2"}}, set()),
        ({"eval_limit": 7}, set()),
        *(({flag: value}, {"metric/pass"}) for flag, value in (
            ("maximum", 3.0), ("unit", "episode"), ("turns", 2), ("gamma", 0.5), ("num_agents", 3),
            ("reward", "code_pass"),
        )),
    ],
)  # fmt: skip
def test_measures_of_other_problems_or_units_are_not_subtracted(other, subtracted, tmp_path):
    for seed in range(2):
        write(tmp_path, f"a{seed}", seed, parts={"reward/x": 1.0})
        write(tmp_path, f"b{seed}", seed, parts={"reward/x": 1.0}, **other)
    names = ["return", "reward/x", "metric/pass"]
    gaps = table_of(tmp_path, *names).loc["difference"].droplevel("group")["count"]
    assert {name for name in names if gaps[f"after/{name}"]} == subtracted


def test_a_part_that_was_never_earned_is_0_and_one_that_is_not_reported_is_missing(tmp_path):
    bonus = {"reward/bonus": 0.3}
    for seed, parts in enumerate((bonus, {}, {"reward/bonus": 0.6})):
        write(tmp_path, f"a{seed}", seed, parts=parts)
        write(tmp_path, f"b{seed}", seed, normalize="b", parts=parts | {"other": 1.0})
    write_run(tmp_path / "a3", 3, STEPS)  # it is not finished
    write(tmp_path, "c", 0, normalize="c")
    write(tmp_path, "d", 0, normalize="d")
    steps = [{"return": 0.5}, {"return": 0.5, "reward/bonus": 1.0}]
    write_run(tmp_path / "e", 0, steps, after={"return": 0.5}, normalize="e")
    table = table_of(tmp_path, "reward/bonus", "greedy/reward/bonus", "other")
    means = table.loc["mean"]["mean"].unstack(sort=False)["after/reward/bonus"].tolist()
    assert means == pytest.approx([0.3, 0.3, math.nan, math.nan, 0.0], nan_ok=True)
    counts = table.loc["mean"]["count"].unstack(sort=False)
    assert counts["after/reward/bonus"].tolist() == [3, 3, 0, 0, 1]
    assert counts["after/other"].tolist() == [0, 3, 0, 0, 0]
    rows = runs.read_runs([str(tmp_path / name) for name in ("a0", "a1", "c", "e")])
    assert [list(steps.get("reward/bonus", [])) for steps in rows["steps"]] == [
        [0] * 5,
        [0] * 5,
        [],
        [0, 1],
    ]


def test_evaluations_are_measures_and_those_of_other_problems_are_not_subtracted(tmp_path):
    for name, seed in itertools.product("abc", range(2)):
        run = write(tmp_path, f"{name}{seed}", seed, normalize=name)
        methods = {"trained": {"pass@1": 0.5 + seed / 10, "vs": {"win": 3}}, "naive": {"return": 0}}
        (run / "eval.json").write_text("{}")
        edit_json(run / "eval.json", settings={"items": 9 if name == "c" else 5}, methods=methods)
    table = table_of(tmp_path, "eval/trained/pass@1", "eval/naive/return")
    assert table.loc["mean", "normalize c", "eval/trained/pass@1"]["mean"] == pytest.approx(0.55)
    assert table.loc["difference"]["count"].unstack(sort=False).to_numpy().tolist() == [
        [2, 2],
        [0, 0],
    ]


# --- what is written ------------------------------------------------------------------------------


def test_the_figure_has_means_and_bands_as_far_as_all_seeds_have_come(tmp_path, monkeypatch):
    drawn = {}

    def plot(axes, mean, label):
        drawn[axes.get_ylabel().partition(":")[0], label] = mean

    monkeypatch.setattr("matplotlib.axes.Axes.plot", plot)

    def fill(axes, steps, low, high, alpha):
        drawn[axes.get_ylabel().partition(":")[0], "band"] = (high - low) / 2

    monkeypatch.setattr("matplotlib.axes.Axes.fill_between", fill)
    write(tmp_path, "a0", parts={"reward/bonus": 0.3})
    steps = [{"return": 0.4}, {"return": 0.5}, {"dev/return": 0.1}]
    write_run(tmp_path / "a1", 1, steps, max_steps=5)  # it goes on
    runs.compare(
        [str(tmp_path)], None, ["return", "reward/bonus", "before/return"], out=tmp_path / "x.pdf"
    )
    curve = drawn["return", "all"]
    assert (curve.index.tolist(), curve.tolist()) == ([0, 1], pytest.approx([0.2, 0.3]))
    assert drawn["return", "band"].tolist() == pytest.approx([0.2, 0.2])  # half a gap of 0.4
    assert drawn["reward/bonus", "all"].tolist() == [0, 0]
    assert (tmp_path / "x.pdf").read_bytes().startswith(b"%PDF")


def test_the_table_in_latex(tmp_path):
    write(tmp_path, "a")
    write(tmp_path, "b", lr_schedule="constant")
    runs.compare([str(tmp_path)], latex=tmp_path / "tex")
    text = (tmp_path / "tex").read_text()
    assert r"\toprule" in text
    assert r"95\% interval" in text


def test_runs_are_listed_with_the_flags_in_which_they_differ(tmp_path):
    for seed, rate in enumerate((1e-3, 3e-3)):
        write(tmp_path, f"a{seed}", seed, 0.625, lr=[rate] * 2)
    write_run(tmp_path / "b", 0, STEPS[:2], max_steps=9, items=None, lr=[1e-3] * 2)
    write_run(tmp_path / "c", 0)
    with lock_run_folder(tmp_path / "b"):
        said = runs.list_runs([str(tmp_path)])
    assert re.search(r"a1 +finished +5 +0.625 +0.625 +1 \[0.003, 0.003\] +5 ", said)
    assert re.search(r"b +running +2 +NaN +NaN +0 \[0.001, 0.001\] +9 ", said)
    assert re.search("c +unfinished +0", said)
    assert "temperature" not in said
