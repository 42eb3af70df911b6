"""The rewards by name, and what a reward is.

    def reward(item: dict, responses: list[str]) -> float | dict[str, float]

scores one joint response; `reward.maximum` is its largest value, for normalised returns. Of a dict
the values are summed, and logged as reward/<key>; keys that start with "metric/" earn nothing, and
are logged as they are. A reward has to be pure: it is called from several threads at once, and
again where a run is resumed. One that raises, answers what is no finite number, or does not answer
ends the run (`RewardError`).

--reward takes a name of the table, a dotted path (my_pkg.my_rewards.rhymes) or file.py:function.
"""

import math
from concurrent.futures import Future, ThreadPoolExecutor

REWARDS = {
    "code": "coding.rewards.code",
    "code_paper": "coding.rewards.code_paper",
    "tldr": "writing.strict.tldr",
    "tldr_paper": "writing.paper.tldr_paper",
    "tldr_released": "writing.paper.tldr_released",
    "arxiv": "writing.strict.arxiv",
    "arxiv_paper": "writing.paper.arxiv_paper",
    "arxiv_released": "writing.paper.arxiv_released",
}
TIMEOUT = 300.0  # seconds until a reward that does not answer ends the run


class RewardError(RuntimeError):
    """(what a reward did that it must not, and what it was given; False if it still hangs)."""

    def __str__(self):
        return self.args[0]


class Scorer:
    """Scores many joint responses at once, and holds the reward, which is the user's code, to what
    it may answer."""

    def __init__(self, reward):
        self.reward, self.maximum = reward, reward.maximum
        self.pool = ThreadPoolExecutor(8, thread_name_prefix="reward")

    def __call__(self, joints: list[tuple[dict, list[str]]]) -> list[dict[str, float]]:
        """The named parts of each (item, responses), in order; RewardError ends the run."""
        futures = [self.pool.submit(self.reward, item, texts) for item, texts in joints]
        return [self._parts(*pair) for pair in zip(futures, joints, strict=True)]

    def _parts(self, future: Future, joint: tuple[dict, list[str]]) -> dict[str, float]:
        try:
            value = future.result(timeout=TIMEOUT)
            parts = value if isinstance(value, dict) else {"reward": value}
            parts = {str(name): float(part) for name, part in parts.items()}
            if all(map(math.isfinite, parts.values())):
                return parts
            problem = f"returned {parts}"
        except (Exception, SystemExit) as error:  # the reward is the user's code: anything may come
            problem = f"raised {type(error).__name__}: {error}"
            if not future.done():  # it is our own TimeoutError
                problem = f"did not answer within {TIMEOUT:.0f} s"
        item, texts = joint
        told = f"the reward {problem}, for item {item!r} and responses {texts!r}"
        raise RewardError(told, future.done())
