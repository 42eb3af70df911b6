"""A user's mistake gets one line that names it, exit status 2, and nothing is written:
python -m pytest tests/test_bad_input.py

One case for each kind of mistake: what is done, and what its line has to name.
"""

import json
import os
import shutil
import sys
import time

import helpers
import pytest
from helpers import (
    ROOT,
    SMALL,
    copied_model,
    edit_args,
    edit_json,
    output_of,
    started,
    table,
    train_run,
)
from safetensors.torch import load_file, save_file

import eval as evaluation
import train

TASK = """
class Task:
    reward = __file__ + ":reward"
    def __init__(self, data=None, num_agents=2): pass
    def items(self, split): return [{"task_id": split}]
    def observe(self, agent, item, history): return item["task_id"]
def reward(item, responses): return 0.0
reward.maximum = 1.0
"""
NO_ITEMS = TASK.replace('{"task_id": split}', "")


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A finished run of two steps, on a model that can be changed."""
    folder = tmp_path_factory.mktemp("whole")
    model = copied_model(folder / "model")
    train_run(folder / "run", SMALL, "--max-steps 2 --model", model)
    shutil.copytree(folder / "run", folder / "run2")
    files = {
        "taken/file": "",
        "adapter/adapter_config.json": "",
        "quote.args": "--task-arg text=don't",
        "self.args": "@self.args",
        "mine.py": TASK,
        "none.py": NO_ITEMS,
    }
    for name, text in files.items():
        file = folder / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
    (folder / "wide.args").write_text("--seed 1", "utf-16")
    return folder


@pytest.fixture
def place(whole, tmp_path):
    """Return the working folder, which holds a run, its model, and other files."""
    shutil.copytree(whole, tmp_path, dirs_exist_ok=True)
    for path in tmp_path.glob("*/args.json"):
        path.write_text(path.read_text().replace(str(whole), str(tmp_path)))
    return tmp_path


def files(folder):
    return {path: path.is_file() and path.read_bytes() for path in sorted(folder.rglob("*"))}


@pytest.fixture
def refused(place, capsys):
    """Runs a command line; returns the line that it is refused with."""

    def refused(command):
        program, _, argv = command.partition(" ")
        before = files(place)
        start = time.process_time()
        said = helpers.refused(capsys, argv, program={"train": train, "eval": evaluation}[program])
        assert time.process_time() - start < 10
        assert files(place) == before
        return said

    return refused


# A command, and what its one line has to name
COMMANDS = """
train --max-step 3                              unrecognized arguments: --max-step 3
train --temperature 0                           trains nothing
train --task humanevl                           unknown task 'humanevl' (No module named
train --task mine.py:Tusk                       mine.py has no task 'Tusk'
train --task mine.py                            /mine.py:Name
train --task mine.py:reward                     mine.py has no task 'reward'
train --task nowhere.py:Task                    unknown task 'nowhere.py:Task'
train --reward nowhere.reward                   No module named 'nowhere'
train --joint crossed                           'crossed' is not: int in [1, inf], aligned, cross
train --top-p 1.5                               --top-p: '1.5' is not: float in [1e-06, 1]
train --lr nan                                  --lr: 'nan' is not: float in [0, inf]
train --advantage maxrl                         invalid choice: 'maxrl' (choose from 'mean',
train --model a b c                             --model names 3 for 2 agents
train --seed 18446744073709551616               --seed: '18446744073709551616' is not: int in
train @wide.args                                @FILE: 'utf-8' codec can't decode byte 0xff
train @self.args                                @FILE: maximum recursion depth exceeded
train @quote.args                               --task-arg text=don't: No closing quotation
train --freeze 2                                --freeze: the agents are 0 to 1
train --freeze 0 1                              one has to learn
train --init nowhere                            --init nowhere: there is no run and no agent
train --run=                                    --run=: the value is empty
train --eval-every 1 --eval-limit none          --eval-every evaluates --eval-limit problems
train --num-generations 1                       --num-generations 1 trains nothing
train --lora-rank 0 --bits 4                    --lora-rank 0 trains all weights: not with
train --lora-rank 0 --engine http://a           --lora-rank 0 trains all weights: not with
train --precision bf16-mixed                    with adapters, give --bits 16
train --kl-coef 0.1 --top-p 0.5                 not with --top-p or --top-k
train --feedback tests                          --feedback is told between turns
train --turns 2 --feedback nope                 task 'coop': unknown --feedback 'nope': plain or
train --task-arg feedback_test=3                unexpected keyword argument 'feedback_test'
train --task-arg feedback_tests                 'feedback_tests' is not NAME=VALUE
train --task-arg feedback_tests=3               --task-arg feedback_tests goes with --feedback
train --turns 2 --feedback tests --task-arg feedback_tests=-1  feedback_tests=-1: a number of
train --turns 2 --feedback tests --task-arg feedback_tests=1.5  feedback_tests=1.5 has to be of type
train --task examples.directory.Directory --task-arg wording=3  wording=3 has to be of type str
train --task ../mine                            unknown task '../mine' (a path with dots begins
train --task examples.workflows.Router --num-agents 3 --reward code  takes no reward such as
train --init adapter                            config.json is not JSON that names the base
train --task mine.py:Task --task-arg word=3     'word'; it takes (data=None, num_agents=2)
train --task-arg num_agents=3                   multiple values for keyword argument 'num_agents'
train --task mine.py:Task --data mine.py        it takes no --data
train --model no/such-model                     model 'no/such-model' is no folder
train --model adapter                           python examples/whole.py adapter FOLDER
train --model some.gguf                         python examples/whole.py some.gguf FOLDER
train --task examples.pro.HumanEvalPro          has test problems only: train on MBPPPro
train --chat-template                           the model has no chat template
train --max-prompt-tokens 8                     --max-prompt-tokens is 8
train --max-new-tokens 9000                     the model's context of 8192
train --run ./taken                             taken holds other files
train --resume nowhere                          there is no run (no nowhere/args.json)
train @missing.args                             missing.args
train --engine http://127.0.0.1:9               the engine at http://127.0.0.1:9 cannot list
train --engine http://a http://b                --engine: give one URL for each of 1 base(s)
train --device cuda                             --device cuda: torch finds none on this machine
train --share --freeze 0                        agents of a base are one policy
train --share --lr 1e-3 2e-3                    agents of a base are one policy
train --lr 1e-3 2e-3 3e-3                       --lr names 3 for 2 agents
train --init run --lora-rank 8                  the team has {'r': 8, 'lora_alpha': 32,
train --init run --lora-rank 0                  the team has {'r': 0, 'lora_alpha': 32,
train --init run --share                        there is one policy
train --init model                              is a whole model: --lora-rank 0
train --resume run --max-steps 1                run has 2 steps: --max-steps 1 is behind
train --resume run --run other                  run has another --run (
train --resume run --dry-run                    run has another --dry-run (
train --task humaneval --data missing.csv       missing.csv: No such file
train --task tldr --num-agents 3                is for 2 agents, not 3
eval --run nowhere                              there is no run (no nowhere/args.json)
eval --run run --method trainde                 trainde: what applies here is trained, naive
eval --run run --single-model no/such-model     model 'no/such-model' is no folder
eval --method naive --single-model tiny         --single-model is of the method single
eval --method trained                           what applies here is naive
eval --json no/x                                --json: no/x: no file can be written there
eval compare run --metric metric/pas            metric/pas: no run has it
eval compare run --metric step                  --metric step is of each step
eval compare nothing run                        nothing: there is no run
eval page taken                                 no run in taken
eval compare run --by sed                       --by sed: no run has it
eval compare run run2                           run2 has the seed of another run of its group
eval --greedy --num-samples 2                   --num-samples: not allowed with argument --greedy
eval compare run --out x.foo                    --out Format 'foo' is not supported
eval list --limit 3                             unrecognized arguments: --limit
eval --run run --task none.py:Task              Task.items('test') has no problem to play
eval doctor nowhere                             there is no run (no nowhere/args.json)
eval ask { --task mine.py:Task                  ask: not one JSON object (Expecting property
eval ask {} --task coop                         ask: the item needs 'prompt', a str
eval ask {"task_id":1} --task mine.py:Task      ask: the item needs 'task_id', such as 'test'
eval --task coop --device cuda                  --device cuda: torch finds none on this machine
"""


@pytest.mark.parametrize("command, named", table(COMMANDS))
def test_a_command_that_cannot_be_right(command, named, refused):
    assert named in refused(command)


# --- what is spoiled ------------------------------------------------------------------------------

ROW = {"prompt": 'def inc(x):\n    """Add one."""\n', "entry_point": "inc"}
ROW["test"] = "def check(candidate):\n    assert candidate(1) == 2\n"
LONG = ROW["prompt"].replace("Add", "Add " * 999)


def rows(number=1, cut_off=0, **changes):
    """Write five rows, of which one is changed."""

    def spoil(place):
        rows = [{"task_id": f"own/{n}", **ROW} for n in range(5)]
        rows[number - 1] |= changes
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (place / "x.jsonl").write_text(text[: len(text) - cut_off])

    return spoil


def task(old, new):
    assert old in TASK
    return text("mine.py", TASK.replace(old, new, 1))


def text(name, content):
    return lambda place: (place / name).write_text(content)


def removed(name):
    return lambda place: shutil.rmtree(place / name)


def cut(name):
    def spoil(place):
        content = (place / name).read_bytes()
        (place / name).write_bytes(content[: len(content) // 2])

    return spoil


def template(text):
    return lambda place: edit_json(place / "model/tokenizer_config.json", chat_template=text)


def no_eos(place):
    edit_json(place / "model/tokenizer_config.json", eos_token=None)
    edit_json(place / "model/generation_config.json", eos_token_id=None)
    edit_json(place / "model/config.json", eos_token_id=None)


def scaled(place):
    edit_json(place / "run/agents/0/adapter_config.json", use_rslora=True, alpha_pattern={"q": 8})


def pissa(place):
    edit_json(place / "run/agents/0/adapter_config.json", init_lora_weights="pissa_niter_16")


def weights(change):
    """Change the model's weights, which have the same shapes."""

    def spoil(place):
        path = place / "model/model.safetensors"
        save_file(change(load_file(path)), path, {"format": "pt"})

    return spoil


def without_norm(weights):
    del weights["model.norm.weight"]
    return weights


OTHER = weights(lambda weights: {name: 1.01 * value for name, value in weights.items()})
DATA = "train --task humaneval --data x.jsonl"
MINE = "train --task mine.py:Task --max-steps 1 --eval-every 1"
MODEL = "train --model model"
CHAT = f"{MODEL} --chat-template"
RESUME = "train --resume run --max-steps 3"
PLAY = "eval --run run --limit 1 --method trained"
ITEMS = 'return [{"task_id": split}]'
SPOILED = [  # what is done, the command, what is named
    (rows(cut_off=20), DATA, "x.jsonl: row 5 is not one JSON object"),
    (rows(3, test=None), DATA, "x.jsonl, row 3: field 'test' is missing"),
    (text("x.csv", "a,b,a\n\n1,2,3\n"), f"{DATA[:-5]}csv", "x.csv: two fields of the header"),
    (rows(3, prompt="\ud800"), DATA, "x.jsonl, row 3: 'utf-8' codec can't encode"),
    (rows(5, prompt=LONG), DATA, "a prompt has"),
    (
        text("x.jsonl", '{"prompt": "x"}\n{"text": "x"}\n' * 2),
        "train --task tldr --data x.jsonl",
        "row 2: task tldr needs a text in the field 'prompt'",
    ),
    (task('__file__ + ":reward"', "None"), MINE, "reward None has to name a function with"),
    (
        task('reward = __file__ + ":reward"', "reward, maximum = None, 1.0"),
        f"{MINE} --dry-run",
        "pays by itself, and here are texts to score: give its class a reward",
    ),
    (task("pass", "self.num_agents = 3"), MINE, "the task is for 3 agents, the team has 2"),
    (task("__file__ + ", '"policies" + '), MINE, "policies has no reward 'reward'"),
    (task(ITEMS, f"{ITEMS} * (split != 'dev')"), MINE, "has no items of dev"),
    (
        task("class Task:", "class Task:\n    play = lambda *_: 0\n"),
        MINE,
        "play has to be a generator: it does not yield (item {'task",
    ),
    (
        task("class Task:", "class Task:\n    begin = print\n"),
        MINE,
        "begin() gave None, not a text",
    ),
    (task('item["task_id"]', "None"), MINE, "content is text, not None (item {'task"),
    (task("reward.maximum = 1.0", ""), MINE, "mine.py:reward' has to name a function with"),
    (weights(without_norm), MODEL, "lacks its weights model.norm.weight"),
    (weights(without_norm), "train --init model --lora-rank 0", "weights model.norm.weight"),
    (cut("model/model.safetensors"), MODEL, "it needs config.json, tokenizer and safetensors"),
    (no_eos, MODEL, "no end-of-sequence token: set eos_token in its tokenizer"),
    (template("{{ messages[0].content }}"), f"{CHAT} --template-arg think=1", "does not read it"),
    (OTHER, f"{MODEL} --init run", "the model model is not what"),
    (text("run/agents/1/adapter_config.json", "[]"), "train --init run", "is not JSON that names"),
    (template("{{ no_think }}"), f"{CHAT} --template-arg think=1", "does not read it"),
    (pissa, "train --init run", "may have changed its base (init_lora_weights)"),
    (scaled, "train --init run", "'use_rslora': True, 'alpha_pattern': {'q': 8}}"),
    (text("run/metrics.jsonl", '{"step": \n{}\n'), RESUME, "metrics.jsonl is damaged"),
    (OTHER, RESUME, "is not what run was trained on"),
    (
        lambda place: edit_json(place / "run/args.json", items={"train": ""}),
        RESUME,
        "items of train are not",
    ),
    (cut("run/args.json"), RESUME, "run/args.json is damaged (JSONDecodeError("),
    (removed("model"), RESUME, "is no folder"),
    (lambda place: edit_args(place / "run2", top_k=5), "eval --run run run2", "--top-k"),
    (
        lambda place: edit_json(place / "run2/args.json", items={"test": ""}),
        "eval --run run run2",
        "items of test are not",
    ),
    (
        lambda place: edit_args(place / "run", share=True),
        "eval --run run --method only-0",
        "what applies here is trained",
    ),
    (removed("run/agents"), PLAY, "run has no agents: a run saves them before its first step"),
    (removed("run/agents/0"), PLAY, "cannot load agent 0"),
    (cut("run/agents/1/adapter_model.safetensors"), PLAY, "cannot load agent 1"),
    # as where a disk is not mounted
    (lambda place: (place / "runs").symlink_to("/nowhere/runs"), "train", "File exists: 'runs'"),
]


@pytest.mark.parametrize("spoil, command, named", SPOILED)
def test_what_is_spoiled(spoil, command, named, place, refused):
    spoil(place)
    assert named in refused(command)


FAULTS = [  # what is replaced, by what, the last lines of the traceback
    ("class Task:", "class Task(:", ["    class Task(:", "SyntaxError: invalid syntax"]),
    ("[{", "open('nowhere'), [{", ['mine.py", line 5, in items', "FileNotFoundError: [Errno 2]"]),
    (
        'item["task_id"]',
        'item["x"]',
        ['mine.py", line 6, in observe', "KeyError: 'x'", "(item {'task_id'"],
    ),
    ("return 0.0", "return item.x", ['mine.py", line 7, in reward', "AttributeError: 'dict'"]),
]


def traceback(capsys, *flags):
    """Return what a dry run prints that ends with a fault, and its traceback."""
    with pytest.raises(SystemExit) as stopped:
        train.main(["--dry-run", *flags])
    assert stopped.value.code == 1
    return capsys.readouterr()


@pytest.mark.parametrize("old, new, named", FAULTS)
def test_an_error_in_a_users_file_is_pythons_traceback(old, new, named, place, capsys):
    task(old, new)(place)
    out, err = traceback(capsys, "--task", "mine.py:Task")
    assert ("stand in train, too: 2 (dev, test)" in out) == ("reward" in named[0])  # it was loaded
    said = "\n".join(err.splitlines()[-5:])
    assert all(text in said for text in named), said


def test_a_fault_of_this_code_is_pythons_traceback(capsys, monkeypatch):
    """Python raises a ValueError here, as a check of ours does."""
    monkeypatch.setattr(train, "prepare", lambda args: ())
    _, said = traceback(capsys)
    assert 'train.py", line' in said
    assert "task, reward, splits = prepared" in said


# --- the system -----------------------------------------------------------------------------------


def test_processes_that_the_flags_do_not_name_are_not_two_runs(refused, monkeypatch):
    """torchrun --nproc-per-node 2 -- train.py, without --devices 2."""
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert "2 processes were started, and --devices times --num-nodes is 1" in refused("train")


@pytest.mark.parametrize("program", ["train", "eval"])
def test_windows(program):
    """There the standard library has neither these modules nor this signal."""
    code = "import signal, sys; sys.modules.update(fcntl=None, resource=None)\n"
    code += f"del signal.SIGKILL\nimport {program}\n"
    code += f"sys.platform = 'win32'; {program}.reset_process({program}.parser())"
    done = output_of([sys.executable, "-c", code], 2, cwd=ROOT)
    assert done.stderr == f"{program}.py: error: this needs Linux, macOS or, on Windows, WSL\n"


def test_a_package_that_is_not_installed_is_named(refused, monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", None)
    assert "wandb" in refused("train --logger wandb")


def test_a_reader_that_has_gone_costs_nothing(place):
    command = [sys.executable, ROOT / "eval.py", "compare", "run", "--csv", "runs.csv"]
    buffered = {**os.environ, "PYTHONUNBUFFERED": ""}  # so it is the exit that would fail
    with started(command, cwd=place, env=buffered) as process:
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode == 0
    assert (place / "runs.csv").is_file()
