"""Score many joint responses at once, and check that the user's reward keeps its contract.

A reward, `advance` and `feedback` run in threads, several calls at once. Shared values need a lock.
"""

import itertools
import math
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait

from rewards import total

LIMIT = 300.0  # seconds until a function that does not answer ends the run
ROUNDING = 1e-6  # share of its maximum by which a reward may be above it
RUNNING: set[int] = set()  # the threads that are at work on a call
Parts = dict[str, float]  # of a reward, by name


class Scorer:
    """Scores joint responses with a reward. The frozen `base` answers a reward's questions.

    chat: the prompts of the questions are wrapped in the chat template.
    """

    def __init__(self, reward, base=None, chat: bool = False):
        self.reward = reward
        self.maximum = float(reward.maximum)
        self.per_episode = getattr(reward, "per_episode", False)
        self.questions = getattr(reward, "questions", None)
        self.base = base
        self.chat = chat
        self.pool = ThreadPoolExecutor()

    def __call__(self, joints: list[tuple[dict, list[str]]]) -> list[Parts]:
        """Return the named parts of each (item, responses), in order.

        Equal joint responses to one item are scored once.
        """
        keys = [(id(item), *texts) for item, texts in joints]
        distinct = dict(zip(keys, joints, strict=True))
        calls = list(distinct.values())
        if self.questions:
            calls = self.answered(calls)
        values = self.run("the reward", self.reward, calls)
        scores = {}
        for (key, joint), value in zip(distinct.items(), values, strict=True):
            scores[key] = _parts(value, self.maximum, *joint)
        return [scores[key] for key in keys]

    def answered(self, calls: list[tuple]) -> list[tuple]:
        """Return the calls with the answers to their questions. Each distinct one is asked once."""
        from policies.judging import likelihoods  # here, so that --help stays fast

        asked = [self.questions(*call) for call in calls]
        distinct = list(dict.fromkeys(itertools.chain(*asked)))
        answers = dict(zip(distinct, likelihoods(self.base, distinct, self.chat), strict=True))
        answered = []
        for call, questions in zip(calls, asked, strict=True):
            answered.append((*call, [answers[question] for question in questions]))
        return answered

    def map(self, name: str, function: Callable, items: list[dict], texts: list[list[str]]) -> list:
        """Return function(item, texts) of each joint response, for `advance` and `feedback`."""
        answers = self.run(name, function, list(zip(items, texts, strict=True)))
        for answer, responses in zip(answers, texts, strict=True):
            agents = len(responses)
            if name == "feedback" and (isinstance(answer, str) or len(answer) != agents):
                raise ValueError(f"feedback has to return {agents} texts, not {answer!r:.60}")
        return answers

    def run(self, name: str, function: Callable, calls: list[tuple]) -> list:
        """Return function(item, texts, ...) of each call. An error's note has what was given."""
        futures: list[Future] = []
        answers = []
        try:
            for call in calls:
                futures.append(self.pool.submit(_noted, function, call))
            for future, (item, texts, *_) in zip(futures, calls, strict=True):
                for _ in range(int(LIMIT)):
                    if wait([future], timeout=1).done:  # a signal is handled each second
                        break
                try:
                    answers.append(future.result(timeout=0))
                except Exception as error:
                    given = f"({name}, for item {item!r} and responses {texts!r})"
                    if not future.done():
                        late = f"{name} did not answer within {LIMIT:.0f} s"
                        raise ValueError(f"{late} {given}") from None
                    error.add_note(given)
                    raise
        finally:  # an error or a signal does not wait for the calls that have not begun
            for future in futures:
                future.cancel()
        return answers


def _noted(function: Callable, call: tuple):
    """Return function(*call). This thread is in RUNNING until then."""
    thread = threading.get_ident()
    RUNNING.add(thread)
    try:
        return function(*call)
    finally:
        RUNNING.discard(thread)


def _parts(value, maximum: float, item: dict, texts: list[str]) -> Parts:
    """Return the parts of a reward. Raise ValueError if they break its contract (rewards.py)."""
    parts = value if isinstance(value, dict) else {"reward": value}
    agents = len(texts)
    strangers = {name for name in parts if name.startswith("agent/")}
    strangers -= {f"agent/{agent}" for agent in range(agents)}
    try:
        parts = {name: float(part) for name, part in parts.items()}
        if strangers:
            problem = f"in a team of {agents}"
        elif not all(map(math.isfinite, parts.values())):
            problem = "which is not finite"
        elif total(parts, agents) > maximum * (1 + ROUNDING):
            problem = f"which is above its maximum of {maximum:g}"
        else:
            return parts
    except (TypeError, ValueError):
        problem = "which is neither a number nor a dict of numbers"
    raise ValueError(
        f"the reward returned {value!r}, {problem}, for item {item!r} and responses {texts!r}"
    )
