"""What a reward, which is the user's code, may answer."""

import math

REWARD_TIMEOUT = 300.0  # seconds until a reward that does not answer ends the run


class RewardError(RuntimeError):
    """(what a reward did that it must not, and what it was given; False if it still hangs)."""

    def __str__(self):
        return self.args[0]


def total(answer: float | dict[str, float]) -> float:
    """What a reward's answer earns: all of its parts but those that are named metric/..."""
    if not isinstance(answer, dict):
        return float(answer)
    return sum(value for name, value in answer.items() if "/" not in name)


def reward_parts(future, item: dict, texts: list[str]) -> dict[str, float]:
    """The reward's answer as named finite numbers, or RewardError."""
    try:
        value = future.result(timeout=REWARD_TIMEOUT)
        parts = value if isinstance(value, dict) else {"reward": value}
        parts = {str(name): float(part) for name, part in parts.items()}
        if all(map(math.isfinite, parts.values())):
            return parts
        problem = f"returned {parts}"
    except (Exception, SystemExit) as error:  # the reward is the user's code: anything may come
        problem = f"raised {type(error).__name__}: {error}"
        if not future.done():  # it is our own TimeoutError
            problem = f"did not answer within {REWARD_TIMEOUT:.0f} s"
    told = f"the reward {problem}, for item {item!r} and responses {texts!r}"
    raise RewardError(told, future.done())
