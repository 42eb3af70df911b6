"""Show whether a call of the helper pays, step by step of runs of two agents on `coop`.

    python -m examples.credit.trap RUN ...

Each line is the mean of five steps of metrics.jsonl:

    alone    share of the programs in which main leaves its helper out (scheme/unused)
    q        share of the others that pass all tests and need the helper
    needed   the q from which a call earns more than working alone

A program is right with chance a if it works alone. Then it earns TESTS * a for its tests, and one
with a call (TESTS + COOPERATION) * q, if those that fail some tests earn nothing. So a call earns
more if q is above a * TESTS / (TESTS + COOPERATION), which is .4 a.

These are estimates. a counts all that passes and does not need the helper, so `needed` says nothing
where few work alone. `alone` is of the aligned joint responses, and the others of all that were
scored, which is the same on average. docs/results/coop.md says what comes of it.
"""

from pathlib import Path

import pandas

from policies import Mistake
from rewards import COOPERATION, TESTS
from training.flags import Parser
from training.run_folder import find_run, read_args, read_records
from training.terminal import fail

TOP = Parser("trap.py", __doc__)
TOP.add_argument("runs", nargs="+")
STEPS = 5
KEYS = ["scheme/unused", "metric/pass", "metric/load_bearing"]


def shares(folder: Path) -> pandas.DataFrame:
    """Return alone, q and needed of a run, a row for every STEPS steps. Mistake: another task."""
    if read_args(folder)["args"]["num_agents"] != 2:
        raise Mistake(f"{folder} is not of two agents")
    records = pandas.DataFrame(read_records(folder / "metrics.jsonl"))
    if KEYS[-1] not in records:
        raise Mistake(f"{folder} has no {KEYS[-1]} in its metrics.jsonl: is it of coop?")
    records = records.reindex(columns=KEYS)  # a scheme that never occurred is missing
    means = records.fillna(0.0).groupby(lambda step: step // STEPS * STEPS).mean()
    alone, passed, load_bearing = (means[key] for key in KEYS)
    right_alone = (passed - load_bearing) / alone.where(alone > 0)
    needed = TESTS / (TESTS + COOPERATION) * right_alone
    return pandas.DataFrame({"alone": alone, "q": load_bearing / (1 - alone), "needed": needed})


if __name__ == "__main__":
    try:
        for name in TOP.parse_args().runs:
            print(name, shares(find_run(name)).round(2).to_string(), sep="\n")
    except Exception as error:
        fail(TOP, error)
