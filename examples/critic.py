"""A learned baseline instead of the group's mean: a critic on the frozen base's hidden state.

    python examples/critic.py independent --advantage none --run independent
    python examples/critic.py independent --resume runs/independent

The critic's kind comes first, then the flags of train.py. The value of a prompt is a linear
function of the hidden state after its last token. "independent" takes the agent's own prompt,
"centralised" the prompts of all agents side by side. Ridge regression fits it to the returns of
earlier steps, the older the less. So it does not depend on a sample of its own step, and the
gradient stays unbiased. The checkpoint contains what it has learned.
"""

import sys
from pathlib import Path

import torch
from torch import nn
from transformers.cache_utils import DynamicCache

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import magrpo
import train

FORGET = 0.9  # weight of a step one step later
RIDGE = 1.0  # pull of the coefficients to 0


@torch.no_grad()
def states(base, prompts):
    """Return the frozen base's last hidden state after each prompt: (prompts, hidden)."""
    width = max(map(len, prompts))
    ids = [prompt + (0,) * (width - len(prompt)) for prompt in prompts]  # on the right: unseen
    places = torch.arange(width, device=base.device)[None]
    with base.acting(None, width):
        hidden = base.hidden(torch.tensor(ids, device=base.device), places, DynamicCache())
    return hidden[torch.arange(len(ids)), [len(prompt) - 1 for prompt in prompts]].double()


class Critic(magrpo.MAGRPO):
    kind = "independent"

    def __init__(self, team, *options):
        super().__init__(team, *options)
        if self.algorithm.advantage != "none" or not team.options.lora_rank:
            raise ValueError("the critic needs --advantage none, and a frozen base (--lora-rank)")
        sizes = [team.base_of[agent].net.config.hidden_size for agent in range(team.size)]
        if self.kind == "centralised":
            sizes = [sum(sizes)] * team.size
        self.sums = nn.ParameterList()  # each agent's X'X beside X'R, of X and a constant
        for size in sizes:
            self.sums.append(nn.Parameter(torch.zeros(size + 1, size + 2).double()))

    def set_advantages(self):
        nodes = [node for turn in self.turns for node in turn]
        inputs = []
        for agent in range(self.team.size):
            prompts = [node.prompts[agent] for node in nodes]
            inputs.append(states(self.team.base_of[agent], prompts))
        if self.kind == "centralised":
            inputs = [torch.cat(inputs, 1)] * self.team.size
        values = torch.stack([self.fit(agent, x, nodes).cpu() for agent, x in enumerate(inputs)])
        for node, baseline in zip(nodes, values.T, strict=True):  # (n,)
            node.advantages = node.returns - baseline[:, None]

    @torch.no_grad()
    def fit(self, agent, x, nodes):
        """Return the values of these prompts by earlier steps, then learn from their returns."""
        sums = self.sums[agent]
        x = torch.cat([x, torch.ones_like(x[:, :1])], 1)
        eye = RIDGE * torch.eye(len(sums), dtype=sums.dtype, device=sums.device)
        values = x @ torch.linalg.solve(sums[:, :-1] + eye, sums[:, -1])
        returns = x.new_tensor([float(node.returns[agent].mean()) for node in nodes])
        sums.mul_(FORGET).add_(x.T @ torch.cat([x, returns[:, None]], 1))
        return values


if __name__ == "__main__":
    if sys.argv[1:2] not in (["independent"], ["centralised"]):
        train.parser().error("critic.py needs its kind first: independent or centralised")
    Critic.kind = sys.argv[1]
    magrpo.MAGRPO = Critic
    train.main(sys.argv[2:])
