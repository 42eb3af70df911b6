"""Score the joint responses of a file with any reward.

    python examples/score.py FILE [--reward NAME] [--task NAME] [--model NAME]

A line of the file is `{"item": {...}, "responses": ["...", ...]}`. It prints each line with its
reward and the reward's parts. A reward that asks a language model asks --model.
"""

import json
import sys
from dataclasses import replace

import train
from policies import Mistake
from policies.loading import load_base
from policies.model_names import TeamOptions
from programs.rows import file_rows
from rewards import total
from training.defaults import resolve_bits
from training.flags import Parser, part_of
from training.plugins import find_reward, make_task
from training.reward_runner import Scorer
from training.terminal import fail

TOP = Parser("score.py", __doc__)
TOP.add_argument("file")


def score(argv: list[str]) -> list[dict]:
    """Return the lines of a file with their rewards."""
    args = TOP.parse_args(argv[:1])
    options = train.parse(argv[1:])
    scorer = Scorer(find_reward(make_task(options)))
    if scorer.asks_base:
        resolve_bits(options)
        team = replace(part_of(options, TeamOptions), lora_rank=0)
        scorer.base = load_base(options.model[0], [0], team)
        scorer.chat = options.chat_template
    rows = []
    for number, row in file_rows(args.file):
        item = row.get("item")
        texts = row.get("responses")
        fits = isinstance(item, dict) and isinstance(texts, list) and texts
        if not fits or not all(isinstance(text, str) for text in texts):
            raise Mistake(
                f"{args.file}, row {number}: 'item' has to be an object, and 'responses' a list of "
                "texts"
            )
        rows.append(row)
    try:
        scores = scorer([(row["item"], row["responses"]) for row in rows])
    except KeyError as error:
        raise Mistake(f"{args.file}: a line, or its item, has no field {error}") from error
    for row, parts in zip(rows, scores, strict=True):
        row["reward"] = total(parts, len(row["responses"]))
        row["parts"] = parts
    return rows


if __name__ == "__main__":
    try:
        for row in score(sys.argv[1:]):
            print(json.dumps(row))
    except Exception as error:
        fail(TOP, error)
