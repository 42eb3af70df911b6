"""Score many joint responses at once, and check that the user's reward keeps its contract.

A reward, `advance` and `feedback` run in threads (threads.py), several calls at once. Shared values
need a lock.
"""

import math

from policies import Mistake
from policies.judging import likelihoods
from rewards import total
from training.threads import in_threads

ROUNDING = 1e-6  # share of its maximum by which a reward may be above it


class Scorer:
    """Scores joint responses with a reward. The frozen `base` answers a reward's questions.

    chat: the prompts of the questions are wrapped in the chat template.
    """

    def __init__(self, reward, base=None, chat: bool = False):
        self.reward = reward
        self.maximum = float(reward.maximum)
        self.per_episode = getattr(reward, "per_episode", False)
        self.questions = getattr(reward, "questions", None)
        self.base = base if self.questions else None  # else nothing holds it here
        self.chat = chat
        if self.base and not self.base.lora:
            raise Mistake("the reward asks the frozen base, and --lora-rank 0 trains all weights")

    def __call__(self, joints: list[tuple]) -> list[dict]:
        """Return the named parts of each (item, responses), in order.

        Equal joint responses to one item are scored once.
        """
        keys = [(id(item), *texts) for item, texts in joints]
        calls = dict(zip(keys, joints, strict=True))
        if self.questions:
            questions = []
            for call in calls.values():
                questions += self.questions(*call)
            self.answers = likelihoods(self.base, questions, self.chat)
        answers = in_threads("the reward", self.score, calls.values())
        scores = dict(zip(calls, answers, strict=True))
        return [scores[key] for key in keys]

    def score(self, item: dict, texts: list[str]) -> dict[str, float]:
        """Return the parts of the reward. ValueError: they break its contract (rewards.py)."""
        answers = []
        if self.questions:
            questions = self.questions(item, texts)
            answers = [[self.answers[question] for question in questions]]
        value = self.reward(item, texts, *answers)
        parts = value if isinstance(value, dict) else {"reward": value}
        agents = len(texts)
        try:
            strangers = {name for name in parts if name.startswith("agent/")}
            strangers -= {f"agent/{agent}" for agent in range(agents)}
            parts = {name: float(part) for name, part in parts.items()}
            if strangers:
                problem = f"in a team of {agents}"
            elif not math.isfinite(sum(parts.values())):
                problem = "which is not finite"
            elif total(parts, agents) > self.maximum * (1 + ROUNDING):
                problem = f"which is above its maximum of {self.maximum:g}"
            else:
                return parts
        except (AttributeError, TypeError, ValueError):
            problem = "which is neither a number nor a dict of named numbers"
        raise Mistake(f"the reward returned {value!r}, {problem}")

    def outcomes(self, task, calls: list[tuple]) -> list[tuple]:
        """Return the next item and the feedback that a task has for each (item, texts)."""

        def outcome(item, texts):
            next_item = task.advance(item, texts)
            if next_item is None:  # at the end nobody would read the feedback, which may be costly
                return None, []
            feedback = task.feedback(item, texts)
            if not isinstance(feedback, (list, tuple)) or len(feedback) != len(texts):
                raise Mistake(f"feedback has to return {len(texts)} texts, not {feedback!r:.60}")
            return next_item, feedback

        return in_threads("the task", outcome, calls)
