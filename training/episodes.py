"""Follow an episode, the generator that a task's `play` returns, and check what it yields.

A generator cannot be copied, and a tree opens many futures. So an episode is played again from its
start for each of them, with the answers that it had.
"""

from dataclasses import dataclass, field

from policies import Mistake
from tasks import asks_agents

History = list[tuple[dict, list[str]]]  # of each turn: the prompts by agent, and the answers


@dataclass
class Step:
    """The next move of an episode after its turns so far, the history."""

    history: History
    asked: dict | None = None  # agent -> prompt of the next turn. None means that it ends here
    scored: tuple[dict, list[str]] | None = None  # item and texts of what is scored before that
    parts: dict = field(default_factory=dict)  # rewards by name, from `play` or the reward


def follow(task, item: dict, history: History, goes_on: bool = True) -> Step:
    """Return what an episode does after these turns.

    goes_on: whether it is followed up to its next question, or only to what it scores.
    """
    episode = task.play(item)
    if not hasattr(episode, "send"):
        raise Mistake("play has to be a generator: it does not yield")
    answers = None
    for turn, (asked, texts) in enumerate(history):
        step = move(episode, answers, item, task.num_agents)
        if step.asked != asked:
            raise Mistake(
                f"play asked {asked!r:.200} at turn {turn}, and asks {step.asked!r:.200} when it "
                "is replayed from the same answers: it has to be pure, without clock, random "
                "numbers and changes of the item"
            )
        answers = texts
    step = move(episode, answers, item, task.num_agents, goes_on)
    if not history and (step.scored or not step.asked):
        raise Mistake("play has to ask an agent before it scores or ends")
    step.history = history
    return step


def move(episode, answers, item: dict, size: int, goes_on: bool = True) -> Step:
    """Send answers to an episode. Return what it scores on the way, and who is asked next."""
    step = Step([])
    event = answers and [*answers]  # a copy, which the episode may change
    while True:
        try:
            event = episode.send(event)
        except StopIteration as end:
            if end.value is not None:
                score(step, end.value, item, answers, size)
            return step
        if asks_agents(event):
            strangers = event.keys() - set(range(size))
            if strangers:
                raise Mistake(f"play asks {strangers}, and the team has agents 0 to {size - 1}")
            step.asked = event
            return step
        score(step, event, item, answers, size)
        if not goes_on:
            return step
        event = None


def score(step: Step, event, item: dict, answers: list[str], size: int) -> None:
    """Add what an episode scores to its step. ValueError: it is not a joint response or parts."""
    if step.scored:
        raise Mistake("play scores twice at one turn: it has to ask in between")
    if isinstance(event, dict) and event:
        step.scored = (item, answers)
        step.parts = event
        return
    texts = event
    if isinstance(event, tuple) and len(event) == 2:
        item, texts = event
    kinds = [type(text) for text in texts] if isinstance(texts, list) else []
    if kinds != [str] * size:
        raise Mistake(
            f"play gave {event!r:.200}, which is neither prompts by agent, nor a list of {size} "
            "texts (or an item and such a list), nor named parts of a reward"
        )
    step.scored = (item, texts)
