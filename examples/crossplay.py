"""Cross-play (Hu et al., "Other-Play", arXiv 2003.02979): an agent of one run plays with the
partners of another.

    python examples/crossplay.py RUN RUN ...

A team that is good with itself and fails with others has learned conventions. Rows are the runs
that agent 0 comes from, columns the runs of its partners, so the diagonal is self-play. Values are
greedy returns on 100 test problems. The runs have to agree in their flags.
"""

import itertools
import statistics

import pandas

import train
from evaluation.players import Player, load_agents
from policies import Mistake
from training.flags import Parser
from training.run_folder import ASIDE, find_run
from training.terminal import fail

TOP = Parser("crossplay.py", __doc__)
TOP.add_argument("runs", nargs="+")


def crossplay(names: list[str], limit: int = 100) -> pandas.DataFrame:
    """Return the held-out returns by the run of agent 0 and the run of its partners."""
    flags = [train.recorded_flags(find_run(name)) for name in names]
    for other in flags:
        for name in other.keys() - {"lr", "max_steps", "engine", *ASIDE}:
            if other[name] != flags[0].get(name):
                raise Mistake(f"the runs differ in --{name.replace('_', '-')}")
    if flags[0]["share"] or flags[0]["num_agents"] == 1:
        raise Mistake("one policy, of one agent or by --share, has no partners to exchange")
    player = Player(train.Args(**flags[0] | {"engine": None}))
    items = list(player.task.items("test"))[:limit]
    weights = {}
    for name in names:
        load_agents(player.team, find_run(name))
        weights[name] = player.weights()
    returns = pandas.DataFrame(index=names, columns=names, dtype=float)
    for first, partners in itertools.product(names, names):
        mixed = [weights[first][0], *weights[partners][1:]]
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
