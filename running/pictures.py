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
from pathlib import Path

SHOWN, FRAMES = 3, 12  # problems that are drawn, and how often during a run
ACROSS = 4  # grids beside each other, of a picture that has several
GAP, HEAD = 1.0, 1.5  # between grids and above them, in cells
EMPTY, LINE, WRONG, GREY = "#ffffff", "#e2e2de", "#d62728", "#555555"
Picture = dict[str, list[list[tuple]]]


# --- as an image ----------------------------------------------------------------------------------


def image(
    heads: list[str], rows: list[list[tuple[str, Picture]]], colors: dict[str, str], dpi: int
) -> "np.ndarray":  # noqa: F821
    """Pictures in columns with heads, each under its caption, and a legend: (H, W, 3) of uint8."""
    import numpy as np  # none of this where no picture is made
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    sizes = [[extent(picture) for _, picture in row] for row in rows]
    widths = [max(8, *(wide for wide, _ in column)) for column in zip(*sizes, strict=True)]
    heights = [max(high for _, high in row) + HEAD for row in sizes]
    wide = sum(widths) + 3 * GAP * (len(widths) + 1)
    high = sum(heights) + GAP * (len(heights) + 2)
    cell = min(10 / wide, 0.22)  # inches
    legend = 0.55 + 0.22 * (wide * cell < 7)
    figure = Figure((wide * cell, high * cell + legend), dpi=dpi, facecolor="white")
    share = legend / (high * cell + legend)
    axes = figure.add_axes((0, share, 1, 1 - share), xlim=(0, wide), ylim=(high, 0))
    axes.set_axis_off()
    left = [3 * GAP * (n + 1) + sum(widths[:n]) for n in range(len(widths))]
    for head, x in zip(heads, left, strict=True):
        axes.text(x, GAP, head, fontsize=9, va="center", weight="bold")
    y, painted = 2 * GAP, []
    for row, height in zip(rows, heights, strict=True):
        for (caption, picture), x in zip(row, left, strict=True):
            axes.text(x, y + 0.8, caption, fontsize=8, va="center", color=GREY)
            painted.append((picture, x, y + HEAD))
        y += height + GAP
    paint(axes, painted, colors, 72 * cell)
    explain(figure, [picture for row in rows for _, picture in row], colors)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[..., :3].copy()


def extent(picture: Picture) -> tuple[float, float]:
    """Width and height in cells."""
    corners = [(x + len(rows[0]), y + len(rows)) for _, rows, x, y in placed(picture)]
    return max(x for x, _ in corners), max(y for _, y in corners)


def placed(picture: Picture):
    """(title, rows, x, y) of a picture's grids, a few beside each other."""
    y, grids = 0.0, list(picture.items())
    for start in range(0, len(grids), ACROSS):
        line = grids[start : start + ACROSS]
        x, y = 0.0, y + any(picture)  # room for titles
        for title, rows in line:
            yield title, rows, x, y
            x += len(rows[0]) + GAP
        y += max(len(rows) for _, rows in line) + GAP / 2


def paint(axes, painted: list[tuple[Picture, float, float]], colors, points: float) -> None:
    """Pictures, each at its (left, top); points: of a cell's side. All squares are one collection
    and all lines another, which is a hundred times faster than one by one."""
    import numpy as np
    from matplotlib.collections import LineCollection, PolyCollection

    squares, fills, lines = [], [], []
    for picture, left, top in painted:
        for title, rows, x, y in placed(picture):
            axes.text(left + x, top + y - 0.5, title, fontsize=6.5, color=GREY, va="center")
            cells = ((r, d, cell) for d, row in enumerate(rows) for r, cell in enumerate(row))
            for right, down, (block, agent, wrong) in cells:
                at = np.array((left + x + right, top + y + down))
                fills.append(colors.get(block, "#888888") if block else EMPTY)
                squares.append(at + np.array(((0, 0), (1, 0), (1, 1), (0, 1))))
                found = hatch(agent, fills[-1]) if agent is not None else []
                found += cross(bool(block)) if wrong else []
                lines += [(at + line, color, width * points) for line, color, width in found]
    mesh = PolyCollection(squares, facecolors=fills, edgecolors=LINE, linewidths=0.04 * points)
    axes.add_collection(mesh, autolim=False)
    if lines:
        segments, inks, widths = zip(*lines, strict=True)
        style = {"colors": inks, "linewidths": widths, "capstyle": "butt"}
        axes.add_collection(LineCollection(segments, **style), autolim=False)


def hatch(agent: int, color: str) -> list[tuple]:
    """Who built a cell of this colour: agent 0 has stripes, agent 1 dots, then bars and posts. Its
    lines within the cell, each with its colour and its width, as a share of the cell's."""
    ink = ("#000000" if brightness(color) > 0.45 else "#ffffff") + "88"
    dot = [((0.36, 0.5), (0.64, 0.5))]
    stripes = [((0, 0.5), (0.5, 0)), ((0, 1), (1, 0)), ((0.5, 1), (1, 0.5))]
    bars = [((0, 0.3), (1, 0.3)), ((0, 0.7), (1, 0.7))]
    posts = [((0.3, 0), (0.3, 1)), ((0.7, 0), (0.7, 1))]
    lines, width = ((stripes, 0.06), (dot, 0.28), (bars, 0.06), (posts, 0.06))[agent % 4]
    return [(line, ink, width) for line in lines]


def cross(built: bool) -> list[tuple]:
    """A wrong block is crossed out, a missing one is framed; as `hatch` has it."""
    a, b = (0.22, 0.78) if built else (0.27, 0.73)
    if not built:
        return [(((a, a), (b, a), (b, b), (a, b), (a, a)), WRONG, 0.06)]
    strokes = (((a, a), (b, b)), ((a, b), (b, a)))
    return [(s, color, wide) for color, wide in (("#ffffff", 0.2), (WRONG, 0.1)) for s in strokes]


def brightness(color: str) -> float:
    red, green, blue = (int(color[i : i + 2], 16) / 255 for i in (1, 3, 5))
    return 0.3 * red + 0.59 * green + 0.11 * blue


def explain(figure, pictures: list[Picture], colors: dict[str, str]) -> None:
    """The legend: of what occurs."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    cells = {cell for p in pictures for rows in p.values() for row in rows for cell in row}
    blocks, agents = {block for block, _, _ in cells}, {agent for _, agent, _ in cells} - {None}
    found = [
        Patch(facecolor=c, edgecolor=GREY, linewidth=0.5, label=b)
        for b, c in colors.items()
        if b in blocks
    ]
    marks = {0: "$///$", 1: "s", 2: "$=$", 3: "$||$"}
    dot = {"linestyle": "", "color": GREY}
    found += [
        Line2D([], [], marker=marks[a % 4], label=f"built by agent {a}", **dot)
        for a in sorted(agents)
    ]
    red = {"linestyle": "", "color": WRONG}
    if any(block and wrong for block, _, wrong in cells):
        found.append(Line2D([], [], marker="x", label="wrong", **red))
    if any(wrong and not block for block, _, wrong in cells):
        found.append(Line2D([], [], marker="s", mfc="none", ms=5, label="missing", **red))
    figure.legend(
        handles=found, loc="lower center", ncols=4 if figure.get_figwidth() < 7 else 9,
        frameon=False, fontsize=8, handletextpad=0.5, columnspacing=1.4,
    )  # fmt: skip


# --- of a run -------------------------------------------------------------------------------------
# A frame is what the team built at some step: {"name", "drawn", "returns"}, the lists by problem.


def compared(target: list[Picture], frames: list[dict], colors: dict, dpi: int):
    """A row a problem: the target, then what was built at each of the frames."""
    rows = [[("", wanted)] for wanted in target]
    for frame in frames:
        for row, drawn, value in zip(rows, frame["drawn"], frame["returns"], strict=True):
            row.append((f"return {value:.2f}", drawn))
    return image(["target", *(frame["name"] for frame in frames)], rows, colors, dpi)


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
    initials = dict(zip(colors, letters(list(colors)), strict=True))

    def cell(block: str, agent: int | None, wrong: bool) -> str:
        if not block:
            return "- " if wrong else ". "
        number = " " if agent is None else str(agent)
        if not colored:
            return ("x" if wrong else initials.get(block, "?")) + number
        color = colors.get(block, "#888888")
        back = ";".join(str(int(color[i : i + 2], 16)) for i in (1, 3, 5))
        ink = "0;0;0" if brightness(color) > 0.45 else "255;255;255"
        return f"\x1b[48;2;{back}m\x1b[38;2;{ink}m{number}{'x' if wrong else ' '}\x1b[0m"

    lines = []
    for some in wrapped(picture):
        wide = [2 * len(rows[0]) for _, rows in some]
        if any(title for title, _ in some):
            heads = zip(some, wide, strict=True)
            lines.append("  ".join(title.ljust(width) for (title, _), width in heads).rstrip())
        grids = [["".join(cell(*c) for c in row) for row in rows] for _, rows in some]
        fill = [" " * width for width in wide]
        for row in itertools.zip_longest(*grids):
            cells = zip(row, fill, strict=True)
            lines.append("  ".join(text or blank for text, blank in cells).rstrip())
    return "\n".join(lines)


def wrapped(picture: Picture) -> list[list[tuple[str, list]]]:
    """A picture's grids, as many beside each other as the terminal has room for."""
    room, used, found = shutil.get_terminal_size((100, 0)).columns, 0, []
    for title, rows in picture.items():
        used += 2 * len(rows[0]) + 2
        if not found or used > room + 2:
            found.append([])
            used = 2 * len(rows[0]) + 2
        found[-1].append((title, rows))
    return found


def side_by_side(named: dict[str, Picture], colors: dict[str, str]) -> str:
    """Several pictures of one problem, as text: beside each other, if each is a single grid."""
    if all(list(picture) == [""] for picture in named.values()):
        return as_text({name: picture[""] for name, picture in named.items()}, colors)
    return "\n".join(f"{name}\n{as_text(picture, colors)}" for name, picture in named.items())


def letters(names: list[str]) -> list[str]:
    """A letter for each name: the first of its own that is free."""
    found: list[str] = []
    for name in names:
        free = (one for one in [*name, *"abcdefghijklmnopqrstuvw"] if one not in [*found, "x", "-"])
        found.append(next(free, "?"))
    return found


def legend(colors: dict[str, str]) -> str:
    """What the text's letters mean."""
    named = zip(letters(list(colors)), colors, strict=True)
    told = ", ".join(f"{one} {name}" for one, name in named)
    return f"{told}; a number: the agent that built it; x: wrong, -: missing"
