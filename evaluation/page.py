"""Write runs as one page: curves, schemes, and joint responses by step.

page.html is the template. A page holds the data of its runs, and works without a network.
"""

import json
import time
from pathlib import Path

from training import run_folder

PAUSE = 15  # seconds between two versions of a page that is watched


def write_page(names: list[str], watched: bool = False) -> Path:
    """Write page.html beside the first run, and return its path.

    watched: a browser that shows the page loads it again and again.
    Raise ValueError if a file of this name is there that is not such a page.
    """
    template = Path(__file__).with_name("page.html").read_text("utf-8")
    folders = run_folder.run_folders(names)
    runs = list(map(read_run, folders))
    path = folders[0].resolve().parent / "page.html"
    first_line = template.partition("\n")[0]
    if path.exists() and not path.read_text("utf-8", "replace").startswith(first_line):
        raise ValueError(f"{path} is not a page of eval.py and would be lost: move it")
    data = {"runs": runs, "reload": PAUSE if watched else None}
    # JavaScript reads Python's NaN and Infinity. Without a "<", no text ends the script.
    text = json.dumps(data).replace("<", "\\u003c")
    run_folder.write_whole(path, template.replace("/* the data */ {}", text))
    return path


def keep_up(names: list[str]) -> None:
    """Write the page again and again until its runs are finished."""
    while not all(map(run_folder.read_summary, run_folder.run_folders(names))):
        time.sleep(PAUSE)
        write_page(names, watched=True)
    write_page(names)


def read_run(directory: Path) -> dict:
    """Return what the page shows of a run."""
    summary = run_folder.read_summary(directory)
    samples = run_folder.read_records(directory / "samples.jsonl")
    examples = [dict(example) for example in summary.get("example", {}).values()]
    prompts = {}  # each list of prompts once: the samples of a group share it
    for record in [*samples, *examples]:
        asked = tuple(record["prompts"])
        record["prompts"] = prompts.setdefault(asked, len(prompts))
    return {
        "name": str(directory),
        "record": run_folder.read_args(directory),
        "rows": run_folder.read_records(directory / "metrics.jsonl"),
        "samples": samples,
        "examples": examples,
        "prompts": list(prompts),
        "summary": summary,
    }
