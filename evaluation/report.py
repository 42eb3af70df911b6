"""Show an evaluation: the table, joint responses side by side, CSV, samples."""

import fnmatch
import itertools
import shutil
import textwrap

from programs.rows import file_rows
from training.terminal import printable

ACROSS = 6  # columns beside each other
HEADER = {"settings", "items", "timing", "measures"}  # what a samples file's first line has
BRIEF = ["return", "greedy/return", "pass@1", "metric/coop", "tokens_per_problem"]
LABELS = {
    "greedy/return": "greedy",
    "tokens_per_problem": "tokens",
    "latency_s": "latency (s)",
    "tokens_per_s": "tokens/s",
}


def render(table: dict, measures: dict, everything: bool) -> str:
    """Return the table for a terminal, about 100 columns wide. measures: the task's.

    everything: all columns, and not only the most important ones.
    """
    methods = table["methods"]
    names = dict.fromkeys(name for row in methods.values() for name in row)
    kinds = [BRIEF]
    if everything:
        kinds = [
            ["return", "greedy/return", "reward/*", "agent/*"],
            [*(name.replace("@k", "@*") for name in measures), "distinct"],
            ["length/*", "tokens_per_*", "latency_s"],
        ]
    blocks = [table["settings"]["title"]]
    for patterns in kinds:
        columns = []
        for pattern in patterns:
            shown = fnmatch.filter(names, pattern)
            columns += [name for name in shown if not name.endswith("_se")]
        for number in range(0, len(columns), ACROSS):
            blocks.append(_block(methods, columns[number : number + ACROSS]))
    blocks.append(_pairs(methods))
    blocks.append(_scheme_block(methods))
    if not everything:
        blocks.append("--all shows every column")
    elif "latency_s" in names:
        blocks.append(table["settings"]["timed"])
    return "\n\n".join(filter(None, blocks))


def _block(methods: dict, columns: list[str]) -> str:
    """Return methods x measures, with their errors."""
    header = ["method"]
    for column in columns:
        short = column.removeprefix("reward/").removeprefix("metric/").replace("_", " ")
        header.append(LABELS.get(column, short))
    rows = [header]
    for name, row in methods.items():
        rows.append([name, *(_cell(row.get(c), row.get(f"{c}_se")) for c in columns)])
    return align(rows)


def _cell(value: float | None, error: float | None) -> str:
    if value is None:
        return "-"
    digits = 3 if abs(value) < 10 else 1
    text = f"{value:.{digits}f}"
    return text if error is None else f"{text} ±{error:.{digits}f}"


def align(rows: list[list[str]]) -> str:
    """Return rows of cells as lines, the first column to the left and the others to the right."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = []
    for name, *cells in rows:
        line = name.ljust(widths[0])
        for cell, width in zip(cells, widths[1:], strict=True):
            line += "  " + cell.rjust(width)
        lines.append(line.rstrip())
    return "\n".join(lines)


def _pairs(methods: dict) -> str:
    """Return the comparisons with the first method, or "" where there is one method."""
    rows = [["", "difference of return", "win", "tie", "loss"]]
    for name, row in methods.items():
        if vs := row.get("vs"):
            gap = _cell(vs["difference"], vs["difference_se"])
            counts = [str(vs[key]) for key in ("win", "tie", "loss")]
            rows.append([f"{name} - {vs['method']}", gap, *counts])
    return align(rows) if len(rows) > 1 else ""


def _scheme_block(methods: dict) -> str:
    """Return each scheme's share of the joint responses, its pass rate in brackets."""
    names = dict.fromkeys(name for row in methods.values() for name in row.get("schemes", ()))
    rows = [["share (pass rate)", *names]]
    for method, row in methods.items():
        schemes = row.get("schemes", {})
        total = sum(scheme["count"] for scheme in schemes.values())
        cells = [method]
        for name in names:
            cell = "-"
            if scheme := schemes.get(name):
                cell = f"{scheme['count'] / total:.2f} ({scheme['pass_rate']:.2f})"
            cells.append(cell)
        rows.append(cells)
    return align(rows) if names else ""


def show(header: dict, records: list[dict], count: int) -> str:
    """Return the first joint response of each method to `count` problems, and its scores."""
    blocks = []
    for number, item in enumerate(header["items"][:count]):
        blocks += [f"=== {item['task_id'] or number}", side_by_side(item["prompts"]), ""]
        for record in records:
            if record["item"] != number or record["sample"] != 0:
                continue
            decoding = "greedy" if record["greedy"] else "sampled"
            for number_of_turn, turn in enumerate(record["turns"]):
                scores = []
                for name, value in turn["parts"].items():
                    if not name.startswith("metric/"):
                        scores.append(f"{name} {value:.2f}")
                head = f"--- {record['method']}, {decoding}, turn {number_of_turn}"
                blocks += [f"{head}: {', '.join(scores)}", side_by_side(turn["responses"])]
            blocks[-1] += f"\nreturn {record['return']:.3f}"
    return "\n".join(blocks)


def side_by_side(texts: list[str]) -> str:
    """Return one column per agent, as wide as the terminal allows."""
    width = max(shutil.get_terminal_size((100, 0)).columns // len(texts) - 3, 20)
    columns = []
    for agent, text in enumerate(texts):
        lines = [f"agent {agent}"]
        for line in printable(text).splitlines():
            lines += textwrap.wrap(line, width, drop_whitespace=False) or [""]
        columns.append(lines)
    rows = itertools.zip_longest(*columns, fillvalue="")
    return "\n".join(" | ".join(cell.ljust(width) for cell in row).rstrip() for row in rows)


def read_samples(file: str) -> tuple[dict, list[dict]]:
    """Return the header and the records of a --samples file."""
    header, *records = [row for _, row in file_rows(file, ".jsonl")]
    if not records or HEADER - header.keys():
        raise ValueError(f"{file} is no file of eval.py --samples")
    return header, records


def write_csv(file: str, methods: dict) -> None:
    """Write a line per method. Names of nested measures are joined by slashes."""
    import pandas  # comes with datasets

    rows = [{"method": name} | row for name, row in methods.items()]
    table = pandas.json_normalize(rows, sep="/").convert_dtypes()
    table.to_csv(file, index=False)
