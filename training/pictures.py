"""Draw what a team built, for every task that can draw it.

    task.draw(item, responses) -> {title: rows}    a grid, or several of one size with their titles,
                                                   such as a house's layers; without responses, the
                                                   target
    task.colors                                    block -> "#rrggbb", in the legend's order

A cell of a row is (block, agent, wrong). "" means that the cell is empty. The agent is the one that
put the block there, or None. `wrong` says that the cell differs from the target. A frame is what
the team built at a step: {"name", "drawn", "returns"}, with a list entry for each problem.
"""

from collections import defaultdict
from pathlib import Path

import numpy as np

SHOWN = 3  # problems that are drawn
FRAMES = 12  # drawings of a run
ACROSS = 4  # grids beside each other, of a picture that has several
HATCHES = ("///", "...", "---", "|||")  # of the agents: stripes, dots, bars, posts
RED = {"linestyle": "", "color": "red", "mfc": "none", "ms": 5}
WRONG = {"marker": "x", "label": "wrong", **RED}  # a block
MISSING = {"marker": "s", "label": "missing", **RED}  # a place without a block


def write(directory: Path, target: list[dict], frames: list[dict], colors: dict) -> None:
    """Write build.png (the target, the first frame and the last) and build.gif (all frames)."""
    before = frames[0] | {"name": "before training"}
    after = frames[-1] | {"name": "after training"}
    still = compared(target, [before, after], colors, dpi=200).quantize(64)
    still.save(directory / "build.png", optimize=True)
    images = [compared(target, [frame], colors, dpi=100).quantize(48) for frame in frames]
    images[0].save(
        directory / "build.gif",
        save_all=True,
        append_images=images[1:],
        duration=[600] * (len(images) - 1) + [2500],  # milliseconds
        loop=0,
    )


def compared(target: list[dict], frames: list[dict], colors: dict, dpi: int):
    """Return an image with a row for each problem: its target, then what each frame built."""
    # Imported here: a run without pictures does not load matplotlib.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from PIL import Image

    columns = [{"name": "target", "drawn": target, "returns": None}, *frames]
    width = 2.2 * len(columns)
    height = 2 * len(target) + 0.7
    figure = Figure((width, height), dpi=dpi, layout="constrained")
    grid = figure.subplots(len(target), len(columns), squeeze=False)
    builders = set()
    for column, frame in enumerate(columns):
        for row, picture in enumerate(frame["drawn"]):
            axes = grid[row, column]
            head = ""
            if row == 0:
                head = f"{frame['name']}\n"
            if frame["returns"]:
                head += f"return {frame['returns'][row]:.2f}"
            axes.set_title(head, fontsize=8, loc="left")
            builders |= paint(axes, picture, colors)
    figure.legend(
        handles=legend(colors, sorted(builders)),
        loc="outside lower center",
        ncols=int(width / 1.3),
        fontsize=7,
    )
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return Image.fromarray(np.asarray(canvas.buffer_rgba())).convert("RGB")


def legend(colors: dict, agents: list[int]) -> list:
    """Return the legend's entries: the blocks, the agents and the two marks."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles = [Patch(facecolor=color, label=block) for block, color in colors.items()]
    for agent in agents:
        label = f"built by agent {agent}"
        handles.append(Patch(facecolor="w", edgecolor="grey", hatch=hatch(agent), label=label))
    for mark in (WRONG, MISSING):
        handles.append(Line2D([], [], **mark))
    return handles


def hatch(agent: int | None) -> str | None:
    """Return an agent's pattern, None for cells that nobody built."""
    if agent is None:
        return None
    return HATCHES[agent % len(HATCHES)]


def paint(axes, picture: dict, colors: dict) -> set[int]:
    """Draw all grids, ACROSS beside each other. Return the agents that built something."""
    from matplotlib.collections import PatchCollection
    from matplotlib.patches import Rectangle

    rectangles = defaultdict(list)  # agent -> cells
    for number, (title, rows) in enumerate(picture.items()):
        left = number % ACROSS * (len(rows[0]) + 1)
        top = number // ACROSS * (len(rows) + 2)
        axes.text(left, top - 0.2, title, fontsize=6)
        for y, row in enumerate(rows, top):
            for x, (block, agent, wrong) in enumerate(row, left):
                color = colors.get(block, "grey")
                if not block:
                    color = "w"
                cell = Rectangle((x, y), 1, 1, facecolor=color, edgecolor="#0004")
                rectangles[agent].append(cell)
                if wrong:
                    axes.plot(x + 0.5, y + 0.5, **WRONG if block else MISSING)
    for agent, cells in rectangles.items():
        axes.add_collection(PatchCollection(cells, match_original=True, hatch=hatch(agent)))
    axes.set(xticks=(), yticks=(), frame_on=False, aspect="equal")
    axes.autoscale_view()
    axes.invert_yaxis()
    return rectangles.keys() - {None}
