"""Rewards of one's own on the code tasks: each agent is paid for itself, not for the team.

    python train.py --reward examples/own_pay.py:alone --run alone
    python train.py --reward examples/own_pay.py:difference --joint aligned --run difference
    python eval.py --run runs/alone --reward code --method trained     # in the joint reward

`alone` is the POSG that arXiv 2508.04652 sets against its Dec-POMDP. Each agent is paid for what
its own response earns if its partners' are blank. The author of `solve` earns nothing by calling a
helper that is missing, and learns to do without. Nobody asks what the helper is good for.

`difference` pays each agent what the team loses without it (difference rewards): the joint reward
less that with its response blank. The part that is taken away does not depend on the agent's own
response, so the expected gradient is that of equal rewards. With --joint aligned, the partners'
luck leaves each agent's reward. With --joint cross, the part is the same for a whole group, and the
group's mean is subtracted anyway: the advantages are those of equal rewards.

`return` is what the agents are paid. metric/joint is the joint reward over its maximum.
"""

from rewards import code, total


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


alone.maximum = difference.maximum = code.maximum
