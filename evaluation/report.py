"""Show an evaluation: the table, joint responses side by side."""

import itertools
import shutil
import textwrap

import pandas

from training.terminal import printable


def render(methods: dict[str, dict], measures: dict[str, str]) -> str:
    """Return the most important columns, and the shares of the schemes, as text.

    measures: the task's.
    """
    rates = [name for name in measures if not name.endswith("@k")]
    columns = ["return", "difference", "greedy/return", "pass@1", *rates, "metric/coop"]
    columns += ["tokens_per_problem", "latency_s"]
    rows: dict[str, dict] = {}
    schemes: dict[str, dict] = {}
    for method, row in methods.items():
        row = row | row.get("vs", {})
        rows[method] = {}
        for name in columns:
            if name in row:
                rows[method][name] = cell(row[name], row.get(f"{name}_se"))
        counted = row.get("schemes", {})
        total = sum(scheme["count"] for scheme in counted.values())
        schemes[method] = {}
        for name, scheme in counted.items():
            share = scheme["count"] / total
            schemes[method][name] = f"{share:.2f} ({scheme['pass_rate']:.2f})"
    return f"{align('method', rows)}\n\n{align('share (pass rate)', schemes)}".rstrip()


def cell(value: float, error: float | None) -> str:
    digits = 3 if abs(value) < 10 else 1
    text = f"{value:.{digits}f}"
    return text if error is None else f"{text} ±{error:.{digits}f}"


def align(corner: str, rows: dict[str, dict]) -> str:
    """Return the table of rows by name, which hold cells by column. Return "" without a cell.

    `corner` is the heading of the rows' names.
    """
    table = pandas.DataFrame(rows.values(), rows, dtype=object).fillna("-")
    return "" if table.empty else table.rename_axis(columns=corner).to_string()


def show(records: list[dict]) -> str:
    """Return the first joint response of each method to each problem, and its scores."""
    blocks = []
    shown = None  # the problem
    for record in sorted(records, key=lambda record: record["item"]):
        if record["sample"] > 0:
            continue
        if record["item"] != shown:
            shown = record["item"]
            blocks.append(f"=== {record['task_id'] or shown}")
            blocks.append(side_by_side(record["turns"][0]["prompts"]))
        decoding = "greedy" if record["greedy"] else "sampled"
        for number, turn in enumerate(record["turns"]):
            scores = []
            for name, value in turn["parts"].items():
                if not name.startswith("metric/"):
                    scores.append(f"{name} {value:.2f}")
            head = f"\n--- {record['method']}, {decoding}, turn {number}"
            blocks.append(f"{head}: {', '.join(scores)}")
            blocks.append(side_by_side(turn["responses"]))
            if any(turn["feedback"]):
                blocks += ["--- feedback", side_by_side(turn["feedback"])]
        if scores:
            blocks.append(f"return {record['return']:.3f}")
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
