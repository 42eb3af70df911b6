"""Draw measures of evaluations as bars, with their standard errors over problems.

python -m bench.bars PICTURE "MBPP Pro=pair.json,single.json" "HumanEval Pro=pair-2.json,..."

A panel has a title and the files of eval.py --json whose methods it shows. The measures are pass@1
and the share that needs all agents (metric/coop). A method of several files is shown once for each,
with the file's name.
"""

import argparse
import json
import math
from collections import Counter
from operator import itemgetter
from pathlib import Path

from matplotlib.figure import Figure

MEASURES = {"pass@1": "passes", "metric/coop": "passes and needs both parts"}
WIDTH = 0.38  # of a bar, where methods are 1 apart


def methods_of(files: str) -> dict[str, dict]:
    """Return the measures of each method in these files, whose names commas separate."""
    played = []
    for file in files.split(","):
        table = json.loads(Path(file).read_text(encoding="utf-8"))["methods"]
        played += [(method, Path(file).stem, measures) for method, measures in table.items()]
    counts = Counter(method for method, _, _ in played)
    methods = {}
    for method, name, measures in sorted(played, key=itemgetter(0, 1)):
        label = method.replace("-", "-\n")
        if counts[method] > 1:
            label += f"\n{name}"
        methods[label] = measures
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
    columns = min(len(args.panels), 2)
    rows = math.ceil(len(args.panels) / columns)
    figure = Figure((4.5 * columns, 3.3 * rows), layout="constrained")
    grid = figure.subplots(rows, columns, sharey=True, squeeze=False)
    for axes, panel in zip(grid.flat, args.panels, strict=False):
        title, _, files = panel.partition("=")
        draw(axes, title, methods_of(files))
    for axes in grid.flat[len(args.panels) :]:
        axes.set_axis_off()
    for axes in grid[:, 0]:
        axes.set_ylabel("share of the problems")
    entries = grid[0, 0].get_legend_handles_labels()
    figure.legend(*entries, loc="outside lower center", ncols=len(MEASURES), frameon=False)
    figure.savefig(args.picture, dpi=150)


if __name__ == "__main__":
    main()
