"""Several runs by one command, with stand-ins for the trainings: python -m pytest
tests/test_sweep.py

With real ones: python -m pytest -m slow tests/test_sweep.py
"""

import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
from helpers import SMALL, edit_json, output_of, read_json, refused, started, train_run, words
from test_train import assert_same_run, command

import train
from training import run_folder, sweep


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """Let each test have a folder and signal handlers of its own."""
    monkeypatch.chdir(tmp_path)
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in handlers.items():
        signal.signal(number, handler)


def planned(argv: str) -> dict[str, str]:
    """Return the flags of each run, by its folder."""
    args = train.Args(**vars(train.parser().parse_args(argv.split())))
    return {str(path): " ".join(flags) for path, flags in sweep.plan(args, argv.split()).items()}


def stand_in(monkeypatch, scripts: dict[str, str]) -> list[str]:
    """Let a shell's script stand for each run's training. Return the names of those that begin."""
    begun = []

    def start(directory, flags, jobs):
        begun.append(directory.name)
        directory.parent.mkdir(exist_ok=True)
        sweep.log_path(directory).touch()
        shell = ["sh", "-c", scripts.get(directory.name, "exit 0")]
        return subprocess.Popen(shell, process_group=0)

    monkeypatch.setattr(sweep, "start", start)
    return begun


def finish(name: str, **flags):
    """Write what a finished run has."""
    directory = Path(name)
    directory.mkdir(parents=True)
    args = vars(train.parse([])) | {"max_steps": 7, "bits": 32, "run": "x"} | flags
    run_folder.write_json(directory / "args.json", {"args": args, "code": ["-"]})
    run_folder.write_json(directory / "summary.json", {"steps": 7, "after": {}})


def test_each_combination_is_a_run():
    Path("x.args").write_text("--batch-size 3 --seed 8 9\n", encoding="utf-8")
    runs = planned("@x.args --seed 0 1 --sweep lr=1e-4,3e-4 share=true,false --jobs 2 --run a")
    assert list(runs)[::3] == [
        "runs/a-lr0.0001-sharetrue-seed0",
        "runs/a-lr0.0001-sharefalse-seed1",
        "runs/a-lr0.0003-sharefalse-seed0",
    ]
    name = "a-lr0.0003-sharefalse-seed1"
    assert runs[f"runs/{name}"] == f"@x.args --lr 3e-4 --no-share --seed 1 --run {name}"
    args = train.parse(runs[f"runs/{name}"].split())
    assert (args.lr, args.share, args.seed, args.batch_size) == ([3e-4, 3e-4], False, 1, 3)
    assert list(planned("--seed 3 4 --task a/b.py:C")) == ["runs/b.py.C-seed3", "runs/b.py.C-seed4"]
    [clip, _] = planned("--sweep model=a/b,c.gguf --run to/x")
    assert clip == "to/x-modelb-seed0"
    args = train.Args(sweep={"lr": ".1 .2,.3 .4"})
    assert [flags[:3] for flags in sweep.plan(args, []).values()] == [
        ["--lr", ".1", ".2"],
        ["--lr", ".3", ".4"],
    ]


@pytest.mark.parametrize(
    ("argv", "told"),
    [
        ("--seed 0 1 --sweep lr=1e-4,x", "'x' is not a number"),
        ("--sweep reward=code,nope", "unknown reward 'nope'"),
        ("--sweep model=tiny,nope.gguf", "nope.gguf"),
        ("--sweep nope=1,2", "unrecognized arguments: --nope 1"),
        ("--sweep lr=1e-4,0.0001", "two runs of this sweep would be runs/coop-lr0.0001-seed0"),
        ("--sweep seed=1,2", "--seed 0 1 2"),
        ("--sweep lr", "'lr' is not FLAG=A,B"),
        ("--seed 0 1 --resume x", "not with a sweep"),
        ("--seed 0 1 --dry-run", "not with a sweep"),
        ("--jobs 2", "needs --sweep or several --seed"),
        ("@x.args --seed 0 1", "not for a flag file"),
        ("--seed 0 1 --run old", "runs/old-seed0 has another --max-steps (7, and not 130)"),
        ("--seed 0 1 --run old --max-steps 7 --lr 1", "runs/old-seed0 has another --lr"),
    ],
)
def test_a_mistake_in_one_run_is_told_before_any_begins(argv, told, monkeypatch, capsys):
    begun = stand_in(monkeypatch, {})
    Path("x.args").write_text("--sweep lr=1e-4,1e-3\n", encoding="utf-8")
    finish("runs/old-seed0")
    assert told in refused(capsys, argv)
    assert begun == []


def test_a_failure_stops_no_other_and_what_is_finished_is_skipped(monkeypatch, capsys):
    finish("runs/coop-seed1", seed=1)
    finish("runs/coop-seed3", seed=3, lr=[3e-3] * 2)
    edit_json(Path("runs/coop-seed3/summary.json"), steps=5)  # it goes on from there
    begun = stand_in(monkeypatch, {"coop-seed0": "exit 2"})
    with pytest.raises(SystemExit) as ended:
        train.main(words("--seed 0 1 2 3 --max-steps 7"))
    assert ended.value.code == 1
    assert begun == ["coop-seed0", "coop-seed2", "coop-seed3"]
    said = capsys.readouterr().out
    for line in (
        "runs/coop-seed1 was finished before",
        "runs/coop-seed0 ended with exit status 2",
        "runs/coop-seed2 is finished",
        "3 of 4 runs are finished",
        "runs/coop-seed3 goes on, 0 after it",
        "runs/coop-seed0 is not finished",
    ):
        assert f"sweep: {line}" in said


def test_so_many_run_at_once(monkeypatch):
    runs = {Path(f"{number}"): [] for number in range(3)}
    wait = "touch here$1; until [ -e here0 ] && [ -e here1 ]; do sleep 0.01; done; [ ! -e here2 ]"
    scripts = {str(number): wait.replace("$1", str(number)) for number in range(2)}
    stand_in(monkeypatch, scripts | {"2": "touch here2"})
    assert sweep.run_all(runs, 2) == 0


def test_a_signal_stops_all(monkeypatch, capsys):
    runs = {Path(f"{number}"): [] for number in range(3)}
    saves = "trap 'touch saved; exit 130' INT; touch up; while true; do sleep 0.01; done"
    last = f"until [ -e up ]; do sleep 0.01; done; kill -INT {os.getpid()}; exec sleep 60"
    begun = stand_in(monkeypatch, {"0": saves, "1": last})
    assert sweep.run_all(runs, 2) == 130
    assert begun == ["0", "1"]
    assert Path("saved").is_file()
    assert "0 was stopped" in capsys.readouterr().out


def test_a_run_begins_or_goes_on_beside_others(monkeypatch, tmp_path):
    """Beside others it has a share of the cores, and its output is in a file."""
    monkeypatch.setattr(sweep, "cores", lambda: 8)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(sweep, "ROOT", tmp_path)
    Path("train.py").write_text(
        "import os, sys\nprint(*sys.argv, os.environ.get('OMP_NUM_THREADS'))\nsys.exit(2)",
        encoding="utf-8",
    )
    directory = Path("runs/a-seed0")
    for _ in range(2):
        assert sweep.start(directory, ["--seed", "0"], 2).wait() == 2
        directory.mkdir(exist_ok=True)
        (directory / "args.json").touch()
    log = Path("runs/a-seed0.log")
    assert log.read_text("utf-8").splitlines() == [
        "train.py --seed 0 4",
        "train.py --resume runs/a-seed0 4",
    ]
    assert "resume runs/a-seed0 4 (runs/a-seed0.log)" in sweep.ending(directory, 2, 2)


@pytest.mark.slow
def test_a_sweep_ends_as_its_runs_alone(tmp_path):
    """It is stopped in the middle and goes on. One of its runs fails, and the others do not."""
    Path("own.py").write_text(
        "def good(item, texts): return float(len(texts[0]) % 7)\n"
        "def bad(item, texts): return float(texts[99][0])\n"
        "good.maximum = bad.maximum = 6.0\n",
        encoding="utf-8",
    )
    flags = f"{SMALL} --max-steps 12 --num-generations 4 --lr 0.01"
    argv = command(flags, "--seed 0 1 --sweep reward=own.py:bad,own.py:good --run s --jobs 2")
    process = started(argv)
    metrics = Path("runs/s-rewardown.py_good-seed0/metrics.jsonl")
    while not metrics.is_file():
        assert process.poll() is None, process.communicate()
    process.send_signal(signal.SIGINT)
    said, _ = process.communicate()
    assert process.returncode == 130, said
    assert not (metrics.parent / "summary.json").exists()
    said = output_of(argv, 1).stdout
    assert "sweep: 2 of 4 runs are finished" in said
    assert said.count("IndexError") == 2
    again = output_of(argv, 1).stdout
    assert again.count("was finished before") == 2
    record = read_json(metrics.parent / "args.json")
    assert len(record["resumed"]) == 1
    alone = train_run(tmp_path / "alone", flags, "--seed 0 --reward own.py:good")
    assert_same_run(metrics.parent, alone)
    shutil.rmtree("runs")
