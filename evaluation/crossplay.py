"""Cross-play (Hu et al., "Other-Play", arXiv 2003.02979): an agent of one run plays with the
partners of another.

A team that is good with itself and fails with others has learned conventions. The table's rows are
the runs that agent 0 comes from, its columns the runs of all its partners, so the diagonal is
self-play. With three agents and more, each cell averages over which agent comes from the other run.
"""

import itertools
import statistics
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pandas

from evaluation.load_team import Player, load_agents, problems
from magrpo import Episode
from policies.model_names import TeamOptions
from policies.sampling import Sampling
from training.defaults import resolve_bits
from training.flags import part_of
from training.held_out import play, progress
from training.metrics import problem_returns
from training.plugins import TaskOptions, find_reward, make_task
from training.run_folder import check_bases, write_json
from training.terminal import counted

OPTIONS = (TaskOptions, TeamOptions, Episode, Sampling)
FREE = {"share", "trust_remote_code"}  # they change no response
# The other flags of a response and of its return: runs may not differ in them.
SAME = {"judge"} | {field.name for options in OPTIONS for field in fields(options)} - FREE


def check(runs: list[Path], flags: list) -> None:
    """Raise ValueError where the agents of these runs cannot change partners."""
    if len(runs) < 2:
        raise ValueError("--crossplay takes two runs or more, whose agents change partners")
    for run, run_flags in zip(runs, flags, strict=True):
        for name in sorted(SAME):
            if getattr(run_flags, name) != getattr(flags[0], name):
                raise ValueError(f"--crossplay: {run} has another {name} than {runs[0]}")
    if flags[0].num_agents < 2:
        raise ValueError(f"--crossplay: {runs[0]} has one agent, and no partners to change")


def crossplay(
    runs: list[Path],
    flags: list,
    limit: int,
    samples: int,
    seed: int,
) -> tuple[np.ndarray, str]:
    """Play every team. Return the held-out returns and the title of their table.

    The returns have an axis for the run of agent 0, and one for the run of its partners. `flags`
    has train.Args of each run. `limit` is the number of test problems (0 for all), and `samples`
    that of joint responses per problem (0 for one greedy).
    """
    check(runs, flags)
    first = replace(flags[0], share=False)  # agents of one policy may be of different runs here
    resolve_bits(first)
    task = make_task(part_of(first, TaskOptions))
    items = problems(task, "test", limit)
    player = Player(first, None, find_reward(task))
    weights = []  # by run and agent
    for run in runs:
        check_bases(run, first.model, first.judge)
        load_agents(player.team, run)
        weights.append(player.copies())
    strangers = range(1 if first.num_agents == 2 else first.num_agents)
    numbers = range(len(runs))
    sampling = player.sampling
    sampled = counted(samples, "sample")
    if samples == 0:
        samples = 1
        sampling = sampling.greedy()
        sampled = "greedy"
    returns = np.zeros((len(runs), len(runs)))
    for row, column, stranger in itertools.product(numbers, numbers, strangers):
        team = list(weights[column])
        team[stranger] = weights[row][stranger]
        player.put(team)
        rollout = player.rollout()
        title = f"agent {stranger} of {runs[row].name}, partners of {runs[column].name}"
        with progress(title, len(items)) as bar:
            turns = play(rollout, items, seed, samples, sampling, bar)
        mean = statistics.fmean(problem_returns(turns, rollout))
        returns[row, column] += mean / len(strangers)
    return returns, f"held-out return, {counted(len(items), 'problem')}, {sampled}"


def report(runs: list[Path], returns: np.ndarray, file: str | None) -> str:
    """Return the table as text, and write it to a JSON file."""
    diagonal = np.eye(len(runs), dtype=bool)  # where agent 0 has its own partners
    alone = float(returns[diagonal].mean())
    mixed = float(returns[~diagonal].mean())
    if file:
        content = {
            "runs": list(map(str, runs)),
            "returns": returns.tolist(),
            "self": alone,
            "cross": mixed,
        }
        write_json(Path(file), content)
    names = [run.name for run in runs]
    table = pandas.DataFrame(returns, names, names)
    table = table.rename_axis(columns="agent 0 of, partners of")
    text = table.map("{:.3f}".format).to_string()
    return f"{text}\n\nwith their own partners {alone:.3f}, with others' {mixed:.3f}"
