"""Draw the learning curves of groups of runs, and how each group divided the work."""

import itertools
from pathlib import Path
from textwrap import fill

import pandas

from evaluation import palette
from evaluation.groups import Groups, Run


def draw(groups: Groups, metrics: list[str], path: Path, schemes: bool) -> None:
    """Draw a panel for each metric that is measured at every step.

    schemes: below them, a panel of each group that has schemes.
    """
    from matplotlib import rc_context
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    runs = list(itertools.chain(*groups.values()))
    curves = [metric for metric in metrics if any(metric in run.steps for run in runs)]
    divided = {}
    for name, members in groups.items():
        shares = shares_of(members)
        if schemes and not shares.empty:
            divided[name] = shares
    rows = len(curves) + len(divided)
    if not rows:
        raise ValueError(f"--out: no step has {' '.join(metrics)}")
    shortest = min(len(run.steps) for run in runs)
    half = min(shortest // 10, 5)
    with rc_context({"font.size": 9, "axes.titlesize": 9}):
        figure = Figure((8, 3 * rows + 0.2 * len(groups)), layout="constrained")
        panels = iter(figure.subplots(rows, squeeze=False)[:, 0])
        for metric, panel in zip(curves, panels, strict=False):
            draw_curves(panel, groups, metric, half)
        if curves:
            entries = figure.axes[0].get_legend_handles_labels()
            figure.legend(*entries, loc="outside upper left", fontsize=8, frameon=False)
        names = set(itertools.chain(*divided.values()))
        colors = palette.scheme_colors(names)
        for name, panel in zip(divided, panels, strict=True):
            draw_schemes(panel, name, smooth(divided[name], half), colors)
        if divided:  # all panels of schemes have the same legend
            entries = figure.axes[-1].get_legend_handles_labels()
            figure.legend(*entries, loc="outside lower left", ncols=5, fontsize=8)
        for panel in figure.axes:
            panel.set_xlabel("step (the first one is 0)")
            panel.xaxis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10]))
        figure.savefig(path, dpi=200)


def smooth(curves: pandas.DataFrame, half: int) -> pandas.DataFrame:
    """Return the mean of the steps around each step, `half` of them to each side."""
    windows = curves.rolling(2 * half + 1, center=True, min_periods=1)
    return windows.mean()


def draw_curves(axes, groups: Groups, metric: str, half: int) -> None:
    """Draw the mean over the seeds of each group and its standard error, as far as all have come.

    A group has its color in every picture. Lines differ in their dashes, too, so that a curve shows
    through the gaps of one that covers it.
    """
    colors = palette.scheme_colors(groups, palette.LINES)
    dashes = itertools.cycle(("-", "--", "-.", ":"))
    for name, dash in zip(groups, dashes, strict=False):
        curves = {}
        for run in groups[name]:
            if metric in run.steps:
                curves[run.seed] = run.steps[metric]
        seeds = smooth(pandas.DataFrame(curves).dropna(), half)
        mean = seeds.mean(axis=1)
        error = seeds.sem(axis=1)  # not a number, and not drawn, for one seed
        label = fill(f"{name} (n = {len(curves)})", 110)
        axes.plot(mean, dash, color=colors[name], label=label)
        axes.fill_between(
            mean.index,
            mean - error,
            mean + error,
            color=colors[name],
            alpha=0.25,
            linewidth=0,
        )
    title = "training batches: mean ± standard error over n seeds"
    if half:
        title += f", smoothed over {2 * half + 1} steps"
    axes.set(title=title, ylabel=metric)
    runs = itertools.chain(*groups.values())
    values = pandas.concat(run.steps.filter([metric]) for run in runs)
    if values[metric].between(0, 1).all():
        axes.set_ylim(0, 1)


def shares_of(members: list[Run]) -> pandas.DataFrame:
    """Return the shares of the schemes at the steps that have any, the mean over seeds.

    It goes as far as all seeds have come. The task may name no scheme.
    """
    common = min(len(run.steps) for run in members)
    rows = pandas.concat(run.steps.filter(regex="^scheme/") for run in members)
    shares = rows.fillna(0.0).groupby(level=0).mean()[:common]
    shares.columns = shares.columns.str.removeprefix("scheme/")
    return shares[shares.sum(axis=1) > 0]


def draw_schemes(axes, name: str, shares: pandas.DataFrame, colors: dict[str, str]) -> None:
    """Draw how the joint responses of each step of a group divided the work."""
    shares = shares.reindex(columns=list(colors), fill_value=0.0)
    axes.stackplot(
        shares.index,
        shares.T,
        labels=shares.columns,
        colors=colors.values(),
    )
    axes.set(
        title=fill(name, 100),
        ylabel="share of the joint responses",
        ylim=(0, 1),
    )
