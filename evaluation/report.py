"""Show an evaluation: the table, joint responses side by side, CSV, samples."""

import fnmatch
import itertools
import re
import shutil
import textwrap
from pathlib import Path

from training.run_folder import json_lines
from training.terminal import printable

ACROSS = 6  # columns beside each other
BRIEF = ["return", "greedy/return", "pass@1", "metric/coop", "tokens_per_problem"]
LABELS = {
    "greedy/return": "greedy",
    "tokens_per_problem": "tokens",
    "latency_s": "latency (s)",
    "tokens_per_s": "tokens/s",
}


def render(table: dict, measures: dict, everything: bool) -> str:
    """Return the table for a terminal, about 100 columns wide. measures: the task's.

    everything: more columns than the most important ones.
    """
    methods = table["methods"]
    names = {}  # of the measures of any method, without their errors
    for row in methods.values():
        names |= dict.fromkeys(name for name in row if not name.endswith("_se"))
    kinds = [BRIEF]
    if everything:
        kinds = [
            ["return", "greedy/return", "reward/*", "agent/*"],
            [*(name.replace("@k", "@*") for name in measures), "distinct"],
            ["length/*", "tokens_per_*", "longest*", "latency_s*"],
        ]
    blocks = [table["settings"]["title"]]
    for patterns in kinds:
        columns = []
        for pattern in patterns:
            columns += fnmatch.filter(names, pattern)
        for number in range(0, len(columns), ACROSS):
            blocks.append(block(methods, columns[number : number + ACROSS]))
    blocks.append(_pairs(methods))
    blocks.append(_scheme_block(methods))
    if not everything:
        blocks.append("--all shows more columns")
    elif "latency_s" in names:
        blocks.append(table["settings"]["timed"])
    return "\n\n".join(filter(None, blocks))


def block(methods: dict, columns: list[str]) -> str:
    """Return methods x measures, with their errors."""
    rows = {name: {} for name in methods}
    for column in columns:
        short = column.removeprefix("reward/").removeprefix("metric/").replace("_", " ")
        label = LABELS.get(column, short)
        for name, row in methods.items():
            rows[name][label] = cell(row.get(column), row.get(f"{column}_se"))
    return align("method", rows)


def cell(value: float | None, error: float | None) -> str:
    if value is None:
        return "-"
    digits = 3 if abs(value) < 10 else 1
    text = f"{value:.{digits}f}"
    return text if error is None else f"{text} ±{error:.{digits}f}"


def align(corner: str, rows: dict[str, dict], caption: str = "") -> str:
    """Return the table of rows by name, which hold cells by column. Return "" without a cell.

    `corner` is the heading of the rows' names. The caption stands above the table.
    """
    table = _table(rows)
    if table.empty:
        return ""
    columns = table.T.rename_axis(corner).reset_index()
    text = columns.T.to_string(header=False)  # the headings are its first row
    return f"{caption}\n\n{text}".lstrip()


def _table(rows: dict[str, dict]):
    import pandas  # comes with datasets

    return pandas.DataFrame(rows.values(), rows, dtype=object).fillna("-")


def markdown(corner: str, rows: dict[str, dict], caption: str) -> str:
    """Return the table that `align` returns, in Markdown."""
    table = _table(rows).rename_axis(corner).reset_index()
    lines = [caption, ""]
    rule = ["---"] * len(table.columns)
    for cells in [table.columns, rule, *table.values]:
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def latex(corner: str, rows: dict[str, dict], caption: str) -> str:
    """Return the table that `align` returns, in LaTeX with the package booktabs."""
    table = _table(rows).rename_axis(corner).reset_index()
    caption = caption.replace("%", r"\%").replace("\n", ". ")
    text = table.to_latex(index=False, escape=True, caption=caption)
    text = text.replace("--", "-{}-")  # LaTeX would join a flag's hyphens
    text = re.sub(r"(?<![\w-])-(?=\d)", "$-$", text)  # a minus, and not a hyphen
    return text.replace("±", r"$\pm$ ")


def _pairs(methods: dict) -> str:
    """Return the comparisons with the first method, or "" where there is one method."""
    rows = {}
    for name, row in methods.items():
        if vs := row.get("vs"):
            gap = cell(vs["difference"], vs["difference_se"])
            counts = {key: vs[key] for key in ("win", "tie", "loss")}
            rows[f"{name} - {vs['method']}"] = {"difference of return": gap} | counts
    return align("", rows)


def _scheme_block(methods: dict) -> str:
    """Return each scheme's share of the joint responses, its pass rate in brackets."""
    rows = {}
    for method, row in methods.items():
        schemes = row.get("schemes", {})
        total = sum(scheme["count"] for scheme in schemes.values())
        rows[method] = {}
        for name, scheme in schemes.items():
            share = scheme["count"] / total
            rows[method][name] = f"{share:.2f} ({scheme['pass_rate']:.2f})"
    return align("share (pass rate)", rows)


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
                if any(turn.get("feedback", [])):
                    blocks += ["--- feedback", side_by_side(turn["feedback"])]
            blocks[-1] += f"\nreturn {record['return']:.3f}"
    return "\n".join(blocks)


def side_by_side(texts: list[str]) -> str:
    """Return one column per agent, as wide as the terminal allows."""
    terminal = shutil.get_terminal_size((100, 0))
    width = max(terminal.columns // len(texts) - 3, 20)
    columns = []
    for agent, text in enumerate(texts):
        lines = [f"agent {agent}"]
        for line in printable(text).splitlines():
            lines += textwrap.wrap(line, width, drop_whitespace=False) or [""]
        columns.append(lines)
    rows = []
    for row in itertools.zip_longest(*columns, fillvalue=""):
        cells = [cell.ljust(width) for cell in row]
        rows.append(" | ".join(cells).rstrip())
    return "\n".join(rows)


def read_samples(file: str) -> tuple[dict, list[dict]]:
    """Return the header and the records of a --samples file."""
    rows = [row for _, row in json_lines(Path(file))]
    match rows:
        case [{"settings": _, "items": _, "timing": _, "measures": _} as header, *records]:
            names = {*header["measures"]}
            for record in records:
                names.add(record["method"])
                for turn in record["turns"]:
                    names |= turn["parts"].keys()
            check_names(file, names)
            return header, records
    raise ValueError(f"{file} is no file of eval.py --samples")


def check_names(file: str, names: set[str]) -> None:
    """Raise ValueError for a name that a terminal or a program for tables would execute."""
    for name in names:
        if not name.isprintable() or name.startswith(("=", "+", "-", "@")):
            raise ValueError(f"{file} has a name that is a command elsewhere: {name!r:.200}")


def write_csv(file: str, corner: str, table: dict) -> None:
    """Write a line per row of the table. Names of nested measures are joined by slashes."""
    import pandas

    rows = [{corner: name} | row for name, row in table.items()]
    lines = pandas.json_normalize(rows, sep="/").convert_dtypes()
    lines.to_csv(file, index=False)
