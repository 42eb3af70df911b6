"""Write runs as one page: curves, schemes, and joint responses by step.

page.html is the template. A page holds the data of its runs, and works without a network.
"""

import json
import re
import time
from pathlib import Path

from training import run_folder

PAUSE = 15  # seconds between two versions of a page that is watched


def write_page(names: list[str], watched: bool = False) -> Path:
    """Write page.html into the folder of the first run, and return its path.

    watched: a browser that shows the page loads it again and again.
    """
    folders = run_folder.run_folders(names)
    data = {
        "runs": list(map(read_run, folders)),
        "reload": PAUSE if watched else None,
        "glossary": glossary(),
    }
    # JavaScript reads Python's NaN and Infinity. Without a "<", no text ends the script.
    text = json.dumps(data).replace("<", "\\u003c")
    template = Path(__file__).with_name("page.html").read_text("utf-8")
    page = template.replace("/* the data */ {}", text)
    path = folders[0] / "page.html"
    run_folder.write_whole(path, page)
    return path


def keep_up(names: list[str]) -> None:
    """Write the page again and again until its runs are finished."""
    while any(run_folder.state(run) != "finished" for run in run_folder.run_folders(names)):
        time.sleep(PAUSE)
        write_page(names, watched=True)
    write_page(names)


def glossary() -> list[tuple[str, str]]:
    """Return what tables of docs/ say about metrics and schemes: patterns of names, with texts."""
    lines = []
    for page in ("metrics", "evaluating"):
        text = (run_folder.ROOT / f"docs/{page}.md").read_text("utf-8")
        text = re.sub(r"\]\(.+?\)|[\[`]", "", text)  # links and code
        for names, meaning in re.findall(r"^\| ([^|]+) \| ([^|]+) \|$", text, re.MULTILINE):
            for name in names.split(", "):
                fixed = re.split("<.+?>", name.removeprefix("or ").removeprefix("/"))
                lines.append(("[^/]+".join(map(re.escape, fixed)), meaning))
    return lines


def read_run(directory: Path) -> dict:
    """Return what the page shows of a run."""
    return {
        "name": str(directory),
        "record": run_folder.read_args(directory),
        "rows": run_folder.read_records(directory / "metrics.jsonl"),
        "samples": run_folder.read_records(directory / "samples.jsonl"),
        "summary": run_folder.read_json(directory, "summary.json"),
    }
