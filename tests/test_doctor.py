"""Signs of failure on made-up runs, seen and not seen: python -m pytest tests/test_doctor.py"""

import re

import pytest
from helpers import table, write_run

import train
from evaluation import doctor, runs

HEALTHY = """
return 0.35 0.9
groups_with_gradient 0.98 0.5
turn_0/reward 1.4 3.6
completions/0/mean_length 25 20
completions/1/mean_length 25 22
reward/tests 0.2 0.9
reward/cooperation 0.1 1.2
metric/pass 0.15 0.85
metric/aux_called 0.15 0.9
scheme/wrapper 0.05 0.05
"""


def values_of(text):
    """Return the first and the last value of each metric. One that is not logged has none."""
    values = {}
    for metric in re.split(", |\n", text.strip()):
        name, *ends = metric.split()
        values[name] = list(map(float, ends))
    return values


def verdicts(folder, metrics=HEALTHY, steps=60):
    """Return what each sign says of a run that has these metrics, and is healthy otherwise."""
    rows = [{} for _ in range(steps)]
    for name, ends in (values_of(HEALTHY) | values_of(metrics)).items():
        for step, row in enumerate(rows):
            if ends:
                row[name] = ends[0] + (ends[1] - ends[0]) * min(2 * step / steps, 1)
    run = write_run(folder / "run", steps=rows)
    said = doctor.report(runs.read_runs([str(run)], vars(train.parse([]))))
    return {line[:24].strip(): line[24:] for line in said.splitlines()}


def test_a_healthy_run_shows_no_sign(tmp_path):
    seen = verdicts(tmp_path)
    assert "SEEN" not in " ".join(seen.values())
    assert seen["nothing to learn"] == "not seen"
    assert seen["drop after feedback"] == "cannot tell, without 'mean_turns'"  # one turn
    assert "fewer than 20 steps" in str(verdicts(tmp_path / "short", steps=19))


# The second silent agent is as the task has it. Of trivial cooperation: a team that passes nothing
# yet, and one agent. Of drops after feedback: one of the hard problems alone, and a
# first turn that is not scored.
SIGNS = """
nothing to learn       SEEN    groups_with_gradient 0 0, return 0.1 0.1
nothing to learn       not     groups_with_gradient 0 0, return 0.99 0.99
nothing to learn       cannot  groups_with_gradient
silent agent           SEEN    completions/0/mean_length 25 1
silent agent           not     completions/0/mean_length 1.5 1.5
trivial cooperation    SEEN    metric/aux_called 0.15 0.02
trivial cooperation    SEEN    scheme/wrapper 0.05 0.6
trivial cooperation    not     metric/pass 0 0.05, metric/aux_called 0 0
trivial cooperation    cannot  completions/1/mean_length
atomic problems        SEEN    metric/pass 0.6 0.95, reward/cooperation 0.01 0.02
atomic problems        not     metric/pass 0.1 0.95, reward/cooperation 0.01 0.02
atomic problems        not     metric/pass 0.6 0.95
drop after feedback    SEEN    turn_1/reward 1.0 2.4, mean_turns 2 2
drop after feedback    not     turn_1/reward 1.4 3.6, mean_turns 2 2
drop after feedback    not     turn_1/reward 1.0 2.4, mean_turns 1.4 1.4
drop after feedback    not     turn_0/reward 0 0, turn_1/reward -0.1 -0.02, mean_turns 2 2
reward hacking (code)  SEEN    reward/tests 0.3 0.3
reward hacking (code)  not     reward/tests 0.3 0.3, reward/cooperation 0.1 0.1
reward hacking (code)  not     reward/tests 0.9 0.9, reward/cooperation 0.2 1.4, metric/coop 0.1 0.9
reward hacking (text)  SEEN    reward/coherence 0.1 0.4, reward/consistency 0.2 0.2
reward hacking (text)  not     reward/coherence 0.1 0.4, reward/consistency 0.2 0.6
"""


@pytest.mark.parametrize("sign, says, metrics", table(SIGNS))
def test_signs_in_the_metrics(sign, says, metrics, tmp_path):
    assert verdicts(tmp_path, metrics)[sign].startswith(says)
