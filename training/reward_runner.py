"""Score many joint responses at once, and check that the user's reward keeps its contract.

A reward and `play` run in threads (threads.py), several calls at once. Shared values need a lock.
"""

import functools
import inspect
import itertools
import math

from policies import Mistake
from policies.judging import likelihoods
from rewards import total
from training.episodes import Step, follow
from training.threads import in_threads, quoted

ROUNDING = 1e-6  # share of its maximum by which a reward may be above it


def needed(function) -> list[str]:
    """Return the names of the arguments that a function cannot be called without."""
    parameters = inspect.signature(function).parameters.values()
    return [one.name for one in parameters if one.default is one.empty]


class Scorer:
    """Lets episodes go on, and scores many joint responses with a reward.

    reward: a function, or the task itself where its `play` pays. A batch reward with a second
    argument may ask the frozen `base`. chat: the prompts of its questions are wrapped in the chat
    template.
    """

    def __init__(self, reward, base=None, chat: bool = False):
        self.reward = reward
        self.maximum = float(reward.maximum)
        self.is_batch = getattr(reward, "batch", False)
        self.asks_base = self.is_batch and len(needed(reward)) > 1
        self.base = base if self.asks_base else None  # else nothing holds it here
        self.chat = chat
        if self.base and not self.base.lora:
            raise Mistake("the reward asks the frozen base, and --lora-rank 0 trains all weights")

    def __call__(self, joints: list[tuple]) -> list[dict]:
        """Return the named parts of each (item, responses), in order.

        Equal joint responses to one item are scored once.
        """
        keys = [(id(item), *texts) for item, texts in joints]
        calls = dict(zip(keys, joints, strict=True))
        values = dict(zip(calls, self.values(list(calls.values())), strict=True))
        scores = {key: self.checked(value, *calls[key]) for key, value in values.items()}
        return [scores[key] for key in keys]

    def values(self, calls: list[tuple]) -> list:
        """Return what the reward returns for each (item, responses). Without any: []."""
        if not calls:
            return []
        if not callable(self.reward):
            raise Mistake(
                "a task with a maximum pays by itself, and here are texts to score: give its class "
                "a reward in place of the maximum"
            )
        if not self.is_batch:
            return in_threads("the reward", self.reward, calls)
        arguments: list = [calls]
        if self.asks_base:
            arguments.append(functools.partial(likelihoods, self.base, chat=self.chat))
        values = self.reward(*arguments)
        if not isinstance(values, list) or len(values) != len(calls):
            raise Mistake(f"a batch reward returns a list of {len(calls)}, not {values!r:.200}")
        return values

    def checked(self, value, item: dict, texts: list[str]) -> dict[str, float]:
        """Return the parts of what is earned. Mistake: they break a reward's contract."""
        parts = value if isinstance(value, dict) else {"reward": value}
        agents = len(texts)
        try:
            paid = {name for name in parts if name.startswith("agent/")}
            parts = {name: float(part) for name, part in parts.items()}
            if not paid <= {f"agent/{agent}" for agent in range(agents)}:
                problem = f"in a team of {agents}"
            elif not math.isfinite(sum(parts.values())):
                problem = "which is not finite"
            elif total(parts, agents) > self.maximum * (1 + ROUNDING):
                problem = f"which is above its maximum of {self.maximum:g}"
            else:
                return parts
        except (AttributeError, OverflowError, TypeError, ValueError):
            problem = "which is neither a number nor a dict of named numbers"
        raise Mistake(f"the reward returned {value!r:.200}, {problem}, {quoted(item, texts)}")

    def starts(self, task, items: list[dict]) -> list[Step]:
        """Return the first step of an episode of each item."""
        start = functools.partial(follow, task)
        return in_threads("the task", start, [(item, []) for item in items])

    def play_on(self, task, nodes: list, goes_on: bool) -> None:
        """Set the steps of nodes that are None: what the task makes of a joint response."""
        places = []
        calls = []
        for node in nodes:
            for texts, step in node.steps.items():
                if step is None:
                    places.append((node, texts))
                    history = [*node.history, (node.asked, list(texts))]
                    calls.append((node.item, history))
        step_of = functools.partial(follow, task, goes_on=goes_on)
        steps = in_threads("the task", step_of, calls)
        for (node, texts), step in zip(places, steps, strict=True):
            node.steps[texts] = step

    def pay(self, nodes: list) -> None:
        """Set what the joint responses of nodes earn.

        Mistake: at one node the reward scores some of what `play` gave it, and not the others.
        """
        unpaid = []
        for step in itertools.chain(*(node.steps.values() for node in nodes)):
            if step.parts:
                if callable(self.reward):
                    raise Mistake(
                        "the task's `play` pays by itself: its class has a maximum and "
                        "reward = None, and --reward is left out"
                    )
                step.parts = self.checked(step.parts, *step.scored)
            elif step.scored:
                unpaid.append(step)
        scores = self([step.scored for step in unpaid])
        for step, parts in zip(unpaid, scores, strict=True):
            step.parts = parts
        for node in nodes:
            earned = [step.parts for step in node.steps.values() if step.scored]
            if any(earned) and not all(earned):
                raise Mistake(
                    "the reward scores one joint response and returns {} for another one, at turn "
                    f"{len(node.history)} of item {node.item!r:.300}: what earns nothing gets a 0"
                )
