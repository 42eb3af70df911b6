"""Runs beside each other: their numbers, and a picture of their curves and of their ends.

Runs of one name but for its ending (-seed0, -1, _2), with the same flags but for --seed (and that
ending in the names of --init), and of the same code are the seeds of one group. The picture goes
beside the first run: compare.png and .svg.
"""

import json
import math
import re
import statistics
from dataclasses import dataclass, field
from pathlib import Path

from evaluation.measures import interval, mean_and_error, t95
from running.folder import read_args, run_folder

# Okabe and Ito's, which color-blind readers tell apart
COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
ENDS = (("before", "return"), ("after", "return"))
ENDS += tuple((when, f"greedy/{name}") for when, name in ENDS)
BARS = ("sampled,\nbefore", "sampled,\nafter", "greedy,\nbefore", "greedy,\nafter")


@dataclass
class Group:
    """The seeds of one experiment."""

    name: str
    flags: dict  # and "code", a digest of it
    runs: dict[int, Path] = field(default_factory=dict)  # by seed
    curves: list[list[float]] = field(default_factory=list)  # return per rollout, by seed
    steps: list[int] = field(default_factory=list)  # of the longest curve: the same in all of them
    summaries: dict[int, dict] = field(default_factory=dict)  # by seed, of those that are finished
    schemes: list[dict[str, list[float]]] = field(default_factory=list)  # by seed: shares per step

    def end(self, when: str, name: str) -> tuple[float, float, float]:
        """Mean over seeds and problems with its 95 % interval, "before" or "after" training. Of
        two seeds it would say nothing (Student's t is 12.7): theirs are (mean, least, most)."""
        returns = [summary["returns"][when][name] for summary in self.summaries.values()]
        means = [statistics.fmean(values) for values in returns]
        if len(means) == 2:
            return statistics.fmean(means), min(means), max(means)
        return interval(returns)


def read_groups(directories: list[str]) -> list[Group]:
    """The runs by group, in the order given; ValueError names what is no run."""
    groups: dict[tuple, Group] = {}
    for directory in map(run_folder, directories):
        record = read_args(directory)
        try:
            flags = record["args"] | {"code": " ".join(record.get("code", ["unknown"]))}
            seed = flags["seed"]
            rows = [json.loads(x) for x in (directory / "metrics.jsonl").read_text().splitlines()]
            rows = [row for row in rows if "return" in row]  # the others are evaluations
            curve, at = [row["return"] for row in rows], [row["step"] for row in rows]
            file = directory / "summary.json"
            summary = json.loads(file.read_text()) if file.is_file() else None
            if not curve:
                raise ValueError("no step was made")
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{directory} is not a run: {error}") from error
        stem, flags["init"] = stem_of(directory.name), stems(flags.get("init"))
        same = {k: v for k, v in flags.items() if k not in ("seed", "run", "resume", "debug")}
        group = groups.setdefault((stem, json.dumps(same, sort_keys=True)), Group(stem, same))
        if group.runs.setdefault(seed, directory) != directory:
            raise ValueError(f"{group.runs[seed]} and {directory} are one experiment with one seed")
        group.curves.append(curve)
        group.schemes.append(scheme_shares(rows))
        group.steps = max(group.steps, at, key=len)
        if summary and "returns" not in summary:
            raise ValueError(f"{directory} is of an older version: no return per problem in it")
        if summary and summary["returns"]:  # --eval-limit none leaves none
            group.summaries[seed] = summary
    for name in {group.name for group in groups.values()}:
        tell_apart([group for group in groups.values() if group.name == name])
    return list(groups.values())


def scheme_shares(rows: list[dict]) -> dict[str, list[float]]:
    """The share of each scheme of dividing the work at each step; {} where the task names none."""
    names = sorted({name for row in rows for name in row if name.startswith("scheme/")})
    return {name.removeprefix("scheme/"): [row.get(name, 0.0) for row in rows] for name in names}


def stem_of(name: str) -> str:
    """A run's name without what tells its seed."""
    return re.sub(r"[-_.]?(seed)?[-_]?\d+$", "", name) or name


def stems(init: list[str] | None) -> str | None:
    """The folders of --init without what tells the seeds of their runs."""
    return init and " ".join("/".join(map(stem_of, Path(folder).parts)) for folder in init)


def tell_apart(groups: list[Group]) -> None:
    """Adds to the names of groups that have one name what differs between them."""
    names = {name for group in groups for name in group.flags}
    differ = [n for n in sorted(names) if len({str(g.flags.get(n)) for g in groups}) > 1]
    for group in groups:
        for name in differ:
            value = group.flags.get(name)
            flag = f"--{name.replace('_', '-')} {value}"
            group.name += f" (code {value})" if name == "code" else f" {flag}"


def compare(directories: list[str], json_file: str | None) -> None:
    """Prints the groups' table, draws their picture, writes the numbers to json_file."""
    groups, beside = read_groups(directories), run_folder(directories[0]).resolve().parent
    found = {group.name: numbers(group) for group in groups}
    for group in groups[1:]:
        found[group.name]["gap"] = gap(group, groups[0])
    print(render(found))
    earned = {group.name: earns(group.flags) for group in groups}
    if len(set(earned.values())) > 1:
        each = "; ".join(f"{name}: {what}" for name, what in earned.items())
        print(f"\nnot one and the same return, so do not rank them by it: {each}")
    for ending in ("png", "svg"):
        draw(groups, beside / f"compare.{ending}")
    print(f"\npicture: {beside / 'compare.png'} and compare.svg")
    if json_file:
        Path(json_file).write_text(json.dumps({"groups": found}, indent=1) + "\n")


def earns(flags: dict) -> str:
    """What a return is of, as far as the flags of a run tell."""
    reward = flags.get("reward") or "the task's own"
    return f"task {flags.get('task')}, reward {reward}, data {flags.get('data') or 'its own'}"


def numbers(group: Group) -> dict:
    """Seeds, and mean and interval of the held-out return of those that are finished."""
    found = {"seeds": len(group.curves), "finished": len(group.summaries)}
    for when, name in ENDS if group.summaries else ():
        mean, low, high = group.end(when, name)
        high = min(high, 1.0)  # returns are shares of the maximum
        found |= {f"{when}/{name}": mean, f"{when}/{name}_low": low, f"{when}/{name}_high": high}
    return found


def gap(group: Group, first: Group) -> dict:
    """Sampled return after training less that of the first group, seed by seed; with its 95 %
    interval, over three seeds or more, or over the problems of one. {} where they share no seed."""
    seeds = sorted(group.summaries.keys() & first.summaries.keys())
    ends = [[g.summaries[s]["returns"]["after"]["return"] for g in (group, first)] for s in seeds]
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
    heads = [text.replace("\n", " ") for text in BARS]
    lines = ["return on held-out problems, share of the maximum: mean [95 % interval *]"]
    lines.append("group".ljust(width) + "seeds" + "".join(head.rjust(22) for head in heads))
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
    """Learning curves (left) and held-out return before and after training (right)."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    style = {"font.size": 9, "axes.spines.top": False, "axes.spines.right": False}
    style |= {"svg.fonttype": "none", "svg.hashsalt": "compare", "axes.titlesize": 9}
    named = [group for group in groups if any(group.schemes)]
    with plt.rc_context(style):
        figure = plt.figure(figsize=(8, 5.5 if named else 3), layout="constrained")
        top, *below = figure.subfigures(2 if named else 1, 1, squeeze=False)[:, 0]
        left, right = top.subplots(1, 2, width_ratios=(3, 2))
        for number, group in enumerate(groups):
            draw_curves(left, group, COLORS[number % len(COLORS)])
        left.set(xlabel="step", ylabel="return (share of the maximum)", ylim=(0, 1))
        left.set_title("return of the training batches")
        left.legend(frameon=False, loc="lower right")
        draw_ends(right, groups)
        for row in below:
            draw_schemes(row.subplots(1, len(named), sharey=True, squeeze=False)[0], named)
        metadata = {"Date": None} if path.suffix == ".svg" else None  # the same picture every time
        figure.savefig(path, dpi=200, metadata=metadata)
        plt.close(figure)


def smooth(curve: list[float], window: int) -> list[float]:
    """Mean over the steps within half a window of each step."""
    reach = window // 2
    return [
        statistics.fmean(curve[max(step - reach, 0) : step + reach + 1])
        for step in range(len(curve))
    ]


def band(curves: list[list[float]]) -> list[tuple[float, float, float]]:
    """(mean, low, high) at each step that all seeds have reached: Student's t over seeds."""
    found = []
    for values in zip(*curves, strict=False):
        mean = statistics.fmean(values)
        half = t95(len(values)) * statistics.stdev(values) / math.sqrt(len(values))
        found.append((mean, mean - half, mean + half))
    return found


def draw_curves(axes, group: Group, color: str) -> None:
    """Every seed's return, thin; smoothed: of one or two seeds each, of more their mean in its 95 %
    band. At the steps of the run, of which a rollout may make several."""
    for curve in group.curves:
        axes.plot(group.steps[: len(curve)], curve, color=color, linewidth=0.4, alpha=0.35)
    window = max(min(map(len, group.curves)) // 20, 1)
    smoothed = [smooth(curve, window) for curve in group.curves]
    seeds = f"{len(smoothed)} seed" + "s" * (len(smoothed) > 1)
    if len(smoothed) > 2:
        mean, low, high = map(list, zip(*band(smoothed), strict=True))
        axes.fill_between(group.steps[: len(mean)], low, high, color=color, alpha=0.2, linewidth=0)
        smoothed = [mean]
    for number, curve in enumerate(smoothed):
        label = None if number else f"{group.name} ({seeds})"
        axes.plot(group.steps[: len(curve)], curve, color=color, linewidth=1.8, label=label)


def draw_ends(axes, groups: list[Group]) -> None:
    """Bars with 95 % intervals: sampled and greedy, before and after."""
    wide = 0.8 / len(groups)
    for number, group in enumerate(groups):
        if not group.summaries:
            continue
        places = [bar + (number - (len(groups) - 1) / 2) * wide for bar in range(len(ENDS))]
        means, lows, highs = zip(*(group.end(*end) for end in ENDS), strict=True)
        errors = [
            [mean - low for mean, low in zip(means, lows, strict=True)],
            [high - mean for mean, high in zip(means, highs, strict=True)],
        ]
        bars = axes.bar(places, means, 0.9 * wide, color=COLORS[number % len(COLORS)], yerr=errors)
        bars.errorbar.lines[2][0].set(linewidth=1)
        for place, mean in zip(places, means, strict=True) if len(groups) <= 3 else ():
            axes.text(place, 0.02, f"{mean:.2f}", ha="center", color="w", fontsize=7)
    axes.set(ylim=(0, 1), xticks=range(len(ENDS)), xticklabels=BARS)
    axes.set_title("held-out problems, 95 % intervals")


def draw_schemes(panels, groups: list[Group]) -> None:
    """How the joint responses of each step divided the work: a panel for each group, the mean over
    its seeds, smoothed."""
    from matplotlib import colormaps

    names = sorted({name for group in groups for shares in group.schemes for name in shares})
    colors = [colormaps["tab20"](number % 20) for number in range(len(names))]
    for axes, group in zip(panels, groups, strict=True):
        length = min(map(len, group.curves))
        shares = [
            [statistics.fmean(at) for at in zip(*seeds, strict=True)]
            for name in names
            for seeds in [[s.get(name, [0.0] * length)[:length] for s in group.schemes]]
        ]
        shares = [smooth(curve, max(length // 20, 1)) for curve in shares]
        axes.stackplot(group.steps[:length], *shares, labels=names, colors=colors)
        axes.set(xlabel="step", ylim=(0, 1), title=f"division of work, {group.name}")
    panels[0].set_ylabel("share of the joint responses")
    panels[-1].legend(frameon=False, loc="upper left", bbox_to_anchor=(1, 1))
