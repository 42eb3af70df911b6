"""One seed, one machine: the same run, bit for bit.

python -m pytest tests/test_reproducibility.py
"""

import shlex
import sys

from helpers import of_a_cpu, read_json, train_run
from test_train import assert_same_run

import train
from programs import teams
from programs.sandbox.box import Sandbox
from training import reward_runner

SMALL = "--batch-size 2 --num-generations 2 --eval-limit 1 --max-steps 2 --max-new-tokens 40 "
SMALL += "--sample-every 1"


@of_a_cpu
def test_the_number_of_reward_workers_changes_nothing(tmp_path, monkeypatch):
    """Neither the threads that call the reward nor the sandbox's workers; verdicts are not kept
    from one run to the next."""
    for count, workers in ((1, 1), (16, 3)):
        monkeypatch.setattr(reward_runner, "THREADS", count)
        with Sandbox(workers=workers) as box:
            monkeypatch.setattr(teams, "box", box)
            flags = "--turns 2 --joint aligned --max-steps 1"
            train_run(tmp_path / str(count), SMALL, flags)
            assert 0 < len(box._workers) <= workers
    assert_same_run(tmp_path / "1", tmp_path / "16")


FLAGS = "--seed 7 --lr 0.01 --turns 2 --branching chain --gamma 0.5 --kl-coef 0.1 --num-agents 3 "
FLAGS += "--joint 2 --normalize token --warmup-steps 1"


@of_a_cpu
def test_a_run_can_be_made_again_by_the_command_in_its_args_json(tmp_path, monkeypatch):
    file = tmp_path / "x.args"
    file.write_text(f"{FLAGS}\n")
    argv = f"train.py {SMALL} @{file} --max-new-tokens 12 --run {tmp_path}/one"
    monkeypatch.setattr(sys, "argv", argv.split())
    train.main(sys.argv[1:])
    record = read_json(tmp_path / "one/args.json")
    python, script, *again = shlex.split(*record["commands"])
    assert (python, script) == ("python", "train.py")
    train_run(tmp_path / "two", *again)
    assert_same_run(tmp_path / "one", tmp_path / "two")
    two = read_json(tmp_path / "two/args.json")
    assert record["args"] | {"run": two["args"]["run"]} == two["args"]
    assert two["bases"] == record["bases"]
    assert all(record["bases"].values())
