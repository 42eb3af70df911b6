"""A learned baseline in place of the group's mean: a critic on the frozen base's hidden state.

The value of an agent's prompt is a linear function of the state that the frozen base has after its
last token: "independent", of the agent's own prompt, or "centralised", of all agents' prompts, side
by side. It is fitted by ridge regression to the returns of earlier steps, the older the less, so it
depends on no sample of its own step, and the gradient stays unbiased. What it has learned is in the
checkpoint. Train as ever, with the critic's kind first:

    python examples/critic.py independent --advantage none --run independent
    python examples/critic.py independent --resume runs/independent
"""

import sys
from pathlib import Path

import torch
from torch import nn
from transformers.cache_utils import DynamicCache

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import magrpo
import train

FORGET, RIDGE = 0.9, 1.0  # weight of a step after the next one; pull of the coefficients to 0


@torch.no_grad()
def states(base, prompts):
    """The frozen base's last hidden state after each prompt: (prompts, hidden)."""
    width = max(map(len, prompts))
    ids = [prompt + (0,) * (width - len(prompt)) for prompt in prompts]  # on the right: unseen
    places = torch.arange(width, device=base.device)[None]
    with base.acting(None, width):
        hidden = base.hidden(torch.tensor(ids, device=base.device), places, DynamicCache())
    return hidden[torch.arange(len(ids)), [len(prompt) - 1 for prompt in prompts]].double()


class Critic(magrpo.MAGRPO):
    kind = "independent"

    def __init__(self, team, task, reward, problems, args):
        super().__init__(team, task, reward, problems, args)
        if args.advantage != "none" or not args.lora_rank:
            raise ValueError("the critic needs --advantage none, and a frozen base (--lora-rank)")
        sizes = [team.base_of[agent].net.config.hidden_size for agent in range(team.size)]
        sizes = [sum(sizes)] * team.size if self.kind == "centralised" else sizes
        shapes = [(size + 1, size + 2) for size in sizes]  # X'X beside X'R, of X and a constant
        self.sums = nn.ParameterList(nn.Parameter(torch.zeros(s).double()) for s in shapes)

    def set_advantages(self):
        nodes = [node for turn in self.turns for node in turn]
        seen = [
            states(self.team.base_of[agent], [node.prompts[agent] for node in nodes])
            for agent in range(self.team.size)
        ]
        if self.kind == "centralised":
            seen = [torch.cat(seen, 1)] * self.team.size
        values = [self.fit(agent, x, nodes) for agent, x in enumerate(seen)]
        for number, node in enumerate(nodes):
            baseline = torch.stack([value[number] for value in values])  # (n,)
            node.advantages = node.returns - baseline[:, None].cpu()

    @torch.no_grad()
    def fit(self, agent, x, nodes):
        """The values of these prompts by what came before them; then learns from their returns."""
        x, sums = torch.cat([x, torch.ones_like(x[:, :1])], 1), self.sums[agent]
        eye = RIDGE * torch.eye(len(sums), dtype=sums.dtype, device=sums.device)
        values = x @ torch.linalg.solve(sums[:, :-1] + eye, sums[:, -1])
        returns = x.new_tensor([float(node.returns[agent].mean()) for node in nodes])
        sums.mul_(FORGET).add_(x.T @ torch.cat([x, returns[:, None]], 1))
        return values


if __name__ == "__main__":
    if sys.argv[1:2] not in (["independent"], ["centralised"]):
        train.parser().error("critic.py needs its kind first: independent or centralised")
    Critic.kind, magrpo.MAGRPO = sys.argv[1], Critic
    train.main(sys.argv[2:])
