"""Several processes on the CPU (gloo): python -m pytest tests/test_parallel.py

Each test starts the real command line, as Lightning, torchrun or SLURM would. Some only run with
-m slow.
"""

import os
import signal
import socket
from datetime import timedelta
from pathlib import Path

import psutil
import pytest
import torch
from helpers import (
    assert_same_gradients,
    checkpoint_of,
    output_of,
    read_json,
    refused,
    rounding,
    started,
    train_run,
    world,
)
from test_faults import wait, written
from test_sandbox import soon
from test_train import adapters, assert_same_run, command, lines

from policies import processes
from tasks import Coop

SMALL = "--num-generations 2 --max-new-tokens 24 --sample-every 1 --eval-limit none"
TWO = "--devices 2 --batch-size 2"
DEADLINE = 900  # seconds: far more than a busy machine takes


@pytest.fixture(autouse=True)
def one_thread(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


def start(*flags, **options):
    return started(command(SMALL, *flags), **options)


def end(process):
    _, errors = process.communicate(timeout=DEADLINE)
    return process.returncode, errors


def second(process):
    """Process id of the other training process (the sandbox's workers are children too)."""
    children = psutil.Process(process.pid).children()
    return next(child.pid for child in children if child.environ().get("LOCAL_RANK") == "1")


@pytest.fixture(scope="module")
def together(tmp_path_factory):
    """Four steps of two processes, never stopped."""
    path = tmp_path_factory.mktemp("parallel") / "two"
    assert end(start(TWO, "--max-steps 4 --run", path)) == (0, "")
    return path


ALL = "--freeze 1 --joint 2 --normalize token --kl-coef 0.1 --eval-limit 3"


def test_two_processes_make_the_update_of_one_with_twice_the_problems(tmp_path):
    """Also with a world that moves on, pay of one's own, some of the pairs, an agent that rests."""
    argv = f"{ALL} {world(tmp_path)} --max-steps 1"
    two = tmp_path / "two"
    assert end(start(TWO, argv, "--run", two)) == (0, "")  # no warning of a library either
    one = train_run(tmp_path / "one", SMALL, "--batch-size 4", argv)
    assert lines(two, "samples.jsonl") == lines(one, "samples.jsonl")
    [got], [want] = lines(two, "metrics.jsonl"), lines(one, "metrics.jsonl")
    for name in ("logp_difference/mean", "logp_difference/max"):  # rounding error and no more
        assert 0 <= got.pop(name) < rounding()
        assert 0 <= want.pop(name) < rounding()
    # KL is a difference of numbers about 1, so its error is one of 1 and not of its own size.
    near = {"rel": rounding(), "abs": rounding()}
    assert got == pytest.approx(want, **near)
    weights = [adapters(run) for run in (two, one)]
    names = [name for name in weights[0] if name.endswith("exp_avg")]  # a tenth of the gradient
    assert_same_gradients(*({name: run[name] for name in names} for run in weights))
    got, want = (read_json(run / "summary.json") for run in (two, one))
    assert got["before"] == pytest.approx(want["before"], **near)
    assert got["after"].keys() == want["after"].keys()


@pytest.mark.slow
@pytest.mark.parametrize(
    "to_first, number",
    [(False, signal.SIGTERM), (False, signal.SIGKILL), (True, signal.SIGKILL)],
)
def test_a_signal_to_one_process_ends_both_and_the_run_goes_on(
    to_first, number, together, tmp_path, capsys
):
    path = tmp_path / "half"
    process = start(TWO, "--max-steps 4 --save-every 1 --run", path)
    wait(process, lambda: written(path) > 0)
    other = second(process)
    os.kill(process.pid if to_first else other, number)
    code, errors = end(process)
    assert code == 130 if number == signal.SIGTERM else code not in (0, None)
    if number == signal.SIGKILL and not to_first:
        # Lightning meets too, where it saves: there the error is gloo's own.
        said = ("terminated with code -9", "another process of this run", "gloo")
        assert any(text in errors for text in said), errors
    assert soon(lambda: not os.path.exists(f"/proc/{other}"))
    assert len(lines(path, "metrics.jsonl")) < 4
    assert "has another --devices" in refused(capsys, "--resume", path, "--devices 1")
    output_of(command("--resume", path))
    assert_same_run(path, together)


FAILS = """
import os, time
from training import threads
threads.LIMIT = 3
calls = []
def reward(item, responses):
    calls.append(1)
    if os.environ.get("LOCAL_RANK") == "1" and len(calls) > 20:
        BAD
    return float(len(responses[0]) % 3)
reward.maximum = 2.0
"""


ALIKE = """
from magrpo import MAGRPO
update = MAGRPO.update
MAGRPO.update = lambda self: update(self) if self.global_step < 3 else {}["alike"]
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "bad, said",
    [
        ("raise ValueError('not this')", "line 9, in reward"),
        ("time.sleep(9999)", "did not answer within"),
        ("pass", "KeyError: 'alike'"),  # in both, at one step
    ],
)
def test_a_reward_that_fails_in_one_process_ends_both_and_loses_no_step(bad, said, tmp_path):
    path = tmp_path / "run"
    plugin = tmp_path / "mine.py"
    plugin.write_text(FAILS.replace("BAD", bad) + ALIKE * (bad == "pass"))
    argv = f"--max-steps 50 --save-every 100 --reward {plugin}:reward --run {path}"
    code, errors = end(start(TWO, argv))
    assert code in (1, 2)
    assert errors.count(said) == 1
    state = checkpoint_of(path)
    assert 0 < len(lines(path, "metrics.jsonl")) == state["global_step"] < 50


SLURM = """
SLURM_NTASKS=2 SLURM_JOB_ID=7 SLURM_JOB_NAME=train SLURM_NTASKS_PER_NODE=1 SLURM_NNODES=2
SLURM_LOCALID=0 SLURM_STEP_ID=0 SLURM_NODELIST=127.0.0.1 MASTER_ADDR=127.0.0.1
"""


@pytest.mark.slow
def test_two_nodes_of_slurm_start_the_same_run(together, tmp_path):
    path = tmp_path / "run"
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    shared = dict(word.split("=") for word in SLURM.split()) | {"MASTER_PORT": port}
    argv = f"--devices 1 --num-nodes 2 --batch-size 2 --max-steps 4 --run {path}"
    nodes = [
        start(argv, env={**os.environ, **shared, "SLURM_PROCID": node, "SLURM_NODEID": node})
        for node in ("0", "1")
    ]
    assert [end(node)[0] for node in nodes] == [0, 0]
    assert_same_run(path, together)


def two_processes(function, *options):
    """Run function(rank, *options) in two processes that have met."""
    fork = torch.multiprocessing.start_processes  # which imports nothing anew
    fork(met, (Path("meet").resolve(), function, options), nprocs=2, start_method="fork")


def met(rank, file, function, options):
    meet = f"file://{file}"
    torch.distributed.init_process_group("gloo", init_method=meet, rank=rank, world_size=2)
    function(rank, *options)


def sum_of_two(rank):
    parameters = [torch.nn.Parameter(torch.zeros(2)) for _ in range(3)]
    both, one, none = parameters
    both.grad = torch.ones(2)
    if rank:
        one.grad = torch.full((2,), 5.0)
    processes.sum_gradients(parameters)
    assert (both.grad.tolist(), one.grad.tolist(), none.grad) == ([2, 2], [5, 5], None)


def test_gradients_are_none_only_where_no_process_has_one():
    """A step without signal must not let Adam's momentum move an agent, however it is split."""
    two_processes(sum_of_two)


def come(rank, together):
    assert processes.all_come()
    if together or rank:
        processes.PATIENCE = timedelta(seconds=60 if together else 0.1)
        assert processes.all_come() == together


@pytest.mark.parametrize("together", [True, False])
def test_processes_find_out_whether_all_of_them_fail(together):
    two_processes(come, together)


@pytest.mark.parametrize("number", range(4))
def test_processes_that_differ_do_not_train(number, tmp_path, capsys, monkeypatch):
    """In flags, problems or weights. The first of two runs is the other process of the second."""
    alike = []

    def gather(own):
        if not isinstance(own, tuple):  # of a step
            return [own]
        alike.append(own[2])
        return [own, (None, None, alike[0])]

    monkeypatch.setattr(processes, "gather", gather)
    flags = [SMALL, "--batch-size 1 --max-steps 1 --eval-limit none"]
    path = tmp_path / "run"
    train_run(path, *flags)
    path.rename("first")  # --run is a flag
    if number == 0:
        train_run(path, *flags)
        return
    if number == 1:
        flags.append("--lr 0.5")
    if number == 2:
        items = Coop.items
        monkeypatch.setattr(Coop, "items", lambda self, split: items(self, split)[1:])
    if number == 3:
        seed = torch.manual_seed
        monkeypatch.setattr(torch, "manual_seed", lambda number: seed(number + 1))
    said = refused(capsys, *flags, f"--run {path}")
    assert "the processes of this run differ in flags, problems or weights" in said
    assert not (path / "metrics.jsonl").exists()


@pytest.mark.parametrize("tasks", ["1", "4"])
def test_a_job_without_srun_is_one_process_and_goes_on_from_no_file_of_lightning(
    tasks, tmp_path, monkeypatch
):
    for name, value in {"NTASKS": tasks, "JOB_ID": "7", "PROCID": "0", "LOCALID": "0"}.items():
        monkeypatch.setenv(f"SLURM_{name}", value)
    Path("hpc_ckpt_1.ckpt").write_text("another run's", "utf-8")
    path = train_run(tmp_path / "run", SMALL, "--batch-size 1 --max-steps 1")
    assert len(lines(path, "metrics.jsonl")) == 1
