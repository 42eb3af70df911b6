"""Signs of failure on made-up runs, seen and not seen: python -m pytest tests/test_doctor.py"""

import json
import random

import pytest

from coding import signs
from coding.coop import Coop
from running import doctor
from tasks import Task
from writing.tasks import Tldr

HEALTHY = {
    "return": (0.35, 0.9),
    "frac_reward_zero_std": (0.02, 0.5),
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
    rng, found = random.Random(0), []
    for step in range(steps):
        done = min(2 * step / steps, 1)
        found.append({"step": step})
        for name, pair in (HEALTHY | ends).items():
            if pair is not None:
                value = pair[0] + (pair[1] - pair[0]) * done
                found[-1][name] = value + rng.gauss(0, 0.01) if any(pair) else 0.0
    return found


def verdicts(lines: list[dict], samples=(), task=Coop) -> dict[str, bool | None]:
    return {finding.name: finding.fired for finding in doctor.examine(lines, samples, task)}


def test_a_healthy_run_shows_no_sign():
    found = verdicts(rows())
    assert len(found) == len(doctor.SIGNS) + 1 + len(signs.SIGNS)  # 1: Coop has a bonus
    unknown = {name for name, fired in found.items() if fired is None}
    assert unknown == {"feedback shock", "cascading errors"}  # one turn, no samples
    assert True not in found.values()
    assert verdicts(rows(), task=Task).keys() == found.keys() - {"reward hacking"} - OF_CODE
    assert verdicts(rows(steps=19)) == {}  # too short


OF_CODE = {"trivial cooperation", "no cooperative structure", "cascading errors"}
FLAT = {"frac_reward_zero_std": (0.999, 0.999)}
STILL = {"reward/tests": (0.3, 0.3), "metric/pass": (0.2, 0.2), "metric/coop": (0.1, 0.15)}
ATOMIC = {"metric/pass": (0.6, 0.95), "metric/coop": (0.01, 0.02)}
BLIND = ATOMIC | {"metric/load_bearing": (0, 0), "metric/coop": (0, 0)}
LONG = {"completions/0/mean_length": (25, 400)}
APART = {"logp_difference/mean": (0.1, 0.1)}


@pytest.mark.parametrize(
    ("sign", "fires", "ends"),
    [
        ("nothing to learn", True, FLAT | {"return": (0.1, 0.1)}),
        ("nothing to learn", False, FLAT | {"return": (0.99, 0.99)}),
        ("nothing to learn", False, {"return": (0.1, 0.1)}),
        ("nothing to learn", None, {"frac_reward_zero_std": None}),
        ("silent agent", True, {"completions/0/mean_length": (25, 1)}),
        ("trivial cooperation", True, {"metric/aux_called": (0.15, 0.02)}),
        ("trivial cooperation", True, {"metric/wrapper": (0.05, 0.7)}),  # it does it all
        ("trivial cooperation", True, {"metric/load_bearing": (0.1, 0.2)}),  # it adds nothing
        ("trivial cooperation", False, {"metric/load_bearing": (0, 0)}),  # code_paper: not asked
        # a team that passes nothing yet
        ("trivial cooperation", False, {"metric/pass": (0.0, 0.05), "metric/aux_called": (0, 0)}),
        ("trivial cooperation", None, {"completions/1/mean_length": None}),  # one agent
        ("feedback shock", True, {"turn_1/reward": (1.0, 2.4)}),
        ("feedback shock", False, {"turn_1/reward": (1.5, 3.7)}),
        ("feedback shock", False, {"turn_1/reward": (1.4, 3.6)}),
        # the last turn counts
        ("feedback shock", True, {"turn_1/reward": (1.5, 3.7), "turn_2/reward": (1.0, 2.4)}),
        ("reward hacking", True, STILL),
        ("reward hacking", False, {"reward/tests": (0.99, 0.99)}),  # nothing is left to rise
        ("reward hacking", None, {"reward/tests": None}),
        ("no cooperative structure", True, ATOMIC),
        ("no cooperative structure", None, BLIND),
        ("no cooperative structure", None, {"metric/pass": None}),
        # of whole responses: what is much in 400 tokens is not in 20
        ("rollout mismatch", True, APART | LONG),
        ("rollout mismatch", False, APART),
        ("rollout mismatch", False, LONG | {"logp_difference/mean": (0.01, 0.01)}),
        ("rollout mismatch", True, {"logp_difference/mean": (0.03, 0.5)}),
        ("rollout mismatch", None, {"logp_difference/mean": None}),
    ],
)
def test_signs_in_the_metrics(sign, fires, ends):
    assert verdicts(rows(**ends))[sign] is fires


def test_the_task_says_what_is_a_bonus():
    for end, fires in ((0.3, True), (0.9, False)):
        ends = {"reward/coherence": (0.2, 0.9), "reward/consistency": (0.5, end)}
        assert verdicts(rows(**ends), task=Tldr)["reward hacking"] is fires


@pytest.mark.parametrize("ends", [STILL, APART | LONG])
def test_one_failure_shows_one_sign(ends):
    assert list(verdicts(rows(**ends)).values()).count(True) == 1


def sample(step: int, task_id: str, responses: list[str], passed: bool = True) -> dict:
    parts = {"metric/pass": float(passed)}
    return {"step": step, "turn": 0, "task_id": task_id, "responses": responses, "parts": parts}


def test_one_helper_for_all_problems_is_a_trivial_convention():
    def late(helpers):
        mains = (f"def solve(x):\n    return {number}" for number in range(len(helpers)))
        teams = enumerate(zip(helpers, mains, strict=True))
        return [sample(50, f"t/{number}", list(team)) for number, team in teams]

    box = "def aux(x):\n    return [x]"
    own = [f"def aux(x):\n    return x > {number}" for number in range(20)]
    assert verdicts(rows(), late([box] * 12 + own[:8]))["trivial cooperation"]
    assert not verdicts(rows(), late([box] * 3 + own[:17]))["trivial cooperation"]
    assert signs.same_helper(late([box + "\n"] * 3 + [box] * 4 + own[:3])) == (7, 10)


def samples(failing_helper_share: float, fallback: bool = False, step: int = 40) -> list[dict]:
    """Joint responses of one main function with good and with broken helpers."""
    rng = random.Random(1)
    main = "def solve(x):\n    return aux(x)"
    if fallback:
        main = "def solve(x):\n  try:\n    return aux(x)\n  except Exception:\n    return x"
    found = []
    for number in range(80):
        broken = rng.random() < failing_helper_share
        team = ["def aux(x)" if broken else "def aux(x):\n    return x", main]
        found.append(sample(step + number // 8, "t", team, not broken))
    return found


def test_cascading_errors():
    hopeless = [s | {"parts": {"metric/pass": 0.0}} for s in samples(0.4)]  # with any helper
    for joint_responses, fires in (
        (samples(0.4), True),
        (samples(0.05), False),
        (samples(0.4, fallback=True), False),
        (samples(0.4, step=0), None),  # too early to count
        (hopeless, False),
    ):
        assert verdicts(rows(), joint_responses)["cascading errors"] is fires


def write(directory, lines, joint_responses=()) -> None:
    for name, values in (("metrics", lines), ("samples", joint_responses)):
        text = "".join(json.dumps(value, ensure_ascii=False) + "\n" for value in values)
        (directory / f"{name}.jsonl").write_text(text)


def test_the_report_says_what_was_seen_and_what_to_try(tmp_path):
    lines = [*rows(), {"step": 59, "dev/return": 0.5}]  # an evaluation's line
    odd = sample(50, "t", ["a\u2028b", "c\x85d"])  # what splits a text's lines, and no file's
    write(tmp_path, lines, [odd, *samples(0.4)])
    (tmp_path / "args.json").write_text('{"args": {"task": "coop", "model": [], "num_agents": 2}}')
    text = doctor.report(tmp_path)
    assert "cascading errors         SEEN        metric/pass 0." in text
    assert "trivial cooperation      not seen" in text
    assert "feedback shock           cannot tell the run has no turn_" in text
    assert text.count("try:") == 1
    known = set()
    found = doctor.warnings(tmp_path, known, Coop)
    assert ["cascading errors" in line for line in found] == [True]
    assert doctor.warnings(tmp_path, known, Coop) == []  # they come once
    write(tmp_path, rows(steps=3))
    assert "too short" in doctor.report(tmp_path)


def test_what_is_no_run_is_said(tmp_path):
    with pytest.raises(ValueError, match="is not a run"):
        doctor.report(tmp_path)
    (tmp_path / "metrics.jsonl").write_text("{half a li")
    with pytest.raises(ValueError, match=r"metrics\.jsonl, line 1: not one JSON object"):
        doctor.report(tmp_path)
