"""The naive loop of MAGRPO, to read first: python examples/loop.py

Two agents learn to divide Python problems. A step samples, scores every pair of their responses,
computes advantages, takes one step on the loss and prints. The weights are exactly those of
`python train.py --eval-limit none`, which a test compares.

It leaves out what train.py and magrpo.py add. There is one turn, without feedback. There are two
agents of one model, one advantage, one loss and one kind of joint responses. It has no checkpoints,
no held-out evaluation, and no metric but the mean reward. It runs in one process, samples without a
server, and its batch has to fit into the memory.
"""

import torch
from numpy.random import default_rng

from policies.logprobs import Row
from policies.model_names import EMBEDDED, TeamOptions
from policies.sampling import Sampling
from policies.team import Team
from rewards import code, total
from tasks import Coop
from training.acceleration import accelerate

SEED = 0
STEPS = 130
BATCH = 12  # problems of a step
G = 8  # responses of each agent to a problem
TOKENS = 96  # largest number of tokens of a response
RATE = 3e-3
AGENTS = (0, 1)
SAMPLING = Sampling(1.0, 0, 1.0, TOKENS)  # temperature 1, no top-k, no top-p


def add_gradients(rows, logps, mask):
    """Add the gradient of the loss: minus the batch's mean of A log pi. logps, mask: (R, T)."""
    coef = torch.tensor([row.coef for row in rows])
    (-coef @ (logps * mask).sum(1)).backward()


def train():
    """Return the trained team."""
    torch.manual_seed(SEED)  # of the adapters' first weights
    team = Team(TeamOptions([str(EMBEDDED)] * 2))
    accelerate(team.bases)
    encode = team.bases[0].codec.encode
    task = Coop()
    items = default_rng((SEED, 2, 0)).permutation(task.items("train"))
    groups = [{"params": team.parameters_of(agent)} for agent in AGENTS]
    optimizer = torch.optim.Adam(groups, betas=(0.9, 0.99), fused=True)
    for step in range(STEPS):
        optimism = max(1 - 2 * step / STEPS, 0)
        rows = []
        earned = 0.0
        for number in range(BATCH):
            # Sample. Each agent sees its own prompt alone.
            item = items[step * BATCH + number]
            prompts = [encode(task.observe(i, item, []), False, 2048) for i in AGENTS]
            uniforms = default_rng((SEED, 0, step, number)).random((2, G, TOKENS))
            responses = team.sample([*enumerate(prompts)], torch.from_numpy(uniforms), SAMPLING)
            # Score every pair of responses: (G, G), agent 0's by agent 1's.
            first, second = responses
            pairs = [[total(code(item, [a.text, b.text]), 2) for b in second] for a in first]
            rewards = torch.DoubleTensor(pairs)
            earned += rewards.mean()
            # A response returns the mean over its pairs, and at first their maximum.
            for agent, table in enumerate((rewards, rewards.T)):
                mean = table.mean(1)
                returns = mean + optimism * (table.amax(1) - mean)
                advantages = (returns - returns.mean()).tolist()
                for g, advantage in enumerate(advantages):
                    if abs(advantage) > 1e-9:  # the others teach nothing
                        tokens = responses[agent][g].tokens
                        rows.append(Row(agent, prompts[agent], tokens, advantage, 1 / BATCH / G))
        optimizer.zero_grad()
        team.score(rows, SAMPLING, add_gradients)
        for group in optimizer.param_groups:
            torch.nn.utils.clip_grad_norm_(group["params"], 1.0)
            group["lr"] = RATE * (1 - 0.9 * (step / STEPS))
        optimizer.step()
        print(f"step {step + 1}: reward {earned / BATCH:.3f} of 4")
    return team


if __name__ == "__main__":
    train()
