"""List runs: how far each came, what it reached, and the flags in which those of a task differ."""

from collections import defaultdict
from datetime import datetime
from pathlib import Path

from evaluation.groups import in_words, read_run, variation
from evaluation.report import align, cell
from training.run_folder import read_args, state

WRITTEN = ("args.json", "metrics.jsonl", "summary.json")
FOOT = """running: a process holds the run's lock
unfinished: it was stopped, or it failed, and --resume goes on
before, after: the held-out returns of a finished run
date: the time of the last write"""


def list_runs(folders: list[Path], defaults: dict) -> dict[str, dict]:
    """Return a row for each run, by its folder. defaults: all flags of train.py."""
    rows = {}
    by_task = defaultdict(list)
    for directory in folders:
        flags = read_args(directory)["args"]
        run = read_run(directory, defaults)
        run.traits["--seed"] = run.seed
        by_task[flags["task"]].append(run)
        files = [directory / name for name in WRITTEN]
        written = max(file.stat().st_mtime for file in files if file.exists())
        rows[str(directory)] = {
            "task": flags["task"],
            "state": state(directory),
            "steps": len(run.steps),
            "max_steps": flags["max_steps"],
            "before": run.summary.get("before", {}).get("return"),
            "after": run.summary.get("after", {}).get("return"),
            "date": datetime.fromtimestamp(written).isoformat(" ", "minutes"),
        }
    for runs in by_task.values():
        differing = [trait for trait in variation(runs) if trait.startswith("--")]
        for run in runs:
            rows[str(run.directory)]["flags"] = {name: run.traits[name] for name in differing}
    return rows


def render(rows: dict[str, dict]) -> str:
    """Return the list as text."""
    lines = {}
    for name, row in rows.items():
        lines[name] = {
            "task": row["task"],
            "state": row["state"],
            "steps": f"{row['steps']} of {row['max_steps']}",
            "before": cell(row["before"], None),
            "after": cell(row["after"], None),
            "date": row["date"],
            "flags that differ": " ".join(in_words(*flag) for flag in row["flags"].items()),
        }
    return f"{align('run', lines)}\n\n{FOOT}"
