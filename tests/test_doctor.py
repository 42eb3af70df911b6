"""Signs of failure on made-up runs, seen and not seen: python -m pytest tests/test_doctor.py

Those of a coding team are in tests/test_code_signs.py.
"""

import json
import random
import re
import sys
from typing import ClassVar

import pytest
from helpers import write_lines

from tasks import Task
from training import doctor

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
    "metric/load_bearing": (0.1, 0.9),
    "metric/coop": (0.08, 0.8),
    "logp_difference/mean": (0.03, 0.03),
}


def rows(steps: int = 60, **ends) -> list[dict]:
    """Metrics of a run: each goes from its first to its last value, and stays there. 0 is exact."""
    rng = random.Random(0)
    lines = []
    for step in range(steps):
        done = min(2 * step / steps, 1)
        lines.append({"step": step})
        for name, pair in (HEALTHY | ends).items():
            if pair is not None:
                value = pair[0] + (pair[1] - pair[0]) * done
                lines[-1][name] = value + rng.gauss(0, 0.01) if any(pair) else 0.0
    return lines


class Made(Task):
    bonuses: ClassVar = {"coherence": "consistency", "cooperation": "tests"}


FLAGS = {"task": "tldr", "model": [], "num_agents": 2, "turns": 1, "gamma": 1.0, "reward": None}


def verdicts(lines: list[dict], samples=(), task=Made, **flags) -> dict[str, bool | None]:
    findings = doctor.examine(lines, samples, task, FLAGS | flags)
    return {finding.name: finding.fired for finding in findings}


def test_a_healthy_run_shows_no_sign():
    found = verdicts(rows())
    untold = {name for name, fired in found.items() if fired is None}  # one turn
    assert untold == {"feedback shock"}
    assert True not in found.values()
    assert verdicts(rows(), task=Task).keys() == found.keys() - {"reward hacking"}
    assert verdicts(rows(steps=19)) == {}  # too short


FLAT = {"groups_with_gradient": (0.001, 0.001)}
STILL = {"reward/tests": (0.3, 0.3), "metric/pass": (0.2, 0.2), "metric/coop": (0.1, 0.15)}
LONG = {"completions/0/mean_length": (25, 400)}
APART = {"logp_difference/mean": (0.1, 0.1)}
SHOCK = {"turn_1/reward": (1.0, 2.4), "mean_turns": (2.0, 2.0)}


@pytest.mark.parametrize(
    ("sign", "fires", "ends"),
    [
        ("nothing to learn", True, FLAT | {"return": (0.1, 0.1)}),
        ("nothing to learn", False, FLAT | {"return": (0.99, 0.99)}),
        ("nothing to learn", None, {"groups_with_gradient": None}),
        ("silent agent", True, {"completions/0/mean_length": (25, 1)}),
        ("silent agent", False, {"completions/0/mean_length": (1.5, 1.5)}),  # as the task has it
        ("reward hacking", True, STILL),
        # of whole responses: what is much in 400 tokens is not in 20
        ("rollout mismatch", True, APART | LONG),
        ("rollout mismatch", False, LONG | {"logp_difference/mean": (0.01, 0.01)}),
        ("feedback shock", True, SHOCK),
        ("feedback shock", False, SHOCK | {"turn_1/reward": (1.4, 3.6)}),
        ("feedback shock", None, SHOCK | {"mean_turns": (1.4, 1.4)}),  # the hard ones alone
        ("nothing to learn", True, FLAT | SHOCK | {"return": (0.7, 0.7)}),
        # it wins on the last turn, gamma .9
        ("nothing to learn", False, FLAT | SHOCK | {"return": (0.88, 0.88)}),
        # it may have won on the first of two turns, each of which is paid
        ("nothing to learn", None, FLAT | SHOCK | {"return": (0.5, 0.5), "mean_turns": (1, 1)}),
    ],
)
def test_signs_in_the_metrics(sign, fires, ends):
    turns = 2 if SHOCK.keys() <= ends.keys() else 1
    assert verdicts(rows(**ends), turns=turns, gamma=0.9)[sign] is fires


def test_turns_are_compared_step_by_step():
    """The second turn is as good as the first at each step, and is reached in the late ones."""
    lines = rows(**SHOCK)
    for row in lines:
        row["turn_0/reward"] = row["turn_1/reward"] = 4 - row["step"] / 20
    for row in lines[:20]:
        del row["turn_1/reward"]
    assert verdicts(lines, turns=2)["feedback shock"] is False


def test_no_advice_names_what_the_run_has():
    advice = "a; --joint cross; --freeze 1 first; --init RUN; more --num-generations; --bits 32"
    followed = {"joint": "cross", "freeze": [1], "init": ["x"], "num_generations": 8, "bits": 32}
    assert doctor.open_advice(advice, followed) == "a; more --num-generations"
    others = {"joint": "aligned", "freeze": [0], "init": None, "num_generations": 8, "bits": 16}
    assert doctor.open_advice(advice, others) == advice


def test_a_check_of_the_user_s_cannot_end_it_without_a_word(monkeypatch):
    monkeypatch.setattr(doctor, "SIGNS", [(sys.exit, {"return": "what was earned"}, "")])
    with pytest.raises(RuntimeError, match="the check exit raised SystemExit"):
        verdicts(rows())


def test_agents_who_speak_at_some_steps_have_metrics_there_alone():
    lines = rows(**SHOCK)
    for row in lines[1::2]:
        del row["completions/1/mean_length"]
    for row in lines[:45]:
        del row["completions/0/mean_length"]
    found = verdicts(lines, turns=2)
    assert found["feedback shock"]
    assert found["rollout mismatch"] is None
    assert found["silent agent"] is False


@pytest.mark.parametrize("ends", [STILL, FLAT | {"return": (0.1, 0.1)}, APART | LONG])
def test_one_failure_shows_one_sign(ends):
    assert list(verdicts(rows(**ends)).values()).count(True) == 1


def write(directory, lines):
    write_lines(directory / "metrics.jsonl", lines)
    write_lines(directory / "samples.jsonl", [])


def test_the_report_says_what_was_seen_and_what_to_try(tmp_path):
    lines = [*rows(**FLAT, **{"return": (0.1, 0.1)}), {"step": 59, "dev/return": 0.5}]
    write(tmp_path, lines)
    (tmp_path / "args.json").write_text(json.dumps({"args": FLAGS}))
    text = doctor.report(tmp_path)
    assert text.startswith(f"{tmp_path}: signs of failure: ")
    seen = r"nothing to learn +SEEN +share of groups with an advantage "
    seen += r"\(groups_with_gradient\) \S+ -> \S+, share of .* \(return\) \S+ -> \S+\n +try: "
    assert re.search(seen, text)
    assert "silent agent             not seen" in text
    assert "feedback shock           cannot tell fewer than 20 steps have turn_1/reward" in text
    assert text.count("try:") == 1
    write(tmp_path, rows(steps=3))
    assert "too short" in doctor.report(tmp_path)
