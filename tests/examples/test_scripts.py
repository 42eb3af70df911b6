"""The scripts beside the examples: python -m pytest tests/examples/test_scripts.py"""

import json
import runpy

import pytest
from helpers import ROOT, SMALL, read_json, table, total, train_run, write_run

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
    file.write_text("\n".join(map(json.dumps, rows)) + "\n\n")
    for row, scored in zip(rows, score([str(file), "--reward", "code"]), strict=True):
        parts = code(item, row["responses"])
        assert scored == row | {"parts": parts, "reward": total(parts)}


MISTAKES = """
score.py none.jsonl   cannot read none.jsonl: No such file or directory
score.py rows.jsonl   rows.jsonl, row 1: 'item' has to be an object, and 'responses'
score.py null.jsonl   null.jsonl, row 1: 'item' has to be an object, and 'responses'
score.py text.jsonl   text.jsonl, row 1: 'item' has to be an object, and 'responses'
score.py items.jsonl  items.jsonl: a line, or its item, has no field 'entry_point'
crossplay.py          the following arguments are required: runs
crossplay.py nowhere  nowhere: there is no run
crossplay.py a b      the runs differ in --turns
whole.py none folder  none is neither a .gguf file nor the folder of an adapter
whole.py .            the following arguments are required: folder
"""


@pytest.mark.parametrize(("command", "named"), table(MISTAKES))
def test_a_mistake_is_one_line(command, named, tmp_path, monkeypatch, capsys):
    (tmp_path / "rows.jsonl").write_text('{"item": {}}')
    (tmp_path / "null.jsonl").write_text('{"item": {}, "responses": ["", null]}')
    (tmp_path / "text.jsonl").write_text('{"item": "{}", "responses": ["", ""]}')
    (tmp_path / "items.jsonl").write_text('{"item": {}, "responses": ["", ""]}')
    write_run(tmp_path / "a")
    write_run(tmp_path / "b", turns=2)
    script, *words = command.split()
    monkeypatch.setattr("sys.argv", [script, *words])
    with pytest.raises(SystemExit) as stopped:
        runpy.run_path(str(ROOT / "examples" / script), run_name="__main__")
    assert stopped.value.code == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith(f"{script}: error: ")
    assert named in line


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


def test_the_pictures_of_docs_are_those_of_the_notebook_and_the_page(tmp_path):
    for name, words in pictures.STORED.items():
        assert (ROOT / "docs" / name).read_bytes() == pictures.stored_figure(words)
    table = pictures.coder_table()
    assert len(table) == 10
    assert {len(cells) for cells in table.values()} == {5}
    pictures.draw_coder(table, tmp_path / "coder.png")
    assert (tmp_path / "coder.png").read_bytes()[1:4] == b"PNG"
