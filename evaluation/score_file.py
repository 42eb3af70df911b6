"""--score: any reward on joint responses from a file, wherever they come from."""

from dataclasses import replace
from pathlib import Path

from policies.model_names import TeamOptions
from rewards import total
from training.defaults import resolve_bits
from training.flags import part_of
from training.plugins import TaskOptions, find_reward, make_task
from training.reward_runner import Scorer
from training.run_folder import json_lines, write_lines


def read(path: str) -> dict[int, dict]:
    """Return the rows of a file by their line numbers. ValueError names a bad line.

    A row is {"item": {...}, "responses": [...]}.
    """
    rows = dict(json_lines(Path(path)))
    for number, row in rows.items():
        match row:
            case {"item": dict(), "responses": list(texts)} if set(map(type, texts)) == {str}:
                continue
        raise ValueError(
            f'{path}, line {number}: it needs {{"item": an object, "responses": a list of texts}}'
        )
    if not rows:
        raise ValueError(f"{path} holds no joint responses")
    return rows


def score(flags, file: str, samples: str | None) -> str:
    """Score a file and return the table of the means.

    `flags` are those of train.py, resolved. `samples` is a file that gets each line with its score.
    """
    rows = read(file)
    reward = find_reward(make_task(part_of(flags, TaskOptions)))
    scorer = scorer_of(flags, reward)
    joints = [(row["item"], row["responses"]) for row in rows.values()]
    scores = scorer(joints)
    scored = []
    for row, parts in zip(rows.values(), scores, strict=True):
        reward = total(parts, len(row["responses"]))
        scored.append(row | {"reward": reward, "parts": parts})
    if samples:
        write_lines(Path(samples), scored)
    return render(scored, scorer.maximum)


def scorer_of(flags, reward) -> Scorer:
    """Return a scorer without a team. A reward asks --model as it is."""
    from policies.loading import device, load_base
    from training.acceleration import accelerate

    if not hasattr(reward, "questions"):
        return Scorer(reward)
    resolve_bits(flags)
    options = replace(part_of(flags, TeamOptions), lora_rank=0)
    base = load_base(flags.model[0], [0], options)
    accelerate([base])
    return Scorer(reward, base.to(device()), flags.chat_template)


def render(rows: list[dict], maximum: float) -> str:
    """Return the table of the rewards and of their parts, of what is scored.

    A reward returns {} for what it does not score.
    """
    import pandas  # comes with datasets

    values = [{"reward": row["reward"]} | row["parts"] for row in rows if row["parts"]]
    if not values:
        raise ValueError("the reward scores no line: it returned {} each time")
    frame = pandas.DataFrame(values).fillna(0.0)
    table = frame.agg(["mean", "min", "max"]).T
    table.columns = ["mean", "least", "most"]
    text = table.map("{:.3f}".format).to_string()
    left_out = len(rows) - len(values)
    note = f"; {left_out} are not scored" if left_out else ""
    return f"{len(values)} joint responses, of a maximum of {maximum:g}{note}\n{text}"
