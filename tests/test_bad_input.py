"""Every mistake gets one line that names it and what would be right, and nothing is written:
python -m pytest tests/test_bad_input.py

A case is what is done wrong and two texts that its line has to hold: the mistake, the remedy.
"""

import gzip
import io
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pyarrow
import pytest
import torch
from pyarrow import parquet
from safetensors.torch import load_file, save_file

import eval as evaluation
import train

ROOT = Path(train.__file__).parent
SMALL = ["--batch-size", "1", "--num-generations", "2", "--eval-limit", "1", "--max-steps", "2"]
SMALL += ["--max-new-tokens", "8"]


def files(folder: Path) -> dict:
    return {path: path.is_file() and path.read_bytes() for path in sorted(folder.rglob("*"))}


@pytest.fixture
def refused(tmp_path, monkeypatch, capsys):
    """Runs a command line in this process; returns the one line that it is refused with."""
    monkeypatch.chdir(tmp_path)

    def refused(*argv, program=train) -> str:
        before, start = files(tmp_path), time.process_time()
        capsys.readouterr()
        with pytest.raises(SystemExit) as stopped:
            program.main(list(map(str, argv)))
        assert time.process_time() - start < 10
        said = capsys.readouterr().err.splitlines()
        assert stopped.value.code == 2
        assert len(said) == 1, said
        assert said[0].startswith(f"{program.__name__}.py: error: "), said
        assert files(tmp_path) == before
        return said[0]

    return refused


def ids(cases) -> list[str]:
    """The first thing of each case, which is what is wrong."""
    return [" ".join(case[0]) if isinstance(case[0], list) else str(case[0]) for case in cases]


# --- flags ----------------------------------------------------------------------------------------

FLAGS = [
    # misspelt, or unknown
    (["--max-step", "3"], "unrecognized arguments: --max-step", "did you mean --max-steps?"),
    (["--learning-rate", "1"], "unrecognized arguments: --learning-rate", "--help lists"),
    (["--nothing-like-it"], "unrecognized arguments", "--help lists the flags"),
    (["coop"], "unrecognized arguments: coop", "--help lists the flags"),
    (["--task", "cop"], "unknown task 'cop'", "did you mean coop?"),
    (["--task", "nothing"], "unknown task 'nothing'", "known: arxiv, build, coop"),
    (["--reward", "codes"], "unknown reward 'codes'", "did you mean code?"),
    (
        ["--turns", "2", "--feedback", "test"],
        "--feedback: 'test' is not known",
        "did you mean tests?",
    ),
    (["--joint", "crossed"], "--joint: 'crossed'", "did you mean cross?"),
    (["--branching", "x"], "--branching: 'x' is not known", "tree, chain"),
    (["--advantage", "media"], "--advantage: 'media'", "did you mean mean?"),
    (["--normalize", "tokens"], "--normalize: 'tokens'", "did you mean token?"),
    (["--lr-schedule", "cosin"], "--lr-schedule: 'cosin'", "did you mean cosine?"),
    (["--precision", "bf16"], "--precision: 'bf16'", "bf16-mixed"),
    (["--bits", "5"], "--bits: '5' is not known", "32, 16, 8, 4"),
    # out of range
    (["--num-agents", "0"], "--num-agents: '0'", "a whole number of at least 1"),
    (["--num-agents", "two"], "--num-agents: 'two'", "a whole number of at least 1"),
    (["--num-generations", "0"], "--num-generations: '0'", "at least 1"),
    (["--batch-size", "1.5"], "--batch-size: '1.5'", "a whole number of at least 1"),
    (["--turns", "-1"], "--turns: '-1'", "at least 1"),
    (["--gamma", "2"], "--gamma: '2'", "a number in [0, 1]"),
    (["--top-p", "1.5"], "--top-p: '1.5'", "a number in [0, 1]"),
    (["--top-k", "-1"], "--top-k: '-1'", "a whole number of at least 0"),
    (["--lr", "nan"], "--lr: 'nan'", "a number of at least 0"),
    (["--lr", "inf"], "--lr: 'inf'", "a number of at least 0"),
    (["--lr"], "--lr", "expected one argument"),
    (["--kl-coef", "-0.1"], "--kl-coef: '-0.1'", "a number of at least 0"),
    (["--lora-rank", "-1"], "--lora-rank: '-1'", "at least 0"),
    (["--lora-alpha", "0"], "--lora-alpha: '0'", "at least 1"),
    (["--max-steps", "0"], "--max-steps: '0'", "at least 1"),
    (["--epochs", "0"], "--epochs: '0'", "at least 1e-06"),
    (["--warmup-steps", "-5"], "--warmup-steps: '-5'", "at least 0"),
    (["--max-new-tokens", "0"], "--max-new-tokens: '0'", "at least 1"),
    (["--max-prompt-tokens", "0"], "--max-prompt-tokens: '0'", "at least 1"),
    (["--save-every", "0"], "--save-every: '0'", "at least 1"),
    (["--sample-every", "0"], "--sample-every: '0'", "at least 1"),
    (["--eval-limit", "-1"], "--eval-limit: '-1'", "at least 0"),
    (["--eval-every", "-1"], "--eval-every: '-1'", "at least 0"),
    (["--seed", "-1"], "--seed: '-1'", "in [0, "),
    (["--seed", "9" * 20], f"--seed: '{'9' * 20}'", "in [0, 9223372036854775807]"),
    (["--temperature", "0"], "--temperature 0 is greedy", "all samples of a group"),
    (["--top-p", "0"], "--top-p 0 leaves no token", "to sample"),
    (["--num-generations", "1"], "--num-generations 1 trains nothing", "--advantage none"),
    (["--joint", "0"], "--joint: '0'", "at least 1"),
    (["--joint", "9"], "--joint 9", "is part of 8 joint responses in all"),
    (["--num-agents", "1", "--joint", "2"], "--joint 2", "is part of 1 joint responses in all"),
    # in conflict
    (["--max-steps", "3", "--epochs", "1"], "--max-steps and --epochs", "give one of them"),
    (["--model", "a", "b", "c"], "names 3 for 2 agents", "give one, or each"),
    (["--lora-rank", "0", "--bits", "4"], "--lora-rank 0 trains the weights", "need --bits 32"),
    (["--lora-rank", "0", "--kl-coef", "0.1"], "--kl-coef", "not with --lora-rank 0"),
    (["--precision", "bf16-mixed"], "--precision bf16-mixed", "with adapters, give --bits 16"),
    (["--kl-coef", "0.1", "--top-p", "0.5"], "--kl-coef", "not with --top-p or --top-k"),
    (["--feedback", "tests"], "--feedback is told between turns", "needs --turns 2"),
    (["--turns", "2", "--feedback-tests", "2"], "--feedback-tests goes with", "levels or tests"),
    (["--expert-url", "http://h/v1"], "go with --feedback expert", "add it, or drop them"),
    (["--expert-model", "big"], "go with --feedback expert", "add it, or drop them"),
    (["--turns", "2", "--feedback", "expert"], "--feedback expert needs", "--expert-url and"),
    (
        [
            "--turns",
            "2",
            "--feedback",
            "expert",
            "--expert-model",
            "m",
            "--expert-url",
            "https://u:sk-1@h/v1",
        ],
        "has to end after its path",
        "into the environment",
    ),
    (["--data", "x.json"], "task coop makes its own problems", "takes no --data, as --task tldr"),
    (
        ["--task", "nope.py:Rhyme"],
        "cannot load the task 'nope.py:Rhyme'",
        "there is no file nope.py",
    ),
    (["--task", "tldr", "--num-agents", "3", "--data", "x"], "two roles: 1 or 2 agents", "not 3"),
    (
        ["--task", "tldr", "--data", "x", "--turns", "2", "--feedback", "tests"],
        "task 'tldr' has to take (data=, num_agents=, feedback=)",
        "or leave --feedback out",
    ),
    (["--chat-template"], "no chat template", "leave the flag out (--no-chat-template"),
    (["--max-prompt-tokens", "8"], "--max-prompt-tokens is 8", "raise the limit or drop"),
    (["--max-new-tokens", "9000"], "the model's context of 8192", "--max-new-tokens"),
    # folders and flag files
    (["--run", "taken"], "taken already holds a run", "choose another --run or --resume"),
    (["--run", "taken/file/x"], "cannot make the run's folder", "choose another --run"),
    (["--resume", "nowhere"], "there is no run (no nowhere/args.json)", "a folder in runs/"),
    (["--resume", "taken"], "there is no run (no taken/args.json)", "a folder in runs/"),
    (["--resume", "taken", "--lr", "1"], "not --lr", "only --max-steps may change"),
    (["@missing.args"], "missing.args", "No such file"),
    (["@taken"], "taken", "Is a directory"),
    (["@unclosed.args"], "--run 'unclosed", "No closing quotation"),
]


@pytest.mark.parametrize(("argv", "mistake", "remedy"), FLAGS, ids=ids(FLAGS))
def test_flags(argv, mistake, remedy, refused, tmp_path):
    taken = tmp_path / ("runs/taken" if argv == ["--run", "taken"] else "taken")
    taken.mkdir(parents=True)
    (taken / "file").write_text("")
    (tmp_path / "unclosed.args").write_text("--run 'unclosed")
    said = refused(*argv)
    assert mistake in said
    assert remedy in said
    assert "sk-1" not in said


def test_a_recipe_s_expert_may_stay_where_the_mode_is_another(tmp_path):
    (tmp_path / "x.args").write_text("--turns 2 --expert-url http://h/v1 --expert-model m\n")
    assert train.parse([f"@{tmp_path}/x.args", "--feedback", "tests"]).feedback == "tests"


def test_one_sample_without_a_baseline_trains(tmp_path):
    argv = [*SMALL, "--num-generations", "1", "--advantage", "none", "--run", tmp_path / "run"]
    train.main(list(map(str, argv)))
    row = json.loads((tmp_path / "run" / "metrics.jsonl").read_text().splitlines()[0])
    assert row["grad_norm/0"] > 0


# --- data files -----------------------------------------------------------------------------------

ROW = {"prompt": 'def inc(x):\n    """Add one."""\n', "entry_point": "inc"}
ROW["test"] = "def check(candidate):\n    assert candidate(1) == 2\n"
ROWS = [{"task_id": f"own/{number}", **ROW} for number in range(5)]


def rows(number: int | None = None, **changes) -> list[dict]:
    """Five rows, of which one is changed; what is None is left out."""
    found = [dict(row) for row in ROWS]
    if number is not None:
        found[number - 1] |= changes
        found[number - 1] = {k: v for k, v in found[number - 1].items() if v is not None}
    return found


def lines(found: list) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in found).encode()


def as_parquet(found: list) -> bytes:
    out = io.BytesIO()
    parquet.write_table(pyarrow.Table.from_pylist(found), out)
    return out.getvalue()


WANTED = "a row needs task_id, prompt, entry_point, test"
DATA = [  # name, content, mistake, remedy
    ("x.jsonl", b"", "x.jsonl holds no rows", "one for each problem"),
    ("x.json", b"[]", "x.json holds no rows", "one for each problem"),
    ("x.txt", b"hello", "x.txt is none of", ".json, .jsonl, .csv"),
    ("x.jsonl", b"\x89PNG\r\n\x1a\n\x00", "x.jsonl is not UTF-8 text", "byte 0"),
    ("x.json", b'{"a": 1}\n{"a": 2}\n', "x.json is not JSON", "one object per line is .jsonl"),
    ("x.json", b'{"a": 1}', "x.json: a list of rows is needed", "[{...}, ...]"),
    ("x.json", json.dumps(ROWS).encode()[:-20], "x.json is not JSON", "line 1 column"),
    ("x.jsonl", lines(ROWS)[:-20], "x.jsonl, row 5", "not one JSON object"),
    (
        "x.jsonl.gz",
        gzip.compress(lines(ROWS), mtime=0)[:-9],
        "cannot read x.jsonl.gz",
        "data is damaged",
    ),
    ("x.jsonl.gz", lines(ROWS), "cannot read x.jsonl.gz", "Not a gzipped file"),
    ("x.parquet", as_parquet(ROWS)[:-50], "x.parquet is not a Parquet file", ""),
    ("x.parquet", lines(ROWS), "x.parquet is not a Parquet file", "footer"),
    ("x.csv", b"task_id,prompt\n1,2\n1,2,3\n", "x.csv, row 2", "the header's 2 fields"),
    ("x.csv", b"task_id,prompt\n1,2\n", "x.csv, row 1: field 'entry_point'", WANTED),
    ("x.jsonl", lines(ROWS[:2]), "x.jsonl holds 2 problems", "train, dev, test need 3"),
    ("x.jsonl", lines([*ROWS[:2], 7, *ROWS[2:]]), "x.jsonl, row 3", "an object with named"),
    ("x.jsonl", lines(rows(3, test=None)), "x.jsonl, row 3: field 'test' is missing", WANTED),
    ("x.jsonl", lines(rows(3, prompt=7)), "row 3: field 'prompt'", "has to be a text, not 7"),
    ("x.jsonl", lines(rows(4, task_id=["a"])), "row 4: field 'task_id'", "has to be a text"),
    ("x.jsonl", lines(rows(4, task_id="own/0")), "row 4: task_id 'own/0'", "that of row 1, too"),
    ("x.jsonl", lines(rows(2, prompt="def f(:")), "row 2: the prompt has to be", "a signature"),
    ("x.jsonl", lines(rows(2, entry_point="f")), "row 2: the prompt does not define", "'f'"),
    ("x.jsonl", lines(rows(2, test="assert True")), "row 2: field 'test'", "check(candidate)"),
    (
        "x.jsonl",
        lines(rows(5, prompt=ROW["prompt"].replace("Add", "Add " * 999))),
        "a prompt has",
        "raise",
    ),
]


@pytest.mark.parametrize(("name", "content", "mistake", "remedy"), DATA)
def test_data_files(name, content, mistake, remedy, refused, tmp_path):
    (tmp_path / name).write_bytes(content)
    said = refused("--task", "humaneval", "--data", name)
    assert mistake in said
    assert remedy in said


def test_data_that_cannot_be_read(refused, tmp_path):
    (tmp_path / "folder.jsonl").mkdir()
    (tmp_path / "dangling.jsonl").symlink_to("nowhere")
    for name, why in (("folder.jsonl", "Is a directory"), ("missing.csv", "No such file")):
        assert f"cannot read {name}: {why}" in refused("--task", "humaneval", "--data", name)
    assert "cannot read dangling.jsonl" in refused("--task", "tldr", "--data", "dangling.jsonl")
    (tmp_path / "secret.jsonl").write_bytes(lines(ROWS))
    (tmp_path / "secret.jsonl").chmod(0)
    if not os.access(tmp_path / "secret.jsonl", os.R_OK):  # root may read it all the same
        (tmp_path / "secret.jsonl").rename(tmp_path.parent / "secret.jsonl")
        said = refused("--task", "humaneval", "--data", tmp_path.parent / "secret.jsonl")
        assert "Permission denied" in said


def test_a_bad_row_of_the_writing_tasks(refused, tmp_path):
    (tmp_path / "x.jsonl").write_bytes(lines([{"prompt": "a"}, {"prompt": "b"}, {"text": "c"}]))
    said = refused("--task", "tldr", "--data", "x.jsonl")
    assert "x.jsonl, row 3: task tldr needs a text in the field 'prompt' (it has text)" in said


# --- plug-ins -------------------------------------------------------------------------------------

TASK = """
class Task:
    reward = "FILE:reward"
    def __init__(self, data=None, num_agents=2): pass
    def items(self, split): return [{"task_id": split}]
    def observe(self, agent, item, history): return item["task_id"]
def reward(item, responses): return 0.0
reward.maximum = 1.0
"""
PLUGINS = [  # what is replaced, by what, mistake, remedy
    ("class Task:", "class Task(:", "cannot load the task", "SyntaxError"),
    ("class Task:", "class Tusk:", "mine.py has no task Task", "did you mean Tusk?"),
    ("class Task:", "import nowhere\nclass Task:", "cannot load the task", "No module named"),
    ("class Task:", "1 / 0\nclass Task:", "cannot load the task", "ZeroDivisionError"),
    ("class Task:", "import sys\nsys.exit()\nclass Task:", "cannot load the task", "SystemExit"),
    ("data=None, num_agents=2", "", "has to take (data=, num_agents=)", "unexpected keyword"),
    (": pass", ": raise KeyError('no')", "cannot be made", "KeyError('no')"),
    ('reward = "FILE:reward"', "", "names no reward of its own", "give one with --reward"),
    ("def items(self, split)", "def rows(self, split)", "has no items(split)", "needs one"),
    ("items(self, split)", "items(self)", "needs items(split)", "too many positional"),
    ('return [{"task_id": split}]', "return 7", "items('train')", "a list of dicts"),
    ('return [{"task_id": split}]', "return ['a']", "items('train')", "a list of dicts"),
    ('return [{"task_id": split}]', "return []", "has no items", "to train or to test on"),
    ('return [{"task_id": split}]', "return no", "items('train') raised", "name 'no' is not"),
    ("observe(self, agent, item, history)", "observe(self)", "needs observe(agent, item", "too"),
    ('item["task_id"]', "item['x']", "observe(0, {'task_id': 'train'}, []) raised", "KeyError"),
    (
        'return item["task_id"]',
        "return 7",
        "a prompt, which observe() gives",
        "has to be a text, not 7",
    ),
    ("def reward(item, responses)", "def reward(item)", "has to take (item, responses)", "too"),
    ("def reward(item, responses)", "def other(item, responses)", "cannot load", "'reward'"),
    ("reward.maximum = 1.0", "reward = 7", "is no function but 7", "has to be one"),
    ("reward.maximum = 1.0", "", "needs its largest value", "as .maximum"),
    ("reward.maximum = 1.0", "reward.maximum = 0", "needs its largest value", "above 0"),
    ("reward.maximum = 1.0", "reward.maximum = '4'", "needs its largest value", "a number"),
]


@pytest.mark.parametrize(("old", "new", "mistake", "remedy"), PLUGINS)
def test_plugins(old, new, mistake, remedy, refused, tmp_path):
    assert old in TASK
    (tmp_path / "mine.py").write_text(TASK.replace(old, new).replace("FILE", "mine.py"))
    said = refused("--task", "mine.py:Task", "--max-steps", 1)
    assert mistake in said
    assert remedy in said


def test_plugins_that_are_named_wrongly(refused, tmp_path):
    (tmp_path / "mine.py").write_text(TASK.replace("FILE", "mine.py"))
    assert "there is no file missing.py" in refused("--task", "missing.py:Task")
    assert "file.py:Name" in refused("--task", "mine.py")
    assert "No module named 'nowhere'" in refused("--reward", "nowhere.reward")
    said = refused("--task", "mine.py:Task", "--turns", 2)
    assert "has no feedback(item, responses): it needs one" in said


# --- models ---------------------------------------------------------------------------------------


@pytest.fixture
def model(tmp_path) -> Path:
    """A copy of the embedded model."""
    names = [p for p in (ROOT / "tiny").iterdir() if p.suffix in (".json", ".safetensors")]
    (tmp_path / "model").mkdir()
    for path in names:
        shutil.copy(path, tmp_path / "model")
    return tmp_path / "model"


def edit(path: Path, **changes) -> None:
    """Changes a JSON file; what is None is taken out."""
    values = json.loads(path.read_text()) | changes
    path.write_text(json.dumps({k: v for k, v in values.items() if v is not None}))


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def no_eos(model: Path) -> None:
    edit(model / "tokenizer_config.json", eos_token=None)
    edit(model / "generation_config.json", eos_token_id=None)
    edit(model / "config.json", eos_token_id=None)


def only_a_pickle(model: Path) -> None:
    torch.save(load_file(model / "model.safetensors"), model / "pytorch_model.bin")
    (model / "model.safetensors").unlink()


def code_of_its_own(model: Path) -> None:
    (model / "mine.py").write_text("raise SystemExit('it ran')")
    edit(model / "config.json", auto_map={"AutoConfig": "mine.Config"}, model_type="mine")


MODELS = [
    ("no weights", lambda m: (m / "model.safetensors").unlink(), "it needs config.json and safe"),
    ("weights cut", lambda m: cut(m / "model.safetensors"), "it needs config.json and safetensors"),
    ("only a pickle", only_a_pickle, "it needs config.json and safetensors"),
    ("no config", lambda m: (m / "config.json").unlink(), "it needs config.json"),
    ("bad config", lambda m: cut(m / "config.json"), "it needs config.json"),
    ("no tokenizer", lambda m: [p.unlink() for p in m.glob("tok*")], "no tokenizer files"),
    ("tokenizer cut", lambda m: cut(m / "tokenizer.json"), "no tokenizer files"),
    ("no end of sequence", no_eos, "no end-of-sequence token: set eos_token in its tokenizer"),
    ("code of its own", code_of_its_own, "if you trust it, --trust-remote-code"),
    ("a small context", lambda m: edit(m / "config.json", max_position_embeddings=64), "context"),
]


@pytest.mark.parametrize(("name", "spoil", "said"), MODELS, ids=ids(MODELS))
def test_models(name, spoil, said, model, refused):
    spoil(model)
    told = refused("--model", "model", "--max-steps", 1)
    assert said in told
    assert "model" in told


def test_models_that_are_not_there(refused, tmp_path):
    assert "'no/such-model' is no folder" in refused("--model", "no/such-model")
    told = "model '../mine/gpt3' is no folder, and no name of the hub's"
    assert told in refused("--model", "../mine/gpt3")
    (tmp_path / "empty").mkdir()
    assert "it needs config.json" in refused("--model", "empty")


def test_a_tokenizer_needs_no_pad_token(model, tmp_path):
    """Nothing here pads with it: a model that has none trains like any other."""
    edit(model / "tokenizer_config.json", pad_token=None)
    edit(model / "config.json", pad_token_id=None)
    edit(model / "generation_config.json", pad_token_id=None)
    for name, folder in (("without", model), ("with", ROOT / "tiny")):
        argv = ["--model", str(folder), "--lr", "3e-3", "--run", str(tmp_path / name)]
        train.main([*SMALL, *argv])
    returns = [
        [json.loads(line)["grad_norm/0"] for line in path.read_text().splitlines()]
        for path in (tmp_path / "without" / "metrics.jsonl", tmp_path / "with" / "metrics.jsonl")
    ]
    assert returns[0] == returns[1]


# --- runs -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    """A finished run of two steps, on a model that can be changed."""
    folder = tmp_path_factory.mktemp("whole")
    shutil.copytree(ROOT / "tiny", folder / "model", ignore=shutil.ignore_patterns("*py*"))
    argv = ["--model", str(folder / "model"), "--run", str(folder / "run")]
    train.main([*SMALL, "--sample-every", "1", *argv])
    return folder


@pytest.fixture
def run(whole, tmp_path) -> Path:
    """A copy of it, with a model of its own."""
    shutil.copytree(whole, tmp_path, dirs_exist_ok=True)
    path = tmp_path / "run" / "args.json"
    path.write_text(path.read_text().replace(str(whole), str(tmp_path)))
    return tmp_path / "run"


def edit_args(run: Path, **changes) -> None:
    record = json.loads((run / "args.json").read_text())
    values = record["args"] | changes
    record["args"] = {k: v for k, v in values.items() if v != "drop"}
    (run / "args.json").write_text(json.dumps(record))


def edit_checkpoint(run: Path, change) -> None:
    path = run / "checkpoints" / "last.ckpt"
    state = torch.load(path, weights_only=True)
    change(state)
    torch.save(state, path)


def other_base(run: Path) -> None:
    """The same config and shapes, other weights: loading it would go without a complaint."""
    path = run.parent / "model" / "model.safetensors"
    save_file({k: v * 1.01 for k, v in load_file(path).items()}, path, {"format": "pt"})


def bad_line(run: Path, name: str) -> None:
    path = run / name
    first, rest = path.read_text().split("\n", 1)
    path.write_text(f"{first[:20]}\n{rest}")


def text(name: str, content: str):
    return lambda run: (run / name).write_text(content)


class Bomb:
    """A pickle that does something when it is read."""

    def __reduce__(self):
        return (Path.touch, (Path("it-ran"),))


RUNS = [
    ("args.json no JSON", text("args.json", "{"), "args.json is not what a run writes", "restore"),
    ("args.json empty", text("args.json", "{}"), "args.json is not what a run writes", "restore"),
    ("args.json a list", text("args.json", "[]"), "args.json is not what a run writes", "restore"),
    ("a bad value", lambda r: edit_args(r, num_agents="two"), "'two' is not a whole", "restore it"),
    ("a bad choice", lambda r: edit_args(r, joint="any"), "'any' is not", "aligned or cross"),
    (
        "refused by now",
        lambda r: edit_args(r, precision="bf16-mixed"),
        "bf16-mixed is of",
        "give --bits 16",
    ),
    ("another task", lambda r: edit_args(r, task="cop"), "unknown task 'cop'", "did you mean coop"),
    ("another rank", lambda r: edit_args(r, lora_rank=8), "of another team", "bring back the one"),
    ("full copies", lambda r: edit_args(r, lora_rank=0), "of another team", "bring back the one"),
    (
        "three agents",
        lambda r: edit_args(r, num_agents=3, model=[str(r.parent / "model")] * 3),
        "of another team",
        "bring back the one",
    ),
    ("checkpoint cut", lambda r: cut(r / "checkpoints" / "last.ckpt"), "is damaged", "delete it"),
    ("checkpoint empty", text("checkpoints/last.ckpt", ""), "is damaged", "delete it to begin"),
    ("checkpoint a text", text("checkpoints/last.ckpt", "hello"), "is damaged", "delete it"),
    (
        "checkpoint a bomb",
        lambda r: edit_checkpoint(r, lambda state: state.update(x=Bomb())),
        "no checkpoint of a run (UnpicklingError)",
        "delete it",
    ),
    (
        "checkpoint without weights",
        lambda r: edit_checkpoint(r, lambda state: state.pop("state_dict")),
        "no checkpoint of a run (KeyError)",
        "delete it",
    ),
    (
        "checkpoint of one agent",
        lambda r: edit_checkpoint(
            r,
            lambda state: [state["state_dict"].pop(k) for k in [*state["state_dict"]] if "1" in k],
        ),
        "of another team",
        "bring back the one",
    ),
    ("metrics spoilt", lambda r: bad_line(r, "metrics.jsonl"), "metrics.jsonl, line 1", "mend it"),
    ("samples spoilt", lambda r: bad_line(r, "samples.jsonl"), "samples.jsonl, line 1", "mend it"),
    ("metrics no text", lambda r: (r / "metrics.jsonl").write_bytes(b"\xff\n"), "line 1", "mend"),
    ("another base", other_base, "is not what", "bring that one back, or train anew"),
    (
        "no base",
        lambda r: shutil.rmtree(r.parent / "model"),
        "is no folder",
        "no name of the hub's",
    ),
]


@pytest.mark.parametrize(("name", "spoil", "mistake", "remedy"), RUNS, ids=ids(RUNS))
def test_resumed_runs(name, spoil, mistake, remedy, run, refused):
    spoil(run)
    said = refused("--resume", "run", "--max-steps", 3)
    assert mistake in said
    assert remedy in said


def test_a_run_from_before_a_flag_goes_on(run):
    edit_args(run, logger="drop", precision="drop")
    train.main(["--resume", str(run), "--max-steps", "3"])
    assert json.loads((run / "summary.json").read_text())["steps"] == 3


def test_a_run_is_not_taken_back(run, refused):
    assert "run has 2 steps: --max-steps 1 is behind it" in refused(
        "--resume", "run", "--max-steps", 1
    )


def test_what_an_evaluation_adds_is_no_step(run):
    """Lines of dev evaluations stand in metrics.jsonl, too."""
    with (run / "metrics.jsonl").open("a") as file:
        file.writelines(json.dumps({"step": 1, "dev/return": 0.5}) + "\n" for _ in range(9))
    train.main(["--resume", str(run), "--max-steps", "3"])
    assert json.loads((run / "summary.json").read_text())["steps"] == 3


# --- eval.py --------------------------------------------------------------------------------------


def eval_flags(command: str, mistake: str, remedy: str) -> tuple:
    return command.split(), mistake, remedy


EVAL = [
    eval_flags("--runs x", "unrecognized arguments: --runs", "did you mean --run?"),
    eval_flags("--run nowhere", "--run nowhere: there is no run", "no nowhere/args.json"),
    eval_flags("--run run --run run2", "two runs of a team", "--compare is for that"),
    eval_flags("--run run --method trainde", "--method trainde", "did you mean trained?"),
    eval_flags("--method trained", "--method trained", "what applies here is naive"),
    eval_flags("--method", "--method", "expected at least one argument"),
    eval_flags("--task cop", "unknown task 'cop'", "did you mean coop?"),
    eval_flags("--limit -1", "--limit: '-1'", "a whole number of at least 0"),
    eval_flags("--num-samples 0", "--num-samples: '0'", "at least 1"),
    eval_flags("--temperature -1", "--temperature: '-1'", "at least 0"),
    eval_flags("--top-p 0", "--top-p 0 leaves no token", "to sample"),
    eval_flags("--turns 2 --feedback test", "--feedback: 'test' is not known", "plain, passed"),
    eval_flags("--feedback tests", "--feedback is told between turns", "--turns 2"),
    eval_flags("--run run --model tiny", "is not what run was trained on", "bring that one back"),
    eval_flags("--single-model no/such --method single", "'no/such' is no folder", "the hub does"),
    eval_flags("--json no/x", "--json no/x", "no file can be written there"),
    eval_flags("--from-samples missing", "missing", "No such file"),
    eval_flags("--from-samples run/metrics.jsonl", "line 1", "not a line of eval.py --samples"),
    eval_flags("--from-samples header", "header, line 1", "not a line of eval.py --samples"),
    eval_flags("--from-samples run --show 1", "run", "Is a directory"),
    eval_flags("--from-samples model/model.safetensors", "model.safetensors", "not a line of"),
    eval_flags("--compare", "--compare", "expected at least one argument"),
    eval_flags("--from-samples x --run y", "--from-samples does not go with --run", ""),
    eval_flags("--compare a --doctor b", "does not go with", "--doctor"),
    eval_flags("--data x.jsonl", "task coop makes its own problems", "takes no --data"),
    eval_flags("--run run --model a b c", "--model names 3", "one per agent"),
    eval_flags("--compare nowhere", "nowhere is not a run", "args.json"),
    eval_flags("--compare empty", "empty is not a run", "no step"),
    eval_flags("--doctor nowhere", "nowhere is not a run", "it has no metrics.jsonl"),
    eval_flags("--doctor model", "model is not a run", "it has no metrics.jsonl"),
    eval_flags("--ask x --show 1", "--ask does not go with", "--show"),
    eval_flags("--ask x --task mine.py:Task", "--ask of this task", "as JSON, with task_id"),
    eval_flags("--turns 2 --task mine.py:Task", "has no feedback(item, resp", "it needs one"),
    (["--ask", "def ("], "--ask", "def name(...):"),
    eval_flags("@missing.args", "missing.args", "No such file"),
]


@pytest.mark.parametrize(("argv", "mistake", "remedy"), EVAL, ids=ids(EVAL))
def test_eval_flags(argv, mistake, remedy, run, refused, tmp_path):
    other_tiny = [str(run.parent / "model") if word == "tiny" else word for word in argv]
    if "tiny" in argv:
        edit(run.parent / "model" / "config.json", rms_norm_eps=1e-5)
    shutil.copytree(run, tmp_path / "run2")
    (tmp_path / "mine.py").write_text(TASK.replace("FILE", "mine.py"))
    (tmp_path / "header").write_text('{"settings": {}}\n{"turns": []}\n')
    shutil.copytree(run, tmp_path / "empty")
    (tmp_path / "empty" / "metrics.jsonl").write_text("")
    said = refused(*other_tiny, program=evaluation)
    assert mistake in said
    assert remedy in said


def adapter(run: Path) -> Path:
    return run / "agents" / "1" / "adapter_model.safetensors"


def drop_half(run: Path) -> None:
    weights = load_file(adapter(run))
    save_file(dict(list(weights.items())[::2]), adapter(run))


def transposed(run: Path) -> None:
    save_file({k: v.T.contiguous() for k, v in load_file(adapter(run)).items()}, adapter(run))


def pickled(run: Path) -> None:
    torch.save(load_file(adapter(run)), adapter(run).with_suffix(".bin"))
    adapter(run).unlink()


def other_model_s(run: Path) -> None:
    weights = load_file(adapter(run))
    save_file({k.replace("layers", "blocks"): v for k, v in weights.items()}, adapter(run))


def cut_checkpoint(run: Path) -> None:
    shutil.rmtree(run / "agents")
    cut(run / "checkpoints" / "last.ckpt")


EVALUATED = [
    (
        "not finished",
        lambda r: [shutil.rmtree(r / name) for name in ("agents/1", "checkpoints")],
        "is not finished, and has no checkpoint",
        "--resume",
    ),
    ("checkpoint cut", cut_checkpoint, "last.ckpt is damaged", "bring back"),
    ("no JSON", text("args.json", "{"), "args.json is not a run's", "line 1"),
    ("no args", text("args.json", "{}"), "args.json is not a run's", "'args'"),
    ("adapter cut", lambda r: cut(adapter(r)), "cannot read agent 1", "run/agents/1"),
    ("adapter a pickle", pickled, "cannot read agent 1", "adapter_model.safetensors"),
    ("adapter half", drop_half, "of another model or another --lora-rank", "bring back"),
    ("adapter of other shapes", transposed, "of another model or another", "bring back"),
    ("adapter of another model", other_model_s, "of another model or another", "bring back"),
    ("another base", other_base, "is not what run was trained on", "bring that one back"),
    ("another rank", lambda r: edit_args(r, lora_rank=8), "of another model or another", "bring"),
]


@pytest.mark.parametrize(("name", "spoil", "mistake", "remedy"), EVALUATED, ids=ids(EVALUATED))
def test_evaluated_runs(name, spoil, mistake, remedy, run, refused):
    spoil(run)
    said = refused(*["--run", "run", "--limit", "1", "--method", "trained"], program=evaluation)
    assert mistake in said
    assert remedy in said


def test_a_spoilt_summary_is_named(run, refused):
    (run / "summary.json").write_text("{")
    assert "run is not a run: " in refused("--compare", "run", program=evaluation)


# --- the real command line ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("train.py --max-step 3", "train.py: error: unrecognized arguments: --max-step 3"),
        ("train.py --task mine.py:Task --run x", "train.py: error: reward 'mine.py:reward' has to"),
        ("eval.py --model model", "eval.py: error: cannot load the model 'model'"),
    ],
)
def test_the_command_line(command, said, model, tmp_path):
    """Nothing else is on stderr either: no warning of a library, no traceback of a thread."""
    (model / "model.safetensors").unlink()
    task = TASK.replace("FILE", "mine.py").replace(
        "def reward(item, responses)", "def reward(item)"
    )
    (tmp_path / "mine.py").write_text(task)
    before = files(tmp_path)
    script, *argv = command.split()
    started = [sys.executable, "-B", str(ROOT / script), *argv]
    done = subprocess.run(started, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert done.stderr.startswith(said)
    assert done.stderr.count("\n") == 1, done.stderr
    assert files(tmp_path) == before


def test_debug_shows_the_traceback(tmp_path, monkeypatch):
    """Of a mistake that is told in words, and of one that is not."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="unknown task"):
        train.main(["--task", "cop", "--debug"])
    with pytest.raises(ValueError, match="unknown task"):
        evaluation.main(["--task", "cop", "--debug"])
    (tmp_path / "mine.py").write_text("raise ZeroDivisionError")
    with pytest.raises(ValueError, match="cannot load") as raised:
        train.main(["--task", "mine.py:Task", "--debug"])
    assert isinstance(raised.value.__cause__, ZeroDivisionError)


def test_the_hub_without_a_network(tmp_path):
    """What takes datasets alone half a minute of tries; a name that no resolver knows."""
    environment = os.environ | {"HF_ENDPOINT": "http://nowhere.invalid", "HF_HOME": str(tmp_path)}
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, str(ROOT / "train.py"), "--task", "tldr", "--run", str(tmp_path / "run")],
        capture_output=True,
        text=True,
        timeout=60,
        env=environment,
    )
    assert time.perf_counter() - start < 20  # most of it imports, on a slow machine
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1, done.stderr
    assert "give a local copy with --data FILE" in done.stderr
    assert not (tmp_path / "run").exists()
