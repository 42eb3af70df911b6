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
    rows: list[dict]  # the metrics of each step
    returns: dict  # of the held-out problems, before and after; {} where it is not finished

    def curve(self, name: str) -> list[float]:
        """A metric at each step; 0 where a step has none."""
        return [row.get(name, 0.0) for row in self.rows]


class Group(NamedTuple):
    """The seeds of one experiment."""

    name: str
    flags: dict
    runs: dict[int, Run]  # by seed

    @property
    def steps(self) -> list[int]:
        """Of the longest run: the same in all of them."""
        return [row["step"] for row in max((run.rows for run in self.runs.values()), key=len)]

    @property
    def finished(self) -> dict[int, Run]:
        return {seed: run for seed, run in self.runs.items() if run.returns}

    def end(self, when: str, name: str) -> tuple[float, float, float]:
        """Mean over seeds and problems with its 95 % interval, "before" or "after" training. Of
        two seeds it would say nothing (Student's t is 12.7): theirs are (mean, least, most)."""
        returns = [run.returns[when][name] for run in self.finished.values()]
        means = [statistics.fmean(values) for values in returns]
        if len(means) == 2:
            return statistics.fmean(means), min(means), max(means)
        return interval(returns)


def read_run(name: str) -> Run:
    directory = run_folder(name)
    record, file = read_args(directory), directory / "summary.json"
    flags = record["args"] | {"code": " ".join(record.get("code", ["unknown"]))}
    lines = json_lines(directory / "metrics.jsonl")
    rows = [row for _, row in lines if "return" in row]  # the others are evaluations
    if not rows:
        raise ValueError(f"{directory}: no step was made")
    with reading(file):
        returns = json.loads(file.read_text())["returns"] if file.is_file() else {}
    return Run(directory, flags, rows, returns)


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
    earned = {group.name: earns(group.flags) for group in groups}
    if len(set(earned.values())) > 1:
        each = "; ".join(f"{name}: {what}" for name, what in earned.items())
        print(f"\nnot one and the same return, so do not rank them by it: {each}")
    draw(groups, beside / "compare.png")
    print(f"\npicture: {beside / 'compare.png'}")
    if json_file:
        Path(json_file).write_text(json.dumps({"groups": found}, indent=1) + "\n")


def earns(flags: dict) -> str:
    """What a return is of, as far as the flags of a run tell."""
    reward = flags.get("reward") or "the task's own"
    return f"task {flags.get('task')}, reward {reward}, data {flags.get('data') or 'its own'}"


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
    interval, over three seeds or more, or over the problems of one. {} where they share no seed."""
    seeds = sorted(group.finished.keys() & first.finished.keys())
    ends = [[g.runs[seed].returns["after"]["return"] for g in (group, first)] for seed in seeds]
    if not seeds or any(len(mine) != len(others) for mine, others in ends):
        return {}
    gaps = [[a - b for a, b in zip(*pair, strict=True)] for pair in ends]
    means = [statistics.fmean(problems) for problems in gaps]
    values = means if len(seeds) > 1 else gaps[0]
    mean, error = mean_and_error(values)
    half = None if error is None or len(seeds) == 2 else t95(len(values)) * error
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
        "* a bootstrap over seeds and problems, widened for few seeds; of one seed, over problems; "
        "of two, the two"
    )
    gaps = {name: row["gap"] for name, row in found.items() if row.get("gap")}
    if gaps:
        first = next(iter(found))
        lines.append(f"\nsampled, after: difference to {first}, same seeds and problems")
    for name, row in gaps.items():
        half = "" if row["half"] is None else f" ± {row['half']:.3f}"
        each = ", ".join(f"seed {seed} {value:+.3f}" for seed, value in row["seeds"].items())
        each = f"95 % interval; {each}" if half else each
        lines.append(f"{name.ljust(width)}{row['mean']:+.3f}{half} ({each})")
    return "\n".join(lines)


# --- the picture ----------------------------------------------------------------------------------


def draw(groups: list[Group], path: Path) -> None:
    """Learning curves, held-out return before and after training; below, the division of work."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    style = "tableau-colorblind10", {"font.size": 9, "axes.titlesize": 9}
    divided = [group for group in groups if schemes_of(group)]
    with plt.style.context(style):
        figure = plt.figure(figsize=(8, 3 + 2.5 * bool(divided)), layout="constrained")
        above, *below = figure.subfigures(1 + bool(divided), 1, squeeze=False)[:, 0]
        left, right = above.subplots(1, 2, width_ratios=(3, 2))
        for number, group in enumerate(groups):
            draw_curves(left, group, f"C{number}")
        left.set(xlabel="step", ylabel="return (share of the maximum)", ylim=(0, 1))
        left.set_title("return of the training batches")
        left.legend(frameon=False, loc="lower right")
        draw_ends(right, groups)
        if below:
            panels = below[0].subplots(1, len(divided), squeeze=False)[0]
            for axes, group in zip(panels, divided, strict=True):
                draw_schemes(axes, group)
        figure.savefig(path, dpi=200)
        plt.close(figure)


def smooth(curve: list[float]) -> np.ndarray:
    """Mean over the steps within a fortieth of the curve of each step."""
    window = np.ones(2 * (max(len(curve) // 20, 1) // 2) + 1)
    return np.convolve(curve, window, "same") / np.convolve(np.ones(len(curve)), window, "same")


def draw_curves(axes, group: Group, color: str) -> None:
    """Every seed's return, thin; smoothed: of one or two seeds each, of more their mean, as far as
    all seeds have come. At the steps of the run, of which a rollout may make several."""
    curves, steps = [run.curve("return") for run in group.runs.values()], group.steps
    smoothed = [smooth(curve) for curve in curves]
    if len(curves) > 2:
        length = min(map(len, curves))
        smoothed = [np.mean([curve[:length] for curve in smoothed], 0)]
    for curve in curves:
        axes.plot(steps[: len(curve)], curve, color=color, linewidth=0.4, alpha=0.35)
    label = f"{group.name} ({len(curves)} seed{'s' * (len(curves) > 1)})"
    for curve in smoothed:
        axes.plot(steps[: len(curve)], curve, color=color, linewidth=1.8, label=label)
        label = None


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


def schemes_of(group: Group) -> list[str]:
    """The metrics with the shares of the schemes, of a task that names them."""
    rows = [row for run in group.runs.values() for row in run.rows]
    return sorted({name for row in rows for name in row if name.startswith("scheme/")})


def draw_schemes(axes, group: Group) -> None:
    """How the joint responses of each step divided the work, the mean over seeds, smoothed."""
    from matplotlib import colormaps

    names, length = schemes_of(group), min(len(run.rows) for run in group.runs.values())
    curves = [[run.curve(name)[:length] for run in group.runs.values()] for name in names]
    labels = [name.removeprefix("scheme/") for name in names]
    shares = [smooth(np.mean(seeds, 0)) for seeds in curves]
    colors = colormaps["tab20"].colors[: len(names)]
    axes.stackplot(group.steps[:length], *shares, labels=labels, colors=colors)
    axes.set(xlabel="step", ylim=(0, 1), title=f"division of work, {group.name}")
    axes.legend(fontsize=6)
