"""A task whose policy decides when an episode ends. There a baseline per turn index is biased.

    python train.py --task examples/credit/early.py:Early --branching chain

The program is handed in once main calls its helper. Otherwise the team gets a second try, and the
first one earns nothing.
"""

from tasks import Coop, observations


class Early(Coop):
    turns = 2
    per_episode = True

    def play(self, item):
        prompts = observations(self, item, [[]] * self.num_agents)
        texts = yield prompts
        if "aux(" not in texts[-1]:
            texts = yield prompts
        return texts
