"""Compare runs: a table of their held-out returns, and a picture of their curves.

The runs of one group are its seeds. Their names differ in the ending alone (-seed0, -1, _2). Their
flags differ in --seed alone, and in that ending within the names of --init. Their code is the same.
The picture, compare.png, goes beside the first run.
"""

import json
import math
import re
import statistics
import zlib
from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import fill

import numpy as np
import pandas

from evaluation.measures import interval, mean_and_error, t95
from evaluation.report import align
from training.folder import read_args, read_records, read_summary, run_folder, write_json

ENDS = {  # what an evaluation measured, and its label
    "before/return": "sampled, before",
    "after/return": "sampled, after",
    "before/greedy/return": "greedy, before",
    "after/greedy/return": "greedy, after",
}
SALT = 337  # gives the schemes of code and of classes different colours
SEED_FLAGS = (
    "seed",
    "run",
    "resume",
    "debug",
    "logger",
)  # flags in which the seeds of a group may differ


@dataclass
class Group:
    """The seeds of one experiment."""

    name: str
    flags: dict  # and "code", a digest of it
    rows: dict[int, list[dict]] = field(default_factory=dict)  # by seed: metrics of each step
    # By finished seed: the held-out returns of each problem, before and after.
    returns: dict[int, dict] = field(default_factory=dict)

    def mean_curve(self, name: str) -> np.ndarray:
        """Return a metric by step, the mean over seeds, as far as all seeds have come.

        A step that lacks the metric counts as 0.
        """
        steps = min(map(len, self.rows.values()))
        curves = []
        for rows in self.rows.values():
            curves.append([row.get(name, 0.0) for row in rows[:steps]])
        return np.mean(curves, 0)

    def schemes(self) -> set[str]:
        """Return the metrics with the shares of the schemes, of a task that names them."""
        names = {name for rows in self.rows.values() for row in rows for name in row}
        return {name for name in names if name.startswith("scheme/")}


def read_groups(names: list[str]) -> list[Group]:
    """Return the runs by group, in the order given."""
    groups: dict[tuple, Group] = {}
    for directory in map(run_folder, names):
        record = read_args(directory)
        seed = record["args"]["seed"]
        flags = {name: value for name, value in record["args"].items() if name not in SEED_FLAGS}
        flags["code"] = " ".join(record.get("code", ["unknown"]))
        if init := flags.get("init"):
            flags["init"] = ["/".join(map(stem_of, Path(folder).parts)) for folder in init]
        stem = stem_of(directory.name)
        key = (stem, json.dumps(flags, sort_keys=True))
        group = groups.setdefault(key, Group(stem, flags))
        if seed in group.rows:
            raise ValueError(f"{directory} and a run before it are one experiment with one seed")
        rows = read_records(directory / "metrics.jsonl")
        group.rows[seed] = [row for row in rows if "return" in row]  # others are evaluations
        if not group.rows[seed]:
            raise ValueError(f"{directory}: no step was made")
        if returns := read_summary(directory).get("returns"):
            group.returns[seed] = returns
    tell_apart(list(groups.values()))
    return list(groups.values())


def stem_of(name: str) -> str:
    """Return a run's name without the ending that is its seed."""
    return re.sub(r"[-_.]?(seed)?[-_]?\d+$", "", name) or name


def tell_apart(groups: list[Group]) -> None:
    """Add the flags in which groups of one name differ to their names."""
    by_name = defaultdict(list)
    for group in groups:
        by_name[group.name].append(group)
    for namesakes in by_name.values():
        flags = {flag for group in namesakes for flag in group.flags}
        for flag in sorted(flags):
            values = [group.flags.get(flag) for group in namesakes]
            if len(set(map(str, values))) == 1:
                continue
            for group, value in zip(namesakes, values, strict=True):
                if flag == "code":
                    group.name += f" (code {value})"
                else:
                    parts = dict.fromkeys(value) if isinstance(value, list) else [value]
                    words = " ".join(map(str, parts))  # one for all agents, or one each
                    group.name += f" --{flag.replace('_', '-')} {words}"


def compare(names: list[str], json_file: str | None) -> None:
    """Print the groups' table, draw their picture, and write the numbers to json_file."""
    groups = read_groups(names)
    table = {group.name: numbers(group, groups[0]) for group in groups}
    picture = run_folder(names[0]).resolve().parent / "compare.png"
    draw(groups, picture)
    if json_file:
        write_json(Path(json_file), {"groups": table})
    print(f"{render(table)}\n\npicture: {picture}")


def numbers(group: Group, first: Group) -> dict:
    """Return a group's number of seeds, its held-out returns, and its gap to the first group."""
    row = {"seeds": len(group.rows), "finished": len(group.returns)}
    if group.returns:
        for name in ENDS:
            when, _, measure = name.partition("/")
            values = [returns[when][measure] for returns in group.returns.values()]
            mean, low, high = interval(values)
            row[name] = mean
            row[f"{name}_low"] = low
            row[f"{name}_high"] = min(high, 1.0)  # returns are shares of the maximum
    if group is not first:
        row["gap"] = gap(group, first)
    return row


def gap(group: Group, first: Group) -> dict:
    """Return the sampled return after training less that of the first group, seed by seed.

    Its 95 % interval is that over seeds. With one seed it is that over problems. The result is {}
    where the groups share no seed, or have other numbers of problems.
    """
    gaps = {}
    for seed in sorted(group.returns.keys() & first.returns.keys()):
        returns = group.returns[seed]["after"]["return"]
        first_returns = first.returns[seed]["after"]["return"]
        if len(returns) != len(first_returns):
            return {}
        gaps[seed] = [a - b for a, b in zip(returns, first_returns, strict=True)]
    if not gaps:
        return {}
    means = {seed: statistics.fmean(problems) for seed, problems in gaps.items()}
    values = list(means.values())
    if len(values) == 1:
        [values] = gaps.values()
    mean, error = mean_and_error(values)
    half = None if error is None else t95(len(values)) * error
    return {"seeds": means, "mean": mean, "half": half}


def render(table: dict) -> str:
    """Return the table as text, with a line for each gap."""
    rows = [["group", "seeds", *ENDS.values()]]
    for name, row in table.items():
        cells = [name, str(row["seeds"])]
        for end in ENDS:
            cell = "-"
            if end in row:
                cell = f"{row[end]:.3f} [{row[f'{end}_low']:.3f}, {row[f'{end}_high']:.3f}]"
            cells.append(cell)
        rows.append(cells)
    lines = [
        "return on held-out problems, share of the maximum: mean [95 % interval *]",
        align(rows),
        "* over seeds and problems; of one seed, over its problems",
    ]
    first = next(iter(table))
    for name, row in table.items():
        if gap := row.get("gap"):
            half = "" if gap["half"] is None else f" ± {gap['half']:.3f}"
            seeds = ", ".join(f"seed {seed} {value:+.3f}" for seed, value in gap["seeds"].items())
            lines.append(f"{name} - {first}, sampled, after: {gap['mean']:+.3f}{half} ({seeds})")
    return "\n".join(lines)


def draw(groups: list[Group], path: Path) -> None:
    """Draw the learning curves, and below them how each group divided the work."""
    from matplotlib import style
    from matplotlib.figure import Figure

    divided = [group for group in groups if group.schemes()]
    rows = 1 + math.ceil(len(divided) / 2)
    with style.context(("tableau-colorblind10", {"font.size": 9, "axes.titlesize": 9})):
        figure = Figure((8, 3 * rows + 0.2 * len(groups)), layout="constrained")
        grid = figure.add_gridspec(rows, 2)
        curves = figure.add_subplot(grid[0, :])
        for number, group in enumerate(groups):
            draw_curves(curves, group, f"C{number}")
        curves.set(xlabel="step", ylabel="return (share of the maximum)", ylim=(0, 1))
        curves.set_title("return of the training batches")
        figure.legend(loc="outside upper left", fontsize=8, frameon=False)
        colors = scheme_colors({name for group in divided for name in group.schemes()})
        for place, group in enumerate(divided, 2):  # below the curves
            panel = figure.add_subplot(grid[divmod(place, 2)])
            draw_schemes(panel, group, colors)
        if divided:
            entries = panel.get_legend_handles_labels()
            figure.legend(*entries, loc="outside lower left", ncols=5, fontsize=8)
        figure.savefig(path, dpi=200)


def scheme_colors(names: Collection[str]) -> dict[str, tuple]:
    """Return the colour of each scheme, which is the same in every picture and run.

    If two schemes of a picture would share a colour, the second one takes the next that is free.
    """
    from matplotlib import colormaps

    palette = colormaps["tab20"].colors
    colors = {}
    for name in sorted(names):
        first = zlib.crc32(name.removeprefix("scheme/").encode(), SALT) % len(palette)
        free = [
            color for color in palette[first:] + palette[:first] if color not in colors.values()
        ]
        colors[name] = free[0] if free else palette[first]
    return colors


def smooth(curve: np.ndarray) -> np.ndarray:
    """Return the mean of the steps around each step: at most a tenth of the curve to each side."""
    half = min(len(curve) // 10, 5)
    windows = pandas.Series(curve).rolling(2 * half + 1, center=True, min_periods=1)
    return windows.mean().to_numpy()


def draw_curves(axes, group: Group, color: str) -> None:
    """Draw every seed's return, thin, and their mean, smoothed, as far as all of them have come."""
    for rows in group.rows.values():
        axes.plot([row["return"] for row in rows], color=color, linewidth=0.4, alpha=0.35)
    label = f"{group.name} (seeds: {len(group.rows)})"
    mean = smooth(group.mean_curve("return"))
    axes.plot(mean, color=color, linewidth=1.8, label=fill(label, 110))


def draw_schemes(axes, group: Group, colors: dict[str, tuple]) -> None:
    """Draw how the joint responses of each step divided the work, the mean over seeds, smoothed."""
    shares = np.array([group.mean_curve(name) for name in colors])
    shares = shares[:, shares.sum(0) > 0]  # at the steps that have any
    curves = [smooth(curve) for curve in shares]
    labels = [name.removeprefix("scheme/") for name in colors]
    axes.stackplot(range(len(curves[0])), curves, labels=labels, colors=colors.values())
    axes.set(xlabel="step", ylabel="share of the joint responses", ylim=(0, 1))
    axes.set_title(fill(group.name, 45), fontsize=8)
