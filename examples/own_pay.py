"""Rewards of one's own on the code tasks. Each agent is paid for itself, not only for the team.

    python train.py --reward examples/own_pay.py:alone --run alone
    python train.py --reward examples/own_pay.py:difference --joint aligned --run difference
    python train.py --reward examples/own_pay.py:shapley --run shapley
    python train.py --reward examples/own_pay.py:mixed --run mixed
    python eval.py --run runs/alone --reward code --method trained     # in the joint reward

`alone` is the POSG that arXiv 2508.04652 sets against its Dec-POMDP. Each agent is paid for what
its own response earns if its partners' are blank. The author of `solve` earns nothing by calling a
helper that is missing, and learns to do without. Nobody asks what the helper is good for.

`difference` pays each agent what the team loses without it (difference rewards): the joint reward
less that with its response blank. The part that is taken away does not depend on the agent's own
response, so the expected gradient is that of equal rewards. With --joint aligned, the partners'
luck leaves each agent's reward. With --joint cross --optimism 0, the part is the same for a whole
group, and the group's mean is subtracted anyway: the advantages are those of equal rewards.

`shapley` pays each agent its Shapley value: what it adds to a team that forms one by one, the mean
over all orders. The others are blank. All values add up to the joint reward, less that of blanks.
Each first place is working alone, so with two agents half of the gradient is that of `alone`.
(SHARP, arXiv 2602.08335, pays such a value on top of the joint reward.)

`mixed` adds what an agent earns alone to the joint reward (AT-GRPO, arXiv 2510.11062, there with
rewards of each role). Its largest return is (1 + ALPHA) times that of `code`.

`return` is what the agents are paid. metric/joint is the joint reward over its maximum.
"""

import itertools
import math

from rewards import code, total

ALPHA = 1.0  # of `mixed`: the weight of an agent's own reward


def joint(item, responses, absent=()):
    """Return the joint reward and its metrics; absent agents write nothing."""
    texts = ["" if agent in absent else text for agent, text in enumerate(responses)]
    parts = code(item, texts)
    reward = total(parts, len(texts))
    metrics = {name: value for name, value in parts.items() if name.startswith("metric/")}
    return reward, {"metric/joint": reward / code.maximum, **metrics}


def alone(item, responses):
    _, parts = joint(item, responses)
    team = set(range(len(responses)))
    for agent in team:
        parts[f"agent/{agent}"], _ = joint(item, responses, team - {agent})
    return parts


def difference(item, responses):
    reward, parts = joint(item, responses)
    for agent in range(len(responses)):
        without, _ = joint(item, responses, {agent})
        parts[f"agent/{agent}"] = reward - without
    return parts


def shapley(item, responses):
    size = len(responses)
    _, parts = joint(item, responses)
    worth = {}  # of each coalition: its joint reward
    for count in range(size + 1):
        for absent in itertools.combinations(range(size), count):
            worth[frozenset(absent)], _ = joint(item, responses, absent)
    for agent in range(size):
        parts[f"agent/{agent}"] = 0.0
        for absent in worth:
            if agent in absent:  # the coalition that it joins has the others who are not absent
                orders = math.factorial(size - len(absent)) * math.factorial(len(absent) - 1)
                gain = worth[absent - {agent}] - worth[absent]
                parts[f"agent/{agent}"] += gain * orders / math.factorial(size)
    return parts


def mixed(item, responses):
    reward, parts = joint(item, responses)
    own = alone(item, responses)
    for agent in range(len(responses)):
        parts[f"agent/{agent}"] = ALPHA * own[f"agent/{agent}"]
    return {"team": reward, **parts}


alone.maximum = difference.maximum = shapley.maximum = code.maximum
mixed.maximum = (1 + ALPHA) * code.maximum
