"""What eval.py prints and writes: the table, joint responses side by side, CSV, samples."""

import csv
import itertools
import shutil
import textwrap
from pathlib import Path

from training.folder import json_lines


def render(table: dict, measures: dict[str, str]) -> str:
    """The table as it is shown in a terminal, about 100 columns wide; measures: the task's."""
    settings, methods = table["settings"], table["methods"]
    names = dict.fromkeys(k for row in methods.values() for k in row if not k.endswith("_se"))
    own, blocks = [name.removesuffix("k") for name in measures], [settings["title"]]
    for starts in (
        ["return", "greedy/return", "reward/", "agent/"],
        [*own, "distinct"],
        ["length/", "tokens_per_", "latency_s"],
    ):
        columns = [n for start in starts for n in names if n.startswith(start)]
        blocks += [_block(methods, columns[n : n + ACROSS]) for n in range(0, len(columns), ACROSS)]
    blocks += [_pairs(methods), _scheme_block(methods)]
    blocks += [settings["timed"]] if "latency_s" in names else []
    return "\n\n".join(filter(None, blocks))


ACROSS = 6  # columns beside each other
HEADER = {"settings", "items", "timing", "measures"}  # what a samples file's first line has
LABELS = {"greedy/return": "greedy", "tokens_per_problem": "tokens"}
LABELS |= {"latency_s": "latency (s)", "tokens_per_s": "tokens/s"}


def _block(methods: dict[str, dict], columns: list[str]) -> str:
    """Methods x measures, with their errors."""
    short = [c.removeprefix("reward/").removeprefix("metric/").replace("_", " ") for c in columns]
    rows = [["method", *map(LABELS.get, columns, short)]]
    for name, row in methods.items():
        rows.append([name, *(_cell(row.get(c), row.get(f"{c}_se")) for c in columns)])
    return align(rows)


def _cell(value: float | None, error: float | None = None) -> str:
    if value is None:
        return "-"
    digits = 3 if abs(value) < 10 else 1
    return f"{value:.{digits}f}" + ("" if error is None else f" ±{error:.{digits}f}")


def align(rows: list[list[str]]) -> str:
    """Rows of cells as lines, the first column to the left and the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for name, *cells in rows:
        padded = [cell.rjust(width) for cell, width in zip(cells, widths[1:], strict=True)]
        lines.append("  ".join([name.ljust(widths[0]), *padded]).rstrip())
    return "\n".join(lines)


def _pairs(methods: dict[str, dict]) -> str:
    rows = [["", "difference of return", "win", "tie", "loss"]]
    for name, row in methods.items():
        if vs := row.get("vs"):
            gap = _cell(vs["difference"], vs["difference_se"])
            counts = [str(vs[key]) for key in ("win", "tie", "loss")]
            rows.append([f"{name} - {vs['method']}", gap, *counts])
    return align(rows) if len(rows) > 1 else ""


def _scheme_block(methods: dict[str, dict]) -> str:
    """Share of each cooperation scheme among the joint responses, its pass rate in brackets."""
    seen = list(dict.fromkeys(name for row in methods.values() for name in row.get("schemes", {})))
    rows = [["share (pass rate)", *seen]]
    for name, row in methods.items():
        found = row.get("schemes", {})
        total = sum(entry["count"] for entry in found.values())
        cells = [found.get(scheme) for scheme in seen]
        texts = [c and f"{c['count'] / total:.2f} ({c['pass_rate']:.2f})" for c in cells]
        rows.append([name, *(text or "-" for text in texts)])
    return align(rows) if seen else ""


def show(header: dict, records: list[dict], count: int) -> str:
    """The first joint response of each method to `count` problems, with every component's score."""
    shown = []
    for number, item in enumerate(header["items"][:count]):
        shown += [f"=== {item['task_id'] or number}", side_by_side(item["prompts"]), ""]
        for record in [r for r in records if r["item"] == number and r["sample"] == 0]:
            kind = "greedy" if record["greedy"] else "sampled"
            for turn, played in enumerate(record["turns"]):
                paid = {k: v for k, v in played["parts"].items() if not k.startswith("metric/")}
                scores = ", ".join(f"{name} {value:.2f}" for name, value in paid.items())
                head = f"--- {record['method']}, {kind}, turn {turn}: {scores}"
                shown += [head, side_by_side(played["responses"])]
            shown[-1] += f"\nreturn {record['return']:.3f}"
    return "\n".join(shown)


def side_by_side(texts: list[str]) -> str:
    """One column per agent, as wide as the terminal allows."""
    width = max(shutil.get_terminal_size((100, 0)).columns // len(texts) - 3, 20)
    columns = []
    for agent, text in enumerate(texts):
        rows = [f"agent {agent}"]
        for line in printable(text).splitlines():
            rows += textwrap.wrap(line, width, drop_whitespace=False) or [""]
        columns.append(rows)
    rows = itertools.zip_longest(*columns, fillvalue="")
    return "\n".join(" | ".join(cell.ljust(width) for cell in row).rstrip() for row in rows)


def printable(text: str) -> str:
    """A model's text without what would control the terminal."""
    return "".join(c for c in text.expandtabs(4) if c.isprintable() or c == "\n")


def read_samples(file: str) -> tuple[dict, list[dict]]:
    """The header and the records of a --samples file."""
    header, *records = [row for _, row in json_lines(Path(file))] or [None]
    if not records or not isinstance(header, dict) or HEADER - header.keys():
        raise ValueError(f"{file} is no file of eval.py --samples")
    return header, records


def write_csv(file: str, methods: dict[str, dict]) -> None:
    """A line per method; names of nested measures are joined by slashes."""

    def flat(row: dict, prefix: str = ""):
        for key, value in row.items():
            if isinstance(value, dict):
                yield from flat(value, f"{prefix}{key}/")
            else:
                yield prefix + key, value

    rows = [{"method": name, **dict(flat(row))} for name, row in methods.items()]
    columns = list(dict.fromkeys(key for row in rows for key in row))
    with Path(file).open("w", newline="") as out:
        writer = csv.DictWriter(out, columns)
        writer.writeheader()
        writer.writerows(rows)
