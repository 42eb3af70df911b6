"""A task whose policy decides when an episode ends. There a baseline per turn index is biased.

    python train.py --task examples/credit/early.py:Early --branching chain

The program is handed in once main calls its helper. Otherwise the team gets a second try, and the
first one earns 0. It is paid once, by the reward of coop.
"""

from rewards import code
from tasks import Coop, observations


class Early(Coop):
    turns = 2
    per_episode = True
    reward = None  # `play` pays by itself
    maximum = code.maximum

    def play(self, item):
        prompts = observations(self, item, [[]] * self.num_agents)
        texts = yield prompts
        if "aux(" not in texts[-1]:
            yield {"structure": 0.0}
            texts = yield prompts
        return code(item, texts)
