"""--score: any reward on joint responses from a file, wherever they come from."""

import statistics
import sys
from pathlib import Path

from rewards import RewardError, Scorer, asks
from running.bits import settle
from running.folder import json_lines, write_lines
from running.plugins import find_reward, make_task

KEYS = ("item", "responses")


def read(path: str) -> list[dict]:
    """The lines {"item": {...}, "responses": [...]} of a JSONL file; ValueError names a bad one."""
    found = []
    for number, row in json_lines(Path(path)):
        item, texts = (row.get(key) if isinstance(row, dict) else None for key in KEYS)
        whole = isinstance(texts, list) and texts and all(isinstance(t, str) for t in texts)
        if not isinstance(item, dict) or not whole:
            told = 'it needs {"item": an object, "responses": a list of texts}'
            raise ValueError(f"{path}, line {number}: {told}")
        found.append(row | {"line": number})
    if not found:
        raise ValueError(f"{path} holds no joint responses")
    return found


def score(args, main) -> str:
    """Scores the file of --score, writes --samples, tells the means. main: flags as resolved."""
    from running.heldout import worth

    rows = read(args.score)
    reward = find_reward(main, make_task(main))
    reward = Scorer(reward, judge_of(main) if asks(reward) else None)
    try:
        found = reward([(row["item"], row["responses"]) for row in rows])
    except RewardError as error:
        line = rows[error.args[2]]["line"]
        raise RewardError(f"{args.score}, line {line}: {error}", *error.args[1:]) from error
    done = []
    for row, parts in zip(rows, found, strict=True):
        row.pop("line")
        done.append(row | {"reward": worth(parts, len(row["responses"])), "parts": parts})
    if args.samples:
        write_lines(Path(args.samples), done)
    return render(done, reward.maximum)


def judge_of(main):
    """The model that the reward asks: --judge, or --model as it is."""
    from policies.judging import load_judge

    settle(main)
    judge = load_judge(main.judge or main.model[0], main)

    def told(done: int, count: int) -> None:
        print(f"\rasked {done} of {count} questions", end="", file=sys.stderr, flush=True)

    judge.told = told
    return judge


def render(rows: list[dict], maximum: float) -> str:
    lines = [f"{len(rows)} joint responses, of a maximum of {maximum:g}"]
    names = list(dict.fromkeys(name for row in rows for name in row["parts"]))
    values = {name: [row["parts"].get(name, 0.0) for row in rows] for name in names}
    for name, found in {"reward": [row["reward"] for row in rows], **values}.items():
        ranked = sorted(found)
        ends = f"least {ranked[0]:.3f}, most {ranked[-1]:.3f}"
        lines.append(f"{name:<24} mean {statistics.fmean(found):.3f}, {ends}")
    return "\n".join(lines)
