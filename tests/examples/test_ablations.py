"""Every worked ablation applies, trains and does what it says: pytest tests/test_ablations.py"""

import contextlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import train

ROOT = Path(train.__file__).parent
DIFFS = sorted((ROOT / "examples" / "ablations").glob("*.diff"))
SMALL = "--batch-size 2 --num-generations 4 --eval-limit 1 --max-new-tokens 40 --max-steps 2"
LEFT_BEHIND = shutil.ignore_patterns(".*", "runs", "tests", "docs", "bench", "__pycache__")


def metrics(folder: Path) -> list[dict]:
    return [json.loads(line) for line in (folder / "runs/x/metrics.jsonl").open()]


def run(folder: Path, diff: Path, *flags: str) -> list[dict]:
    """The metrics of a small run of a copy of the sources, with the diff applied."""
    shutil.copytree(ROOT, folder, ignore=LEFT_BEHIND)
    subprocess.run(["git", "apply", diff], cwd=folder, check=True)
    command = [sys.executable, "train.py", *SMALL.split(), "--run", "x", *flags]
    alone = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=folder, env=alone, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    return metrics(folder)


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """The same run of the sources as they are."""
    folder = tmp_path_factory.mktemp("plain")
    with contextlib.chdir(folder):
        train.main([*SMALL.split(), "--run", "x"])
    return metrics(folder)


def test_there_are_three():
    names = "advantage entropy_bonus third_agent"
    assert [diff.stem for diff in DIFFS] == names.split()


@pytest.mark.parametrize("diff", DIFFS, ids=lambda diff: diff.stem)
def test_it_is_short_says_what_it_shows_and_applies(diff):
    header, _, body = diff.read_text().partition("\ndiff --git ")
    lines = [line for line in body.splitlines() if not line.startswith(("+++", "---"))]
    for sign in "+-":
        assert sum(line.startswith(sign) for line in lines) < 10
    assert len(header.split()) > 30
    subprocess.run(["git", "apply", "--check", diff], cwd=ROOT, check=True)


@pytest.mark.slow
@pytest.mark.parametrize("diff", DIFFS, ids=lambda diff: diff.stem)
def test_it_does_what_it_says(diff, plain, tmp_path):
    rows = run(tmp_path / "code", diff)
    first, was = rows[0], plain[0]
    if diff.stem == "third_agent":
        assert "completions/2/mean_length" in first
        assert "completions/2/mean_length" not in was
        return
    # Of the same seed, so the first rollout is the same, and what is learned from it is not.
    assert first["reward_std"] == pytest.approx(was["reward_std"])
    norms = [first["grad_norm/0"], first["grad_norm/1"]]
    assert norms != pytest.approx([was["grad_norm/0"], was["grad_norm/1"]], rel=1e-4)
