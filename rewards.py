"""The rewards by name, and what a reward is.

    def reward(item: dict, responses: list[str]) -> float | dict[str, float]

scores one joint response; `reward.maximum` is its largest value, for normalised returns. Of a dict
the values are summed, and logged as reward/<key>; keys that start with "metric/" earn nothing, and
are logged as they are. "agent/<i>" is paid to agent i alone, on top of that sum, and is logged as
agent/<i>/reward; what is logged as return, and has a maximum, is then the sum plus the mean of the
agents' own. A key that one response lacks and another has counts as 0. {} says that this turn is
not scored. A reward has to be pure: it is called from several threads at once, and again where a
run is resumed. One that raises, answers what is no finite number or more than its maximum, or does
not answer ends the run (`RewardError`).

A reward with `needs_model = True` may ask a language model: it is called as reward(item, responses,
lm), and lm(prompt, text) gives the log-probabilities of the text's tokens after the prompt, as an
array, from the frozen base of the team or from --judge. Each distinct question of a step is
answered once, in a batch with all others: a reward is first run with zeros in place of answers, to
hear what it asks, and what it then returns or raises is dropped.

--reward takes a name of the table, a dotted path (my_pkg.my_rewards.rhymes) or file.py:function.
A bare name (code, tldr, strbuild) is the strict reward, to train with; <name>_paper is as the paper
describes it, to compare with its figures; <name>_released as its authors' code computes it, to
repeat their runs.
"""

import math
import time
from concurrent.futures import Future, ThreadPoolExecutor, wait

REWARDS = {
    "code": "programs.rewards.code",
    "code_paper": "programs.rewards.code_paper",
    "classeval": "examples.classeval.classeval.classeval",
    "tldr": "writing.rewards.tldr",
    "tldr_paper": "writing.paper.tldr_paper",
    "tldr_released": "writing.paper.tldr_released",
    "arxiv": "writing.rewards.arxiv",
    "arxiv_paper": "writing.paper.arxiv_paper",
    "arxiv_released": "writing.paper.arxiv_released",
    "build": "examples.building.rewards.build_together",
    "strbuild": "examples.building.rewards.strbuild",
    "strbuild_paper": "examples.building.rewards.strbuild_paper",
    "housebuild": "examples.building.rewards.housebuild",
    "housebuild_paper": "examples.building.rewards.housebuild_paper",
}
TIMEOUT = 300.0  # seconds until a reward that does not answer ends the run
ROUNDING = 1e-6  # share of its maximum by which a reward may be above it


def asks(reward) -> bool:
    """Whether a reward asks a language model."""
    return getattr(reward, "needs_model", False)


def logged(part: str) -> str:
    """The name of a reward's part in metrics and tables."""
    if part.startswith("agent/"):
        return f"{part}/reward"
    return part if part.startswith("metric/") else f"reward/{part}"


def total(parts: dict[str, float], agents: int) -> float:
    """Return what has the maximum: the sum of the parts, plus the mean of the agents' own."""
    team = sum(v for name, v in parts.items() if not name.startswith(("metric/", "agent/")))
    return team + sum(v for name, v in parts.items() if name.startswith("agent/")) / agents


class RewardError(RuntimeError):
    """A reward broke its promise. args: the message; whether its call has returned (False: it still
    hangs); the number of the joint response that it was given."""

    def __str__(self):
        return self.args[0]


class Scorer:
    """Scores many joint responses at once, and holds the reward, which is the user's code, to what
    it may answer. judge: answers the questions of a reward that needs a model."""

    def __init__(self, reward, judge=None):
        self.reward, self.maximum, self.judge = reward, reward.maximum, judge
        self.needs_model = asks(reward)
        self.pool = ThreadPoolExecutor(8, thread_name_prefix="reward")
        self.seconds = 0.0  # that the judge took in the latest call

    def __call__(self, joints: list[tuple[dict, list[str]]]) -> list[dict[str, float]]:
        """The named parts of each (item, responses), in order; RewardError ends the run."""
        self.seconds, answers = 0.0, {}
        found: dict[int, dict[str, float]] = {}
        while left := [number for number in range(len(joints)) if number not in found]:
            asked = [Questions(answers) for _ in left]
            futures = [
                self.pool.submit(self.reward, *joints[number], *[lm] * self.needs_model)
                for number, lm in zip(left, asked, strict=True)
            ]
            for number, lm, future in zip(left, asked, futures, strict=True):
                wait([future], timeout=TIMEOUT)
                if not lm.new:
                    found[number] = _parts(future, number, self.maximum, *joints[number])
            if new := list(dict.fromkeys(question for lm in asked for question in lm.new)):
                start = time.perf_counter()
                answers |= zip(new, self.judge(new), strict=True)
                self.seconds += time.perf_counter() - start
        return [found[number] for number in range(len(joints))]


class Questions:
    """The `lm` of one call of a reward: gives the answers that are known, and notes what is new."""

    def __init__(self, answers: dict):
        self.answers, self.new = answers, []

    def __call__(self, prompt: str, text: str) -> "np.ndarray":  # noqa: F821
        if (prompt, text) in self.answers:
            return self.answers[prompt, text]
        import numpy as np  # not where names alone are looked up

        self.new.append((prompt, text))
        return np.zeros(len(text.split()))


def _parts(
    future: Future, number: int, maximum: float, item: dict, texts: list[str]
) -> dict[str, float]:
    cause = None
    try:
        value = future.result(timeout=0)
        parts = value if isinstance(value, dict) else {"reward": value}
        parts = {str(name): float(part) for name, part in parts.items()}
        problem = _broken_promise(parts, len(texts), maximum)
        if not problem:
            return parts
    except (Exception, SystemExit) as error:  # the reward is the user's code: anything may come
        cause, problem = error, f"raised {type(error).__name__}: {error}"
        if not future.done():  # it is our own TimeoutError
            problem = f"did not answer within {TIMEOUT:.0f} s"
    message = f"the reward {problem}, for item {item!r} and responses {texts!r}"
    raise RewardError(message, future.done(), number) from cause


def _broken_promise(parts: dict[str, float], agents: int, maximum: float) -> str:
    """Return what is wrong with these parts, in words; "" where nothing is."""
    team = {f"agent/{agent}" for agent in range(agents)}
    strangers = [name for name in parts if name.startswith("agent/") and name not in team]
    if strangers:
        return f"returned {parts}, which pays {strangers[0]} in a team of {agents}"
    if not all(map(math.isfinite, parts.values())):
        return f"returned {parts}"
    paid = total(parts, agents)
    if paid > maximum * (1 + ROUNDING):
        return f"returned {parts}, in all {paid:g}, which is above its maximum of {maximum:g}"
    return ""
