"""Pictures of what a team built, for every task that can draw it.

    task.draw(item, responses) -> {title: rows}    a grid, or several of one size with their titles,
                                                   as a house's layers; of no responses, the target
    task.colors                                    block -> "#rrggbb", in the legend's order

A cell of a row is (block, agent, wrong): "" is no block, agent is the number of the one that put it
there, None where nobody did, and wrong says that it is not what it should be. A frame is what the
team built at some step: {"name", "drawn", "returns"}, the lists by problem.
"""

from collections import defaultdict
from pathlib import Path

SHOWN, FRAMES = 3, 12  # problems that are drawn, and how often during a run
ACROSS = 4  # grids beside each other, of a picture that has several
HATCHES = ("///", "...", "---", "|||")  # of the agents: stripes, dots, bars, posts
RED = {"linestyle": "", "color": "red", "mfc": "none", "ms": 5}
WRONG = {"marker": "x", "label": "wrong", **RED}  # a block
MISSING = {"marker": "s", "label": "missing", **RED}  # a place without one
Picture = dict[str, list[list[tuple]]]


def write(directory: Path, target: list[Picture], frames: list[dict], colors: dict) -> None:
    """build.png (the target, the first frame and the last) and build.gif (all of them)."""
    ends = [frames[0] | {"name": "before training"}, frames[-1] | {"name": "after training"}]
    compared(target, ends, colors, 200).quantize(64).save(directory / "build.png", optimize=True)
    first, *rest = (compared(target, [frame], colors, 100).quantize(48) for frame in frames)
    pause = [600] * len(rest) + [2500]  # milliseconds
    first.save(directory / "build.gif", save_all=True, append_images=rest, duration=pause, loop=0)


def compared(target: list[Picture], frames: list[dict], colors: dict[str, str], dpi: int):
    """An image, a row a problem: the target, what was built at each of the frames; a legend."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # none of it where none is made
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch
    from PIL import Image

    columns = [{"name": "target", "drawn": target, "returns": None}, *frames]
    size = (2.2 * len(columns), 2 * len(target) + 0.7)
    figure, agents = Figure(size, dpi=dpi, layout="constrained"), set()
    rows = figure.subplots(len(target), len(columns), squeeze=False)
    for number, frame in enumerate(columns):
        for row, picture in enumerate(frame["drawn"]):
            head = f"{frame['name']}\n" if row == 0 else ""
            head += f"return {frame['returns'][row]:.2f}" if frame["returns"] else ""
            rows[row, number].set_title(head, fontsize=8, loc="left")
            agents |= paint(rows[row, number], picture, colors)
    found = [Patch(facecolor=color, label=block) for block, color in colors.items()]
    for agent in sorted(agents):
        style = {"facecolor": "w", "edgecolor": "grey", "hatch": HATCHES[agent % len(HATCHES)]}
        found.append(Patch(label=f"built by agent {agent}", **style))
    found += [Line2D([], [], **mark) for mark in (WRONG, MISSING)]
    ncols = int(size[0] / 1.3)
    figure.legend(handles=found, loc="outside lower center", ncols=ncols, fontsize=7)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    size = canvas.get_width_height()
    return Image.frombuffer("RGBA", size, canvas.buffer_rgba()).convert("RGB")


def paint(axes, picture: Picture, colors: dict[str, str]) -> set[int]:
    """Draws all grids, a few beside each other; returns who has built something."""
    from matplotlib.collections import PatchCollection
    from matplotlib.patches import Rectangle

    by_agent, marks = defaultdict(list), {True: [], False: []}  # a wrong block, a missing one
    for number, (title, rows) in enumerate(picture.items()):
        left, top = number % ACROSS * (len(rows[0]) + 1), number // ACROSS * (len(rows) + 2)
        axes.text(left, top - 0.2, title, fontsize=6)
        for y, row in enumerate(rows, top):
            for x, (block, agent, wrong) in enumerate(row, left):
                color = colors.get(block, "grey") if block else "w"
                by_agent[agent].append(Rectangle((x, y), 1, 1, facecolor=color, edgecolor="#0004"))
                if wrong:
                    marks[bool(block)].append((x + 0.5, y + 0.5))
    for agent, cells in by_agent.items():
        hatch = None if agent is None else HATCHES[agent % len(HATCHES)]
        axes.add_collection(PatchCollection(cells, match_original=True, hatch=hatch))
    for built, places in marks.items():
        axes.plot(*zip(*places, strict=True) if places else ((), ()), **WRONG if built else MISSING)
    axes.set(xticks=(), yticks=(), frame_on=False, aspect="equal")
    axes.autoscale_view()
    axes.invert_yaxis()
    return by_agent.keys() - {None}
