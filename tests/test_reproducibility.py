"""One seed, one machine: the same run, bit for bit.

python -m pytest tests/test_reproducibility.py
"""

import shlex
import sys

from helpers import of_a_cpu, read_json, words
from test_train import assert_same_run

import train
from programs import teams
from programs.sandbox.box import Sandbox
from training import threads

FLAGS = "--batch-size 2 --num-generations 2 --eval-limit 1 --max-steps 2 --sample-every 1 "
FLAGS += "--seed 7 --lr 0.01 --turns 2 --branching chain --gamma 0.5 --kl-coef 0.1 --num-agents 3 "
FLAGS += "--joint 2 --normalize token --warmup-steps 1 --max-new-tokens 30"


@of_a_cpu
def test_a_run_can_be_made_again_by_the_command_in_its_args_json(tmp_path, monkeypatch):
    """With other numbers of threads that call the reward and of the sandbox's workers. Verdicts are
    not kept from one run to the next."""

    def train_with(count, workers, *flags):
        monkeypatch.setattr(threads, "THREADS", count)
        with Sandbox(workers=workers) as box:
            monkeypatch.setattr(teams, "box", box)
            train.main(words(*flags))
            assert 0 < len(box._workers) <= workers

    file = tmp_path / "x.args"
    file.write_text(f"{FLAGS}\n")
    one = tmp_path / "one"
    argv = f"train.py @{file} --max-new-tokens 12 --run {one}".split()
    monkeypatch.setattr(sys, "argv", argv)
    train_with(1, 1, *sys.argv[1:])
    record = read_json(one / "args.json")
    python, script, *again = shlex.split(*record["commands"])
    assert (python, script) == ("python", "train.py")
    two = tmp_path / "two"
    train_with(16, 3, *again, "--run", two)
    assert_same_run(one, two)
    remade = read_json(two / "args.json")
    assert record["args"] | {"run": str(two)} == remade["args"]
    assert remade["bases"] == record["bases"]
