"""Compare groups of runs by what they measured on held-out problems: means and differences."""

import itertools
from collections import defaultdict
from collections.abc import Callable
from textwrap import indent

import pandas

from evaluation.groups import PROBLEMS, UNIT, Groups, Run, variation
from evaluation.measures import mean_and_error, t_interval
from evaluation.report import align, cell
from training.flags import meant, named

METRICS = ["before/return", "return", "greedy/return"]  # where no --metric is given
HEAD = "Held-out problems after training (before/...: before it): mean ± standard error over seeds"
PAIRS = "Difference of the n pairs of runs with one seed: mean [95 % interval, Student's t]"
MARKS = {
    "*": "*: one seed; the error is over its problems, and another seed may differ by more",
    "!": "!: two seeds hardly show their spread; train three or more",
}


def compare(groups: Groups, metrics: list[str]) -> dict[str, dict]:
    """Return the measures of each group, and "minus", their differences to those of the first.

    Groups of different problems are not subtracted, and returns of different units neither.
    """
    check_metrics(groups, metrics)
    first, *_ = groups
    table = {}
    for name, members in groups.items():
        row: dict = {"n": sum(bool(run.summary) for run in members)}
        minus: dict = {"group": first}
        traits = {*variation([groups[first][0], members[0]])}
        for metric in metrics:
            values, problems = measured(members, metric)
            row[metric] = estimate(values, problems)
            has_unit = metric.startswith("metric/") or not traits & UNIT
            if has_unit and not traits & PROBLEMS and not metric.startswith("before/"):
                first_values, first_problems = measured(groups[first], metric)
                gaps = (values - first_values).dropna()
                minus[metric] = estimate(gaps, problems - first_problems)
        if name != first:
            row["minus"] = minus
        table[name] = row
    return table


def check_metrics(groups: Groups, metrics: list[str]) -> None:
    """Raise ValueError for a metric that no run has, unless no run has any."""
    known = {}
    for run in itertools.chain(*groups.values()):
        known |= run.summary.get("after", {})
    for metric in metrics:
        name = metric.removeprefix("before/")
        if known and name not in known:
            listed = named(name for name in known if not name.endswith("_se"))
            raise ValueError(f"--metric {metric}{meant(name, known)}: the runs have {listed}")


def measured(members: list[Run], metric: str) -> tuple[pandas.Series, pandas.DataFrame]:
    """Return a measure by seed, and by problem and seed as far as that is recorded.

    A part of the reward that no response of a run had is 0 there, if other seeds have it.
    """
    name = metric.removeprefix("before/")
    when = "after" if name == metric else "before"
    evaluated = [run for run in members if run.summary.get(when)]
    values = {}
    problems = {}
    if any(name in run.summary[when] for run in evaluated):
        for run in evaluated:
            values[run.seed] = run.summary[when].get(name, 0.0)
            by_problem = run.summary["returns"][when].get(name, [])
            problems[run.seed] = pandas.Series(by_problem, dtype=float)
    return pandas.Series(values, dtype=float), pandas.DataFrame(problems)


def estimate(values: pandas.Series, problems: pandas.DataFrame) -> dict:
    """Return the mean over seeds, its standard error and its 95 % interval.

    `values` is by seed, `problems` by problem and seed. One seed has the error over its problems.
    """
    if values.empty:
        return {}
    over = "seeds"
    drawn = values
    by_problem = problems[values.index[0]].dropna()
    if len(values) == 1 and len(by_problem):
        over = "problems"
        drawn = by_problem
    mean = values.mean()
    _, error = mean_and_error(drawn.tolist())
    low, high = t_interval(mean, error, len(drawn))
    return {
        "mean": mean,
        "se": error,
        "low": low,
        "high": high,
        "over": over,
        "seeds": values.to_dict(),
    }


def render(
    table: dict,
    metrics: list[str],
    notes: list[str],
    form: Callable = align,
    comment: str = "",
) -> str:
    """Return the table, the differences and notes in a form of report.py.

    `comment` begins the lines of the notes.
    """
    rows = defaultdict(dict)
    pairs = defaultdict(dict)
    for name, row in table.items():
        rows[name]["n"] = row["n"]
        minus = row.get("minus", {})
        for metric in metrics:
            rows[name][metric] = mean_cell(row[metric])
            if metric in minus:
                pair = pairs[f"{name} - {minus['group']}"]
                pair["n"] = max(pair.get("n", 0), len(minus[metric].get("seeds", ())))
                pair[metric] = difference_cell(minus[metric])
    blocks = [form("group", rows, caption(HEAD, rows))]
    if pairs:
        blocks.append(form("difference", pairs, caption(PAIRS, pairs)))
    blocks.append(indent("\n".join(notes), comment))
    return "\n\n".join(filter(None, blocks))


def caption(title: str, rows: dict[str, dict]) -> str:
    """Return a table's title, with a line for each mark of its cells."""
    cells = ""
    for row in rows.values():
        cells += " ".join(map(str, row.values()))
    marks = [text for mark, text in MARKS.items() if mark in cells]
    return "\n".join([title, *marks])


def mean_cell(numbers: dict) -> str:
    """Return a mean with its standard error."""
    if not numbers:
        return "-"
    return cell(numbers["mean"], numbers["se"]) + mark(numbers)


def difference_cell(numbers: dict) -> str:
    """Return a mean difference with its interval."""
    if not numbers:
        return "-"
    text = f"{numbers['mean']:+.3f}"
    if numbers["low"] is not None:
        text += f" [{numbers['low']:+.3f}, {numbers['high']:+.3f}]"
    return text + mark(numbers)


def mark(numbers: dict) -> str:
    """Return the mark of a cell of one or two seeds, which the caption explains."""
    return {1: "*", 2: "!"}.get(len(numbers["seeds"]), "")
