"""Cross-play (Hu et al., "Other-Play", arXiv 2003.02979): agents of one run play with those of
another.

    python examples/crossplay.py RUN RUN ...

A team that is good with itself and fails with others has learned conventions. Rows are the runs
that the first half of the agents comes from (agent 0 of two or three), columns the runs of the
others, so the diagonal is self-play. Values are greedy returns on 100 test problems. The runs have
to agree in their flags.
"""

import itertools
import statistics

import pandas

import train
from evaluation.players import Player, load_agents
from policies import Mistake
from training.flags import Parser
from training.items import check_items
from training.run_folder import ASIDE, find_run, read_args
from training.terminal import fail

TOP = Parser("crossplay.py", __doc__)
TOP.add_argument("runs", nargs="+")


def crossplay(names: list[str], limit: int = 100) -> pandas.DataFrame:
    """Return the held-out returns by the run of the first agents and the run of their partners."""
    flags = [train.recorded_flags(find_run(name)) for name in names]
    for other in flags:
        for name in other.keys() - {"lr", "max_steps", "engine", *ASIDE}:
            if other[name] != flags[0].get(name):
                raise Mistake(f"the runs differ in --{name.replace('_', '-')}")
    if flags[0]["share"] or flags[0]["num_agents"] == 1:
        raise Mistake("one policy, of one agent or by --share, has no partners to exchange")
    player = Player(train.Args(**flags[0] | {"engine": None}))
    items = list(player.task.items("test"))
    for name in names:
        check_items(read_args(find_run(name)), "test", items)
    items = items[:limit]
    weights = {}
    for name in names:
        load_agents(player.team, find_run(name))
        weights[name] = player.weights()
    returns = pandas.DataFrame(index=names, columns=names, dtype=float)
    for first, partners in itertools.product(names, names):
        half = player.team.size // 2
        mixed = [*weights[first][:half], *weights[partners][half:]]
        player.versions = [(own, own) for own in mixed]  # untrained and trained
        rollout = player.rollout(range(player.team.size))
        records = player.play(f"{first} with {partners}", rollout, items, seed=0, samples=0)
        returns.loc[first, partners] = statistics.fmean(line["return"] for line in records)
    return returns


if __name__ == "__main__":
    try:
        print(crossplay(TOP.parse_args().runs).round(3).to_string())
    except Exception as error:
        fail(TOP, error)
