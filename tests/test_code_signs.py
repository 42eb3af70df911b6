"""Signs of failure of a coding team, on made-up runs: python -m pytest tests/test_code_signs.py"""

import random

import pytest
from test_doctor import rows
from test_doctor import verdicts as verdicts_of

from programs import signs
from tasks import Coop

ATOMIC = {"metric/pass": (0.6, 0.95), "metric/coop": (0.01, 0.02)}
BLIND = ATOMIC | {"metric/load_bearing": (0, 0), "metric/coop": (0, 0)}


def verdicts(lines: list[dict], samples=()) -> dict[str, bool | None]:
    return verdicts_of(lines, samples, Coop)


def test_a_healthy_run_shows_no_sign():
    found = verdicts(rows())
    assert found.keys() >= {sign.__name__.replace("_", " ") for sign, _, _ in signs.SIGNS}
    assert True not in found.values()


@pytest.mark.parametrize(
    ("sign", "fires", "ends"),
    [
        ("trivial cooperation", True, {"metric/aux_called": (0.15, 0.02)}),
        ("trivial cooperation", True, {"metric/load_bearing": (0.1, 0.2)}),  # it adds nothing
        ("trivial cooperation", False, {"metric/load_bearing": (0, 0)}),  # code_paper: not asked
        # a team that passes nothing yet
        ("trivial cooperation", False, {"metric/pass": (0.0, 0.05), "metric/aux_called": (0, 0)}),
        ("trivial cooperation", None, {"completions/1/mean_length": None}),  # one agent
        ("no cooperative structure", True, ATOMIC),
        ("no cooperative structure", None, BLIND),
    ],
)
def test_signs_in_the_metrics(sign, fires, ends):
    assert verdicts(rows(**ends))[sign] is fires


def sample(step: int, task_id: str, responses: list[str], passed: bool = True) -> dict:
    parts = {"metric/pass": float(passed)}
    return {"step": step, "turn": 0, "task_id": task_id, "responses": responses, "parts": parts}


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
