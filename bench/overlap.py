"""Find the problems that two code tasks share, before one of them is a test set for the other.

    python -m bench.overlap mbpppro mbpp_pro.jsonl humanevalpro humaneval_pro.jsonl

The arguments are a task and its file, twice; a `-` in place of a file stands for the hub. Listed
are the pairs that name a function alike, or whose texts share a fifth of their five-word runs.
Whether a listed pair is one problem is for a reader to say.
"""

import re
import sys

from programs.extraction import part_names
from training.plugins import task_class

RUN = 5  # words
SHARE = 0.2  # of the shorter text's runs


def problems(task: str, data: str) -> list[dict]:
    return task_class(task)(None if data == "-" else data, 1).problems


def runs(text: str) -> set[tuple[str, ...]]:
    """Return all runs of five words of a text."""
    words = re.findall(r"[a-z0-9]+", text.lower())
    return {tuple(words[start : start + RUN]) for start in range(len(words) - RUN + 1)}


def shared(first: dict, second: dict) -> list[str]:
    """Return why two problems may be one."""
    reasons = sorted({*part_names(first, 1)} & {*part_names(second, 1)} - {"aux"})
    texts = runs(first["prompt"]), runs(second["prompt"])
    common = len(texts[0] & texts[1]) / max(min(map(len, texts)), 1)
    if common >= SHARE:
        reasons.append(f"{common:.0%} of the words")
    return reasons


def main(first_task: str, first_data: str, second_task: str, second_data: str) -> None:
    others = problems(second_task, second_data)
    pairs = 0
    for first in problems(first_task, first_data):
        for second in others:
            if reasons := shared(first, second):
                pairs += 1
                names = f"{first['task_id']} {second['task_id']}"
                print(f"{names}: {', '.join(reasons)}")
                print(f"  {first['prompt'].strip().splitlines()[0]:.90}")
                print(f"  {' '.join(second['prompt'].split()):.90}")
    print(f"{pairs} pairs look alike")


if __name__ == "__main__":
    main(*sys.argv[1:])
