"""Read runs as the rows of one table. List them, compare groups of them, and draw their curves.

A column with a slash is a measure: `before/...` and `after/...` are of summary.json, and
`eval/METHOD/...` of eval.json. The other columns but OTHERS are traits: the flags, and what else
tells one experiment from another. A group is the runs that agree in all traits, or in those of
--by. So who is in a group does not depend on the other runs. The runs of a group are its seeds.
"""

import json
import re
from collections.abc import Collection
from pathlib import Path

from pandas import DataFrame, Index, Series, concat, json_normalize

from training.run_folder import ASIDE, read_args, read_records, read_summary, run_folders, state

OTHERS = {"run", "state", "steps", "seed", "commit", "evaluated", "group"}
RECORDED = ["items", "maximum", "unit", "bases", "max_steps"]  # beside the flags
PROBLEMS = ["items", "eval-limit"]
UNIT = ["maximum", "unit", "reward", "turns", "gamma"]  # of returns; teams of other sizes share it
PART = "(reward|metric|agent)/.*(?<!_se)$"
METRICS = ["before/return", "after/return", "after/greedy/return"]
# Student's t, two-sided 95 %, for 1, 2, ... degrees of freedom
T95 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)
CAPTION = """\
Means ± standard errors over seeds (number of seeds), and differences to the first group \
[.95 interval of Student's t] (number of pairs of runs with one seed)"""


# --- rows -----------------------------------------------------------------------------------------


def read_runs(names: list[str]) -> DataFrame:
    """Return a row for each run.

    A part of the reward that a run lacks is 0 there if a run with the same reward has it: it was
    never earned. Otherwise it is missing. A part that a step lacks is 0 if another step has it.
    """
    runs = list(map(read_run, run_folders(names)))
    rows = json_normalize(runs, sep="/")
    rewards = rows.groupby(["task", "reward"])
    for name in rows.filter(regex=PART):
        known = rewards[name].transform("count") > 0
        played = rows[re.sub(PART, "return", name)].notna()
        rows.loc[known & played, name] = rows[name].fillna(0.0)
    return rows


def read_run(directory: Path) -> dict:
    """Return the row of a run. Traits are texts."""
    record = read_args(directory)
    flags = record["args"]
    flags["batch_size"] *= flags["devices"] * flags["num_nodes"]
    flags["engine"] = bool(flags["engine"])
    traits = flags | {name: record.get(name) for name in RECORDED}
    row: dict = {}
    for name, value in traits.items():
        if name not in ASIDE:
            row[name.replace("_", "-")] = text_of(value)
    file = directory / "eval.json"
    if file.exists():
        evaluation = json.loads(file.read_text("utf-8"))
        row["evaluated"] = str(evaluation["settings"])
        row["eval"] = evaluation["methods"]
    steps = DataFrame(read_records(directory / "metrics.jsonl"))
    parts = steps.filter(regex=PART)
    summary = read_summary(directory)
    for name in ("before", "after"):
        row[name] = summary.get(name, {})
    return row | {
        "run": str(directory),
        "state": state(directory),
        "seed": flags["seed"],
        "commit": ", then ".join(record["code"]),
        "steps": steps.fillna(dict.fromkeys(parts, 0.0)),
    }


def text_of(value) -> str:
    """Return a trait as a text. What all agents have stands there once."""
    if isinstance(value, list):
        texts = list(map(str, value))
        if len(set(texts)) == 1:
            return texts[0]
    return str(value)


def traits(rows: DataFrame) -> list[str]:
    """Return the columns that tell one experiment from another."""
    columns = []
    for name in rows:
        if "/" not in name and name not in OTHERS:
            columns.append(name)
    return columns


def varying(rows: DataFrame, columns: list[str]) -> list[str]:
    """Return the columns in which the rows differ."""
    counts = rows[columns].nunique(dropna=False)
    return list(counts[counts > 1].index)


def list_runs(names: list[str]) -> str:
    """Return the list of runs: states, steps, returns, and the flags in which they differ.

    A flag that another commit lacks is left out, and so is what follows from other flags.
    """
    rows = read_runs(names)
    rows["steps"] = rows["steps"].map(len)
    known = rows.drop(columns=["items", "bases", "maximum", "unit"]).dropna(axis="columns")
    flags = varying(rows, traits(known))
    columns = [
        "run",
        "state",
        "steps",
        "before/return",
        "after/return",
        "seed",
        *flags,
    ]
    table = rows.reindex(columns=columns)
    return table.to_string(index=False, float_format="{:.3f}".format, na_rep="-")


# --- groups ---------------------------------------------------------------------------------------


def group_runs(rows: DataFrame, by: Collection[str]) -> list[str]:
    """Write each run's group into its row: its values of the columns that are returned.

    The groups differ in the traits, or in those of --by. Runs of other problems or units are never
    one group. Of these columns the first are returned that tell all groups apart.
    """
    known = traits(rows)
    if by:
        check("--by", by, [*known, "commit"])
        known = list(dict.fromkeys([*by, *PROBLEMS, *UNIT]))
    columns: list[str] = []
    count = 1
    for name in varying(rows, known):
        groups = rows[[*columns, name]].drop_duplicates()
        if len(groups) > count:
            columns.append(name)
            count = len(groups)
    names = []
    for values in rows[columns].to_dict("records"):
        pairs = [f"{name} {value}" for name, value in values.items()]
        names.append(", ".join(pairs) or "all")
    rows["group"] = names
    for run in rows["run"][rows.duplicated(["group", "seed"])]:
        raise ValueError(
            f"{run} has the seed of another run of its group: leave one out, or say in what groups "
            "differ, --by FLAG ... (--by commit: in their code)"
        )
    return columns


def check(flag: str, names: Collection[str], known: Collection[str]) -> None:
    for name in names:
        if name not in known:
            raise ValueError(f"{flag} {name}: no run has it")


def notes(rows: DataFrame, columns: list[str]) -> list[str]:
    """Return a line for each trait, and for the commit, in which runs differ beside the columns."""
    lines = []
    for column in varying(rows, ["commit", *traits(rows)]):
        if column not in columns:
            pairs = rows[[column, "group"]].drop_duplicates()
            values = [f"{value} ({name})" for value, name in pairs.to_numpy()]
            text = ", ".join(values)
            lines.append(f"{column}: {text}")
    return lines


# --- comparison -----------------------------------------------------------------------------------


def compare(names: list[str], by=(), metrics=(), csv=None, latex=None, out=None) -> str:
    """Return means and differences of groups of runs. Write the files that are named.

    by, metrics: names, as those of eval.py's flags.
    """
    rows = read_runs(names)
    columns = group_runs(rows, by)
    metrics = [name if name in rows else f"after/{name}" for name in metrics]
    steps = concat([*rows["steps"]])
    check("--metric", metrics, [*rows.filter(like="/"), *steps.add_prefix("after/")])
    metrics = metrics or METRICS
    if out:
        draw(rows, metrics, out)
    values = rows.set_index(["group", "seed"])
    values = values.reindex(columns=Index(metrics, name="metric"))
    kinds = {
        "mean": values,
        "difference": differences(rows, values),
    }
    table = estimates(concat(kinds, names=["kind"]))
    cells = table.apply(cell, axis=1).unstack(sort=False)
    if csv:
        table.to_csv(csv)
    if latex:
        cells.to_latex(latex, escape=True, caption=CAPTION)
    return "\n\n".join([CAPTION, cells.to_string(), *notes(rows, columns)])


def differences(rows: DataFrame, values: DataFrame) -> DataFrame:
    """Return the values minus those of the first group's runs of the same seeds.

    What is of other problems or of another unit is not subtracted.
    """
    first = rows.iloc[0]
    gaps = values.sub(values.loc[first["group"]], level="seed")
    for metric in values:
        unit = ["items", "evaluated" if metric.startswith("eval/") else "eval-limit"]
        if re.search("/(return$|reward/|agent/)", metric):
            unit = [*unit, *UNIT]
        same = (rows[unit] == first[unit]).all(axis=1)
        gaps.loc[~same.to_numpy(), metric] = None
    return gaps.drop(first["group"], level="group")


def estimates(values: DataFrame) -> DataFrame:
    """Return mean, standard error and 95 % interval over seeds, by kind, group and metric.

    One value has no error, and equal values have no interval: they do not show their spread.
    """
    drawn = values.stack().groupby(["kind", "group", "metric"], sort=False)
    table = drawn.agg(["count", "mean", "sem"])
    errors = table["sem"].where(table["sem"] > 1e-9)
    half = errors * table["count"].map(t95)
    table["low"] = table["mean"] - half
    table["high"] = table["mean"] + half
    return table


def t95(count: int) -> float:
    """Return half of a 95 % interval in standard errors, for a mean over so many values."""
    freedom = count - 1
    if freedom <= len(T95):
        return T95[freedom - 1]
    return 1.96 + 2.37 / freedom + 2.8 / freedom**2


def cell(row: Series) -> str:
    """Return a mean or a difference as a text."""
    if row["count"] == 0:
        return "-"
    count = f"({row['count']:g})"
    if row.name[0] == "mean":
        error = f"±{row['sem']:.3f} " if row["count"] > 1 else ""
        return f"{row['mean']:.3f} {error}{count}"
    interval = f"[{row['low']:+.3f}, {row['high']:+.3f}] " if row["low"] < row["high"] else ""
    return f"{row['mean']:+.3f} {interval}{count}"


def draw(rows: DataFrame, metrics: list[str], file: str) -> None:
    """Draw a panel for each metric that is measured at every step: a curve for each group."""
    from matplotlib.figure import Figure

    tables = rows.set_index(["group", "run"])["steps"]
    steps = concat(tables.to_dict())  # by group, run and step
    metrics = [name.removeprefix("after/") for name in metrics]
    metrics = [name for name in metrics if name in steps]
    if not metrics:
        raise ValueError("--out: no --metric is measured at every step, as return is")
    figure = Figure((8, 4 * len(metrics)), layout="constrained")
    for number, metric in enumerate(metrics, 1):
        label = f"{metric}: mean ± standard error over seeds"
        axes = figure.add_subplot(len(metrics), 1, number, xlabel="step", ylabel=label)
        seeds = steps[metric].unstack(1)
        for group, values in seeds.groupby(level=0, sort=False):
            draw_curve(axes, group, values.droplevel(0))
        axes.legend()
    try:
        figure.savefig(file, dpi=200)
    except ValueError as error:  # of a format that it does not know
        raise ValueError(f"--out {error}") from error


def draw_curve(axes, group: str, seeds: DataFrame) -> None:
    """Draw a group's running mean over steps, as far as all of its seeds have come.

    seeds: the values by step, a column for each seed.
    """
    seeds = seeds.dropna(axis="columns", how="all")
    seeds = seeds.dropna()
    window = len(seeds) // 20 * 2 + 1
    curves = seeds.rolling(window, center=True, min_periods=1).mean()
    mean = curves.mean(axis="columns")
    error = curves.sem(axis="columns")  # not a number, and not drawn, for one seed
    axes.plot(mean, label=group)
    low = mean - error
    high = mean + error
    axes.fill_between(mean.index, low, high, alpha=0.25)
