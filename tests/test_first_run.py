"""What a newcomer meets in the first ten minutes: python -m pytest tests/test_first_run.py

What is told and how soon, models of one's own, runs that were stopped or kept, what is drawn.
"""

import os
import shutil
import sys
from argparse import Namespace
from pathlib import Path

import pytest
from helpers import ROOT, edit_args, output_of, refused, table, words
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from test_train import PARTS

import eval as evaluation
import train
from tasks import DEFAULT

QUICK = {  # a request for help, and what is named wrongly, by program
    "train": [
        "--help",
        "--task nope",
        "--reward nope",
        "--run ./taken",
        "--resume nope",
        "--model nope",
        "--data nope.jsonl --task humaneval",
    ],
    "eval": ["--task nope", "--reward nope", "--run nope"],
}


@pytest.mark.parametrize("program", QUICK)
def test_help_and_a_wrong_name_cost_no_library(program, tmp_path):
    (tmp_path / "taken/agents").mkdir(parents=True)
    slow = ("torch", "lightning", "peft", "transformers", "matplotlib")
    code = (
        f"import sys, {program}\n"
        f"for argv in {QUICK[program]}:\n"
        f"    try: {program}.main(argv.split())\n"
        "    except SystemExit:\n"
        f"        print('ended', [m for m in {slow} if m in sys.modules])"
    )
    done = output_of([sys.executable, "-c", code], cwd=tmp_path, env={"PYTHONPATH": str(ROOT)})
    assert done.stdout.count("ended []") == len(QUICK[program]), done.stdout + done.stderr


LEFT = """
import signal
import train
signal.signal(signal.SIGINT, signal.SIG_IGN)
train.reset_process(train.parser())
print("caf\u00e9", signal.getsignal(signal.SIGINT))
"""


def test_what_a_parent_left_does_not_end_a_program():
    narrow = os.environ | {"PYTHONIOENCODING": "ascii"}
    done = output_of([sys.executable, "-c", LEFT], env=narrow)
    assert done.stdout == "caf\\xe9 0\n"


WATCH = """
import os, sys
class Watch:
    def find_spec(name, *_):
        if name == "torch":
            print(os.environ.get("GOMP_SPINCOUNT"), flush=True)
            os._exit(0)
sys.meta_path.insert(0, Watch)
"""


@pytest.mark.parametrize("entry", ["train", "eval"])
@pytest.mark.parametrize("given, count", [({}, "1000"), ({"OMP_WAIT_POLICY": "x"}, "None")])
def test_threads_spin_for_a_moment_or_as_the_user_says(entry, given, count):
    """Every entry says so before torch is imported."""
    code = f"{WATCH}import {entry}, torch"
    done = output_of([sys.executable, "-c", code], env={"PYTHONPATH": str(ROOT)} | given)
    assert done.stdout.split() == [count]


RATES = """
--model tiny --lora-rank 0         5e-4
--model tiny their/model           1e-4
--model their/model --lora-rank 0  1e-5
--model their/model --lr 0.5       0.5
--model ours                       7e-3
"""


@pytest.mark.parametrize("argv, rate", table(RATES))
def test_the_learning_rate_is_the_model_s(argv, rate, tmp_path, monkeypatch):
    """A folder of a model may say it."""
    Path("ours").mkdir()
    Path("ours/learning_rate.json").write_text('{"adapters": 7e-3, "full": 1e-3}', "utf-8")
    assert train.parse(argv.split()).lr == [float(rate)] * 2


def test_a_resumed_run_keeps_its_flags_and_must_know_them(trained, tmp_path, capsys):
    path = shutil.copytree(trained, tmp_path / "run")
    edit_args(path, lr=[7e-3] * 2, model=["their/model"] * 2)
    resumed = train.parse(words("--resume", path, "--max-prompt-tokens 4096"))
    assert (resumed.lr, resumed.joint) == ([7e-3] * 2, "cross")
    assert resumed.max_prompt_tokens == 4096  # prompts of later turns may outgrow the first limit
    edit_args(path, truncated="drop")
    said = refused(capsys, "--resume", path)
    assert "flags that are gone, truncated: the run's own commit has them" in said


def test_tensorboard_has_the_metrics(trained):
    """tests/test_security.py has the texts."""
    events = EventAccumulator(str(trained))
    events.Reload()
    assert {"return", "seconds/step", "memory_gib", *PARTS} <= set(events.Tags()["scalars"])
    assert len(events.Scalars("test/return")) == 2  # no zero beside them


def test_without_flags_the_newest_run_is_evaluated(trained, capsys):
    Path("runs/empty").mkdir(parents=True)
    for number, name in enumerate("bca"):
        shutil.copytree(trained, f"runs/{name}")
        os.utime(f"runs/{name}/agents/0", (number, number))
    Path("runs/a").rename("runs/d")
    shutil.copytree("runs/d", "runs/begun")
    shutil.rmtree("runs/begun/agents")
    assert evaluation.find_runs(Namespace(run=None, task=None, model=None)) == [Path("runs/d")]
    assert "the newest run: runs/d" in capsys.readouterr().err
    assert evaluation.find_runs(Namespace(run=None, task=DEFAULT, model=None)) == [None]
