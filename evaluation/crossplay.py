"""Cross-play (Hu et al., "Other-Play", arXiv 2003.02979): an agent of one run plays with the
partners of another.

A team that is good with itself and fails with others has learned conventions. The table's rows are
the runs that agent 0 comes from, its columns the runs of all its partners, so the diagonal is
self-play. With three agents and more, a cell is the mean over which agent is the stranger.
"""

import itertools
import statistics
from pathlib import Path

from evaluation.players import Player, load_agents, settings
from evaluation.report import align
from policies.sampling import sampling_of
from training.bits import settle
from training.folder import check_bases, run_folder, write_json
from training.heldout import largest_return, play, progress
from training.plugins import find_reward, items_of, make_task

SAME = ("task", "reward", "data", "num_agents", "model", "lora_rank", "lora_alpha", "turns")


def crossplay(args) -> str:
    """Plays every team, draws the table beside the first run, writes --json, tells the table."""
    runs = [run_folder(name) for name in args.crossplay]
    if len(runs) < 2:
        raise ValueError("--crossplay takes two runs or more, whose agents change partners")
    first, *others = [settings(args, run) for run in runs]
    for run, flags in zip(runs[1:], others, strict=True):
        if wrong := [name for name in SAME if getattr(flags, name) != getattr(first, name)]:
            raise ValueError(f"--crossplay: {run} has another {wrong[0]} than {runs[0]}")
    if first.num_agents < 2:
        raise ValueError(f"--crossplay: {runs[0]} has one agent, and no partners to change")
    settle(first)
    first.share = False  # one policy for all is loaded once for each agent: they may differ here
    task = make_task(first)
    items = items_of(task, "test")[: args.limit or None]
    player, weights = Player(first, None, find_reward(first, task)), []
    for run in runs:
        check_bases(run, first)
        load_agents(player.team, run)
        weights.append(player.copies())
    found, agents = [[0.0] * len(runs) for _ in runs], range(first.num_agents)
    strangers = [0] if len(agents) == 2 else agents
    teams = list(itertools.product(range(len(runs)), range(len(runs)), strangers))
    with progress("cross-play", len(teams) * len(items)) as bar:
        for a, b, stranger in teams:
            player.put([weights[a if agent == stranger else b][agent] for agent in agents])
            rollout, samples = player.rollout(), 1 if args.greedy else args.num_samples
            turns = play(rollout, items, args.seed, samples, sampling_of(first, args.greedy), bar)
            mean = statistics.fmean(node.value for node in turns[0])
            found[a][b] += mean / largest_return(turns, rollout) / len(strangers)
    alone = statistics.fmean(row[number] for number, row in enumerate(found))
    pairs = itertools.permutations(range(len(runs)), 2)
    mixed = statistics.fmean(found[a][b] for a, b in pairs)
    if args.json:
        record = {"runs": list(map(str, runs)), "returns": found, "self": alone, "cross": mixed}
        write_json(Path(args.json), record)
    picture = runs[0].resolve().parent / "crossplay.png"
    draw([run.name for run in runs], found, picture)
    how = "greedy" if args.greedy else f"{args.num_samples} samples"
    rows = [["agent 0 of, partners of", *(run.name for run in runs)]]
    for run, row in zip(runs, found, strict=True):
        rows.append([run.name, *(f"{value:.3f}" for value in row)])
    return (
        f"held-out return, {len(items)} problems, {how}\n\n{align(rows)}\n\n"
        f"with their own partners {alone:.3f}, with others' {mixed:.3f}\npicture: {picture}"
    )


def draw(names: list[str], found: list[list[float]], path: Path) -> None:
    from matplotlib.figure import Figure

    side = 1.6 + 0.8 * len(names)
    figure = Figure((side + 1, side), layout="constrained")
    axes, ticks = figure.subplots(), range(len(names))
    shades = axes.imshow(found, cmap="viridis", vmin=0, vmax=1)
    figure.colorbar(shades, label="held-out return")
    axes.set_xticks(ticks, names, rotation=45, ha="right")
    axes.set_yticks(ticks, names)
    axes.set(xlabel="partners of", ylabel="agent 0 of")
    for a, b in itertools.product(ticks, repeat=2):
        color = "black" if found[a][b] > 0.6 else "white"
        axes.text(b, a, f"{found[a][b]:.2f}", ha="center", va="center", color=color)
    figure.savefig(path, dpi=150)
