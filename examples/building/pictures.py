"""Draw what the team of a building run built, at a dozen moments of its training.

    python -m examples.building.pictures runs/build-1

reads the run's examples.jsonl, the greedy joint responses to the same three test problems. It
writes build.png (the target, the first step and the last) and build.gif (all moments) beside it.

    task.draw(item, responses) -> {title: rows}    a grid, or several of one size with their titles,
                                                   such as a house's layers; without responses, the
                                                   target
    task.colors                                    block -> "#rrggbb", in the legend's order

A cell of a row is (block, agent, wrong). "" means that the cell is empty. The agent is the one that
put the block there, or None. `wrong` says that the cell differs from the target.
"""

import io
import itertools
import sys
from dataclasses import dataclass, field, fields
from operator import itemgetter
from pathlib import Path

from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle
from PIL import Image

from training.plugins import TaskOptions, make_task
from training.run_folder import read_args, read_records

ACROSS = 4  # grids beside each other, of a picture that has several
HATCHES = {0: "///", 1: "...", 2: "---", 3: "|||"}  # of the agents: stripes, dots, bars, posts
WRONG: dict = {  # seen on every block
    "marker": "X",
    "linestyle": "",
    "color": "white",
    "markeredgecolor": "black",
    "label": "wrong or missing",
}


@dataclass
class Frame:
    """What stands at one moment, by problem. The target has no rewards."""

    name: str
    drawn: dict[int, dict] = field(default_factory=dict)  # what task.draw returns
    rewards: dict[int, float] = field(default_factory=dict)


def draw_run(directory: Path) -> None:
    """Write build.png and build.gif of a run. Raise ValueError if its task has no pictures."""
    flags = read_args(directory)["args"]
    options = TaskOptions(**{option.name: flags[option.name] for option in fields(TaskOptions)})
    task = make_task(options)
    records = read_records(directory / "examples.jsonl")
    if not hasattr(task, "draw") or not records:
        raise ValueError(f"{directory} has nothing to draw")
    target, *moments = read_frames(task, records)
    still = compared([target, moments[0], moments[-1]], task.colors, dpi=200)
    still.save(directory / "build.png", optimize=True)
    images = [compared([target, moment], task.colors, dpi=100) for moment in moments]
    images[0].save(
        directory / "build.gif",
        save_all=True,
        append_images=images[1:],
        duration=[600] * (len(images) - 1) + [2500],  # milliseconds
        loop=0,
    )


def read_frames(task, records: list[dict]) -> list[Frame]:
    """Return the target, then a frame for each moment. Each shows the last turn of the episodes."""
    items = task.items("test")
    target = Frame("target")
    frames = [target]
    for step, moment in itertools.groupby(records, itemgetter("step")):
        frame = Frame(f"step {step}")
        frames.append(frame)
        next_items = {}  # by problem
        for record in moment:  # turn by turn
            problem = record["problem"]
            responses = record["responses"]
            item = next_items.get(problem, items[problem])
            target.drawn[problem] = task.draw(items[problem], [])
            frame.drawn[problem] = task.draw(item, responses)
            frame.rewards[problem] = record["reward"]
            next_items[problem] = task.advance(item, responses)
    return frames


def compared(frames: list[Frame], colors: dict, dpi: int):
    """Return an image with a row for each problem and a column for each frame."""
    problems = len(frames[0].drawn)
    width = 2.2 * len(frames)
    height = 2 * problems + 0.7
    figure = Figure((width, height), layout="constrained")
    grid = figure.subplots(problems, len(frames), squeeze=False)
    builders = set()
    for column, frame in zip(grid.T, frames, strict=True):
        column[0].set_title(frame.name, fontsize=8, loc="left")
        for axes, (problem, picture) in zip(column, frame.drawn.items(), strict=True):
            builders |= paint(axes, picture, colors)
            if problem in frame.rewards:
                axes.set_xlabel(f"reward {frame.rewards[problem]:.2f}", fontsize=8)
    handles = legend(colors, sorted(builders))
    figure.legend(handles=handles, loc="outside lower center", ncols=int(width / 1.3), fontsize=7)
    file = io.BytesIO()
    figure.savefig(file, dpi=dpi)
    return Image.open(file).convert("RGB").quantize(64)


def legend(colors: dict, agents: list[int]) -> list:
    """Return the legend's entries: the blocks, the agents and the mark."""
    handles = [Patch(facecolor=color, label=block) for block, color in colors.items()]
    for agent in agents:
        hatch = HATCHES.get(agent)
        label = f"built by agent {agent}"
        handles.append(Patch(facecolor="w", edgecolor="grey", hatch=hatch, label=label))
    return [*handles, Line2D([], [], **WRONG)]


def paint(axes, picture: dict, colors: dict) -> set[int]:
    """Draw all grids, ACROSS beside each other. Return the agents that built something."""
    builders = set()
    for number, (title, rows) in enumerate(picture.items()):
        left = number % ACROSS * (len(rows[0]) + 1)
        top = number // ACROSS * (len(rows) + 2)
        axes.text(left, top - 0.2, title, fontsize=6)
        for y, row in enumerate(rows, top):
            for x, (block, agent, wrong) in enumerate(row, left):
                color = colors.get(block, "grey") if block else "w"
                hatch = HATCHES.get(agent)
                cell = Rectangle((x, y), 1, 1, facecolor=color, edgecolor="#0004", hatch=hatch)
                axes.add_patch(cell)
                builders.add(agent)
                if wrong:
                    axes.plot(x + 0.5, y + 0.5, **WRONG)
    axes.set(xticks=(), yticks=(), frame_on=False, aspect="equal")
    axes.autoscale_view()
    axes.invert_yaxis()
    return builders - {None}


if __name__ == "__main__":
    for name in sys.argv[1:]:
        draw_run(Path(name))
