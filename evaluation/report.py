"""Show an evaluation: the table, and the joint responses to a problem."""

import itertools
import re
from collections.abc import Iterable

from pandas import DataFrame


def render(methods: dict[str, dict], measures: dict[str, str]) -> str:
    """Return the most important columns, and the shares of the schemes, as text.

    measures: the task's.
    """
    rates = [name for name in measures if not name.endswith("@k")]
    names = dict.fromkeys(itertools.chain(*methods.values()))
    paid = [name for name in names if re.fullmatch("agent/[0-9]+/reward", name)]
    columns = [
        "return",
        *paid,
        "difference",
        "greedy/return",
        "pass@1",
        *rates,
        "metric/coop",
        "tokens_per_problem",
        "latency_s",
    ]
    text = align(methods, columns)
    schemes = [name for name in names if re.fullmatch("scheme/.*(?<!_se)", name)]
    if schemes:
        text += f"\n\n{align(methods, schemes)}"
    return text


def align(methods: dict[str, dict], columns: list[str]) -> str:
    """Return a table of those of the columns that the methods have."""
    rows = []
    for row in methods.values():
        cells = {name: cell(row, name) for name in columns if name in row}
        rows.append(cells)
    table = DataFrame(rows, methods)
    table = table.filter(items=columns)
    table = table.rename_axis(columns="method")
    return table.to_string(na_rep="-")


def cell(row: dict, name: str) -> str:
    """Return a measure of a method, with its error if it has one."""
    value = row[name]
    error = row.get(f"{name}_se")
    digits = 3 if abs(value) < 10 else 1
    text = f"{value:.{digits}f}"
    return text if error is None else f"{text} ±{error:.{digits}f}"


def show(records: Iterable[dict]) -> str:
    """Return the first joint response of each method to each problem."""
    from training.held_out import shown  # not before a wrong name is told: it loads torch

    first = [record for record in records if record["sample"] == 0]
    lines = []
    for record in sorted(first, key=lambda record: record["item"]):
        way = "greedy" if record["greedy"] else "sampled"
        lines.append(f"\n=== {record['method']}, {way}")
        for turn in record["turns"]:
            lines.append(shown(turn))
    return "\n".join(lines)
