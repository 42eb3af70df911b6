"""--score: any reward on joint responses from a file, wherever they come from."""

import statistics
from pathlib import Path

from evaluation.players import settings
from evaluation.report import align
from rewards import asks
from training.bits import settle
from training.folder import json_lines, write_lines
from training.heldout import worth
from training.plugins import find_reward, make_task
from training.scoring import RewardError, Scorer


def read(path: str) -> list[tuple[int, dict]]:
    """(number, {"item": {...}, "responses": [...]}) of each line; ValueError names a bad one."""
    found = list(json_lines(Path(path)))
    for number, row in found:
        match row:
            case {"item": dict(), "responses": list(texts)} if set(map(type, texts)) == {str}:
                continue
        message = 'it needs {"item": an object, "responses": a list of texts}'
        raise ValueError(f"{path}, line {number}: {message}")
    if not found:
        raise ValueError(f"{path} holds no joint responses")
    return found


def score(args) -> str:
    """Scores the file of --score, writes --samples, tells the means."""
    main = settings(args, None)
    numbers, rows = zip(*read(args.score), strict=True)
    reward = find_reward(main, make_task(main))
    reward = Scorer(reward, judge_of(main) if asks(reward) else None)
    try:
        found = reward([(row["item"], row["responses"]) for row in rows])
    except RewardError as error:
        line = numbers[error.args[2]]
        raise RewardError(f"{args.score}, line {line}: {error}", *error.args[1:]) from error
    done = [
        row | {"reward": worth(parts, len(row["responses"])), "parts": parts}
        for row, parts in zip(rows, found, strict=True)
    ]
    if args.samples:
        write_lines(Path(args.samples), done)
    return render(done, reward.maximum)


def judge_of(main):
    """The model that the reward asks: --judge, or --model as it is."""
    from policies.judging import load_judge

    settle(main)
    return load_judge(main.judge or main.model[0], main)


def render(rows: list[dict], maximum: float) -> str:
    names = dict.fromkeys(name for row in rows for name in row["parts"])
    values = {name: [row["parts"].get(name, 0.0) for row in rows] for name in names}
    table = [["", "mean", "least", "most"]]
    for name, found in {"reward": [row["reward"] for row in rows], **values}.items():
        table.append([name, *(f"{of(found):.3f}" for of in (statistics.fmean, min, max))])
    return f"{len(rows)} joint responses, of a maximum of {maximum:g}\n{align(table)}"
