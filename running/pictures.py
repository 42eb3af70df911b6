"""Pictures of what a team built, for every task that can draw it.

    task.draw(item, responses) -> {title: rows}    a grid, or several of one size with their titles,
                                                   as a house's layers; of no responses, the target
    task.colors                                    block -> "#rrggbb", in the legend's order

A cell of a row is (block, agent, wrong): "" is no block, agent is the number of the one that put it
there, None where nobody did, and wrong says that it is not what it should be. Nothing here knows
what is built. A frame is what the team built at some step: {"name", "drawn", "returns"}, the lists
by problem.
"""

from collections import defaultdict
from pathlib import Path

SHOWN, FRAMES = 3, 12  # problems that are drawn, and how often during a run
ACROSS = 4  # grids beside each other, of a picture that has several
HATCHES = ("///", "...", "---", "|||")  # of the agents: stripes, dots, bars, posts
_RED = {"linestyle": "", "color": "red", "mfc": "none", "ms": 5}
MARKS = {  # of what is wrong: a block, or a place without one
    True: {"marker": "x", "label": "wrong", **_RED},
    False: {"marker": "s", "label": "missing", **_RED},
}
Picture = dict[str, list[list[tuple]]]


def compared(target: list[Picture], frames: list[dict], colors: dict[str, str], dpi: int):
    """A row a problem: the target, then what was built at each of the frames; a legend below.
    (H, W, 3) of uint8."""
    import numpy as np  # none of this where no picture is made
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    columns = [{"name": "target", "drawn": target, "returns": None}, *frames]
    size = (2.2 * len(columns), 2 * len(target) + 0.7)
    figure = Figure(size, dpi=dpi, layout="constrained")
    rows = figure.subplots(len(target), len(columns), squeeze=False)
    for number, frame in enumerate(columns):
        for row, picture in enumerate(frame["drawn"]):
            head = f"{frame['name']}\n" if row == 0 else ""
            head += f"return {frame['returns'][row]:.2f}" if frame["returns"] else ""
            rows[row, number].set_title(head, fontsize=8, loc="left")
            paint(rows[row, number], picture, colors)
    found = [Patch(facecolor=color, label=block) for block, color in colors.items()]
    cells = (cell for frame in frames for picture in frame["drawn"] for cell in _cells(picture))
    for agent in sorted({agent for _, _, (_, agent, _) in cells} - {None}):
        style = {"facecolor": "w", "edgecolor": "grey", "hatch": HATCHES[agent % len(HATCHES)]}
        found.append(Patch(label=f"built by agent {agent}", **style))
    found += [Line2D([], [], **mark) for mark in MARKS.values()]
    ncols = int(size[0] / 1.3)
    figure.legend(handles=found, loc="outside lower center", ncols=ncols, fontsize=7)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[..., :3].copy()


def _cells(picture: Picture):
    """(x, y, cell) of all grids, a few beside each other."""
    for number, rows in enumerate(picture.values()):
        left, top = number % ACROSS * (len(rows[0]) + 1), number // ACROSS * (len(rows) + 2)
        for y, row in enumerate(rows):
            yield from ((left + x, top + y, cell) for x, cell in enumerate(row))


def paint(axes, picture: Picture, colors: dict[str, str]) -> None:
    from matplotlib.collections import PatchCollection
    from matplotlib.patches import Rectangle

    for number, (title, rows) in enumerate(picture.items()):
        place = number % ACROSS * (len(rows[0]) + 1), number // ACROSS * (len(rows) + 2) - 0.2
        axes.text(*place, title, fontsize=6)
    by_agent, marked = defaultdict(list), {mark: [] for mark in MARKS}
    for x, y, (block, agent, wrong) in _cells(picture):
        color = colors.get(block, "grey") if block else "w"
        by_agent[agent].append(Rectangle((x, y), 1, 1, facecolor=color, edgecolor="#0004"))
        if wrong:
            marked[bool(block)].append((x + 0.5, y + 0.5))
    for agent, cells in by_agent.items():
        hatch = None if agent is None else HATCHES[agent % len(HATCHES)]
        axes.add_collection(PatchCollection(cells, match_original=True, hatch=hatch))
    for built, places in marked.items():
        axes.plot(*zip(*places, strict=True) if places else ((), ()), **MARKS[built])
    axes.set(xticks=(), yticks=(), frame_on=False, aspect="equal")
    axes.autoscale_view()
    axes.invert_yaxis()


def write(directory: Path, target: list[Picture], frames: list[dict], colors: dict) -> None:
    """build.png (the target, the first frame and the last) and build.gif (all of them)."""
    from PIL import Image

    ends = [frames[0] | {"name": "before training"}, frames[-1] | {"name": "after training"}]
    still = Image.fromarray(compared(target, ends, colors, 200))
    still.quantize(64).save(directory / "build.png", optimize=True)
    moving = [Image.fromarray(compared(target, [f], colors, 100)).quantize(48) for f in frames]
    pause = [600] * (len(moving) - 1) + [2500]  # milliseconds
    first, *rest = moving
    first.save(directory / "build.gif", save_all=True, append_images=rest, duration=pause, loop=0)
