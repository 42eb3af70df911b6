"""Draw what a team of task Build built.

    python -m examples.building.pictures runs/build-1

It reads the run's summary.json, the greedy joint response to the first test problem, and writes
build.png beside it. That shows the target, the first evaluation and the last. A cell shows its
colour, the agent that built it, and a cross if it is wrong.
"""

import sys
from pathlib import Path

from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from examples.building.blocks import SIDE, target
from examples.building.tasks import Build
from training.run_folder import read_json

COLORS = {"red": "#a01f36", "green": "#3f9c74", "pink": "#f7b8d4", "tan": "#cfa766"}
HATCHES = ("///", "...", "---", "|||")  # of the agents: stripes, dots, bars, posts


def draw_run(directory: Path) -> None:
    """Write build.png: the target, and what the team built before and after its training."""
    task = Build()
    item = task.items("test")[0]
    records = read_json(directory, "summary.json").get("example", {}).values()
    if not records:
        raise SystemExit(f"{directory} has no held-out example: it is not finished, or played none")
    figure = Figure((6.6, 2.7), layout="constrained")
    axes = figure.add_subplot(1, 3, 1, title="target")
    paint(axes, {cell: (block, None) for cell, block in target(item).items()}, set())
    for place, [record, *later] in enumerate(records, 2):
        if record["task_id"] != item["task_id"]:
            raise SystemExit(f"{directory} is of another task than Build: nothing was built")
        if later or len(record["responses"]) > len(HATCHES):
            raise SystemExit(
                f"{directory}: a picture has one turn, and {len(HATCHES)} agents at most"
            )
        world = task.built(item, record["responses"])
        wrong = (world.rules.target.keys() | world.cells.keys()) - world.correct()
        title = f"step {record['step']}, reward {record['reward']:.2f}"
        paint(figure.add_subplot(1, 3, place, title=title), world.cells, wrong)
    handles = []
    for agent, hatch in enumerate(HATCHES[: len(record["responses"])]):
        handles.append(Patch(facecolor="w", hatch=hatch, label=f"built by agent {agent}"))
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), fontsize=8)
    figure.savefig(directory / "build.png", dpi=200)


def paint(axes, cells: dict, wrong: set) -> None:
    """Draw a grid of cell -> (block, agent that put it)."""
    for (x, y), (block, agent) in cells.items():
        hatch = HATCHES[agent] if agent is not None else None
        square = Rectangle((x, y), 1, 1, facecolor=COLORS[block], edgecolor="#0004", hatch=hatch)
        axes.add_patch(square)
    for x, y in wrong:
        axes.plot(x + 0.5, y + 0.5, "X", color="white", markeredgecolor="black")
    axes.set(xticks=(), yticks=(), xlim=(0, SIDE), ylim=(0, SIDE), aspect="equal")
    axes.title.set_fontsize(8)


if __name__ == "__main__":
    for name in sys.argv[1:]:
        draw_run(Path(name))
