"""The scripts beside the examples: python -m pytest tests/examples/test_scripts.py"""

import os
import shutil
import subprocess
import sys

import pytest
from helpers import ROOT, SMALL, output_of, read_json, total, train_run, write_lines

from examples import pictures
from examples.crossplay import crossplay
from examples.score import score
from rewards import code
from tasks import Coop


def test_a_reward_scores_a_file_as_training_does(tmp_path):
    item = Coop().items("test")[0]
    rows = []
    for text in (item["solution"], ""):
        rows.append({"item": item, "responses": ["", text], "note": 7})
    file = tmp_path / "joint.jsonl"
    write_lines(file, rows)
    for row, scored in zip(rows, score([str(file), "--reward", "code"]), strict=True):
        parts = code(item, row["responses"])
        assert scored == row | {"parts": parts, "reward": total(parts)}


def test_a_script_finds_the_examples_from_any_folder(tmp_path):
    write_lines(
        tmp_path / "x.jsonl", [{"item": {"door": [1, 2], "sent": []}, "responses": ["1 2"] * 2}]
    )
    task = f"{ROOT}/examples/messages.py:Messages"
    command = [sys.executable, ROOT / "examples/score.py", "x.jsonl", "--task", task]
    assert '"found": 1.0' in output_of(command, cwd=tmp_path).stdout


def test_cross_play_exchanges_partners(tmp_path):
    """Each cell is what the team would earn that starts from these agents."""
    flags = f"{SMALL} --eval-limit 2 --lr 0.1 --advantage none"
    runs = [train_run(tmp_path / f"run{n}", flags, f"--seed {n}") for n in (0, 1)]
    names = list(map(str, runs))
    returns = crossplay(names, 2)
    assert returns.to_numpy().std() > 0
    first, other = names
    mixed = f"--init {first}/agents/0 {other}/agents/1"
    before = read_json(train_run(tmp_path / "mixed", flags, mixed) / "summary.json")["before"]
    assert returns.loc[first, other] == pytest.approx(before["greedy/return"])
    for name in names:
        after = read_json(tmp_path / name / "summary.json")["after"]["greedy/return"]
        assert returns.loc[name, name] == pytest.approx(after)


def test_the_pictures_of_docs_are_those_of_the_notebook():
    for name, words in pictures.STORED.items():
        assert (ROOT / "docs" / name).read_bytes() == pictures.stored_figure(words)


STUB = """#!/bin/bash
# In the place of python: a run's files, with dev returns that depend on the rate
[[ $1 == - ]] && exec {python} "$@"
line=" ${{*:2}}"
run=${{line##*--run }} && run=${{run%% --*}}
echo "$(cksum < magrpo.py):$line" >> "$LOG"
[[ $run != *"$FAIL" ]] || exit 2
rate=${{line##*--lr }} && rate=${{rate%% *}}
mkdir -p "$run"
code=a$(( ${{#rate}} > 0 ))+1 # of two commits
echo '{{"code": ["'$code'"]}}' > "$run/args.json"
joint=0.5 && [[ $rate != 0.006 ]] || joint=0.7
own=0.5 && [[ $rate != 0.0015 ]] || own=0.7
dev='"dev/return": '$own', "dev/metric/joint": '$joint', "dev/metric/coop":'
for share in 0.79 0.8 0.9; do
  echo '{{"responses": 900, '$dev $share'}}' >> "$run/metrics.jsonl"
done
both='"metric/coop": 0.25, "metric/pass": 0.5,'
[[ $line != *messages.args* ]] || both=
echo '{{"after": {{'$both' "return": 0.75}}}}' > "$run/summary.json"
"""


COMMIT = "git add -A && git -c user.name=a -c user.email=a@b commit -qm a"


@pytest.fixture
def laboratory(tmp_path):
    """Runs recipes/credit.sh of a committed copy with a stub for python: its status and output."""
    copy = tmp_path / "a copy"
    left = shutil.ignore_patterns(".*", "runs", "tests", "tiny", "docs", "bench", "__pycache__")
    shutil.copytree(ROOT, copy, ignore=left)
    subprocess.run(f"git init -q . && {COMMIT}", shell=True, cwd=copy, check=True)
    stub = tmp_path / "python"
    stub.write_text(STUB.format(python=sys.executable))
    stub.chmod(0o755)

    def run(fail="-"):
        setting = {"PYTHON": str(stub), "OUT": str(tmp_path / "an out"), "FAIL": fail}
        setting |= {"SEEDS": "1", "JOBS": "2", "LOG": str(tmp_path / "log")}
        command = ["bash", copy / "recipes/credit.sh"]
        return subprocess.run(command, env=os.environ | setting, capture_output=True, text=True)

    return run, copy, tmp_path


def test_the_rows_of_credit_train_with_their_code_and_rate(laboratory):
    run, copy, folder = laboratory
    (copy / "examples/credit/token_credit.diff").write_text("not committed, so it does not train")
    got = run()
    assert got.returncode == 0, got.stderr
    commits, _, *lines = got.stdout.splitlines()
    assert commits.split()[-2:] == ["a0", "a1"]
    rows = {line.split()[0]: line.split()[1:] for line in lines}
    assert len(rows) == 31
    assert rows["aligned"] == ["0.750", "0.500", "0.250", "0.25", ";", "2"]
    assert rows["messages-tree"] == ["0.750"]  # it has no functions that both may need
    lines = (folder / "log").read_text().splitlines()
    assert len(lines) == 11 * 6 + 31
    [aligned, token, shapley] = [
        next(line for line in lines if f"an out/{name}-0" in line)
        for name in ("aligned", "token", "shapley")
    ]
    code = [line.split(":")[0] for line in (aligned, token, shapley)]  # checksums of magrpo.py
    assert code[0] == code[2] != code[1]
    assert "--lr 0.006" in shapley  # the team's return on dev chose it, not what agents are paid


def test_a_run_of_credit_that_fails_is_named(laboratory):
    run, _, folder = laboratory
    got = run(fail="group-4-0")
    assert got.returncode
    assert not got.stdout
    [failed] = [line for line in got.stderr.splitlines() if line.startswith("failed: ")]
    assert "--num-generations 4" in failed
    assert "group-16-0" in (folder / "log").read_text()  # others go on


def test_a_diff_of_credit_that_does_not_apply_ends_it(laboratory):
    run, copy, folder = laboratory
    diff = copy / "examples/credit/token_credit.diff"
    diff.write_text(diff.read_text().replace("\n ", "\n  "))
    subprocess.run(COMMIT, shell=True, cwd=copy, check=True)
    assert run().returncode
    assert not (folder / "log").exists()
