"""Pictures of what a team built, for every task that can draw it.

    task.draw(item, responses) -> {title: rows}    a grid, or several with their titles, such as the
                                                   layers of a house; of no responses, the target
    task.colors                                    block -> "#rrggbb", in the legend's order

A cell of a row is (block, agent, wrong): "" is no block, agent is the number of the one that put it
there, None where nobody did, and wrong says that it is not what it should be. Nothing here knows
what is built.
"""

import itertools
import os
import shutil
import sys
from collections import defaultdict
from pathlib import Path

SHOWN, FRAMES = 3, 12  # problems that are drawn, and how often during a run
ACROSS = 4  # grids beside each other, of a picture that has several
HATCHES = ("///", "...", "---", "|||")  # of the agents: stripes, dots, bars, posts
EMPTY, LINE, WRONG, GREY = "#ffffff", "#e2e2de", "#d62728", "#555555"
LEGEND, HEAD = 0.6, 0.5  # inches, below all rows and above each
Picture = dict[str, list[list[tuple]]]


# --- as an image ----------------------------------------------------------------------------------
# A frame is what the team built at some step: {"name", "drawn", "returns"}, the lists by problem.


def compared(target: list[Picture], frames: list[dict], colors: dict[str, str], dpi: int):
    """A row a problem: the target, then what was built at each of the frames; a legend below.
    (H, W, 3) of uint8."""
    import numpy as np  # none of this where no picture is made
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    sizes = [extent(picture) for picture in target]
    cell = min(3 / max(wide for wide, _ in sizes), 0.22)  # inches
    column = max(cell * max(wide for wide, _ in sizes), 1.6) + 0.3
    heights = [cell * high + HEAD for _, high in sizes]
    width, height = column * (1 + len(frames)) + 0.3, sum(heights) + LEGEND + 0.2
    figure = Figure((width, height), dpi=dpi)
    columns = [{"name": "target", "drawn": target, "returns": None}, *frames]
    for number, frame in enumerate(columns):
        left, top = (0.3 + number * column) / width, height - 0.1
        figure.text(left, top / height, frame["name"], fontsize=9, va="top", weight="bold")
        for row, (picture, (wide, high)) in enumerate(zip(frame["drawn"], sizes, strict=True)):
            top -= heights[row]
            place = (left, top / height, cell * wide / width, cell * high / height)
            axes = figure.add_axes(place, xlim=(0, wide), ylim=(high, 0))
            axes.set_axis_off()
            if frame["returns"]:
                head = f"return {frame['returns'][row]:.2f}"
                axes.set_title(head, fontsize=8, loc="left", color=GREY, pad=3)
            paint(axes, picture, colors, 72 * cell)
    drawn = [picture for frame in frames for picture in frame["drawn"]]
    explain(figure, drawn, colors)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[..., :3].copy()


def placed(picture: Picture):
    """(title, rows, x, y) of a picture's grids, in cells, a few beside each other."""
    y, grids = 0.0, list(picture.items())
    for start in range(0, len(grids), ACROSS):
        line = grids[start : start + ACROSS]
        x, y = 0.0, y + any(picture)  # room for titles
        for title, rows in line:
            yield title, rows, x, y
            x += len(rows[0]) + 1
        y += max(len(rows) for _, rows in line) + 0.5


def extent(picture: Picture) -> tuple[float, float]:
    """Width and height in cells."""
    corners = [(x + len(rows[0]), y + len(rows)) for _, rows, x, y in placed(picture)]
    return max(x for x, _ in corners), max(y for _, y in corners)


def paint(axes, picture: Picture, colors: dict[str, str], points: float) -> None:
    """A picture's grids; points: of a cell's side. A wrong block is crossed out, a missing one is
    framed."""
    from matplotlib.collections import PolyCollection

    squares, fills, built, wrong = [], [], defaultdict(list), defaultdict(list)
    for title, rows, left, top in placed(picture):
        axes.text(left, top - 0.2, title, fontsize=6.5, color=GREY)
        for (y, row), x in itertools.product(enumerate(rows), range(len(rows[0]))):
            (block, agent, is_wrong), x, y = row[x], left + x, top + y
            squares.append([(x, y), (x + 1, y), (x + 1, y + 1), (x, y + 1)])
            fills.append(colors.get(block, "#888888") if block else EMPTY)
            if agent is not None:
                built[agent, ink(fills[-1])].append(squares[-1])
            if is_wrong:
                wrong[bool(block)].append((x + 0.5, y + 0.5))
    edge = {"edgecolors": LINE, "linewidths": 0.04 * points}
    axes.add_collection(PolyCollection(squares, facecolors=fills, **edge))
    for (agent, color), some in built.items():
        style = {"hatch": HATCHES[agent % len(HATCHES)], "edgecolors": color + "88"}
        axes.add_collection(PolyCollection(some, facecolors="none", linewidths=0, **style))
    for is_built, some in wrong.items():
        marker = {"marker": "x"} if is_built else {"marker": "s", "facecolors": "none"}
        for color, width in ((EMPTY, 0.18), (WRONG, 0.09)):  # seen on every colour
            style = {"s": (0.55 * points) ** 2, "color": color, "linewidths": width * points}
            axes.scatter(*zip(*some, strict=True), **style | marker)


def ink(color: str) -> str:
    """What is seen on a colour: black or white."""
    red, green, blue = (int(color[i : i + 2], 16) / 255 for i in (1, 3, 5))
    return "#000000" if 0.3 * red + 0.59 * green + 0.11 * blue > 0.45 else "#ffffff"


def explain(figure, pictures: list[Picture], colors: dict[str, str]) -> None:
    """The legend."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    cells = (cell for p in pictures for rows in p.values() for row in rows for cell in row)
    agents = {agent for _, agent, _ in cells} - {None}
    found = [Patch(facecolor=color, label=block) for block, color in colors.items()]
    for agent in sorted(agents):
        style = {"facecolor": EMPTY, "edgecolor": GREY, "hatch": HATCHES[agent % len(HATCHES)]}
        found.append(Patch(label=f"built by agent {agent}", **style))
    red = {"linestyle": "", "color": WRONG, "mfc": "none"}
    found.append(Line2D([], [], marker="x", label="wrong", **red))
    found.append(Line2D([], [], marker="s", label="missing", **red))
    ncols = max(int(figure.get_figwidth() / 1.3), 1)
    figure.legend(handles=found, loc="lower center", ncols=ncols, frameon=False, fontsize=8)


def write(directory: Path, target: list[Picture], frames: list[dict], colors: dict) -> str:
    """build.png (the target, the first frame and the last) and build.gif (all of them). Returns the
    first problem's ends as text."""
    from PIL import Image

    ends = [frames[0] | {"name": "before training"}, frames[-1] | {"name": "after training"}]
    still = Image.fromarray(compared(target, ends, colors, 200))
    still.quantize(64).save(directory / "build.png", optimize=True)
    moving = [Image.fromarray(compared(target, [f], colors, 100)).quantize(48) for f in frames]
    pause = [600] * (len(moving) - 1) + [2500]  # milliseconds
    first, *rest = moving
    first.save(directory / "build.gif", save_all=True, append_images=rest, duration=pause, loop=0)
    named = {"target": target[0]} | {frame["name"]: frame["drawn"][0] for frame in ends}
    return f"{side_by_side(named, colors)}\n{legend(colors)}"


# --- in a terminal --------------------------------------------------------------------------------


def as_text(picture: Picture, colors: dict[str, str], colored: bool | None = None) -> str:
    """A picture of two characters a cell: in colour, the builder's number on the block; else the
    block's letter and that number. x: a wrong block, -: a missing one."""
    if colored is None:
        colored = sys.stdout.isatty() and "NO_COLOR" not in os.environ
    initials = letters(colors)

    def cell(block: str, agent: int | None, wrong: bool) -> str:
        if not block:
            return "- " if wrong else ". "
        number = " " if agent is None else str(agent)
        if not colored:
            return ("x" if wrong else initials.get(block, "?")) + number
        color = colors.get(block, "#888888")
        back, front = (";".join(str(b) for b in bytes.fromhex(c[1:])) for c in (color, ink(color)))
        return f"\x1b[48;2;{back}m\x1b[38;2;{front}m{number}{'x' if wrong else ' '}\x1b[0m"

    widest = 2 * max(len(rows[0]) for rows in picture.values()) + 2
    across = max((shutil.get_terminal_size((100, 0)).columns + 2) // widest, 1)
    lines, grids = [], list(picture.items())
    for start in range(0, len(grids), across):
        columns = []
        for title, rows in grids[start : start + across]:
            texts = ["".join(cell(*c) for c in row) for row in rows]
            columns.append([title.ljust(2 * len(rows[0]))] * any(picture) + texts)
        blanks = [" " * 2 * len(rows[0]) for _, rows in grids[start : start + across]]
        for row in itertools.zip_longest(*columns):
            found = [text or blank for text, blank in zip(row, blanks, strict=True)]
            lines.append("  ".join(found).rstrip())
    return "\n".join(lines)


def side_by_side(named: dict[str, Picture], colors: dict[str, str]) -> str:
    """Several pictures of one problem, as text: beside each other, if each is a single grid."""
    if all(list(picture) == [""] for picture in named.values()):
        return as_text({name: picture[""] for name, picture in named.items()}, colors)
    return "\n".join(f"{name}\n{as_text(picture, colors)}" for name, picture in named.items())


def letters(names) -> dict[str, str]:
    """A letter for each name: the first of its own that is free."""
    found: dict[str, str] = {}
    for name in names:
        taken = {*found.values(), "x", "-"}
        free = (one for one in [*name, *"abcdefghijklmnopqrstuvw"] if one not in taken)
        found[name] = next(free, "?")
    return found


def legend(colors: dict[str, str]) -> str:
    """What the text's letters mean."""
    told = ", ".join(f"{letter} {name}" for name, letter in letters(colors).items())
    return f"{told}; a number: the agent that built it; x: wrong, -: missing"
