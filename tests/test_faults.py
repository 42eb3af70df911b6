"""Nothing that was computed is lost, whatever ends a run: python -m pytest tests/test_faults.py

Every test breaks a run, resumes it, and compares its end with that of a run that was left alone:
adapters, optimizer, metrics (no line missing, none twice) and samples, bit for bit. The longer
ones, with 20 kills: python -m pytest -m slow tests/test_faults.py
"""

import contextlib
import json
import multiprocessing
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from helpers import (
    checkpoint_of,
    output_of,
    read_json,
    refused,
    resume,
    run_eval,
    started,
    train_run,
    words,
)
from test_train import assert_same_run, command, lines

import train
from magrpo import MAGRPO
from training import recorder, reward_runner, run_folder
from training.recorder import Recorder, Signals, Stopped

SMALL = "--batch-size 1 --num-generations 2 --max-new-tokens 8 --lr-schedule constant --optimism 0 "
SMALL += "--save-every 3 --sample-every 2 --eval-every 4 --eval-limit 1"
REWARD = """
import os, threading, time
import rewards
lock, calls, here = threading.Lock(), [], os.path.dirname(os.path.abspath(__file__))
def reward(item, responses):
    with lock:
        calls.append(1)
        number = len(calls)
    if number > 16 and os.path.exists(os.path.join(here, "bad")):
        BAD
    return sum(map(len, responses)) % 7
reward.maximum = 6.0
"""


def in_this_process(path: Path, steps: int, *flags) -> Path:
    return train_run(path, SMALL, f"--max-steps {steps}", *flags)


def test_a_text_s_own_line_ends_split_no_line(tmp_path):
    row = json.dumps({"step": 0, "responses": ["a\u2028b\x85"]}, ensure_ascii=False) + "\n"
    (tmp_path / "samples.jsonl").write_text(row + row[:9])
    assert run_folder.read_records(tmp_path / "samples.jsonl") == [json.loads(row)]


@pytest.fixture(scope="module")
def two(tmp_path_factory) -> Path:
    """A run of two steps."""
    return in_this_process(tmp_path_factory.mktemp("two") / "run", 2)


@pytest.fixture(scope="module")
def six(two) -> Path:
    """The same run, after six."""
    path = two.parent / "six"
    shutil.copytree(two, path)
    resume(path, "--max-steps 6")
    return path


# --- kill -9 --------------------------------------------------------------------------------------


def start(path: Path, steps: int) -> subprocess.Popen:
    """A training in a process of its own, from where it was killed."""
    argv = f"{SMALL} --max-steps {steps} --run {path}"
    if (path / "args.json").exists():
        argv = f"--resume {path}"
    elif path.exists():
        shutil.rmtree(path)  # it was killed between its folder and its args.json
    return started(command(argv))


def wait(process: subprocess.Popen, condition):
    deadline = time.monotonic() + 900
    while not condition():
        assert process.poll() is None, "it ended by itself"
        assert time.monotonic() < deadline, "it hangs"
        time.sleep(0.0005)


def written(path: Path) -> int:
    """Return the number of lines of metrics."""
    file = path / "metrics.jsonl"
    return file.read_text().count("\n") if file.exists() else 0


def moments(path: Path, process: subprocess.Popen) -> dict:
    """How to see a moment of a process's life; its handlers are there when SIGTERM has one."""

    def handles_signals() -> bool:
        status = Path(f"/proc/{process.pid}/status").read_text(encoding="utf-8")
        caught = int(status.split("SigCgt:")[1].split()[0], 16)
        return bool(caught >> (signal.SIGTERM - 1) & 1)

    before = written(path)
    return {
        "start": handles_signals,
        "saving": (path / "checkpoints/last.ckpt.tmp").exists,
        "training": lambda: written(path) > before,
    }


@pytest.mark.slow
def test_a_run_that_is_killed_20_times_ends_the_same(tmp_path):
    path = tmp_path / "killed"
    chance = random.Random(3)
    longest = {"saving": 0, "start": 2, "training": 0.4}  # seconds until the kill
    order = ["saving"] * 6 + ["start"] * 4 + ["training"] * 10
    chance.shuffle(order)
    for moment in order:
        process = start(path, 200)
        wait(process, moments(path, process)[moment])
        time.sleep(chance.uniform(0, longest[moment]))
        process.kill()
        process.communicate()
    resume(path)
    whole = in_this_process(tmp_path / "whole", 200)
    assert_same_run(path, whole)
    assert_same_end(path, whole)
    assert not list(path.rglob("*.tmp"))


def assert_same_end(path: Path, other: Path):
    one, two = (read_json(run / "summary.json") for run in (path, other))
    assert one["after"] == two["after"]


def failed(capsys, *flags) -> str:
    """Return what a training writes that ends with an error."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        train.main(words(*flags))
    assert ended.value.code in (1, 2)
    return capsys.readouterr().err


def test_a_run_that_is_killed_in_its_last_evaluation_plays_and_goes_on(
    two, six, tmp_path, monkeypatch, capsys
):
    """Its checkpoint and its agents have all its steps. Its summary is of the end before."""
    path = tmp_path / "run"
    shutil.copytree(two, path)
    with monkeypatch.context() as patched:
        patched.setattr(Recorder, "on_train_end", lambda *_: {}["killed"])
        assert "'killed'" in failed(capsys, "--resume", path, "--max-steps 6")
    assert not run_folder.read_summary(path)
    run_eval(f"--run {path} --method trained --limit 1 --greedy")
    assert f"{path} is not finished: its last saved agents play" in capsys.readouterr().err
    resume(path)
    assert_same_run(path, six)
    assert_same_end(path, six)


# --- an error or a signal between two steps -------------------------------------------------------


# Every step moves every weight.
WHOLE = "--advantage none --save-every 2 --optimism 1"


@pytest.fixture(scope="module")
def four(tmp_path_factory) -> Path:
    return in_this_process(tmp_path_factory.mktemp("four") / "run", 4, WHOLE)


@pytest.mark.parametrize(
    ("owner", "name", "call", "signalled", "kept"),
    [
        (Recorder, "evaluate", 2, True, 2),  # on dev, after the test problems
        (Recorder, "evaluate", 2, False, 2),
        (Recorder, "shares", 4, False, 2),  # the task's scheme
        (MAGRPO, "set_gradients", 4, False, 3),  # of which no weight has moved
    ],
)
def test_a_step_is_kept_whole_or_made_again(
    owner, name, call, signalled, kept, four, tmp_path, monkeypatch, capsys
):
    """The fourth one fails: a checkpoint holds no step without its metrics."""
    path = tmp_path / "run"
    method = getattr(owner, name)
    calls = []

    def broken(*args):
        calls.append(1)
        if len(calls) == call:
            if not signalled:
                raise RuntimeError("broken")
            os.kill(os.getpid(), signal.SIGTERM)
        return method(*args)

    with monkeypatch.context() as patched:
        patched.setattr(owner, name, broken)
        with pytest.raises(SystemExit):
            in_this_process(path, 4, WHOLE)
    printed = capsys.readouterr()
    said = printed.out if signalled else printed.err
    assert f"The last checkpoint is of step {kept}. Go on with:" in said
    assert checkpoint_of(path)["global_step"] == kept
    resume(path)
    assert_same_run(path, four)


# --- SIGINT and SIGTERM ---------------------------------------------------------------------------


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_signal_at_the_start_ends_a_run_with_one_line(tmp_path):
    path = tmp_path / "run"
    process = start(path, 30)
    wait(process, moments(path, process)["start"])
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=900)
    assert process.returncode == 130
    assert err == "train.py: stopped by SIGINT\n"


def test_a_signal_is_not_taken_for_an_error_of_the_users_code(tmp_path, capsys):
    """It comes once, while the run waits for a reward: a second one would end this process."""
    send = "if number == 17: os.kill(os.getpid(), 15)\n        time.sleep(1)"
    (tmp_path / "bad").touch()
    (tmp_path / "mine.py").write_text(REWARD.replace("BAD", send))
    with pytest.raises(SystemExit) as stopped:
        in_this_process(tmp_path / "run", 30, f"--reward {tmp_path}/mine.py:reward")
    assert stopped.value.code == 130
    said = capsys.readouterr()
    assert "error" not in said.err
    assert "stopped by SIGTERM at step" in said.out


def test_the_first_signal_lets_an_update_end_and_the_second_does_not():
    process = multiprocessing.get_context("fork").Process(target=interrupt_itself)
    process.start()
    process.join(60)
    assert process.exitcode == -signal.SIGINT


def interrupt_itself():
    signals = Signals()
    os.kill(os.getpid(), signal.SIGINT)  # as if in an update
    with pytest.raises(Stopped), signals.end_rollouts():
        os._exit(1)
    os.kill(os.getpid(), signal.SIGINT)
    os._exit(2)


# --- a full disk ----------------------------------------------------------------------------------


@contextlib.contextmanager
def largest_file(size: int):
    """No file of this process may grow over so many bytes: a disk that is full for big files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_checkpoint_that_cannot_be_written_leaves_the_one_before(two, six, tmp_path, capsys):
    full = tmp_path / "full"
    shutil.copytree(two, full)
    checkpoint = full / run_folder.CHECKPOINT
    before = checkpoint.read_bytes()
    with largest_file(len(before) // 2):
        error = failed(capsys, "--resume", full, "--max-steps 6")
    assert f"cannot save {checkpoint}" in error
    assert f"Go on with: python train.py --resume {full}" in error
    assert checkpoint.read_bytes() == before
    resume(full, "--max-steps 6")
    assert_same_run(full, six)


# --- rewards --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def healthy(tmp_path_factory) -> Path:
    """A run whose reward never fails."""
    folder = tmp_path_factory.mktemp("healthy")
    (folder / "mine.py").write_text(REWARD.replace("BAD", "pass"))
    return in_this_process(folder / "run", 4, f"--reward {folder}/mine.py:reward")


@pytest.mark.parametrize(
    ("bad", "status", "error"),
    [
        ("raise KeyError('gone')", 1, 'mine.py", line 10, in reward'),
        ("return float('nan')", 2, "train.py: error: the reward returned nan"),
        ("time.sleep(9)", 2, "train.py: error: the reward did not answer within 3 s"),
        ("raise SystemExit(3)", 2, "train.py: error: it called sys.exit(3) (the reward, for item"),
    ],
)
def test_a_reward_that_fails_late_loses_nothing(
    bad, status, error, healthy, tmp_path, monkeypatch, capsys
):
    """It works for some steps, fails, is mended. The error has what it was given."""
    monkeypatch.setattr(reward_runner, "LIMIT", 3.0)
    (tmp_path / "mine.py").write_text(REWARD.replace("BAD", bad))
    (tmp_path / "bad").touch()
    path = tmp_path / "run"
    argv = f"--max-steps 4 --run {path} --save-every 99 --reward {tmp_path}/mine.py:reward"
    with pytest.raises(SystemExit) as stopped:
        train.main(words(SMALL, argv))
    assert stopped.value.code == status
    said = capsys.readouterr().err
    resumes = f"python train.py --resume {path}"
    for text in (error, "for item {", "and responses [", resumes):
        assert text in said
    steps = [row for row in lines(path, "metrics.jsonl") if "return" in row]
    state = checkpoint_of(path)
    assert 0 < state["global_step"] == len(steps) < 4
    (tmp_path / "bad").unlink()
    resume(path)
    assert_same_run(path, healthy)


HANGS = """
import os, time
from training import reward_runner
from tasks import Coop
reward_runner.LIMIT = 1
once = iter([True])
class Task(Coop):
    def feedback(self, item, responses):
        BEFORE
        time.sleep(9999)
"""


@pytest.mark.parametrize(
    ("before", "flags", "status", "said"),
    [
        ("pass", "", 2, "the task did not answer within 1 s"),
        (
            "reward_runner.LIMIT = 99; next(once, False) and os.kill(os.getpid(), 15)",
            "",
            130,
            "stopped by SIGTERM at step 0",
        ),
        # One of two processes hangs, and not the one that says so.
        pytest.param(
            "if os.environ.get('LOCAL_RANK') != '1': return ['', '']",
            "--devices 2",
            2,
            "the task did not answer within 1 s",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_a_function_that_hangs_does_not_keep_a_process(before, flags, status, said, tmp_path):
    (tmp_path / "mine.py").write_text(HANGS.replace("BEFORE", before))
    argv = f"{SMALL} --task {tmp_path}/mine.py:Task --turns 2 --joint aligned --logger none {flags}"
    done = output_of(command(f"{argv} --max-steps 1 --run {tmp_path}/run"), status, timeout=300)
    assert said in done.stdout + done.stderr


# --- workers and other processes ------------------------------------------------------------------


def test_a_training_holds_its_lock(tmp_path, monkeypatch, capsys):
    """From its beginning until its end, and no longer."""
    checked = []

    save = Recorder.save

    def watched(recorder, *args):
        with pytest.raises(ValueError, match="another process"):
            run_folder.lock_run_folder(recorder.directory).__enter__()
        checked.append(1)
        save(recorder, *args)

    monkeypatch.setattr(Recorder, "save", watched)
    in_this_process(tmp_path / "run", 2)
    assert checked
    monkeypatch.setattr(train, "prepare", None)  # the lock comes first
    with run_folder.lock_run_folder(tmp_path / "run"):
        assert "another process is at work" in refused(
            capsys, "--resume", tmp_path / "run", "--max-steps 3"
        )


def test_a_run_that_was_stopped_before_it_wrote_its_flags_begins_anew(tmp_path):
    """Only its lock is there, and --resume has nothing to go on with."""
    (tmp_path / "run").mkdir()
    (tmp_path / "run/lock").touch()
    in_this_process(tmp_path / "run", 1)
    assert len(run_folder.read_records(tmp_path / "run/metrics.jsonl")) == 1


def test_a_resumed_run_goes_on_with_its_run_of_wandb(tmp_path, monkeypatch):
    monkeypatch.setattr(recorder, "WandbLogger", lambda name, folder, number, **_: number)
    record = {"args": {"logger": "wandb"}, "date": "2026-11-28T00:00:00"}
    numbers = [recorder.make_logger(record, tmp_path, step) for step in (0, 3)]
    assert numbers[0] == numbers[1]


def test_a_pipe_is_written_to_and_stays_a_pipe(tmp_path):
    """As /dev/null stays what it is: put in its place, a file would ruin the machine of a root."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with ThreadPoolExecutor() as pool:
        text = pool.submit(pipe.read_text)
        run_folder.write_whole(pipe, "text")
        assert text.result(10) == "text"
    assert pipe.is_fifo()
    assert list(tmp_path.iterdir()) == [pipe]
    link = tmp_path / "link"  # as /dev/stdout is, wherever the output goes
    link.symlink_to(tmp_path / "file")
    run_folder.write_whole(link, "text")
    assert link.is_symlink()
    assert (tmp_path / "file").read_text() == "text"
