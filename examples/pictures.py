"""Draw the pictures of docs/ that need no run.

    python -m examples.pictures     # seconds

`group.png` and `build.png` are figures that teaching.ipynb has stored. `coder.png` shows the table
of `coder` in docs/results/real.md. CONTRIBUTING.md names what makes the other pictures.
"""

import base64
import json
import re
from pathlib import Path

from matplotlib.figure import Figure

from evaluation.runs import COLORS

ROOT = Path(__file__).parent.parent
STORED = {"group.png": "column_advantage, color", "build.png": "draw_run"}  # words of the cell
PANELS = {"MBPP Pro": (1, 2), "HumanEval Pro": (4, 5)}  # columns of the table
MEASURES = (("passes", ""), ("passes, and needs both", "///"))
HEIGHT = 0.38  # of a bar, where rows are 1 apart


def stored_figure(words: str) -> bytes:
    """Return the picture that the notebook's cell with these words has stored."""
    notebook = json.loads((ROOT / "teaching.ipynb").read_text("utf-8"))
    for cell in notebook["cells"]:
        if words in "".join(cell["source"]):
            for output in cell.get("outputs", []):
                if "image/png" in output.get("data", {}):
                    return base64.b64decode(output["data"]["image/png"])
    raise SystemExit(f"teaching.ipynb has stored no picture of a cell with {words!r}")


def coder_table() -> dict[str, list[str]]:
    """Return the cells of the table of `coder`, by the name of their row."""
    page = (ROOT / "docs/results/real.md").read_text("utf-8")
    table = {}
    for row in re.findall(r"^\| \d\.5B, .*\|$", page, re.MULTILINE):
        _, name, *cells, _ = row.split("|")
        table[name.strip()] = cells
    return table


def draw_coder(table: dict[str, list[str]], path: Path) -> None:
    """Draw a panel for each data set: what passes, and what needs both agents, with errors."""
    figure = Figure((9, 4.2), layout="constrained")
    grid = figure.subplots(1, len(PANELS), sharey=True)
    for axes, (title, columns) in zip(grid, PANELS.items(), strict=True):
        for number, (label, hatch) in enumerate(MEASURES):
            color = COLORS[number]
            style = {"color": color, "hatch": hatch, "edgecolor": "white", "capsize": 2}
            for row, cells in enumerate(table.values()):
                values = re.findall(r"\.\d+", cells[columns[number] - 1])
                if values:  # not "not run"
                    share, error = map(float, values)
                    name = label if row == 0 else None
                    place = row + (number - 0.5) * HEIGHT
                    axes.barh(place, share, HEIGHT, xerr=error, label=name, **style)
        axes.set(title=title, xlabel="share of the problems (± standard error)", xlim=(0, 0.6))
    grid[0].set_yticks(range(len(table)), table)
    grid[0].invert_yaxis()
    entries = grid[0].get_legend_handles_labels()
    figure.legend(*entries, loc="outside lower center", ncols=len(MEASURES), frameon=False)
    figure.savefig(path, dpi=100)


def main() -> None:
    docs = ROOT / "docs"
    for name, words in STORED.items():
        (docs / name).write_bytes(stored_figure(words))
    draw_coder(coder_table(), docs / "coder.png")


if __name__ == "__main__":
    main()
