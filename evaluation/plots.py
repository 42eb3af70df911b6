"""Runs beside each other: their numbers, and a picture of their curves and of their ends.

Runs of one name but for its ending (-seed0, -1, _2), with the same flags but for --seed (and that
ending in the names of --init), and of the same code are the seeds of one group. The picture goes
beside the first run: compare.png.
"""

import json
import re
import statistics
from pathlib import Path
from typing import NamedTuple

import numpy as np

from evaluation.measures import interval, mean_and_error, t95
from running.folder import json_lines, read_args, reading, run_folder

ENDS = {  # what an evaluation measured, and its label
    ("before", "return"): "sampled,\nbefore",
    ("after", "return"): "sampled,\nafter",
    ("before", "greedy/return"): "greedy,\nbefore",
    ("after", "greedy/return"): "greedy,\nafter",
}


# --- groups ---------------------------------------------------------------------------------------


class Run(NamedTuple):
    directory: Path
    flags: dict  # and "code", a digest of it
    curve: list[float]  # the return of each step
    returns: dict  # of the held-out problems, before and after; {} where it is not finished


class Group(NamedTuple):
    """The seeds of one experiment."""

    name: str
    flags: dict
    runs: dict[int, Run]  # by seed

    @property
    def finished(self) -> dict[int, Run]:
        return {seed: run for seed, run in self.runs.items() if run.returns}

    def end(self, when: str, name: str) -> tuple[float, float, float]:
        """Mean over seeds and problems with its 95 % interval, "before" or "after" training."""
        return interval([run.returns[when][name] for run in self.finished.values()])


def read_run(name: str) -> Run:
    directory = run_folder(name)
    record, file = read_args(directory), directory / "summary.json"
    flags = record["args"] | {"code": " ".join(record.get("code", ["unknown"]))}
    lines = json_lines(directory / "metrics.jsonl")
    curve = [row["return"] for _, row in lines if "return" in row]  # the others are evaluations
    if not curve:
        raise ValueError(f"{directory}: no step was made")
    with reading(file):
        returns = json.loads(file.read_text())["returns"] if file.is_file() else {}
    return Run(directory, flags, curve, returns)


def read_groups(names: list[str]) -> list[Group]:
    """The runs by group, in the order given."""
    groups: dict[tuple, Group] = {}
    for run in map(read_run, names):
        stem, init = stem_of(run.directory.name), run.flags.get("init")
        flags = {k: v for k, v in run.flags.items() if k not in ("seed", "run", "resume", "debug")}
        flags["init"] = init and ["/".join(map(stem_of, Path(folder).parts)) for folder in init]
        key, seed = (stem, json.dumps(flags, sort_keys=True)), run.flags["seed"]
        group = groups.setdefault(key, Group(stem, flags, {}))
        if (other := group.runs.setdefault(seed, run)) is not run:
            both = f"{other.directory} and {run.directory}"
            raise ValueError(f"{both} are one experiment with one seed")
    return [named(group, list(groups.values())) for group in groups.values()]


def stem_of(name: str) -> str:
    """A run's name without what tells its seed."""
    return re.sub(r"[-_.]?(seed)?[-_]?\d+$", "", name) or name


def named(group: Group, groups: list[Group]) -> Group:
    """The group, whose name says what tells it apart from others of that name."""
    same, name = [other.flags for other in groups if other.name == group.name], group.name
    for flag in sorted({flag for flags in same for flag in flags}):
        if len({str(flags.get(flag)) for flags in same}) > 1:
            value = group.flags.get(flag)
            told = f"(code {value})" if flag == "code" else f"--{flag.replace('_', '-')} {value}"
            name += f" {told}"
    return group._replace(name=name)


# --- the table ------------------------------------------------------------------------------------


def compare(names: list[str], json_file: str | None) -> None:
    """Prints the groups' table, draws their picture, writes the numbers to json_file."""
    groups, beside = read_groups(names), run_folder(names[0]).resolve().parent
    found = {group.name: numbers(group, groups[0]) for group in groups}
    print(render(found))
    draw(groups, beside / "compare.png")
    print(f"\npicture: {beside / 'compare.png'}")
    if json_file:
        Path(json_file).write_text(json.dumps({"groups": found}, indent=1) + "\n")


def numbers(group: Group, first: Group) -> dict:
    """Seeds, mean and interval of the held-out return of those that are finished, and the gap to
    the first group."""
    found = {"seeds": len(group.runs), "finished": len(group.finished)}
    for when, name in ENDS if group.finished else ():
        mean, low, high = group.end(when, name)
        high = min(high, 1.0)  # returns are shares of the maximum
        found |= {f"{when}/{name}": mean, f"{when}/{name}_low": low, f"{when}/{name}_high": high}
    return found if group is first else found | {"gap": gap(group, first)}


def gap(group: Group, first: Group) -> dict:
    """Sampled return after training less that of the first group, seed by seed; with its 95 %
    interval, over seeds, or over the problems of one. {} where they share no seed."""
    seeds = sorted(group.finished.keys() & first.finished.keys())
    ends = [[g.runs[seed].returns["after"]["return"] for g in (group, first)] for seed in seeds]
    if not seeds or any(len(mine) != len(others) for mine, others in ends):
        return {}
    gaps = [[a - b for a, b in zip(*pair, strict=True)] for pair in ends]
    means = [statistics.fmean(problems) for problems in gaps]
    values = means if len(seeds) > 1 else gaps[0]
    mean, error = mean_and_error(values)
    half = None if error is None else t95(len(values)) * error
    return {"seeds": dict(zip(seeds, means, strict=True)), "mean": mean, "half": half}


def render(found: dict[str, dict]) -> str:
    width = max(map(len, ("group", *found))) + 2
    heads = [label.replace("\n", " ").rjust(22) for label in ENDS.values()]
    lines = ["return on held-out problems, share of the maximum: mean [95 % interval *]"]
    lines.append("group".ljust(width) + "seeds" + "".join(heads))
    for name, row in found.items():
        keys = [f"{when}/{name}" for when, name in ENDS] if row["finished"] else []
        cells = [f"{row[k]:.3f} [{row[f'{k}_low']:.3f}, {row[f'{k}_high']:.3f}]" for k in keys]
        cells = cells or ["  no held-out returns: not finished, or --eval-limit none"]
        lines.append(name.ljust(width) + f"{row['seeds']:5d}" + "".join(c.rjust(22) for c in cells))
    lines.append(
        "* a bootstrap over seeds and problems, widened for few seeds; of one, over problems"
    )
    gaps = {name: row["gap"] for name, row in found.items() if row.get("gap")}
    if gaps:
        first = next(iter(found))
        lines.append(f"\nsampled, after: difference to {first}, same seeds and problems")
    for name, row in gaps.items():
        half = "" if row["half"] is None else f" ± {row['half']:.3f}"
        each = ", ".join(f"seed {seed} {value:+.3f}" for seed, value in row["seeds"].items())
        lines.append(f"{name.ljust(width)}{row['mean']:+.3f}{half} (95 % interval; {each})")
    return "\n".join(lines)


# --- the picture ----------------------------------------------------------------------------------


def draw(groups: list[Group], path: Path) -> None:
    """Learning curves, and the held-out return before and after training."""
    from matplotlib import style
    from matplotlib.figure import Figure

    with style.context(("tableau-colorblind10", {"font.size": 9, "axes.titlesize": 9})):
        figure = Figure((8, 3), layout="constrained")
        left, right = figure.subplots(1, 2, width_ratios=(3, 2))
        for number, group in enumerate(groups):
            draw_curves(left, group, f"C{number}")
        left.set(xlabel="step", ylabel="return (share of the maximum)", ylim=(0, 1))
        left.set_title("return of the training batches")
        left.legend(frameon=False, loc="lower right")
        draw_ends(right, groups)
        figure.savefig(path, dpi=200)


def draw_curves(axes, group: Group, color: str) -> None:
    """Every seed's return, thin; their mean, as far as all of them have come."""
    curves = [run.curve for run in group.runs.values()]
    for curve in curves:
        axes.plot(curve, color=color, linewidth=0.4, alpha=0.35)
    length = min(map(len, curves))
    mean = np.mean([curve[:length] for curve in curves], 0)
    label = f"{group.name} ({len(curves)} seed{'s' * (len(curves) > 1)})"
    axes.plot(mean, color=color, linewidth=1.8, label=label)


def draw_ends(axes, groups: list[Group]) -> None:
    """Bars with 95 % intervals: sampled and greedy, before and after."""
    wide = 0.8 / len(groups)
    for number, group in enumerate(groups):
        if not group.finished:
            continue
        places = np.arange(len(ENDS)) + (number - (len(groups) - 1) / 2) * wide
        means, lows, highs = np.array([group.end(*end) for end in ENDS]).T
        color, errors = f"C{number}", [means - lows, highs - means]
        axes.bar(places, means, 0.9 * wide, color=color, yerr=errors, error_kw={"elinewidth": 1})
        for place, mean in zip(places, means, strict=True) if len(groups) <= 3 else ():
            axes.text(place, 0.02, f"{mean:.2f}", ha="center", color="w", fontsize=7)
    axes.set(ylim=(0, 1), xticks=range(len(ENDS)), xticklabels=ENDS.values())
    axes.set_title("held-out problems, 95 % intervals")
