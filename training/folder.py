"""A run on disk: what train.py writes into runs/<name>/ and what eval.py and --resume read from it.
The README lists the files; `lock` is held by the process that writes there."""

import contextlib
import dataclasses
import hashlib
import itertools
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from importlib.metadata import version
from pathlib import Path

from policies.finding import fingerprint, located, recorded_name

try:
    import fcntl
except ModuleNotFoundError:  # both programs come here before they need anything else of Unix
    program = Path(sys.argv[0]).name
    print(f"{program}: error: this needs Linux, macOS or, on Windows, WSL", file=sys.stderr)
    sys.exit(2)

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("torch", "lightning", "transformers", "peft", "bitsandbytes", "datasets")
CHECKPOINT = "checkpoints/last.ckpt"


def run_folder(name: str) -> Path:
    """A run that is given as its folder, or as its name in runs/."""
    here, there = Path(name), Path("runs") / name
    return there if there.is_dir() and not (here / "args.json").is_file() else here


def agent_folder(directory: Path, agent: int, flags: dict) -> Path:
    """Where a run with these flags saves an agent; those of one policy share a folder."""
    return directory / "agents" / str(policy_of(agent, flags))


def policy_of(agent: int, flags: dict) -> int:
    """The agent by which a run with these flags knows an agent's policy."""
    return flags["model"].index(flags["model"][agent]) if flags.get("share") else agent


def has_agents(directory: Path, flags: dict) -> bool:
    """Return whether agents/ holds the agents of the run's last step. While a run that had ended
    goes on, its agents/ are older than its checkpoint."""
    agents = range(flags["num_agents"])
    if not all(agent_folder(directory, agent, flags).is_dir() for agent in agents):
        return False
    if not (directory / CHECKPOINT).is_file():
        return True
    path = directory / "summary.json"
    if not path.is_file():
        return False
    with reading(path):  # a run that goes on writes its new --max-steps before it trains
        return json.loads(path.read_text())["steps"] == flags["max_steps"]


def checkpoint(resumed: str | None) -> Path | None:
    """Return the checkpoint of the run of --resume, if it has one already."""
    if not resumed:
        return None
    path = run_folder(resumed) / CHECKPOINT
    return path if path.exists() else None


def refuse_name(name: str) -> Path:
    """Return the folder of --run; ValueError where it exists."""
    path = Path(name) if "/" in name else Path("runs") / name
    if path.exists():
        raise ValueError(f"{path} already holds a run: choose another --run or --resume {path}")
    return path


def new_directory(run: str | None, task: str) -> Path:
    """Make runs/<run>, or the first free runs/<task>-<number>; never one that exists."""
    if run:
        path = refuse_name(run)
        path.mkdir(parents=True)
        return path
    stem = Path(task.replace(":", ".")).name
    for number in itertools.count(1):
        path = Path("runs") / f"{stem}-{number}"
        with contextlib.suppress(FileExistsError):
            path.mkdir(parents=True)
            return path


@contextlib.contextmanager
def lock_run_folder(directory: Path):
    """Holds a run's lock, which ends with the process; ValueError where another one has it."""
    with (directory / "lock").open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            message = f"another process is at work on {directory}: wait for its end, or stop it"
            raise ValueError(message) from error
        except OSError:  # a file system without locks, as on some clusters
            pass
        yield


def write_json(path: Path, value) -> None:
    write_whole(path, json.dumps(value, indent=1, ensure_ascii=False) + "\n")


def write_lines(path: Path, records: Iterable[dict]) -> None:
    write_whole(path, "".join(json.dumps(r, ensure_ascii=False) + "\n" for r in records))


def write_whole(path: Path, text: str) -> None:
    """Writes a file whole or not at all; a device or a pipe is written to, and stays what it is."""
    if path.exists() and not path.is_file():
        path.write_text(text)
        return
    draft = path.with_name(path.name + ".tmp")
    draft.write_text(text)
    os.replace(draft, path)


def json_lines(path: Path) -> Iterator[tuple[int, dict]]:
    """(number, object) of each line of a JSONL file; ValueError names one that is none. Only
    newlines end a line: str.splitlines would split a text at U+2028, too."""
    number = 0
    try:
        for number, line in enumerate(path.read_text(encoding="utf-8-sig").split("\n"), 1):
            if line.strip():
                yield number, json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}, line {number}: not one JSON object ({error})") from error


@contextlib.contextmanager
def reading(path: Path):
    """ValueError names the file, whatever goes wrong in it."""
    try:
        yield
    except Exception as error:  # of json, torch, zip, pickle
        why = f"{type(error).__name__}: {error}"[:200]
        raise ValueError(f"{path} is damaged, bring back a copy ({why})") from error


def read_args(directory: Path) -> dict:
    """A run's args.json: {"args": every flag, "bases": fingerprints, "code": versions, ...}. The
    embedded models have their paths in this clone."""
    path = directory / "args.json"
    if not path.is_file():
        raise ValueError(f"{directory}: there is no run (no {path}); give a folder in runs/")
    with reading(path):
        record = json.loads(path.read_text())
        record["args"]["num_agents"]
        set_model_names(record, located)
    return record


def set_model_names(record: dict, name_of: Callable[[str], str]) -> None:
    """Replace the name of each model in the content of args.json."""
    flags = record["args"]
    flags["model"] = list(map(name_of, flags["model"]))
    if flags.get("judge"):
        flags["judge"] = name_of(flags["judge"])
    fingerprints = record.get("bases", {})
    record["bases"] = {name_of(name): value for name, value in fingerprints.items()}


def write_args(directory: Path, args) -> None:
    """Write args.json of a run with these flags, a dataclass."""
    flags = dataclasses.asdict(args)
    command = shlex.join(["python", *sys.argv])
    record = {
        "args": flags,
        "versions": {"python": sys.version.split()[0]} | {name: version(name) for name in PACKAGES},
        "command": command,
        "resumed": [],
        "bases": {name: fingerprint(name) for name in [*args.model, args.judge] if name},
        "code": [code_version(flags)],  # of every process that went on with it
    }
    if args.resume:
        warn_of_other_code(directory)
        before = read_args(directory)
        record["code"] = list(dict.fromkeys([*before["code"], *record["code"]]))
        record["command"] = before["command"]
        record["resumed"] = [*before["resumed"], command]
    set_model_names(record, recorded_name)
    write_json(directory / "args.json", record)


def code_version(flags: dict) -> str:
    """Return the last commit that changed this code (not its pages or tests), and a hash of what
    differs from it: uncommitted changes, and the plug-in files that the flags name."""
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
    """Return what git says of the code; b"" where there is no git."""
    command = ["git", *arguments, "--", "*.py", ":!tests"]
    try:
        return subprocess.run(command, cwd=ROOT, capture_output=True).stdout
    except FileNotFoundError:
        return b""


def warn_of_other_code(directory: Path) -> None:
    record = read_args(directory)
    if (now := code_version(record["args"])) not in record["code"]:
        message = f"{directory} was trained by code {', '.join(record['code'])}, and this is {now}"
        print(f"warning: {message}", file=sys.stderr)


def check_bases(directory: Path, models: list[str], judge: str | None) -> None:
    """Raise ValueError where a run's agents were trained on other models than these."""
    record = read_args(directory)
    before = [*record["args"]["model"], record["args"].get("judge")]
    for trained, name in zip(before, [*models, judge], strict=True):
        check_base(record.get("bases", {}).get(trained), name, directory)


def check_base(trained: str | None, name: str | None, whose: Path) -> None:
    """Raises ValueError where a model is not the one with the fingerprint `trained`. An adapter on
    another base of the same shape would load, and be worth nothing."""
    now = fingerprint(name) if trained else None  # None: unknown, or the hub's and not here yet
    if now not in (None, trained):
        why = "other weights, config or tokenizer"
        raise ValueError(f"the model {name} is not what {whose} was trained on ({why})")


def cut_back(directory: Path, args, module) -> int:
    """Drop what a killed run wrote after its last checkpoint, and a line that was cut.

    Returns the checkpoint's steps, 0 if there is none. ValueError where the run cannot go on.
    """
    check_bases(directory, args.model, args.judge)
    files = [directory / name for name in ("metrics.jsonl", "samples.jsonl")]
    lines_of = {path: read_lines(path) for path in files}
    done = 0
    if (directory / CHECKPOINT).exists():
        done, _ = read_checkpoint(directory, module.state_dict())
    if args.max_steps < done:
        behind = f"--max-steps {args.max_steps} is behind it"
        raise ValueError(f"{directory} has {done} steps: {behind}")
    for path, lines in lines_of.items():
        write_whole(path, "".join(f"{line}\n" for step, line in lines if step < done))
    return done


def read_checkpoint(directory: Path, trained: dict, prefix: str = "") -> tuple[int, dict]:
    """(steps, weights) of a run's checkpoint whose names have the prefix; trained: those that it
    has to have, by name."""
    import torch

    path = directory / CHECKPOINT
    with reading(path):
        state = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
        step, kept = state["global_step"], state["state_dict"]
        weights = {name: value for name, value in kept.items() if name.startswith(prefix)}
        shapes = {name: value.shape for name, value in weights.items()}
    if shapes != {name: value.shape for name, value in trained.items()}:
        raise ValueError(f"{path} is of another team than args.json says (agents or adapters)")
    return step, weights


def newest_run() -> Path | None:
    """The run in runs/ that was started or resumed last."""
    found = Path("runs").glob("*/args.json")
    newest = max(found, key=lambda file: file.stat().st_mtime, default=None)
    return newest and newest.parent


def read_records(path: Path) -> list[dict]:
    """The lines of a run's file, read; none where there is no file yet."""
    return [json.loads(line) for _, line in read_lines(path)]


def read_lines(path: Path) -> list[tuple[int, str]]:
    """(step, line) of a run's file, without a last line that was cut by a kill."""
    text = path.read_text(errors="replace") if path.exists() else ""
    with reading(path):
        return [(int(json.loads(line)["step"]), line) for line in text.split("\n")[:-1]]
