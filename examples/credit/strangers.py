"""Agents that meet several partners: can they play with those whom they never met?

    python train.py --task examples/credit/strangers.py:Strangers --num-agents 6 --joint aligned
    python examples/crossplay.py RUN RUN ...      # helpers of one run, mains of another

The task is `coop` for pairs. The first half of the agents writes helpers, the second half writes
main functions, and each helper meets each main. An agent earns the mean over its partners, and
`metric/both` is the share of pairs whose program passes and needs both functions.
"""

import statistics

from rewards import code, total
from tasks import Coop, Task


class Strangers(Task):
    reward = f"{__file__}:meet"

    def __init__(self, num_agents=6):
        if num_agents % 2:
            raise ValueError(f"as many helpers as mains: not {num_agents} agents")
        self.half = num_agents // 2
        self.pair = Coop(num_agents=2)

    def items(self, split):
        return self.pair.items(split)

    def observe(self, agent, item, history):
        return self.pair.observe(agent // self.half, item, history)

    def feedback(self, item, responses):
        return [""] * len(responses)


def meet(item, responses):
    """Pay each agent the mean of what it earns with its partners."""
    half = len(responses) // 2
    earned = {agent: [] for agent in range(2 * half)}
    both = []
    for helper in range(half):
        for main in range(half, 2 * half):
            parts = code(item, [responses[helper], responses[main]])
            for agent in (helper, main):
                earned[agent].append(total(parts, 2))
            both.append(parts["metric/coop"])
    parts = {f"agent/{agent}": statistics.fmean(values) for agent, values in earned.items()}
    return {**parts, "metric/both": statistics.fmean(both)}


meet.maximum = code.maximum
