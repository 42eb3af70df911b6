"""Pay of one's own on the code tasks: two rewards in place of one for all.

`alone` is the POSG that arXiv 2508.04652 sets against its Dec-POMDP: each agent is paid for what
its own response earns with its partners' left blank. The author of `solve` earns nothing by calling
a helper that is not there, and learns to do without; nobody asks what the helper is good for.

`difference` pays each agent what the team loses without it: the joint reward less that with its
response left blank (difference rewards). What is taken away does not depend on the agent's own
response, so the expected gradient is that of equal pay. With --joint aligned the partners' luck
goes out of each agent's pay; with --joint cross it is the same for a whole group, whose mean is
taken off anyway: the advantages are those of equal pay.

    python train.py --reward examples/own_pay.py:alone --run alone
    python train.py --reward examples/own_pay.py:difference --joint aligned --run difference
    python eval.py --run runs/alone --reward code --method trained     # in the joint reward

`return` is what the agents are paid; metric/joint is the joint reward, as a share of its maximum.
"""

from rewards import code, total


def without(item, responses, absent):
    """What the team earns where these agents write nothing."""
    texts = ["" if agent in absent else text for agent, text in enumerate(responses)]
    return total(code(item, texts), len(texts))


def joint(item, responses):
    """The joint reward, and what is logged of it; it is paid to nobody here."""
    parts = code(item, responses)
    worth = total(parts, len(responses))
    logged = {name: value for name, value in parts.items() if name.startswith("metric/")}
    return worth, {"metric/joint": worth / code.maximum, **logged}


def alone(item, responses):
    _, found = joint(item, responses)
    team = set(range(len(responses)))
    return found | {f"agent/{i}": without(item, responses, team - {i}) for i in team}


def difference(item, responses):
    worth, found = joint(item, responses)
    pay = {f"agent/{i}": worth - without(item, responses, {i}) for i in range(len(responses))}
    return found | pay


alone.maximum = difference.maximum = code.maximum
