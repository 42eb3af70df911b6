"""Every worked ablation applies, trains and does what it says: pytest tests/test_ablations.py"""

import os
import re
import shutil
import sys
from pathlib import Path

import pytest
from helpers import ROOT, output_of, read_json

DIFFS = sorted((ROOT / "examples/ablations").glob("*.diff"))
SMALL = "--batch-size 2 --num-generations 4 --eval-limit 1 --max-new-tokens 40 --max-steps 1"
LEFT_BEHIND = shutil.ignore_patterns(".*", "runs", "tests", "docs", "bench", "__pycache__")


@pytest.mark.parametrize("diff", DIFFS, ids=lambda diff: diff.stem)
def test_it_applies(diff):
    output_of(["git", "apply", "--check", diff], cwd=ROOT)


def run(folder: Path, diff: Path | None) -> dict:
    """The first metrics of a small run of a copy of the sources, with the diff applied."""
    shutil.copytree(ROOT, folder, ignore=LEFT_BEHIND)
    if diff:
        output_of(["git", "apply", diff], cwd=folder)
    chosen = ["--advantage", "median"] if diff and diff.stem == "median" else []
    command = [sys.executable, "train.py", *SMALL.split(), *chosen, "--run", "x"]
    output_of(command, cwd=folder, env=os.environ | {"OMP_NUM_THREADS": "1"})
    return read_json(folder / "runs/x/metrics.jsonl")


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    return run(tmp_path_factory.mktemp("plain") / "code", None)


@pytest.mark.slow
@pytest.mark.parametrize("diff", DIFFS, ids=lambda diff: diff.stem)
def test_it_does_what_it_says(diff, plain, tmp_path):
    first = run(tmp_path / "code", diff)
    if diff.stem == "third_agent":
        assert "completions/2/mean_length" in first.keys() - plain.keys()
        return
    # Of the same seed, so the first rollout is the same, and what is learned from it is not.
    assert first["reward_std"] == pytest.approx(plain["reward_std"])
    assert first["grad_norm/0"] != pytest.approx(plain["grad_norm/0"], rel=1e-4)


PAGE = ROOT / "docs/ablation.md"


def test_the_ablation_of_the_docs_is_the_diff():
    shown = re.search("```diff\n(.*?)```", PAGE.read_text(), re.DOTALL)[1]
    assert set(shown.splitlines()) < set(
        (ROOT / "examples/ablations/median.diff").read_text().split("\n")
    )


@pytest.mark.slow
def test_the_ablation_of_the_docs_makes_a_table_and_a_figure(tmp_path):
    """Its commands in a shell, in a copy of the sources. The runs are smaller."""
    folder = tmp_path / "code"
    shutil.copytree(ROOT, folder, ignore=LEFT_BEHIND)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    printed = []
    for command in re.findall("^(?:git apply|python) .*$", PAGE.read_text(), re.MULTILINE):
        small = command.replace("--max-steps 60", SMALL)
        environment = os.environ | {"PATH": path, "OMP_NUM_THREADS": "1"}
        printed.append(output_of(["sh", "-c", small], cwd=folder, env=environment).stdout)
    _, checked, batch, trained, table = printed
    assert checked.strip() in PAGE.read_text()
    assert "one joint response" in batch
    assert "6 of 6 runs are finished" in trained
    shown = PAGE.read_text().partition("```\nHeld-out problems")[2].partition("```")[0]
    for line in shown.splitlines():  # the words, without the figures of 60 steps
        assert " ".join(re.findall(r"[a-z/-]{2,}", line)) in " ".join(
            re.findall(r"[a-z/-]{2,}", table)
        )
    assert (folder / "ablation.png").read_bytes()[1:4] == b"PNG"
    assert (folder / "ablation.tex").read_text().count("tabular") == 4
