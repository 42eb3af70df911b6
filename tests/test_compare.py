"""eval.py --compare: groups, means over seeds, differences. python -m pytest tests/test_compare.py

Runs are written as train.py writes them. Statistics are computed a second time, with t quantiles
from the integral of Student's density.
"""

import csv
import dataclasses
import json
import math
import re
import statistics
from pathlib import Path

import numpy as np
import pytest
from helpers import edit_json, read_json, refused_by_eval, run_eval, write_lines

import train
from evaluation import measures
from evaluation.groups import Run, check_seeds, group_runs, notes, read_run
from magrpo import Algorithm, Episode
from policies.model_names import TeamOptions
from policies.sampling import Sampling
from training.plugins import TaskOptions
from training.run_folder import ASIDE, experiment, lock_run_folder

DEFAULTS = dataclasses.asdict(train.Args())


def write_run(directory: Path, seed: int, after: list[float], files=(), **flags) -> Path:
    """Write what --compare reads of a run. after: the returns of the held-out problems."""
    directory.mkdir(parents=True)
    record = {"args": flags | {"seed": seed, "max_steps": 5, "num_agents": 2}, "code": ["aaa"]}
    if files is not None:
        record["files"] = {"magrpo.py": "1"} | dict(files)
    (directory / "args.json").write_text(json.dumps(record))
    steps = [{"step": step, "return": 0.1 * step, "scheme/a": 1.0} for step in range(5)]
    write_lines(directory / "metrics.jsonl", steps)
    summary = {"steps": 5, "returns": {}}
    for when, returns in (("before", [0.25, 0.5]), ("after", after)):
        summary["returns"][when] = {"return": returns, "metric/pass": returns}
        mean = statistics.fmean(returns)
        summary[when] = {"return": mean, "greedy/return": mean, "metric/pass": mean}
    (directory / "summary.json").write_text(json.dumps(summary))
    return directory


def compared(folder: Path, *flags) -> dict:
    run_eval("--compare", folder, "--json", folder / "json", *flags)
    return read_json(folder / "json")["groups"]


def run_of(name: str, seed: int = 0, **traits) -> Run:
    return Run(Path(name), seed, traits, None, {"after": {}})


def test_every_flag_changes_an_experiment_or_is_put_aside():
    options = {"init", "judge", "engine", "precision", "eval_limit"}  # of no dataclass, and matter
    for part in (Algorithm, Episode, TeamOptions, Sampling, TaskOptions):
        options |= {field.name for field in dataclasses.fields(part)}
    assert DEFAULTS.keys() - ASIDE == options - {"seed"}


def test_what_changes_no_algorithm_makes_no_group(tmp_path):
    """Names, logging, an older run without a flag, the same batch on two devices, seeds of --init.
    Another file of the code that both have is another group, a file that one lacks is not. An older
    run recorded no files."""
    defaults = DEFAULTS | {"batch_size": 12}
    same = [
        write_run(tmp_path / "a-seed0", 0, [1.0], init=["runs/x-seed0/agents/0"]),
        write_run(tmp_path / "b", 1, [1.0], eval_every=3, init=["runs/x-seed1/agents/0"]),
        write_run(
            tmp_path / "a-seed2", 2, [1.0], batch_size=6, devices=2, init=["runs/x/agents/0"]
        ),
        write_run(tmp_path / "a-seed3", 3, [1.0], {"new.py": "1"}, init=["runs/x/agents/0"]),
    ]
    other = write_run(tmp_path / "a-seed4", 4, [1.0], {"magrpo.py": "2"}, init=["runs/x/agents/0"])
    old = write_run(tmp_path / "a-seed5", 5, [1.0], None, init=["runs/x/agents/0"])
    runs = [
        Run(path, seed, experiment(path, defaults), None, {"after": {}})
        for seed, path in enumerate([*same, other, old])
    ]
    assert notes(group_runs(runs))[1:] == ["a-seed5 and a, b differ in code/version"]
    groups = group_runs(runs[:5])
    assert list(map(len, groups.values())) == [4, 1]
    assert list(groups) == ["a, b", "a-seed4"]
    assert notes(groups) == ["a-seed4 and a, b differ in code/magrpo.py"]
    with pytest.raises(ValueError, match="did you mean advantage"):
        group_runs(runs[:5], ["advantag"])
    by_code = group_runs(runs[:5], ["advantage", "code"])
    assert list(by_code) == [
        "--advantage mean code/magrpo.py 1",
        "--advantage mean code/magrpo.py 2",
    ]
    merged = group_runs(runs[:5], ["advantage"])
    assert list(map(len, merged.values())) == [5]
    assert notes(merged) == ["the runs of --advantage mean differ in code/magrpo.py"]


def test_groups_are_named_by_globs_and_told_apart_by_what_their_agents_have():
    runs = [
        run_of("runs/a-0", **{"--lr": [0.1, 0.1]}),
        run_of("runs/a-1", 1, **{"--lr": [0.1, 0.2]}),
    ]
    runs.append(run_of("else/a-0", 2, **{"--lr": [0.1, 0.3]}))
    assert [*group_runs(runs, None, {"x": "runs/*"})] == ["x", "a-0"]
    runs.append(run_of("c-3", 3, **{"--lr": [0.1, 0.1]}))
    assert [*group_runs(runs)] == ["a, c", "a-1", "a-0"]
    runs = [run_of("a-0", **{"--lr": [0.1, 0.1]}), run_of("else/a-0", **{"--lr": [0.1, 0.2]})]
    assert [*group_runs(runs)] == ["a-0 --lr 0.1", "a-0 --lr 0.1 0.2"]


def test_runs_of_different_tasks_are_not_one_group_and_not_subtracted(tmp_path, capsys):
    for seed in range(3):
        write_run(tmp_path / f"a-{seed}", seed, [0.5, 1.0])
        write_run(tmp_path / f"b-{seed}", seed, [0.5, 0.7], task="tldr")
        write_run(tmp_path / f"c-{seed}", seed, [0.5, 0.7], reward="code_pass")
    table = compared(tmp_path, "--metric return metric/pass")
    assert table["b"]["minus"] == {"group": "a"}
    assert table["c"]["minus"].keys() == {"group", "metric/pass"}  # their returns: other units
    for other, named in (("b-1", "tasks (--task)"), ("c-1", "units of return (--reward)")):
        mixed = (tmp_path / "a-0", tmp_path / other, "--group x=?-?")
        assert f"has runs of different {named}" in refused_by_eval(capsys, "--compare", *mixed)


def test_a_part_that_one_seed_never_earned_is_0_there_and_not_left_out(tmp_path, capsys):
    """In the figure, it is 0 at the steps that lack it."""
    for seed, bonus in enumerate((0.3, None, 0.6)):
        run = write_run(tmp_path / f"a-{seed}", seed, [0.5, 1.0])
        other = write_run(tmp_path / f"b-{seed}", seed, [0.5, 1.0], {"magrpo.py": "2"})
        if bonus:
            for folder, value in ((run, bonus), (other, 0.1)):
                after = read_json(folder / "summary.json")["after"]
                edit_json(folder / "summary.json", after=after | {"reward/bonus": value})
    steps = [{"step": 0, "return": 0.5}, {"step": 1, "return": 0.5, "reward/bonus": 1.0}]
    write_lines(run / "metrics.jsonl", steps)
    assert read_run(run, DEFAULTS | {"batch_size": 1}).steps["reward/bonus"].tolist() == [0, 1]
    table = compared(tmp_path, "--metric return reward/bonus greedy/return")
    assert table["a"]["reward/bonus"]["mean"] == pytest.approx(0.3)
    seeds = table["b"]["minus"]["reward/bonus"]["seeds"]
    assert seeds == pytest.approx({"0": -0.2, "1": 0, "2": -0.5})


def test_the_pairs_of_a_row_are_those_of_any_metric(tmp_path, capsys):
    for name in "ab":
        run = write_run(tmp_path / f"{name}-0", 0, [0.5, 1.0], {"magrpo.py": name})
    after = read_json(run / "summary.json")["after"]
    edit_json(run / "summary.json", after=after | {"metric/new": 1.0})
    compared(tmp_path, "--metric return metric/new")
    assert re.search(r"b-0 - a-0 +1 +\+0.000\* +-\n", capsys.readouterr().out)


@pytest.mark.parametrize(
    ("groups", "named"),
    [
        ("x=?-* y=none-*", "y=none-*: no run of --compare has such a folder"),
        ("x=?-* y=a-0", "a-0 would be in x and y"),
    ],
)
def test_a_glob_of_no_run_and_a_run_of_two_globs_are_refused(groups, named, tmp_path, capsys):
    write_run(tmp_path / "a-0", 0, [0.5, 1.0])
    assert named in refused_by_eval(capsys, "--compare", tmp_path, "--group", groups)


def test_a_run_of_other_flags_is_no_seed_of_an_evaluation(tmp_path):
    folders = [write_run(tmp_path / name, seed, [1.0]) for seed, name in enumerate("ab")]
    check_seeds(folders, DEFAULTS | {"batch_size": 1})
    folders.append(write_run(tmp_path / "c", 2, [1.0], lr=[0.1]))
    with pytest.raises(ValueError, match="these differ in --lr"):
        check_seeds(folders, DEFAULTS | {"batch_size": 1})


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
        assert measures.t95(count) == pytest.approx(quantile(count - 1), rel=5e-3)


def test_means_and_paired_differences(tmp_path, capsys):
    """Of three seeds, of one (over its problems) and of two. An interval may leave the share: the
    bounds of a metric are not known from its values."""
    returns = {"a": ([0.8, 1.0], [0.5, 0.7], [0.9, 0.9]), "b": ([0.2, 0.9], [0.1, 0.2], [0.4, 0.0])}
    for name, seeds in returns.items():
        for seed, values in enumerate(seeds):
            code = {"magrpo.py": name}
            write_run(tmp_path / f"{name}-seed{seed}", seed, values, code)
    outputs = f"--csv {tmp_path}/csv --markdown {tmp_path}/md --latex {tmp_path}/tex"
    table = compared(tmp_path, outputs, f"--out {tmp_path}/x.pdf --schemes")
    means = np.array(returns["a"]).mean(1)
    a = table["a"]["return"]
    assert (a["mean"], a["se"]) == pytest.approx((means.mean(), means.std(ddof=1) / 3**0.5))
    assert list(a["seeds"].values()) == pytest.approx(means)
    half = quantile(2) * a["se"]
    ends = (means.mean() - half, means.mean() + half)
    assert (a["low"], a["high"]) == pytest.approx(ends, rel=1e-3)
    gaps = np.array(returns["b"]).mean(1) - means
    minus = table["b"]["minus"]["return"]
    error = gaps.std(ddof=1) / 3**0.5
    assert (minus["mean"], minus["se"]) == pytest.approx((gaps.mean(), error))
    assert minus["high"] == pytest.approx(gaps.mean() + quantile(2) * error, rel=1e-3)
    said = capsys.readouterr().out
    cell = f"{gaps.mean():+.3f} [{minus['low']:+.3f}, {minus['high']:+.3f}]"
    assert said.count("standard error") == 1
    tex = (tmp_path / "tex").read_text()
    assert r"95 \% interval" in tex
    assert r"\toprule" in tex
    for text in (said, (tmp_path / "md").read_text(), tex.replace("$-$", "-")):
        assert f"{cell}\n" in text.replace(" |", "").replace(r" \\", "").replace("  ", "")
        assert "b and a differ in code/magrpo.py" in text
    with (tmp_path / "csv").open() as file:
        first, second = csv.DictReader(file)
    assert float(second["minus/return/seeds/1"]) == pytest.approx(gaps[1])
    assert first["minus/return/mean"] == ""
    assert (tmp_path / "x.pdf").read_bytes().startswith(b"%PDF")

    run_eval("--compare", *(tmp_path / f"{name}-seed0" for name in "ab"))
    problems = np.subtract(returns["b"][0], returns["a"][0])
    error = problems.std(ddof=1) / 2**0.5
    said = capsys.readouterr().out
    half = quantile(1) * error
    low, high = problems.mean() - half, problems.mean() + half
    assert f" {problems.mean():+.3f} [{low:+.3f}, {high:+.3f}]*" in said
    assert f" 0.900 ±{0.1:.3f}*" in said
    assert "\n*: one seed" in said
    run_eval("--compare", *(tmp_path / f"{name}-seed{seed}" for name in "ab" for seed in (0, 1)))
    said = capsys.readouterr().out
    assert "-0.400 [-1.035, +0.235]!" in said
    assert "\n!: two seeds" in said


def test_equal_values_have_no_interval():
    assert measures.t_interval(0.5, 1e-17, 3) == (None, None)


def test_runs_are_listed_with_the_flags_in_which_those_of_a_task_differ(tmp_path, capsys):
    for seed, rate in enumerate((1e-3, 3e-3, 3e-3)):
        write_run(tmp_path / f"a-{seed}", seed, [0.5, 0.75], task="coop", lr=[rate] * 2)
    write_run(tmp_path / "b", 0, [0.5, 0.75], task="build", lr=[7e-3] * 2)
    (tmp_path / "b/summary.json").unlink()
    (tmp_path / "a-2/metrics.jsonl").unlink()
    with lock_run_folder(tmp_path / "a-2"):
        run_eval("--runs", tmp_path, "--json", tmp_path / "json", "--csv", tmp_path / "csv")
    rows = {Path(name).name: row for name, row in read_json(tmp_path / "json")["runs"].items()}
    states = ["finished", "finished", "running", "unfinished"]
    assert [row["state"] for row in rows.values()] == states
    assert [row["steps"] for row in rows.values()] == [5, 5, 0, 5]
    assert rows["a-1"]["flags"] == {"--lr": [3e-3] * 2, "--seed": 1}
    assert (rows["a-1"]["before"], rows["a-1"]["after"]) == (0.375, 0.625)
    assert (rows["b"]["after"], rows["b"]["flags"]) == (None, {})
    said = capsys.readouterr().out
    assert re.search(r"a-1 +coop +finished +5 of 5 +0.375 +0.625 .* --lr 0.003 --seed 1", said)
    assert "flags/--lr" in (tmp_path / "csv").read_text()
