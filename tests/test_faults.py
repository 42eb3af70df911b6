"""Nothing that was computed is lost, whatever ends a run: python -m pytest tests/test_faults.py

Every test breaks a run, resumes it, and compares its end with that of a run that was left alone:
adapters, optimizer, metrics (no line missing, none twice) and samples, bit for bit. The longer
one, with 20 kills: python -m pytest -m slow tests/test_faults.py
"""

import asyncio
import functools
import itertools
import json
import multiprocessing
import os
import random
import shutil
import signal
import sys
import time

import pytest
import torch
from helpers import checkpoint_of, read_json, refused, resume, run_eval, started, train_run
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from test_train import assert_same_run, command

import train
from magrpo import MAGRPO
from training import recorder, run_folder, threads
from training.recorder import Recorder, Signals, Stopped
from training.run_folder import read_records
from training.terminal import fail

# Every step moves every weight.
SMALL = "--batch-size 1 --num-generations 2 --max-new-tokens 8 --advantage none --save-every 2 "
SMALL += "--sample-every 2 --eval-every 4 --eval-limit 1"
FOUR = f"{SMALL} --max-steps 4 --reward test_faults.lengths"
THIS = sys.modules[__name__]


def lengths(item, responses):
    return sum(map(len, responses)) % 7


lengths.maximum = 6.0


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return train_run(tmp_path_factory.mktemp("whole") / "run", FOUR)


# --- an error or a signal -------------------------------------------------------------------------


def error(*_):
    raise KeyError("broken")


def disk_full(checkpoint, file):
    file.write(b"half")
    raise RuntimeError("torch's error")


def send_signal(*_, number=signal.SIGTERM):
    if signal.getsignal(number) != signal.SIG_DFL:  # a second one would end this process
        os.kill(os.getpid(), number)
        time.sleep(1)


send_slurms = functools.partial(send_signal, number=signal.SIGUSR1)


def hang(*_):
    time.sleep(5)


ERROR = "KeyError: 'broken'"
LATE = "error: the reward did not answer within 2 s (the reward, for item {"
BROKEN = [  # owner, function, its first call that is broken, how, exit status, error, steps kept
    (Recorder, "evaluate", 2, error, 1, ERROR, 4),  # on dev, after the test problems
    (Recorder, "evaluate", 2, send_slurms, 130, "stopped by SIGUSR1", 4),
    (Recorder, "on_train_end", 1, error, 1, ERROR, 4),
    (Recorder, "shares", 4, error, 1, ERROR, 2),  # the task's scheme
    (MAGRPO, "set_gradients", 4, error, 1, ERROR, 3),  # no weight has moved
    (torch, "save", 3, disk_full, 2, "error: cannot save", 2),
    (THIS, "lengths", 19, error, 1, f"{ERROR}\n(the reward, for item {{", 3),
    (THIS, "lengths", 19, hang, 2, LATE, 3),
    (THIS, "lengths", 19, send_signal, 130, "stopped by SIGTERM", 3),
]


@pytest.mark.parametrize("owner, name, call, effect, status, said, kept", BROKEN)
def test_what_breaks_a_run_loses_no_step(
    owner, name, call, effect, status, said, kept, whole, tmp_path, monkeypatch, capsys
):
    """A step is kept whole or made again: a checkpoint holds no step without its metrics."""
    path = tmp_path / "run"
    path.mkdir()
    (path / "lock").touch()  # it was stopped before it wrote its flags, and begins anew
    function = getattr(owner, name)
    calls = itertools.count(1)

    @functools.wraps(function)
    def broken(*args):
        value = effect(*args) if next(calls) >= call else None
        return function(*args) if value is None else value

    with monkeypatch.context() as patched:
        patched.setattr(threads, "LIMIT", 2)
        patched.setattr(owner, name, broken)
        with pytest.raises(SystemExit) as ended:
            train_run(path, FOUR)
    assert ended.value.code == status
    printed = "".join(capsys.readouterr())
    for text in (said, f"Go on from step {kept} with:", f"train.py --resume {path}"):
        assert text in printed
    assert checkpoint_of(path)["global_step"] == kept
    assert not list(path.rglob("*.tmp"))
    resume(path)
    assert_same_run(path, whole)
    assert_same_end(path, whole)


def test_a_step_whose_evaluation_was_stopped_is_recorded_once(tmp_path, monkeypatch):
    """Also where the run that goes on ends before it saves by itself."""
    path = tmp_path / "run"
    evaluate = recorder.evaluate

    def stop(module, items, name):
        if name == "dev":
            send_slurms()
        return evaluate(module, items, name)

    for owner, name, broken in ((recorder, "evaluate", stop), (MAGRPO, "play", send_slurms)):
        with monkeypatch.context() as patched:
            patched.setattr(owner, name, broken)
            with pytest.raises(SystemExit):
                train_run(path, FOUR, "--max-steps 5 --logger tensorboard")
    resume(path)
    assert [row["step"] for row in read_records(path / "metrics.jsonl")] == [*range(5)]
    events = EventAccumulator(str(path))
    events.Reload()
    assert {event.step for event in events.Scalars("return")} == {*range(5)}


def test_a_step_of_the_optimizer_is_one_of_the_run(tmp_path, monkeypatch, capsys):
    """Otherwise half of the problems would not be met, and the run would end early."""
    update = MAGRPO.update
    monkeypatch.setattr(MAGRPO, "update", lambda module: update(module) or update(module))
    with pytest.raises(SystemExit):
        train_run(tmp_path / "run", SMALL)
    assert "a rollout took 2 steps" in capsys.readouterr().err


@pytest.mark.parametrize("effect, is_left", [(error, False), (send_signal, True)])
def test_a_run_that_saves_nothing_leaves_nothing(effect, is_left, tmp_path, monkeypatch, capsys):
    """A reward with a mistake takes no name. One that was stopped goes on."""
    broken = functools.wraps(lengths)(lambda *_: effect())
    monkeypatch.setattr(THIS, "lengths", broken)
    path = tmp_path / "run"
    with pytest.raises(SystemExit):
        train_run(path, FOUR)
    said = "".join(capsys.readouterr())
    assert ("Go on from step 0" in said) == is_left
    assert (f"{path} is removed" in said) != is_left
    assert path.exists() == is_left


def assert_same_end(path, other):
    one, two = (read_json(run / "summary.json") for run in (path, other))
    assert one["after"] == two["after"]


def test_a_run_that_is_not_finished_plays(whole, tmp_path, capsys):
    path = shutil.copytree(whole, tmp_path / "run")
    (path / "summary.json").unlink()
    run_eval(f"--run {path} --method trained --limit 1 --greedy")
    assert f"{path} is not finished: its last saved agents play" in capsys.readouterr().err


# --- processes that are killed or signalled -------------------------------------------------------


def start(path, steps):
    """A training in a process of its own, from where it was killed."""
    argv = f"{SMALL} --max-steps {steps} --run {path}"
    if path.exists():
        argv = f"--resume {path}"
    return started(command(argv))


def wait(process, condition):
    deadline = time.monotonic() + 900
    while not condition():
        assert process.poll() is None, "it ended by itself"
        assert time.monotonic() < deadline, "it hangs"
        time.sleep(0.0005)


def written(path):
    """Return the number of lines of metrics."""
    file = path / "metrics.jsonl"
    return file.read_text().count("\n") if file.exists() else 0


@pytest.mark.slow
def test_a_run_that_is_killed_20_times_ends_the_same(tmp_path):
    path = tmp_path / "killed"
    chance = random.Random(3)
    for _ in range(20):
        before = written(path)
        process = start(path, 200)
        wait(process, lambda before=before: written(path) > before)
        time.sleep(chance.uniform(0, 0.4))  # some of them save
        process.kill()
        process.communicate()
    resume(path)
    whole = train_run(tmp_path / "whole", SMALL, "--max-steps 200")
    assert_same_run(path, whole)
    assert_same_end(path, whole)
    assert not list(path.rglob("*.tmp"))


def interrupt_itself():
    """The first signal lets an update end, and the second does not."""
    signals = Signals()
    os.kill(os.getpid(), signal.SIGINT)  # as if in an update
    with pytest.raises(Stopped), signals.end_rollouts():
        os._exit(1)
    os.kill(os.getpid(), signal.SIGINT)
    os._exit(2)


def call_what_hangs():
    """A thread that is at work on a user's function does not keep its process."""
    threads.LIMIT = 1
    try:
        threads.in_threads("it", lambda *_: time.sleep(999), [({}, ["", ""])])
    except ValueError as late:
        fail(train.parser(), late)


def test_sys_exit_in_a_reward_is_said_at_once():
    with pytest.raises(ValueError, match=r"it called sys\.exit\(no key\)"):
        threads.in_threads("it", lambda *_: sys.exit("no key"), [({}, ["", ""])])


def test_whatever_ends_a_call_is_heard(monkeypatch):
    monkeypatch.setattr(threads, "LIMIT", 1)

    def cancelled(item, texts):
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        threads.in_threads("it", cancelled, [({}, ["", ""])])


@pytest.mark.parametrize(
    "function, status", [(interrupt_itself, -signal.SIGINT), (call_what_hangs, 2)]
)
def test_a_process_ends(function, status):
    process = multiprocessing.get_context("fork").Process(target=function)
    process.start()
    process.join(60)
    assert process.exitcode == status


# --- files ----------------------------------------------------------------------------------------


def test_a_text_s_own_line_ends_split_no_line(tmp_path):
    row = json.dumps({"step": 0, "responses": ["a\u2028b\x85"]}, ensure_ascii=False) + "\n"
    (tmp_path / "samples.jsonl").write_text(row + row[:9])
    assert run_folder.read_records(tmp_path / "samples.jsonl") == [json.loads(row)]


def test_a_training_holds_its_lock(tmp_path, monkeypatch, capsys):
    """From its beginning until its end, and no longer."""
    path = tmp_path / "run"

    def fit(*_):
        assert "another process is at work" in refused(capsys, "--resume", path)
        sys.exit("trained")

    monkeypatch.setattr(train, "fit", fit)
    with pytest.raises(SystemExit, match="trained"):
        train_run(path, SMALL)
    with run_folder.lock_run_folder(path):
        pass


def test_a_resumed_run_goes_on_with_its_run_of_wandb(tmp_path, monkeypatch):
    monkeypatch.setattr(recorder, "WandbLogger", lambda name, folder, number, **_: number)
    record = {"args": {"logger": "wandb"}, "date": "2026-11-28T00:00:00"}
    numbers = [recorder.make_logger(record, tmp_path, step) for step in (0, 3)]
    assert numbers[0] == numbers[1]
