"""--recombine against programs that are run here, one by one: python -m pytest
tests/test_recombine.py"""

import itertools
import json
from pathlib import Path
from statistics import fmean

import pytest
from helpers import read_json, refused_by_eval, run_eval, words, write_lines

from evaluation import load_team

TESTS = ["assert f(2) == 5", "assert f(3) == 10", "assert f(-1) == 2"]  # x * x + 1
ITEM = {"task_id": "x", "prompts": ["", ""], "entry_point": "f", "setup": "", "tests": TESTS}
HELPERS = ["x * x", "x + x", "abs(x) * abs(x)", "x ** 3"]
MAINS = ["aux(x) + 1", "aux(x) + (x != 2)", "x * x + 1", "1 / 0"]


def helper(body: str) -> str:
    return f"def aux(x):\n    return {body}\n"


def main(body: str) -> str:
    return helper(body).replace("def aux", "def f")


def samples(path: Path, items: list[dict], **methods: list[list[list[str]]]) -> Path:
    """Write a file of samples. methods: by problem, the joint responses of each method."""
    records = []
    for name, problems in methods.items():
        for item, joints in enumerate(problems):
            for sample, texts in enumerate(joints):
                turn = {"responses": texts, "tokens": [9] * len(texts), "parts": {}}
                head = {"method": name, "greedy": False, "item": item, "sample": sample}
                records.append(head | {"return": 0.0, "turns": [turn]})
    header = {"settings": {"title": ""}, "items": items, "timing": {}, "measures": {}}
    write_lines(path / "samples", [header, *records])
    return path / "samples"


def table(file: Path, *flags: str) -> dict[str, dict[str, float]]:
    run_eval(f"--recombine --from-samples {file} --json {file}.json", *flags)
    return read_json(Path(f"{file}.json"))["methods"]


def outputs(pair: tuple[str, str]) -> list:
    """What f returns for the tests' arguments, None where it raises."""
    names = {}
    exec(helper(pair[0]) + main(pair[1]), names)
    values = []
    for x in (2, 3, -1):
        try:
            values.append(names["f"](x))
        except ZeroDivisionError:
            values.append(None)
    return values


def expected(pairs: list[tuple[str, str]]) -> dict[str, float]:
    told = [outputs(pair) for pair in pairs]
    right = [values == [5, 10, 2] for values in told]
    rest = [values[1:] == [10, 2] for values in told]
    first = [good for good, values in zip(rest, told, strict=True) if values[0] == 5]
    votes = [told.count(values) if values != [None] * 3 else 0 for values in told]
    agree = [good for good, count in zip(right, votes, strict=True) if count == max(votes)]
    means = (fmean(right), max(right), fmean(agree), fmean(rest), fmean(first or rest))
    return dict(zip(words("pass@1 any majority rest first-test"), means, strict=True))


def assert_row(row: dict, parts: list[dict]):
    """Compare a row with the mean over so many sets of programs."""
    for name in parts[0]:
        value = row[name.replace("-", " ")]
        assert value == pytest.approx(fmean(part[name] for part in parts)), name


def test_every_row_is_that_of_the_programs_run_one_by_one(tmp_path):
    """The pair costs twice as much as the agent that writes both functions. At equal tokens it has
    the mean over neighbours in the ring of its samples."""
    ring = list(zip(HELPERS, MAINS, strict=True))
    texts = [[helper(a), main(b)] for a, b in ring]
    file = samples(tmp_path, [ITEM], naive=[texts], single=[[["\n".join(t)] for t in texts]])
    rows = table(file)
    every = list(itertools.product(HELPERS, MAINS))
    assert len(every) == 4**2
    for method in ("naive", "single"):
        assert_row(rows.pop(f"{method}, 4 samples"), [expected(ring)])
        assert_row(rows.pop(f"{method}, 4 recombined"), [expected(every)])
    couples = [[ring[i], ring[(i + 1) % 4]] for i in range(4)]
    crossed = [[(a, b) for a, _ in couple for _, b in couple] for couple in couples]
    assert_row(rows.pop("naive, 2 samples"), list(map(expected, couples)))
    row = rows.pop("naive, 2 recombined")
    assert_row(row, list(map(expected, crossed)))
    assert row["tokens"] == 2 * 2 * 9
    assert not rows


def test_hostile_samples_neither_pass_nor_vote_nor_leave_the_sandbox(tmp_path):
    """Two right programs win against three that pretend to return a value."""
    door = tmp_path / "open"
    fake = "class AssertionError(BaseException): pass\ndef f(x): raise AssertionError(1)"
    opens = f"def f(x): return open({str(door)!r}, 'w')"
    ends = "import os\ndef f(x): os._exit(0)"
    right = main("x * x + 1")
    texts = [["", text] for text in (fake, fake, fake, opens, ends, right, right)]
    row = table(samples(tmp_path, [ITEM], naive=[texts]))["naive, 7 samples"]
    assert row["pass@1"] == pytest.approx(2 / 7)
    assert row["majority"] == row["first test"] == 1
    assert not door.exists()


def test_sets_agree_in_any_order_and_one_test_leaves_nothing_to_score(tmp_path):
    item = ITEM | {"tests": ["assert f(3) == {1, 8, 16}"]}
    bodies = ["{1, 8, 16}", "{16, 8, 1}", "{1}"]
    row = table(samples(tmp_path, [item], naive=[[["", main(b)] for b in bodies]]))
    row = row["naive, 3 samples"]
    assert row["majority"] == 1
    assert not {"rest", "first test"} & row.keys()


def test_answers_of_two_runs_make_no_program(tmp_path, capsys):
    file = samples(tmp_path, [ITEM], trained=[[["", main("x")]]])
    head, line = file.read_text().splitlines()
    file.write_text("\n".join([head, line, json.dumps(json.loads(line) | {"run": 1})]))
    error = refused_by_eval(capsys, f"--recombine --from-samples {file}")
    assert "--recombine is for one run of a team" in error


def test_it_plays_and_reads_again_without_a_model(tmp_path, monkeypatch, capsys):
    live = "--recombine --limit 2 --num-samples 2 --method naive single --max-new-tokens 24"
    run_eval(live, f"--samples {tmp_path}/samples --json {tmp_path}/json")
    said = capsys.readouterr().out
    monkeypatch.setattr(load_team, "Player", None)
    again = table(tmp_path / "samples")
    assert capsys.readouterr().out == said
    assert again == read_json(tmp_path / "json")["methods"]
    error = refused_by_eval(capsys, "--recombine --method sequential")
    assert "what applies here is naive, single (" in error
    error = refused_by_eval(capsys, "--recombine --task build")
    assert "--recombine needs a task whose answers are functions with tests" in error
    assert "does not go with --show" in refused_by_eval(capsys, "--recombine --show 1")
