"""Score many joint responses at once, and check that the user's reward keeps its contract."""

import contextlib
import math
from concurrent.futures import Future

import numpy as np

from rewards import asks, pays_once, programs_started, total
from training import threads
from training.contract import text

ROUNDING = 1e-6  # share of its maximum by which a reward may be above it
Parts = dict[str, float]  # of a reward, by name


class RewardError(RuntimeError):
    """A reward broke its contract (rewards.py).

    args: the message, and the number of the joint response that it was given.
    """

    def __str__(self):
        return self.args[0]


class Unanswered(BaseException):
    """Ends a call of a reward at a question without an answer.

    It is not an Exception, so that the reward's own `except Exception` does not handle it.
    """


class LanguageModel:
    """The `lm` of one call of a reward, which knows the answers of earlier calls."""

    def __init__(self, answers: dict[tuple[str, str], np.ndarray]):
        self.answers = answers
        self.question: tuple[str, str] | None = None  # (prompt, text), without an answer

    def __call__(self, prompt: str, text: str) -> np.ndarray:
        if (prompt, text) not in self.answers:
            self.question = (prompt, text)
            raise Unanswered
        return self.answers[prompt, text]


class Scorer:
    """Scores joint responses with a reward. `judge` answers a reward's questions."""

    def __init__(self, reward, judge=None):
        self.reward = reward
        self.maximum = reward.maximum
        self.per_episode = pays_once(reward)
        self.judge = judge
        self.threads = threads.Threads(programs_started)

    def __call__(self, joints: list[tuple[dict, list[str]]]) -> list[Parts]:
        """Return the named parts of each (item, responses), in order.

        Equal joint responses to one item are scored once. A call that asks something new ends
        there. It is made again when the questions of all calls are answered.
        """
        keys = [(id(item), *texts) for item, texts in joints]
        numbers = {}  # of the first joint response with a key
        for number, key in enumerate(keys):
            numbers.setdefault(key, number)
        answers = {}
        scores: dict[int, Parts] = {}  # by number
        while len(scores) < len(numbers):
            waiting = [number for number in numbers.values() if number not in scores]
            calls = [LanguageModel(answers) for _ in waiting]
            arguments = [joints[number] for number in waiting]
            if asks(self.reward):
                arguments = [(*joint, lm) for joint, lm in zip(arguments, calls, strict=True)]
            questions = {}  # in the order of the calls, each once
            with contextlib.closing(self.threads.call(self.reward, arguments)) as futures:
                for number, lm, future in zip(waiting, calls, futures, strict=True):
                    if lm.question:  # whatever the reward returned or raised after it
                        questions[lm.question] = None
                    else:
                        scores[number] = _parts(future, number, self.maximum, *joints[number])
            if questions:
                answers.update(zip(questions, self.judge(list(questions)), strict=True))
        return [scores[numbers[key]] for key in keys]


def _parts(future: Future, number: int, maximum: float, item: dict, texts: list[str]) -> Parts:
    """Return the parts that a call returned. Raise RewardError if it broke the contract."""
    cause = None
    try:
        value = future.result(timeout=0)
        if not isinstance(value, dict):
            value = {"reward": value}
        parts = {text(name): float(part) for name, part in value.items()}
        problem = _broken_promise(parts, len(texts), maximum)
        if not problem:
            return parts
    except (Exception, SystemExit) as error:  # the reward is the user's code: anything may come
        cause = error
        problem = f"raised {type(error).__name__}: {error}"
        if not future.done():  # it is our own TimeoutError
            problem = f"did not answer within {threads.TIMEOUT:.0f} s"
    raise RewardError(
        f"the reward {problem}, for item {item!r} and responses {texts!r}", number
    ) from cause


def _broken_promise(parts: Parts, agents: int, maximum: float) -> str:
    """Return what is wrong with these parts, or ""."""
    team = {f"agent/{agent}" for agent in range(agents)}
    for name in parts:
        if name.startswith("agent/") and name not in team:
            return f"returned {parts}, which pays {name} in a team of {agents}"
    if not all(math.isfinite(value) for value in parts.values()):
        return f"returned {parts}"
    paid = total(parts, agents)
    if paid > maximum * (1 + ROUNDING):
        return f"returned {parts}, in all {paid:g}, which is above its maximum of {maximum:g}"
    return ""
