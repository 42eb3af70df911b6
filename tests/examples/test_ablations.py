"""Every ablation applies to a clean copy and trains there; what it computes is checked against
enumeration or autograd: python -m pytest tests/examples/test_ablations.py
"""

import importlib.util
import itertools
import math
import os
import re
import shutil
import sys
from pathlib import Path
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
F64 = torch.float64


def run(folder: Path, diff: Path | None) -> list[dict]:
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


def patched(name: str, folder: Path):
    """The module magrpo with a diff applied. What it imports is not patched."""
    shutil.copy(ROOT / "magrpo.py", folder)
    diff = ROOT / f"examples/ablations/{name}.diff"
    output_of(["git", "apply", "--include", "magrpo.py", diff], cwd=folder)
    spec = importlib.util.spec_from_file_location(f"magrpo_{name}", folder / "magrpo.py")
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("group", [2, 3, 5])
@pytest.mark.parametrize("chance", [0.05, 0.3, 0.9])
def test_maxrl_ascends_the_first_terms_of_the_log_of_the_chance_to_pass(chance, group, tmp_path):
    """log p = -sum_k (1 - p)^k / k. G samples see G - 1 terms (arXiv 2602.02710)."""
    advantages = patched("maxrl", tmp_path).advantages
    logit = torch.tensor(math.log(chance / (1 - chance)), dtype=F64, requires_grad=True)
    passes = logit.sigmoid()
    estimate = 0.0
    for drawn in itertools.product((0.0, 1.0), repeat=group):
        rewards = torch.tensor(drawn, dtype=F64)
        logps = (rewards * passes + (1 - rewards) * (1 - passes)).log()
        values = advantages(rewards, "maxrl") / group
        estimate = estimate + logps.sum().exp().detach() * (values * logps).sum()
    terms = -sum((1 - passes) ** k / k for k in range(1, group))
    (want,) = torch.autograd.grad(terms, logit, retain_graph=True)
    (mean,) = torch.autograd.grad(estimate, logit, retain_graph=True)
    torch.testing.assert_close(mean, want)
    (true,) = torch.autograd.grad(passes, logit)
    torch.testing.assert_close(want, true * (1 - (1 - chance) ** (group - 1)) / chance)


@pytest.mark.parametrize(("level", "bounds"), [("token", (0.05, 0.1)), ("sequence", (0.02, 0.03))])
def test_the_clipped_ratio_has_the_written_gradient(level, bounds, tmp_path):
    """A token's gradient is r A, and 0 where r has left its bounds in the direction of A."""
    module = patched("clipped", tmp_path)
    module.LEVEL = level
    module.CLIP = bounds
    random = torch.Generator().manual_seed(0)
    lengths = [5, 3, 1, 4]
    mask = torch.tensor([[1.5] * n + [0.0] * (5 - n) for n in lengths], dtype=F64)  # a server's
    old = -torch.rand(4, 5, generator=random, dtype=F64)
    logps = (old + 0.1 * torch.randn(4, 5, generator=random, dtype=F64)).requires_grad_()
    coef = torch.tensor([0.3, -2.0, 1.0, -0.1], dtype=F64)
    (got,) = torch.autograd.grad(module.clipped_loss(logps, old, mask, coef), logps)
    clipped = 0
    for row, length in enumerate(lengths):
        moves = (logps - old)[row, :length].detach()
        if level == "sequence":
            moves = moves.mean().expand(length)
        for token, move in enumerate(moves.exp().tolist()):
            advantage = float(coef[row])
            left = move > 1 + bounds[1] if advantage > 0 else move < 1 - bounds[0]
            clipped += left
            want = 0.0 if left else -1.5 * move * advantage
            assert float(got[row, token]) == pytest.approx(want)
    assert 0 < clipped < sum(lengths)
    (first,) = torch.autograd.grad(module.clipped_loss(logps, logps.detach(), mask, coef), logps)
    (plain,) = torch.autograd.grad(module.policy_loss(logps, mask, coef), logps)
    torch.testing.assert_close(first, plain)  # where nothing has moved


def test_what_was_cut_off_teaches_nothing(tmp_path):
    """Nor does a response whose partners were all cut off, or whose next turn follows on one."""
    module = patched("truncated", tmp_path)

    def node(rewards: list[list[float]], ended: list[list[bool]], children=()):
        responses = [[Response([1], "", [], 0.0, end) for end in own] for own in ended]
        joints = module.arrangement(2, 3, math.inf)
        table = torch.tensor(rewards, dtype=F64).flatten().expand(2, -1)
        histories = [[], []]
        return module.Node(
            0,
            {},
            (),
            histories,
            3,
            responses=responses,
            joints=joints,
            rewards=table,
            children=list(children),
        )

    table = [[1.0, 2, 3], [4, 5, 60], [700, 8, 9]]  # of agent 0's samples, by agent 1's
    yes, no = True, False
    child = node([[5.0] * 3] * 3, [[yes] * 3] * 2)
    root = node(table, [[yes, yes, no], [yes, no, yes]], [child, None, None])
    module.back_up([[root], [child]], 1.0, 0.5)
    nan = math.nan
    wanted = torch.tensor([[2.0 + 5, nan, nan], [2.5 + 5, nan, nan]], dtype=F64)
    torch.testing.assert_close(root.returns, wanted, equal_nan=True)
    assert root.value == sum(map(sum, table)) / 9 + 5 / 3  # what is logged counts every one
    last = node(table, [[yes, yes, no], [yes, no, yes]])
    module.back_up([[last]], 1.0, 1.0)
    best = torch.tensor([[3.0, 60, nan], [4, nan, 60]], dtype=F64)
    torch.testing.assert_close(last.returns, best, equal_nan=True)
    module.back_up([[last]], 1.0, 0.0)
    wanted = torch.tensor([[2.0, 32, nan], [2.5, nan, 31.5]], dtype=F64)
    torch.testing.assert_close(last.returns, wanted, equal_nan=True)
    stub = SimpleNamespace(groups=lambda: [[last]], algorithm=module.Algorithm())
    module.MAGRPO.set_advantages(stub)
    wanted = torch.tensor([[-15.0, 15, 0], [-14.5, 0, 14.5]], dtype=F64)
    torch.testing.assert_close(last.advantages, wanted)


# --- the page -------------------------------------------------------------------------------------


def test_the_page_shows_the_diff_and_what_it_computes(tmp_path):
    page = (ROOT / "docs/ablation.md").read_text()
    shown = re.search("```diff\n(.*?)```", page, re.DOTALL)[1]
    diff = (ROOT / "examples/ablations/median.diff").read_text()
    assert set(shown.splitlines()) < set(diff.splitlines())
    returns = torch.tensor([0, 0, 0.5, 1])
    assert f"`{patched('median', tmp_path).advantages(returns, 'median')}`" in page
