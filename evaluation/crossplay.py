"""Cross-play (Hu et al., "Other-Play", arXiv 2003.02979): an agent of one run plays with the
partners of another.

A team that is good with itself and fails with others has learned conventions. The table's rows are
the runs that agent 0 comes from, its columns those of its partners: the diagonal is self-play.
"""

import itertools
import statistics
from pathlib import Path

from evaluation.players import Player, load_agents, settings
from evaluation.report import align
from policies.sampling import sampling_of
from running.bits import settle
from running.folder import check_bases, run_folder, write_json
from running.heldout import largest_return, play, progress
from running.plugins import find_reward, items_of, make_task

SAME = ("task", "reward", "data", "num_agents", "model", "lora_rank", "lora_alpha", "turns")


def crossplay(args) -> str:
    """Plays every team, writes --json, tells the table."""
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
    found = [[0.0] * len(runs) for _ in runs]
    with progress("cross-play", len(runs) ** 2 * len(items)) as bar:
        for a, b in itertools.product(range(len(runs)), repeat=2):
            player.put([weights[a][0], *weights[b][1:]])
            rollout, samples = player.rollout(), 1 if args.greedy else args.num_samples
            turns = play(rollout, items, args.seed, samples, sampling_of(first, args.greedy), bar)
            mean = statistics.fmean(node.value for node in turns[0])
            found[a][b] = mean / largest_return(turns, rollout)
    alone = statistics.fmean(row[number] for number, row in enumerate(found))
    pairs = itertools.permutations(range(len(runs)), 2)
    mixed = statistics.fmean(found[a][b] for a, b in pairs)
    if args.json:
        record = {"runs": list(map(str, runs)), "returns": found, "self": alone, "cross": mixed}
        write_json(Path(args.json), record)
    how = "greedy" if args.greedy else f"{args.num_samples} samples"
    rows = [["agent 0 of, partners of", *(run.name for run in runs)]]
    for run, row in zip(runs, found, strict=True):
        rows.append([run.name, *(f"{value:.3f}" for value in row)])
    return (
        f"held-out return, {len(items)} problems, {how}\n\n{align(rows)}\n\n"
        f"with their own partners {alone:.3f}, with others' {mixed:.3f}"
    )
