"""Every ablation applies to a clean copy and trains there; what it computes is checked against
literals: python -m pytest tests/examples/test_ablations.py
"""

import importlib.util
import math
import os
import shutil
import sys
from types import SimpleNamespace

import pytest
import torch
from helpers import ROOT, output_of

from policies.decoding import Response
from training.run_folder import read_records

DIFFS = sorted((ROOT / "examples/ablations").glob("*.diff"))
CHOSEN = {"median": "--advantage median", "maxrl": "--advantage maxrl"}
SMALL = "--batch-size 2 --num-generations 4 --eval-limit none --max-new-tokens 24 --max-steps 2"
LEFT_BEHIND = shutil.ignore_patterns(".*", "runs", "tests", "docs", "bench", "__pycache__")


def run(folder, diff):
    """The metrics of two steps of a copy of the sources, with the diff applied."""
    chosen = []
    shutil.copytree(ROOT, folder, ignore=LEFT_BEHIND)
    if diff:
        output_of(["git", "apply", diff], cwd=folder)
        chosen = CHOSEN.get(diff.stem, "").split()
    command = [sys.executable, "train.py", *SMALL.split(), *chosen, "--run", "x"]
    output_of(command, cwd=folder, env=os.environ | {"OMP_NUM_THREADS": "1"})
    return read_records(folder / "runs/x/metrics.jsonl")


@pytest.mark.parametrize("diff", DIFFS, ids=lambda diff: diff.stem)
def test_it_applies(diff):
    output_of(["git", "apply", "--check", diff], cwd=ROOT)


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    return run(tmp_path_factory.mktemp("plain") / "code", None)


@pytest.mark.slow
@pytest.mark.parametrize("diff", DIFFS, ids=lambda diff: diff.stem)
def test_it_trains_otherwise(diff, plain, tmp_path):
    first, second = run(tmp_path / "code", diff)
    norms, plain_norms = ([row["grad_norm/0"], row["grad_norm/1"]] for row in (first, plain[0]))
    assert norms != pytest.approx(plain_norms, rel=1e-4)
    assert second["skipped"] == 0


# --- what they compute ----------------------------------------------------------------------------


def patched(name, folder):
    """The module magrpo with a diff applied. What it imports is not patched."""
    shutil.copy(ROOT / "magrpo.py", folder)
    diff = ROOT / f"examples/ablations/{name}.diff"
    output_of(["git", "apply", "--include", "magrpo.py", diff], cwd=folder)
    spec = importlib.util.spec_from_file_location(f"magrpo_{name}", folder / "magrpo.py")
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def table(text):
    """The numbers of a text whose rows are parted by bars."""
    rows = [list(map(float, row.split())) for row in text.split("|")]
    return torch.tensor(rows, dtype=torch.float64)


def test_maxrl_divides_by_the_mean(tmp_path):
    advantages = patched("maxrl", tmp_path).advantages
    got = advantages(table("0 0 0 1 | 0 0 0 0 | 2 2 1 3"), "maxrl")
    torch.testing.assert_close(got, table("-1 -1 -1 3 | 0 0 0 0 | 0 0 -0.5 0.5"))


@pytest.mark.parametrize(
    ("level", "logs"),  # of the ratios; 0: it has left its bounds in the direction of the advantage
    [("token", "0 0 0.07 | 0.2 0 0.9"), ("sequence", "0 0 0 | 0.065 0.065 0.065")],
)
def test_the_clipped_ratio_has_the_written_gradient(level, logs, tmp_path):
    module = patched("clipped", tmp_path)
    module.LEVEL = level
    module.CLIP = (0.05, 0.1)
    old = table("-1 -2 -3 | -4 -5 -6")
    logps = (old + table("0.2 0.1 0.07 | 0.2 -0.07 0.9")).requires_grad_()
    mask = table("1.5 1.5 1.5 | 1.5 1.5 0")  # a server's
    coef = table("1 | -2")
    (got,) = torch.autograd.grad(module.clipped_loss(logps, old, mask, coef[:, 0]), logps)
    ratios = table(logs).exp() * (table(logs) != 0)
    torch.testing.assert_close(got, -mask * ratios * coef)
    still = module.clipped_loss(logps, logps.detach(), mask, coef[:, 0])
    (got,) = torch.autograd.grad(still, logps)
    torch.testing.assert_close(got, -mask * coef)  # Eq. 2's, where nothing has moved


def test_what_was_cut_off_teaches_nothing(tmp_path):
    """Nor does a response whose partners were all cut off, or whose next turn follows on one."""
    module = patched("truncated", tmp_path)

    def node(rewards, ended):
        """A node of two agents with three samples each; ended: "+" or "-" for each of them."""
        flags = [[Response([1], "", [], 0.0, sign == "+") for sign in own] for own in ended.split()]
        made = module.Node(0, {}, (), [], {}, [], 3, responses=flags)
        made.joints = module.arrangement(2, 3, math.inf)
        made.rewards = table(rewards).expand(2, -1)
        return made

    joint = "1 2 3  4 5 60  700 8 9"  # of agent 0's samples, by agent 1's
    root, last = node(joint, "++- +-+"), node(joint, "++- +-+")
    child = node("5 5 5  5 5 5  5 5 5", "+++ +++")
    root.children = [child, None, None]
    for turns, optimism, wanted in (
        ([[root], [child]], 0.5, "7 nan nan | 7.5 nan nan"),
        ([[last]], 1.0, "3 60 nan | 4 nan 60"),
    ):
        module.back_up(turns, 1.0, optimism)
        torch.testing.assert_close(turns[0][0].returns, table(wanted), equal_nan=True)
    assert root.value == float(table(joint).mean()) + 5 / 3  # what is logged counts every one
    stub = SimpleNamespace(groups=lambda: [[last]], algorithm=module.Algorithm())
    module.MAGRPO.set_advantages(stub)
    torch.testing.assert_close(last.advantages, table("-28.5 28.5 0 | -28 0 28"))
