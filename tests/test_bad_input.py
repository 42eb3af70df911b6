"""A user's mistake gets one line that names it, exit status 2, and nothing is written:
python -m pytest tests/test_bad_input.py

One case for each kind of mistake: what is done, and what its line has to name.
"""

import json
import os
import shutil
import sys
import time
from pathlib import Path

import helpers
import pytest
from helpers import (
    ROOT,
    SMALL,
    copied_model,
    edit_json,
    output_of,
    read_json,
    resume,
    started,
    train_run,
)
from safetensors.torch import load_file, save_file

import eval as evaluation
import train


def files(folder: Path) -> dict:
    return {path: path.is_file() and path.read_bytes() for path in sorted(folder.rglob("*"))}


@pytest.fixture
def refused(tmp_path, monkeypatch, capsys):
    """Runs a command line in tmp_path; returns the line that it is refused with."""
    monkeypatch.chdir(tmp_path)

    def refused(argv, program=train) -> str:
        before, start = files(tmp_path), time.process_time()
        said = helpers.refused(capsys, argv, program=program)
        assert time.process_time() - start < 10
        assert files(tmp_path) == before
        return said

    return refused


# --- flags ----------------------------------------------------------------------------------------

FLAGS = {
    "--max-step 3": "unrecognized arguments: --max-step 3",
    "--task humanevl": "unknown task 'humanevl'; known: ",
    "--task mine.py:Tusk": "mine.py has no task Tusk",
    "--task nowhere.py:Task": "cannot load the task 'nowhere.py:Task'",
    "--reward nowhere.reward": "No module named 'nowhere'",
    "--joint crossed": "--joint: 'crossed' is not: int in [1, inf], aligned, cross",
    "--top-p 1.5": "--top-p: '1.5' is not: float in [1e-06, 1]",
    "--lr nan": "--lr: 'nan' is not: float in [0, inf]",
    "--advantage maxrl": "--advantage: invalid choice: 'maxrl' (choose from 'mean', 'rloo',",
    "--model a b c": "--model names 3 for 2 agents",
    "@twice.args": "--model is given twice",
    "--freeze 2": "--freeze: the agents are 0 to 1",
    "--freeze 0 1": "one has to learn",
    "--init nowhere": "--init nowhere: there is no run and no agent",
    "--run=": "argument --run: the value is empty",
    "--reward=": "argument --reward: the value is empty",
    "--num-generations 1": "--num-generations 1 trains nothing",
    "--lora-rank 0 --bits 4": "--lora-rank 0 trains all weights: not with",
    "--lora-rank 0 --engine http://a": "--lora-rank 0 trains all weights: not with",
    "--precision bf16-mixed": "with adapters, give --bits 16",
    "--kl-coef 0.1 --top-p 0.5": "not with --top-p or --top-k",
    "--feedback tests": "--feedback is told between turns",
    "--turns 2 --feedback nope": "unknown --feedback 'nope'; task 'coop' has: plain, ",
    "--turns 2 --feedback expert": "needs --task-arg expert_url=URL expert_model=NAME",
    "--task-arg feedback_test=3": "unexpected keyword argument 'feedback_test'; it takes: data, ",
    "--task-arg feedback_tests": "'feedback_tests' is not NAME=VALUE",
    "--task mine.py:Task --data mine.py": "it takes no --data",
    "--model no/such-model": "no/such-model",
    "--chat-template": "the model has no chat template",
    "--max-prompt-tokens 8": "--max-prompt-tokens is 8",
    "--max-new-tokens 9000": "the model's context of 8192",
    "--run ./taken": "taken holds other files",
    "--resume nowhere": "there is no run (no nowhere/args.json)",
    "@missing.args": "missing.args",
    "--engine http://127.0.0.1:9": "the engine at http://127.0.0.1:9 cannot list its models: ",
    "--engine http://a http://b": "--engine: give one URL for each of 1 base(s)",
    "--device cuda": "--device cuda: torch finds none on this machine",
    "--share --freeze 0": "agents of a base are one policy",
    "--share --lr 1e-3 2e-3": "agents of a base are one policy",
    "--lr 1e-3 2e-3 3e-3": "--lr names 3 for 2 agents",
}


@pytest.mark.parametrize("argv", FLAGS)
def test_flags(argv, refused, tmp_path):
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken/file").write_text("")
    (tmp_path / "twice.args").write_text("--model a\n--model b")
    (tmp_path / "mine.py").write_text(TASK.replace("FILE", "mine.py"))
    assert FLAGS[argv] in refused(argv)


def test_a_link_to_nowhere_is_no_place_for_runs(refused, tmp_path):
    """As where a disk is not mounted."""
    (tmp_path / "runs").symlink_to("/nowhere/runs")
    assert "File exists: 'runs'" in refused("")


def test_processes_that_the_flags_do_not_name_are_not_two_runs(refused, monkeypatch):
    """torchrun --nproc-per-node 2 -- train.py, without --devices 2."""
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert "2 processes were started, and --devices times --num-nodes is 1" in refused("")


# --- the system -----------------------------------------------------------------------------------


@pytest.mark.parametrize("program", ["train.py", "eval.py"])
def test_windows(program):
    """There the standard library has neither of the two modules."""
    hide = (
        f"import runpy, sys; sys.modules.update(fcntl=None, resource=None); sys.argv = {[program]}"
    )
    start = f"{hide}; runpy.run_path({program!r}, run_name='__main__')"
    done = output_of([sys.executable, "-c", start], 2, cwd=ROOT)
    assert done.stderr == f"{program}: error: this needs Linux, macOS or, on Windows, WSL\n"


# --- data files -----------------------------------------------------------------------------------

ROW = {"prompt": 'def inc(x):\n    """Add one."""\n', "entry_point": "inc"}
ROW["test"] = "def check(candidate):\n    assert candidate(1) == 2\n"


def lines(number: int = 1, **changes) -> str:
    """Five rows, of which one is changed."""
    rows = [{"task_id": f"own/{n}", **ROW} for n in range(5)]
    rows[number - 1] |= changes
    return "".join(json.dumps(row) + "\n" for row in rows)


DATA = [  # name, content, what is named
    ("missing.csv", None, "cannot read missing.csv: No such file"),
    ("x.jsonl", lines()[:-20], "cannot read x.jsonl: row 5 is not one JSON object"),
    ("x.jsonl", lines(3, test=None), "x.jsonl, row 3: field 'test' is missing"),
    ("x.jsonl", lines(3, prompt="\ud800"), "x.jsonl, row 3: 'utf-8' codec can't encode"),
    ("x.jsonl", lines(5, prompt=ROW["prompt"].replace("Add", "Add " * 999)), "a prompt has"),
]


@pytest.mark.parametrize(("name", "content", "named"), DATA)
def test_data_files(name, content, named, refused, tmp_path):
    if content is not None:
        (tmp_path / name).write_text(content)
    assert named in refused(f"--task humaneval --data {name}")


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
PLUGINS = [  # what is replaced, by what, what is named
    ('reward = "FILE:reward"', "", "names no reward of its own"),
    ("FILE:reward", "policies.reward", "policies has no reward reward"),
    ('return [{"task_id": split}]', "return []", "has no items of train"),
    (
        ": return",
        ": return [] if split == 'dev' else",
        "has no items of dev",
    ),
    (
        'item["task_id"]',
        "None",
        "observe has to return a text or a list of chat messages, not None",
    ),
    ("reward.maximum = 1.0", "", "mine.py:reward' needs the attribute maximum, its"),
]


@pytest.mark.parametrize(("old", "new", "named"), PLUGINS)
def test_plugins(old, new, named, refused, tmp_path):
    assert old in TASK
    (tmp_path / "mine.py").write_text(TASK.replace(old, new, 1).replace("FILE", "mine.py"))
    assert named in refused("--task mine.py:Task --max-steps 1 --eval-every 1")


FAULTS = [  # what is replaced, by what, the last lines of the traceback
    ("class Task:", "class Task(:", ["    class Task(:", "SyntaxError: invalid syntax"]),
    ("[{", "int('x'), [{", ['mine.py", line 5, in items', "ValueError: invalid literal for int"]),
    ('item["task_id"]', 'item["x"]', ['mine.py", line 6, in observe', "KeyError: 'x'"]),
    ("return 0.0", "return item.x", ['mine.py", line 7, in reward', "AttributeError: 'dict'"]),
]


@pytest.mark.parametrize(("old", "new", "named"), FAULTS)
def test_an_error_in_a_users_file_is_pythons_traceback(
    old, new, named, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    text = TASK.replace(old, new).replace("FILE", "mine.py")
    Path("mine.py").write_text(text, encoding="utf-8")
    with pytest.raises(SystemExit) as stopped:
        train.main(["--task", "mine.py:Task", "--dry-run"])
    assert stopped.value.code == 1
    said = "\n".join(capsys.readouterr().err.splitlines()[-5:])
    assert all(text in said for text in named), said


# --- models ---------------------------------------------------------------------------------------


@pytest.fixture
def model(tmp_path) -> Path:
    return copied_model(tmp_path / "model")


def cut(path: Path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def no_eos(model: Path):
    edit_json(model / "tokenizer_config.json", eos_token=None)
    edit_json(model / "generation_config.json", eos_token_id=None)
    edit_json(model / "config.json", eos_token_id=None)


def no_norm(model: Path):
    weights = load_file(model / "model.safetensors")
    del weights["model.norm.weight"]
    save_file(weights, model / "model.safetensors", {"format": "pt"})


MODELS = [
    (no_norm, "lacks its weights model.norm.weight"),
    (lambda m: cut(m / "model.safetensors"), "it needs config.json, tokenizer and safetensors"),
    (no_eos, "no end-of-sequence token: set eos_token in its tokenizer"),
]


@pytest.mark.parametrize(("spoil", "named"), MODELS)
def test_models(spoil, named, model, refused):
    spoil(model)
    assert named in refused("--model model")


def test_an_argument_that_the_chat_template_does_not_read(model, refused):
    edit_json(model / "tokenizer_config.json", chat_template="{{ messages[0].content }}")
    said = refused("--model model --chat-template --template-arg enable_thinkin=false")
    assert "--template-arg enable_thinkin: the model's chat template does not read it" in said


# --- runs -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    """A finished run of two steps, on a model that can be changed."""
    folder = tmp_path_factory.mktemp("whole")
    model = copied_model(folder / "model")
    train_run(folder / "run", SMALL, "--max-steps 2 --model", model)
    return folder


@pytest.fixture
def run(whole, tmp_path) -> Path:
    """A copy of it, with a model of its own."""
    shutil.copytree(whole, tmp_path, dirs_exist_ok=True)
    path = tmp_path / "run/args.json"
    path.write_text(path.read_text().replace(str(whole), str(tmp_path)))
    return tmp_path / "run"


def other_base(run: Path):
    """The same config and shapes, other weights: loading it would go without a complaint."""
    path = run.parent / "model/model.safetensors"
    save_file({k: v * 1.01 for k, v in load_file(path).items()}, path, {"format": "pt"})


def text(name: str, content: str):
    return lambda run: (run / name).write_text(content)


RUNS = [
    (text("metrics.jsonl", '{"step": \n{}\n'), "metrics.jsonl, line 1: not one JSON object"),
    (other_base, "is not what run was trained on"),
    (lambda r: edit_json(r / "args.json", items={"train": ""}), "items of train are not those"),
    (lambda r: shutil.rmtree(r.parent / "model"), "is no folder"),
]


@pytest.mark.parametrize(("spoil", "named"), RUNS)
def test_resumed_runs(spoil, named, run, refused):
    spoil(run)
    assert named in refused("--resume run --max-steps 3")


def test_a_run_cannot_go_on_as_another(run, refused):
    assert "run has another --run (" in refused("--resume run --run other")


def test_a_run_cannot_go_back(run, refused):
    assert "run has 2 steps: --max-steps 1 is behind" in refused("--resume run --max-steps 1")


def test_dev_evaluations_in_the_metrics_are_no_steps(run):
    with (run / "metrics.jsonl").open("a") as file:
        file.writelines(json.dumps({"step": 1, "dev/return": 0.5}) + "\n" for _ in range(9))
    resume(run, "--max-steps 3")
    assert read_json(run / "summary.json")["steps"] == 3


# --- eval.py --------------------------------------------------------------------------------------

EVAL = {
    "--run nowhere": "there is no run (no nowhere/args.json)",
    "--run run --run run2": "--run is given twice",
    "--run run --method trainde": "--method trainde: what applies here is trained, naive",
    "--method trained": "what applies here is naive",
    "--json no/x": "argument --json: no/x: no file can be written there",
    "compare run --metric metric/pas": "metric/pas: no run has it",
    "compare run --by sed": "--by sed: no run has it",
    "compare run run2": "run2 has the seed of another run of its group",
    "--greedy --num-samples 2": "argument --num-samples: not allowed with argument --greedy",
    "list --limit 3": "unrecognized arguments: --limit",
    "--run run --task none.py:Task": "Task.items('test') has no problem to play",
    "doctor nowhere": "there is no run (no nowhere/args.json)",
    "ask { --task mine.py:Task": "ask: not one JSON object (Expecting property name",
    "--task coop --device cuda": "--device cuda: torch finds none on this machine",
}


@pytest.mark.parametrize("argv", EVAL)
def test_eval_flags(argv, run, refused, tmp_path):
    shutil.copytree(run, tmp_path / "run2")
    (tmp_path / "mine.py").write_text(TASK.replace("FILE", "mine.py"))
    none = TASK.replace('{"task_id": split}', "").replace("FILE", "none.py")
    (tmp_path / "none.py").write_text(none)
    assert EVAL[argv] in refused(argv, program=evaluation)


EVALUATED = [
    (lambda r: shutil.rmtree(r / "agents"), "cannot load agent 0"),
    (lambda r: cut(r / "agents/1/adapter_model.safetensors"), "cannot load agent 1"),
]


@pytest.mark.parametrize(("spoil", "named"), EVALUATED)
def test_evaluated_runs(spoil, named, run, refused):
    spoil(run)
    assert named in refused("--run run --limit 1 --method trained", program=evaluation)


# --- the real command line ------------------------------------------------------------------------


def test_the_command_line(model, tmp_path):
    """Nothing else is on stderr either: no warning of a library, no traceback of a thread."""
    (model / "model.safetensors").unlink()
    before = files(tmp_path)
    command = [sys.executable, "-B", ROOT / "train.py", "--model", "model"]
    done = output_of(command, 2, cwd=tmp_path, timeout=900)
    assert done.stderr.startswith("train.py: error: cannot load the model 'model'")
    assert done.stderr.count("\n") == 1, done.stderr
    assert files(tmp_path) == before


EXPERT = "--turns 2 --feedback expert --task-arg expert_url=http://h/v1 expert_model=m"


@pytest.mark.parametrize(("argv", "package"), [("--logger wandb", "wandb"), (EXPERT, "openai")])
def test_a_package_that_is_not_installed_is_named(argv, package, refused, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    assert f"pip install {package}" in refused(argv)


def test_a_reader_that_has_gone_costs_nothing(run):
    command = [sys.executable, ROOT / "eval.py", "compare", "run", "--out", "compare.png"]
    buffered = {**os.environ, "PYTHONUNBUFFERED": ""}  # so it is the exit that would fail
    with started(command, cwd=run.parent, env=buffered) as process:
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode == 0
    assert (run.parent / "compare.png").is_file()
