"""Signs of failure on made-up runs, seen and not seen: python -m pytest tests/test_doctor.py"""

import pytest
from helpers import write_run

from evaluation import doctor

HEALTHY = {
    "return": (0.35, 0.9),
    "groups_with_gradient": (0.98, 0.5),
    "turn_0/reward": (1.4, 3.6),
    "completions/0/mean_length": (25, 20),
    "completions/1/mean_length": (25, 22),
    "reward/tests": (0.2, 0.9),
    "reward/cooperation": (0.1, 1.2),
    "metric/pass": (0.15, 0.85),
    "metric/aux_called": (0.15, 0.9),
    "metric/wrapper": (0.05, 0.05),
}
FLAT = {"groups_with_gradient": (0, 0)}
SHOCK = {"turn_1/reward": (1.0, 2.4), "mean_turns": (2.0, 2.0)}
STILL = {"reward/tests": (0.3, 0.3)}
ATOMIC = {"metric/pass": (0.6, 0.95), "reward/cooperation": (0.01, 0.02)}
TEXT = {"reward/coherence": (0.1, 0.4), "reward/consistency": (0.2, 0.2)}


def verdicts(folder, steps=60, **ends):
    """Return what each sign says of a run whose metrics go from their first to their last value."""
    pairs = {name: pair for name, pair in (HEALTHY | ends).items() if pair}
    rows = []
    for step in range(steps):
        done = min(2 * step / steps, 1)
        rows.append({name: low + (high - low) * done for name, (low, high) in pairs.items()})
    lines = doctor.report(str(write_run(folder / "run", steps=rows))).splitlines()
    return {line[:24].strip(): line[24:] for line in lines}


def test_a_healthy_run_shows_no_sign(tmp_path):
    seen = verdicts(tmp_path)
    assert "SEEN" not in " ".join(seen.values())
    assert seen["nothing to learn"] == "not seen"
    assert seen["drop after feedback"] == "cannot tell, without 'mean_turns'"  # one turn
    assert "fewer than 20 steps" in str(verdicts(tmp_path / "short", steps=19))


@pytest.mark.parametrize(
    ("sign", "says", "ends"),
    [
        ("nothing to learn", "SEEN", FLAT | {"return": (0.1, 0.1)}),
        ("nothing to learn", "not", FLAT | {"return": (0.99, 0.99)}),
        ("nothing to learn", "cannot", {"groups_with_gradient": None}),
        ("silent agent", "SEEN", {"completions/0/mean_length": (25, 1)}),
        ("silent agent", "not", {"completions/0/mean_length": (1.5, 1.5)}),  # as the task has it
        ("trivial cooperation", "SEEN", {"metric/aux_called": (0.15, 0.02)}),
        ("trivial cooperation", "SEEN", {"metric/wrapper": (0.05, 0.6)}),
        # a team that passes nothing yet, and one agent
        ("trivial cooperation", "not", {"metric/pass": (0, 0.05), "metric/aux_called": (0, 0)}),
        ("trivial cooperation", "cannot", {"completions/1/mean_length": None}),
        ("atomic problems", "SEEN", ATOMIC),
        ("atomic problems", "not", ATOMIC | {"metric/pass": (0.1, 0.95)}),
        ("atomic problems", "not", {"metric/pass": (0.6, 0.95)}),
        ("drop after feedback", "SEEN", SHOCK),
        ("drop after feedback", "not", SHOCK | {"turn_1/reward": (1.4, 3.6)}),
        ("drop after feedback", "not", SHOCK | {"mean_turns": (1.4, 1.4)}),  # the hard ones alone
        ("reward hacking (code)", "SEEN", STILL),
        ("reward hacking (code)", "not", STILL | {"reward/cooperation": (0.1, 0.1)}),
        ("reward hacking (text)", "SEEN", TEXT),
        ("reward hacking (text)", "not", TEXT | {"reward/consistency": (0.2, 0.6)}),
    ],
)
def test_signs_in_the_metrics(sign, says, ends, tmp_path):
    assert verdicts(tmp_path, **ends)[sign].startswith(says)


def test_a_part_that_was_not_earned_at_a_step_is_0_there(tmp_path):
    """Cooperation is earned at one late step of thirty: the bonus did not rise."""
    steps = [{"return": 0.1, "reward/tests": 0.3} for _ in range(30)]
    steps[-1]["reward/cooperation"] = 0.5
    run = write_run(tmp_path / "run", steps=steps)
    assert "reward hacking (code)   not seen" in doctor.report(str(run))
