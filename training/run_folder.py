"""Write and read a run on disk: runs/<name>/, which train.py writes.

eval.py and --resume read it. docs/metrics.md lists its files. The process that writes there holds
`lock`.
"""

import contextlib
import dataclasses
import hashlib
import itertools
import json
import shlex
import subprocess
import sys
from collections.abc import Iterable
from datetime import datetime
from importlib.metadata import version
from pathlib import Path

from policies import Mistake
from policies.model_names import EMBEDDED, fingerprint, recorded_name
from training.items import digest

ROOT = EMBEDDED.parent
PACKAGES = ("torch", "lightning", "transformers", "peft", "bitsandbytes", "datasets")
CHECKPOINT = "checkpoints/last.ckpt"
CODE = "-- '*.py' ':!tests'"  # without pages and tests
# GIT_DIR may name another repository, as in a hook of git.
CODE_VERSION = f"""unset GIT_DIR
echo $(git log -1 --format=%h --abbrev=12 {CODE})
git diff HEAD {CODE}
git ls-files -oz --exclude-standard {CODE} | xargs -0 cat -- /dev/null"""
# Flags of train.py that change neither the algorithm nor the task. The size of a batch says what
# several processes do.
ASIDE = {
    *("seed", "run", "resume", "logger", "eval_every", "save_every", "sample_every"),
    *("dry_run", "checkpointing", "device", "devices", "num_nodes"),
}


def find_run(name: str) -> Path:
    """Return the folder of a run that is named by its folder, or by its name in runs/."""
    path = run_path(name)
    return path if path.is_dir() else Path(name)


def run_folders(names: list[str]) -> list[Path]:
    """Return the folders of the runs that are named, as by a shell's runs/*.

    A folder that is not a run stands for the runs in it. Other files are left out. Raise ValueError
    if no run is left. A name that does not exist is kept, for `read_args` to refuse.
    """
    folders = []
    for path in map(find_run, names):
        if is_run(path) or not path.exists():
            folders.append(path)
        else:
            folders += sorted(file.parent for file in path.glob("*/args.json"))
    if not folders:
        raise Mistake(f"there is no run in {' '.join(names)}; give a folder in runs/")
    return folders


def checkpoint(resumed: str | None) -> Path | None:
    """Return the checkpoint of the run of --resume, if it has one already."""
    path = Path(resumed or "", CHECKPOINT)
    return path if resumed and path.exists() else None


def run_path(name: str) -> Path:
    """Return the folder of --run, which may not exist."""
    return Path(name if "/" in name else f"runs/{name}")


def is_run(directory: Path) -> bool:
    """Return whether a folder holds a run."""
    return (directory / "args.json").is_file()


def has_agents(directory: Path) -> bool:
    """Return whether a run has saved its agents, which it does before its first step."""
    return (directory / "agents").is_dir()


def check_place(run: str) -> None:
    """Raise ValueError if the folder of --run holds other files."""
    path = run_path(run)
    if {*path.glob("*")} - {path / "lock"}:  # a run that was stopped at once left its lock
        raise Mistake(f"{path} holds other files: choose another --run")


def new_directory(run: str | None, task: str) -> Path:  # type: ignore[return]
    """Make the folder of --run, or the first free runs/<task>-<number>."""
    if run:
        path = run_path(run)
        path.mkdir(parents=True, exist_ok=True)
        return path
    Path("runs").mkdir(exist_ok=True)  # an error where it is a link to nowhere
    stem = Path(task.replace(":", ".")).name
    for number in itertools.count(1):
        path = Path(f"runs/{stem}-{number}")
        with contextlib.suppress(FileExistsError):
            path.mkdir()
            return path


def lock_run_folder(directory: Path, shared: bool = False):
    """Return the file that holds a run's lock while it is open. Readers share it.

    Raise ValueError if another process holds it.
    """
    import fcntl  # Windows has none, and `reset_process` says so

    file = (directory / "lock").open("r" if shared else "a", encoding="utf-8")
    try:
        fcntl.flock(file, fcntl.LOCK_NB | (fcntl.LOCK_SH if shared else fcntl.LOCK_EX))
    except BlockingIOError as error:
        raise Mistake(
            f"another process is at work on {directory}: wait for its end, or stop it"
        ) from error
    except OSError:  # a file system without locks, as on some clusters
        pass
    return file


def state(directory: Path) -> str:
    """Return whether a run is "running", "finished" or "unfinished"."""
    try:
        with contextlib.suppress(OSError):  # nobody has locked it yet
            lock_run_folder(directory, shared=True).close()
    except Mistake:
        return "running"
    return "finished" if read_json(directory, "summary.json") else "unfinished"


def json_text(value, indent: int | None = 1) -> str:
    """Return a JSON file's text. A value that JSON lacks, as numpy's numbers, is a text."""
    return json.dumps(value, indent=indent, ensure_ascii=False, default=str) + "\n"


def json_lines(records: Iterable[dict]) -> str:
    """Return the text of a JSONL file."""
    return "".join(json_text(record, None) for record in records)


def write_whole(path: Path, text: str) -> None:
    """Write a file of a run's folder whole or not at all."""
    draft = path.with_name(path.name + ".tmp")
    draft.write_text(text, "utf-8")
    draft.replace(path)


def read_records(path: Path) -> list[dict]:
    """Return the objects in a run's JSONL file, [] without a file.

    A last line that a kill cut is left out: it has no newline. Only newlines end a line.
    str.splitlines would also split a text at U+2028.
    """
    if not path.exists():
        return []
    *lines, _ = path.read_text("utf-8", "replace").split("\n")
    return [parse(line, path) for line in lines]


def read_json(directory: Path, name: str) -> dict:
    """Return the object in a JSON file of a run, {} without a file."""
    path = directory / name
    return parse(path.read_text("utf-8"), path) if path.is_file() else {}


def parse(text: str, path: Path) -> dict:
    """Return the JSON object of a text that stands in this file."""
    try:
        return json.loads(text)
    except ValueError as error:
        raise Mistake(f"{path} is damaged ({error!r:.200})") from error


def read_args(directory: Path) -> dict:
    """Return a run's args.json, `{"args": flags, "bases": fingerprints, "code": versions, ...}`.

    The embedded models have the names that every clone knows (model_names.recorded_name).
    """
    record = read_json(directory, "args.json")
    if "args" not in record:
        raise Mistake(
            f"{directory}: there is no run (no {directory}/args.json); give a folder in runs/"
        )
    return record


def recorded(args) -> dict:
    """Return the flags as args.json holds them: models have names that hold in every folder."""
    return dataclasses.asdict(args) | {"model": list(map(recorded_name, args.model))}


def make_record(earlier: dict, args, splits: dict[str, list], module) -> dict:
    """Return args.json. earlier: that of the run that goes on with these flags, {} for a new run.

    The lists hold what every process that trained the run had.
    """
    from training.metrics import highest_return  # it imports torch

    flags = recorded(args)
    rollout = module.rollout
    record = earlier or {
        "versions": {name: version(name) for name in PACKAGES},
        "models": [base.about for base in module.team.bases],
        "bases": {recorded_name(name): fingerprint(name) for name in args.model},
        "items": {split: digest(items) for split, items in splits.items()},
        "maximum": rollout.reward.maximum,
        "unit": "episode" if rollout.task.per_episode else "turn",  # of the maximum
        "largest_return": highest_return(rollout),
        "date": datetime.now().isoformat(timespec="seconds"),  # that chat templates see
        "max_steps": [],
        "commands": [],
        "code": [],
    }
    for name, new in (
        ("max_steps", args.max_steps),
        ("commands", shlex.join(["python", *sys.argv])),
        ("code", code_version(flags)),
    ):
        if new not in record[name]:
            record[name].append(new)
    return record | {"args": flags}


def code_version(flags: dict) -> str:
    """Return the last commit of this code, without pages and tests, and a hash of what differs.

    Uncommitted changes and new files differ, and so do the folders of plug-in files. If git is
    missing or refuses the folder, the hash is of all files, without a commit.
    """
    answer = subprocess.run(CODE_VERSION, shell=True, cwd=ROOT, capture_output=True)
    commit, _, changes = answer.stdout.partition(b"\n")
    files = []
    for name in ("task", "reward"):
        plug_in = ROOT / (flags[name] or "").partition(":")[0]
        if plug_in.suffix == ".py":
            files += sorted(plug_in.parent.glob("*.py"))  # it may import its neighbours
    if not commit:
        for pattern in ("*.py", "*/*.py", "*/*/*.py"):
            files += sorted(ROOT.glob(pattern))
    for file in filter(Path.is_file, files):
        changes += file.read_bytes()
    name = commit.decode() or "no-commit"
    return f"{name}+{hashlib.sha256(changes).hexdigest()[:12]}" if changes else name


def check_run(directory: Path, record: dict, models: list[str]) -> None:
    """Raise ValueError if a run's agents were trained on other models. Warn of other code.

    record: the run's args.json.
    """
    for trained, name in zip(record["args"]["model"], models, strict=True):
        check_base(record["bases"].get(trained), name, directory)
    now = code_version(record["args"])
    if now not in record["code"]:
        print(
            f"warning: {directory} was trained by code {', '.join(record['code'])}, "
            f"and this is {now}",
            file=sys.stderr,
        )


def check_base(trained: str | None, name: str | None, whose: Path) -> None:
    """Raise ValueError if a model does not have the fingerprint `trained`.

    On another base of the same shape an adapter would load, and be worth nothing.
    """
    # None: not known, or the hub's and not on this machine yet
    if trained and fingerprint(name) not in (None, trained):
        raise Mistake(
            f"the model {name} is not what {whose} was trained on "
            "(other weights, config or tokenizer)"
        )


def cut_back(directory: Path, max_steps: int) -> int:
    """Drop what an unfinished run wrote after its last checkpoint. Return the checkpoint's steps.

    Raise ValueError if these are more than the run may have.
    """
    import torch

    done = measured = 0
    if path := checkpoint(str(directory)):
        state = torch.load(path, "cpu", weights_only=True, mmap=True)
        done = state["global_step"]
        waits = bool(state["callbacks"]["Recorder"]["line"])  # the last step's, for its evaluation
        measured = done - waits
    if max_steps < done:
        raise Mistake(f"{directory} has {done} steps: --max-steps {max_steps} is behind it")
    for name, steps in (("metrics.jsonl", measured), ("samples.jsonl", done)):
        path = directory / name
        records = [record for record in read_records(path) if record["step"] < steps]
        write_whole(path, json_lines(records))
    # A finished run that goes on is unfinished. Its summary and evaluation were of the end before.
    for name in ("summary.json", "eval.json"):
        (directory / name).unlink(missing_ok=True)
    return done
