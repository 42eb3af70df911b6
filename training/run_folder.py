"""Write and read a run on disk: runs/<name>/, which train.py writes.

eval.py and --resume read it. docs/metrics.md lists its files. The process that writes there holds
`lock`.
"""

import contextlib
import dataclasses
import hashlib
import itertools
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterable
from datetime import datetime
from importlib.metadata import version
from pathlib import Path

from policies.model_names import fingerprint, recorded_name

try:
    import fcntl
except ModuleNotFoundError:  # both programs come here before they need anything else of Unix
    program = Path(sys.argv[0]).name
    print(f"{program}: error: this needs Linux, macOS or, on Windows, WSL", file=sys.stderr)
    sys.exit(2)

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("torch", "lightning", "transformers", "peft", "bitsandbytes", "datasets")
CHECKPOINT = "checkpoints/last.ckpt"
# Flags of train.py that change neither the algorithm nor the task. The size of a batch says what
# several processes do.
ASIDE = {
    *("seed", "run", "resume", "logger", "eval_every", "save_every", "sample_every"),
    *("dry_run", "checkpointing", "device", "devices", "num_nodes"),
}


def find_run(name: str) -> Path:
    """Return the folder of a run that is named by its folder, or by its name in runs/."""
    path = Path(name)
    in_runs = Path(f"runs/{name}")
    if in_runs.is_dir() and not is_run(path):
        return in_runs
    return path


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
        raise ValueError(f"there is no run in {' '.join(names)}; give a folder in runs/")
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


def check_place(run: str) -> None:
    """Raise ValueError if the folder of --run holds other files."""
    path = run_path(run)
    # A run that was stopped at once left its lock.
    if path.exists() and os.listdir(path) not in ([], ["lock"]):
        raise ValueError(f"{path} holds other files: choose another --run")


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


@contextlib.contextmanager
def lock_run_folder(directory: Path):
    """Hold a run's lock until the process ends. Raise ValueError if another process holds it."""
    with (directory / "lock").open("a", encoding="utf-8") as file:
        if not take_lock(file, fcntl.LOCK_EX):
            raise ValueError(
                f"another process is at work on {directory}: wait for its end, or stop it"
            )
        yield


def take_lock(file, kind: int) -> bool:
    """Lock an open file. Return whether no other process holds its lock."""
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks, as on some clusters
        pass
    return True


def state(directory: Path) -> str:
    """Return whether a run is "running", "finished" or "unfinished"."""
    with contextlib.suppress(FileNotFoundError), (directory / "lock").open("rb") as file:
        if not take_lock(file, fcntl.LOCK_SH):
            return "running"
    return "finished" if read_summary(directory) else "unfinished"


def write_json(path: Path, value) -> None:
    write_whole(path, json.dumps(value, indent=1, ensure_ascii=False, default=str) + "\n")


def write_lines(path: Path, records: Iterable[dict]) -> None:
    write_whole(path, "".join(map(json_line, records)))


def json_line(record: dict) -> str:
    """Return a line of a JSONL file. What JSON lacks, as numpy's numbers, is a text."""
    return json.dumps(record, ensure_ascii=False, default=str) + "\n"


def write_whole(path: Path, text: str) -> None:
    """Write a file whole or not at all.

    A device, a pipe or a link, as /dev/stdout is, is written to and not replaced.
    """
    if path.is_symlink() or (path.exists() and not path.is_file()):
        path.write_text(text, "utf-8")
        return
    draft = path.with_name(path.name + ".tmp")
    draft.write_text(text, "utf-8")
    os.replace(draft, path)


def read_records(path: Path) -> list[dict]:
    """Return the objects in a JSONL file, [] without a file. Raise ValueError for a bad line.

    A last line that a kill cut is left out. Only newlines end a line. str.splitlines would also
    split a text at U+2028.
    """
    if not path.exists():
        return []
    records = []
    lines = path.read_text("utf-8-sig", "replace").split("\n")
    for number, line in enumerate(lines, 1):
        try:
            if line.strip():
                records.append(json.loads(line))
        except ValueError as error:
            if number < len(lines):
                raise ValueError(f"{path}, line {number}: not one JSON object ({error})") from error
    return records


def read_args(directory: Path) -> dict:
    """Return a run's args.json, {"args": flags, "bases": fingerprints, "code": versions, ...}.

    The embedded models have the names that every clone knows (model_names.recorded_name).
    """
    path = directory / "args.json"
    if not is_run(directory):
        raise ValueError(f"{directory}: there is no run (no {path}); give a folder in runs/")
    try:
        record = json.loads(path.read_text("utf-8"))
        record["args"]["num_agents"]
    except (ValueError, LookupError, TypeError) as error:
        raise ValueError(f"{path} is damaged ({error!r:.200})") from error
    return record


def make_record(directory: Path | None, args, splits: dict[str, list], scorer) -> dict:
    """Return args.json of a new run, or of the run in `directory` that goes on with these flags.

    Raise ValueError if the models or the items of the latter were others.
    """
    flags = dataclasses.asdict(args) | {"model": list(map(recorded_name, args.model))}
    if directory:
        record = read_args(directory)
        check_bases(directory, args.model)
        for split, items in splits.items():
            check_items(record, split, items)
        warn_of_other_code(directory)
        if args.max_steps not in record["max_steps"]:
            print("with another --max-steps the learning rates and the optimism change from here")
    else:
        record = {
            "versions": {name: version(name) for name in PACKAGES},
            "bases": {recorded_name(name): fingerprint(name) for name in args.model},
            "init": [str(fingerprint(folder))[:12] for folder in args.init or ()],
            "items": {split: digest(items) for split, items in splits.items()},
            "maximum": scorer.maximum,
            "unit": "episode" if scorer.per_episode else "turn",  # of the maximum
            "date": datetime.now().isoformat(timespec="seconds"),  # that chat templates see
            "max_steps": [],
            "commands": [],
            "code": [],  # of every process that trained it
        }
    for name, new in (
        ("max_steps", args.max_steps),
        ("commands", shlex.join(["python", *sys.argv])),
        ("code", code_version(flags)),
    ):
        if new not in record[name]:
            record[name].append(new)
    return record | {"args": flags}


def digest(items: list[dict]) -> str:
    """Return a hash of a split's items, in their order."""
    text = json.dumps(items, sort_keys=True, default=repr)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def check_items(record: dict, split: str, items: list[dict]) -> None:
    """Raise ValueError if these are not the items that a run had in a split.

    The problems of another list may be those that the agents were trained on.
    """
    if record["items"][split] != digest(items):
        raise ValueError(
            f"the items of {split} are not those that the run was trained with: --data has other "
            "rows, or the task does not return the same list each time (the order of a set changes)"
        )


def code_version(flags: dict) -> str:
    """Return the last commit of this code, without pages and tests, and a hash of what differs.

    Uncommitted changes differ, and so do the plug-in files that the flags name.
    """
    changes = _git("diff", "HEAD")
    for name in (flags["task"], flags["reward"]):
        file = Path((name or "").partition(":")[0])
        if file.suffix == ".py" and file.is_file():
            changes += file.read_bytes()
    commit = _git("log", "-1", "--format=%h", "--abbrev=12").decode().strip() or "no-commit"
    if changes:
        commit += f"+{hashlib.sha256(changes).hexdigest()[:12]}"
    return commit


def _git(*arguments: str) -> bytes:
    """Return what git says of the code, b"" without git."""
    command = ["git", *arguments, "--", "*.py", ":!tests"]
    try:
        return subprocess.run(command, cwd=ROOT, capture_output=True).stdout
    except FileNotFoundError:
        return b""


def warn_of_other_code(directory: Path) -> None:
    record = read_args(directory)
    now = code_version(record["args"])
    if now not in record["code"]:
        print(
            f"warning: {directory} was trained by code {', '.join(record['code'])}, "
            f"and this is {now}",
            file=sys.stderr,
        )


def check_bases(directory: Path, models: list[str]) -> None:
    """Raise ValueError if a run's agents were trained on other models than these."""
    record = read_args(directory)
    for trained, name in zip(record["args"]["model"], models, strict=True):
        check_base(record["bases"].get(trained), name, directory)


def check_base(trained: str | None, name: str | None, whose: Path) -> None:
    """Raise ValueError if a model does not have the fingerprint `trained`.

    On another base of the same shape an adapter would load, and be worth nothing.
    """
    # None: not known, or the hub's and not on this machine yet
    if trained and fingerprint(name) not in (None, trained):
        raise ValueError(
            f"the model {name} is not what {whose} was trained on "
            "(other weights, config or tokenizer)"
        )


def cut_back(directory: Path, max_steps: int) -> int:
    """Drop what a killed run wrote after its last checkpoint, and a line that was cut.

    Return the checkpoint's steps, or 0 without one. Raise ValueError if it has more steps than the
    run may have.
    """
    import torch

    done = 0
    if path := checkpoint(str(directory)):
        state = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
        done = state["global_step"]
    if max_steps < done:
        raise ValueError(f"{directory} has {done} steps: --max-steps {max_steps} is behind it")
    for name in ("metrics.jsonl", "samples.jsonl"):
        path = directory / name
        records = [record for record in read_records(path) if record["step"] < done]
        write_lines(path, records)
    return done


def read_summary(directory: Path) -> dict:
    """Return a run's summary.json, {} before its end.

    A finished run that goes on writes its new --max-steps before it trains. Its summary is then of
    the end before, and is not returned.
    """
    path = directory / "summary.json"
    if not path.is_file():
        return {}
    summary = json.loads(path.read_text("utf-8"))
    is_last = summary.get("steps") == read_args(directory)["args"]["max_steps"]
    return summary if is_last else {}
