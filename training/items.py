"""Check the items of a task: that a run knows them, and that their prompts can be used."""

import hashlib
import json

from policies import Mistake
from training.episodes import follow


def digest(value) -> str:
    """Return a hash of a split's items, in their order, or of another value that JSON can say."""
    text = json.dumps(value, sort_keys=True, default=repr)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def check_items(record: dict, split: str, items: list[dict]) -> None:
    """Raise ValueError if these are not the items that a run had in a split.

    record: the run's args.json. The problems of another list may be those that the agents were
    trained on.
    """
    if record["items"][split] != digest(items):
        raise Mistake(
            f"the items of {split} are not those that the run was trained with: --data has other "
            "rows, --num-agents changes them, or the task does not return the same list each time "
            "(the order of a set changes)"
        )


def repeated(splits: dict[str, list], field: str) -> list[str]:
    """Return the names of the held-out problems that stand in train, too.

    field: that of an item with the problem's text. Items without it are one problem where they are
    equal but for the task_id.
    """

    def problem(item):
        return str(item.get(field) or item | {"task_id": None})

    trained = set(map(problem, splits["train"]))
    both = [item for item in splits["dev"] + splits["test"] if problem(item) in trained]
    return [str(item.get("task_id") or problem(item)) for item in both]


def check_prompts(rollout, items) -> None:
    """Raise ValueError if a prompt of the items' first turn cannot be used whole.

    Also where `play` does not ask, or `begin` does not give a text. An error says for which item.
    """
    for item in items:
        try:
            for agent, prompt in follow(rollout.task, item, []).asked.items():
                if rollout.task.begin(agent, item) is None:
                    raise Mistake("begin() gave None, not a text")
                rollout.encode(agent, item, prompt)
        except Exception as error:
            error.add_note(f"(item {item!r:.300})")
            raise
