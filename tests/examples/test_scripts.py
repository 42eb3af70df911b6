"""The scripts beside the examples: python -m pytest tests/examples/test_scripts.py"""

import pytest
from helpers import ROOT, SMALL, read_json, total, train_run, write_lines

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
