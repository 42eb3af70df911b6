"""Runs beside each other: their numbers, and a picture of their curves and of their ends.

Runs of one name but for its ending (-seed0, -1, _2), with the same flags but for --seed (and that
ending in the names of --init), and of the same code are the seeds of one group. The picture goes
beside the first run: compare.png.
"""

import json
import re
import statistics
from pathlib import Path
from textwrap import fill
from typing import NamedTuple

import numpy as np

from evaluation.measures import interval, mean_and_error, t95
from evaluation.report import align
from training.folder import read_args, read_records, reading, run_folder, write_json

ENDS = {  # what an evaluation measured, and its label
    "before/return": "sampled,\nbefore",
    "after/return": "sampled,\nafter",
    "before/greedy/return": "greedy,\nbefore",
    "after/greedy/return": "greedy,\nafter",
}
OWN = ("seed", "run", "resume", "debug")  # flags in which the seeds of a group may differ


class Group(NamedTuple):
    """The seeds of one experiment."""

    name: str
    flags: dict  # and "code", a digest of it
    rows: dict[int, list[dict]]  # by seed: the metrics of each step ...
    returns: dict[int, dict]  # ... and what held-out problems returned before and after, if known

    def curves(self, name: str) -> np.ndarray:
        """A metric by seed and step, as far as all seeds have come; 0 where a step has none."""
        rows = zip(*self.rows.values(), strict=False)
        return np.array([[row.get(name, 0.0) for row in seeds] for seeds in rows]).T

    def schemes(self) -> list[str]:
        """The metrics with the shares of the schemes, of a task that names them."""
        rows = [row for rows in self.rows.values() for row in rows]
        return sorted({name for row in rows for name in row if name.startswith("scheme/")})

    def end(self, name: str) -> tuple[float, float, float]:
        """Mean over seeds and problems with its 95 % interval; name: one of ENDS."""
        when, _, name = name.partition("/")
        return interval([returns[when][name] for returns in self.returns.values()])


def read_groups(names: list[str]) -> list[Group]:
    """The runs by group, in the order given."""
    groups: dict[tuple, Group] = {}
    for directory in map(run_folder, names):
        record, file = read_args(directory), directory / "summary.json"
        flags = {name: value for name, value in record["args"].items() if name not in OWN}
        flags["code"] = " ".join(record.get("code", ["unknown"]))
        if init := flags.get("init"):
            flags["init"] = ["/".join(map(stem_of, Path(folder).parts)) for folder in init]
        stem, seed = stem_of(directory.name), record["args"]["seed"]
        key = stem, json.dumps(flags, sort_keys=True)
        group = groups.setdefault(key, Group(stem, flags, {}, {}))
        if seed in group.rows:
            raise ValueError(f"{directory} and a run before it are one experiment with one seed")
        rows = read_records(directory / "metrics.jsonl")  # some are evaluations
        group.rows[seed] = [row for row in rows if "return" in row]
        if not group.rows[seed]:
            raise ValueError(f"{directory}: no step was made")
        with reading(file):
            returns = json.loads(file.read_text())["returns"] if file.is_file() else {}
        group.returns.update({seed: returns} if returns else {})
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
            label = f"(code {value})" if flag == "code" else f"--{flag.replace('_', '-')} {value}"
            name += f" {label}"
    return group._replace(name=name)


def compare(names: list[str], json_file: str | None) -> None:
    """Prints the groups' table, draws their picture, writes the numbers to json_file."""
    groups, beside = read_groups(names), run_folder(names[0]).resolve().parent
    found = {group.name: numbers(group, groups[0]) for group in groups}
    print(render(found))
    draw(groups, beside / "compare.png")
    print(f"\npicture: {beside / 'compare.png'}")
    if json_file:
        write_json(Path(json_file), {"groups": found})


def numbers(group: Group, first: Group) -> dict:
    """Seeds; of those that are finished, the held-out return; the gap to the first group."""
    found = {"seeds": len(group.rows), "finished": len(group.returns)}
    for name in ENDS if group.returns else ():
        mean, low, high = group.end(name)
        high = min(high, 1.0)  # returns are shares of the maximum
        found |= {name: mean, f"{name}_low": low, f"{name}_high": high}
    return found if group is first else found | {"gap": gap(group, first)}


def gap(group: Group, first: Group) -> dict:
    """Sampled return after training less that of the first group, seed by seed; with its 95 %
    interval, over seeds, or over the problems of one. {} where they share no seed."""
    seeds = sorted(group.returns.keys() & first.returns.keys())
    ends = [[g.returns[seed]["after"]["return"] for g in (group, first)] for seed in seeds]
    if not seeds or any(len(mine) != len(others) for mine, others in ends):
        return {}
    gaps = [[a - b for a, b in zip(*pair, strict=True)] for pair in ends]
    means = [statistics.fmean(problems) for problems in gaps]
    values = means if len(seeds) > 1 else gaps[0]
    mean, error = mean_and_error(values)
    half = None if error is None else t95(len(values)) * error
    return {"seeds": dict(zip(seeds, means, strict=True)), "mean": mean, "half": half}


def render(found: dict[str, dict]) -> str:
    rows = [["group", "seeds", *(label.replace("\n", " ") for label in ENDS.values())]]
    for name, row in found.items():
        ends = [[row.get(end + of) for of in ("", "_low", "_high")] for end in ENDS]
        cells = ["-" if None in end else "{:.3f} [{:.3f}, {:.3f}]".format(*end) for end in ends]
        rows.append([name, str(row["seeds"]), *cells])
    lines = ["return on held-out problems, share of the maximum: mean [95 % interval *]"]
    lines += [align(rows), "* over seeds and problems; of one seed, over its problems"]
    for name, row in found.items():
        if gap := row.get("gap"):
            half = "" if gap["half"] is None else f" ± {gap['half']:.3f}"
            each = ", ".join(f"seed {seed} {value:+.3f}" for seed, value in gap["seeds"].items())
            pair = f"{name} - {next(iter(found))}, sampled, after"
            lines.append(f"{pair}: {gap['mean']:+.3f}{half} ({each})")
    return "\n".join(lines)


def draw(groups: list[Group], path: Path) -> None:
    """Learning curves, held-out return before and after training; below, the division of work."""
    from matplotlib import style
    from matplotlib.figure import Figure

    divided = [group for group in groups if group.schemes()]
    with style.context(("tableau-colorblind10", {"font.size": 9, "axes.titlesize": 9})):
        figure = Figure((8, 3 + 2.5 * bool(divided)), layout="constrained")
        above, *below = figure.subfigures(1 + bool(divided), 1, squeeze=False)[:, 0]
        left, right = above.subplots(1, 2, width_ratios=(3, 2))
        for number, group in enumerate(groups):
            draw_curves(left, group, f"C{number}")
        left.set(xlabel="step", ylabel="return (share of the maximum)", ylim=(0, 1))
        left.set_title("return of the training batches")
        left.legend(frameon=False)  # where it covers the least of the curves
        draw_ends(right, groups)
        panels = below[0].subplots(1, len(divided), squeeze=False)[0] if below else ()
        names = sorted({name for group in divided for name in group.schemes()})
        for axes, group in zip(panels, divided, strict=True):
            draw_schemes(axes, group, names)
        figure.savefig(path, dpi=200)


def smooth(curve: np.ndarray) -> np.ndarray:
    """The mean of the steps around each, a tenth of the curve to both sides at most."""
    half = min(len(curve) // 10, 5)
    return np.array([curve[max(i - half, 0) : i + half + 1].mean() for i in range(len(curve))])


def draw_curves(axes, group: Group, color: str) -> None:
    """Every seed's return, thin; their mean, smoothed, as far as all of them have come."""
    for rows in group.rows.values():
        axes.plot([row["return"] for row in rows], color=color, linewidth=0.4, alpha=0.35)
    label = f"{group.name} ({len(group.rows)} seed{'s' * (len(group.rows) > 1)})"
    mean = smooth(group.curves("return").mean(0))
    axes.plot(mean, color=color, linewidth=1.8, label=fill(label, 48))


def draw_schemes(axes, group: Group, names: list[str]) -> None:
    """How the joint responses of each step divided the work, the mean over seeds, smoothed."""
    from matplotlib import colormaps

    shares = np.array([group.curves(name).mean(0) for name in names])
    shares = [smooth(curve) for curve in shares[:, shares.sum(0) > 0]]  # at the steps that have any
    labels = [name.removeprefix("scheme/") for name in names]
    axes.stackplot(range(len(shares[0])), *shares, labels=labels, colors=colormaps["tab20"].colors)
    axes.set(xlabel="step", ylim=(0, 1), title=fill(f"division of work, {group.name}", 40))
    axes.legend(fontsize=6)


def draw_ends(axes, groups: list[Group]) -> None:
    """Bars with 95 % intervals: sampled and greedy, before and after."""
    wide = 0.8 / len(groups)
    for number, group in enumerate(groups):
        if not group.returns:
            continue
        places = np.arange(len(ENDS)) + (number - (len(groups) - 1) / 2) * wide
        means, lows, highs = np.array([group.end(name) for name in ENDS]).T
        color, errors = f"C{number}", [means - lows, highs - means]
        axes.bar(places, means, 0.9 * wide, color=color, yerr=errors, error_kw={"elinewidth": 1})
        for place, mean in zip(places, means, strict=True) if len(groups) < 3 else ():
            axes.text(place, 0.02, f"{mean:.2f}", ha="center", color="w", fontsize=7)
    axes.set(ylim=(0, 1), xticks=range(len(ENDS)), xticklabels=ENDS.values())
    axes.set_title("held-out problems, 95 % intervals")
