"""Draw measures of evaluations as bars, with their standard errors over problems.

python -m bench.bars PICTURE "MBPP Pro=pair.json,single.json" "HumanEval Pro=pair-2.json,..."

A panel has a title and the files of eval.py --json whose methods it shows. The measures are pass@1
and the share that needs all agents (metric/coop).
"""

import argparse
import json
from pathlib import Path

from matplotlib.figure import Figure

MEASURES = {"pass@1": "passes", "metric/coop": "passes and needs both parts"}
WIDTH = 0.38  # of a bar, where methods are 1 apart


def methods_of(files: str) -> dict[str, dict]:
    """Return the measures of each method in these files, whose names commas separate."""
    methods = {}
    for file in files.split(","):
        table = json.loads(Path(file).read_text())["methods"]
        methods |= dict(reversed(table.items()))  # what is untrained before what is trained
    return methods


def draw(axes, title: str, methods: dict[str, dict]) -> None:
    for number, (measure, label) in enumerate(MEASURES.items()):
        places = [place + number * WIDTH for place in range(len(methods))]
        heights = [row[measure] for row in methods.values()]
        errors = [row[f"{measure}_se"] for row in methods.values()]
        axes.bar(places, heights, WIDTH, yerr=errors, capsize=3, label=label)
    ticks = [place + WIDTH / 2 for place in range(len(methods))]
    axes.set_xticks(ticks, methods)
    axes.set_title(title)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("picture")
    parser.add_argument("panels", nargs="+", metavar="TITLE=FILE,FILE")
    args = parser.parse_args()
    figure = Figure((4.5 * len(args.panels), 3.3), layout="constrained")
    grid = figure.subplots(1, len(args.panels), sharey=True, squeeze=False)
    for axes, panel in zip(grid[0], args.panels, strict=True):
        title, _, files = panel.partition("=")
        draw(axes, title, methods_of(files))
    grid[0, 0].set_ylabel("share of the problems")
    entries = grid[0, 0].get_legend_handles_labels()
    figure.legend(*entries, loc="outside lower center", ncols=len(MEASURES), frameon=False)
    figure.savefig(args.picture, dpi=150)


if __name__ == "__main__":
    main()
