"""Every worked ablation applies, trains and does what it says: pytest tests/test_ablations.py"""

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
def test_it_trains_otherwise(diff, tmp_path):
    """Of the same seed, so the first rollout is the same, and what is learned from it is not."""
    rows = []
    for name in ("as it is", diff.stem):
        folder = shutil.copytree(ROOT, tmp_path / name, ignore=LEFT_BEHIND)
        if name == diff.stem:
            subprocess.run(["git", "apply", diff], cwd=folder, check=True)
        command = [sys.executable, "train.py", *SMALL.split(), "--run", "x"]
        subprocess.run(command, cwd=folder, env=os.environ | {"OMP_NUM_THREADS": "1"}, check=True)
        rows.append(json.loads((folder / "runs/x/metrics.jsonl").read_text().splitlines()[0]))
    was, now = rows
    if diff.stem == "third_agent":
        assert "completions/2/mean_length" in now.keys() - was.keys()
    else:
        assert now["reward_std"] == pytest.approx(was["reward_std"])
        assert now["grad_norm/0"] != pytest.approx(was["grad_norm/0"], rel=1e-4)
