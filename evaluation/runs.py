"""Read runs as the rows of one table. List them, compare groups of them, and draw their curves.

Columns of numbers are measures. `return` is summary.json's after training, `before/return` the one
before it, and `eval/METHOD/return` is of eval.json. Columns of texts are traits, but for OTHERS and
the commit: the flags, and what else tells one experiment from another. A group is the runs that
agree in all traits, or in those of --by. So who is in a group does not depend on the other runs.
The runs of a group are its seeds.
"""

import difflib
import functools
import itertools
import json
import re
from pathlib import Path

from pandas import DataFrame, Series, concat, json_normalize

from policies import Mistake
from rewards import EQUAL, largest_return
from training.items import digest
from training.run_folder import ASIDE, read_args, read_json, read_records, run_folders, state

RECORDED = ["items", "maximum", "unit", "bases", "max_steps"]  # beside the flags
OTHERS = ["run", "state", "evaluated", "test", "largest"]  # texts that are not traits
UNIT = ["largest", "reward"]  # of returns; teams of other sizes share it
METRICS = ["before/return", "return", "greedy/return"]
# Student's t, two-sided 95 %, for 1, 2, ... degrees of freedom
T95 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)
CAPTION = """\
Means over seeds, and differences to the first group over pairs of runs with one seed, \
with standard errors and .95 intervals of Student's t. \
-: an error needs 2 seeds, whose values differ, and a difference the same problems and reward"""
COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")  # Okabe, Ito
STYLES = ("-", "--", "-.", ":")  # they tell curves apart without colours, too
WIDTH = 120  # of a terminal, in columns


# --- rows -----------------------------------------------------------------------------------------


def read_runs(names: list[str], defaults: dict) -> DataFrame:
    """Return a row for each run. A value that a run lacks is missing.

    defaults: the flags of a run that another commit trained may lack some of them.
    """
    runs = [read_run(directory, defaults) for directory in run_folders(names)]
    return json_normalize(runs, sep="/")


def read_run(directory: Path, defaults: dict) -> dict:
    """Return the row of a run. Traits are texts."""
    # Runs of older commits lack what has a default here, and `largest_return`.
    record = {"items": {}, "maximum": 0.0, "unit": None} | read_args(directory)
    flags = defaults | record["args"]
    flags["batch_size"] *= flags["devices"] * flags["num_nodes"]
    flags["engine"] = bool(flags["engine"])
    summary = read_json(directory, "summary.json")
    evaluation = read_json(directory, "eval.json")
    paid = 1 if record["unit"] == "episode" else flags["turns"]  # so many times in an episode
    largest = largest_return(record["maximum"], paid, flags["gamma"])
    row = summary.get("after", {}) | {
        "before": summary.get("before", {}),
        "run": str(directory),
        "state": state(directory),
        "seed": flags["seed"],
        "commit": ", then ".join(record.get("code", [])),
        "eval": evaluation.get("methods", {}),
        "evaluated": str(evaluation.get("settings")),
        "test": str(record["items"].get("test")),  # a digest of the problems
        "largest": str(record.get("largest_return", largest)),
        "steps": DataFrame(read_records(directory / "metrics.jsonl")),
    }
    traits = flags | {name: record.get(name) for name in RECORDED}
    for name, value in traits.items():
        if isinstance(value, list) and len(set(value)) == 1:
            value = value[0]  # of each agent
        if isinstance(value, dict):
            value = json.dumps(value, sort_keys=True)
        if name in ("items", "bases"):  # digests by name
            value = digest(value)[:6]
        if name not in ASIDE:
            row[name.replace("_", "-")] = str(value)
    return row


def differing(rows: DataFrame) -> DataFrame:
    """Return the columns of the traits, and of the commit, in which runs differ."""
    texts = rows.select_dtypes("str")
    texts = texts.drop(columns=OTHERS)
    counts = texts.nunique(dropna=False)
    return texts.loc[:, counts > 1]


def list_runs(rows: DataFrame) -> str:
    """Return the list of runs: states, steps, returns, and the flags in which they differ.

    A flag that another commit lacks is left out, and so are commits and digests.
    """
    rows["steps"] = rows["steps"].map(len)
    known = rows.drop(columns=["commit", "items", "bases"])
    flags = differing(known.dropna(axis="columns"))
    columns = ["state", "steps", "before/return", "return", "seed", *flags]
    table = rows.set_index("run").reindex(columns=columns)
    table = table.rename_axis(index=None, columns="run")
    return table.to_string(float_format="%.3f", na_rep="-", line_width=WIDTH)


# --- groups ---------------------------------------------------------------------------------------


def group_runs(rows: DataFrame, by: list[str]) -> DataFrame:
    """Return the rows by group and seed.

    The groups differ in the traits, or in those of --by. Runs of other problems or units are never
    one group. A group is named by its values of the first columns that tell all groups apart.
    """
    check("--by", by, rows.select_dtypes("str"))
    columns = [*differing(rows.drop(columns="commit"))]
    if by:
        columns = [*by, "test", "eval-limit", *UNIT]
    groups = Series("", rows.index)
    for column in columns:
        finer = groups + ", " + rows[column].map(functools.partial(trait, column))
        if finer.nunique() > groups.nunique():
            groups = finer
    groups = groups.str.removeprefix(", ").replace("", "all")
    rows = rows.set_index([groups.rename("group"), "seed"])
    for run in rows["run"][rows.index.duplicated()]:
        raise Mistake(
            f"{run} has the seed of another run of its group: leave one out, or say in what groups "
            "differ, --by FLAG ... (--by commit: in their code)"
        )
    return rows


def trait(name: str, value: str) -> str:
    """Return how a group is named after a trait: advantage mean, share, no share."""
    match value:
        case "True":
            return name
        case "False" | "None":
            return f"no {name}"
    return f"{name} {value}"


def check(flag: str, names, known) -> None:
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, known)
            raise Mistake(f"{flag} {name}: no run has it (near it: {', '.join(near) or 'nothing'})")


# --- comparison -----------------------------------------------------------------------------------


def compare(rows: DataFrame, by, metrics, csv, latex, out) -> str:
    """Return means and differences of groups of runs, and the traits in which runs differ.

    Write the files that are named. The arguments after `rows` are eval.py's flags.
    """
    rows = group_runs(rows, by)
    steps = {*itertools.chain(*rows["steps"])}  # what is measured at each step
    measures = rows.select_dtypes("number")
    check("--metric", metrics, dict.fromkeys([*measures, *steps]))
    metrics = list(dict.fromkeys(metrics or METRICS))
    known = {*METRICS, *measures}  # held out
    held_out = [name for name in metrics if name in known or name not in steps]
    for name in metrics:
        if name not in held_out and not out:
            raise Mistake(f"--metric {name} is of each step, and not held out: --out draws it")
    if any(metric.startswith("eval/") for metric in metrics):
        played = rows[rows["evaluated"] != "None"]
        ways = played.groupby("group")["evaluated"].nunique()
        for group in ways.index[ways > 1]:
            raise Mistake(f"evaluate the runs of {group} in one way: eval.py --run RUN ...")
        rows["eval"] = rows["evaluated"]  # a trait of what is shown
    if out:
        draw(rows, [name for name in metrics if name in steps], out)
    values = measures.reindex(columns=held_out)
    kinds = {"mean": values, "difference": differences(rows, values)}
    table = estimates(concat(kinds, names=["kind"]))
    if csv:
        table.to_csv(csv)
    if latex:
        text = table.to_latex(float_format="%.3f", na_rep="-", escape=True, caption=CAPTION)
        latex.write_text(f"% \\usepackage{{booktabs, multirow}}\n{text}", "utf-8")
    text = "no --metric is held out"
    if held_out:
        text = table.to_string(float_format="%.3f", na_rep="-")
    groups = differing(rows).reset_index("group").drop_duplicates()
    traits = groups.T.to_csv(header=False, sep="|")  # a line for each, not aligned: some are long
    return f"{CAPTION}\n\n{text}\n\n{traits}"


def differences(rows: DataFrame, values: DataFrame) -> DataFrame:
    """Return the values minus those of the first group's runs of the same seeds.

    Values of other problems or of another unit are not subtracted.
    """
    group, _ = rows.index[0]  # and its seed
    partners = rows.loc[group].reindex(rows.index, level="seed")
    gaps = values.sub(values.loc[group], level="seed")
    for metric in values:
        unit = ["test", "eval-limit"]
        if metric.startswith("eval/"):
            unit = ["evaluated"]  # with the reward of eval.py --reward, for example
        elif re.search("(^|/)(return$|reward/|agent/)", metric):
            unit += UNIT
        same = (rows[unit] == partners[unit]).all(axis=1)
        gaps[metric] = gaps[metric].where(same)
    return gaps.drop(group, level="group")


def estimates(values: DataFrame) -> DataFrame:
    """Return mean, standard error and 95 % interval over seeds, by metric, kind and group.

    One value has no error, and equal values have none: they do not show their spread.
    """
    drawn = values.melt(var_name="metric", ignore_index=False)
    groups = drawn.groupby(["metric", "kind", "group"], sort=False)
    table = groups["value"].agg(["count", "mean", "sem"])
    table["sem"] = table["sem"].where(table["sem"] > EQUAL)
    half = table["sem"] * table["count"].map(t95)
    table["low"] = table["mean"] - half
    table["high"] = table["mean"] + half
    return table


def t95(count: int) -> float:
    """Return half of a 95 % interval in standard errors, for a mean over so many values."""
    freedom = count - 1
    if freedom <= len(T95):
        return T95[freedom - 1]
    return 1.96 + 2.37 / freedom + 2.8 / freedom**2


def draw(rows: DataFrame, metrics: list[str], file: str) -> None:
    """Draw a panel for each metric, of those that are measured at every step.

    It has a curve for each group: a mean over seeds, as far as all of them have come. It is a
    running mean, but for the ends, which have too few neighbours.
    """
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    if not metrics:
        raise Mistake("--out: no --metric is measured at every step, as return is")
    figure = Figure((10, 4 * len(metrics)), layout="constrained")
    for number, metric in enumerate(metrics, 1):
        axes = figure.add_subplot(len(metrics), 1, number, xlabel="training batches")
        unit = ", share of the maximum" if metric.endswith("return") else ""
        axes.set_ylabel(f"{metric}{unit}\n(mean ± standard error over seeds)")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set_prop_cycle(color=COLORS * len(STYLES), linestyle=STYLES * len(COLORS))
        for group in rows.index.unique(0):
            runs = rows["steps"].loc[group]
            seeds = {seed: steps.reindex(columns=[metric])[metric] for seed, steps in runs.items()}
            values = DataFrame(seeds).dropna()
            window = len(values) // 20 * 2 + 1
            curves = values.rolling(window, center=True).mean().fillna(values)
            mean = curves.mean(axis="columns")
            error = curves.sem(axis="columns")  # not a number, and not drawn, for one seed
            batches = mean.index + 1
            [line] = axes.plot(batches, mean, label=group)
            axes.fill_between(
                batches, mean - error, mean + error, alpha=0.25, color=line.get_color()
            )
        axes.legend(loc="upper left", bbox_to_anchor=(1, 1))
    try:
        figure.savefig(file, dpi=200)
    except ValueError as error:  # of a format that it does not know
        raise Mistake(f"--out {error}") from error
