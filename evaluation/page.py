"""Write runs as one page: curves, schemes, and joint responses by step. page.html is its template.

The page holds the data of its runs, and works without a network.
"""

import json
from pathlib import Path

from policies.finding import recorded_name
from training.folder import (
    read_args,
    read_records,
    read_summary,
    reading,
    run_folder,
    set_model_names,
    write_whole,
)

TEMPLATE = Path(__file__).with_name("page.html")
PLACE = "/* the runs */ []"  # in the template's script, where the data goes


def write_page(names: list[str]) -> Path:
    """Write page.html beside the first run, and return its path.

    Raise ValueError if a file of this name is there that is not such a page.
    """
    template = TEMPLATE.read_text()
    head = template.partition("\n")[0]
    runs = [read_run(run_folder(name)) for name in names]
    path = run_folder(names[0]).resolve().parent / "page.html"
    if path.exists() and not path.read_text(errors="replace").startswith(head):
        raise ValueError(f"{path} is not a page of --html and would be lost: move it")
    write_whole(path, template.replace(PLACE, script_value(runs)))
    return path


def script_value(value) -> str:
    """Return a value as an expression of JavaScript, whose NaN and Infinity are Python's.

    Without a "<", no text in it can end the script or open a comment.
    """
    return json.dumps(value).replace("<", "\\u003c")


def read_run(directory: Path) -> dict:
    """Return what the page shows of a run."""
    record = read_args(directory)
    set_model_names(record, recorded_name)
    rows = read_records(directory / "metrics.jsonl")
    if not rows:
        raise ValueError(f"{directory}: no step was made")
    path = directory / "samples.jsonl"
    samples = read_records(path)
    prompts = {}  # each list of prompts, once: the samples of a group share it
    with reading(path):
        for sample in samples:
            sample["prompts"] = prompts.setdefault(tuple(sample["prompts"]), len(prompts))
    return {
        "name": str(directory),
        "record": record,
        "rows": rows,
        "samples": samples,
        "prompts": list(prompts),
        "summary": read_summary(directory),
    }
