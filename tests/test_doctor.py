"""Signs of failure on made-up runs, seen and not seen: python -m pytest tests/test_doctor.py"""

import json
import random

import pytest

from running import doctor

NAMES = [check.__name__.replace("_", " ") for check in doctor.CHECKS]


def rows(steps: int = 60, **ends) -> list[dict]:
    """Metrics of a healthy run: each goes from its first to its last value, and stays there."""
    healthy = {
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
        "logp_difference/max": (0.3, 0.3),
    }
    rng = random.Random(0)
    values = {name: pair for name, pair in (healthy | ends).items() if pair is not None}
    return [
        {"step": step}
        | {
            name: first + (last - first) * min(2 * step / steps, 1) + rng.gauss(0, 0.01)
            for name, (first, last) in values.items()
        }
        for step in range(steps)
    ]


def seen(lines: list[dict], samples: list[dict] | None = None) -> set[str]:
    return {finding.name for finding in doctor.examine(lines, samples) if finding.fired}


def unknown(lines: list[dict], samples: list[dict] | None = None) -> set[str]:
    return {finding.name for finding in doctor.examine(lines, samples) if finding.fired is None}


def test_a_healthy_run_shows_no_sign():
    assert seen(rows()) == set()
    assert unknown(rows()) == {"feedback shock", "cascading errors"}  # one turn, no samples
    assert [finding.name for finding in doctor.examine(rows())] == NAMES


@pytest.mark.parametrize(
    "ends",
    [
        {"completions/0/mean_length": (25, 1)},
        {"metric/aux_called": (0.15, 0.02), "metric/load_bearing": (0.1, 0.01)},
        {"metric/wrapper": (0.05, 0.7)},
        {"metric/load_bearing": (0.1, 0.2)},
    ],
    ids=["silent", "not called", "does it all", "adds nothing"],
)
def test_trivial_cooperation(ends):
    assert "trivial cooperation" in seen(rows(**ends))


def test_one_helper_for_all_problems_is_a_trivial_convention():
    def late(helpers):
        return [
            {
                "step": 50,
                "turn": 0,
                "task_id": f"t/{number}",
                "responses": [helper, f"def solve(x):\n    return {number}"],
                "parts": {"metric/pass": 1.0},
            }
            for number, helper in enumerate(helpers)
        ]

    box = "def aux(x):\n    return [x]"
    own = [f"def aux(x):\n    return x > {number}" for number in range(20)]
    assert "trivial cooperation" in seen(rows(), late([box] * 12 + own[:8]))
    assert "trivial cooperation" not in seen(rows(), late([box] * 3 + own[:17]))
    assert doctor.same_helper(late([box + "\n"] * 3 + [box] * 4 + own[:3])) == (7, 10)
    [finding] = [f for f in doctor.examine(rows(), late(own)) if f.name == "trivial cooperation"]
    assert "the most frequent helper: in 1 of 20 problems" in finding.seen


@pytest.mark.parametrize(
    ("equal", "end", "fires"), [(0.999, 0.1, True), (0.999, 0.99, False), (0.5, 0.1, False)]
)
def test_nothing_to_learn(equal, end, fires):
    flat = {"frac_reward_zero_std": (equal, equal), "return": (end, end)}
    assert ("nothing to learn" in seen(rows(**flat))) is fires


def test_a_team_that_passes_nothing_yet_is_not_trivial():
    poor = {"metric/pass": (0.02, 0.05), "metric/aux_called": (0.02, 0.05)}
    assert "trivial cooperation" not in seen(rows(**poor))


def test_one_agent_has_no_partner_to_leave_the_work_to():
    alone = rows(**{"completions/1/mean_length": None, "metric/aux_called": (0, 0)})
    assert "trivial cooperation" in unknown(alone)


@pytest.mark.parametrize(
    ("later", "fires"), [((1.0, 2.4), True), ((1.5, 3.7), False), ((1.4, 3.6), False)]
)
def test_feedback_shock(later, fires):
    assert ("feedback shock" in seen(rows(**{"turn_1/reward": later}))) == fires


def test_reward_hacking():
    still = {"reward/tests": (0.3, 0.3), "metric/pass": (0.2, 0.2), "metric/coop": (0.1, 0.15)}
    assert seen(rows(**still)) == {"reward hacking"}
    falling = {"reward/cooperation": None, "reward/coherence": (0.2, 0.9)}
    falling |= {"reward/tests": None, "reward/consistency": (0.5, 0.3)}
    assert "reward hacking" in seen(rows(**falling))
    solved = {"reward/tests": (0.99, 0.99)}  # nothing is left to rise
    assert "reward hacking" not in seen(rows(**solved))
    assert "reward hacking" in unknown(rows(**{"reward/tests": None}))


def test_no_cooperative_structure():
    atomic = {"metric/pass": (0.6, 0.95), "metric/coop": (0.01, 0.02)}
    atomic |= {"metric/load_bearing": (0.5, 0.9), "metric/wrapper": (0.4, 0.8)}
    assert "no cooperative structure" in seen(rows(**atomic))
    paper = {"metric/coop": (0, 0), "metric/load_bearing": None}
    blind = [row | {"metric/load_bearing": 0.0, "metric/coop": 0.0} for row in rows(**paper)]
    assert "no cooperative structure" in unknown(blind)  # code_paper does not look


def samples(failing_helper_share: float, fallback: bool = False) -> list[dict]:
    """Late joint responses of one main function with good and with broken helpers."""
    rng = random.Random(1)
    main = "def solve(x):\n    return aux(x)"
    if fallback:
        main = "def solve(x):\n  try:\n    return aux(x)\n  except Exception:\n    return x"
    found = []
    for number in range(80):
        broken = rng.random() < failing_helper_share
        texts = ["def aux(x)" if broken else "def aux(x):\n    return x", main]
        parts = {"metric/pass": float(not broken)}
        found.append(
            {
                "step": 40 + number // 8,
                "turn": 0,
                "task_id": "t",
                "responses": texts,
                "parts": parts,
            }
        )
    return found


def test_cascading_errors():
    assert "cascading errors" in seen(rows(), samples(0.4))
    assert "cascading errors" not in seen(rows(), samples(0.05))
    assert "cascading errors" not in seen(rows(), samples(0.4, fallback=True))
    early = [sample | {"step": 0} for sample in samples(0.4)]
    assert "cascading errors" in unknown(rows(), early)
    hopeless = [sample | {"parts": {"metric/pass": 0.0}} for sample in samples(0.4)]
    assert "cascading errors" not in seen(rows(), hopeless)  # main passes with no helper at all


def test_rollout_mismatch():
    """Of whole responses: what is much in 400 tokens is not in 20."""
    apart = {"logp_difference/mean": (0.1, 0.1), "completions/0/mean_length": (25, 400)}
    assert seen(rows(**apart)) == {"rollout mismatch"}
    assert seen(rows(**apart | {"completions/0/mean_length": (25, 20)})) == set()
    assert seen(rows(**apart | {"logp_difference/mean": (0.01, 0.01)})) == set()
    assert seen(rows(**{"logp_difference/mean": (0.03, 0.5)})) == {"rollout mismatch"}
    assert "rollout mismatch" in unknown(rows(**{"logp_difference/mean": None}))  # an earlier run


def test_a_short_run_gets_no_verdict():
    assert doctor.examine(rows(steps=19)) == []


def write(directory, lines, joint_responses) -> None:
    for name, values in (("metrics", lines), ("samples", joint_responses)):
        text = "".join(json.dumps(value) + "\n" for value in values)
        (directory / f"{name}.jsonl").write_text(text)


def test_the_report_says_what_was_seen_and_what_to_try(tmp_path):
    lines = [*rows(), {"step": 59, "dev/return": 0.5}]  # an evaluation's line
    write(tmp_path, lines, samples(0.4))
    text = doctor.report(tmp_path)
    assert "cascading errors         SEEN" in text
    assert "trivial cooperation      not seen" in text
    assert "feedback shock           cannot tell" in text
    assert text.count("try:") == 1
    write(tmp_path, rows(steps=3), [])
    assert "too short" in doctor.report(tmp_path)


def test_warnings_come_once(tmp_path):
    write(tmp_path, rows(), samples(0.4))
    known = set()
    assert ["cascading errors" in line for line in doctor.warnings(tmp_path, known)] == [True]
    assert doctor.warnings(tmp_path, known) == []


def test_what_is_no_run_is_said(tmp_path):
    with pytest.raises(ValueError, match="is not a run"):
        doctor.report(tmp_path)
    (tmp_path / "metrics.jsonl").write_text("{half a li")
    with pytest.raises(ValueError, match=r"metrics\.jsonl is not what"):
        doctor.report(tmp_path)
