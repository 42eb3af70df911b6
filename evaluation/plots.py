"""Compare runs: a table of their held-out returns, and a picture of their curves.

The runs of one group are its seeds. Their names differ in the ending alone (-seed0, -1, _2). Their
flags differ in --seed alone, and in that ending within the names of --init. Their code is the same.
The picture, compare.png, goes beside the first run.
"""

import json
import re
import statistics
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import fill

import numpy as np
import pandas

from evaluation import palette
from evaluation.measures import interval, mean_and_error, t95
from evaluation.report import align
from training.run_folder import read_args, read_records, read_summary, run_folders, write_json

ENDS = {  # what an evaluation measured, and its label
    "before/return": "sampled, before",
    "after/return": "sampled, after",
    "before/greedy/return": "greedy, before",
    "after/greedy/return": "greedy, after",
}
# Flags in which the seeds of a group may differ.
SEED_FLAGS = ("seed", "run", "resume", "debug", "logger")


@dataclass
class Group:
    """The seeds of one experiment."""

    name: str
    flags: dict  # and "code", a digest of it
    # By seed: a row of metrics for each step.
    steps: dict[int, pandas.DataFrame] = field(default_factory=dict)
    # By finished seed: the held-out returns of each problem, before and after.
    returns: dict[int, dict] = field(default_factory=dict)

    def means(self) -> pandas.DataFrame:
        """Return each metric by step, the mean over seeds, as far as all seeds have come.

        A step that lacks a metric counts as 0.
        """
        common = min(map(len, self.steps.values()))
        rows = pandas.concat(self.steps.values())
        means = rows.fillna(0.0).groupby("step").mean()
        return means[:common]

    def shares(self) -> pandas.DataFrame:
        """Return the shares of the schemes at the steps that have any. The task may name none."""
        shares = self.means().filter(regex="^scheme/")
        shares.columns = shares.columns.str.removeprefix("scheme/")
        return shares[shares.sum(axis=1) > 0]


def read_groups(folders: list[Path]) -> list[Group]:
    """Return the runs by group, in the order given."""
    groups = {}
    for directory in folders:
        record = read_args(directory)
        seed = record["args"]["seed"]
        flags = record["args"] | {"code": " ".join(record["code"])}
        for name in SEED_FLAGS:
            flags.pop(name, None)
        if init := flags.get("init"):
            paths = [map(stem_of, Path(folder).parts) for folder in init]
            flags["init"] = list(map("/".join, paths))
        stem = stem_of(directory.name)
        key = (stem, json.dumps(flags, sort_keys=True))
        group = groups.setdefault(key, Group(stem, flags))
        if seed in group.steps:
            raise ValueError(f"{directory} and a run before it are one experiment with one seed")
        rows = read_records(directory / "metrics.jsonl")
        rows = [row for row in rows if "return" in row]  # others are evaluations
        if not rows:
            raise ValueError(f"{directory}: no step was made")
        group.steps[seed] = pandas.DataFrame(rows)
        if returns := read_summary(directory).get("returns"):
            group.returns[seed] = returns
    listed = list(groups.values())
    tell_apart(listed)
    return listed


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
            endings = [in_words(flag, group.flags.get(flag)) for group in namesakes]
            if len(set(endings)) > 1:
                for group, ending in zip(namesakes, endings, strict=True):
                    group.name += ending


def in_words(flag: str, value) -> str:
    """Return a flag as the ending of a group's name. A list that repeats one value has it once."""
    if flag == "code":
        return f" (code {value})"
    values = dict.fromkeys(value) if isinstance(value, list) else [value]
    words = " ".join(map(str, values))
    return f" --{flag.replace('_', '-')} {words}"


def compare(names: list[str], json_file: str | None) -> None:
    """Print the groups' table, draw their picture, and write the numbers to json_file."""
    folders = run_folders(names)
    groups = read_groups(folders)
    table = {}
    for group in groups:
        table[group.name] = numbers(group, groups[0])
    picture = folders[0].resolve().parent / "compare.png"
    draw(groups, picture)
    if json_file:
        write_json(Path(json_file), {"groups": table})
    print(f"{render(table)}\n\npicture: {picture}")


def numbers(group: Group, first: Group) -> dict:
    """Return a group's number of seeds, its held-out returns, and its gap to the first group."""
    row: dict = {
        "seeds": len(group.steps),
        "finished": len(group.returns),
    }
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
    means = {}
    common = group.returns.keys() & first.returns.keys()
    for seed in sorted(common):
        returns = group.returns[seed]["after"]["return"]
        first_returns = first.returns[seed]["after"]["return"]
        if len(returns) != len(first_returns):
            return {}
        gaps = np.subtract(returns, first_returns).tolist()
        means[seed] = statistics.fmean(gaps)
    if not means:
        return {}
    values = list(means.values()) if len(means) > 1 else gaps
    mean, error = mean_and_error(values)
    half = None if error is None else t95(len(values)) * error
    return {"seeds": means, "mean": mean, "half": half}


def render(table: dict) -> str:
    """Return the table as text, with a line for each gap."""
    rows = {}
    for name, row in table.items():
        rows[name] = {"seeds": row["seeds"]}
        for end, label in ENDS.items():
            if end in row:
                bounds = f"[{row[f'{end}_low']:.3f}, {row[f'{end}_high']:.3f}]"
                rows[name][label] = f"{row[end]:.3f} {bounds}"
    lines = [
        "return on held-out problems, share of the maximum: mean [95 % interval *]",
        align("group", rows),
        "* over seeds and problems; of one seed, over its problems",
    ]
    first = next(iter(table))
    for name, row in table.items():
        if gap := row.get("gap"):
            half = "" if gap["half"] is None else f" ± {gap['half']:.3f}"
            gaps = [f"seed {seed} {value:+.3f}" for seed, value in gap["seeds"].items()]
            seeds = ", ".join(gaps)
            lines.append(f"{name} - {first}, sampled, after: {gap['mean']:+.3f}{half} ({seeds})")
    return "\n".join(lines)


def draw(groups: list[Group], path: Path) -> None:
    """Draw the learning curves, and below them how each group divided the work."""
    from matplotlib import cycler, rc_context
    from matplotlib.figure import Figure

    divided = [group for group in groups if not group.shares().empty]
    rows = 1 + len(divided)
    height = 3 * rows + 0.2 * len(groups)
    colors = cycler(color=palette.COLORS)
    with rc_context({"font.size": 9, "axes.titlesize": 9, "axes.prop_cycle": colors}):
        figure = Figure((8, height), layout="constrained")
        panels = figure.subplots(rows, squeeze=False)[:, 0]
        curves = panels[0]
        for number, group in enumerate(groups):
            draw_curves(curves, group, f"C{number}")
        curves.set(
            title="return of the training batches",
            xlabel="step",
            ylabel="return (share of the maximum)",
            ylim=(0, 1),
        )
        figure.legend(loc="outside upper left", fontsize=8, frameon=False)
        names = {name for group in divided for name in group.shares()}
        schemes = palette.scheme_colors(names)
        for panel, group in zip(panels[1:], divided, strict=True):
            draw_schemes(panel, group, schemes)
        if divided:  # all panels of schemes have the same legend
            entries = panels[1].get_legend_handles_labels()
            figure.legend(*entries, loc="outside lower left", ncols=5, fontsize=8)
        figure.savefig(path, dpi=200)


def smooth(curves: pandas.DataFrame) -> pandas.DataFrame:
    """Return the mean of the steps around each step: at most a tenth of the curve to each side."""
    half = min(len(curves) // 10, 5)
    windows = curves.rolling(2 * half + 1, center=True, min_periods=1)
    return windows.mean()


def draw_curves(axes, group: Group, color: str) -> None:
    """Draw every seed's return, thin, and their mean, smoothed, as far as all of them have come."""
    for steps in group.steps.values():
        axes.plot(
            steps["step"],
            steps["return"],
            color=color,
            linewidth=0.4,
            alpha=0.35,
        )
    label = f"{group.name} (seeds: {len(group.steps)})"
    axes.plot(
        smooth(group.means())["return"],
        color=color,
        linewidth=1.8,
        label=fill(label, 110),
    )


def draw_schemes(axes, group: Group, colors: dict[str, str]) -> None:
    """Draw how the joint responses of each step divided the work, the mean over seeds, smoothed."""
    shares = group.shares().reindex(columns=list(colors), fill_value=0.0)
    axes.stackplot(
        shares.index,
        smooth(shares).T,
        labels=shares.columns,
        colors=colors.values(),
    )
    axes.set(
        title=fill(group.name, 100),
        xlabel="step",
        ylabel="share of the joint responses",
        ylim=(0, 1),
    )
