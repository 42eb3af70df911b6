"""Runs as rows, groups of them, means and differences: python -m pytest tests/test_compare.py

Runs are written by hand. Statistics are computed a second time, with published quantiles of t.
"""

import itertools
import json
import math
import re
from statistics import mean, stdev

import pandas
import pytest
from helpers import args_of, edit_json, table, write_run

import train
from evaluation import runs
from training.run_folder import lock_run_folder

STEPS = [{"return": 0.1 * step} for step in range(5)]


def write(folder, name, seed=0, value=0.5, parts=(), **recorded):
    """Write a finished run whose held-out return is a value."""
    after = {"return": value, "greedy/return": value, "metric/pass": value, **dict(parts)}
    return write_run(folder / name, seed, STEPS, after=after, **recorded)


def read(*folders):
    return runs.read_runs(list(map(str, folders)), vars(train.parse([])))


def compare(folder, by=(), metrics=(), csv=None, latex=None, out=None):
    return runs.compare(read(folder), by, metrics, csv, latex, out)


def table_of(folder, *metrics):
    """Return the table of --csv of the runs in a folder, by kind, group and metric."""
    compare(folder, metrics=metrics, csv=folder / "csv")
    return pandas.read_csv(folder / "csv", index_col=["kind", "group", "metric"])


def groups_of(*folders, by=()):
    """Return the seeds of each group."""
    rows = runs.group_runs(read(*folders), by).reset_index()
    return rows.groupby("group", sort=False)["seed"].agg(list).to_dict()


# --- groups ---------------------------------------------------------------------------------------


def test_what_changes_no_experiment_makes_no_group(tmp_path):
    write(tmp_path, "a", 0, batch_size=12, engine=["http://one"], task_arg={"b": 2, "a": 1})
    own = {"batch_size": 6, "devices": 2, "eval_every": 3, "engine": ["http://two"]}
    write(tmp_path, "b", 1, task_arg={"a": 1, "b": 2}, **own)
    write(tmp_path, "c", 2, batch_size=12, code=["bbb"], task_arg={"a": 1, "b": 2})
    older = args_of(tmp_path / "c")
    del older["engine"]  # which it lacks, as its commit did
    edit_json(tmp_path / "c/args.json", args=older)
    assert groups_of(tmp_path) == {"engine": [0, 1], "no engine": [2]}
    assert groups_of(tmp_path, by=["commit"]) == {"commit aaa": [0, 1], "commit bbb": [2]}
    said = compare(tmp_path, ["advantage"])
    assert said.endswith("\n\ngroup|all|all\ncommit|aaa|bbb\nengine|True|False\n")


METRICS = ("return", "reward/x", "metric/pass")
# A flag, its values in two groups, and how many seeds of each of METRICS are subtracted. A group of
# one agent is the control, and one of two schedules has a run that went on with another.
DIFFERENT = """
{"advantage": "mean"}             {"advantage": "std"}              1 1 1
{"num_agents": 2}                 {"num_agents": 1}                 1 1 1
{"lr": [1e-4, 1e-4, 2e-4]}        {"lr": [1e-4, 2e-4, 2e-4]}        1 1 1
{"bases": {"m": "1"}}             {"bases": {"m": "2"}}             1 1 1
{"max_steps": [5]}                {"max_steps": [3, 5]}             1 1 1
{"items": {"test": "1"}}          {"items": {"test": "2"}}          0 0 0
{"items": {"train": "1"}}         {"items": {"train": "2"}}         1 1 1
{"eval_limit": 100}               {"eval_limit": 7}                 0 0 0
{"maximum": 4.0}                  {"maximum": 3.0}                  0 0 1
{"turns": 1}                      {"turns": 2}                      0 0 1
{"turns": 1}                      {"turns": 2, "unit": "episode"}   1 1 1
{"turns": 2}                      {"turns": 2, "unit": "episode"}   0 0 1
{"turns": 1}                      {"turns": 2, "largest_return": 4.0}  1 1 1
{"gamma": 1.0}                    {"gamma": 0.5}                    1 1 1
{"turns": 2, "gamma": 1.0}        {"turns": 2, "gamma": 0.5}        0 0 1
{"reward": null}                  {"reward": "code_pass"}           0 0 1
"""


@pytest.mark.parametrize("one, other, counts", table(DIFFERENT))
def test_measures_of_other_problems_or_units_are_not_subtracted(one, other, counts, tmp_path):
    """What tells experiments apart does so whoever else is named, and some of it the unit, too.

    The unit is the largest return: one turn earns what an episode does that is paid once.
    """
    one = {"parts": {"reward/x": 1.0}, **json.loads(one)}
    other = {"parts": {"reward/x": 1.0}, **json.loads(other)}
    write(tmp_path, "x", 0, **one)
    write(tmp_path, "y", 1, **other)
    assert list(groups_of(tmp_path).values()) == [[0], [1]]
    assert len(groups_of(tmp_path, by=["temperature"])) == (1 if counts == "1 1 1" else 2)
    write(tmp_path, "y2", 0, **other)
    subtracted = table_of(tmp_path, *METRICS).loc["difference"]["count"].tolist()
    assert subtracted == list(map(int, counts.split()))
    write(tmp_path, "z", 2, **one, top_k=7)
    assert list(groups_of(tmp_path).values()) == [[0], [1, 0], [2]]


# --- statistics -----------------------------------------------------------------------------------


def test_means_and_differences_of_the_pairs_of_one_seed(tmp_path):
    """Runs are named in another order than that of their seeds, and one has no partner.

    One value has no error, and equal values have no interval.
    """
    values = {"a": {0: 0.8, 1: 0.5, 2: 0.9}, "b": {2: 0.4, 3: 0.7, 0: 0.2, 1: 0.1}, "c": {1: 0.7}}
    values["d"] = values["a"] | {2: 0.3 * 3}  # equal but for rounding
    for name, seeds in values.items():
        for place, (seed, value) in enumerate(seeds.items()):
            parts = {"reward/bonus": value} if name == "a" and seed else {}
            write(tmp_path, f"{name}{place}", seed, value, parts, normalize=name)
    write_run(tmp_path / "a3", 3, STEPS, normalize="a")  # it is not finished
    table = table_of(tmp_path, "return", "return")  # named twice, it counts once
    gaps = [values["b"][seed] - values["a"][seed] for seed in range(3)]
    for kind, name, drawn, t in (
        ("mean", "a", list(values["a"].values()), 4.303),
        ("mean", "b", list(values["b"].values()), 3.182),
        ("difference", "b", gaps, 4.303),
    ):
        row = table.loc[kind, f"normalize {name}", "return"]
        error = stdev(drawn) / len(drawn) ** 0.5
        ends = (mean(drawn) - t * error, mean(drawn) + t * error)
        assert list(row) == pytest.approx([len(drawn), mean(drawn), error, *ends])
    bonus = table_of(tmp_path, "reward/bonus").loc["mean"]  # what was not measured is missing
    assert bonus["count"].tolist() == [2, 0, 0, 0]
    assert bonus["mean"].tolist() == pytest.approx([0.7, *[math.nan] * 3], nan_ok=True)
    said = compare(tmp_path, metrics=["return"], latex=tmp_path / "tex")
    tex = (tmp_path / "tex").read_text()
    assert tex.startswith("% \\usepackage{booktabs, multirow}\n")
    assert r"\multirow" in tex
    assert re.search(r"normalize c +1 +0.700 +- +- +-", said)
    assert re.search(r"normalize d +3 +-0.000 +- +- +-", said)


def test_runs_without_an_end_or_of_an_older_commit_are_compared(tmp_path):
    run = write_run(tmp_path / "a", 0, STEPS)
    (run / "args.json").write_text(json.dumps({"args": args_of(run)}))
    table = compare(tmp_path).split("\n\n")[1]
    for metric in ("before/return", "return", "greedy/return"):
        assert re.search(rf"^{metric} +mean +all +0 +-", table, re.MULTILINE)


def test_evaluations_are_measures_and_those_of_other_problems_are_not_subtracted(tmp_path):
    for name, seed in itertools.product("abc", range(2)):
        reward = {"b": "other"}.get(name)  # its evaluation is by the reward of the rest
        run = write(tmp_path, f"{name}{seed}", seed, normalize=name, reward=reward)
        methods = {"trained": {"pass@1": 0.5 + seed / 10}, "naive": {"return": 0}}
        if run.name != "a0":  # the first one is not evaluated
            (run / "eval.json").write_text("{}")
            changes = {"settings": {"items": 9 if name == "c" else 5}, "methods": methods}
            edit_json(run / "eval.json", **changes)
    table = table_of(tmp_path, "eval/trained/pass@1", "eval/naive/return")
    other = table.loc["mean", "no reward, normalize c", "eval/trained/pass@1"]
    assert other["mean"] == pytest.approx(0.55)
    assert table.loc["difference"]["count"].tolist() == [1, 0, 1, 0]
    *_, traits = compare(tmp_path, metrics=["eval/trained/pass@1"]).partition("\n\n")
    assert "\neval|" in traits  # two groups were evaluated in other ways
    edit_json(run / "eval.json", settings={"items": 5})
    with pytest.raises(ValueError, match="the runs of no reward, normalize c in one way"):
        table_of(tmp_path, "eval/naive/return")


# --- what is written ------------------------------------------------------------------------------


def test_the_figure_has_means_and_bands_as_far_as_all_seeds_have_come(tmp_path, monkeypatch):
    figures = []
    monkeypatch.setattr("matplotlib.figure.Figure.savefig", lambda *args, **_: figures.append(args))
    write(tmp_path, "a0")
    steps = [{"return": 0.4}, {"return": 0.5, "scheme/alone": 0.3, "dev/reward/bonus": 0.3}]
    write_run(tmp_path / "a1", 1, steps, max_steps=[5])  # it goes on
    metrics = ["return", "before/return", "scheme/alone", "dev/reward/bonus"]
    compare(tmp_path, metrics=metrics, out="x.pdf")
    figure, name = figures[0]
    returns, *parts = figure.axes
    (line,) = returns.get_lines()
    assert (name, line.get_label()) == ("x.pdf", "all")
    assert line.get_xydata().tolist() == [[1, pytest.approx(0.2)], [2, pytest.approx(0.3)]]
    edges = returns.collections[0].get_paths()[0].vertices[:, 1]  # of the band
    assert (min(edges), max(edges)) == pytest.approx((0, 0.5))  # the error is half the gap, 0.2
    drawn = [axes.get_lines()[0].get_ydata().tolist() for axes in parts]
    assert drawn == [[], []]  # a0 has neither, so a curve would be of one seed of two


def test_runs_are_listed_with_the_flags_in_which_they_differ(tmp_path):
    write(tmp_path, "a", 1, 0.625, lr=[3e-3] * 2)
    write_run(tmp_path / "b", 0, STEPS[:2], max_steps=[9], items={"test": "1"}, lr=[1e-3] * 2)
    write_run(tmp_path / "c", 0)
    with lock_run_folder(tmp_path / "b"):
        said = runs.list_runs(read("."))
    assert max(map(len, said.splitlines())) <= 120
    assert re.search(r"a +finished +5 +0.625 +0.625 +1 +0.003 +5", said)
    assert re.search(r"b +running +2 +- +- +0 +0.001 +9", said)
    assert re.search("c +unfinished +0", said)
    assert "temperature" not in said
    assert "items" not in said  # a digest says nothing to a reader
