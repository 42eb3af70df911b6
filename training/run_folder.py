"""Write and read a run on disk: runs/<name>/, which train.py writes.

eval.py and --resume read it. docs/metrics.md lists its files. The process that writes there holds
`lock`.
"""

import contextlib
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
    if in_runs.is_dir() and not (path / "args.json").is_file():
        return in_runs
    return path


def run_folders(names: list[str]) -> list[Path]:
    """Return the folders of the runs that are named, as by a shell's runs/*.

    A folder that is not a run stands for the runs in it. Other files are left out. Raise ValueError
    if no run is left. A name that does not exist is kept, for `read_args` to refuse.
    """
    folders = []
    for path in map(find_run, names):
        if (path / "args.json").is_file() or not path.exists():
            folders.append(path)
        else:
            folders += sorted(file.parent for file in path.glob("*/args.json"))
    if not folders:
        raise ValueError(f"there is no run in {' '.join(names)}; give a folder in runs/")
    return folders


def agent_folder(directory: Path, agent: int, flags: dict) -> Path:
    """Return the folder where a run saves an agent. Agents of one policy share their first's."""
    if flags.get("share"):
        models = flags["model"]
        agent = models.index(models[agent])
    return directory / "agents" / str(agent)


def resume_command(directory: Path) -> str:
    """Return the command that continues a run, for a shell."""
    return shlex.join(["python", "train.py", "--resume", str(directory)])


def checkpoint(resumed: str | None) -> Path | None:
    """Return the checkpoint of the run of --resume, if it has one already."""
    if not resumed:
        return None
    path = find_run(resumed) / CHECKPOINT
    return path if path.exists() else None


def run_path(name: str) -> Path:
    """Return the folder of --run, which may not exist."""
    return Path(name if "/" in name else f"runs/{name}")


def has_begun(name: str) -> bool:
    """Return whether the folder of --run holds a run."""
    return (run_path(name) / "args.json").is_file()


def is_finished(directory: Path, steps: int) -> bool:
    """Return whether a run came to its end after so many steps. Warn of other code."""
    finished = read_summary(directory).get("steps") == steps
    if finished:
        warn_of_other_code(directory)
    return finished


def check_place(name: str | None) -> Path:
    """Return the folder of --run, or runs/. Raise ValueError if it holds a run, or cannot be made.

    A run that was stopped before it wrote its flags has left its lock alone.
    """
    path = run_path(name) if name else Path("runs")
    nearest = next(place for place in (path, *path.parents) if os.path.lexists(place))
    if not nearest.is_dir():
        raise ValueError(f"no run can be written to {path}: {nearest} is not a folder")
    if name and nearest == path and os.listdir(path) not in ([], ["lock"]):
        raise ValueError(
            f"{path} already holds a run: choose another --run, or {resume_command(path)}"
        )
    return path


def new_directory(run: str | None, task: str) -> Path:  # type: ignore[return]
    """Make runs/<run>, or the first free runs/<task>-<number>. Never use one that holds a run."""
    if run:
        path = check_place(run)
        path.mkdir(parents=True, exist_ok=True)
        return path
    stem = Path(task.replace(":", ".")).name
    for number in itertools.count(1):
        path = Path(f"runs/{stem}-{number}")
        with contextlib.suppress(FileExistsError):
            path.mkdir(parents=True)
            return path


@contextlib.contextmanager
def lock_run_folder(directory: Path):
    """Hold a run's lock until the process ends. Raise ValueError if another process holds it."""
    with (directory / "lock").open("a", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise ValueError(
                f"another process is at work on {directory}: wait for its end, or stop it"
            ) from error
        except OSError:  # a file system without locks, as on some clusters
            pass
        yield


def state(directory: Path) -> str:
    """Return whether a run is "running", "finished" or "unfinished"."""
    with contextlib.suppress(FileNotFoundError), (directory / "lock").open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return "running"
        except OSError:  # a file system without locks
            pass
    return "finished" if read_summary(directory) else "unfinished"


def write_json(path: Path, value) -> None:
    write_whole(path, json.dumps(value, indent=1, ensure_ascii=False) + "\n")


def write_lines(path: Path, records: Iterable[dict]) -> None:
    write_whole(path, "".join(map(json_line, records)))


def json_line(record: dict) -> str:
    return json.dumps(record, ensure_ascii=False) + "\n"


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


@contextlib.contextmanager
def reading(path: Path):
    """Turn any error into a ValueError that names the file."""
    try:
        yield
    except Exception as error:  # of json, torch, zip, pickle
        raise ValueError(
            f"{path} is damaged, bring back a copy ({type(error).__name__}: {error!s:.200})"
        ) from error


def read_args(directory: Path) -> dict:
    """Return a run's args.json, {"args": flags, "bases": fingerprints, "code": versions, ...}.

    The embedded models have the names that every clone knows (model_names.recorded_name).
    """
    path = directory / "args.json"
    if not path.is_file():
        raise ValueError(f"{directory}: there is no run (no {path}); give a folder in runs/")
    with reading(path):
        record = json.loads(path.read_text("utf-8"))
        record["args"]["num_agents"]
    return record


def new_record(models: list[str], init: list[str] | None, splits: dict[str, list], scorer) -> dict:
    """Return what a new run records besides its flags and the commands that train it."""
    return {
        "versions": {name: version(name) for name in PACKAGES},
        "bases": {recorded_name(name): fingerprint(name) for name in models},
        "init": [str(fingerprint(folder))[:12] for folder in init or ()],
        "items": {split: digest(items) for split, items in splits.items()},
        "maximum": scorer.maximum,
        "unit": "episode" if scorer.per_episode else "turn",  # of the maximum
        "date": datetime.now().isoformat(timespec="seconds"),  # that chat templates see
        "max_steps": [],
        "commands": [],
        "code": [],  # of every process that trained it
    }


def old_record(directory: Path, args, splits: dict[str, list]) -> dict:
    """Return args.json of a run that goes on with these flags and items.

    Raise ValueError if its models or its items were others. Say what else is not as it was.
    """
    record = read_args(directory)
    check_bases(directory, args.model)
    for split, items in splits.items():
        check_items(record, split, items)
    warn_of_other_code(directory)
    steps = record["max_steps"][-1]
    if args.max_steps != steps:
        print(
            f"note: with --max-steps {args.max_steps} in place of {steps} the learning rates and "
            "the optimism change in the middle of the run: it is compared apart from others",
            file=sys.stderr,
        )
    return record


def extended(record: dict, flags: dict) -> dict:
    """Return the record of a run that begins or goes on with these flags."""
    flags = flags | {"model": list(map(recorded_name, flags["model"]))}
    added: dict = {
        "max_steps": flags["max_steps"],
        "commands": shlex.join(["python", *sys.argv]),
        "code": code_version(flags),
    }
    for name, new in added.items():
        added[name] = list(dict.fromkeys([*record[name], new]))
    return record | {"args": flags} | added


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
    if not trained:
        return
    now = fingerprint(name)  # None: the hub's, and not on this machine yet
    if now not in (None, trained):
        raise ValueError(
            f"the model {name} is not what {whose} was trained on "
            "(other weights, config or tokenizer)"
        )


def cut_back(directory: Path, max_steps: int, weights: dict) -> int:
    """Drop what a killed run wrote after its last checkpoint, and a line that was cut.

    Return the checkpoint's steps, or 0 without one. Raise ValueError if the run cannot go on with
    so many steps and these weights, by name.
    """
    paths = [directory / name for name in ("metrics.jsonl", "samples.jsonl")]
    # All is read before anything is written: a damaged file changes nothing.
    records_of = {path: read_records(path) for path in paths}
    done = checkpoint_steps(directory, weights)
    if max_steps < done:
        raise ValueError(f"{directory} has {done} steps: --max-steps {max_steps} is behind it")
    for path, records in records_of.items():
        write_lines(path, [record for record in records if record["step"] < done])
    return done


def checkpoint_steps(directory: Path, weights: dict) -> int:
    """Return the steps of a run's checkpoint, 0 without one. Raise ValueError for other weights."""
    import torch

    from policies.loading import shapes

    path = directory / CHECKPOINT
    if not path.exists():
        return 0
    with reading(path):
        state = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
        done = state["global_step"]
        saved = shapes(state["state_dict"])
    if saved != shapes(weights):
        raise ValueError(f"{path} is of another team than args.json says (agents or adapters)")
    return done


def read_summary(directory: Path) -> dict:
    """Return a run's summary.json, {} before its end.

    A finished run that goes on writes its new --max-steps before it trains. Its summary is then of
    the end before, and is not returned.
    """
    path = directory / "summary.json"
    if not path.is_file():
        return {}
    with reading(path):
        summary = json.loads(path.read_text("utf-8"))
    is_last = summary.get("steps") == read_args(directory)["args"]["max_steps"]
    return summary if is_last else {}
