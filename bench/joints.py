"""Variance of the gradient against K of --joint, on the embedded team's own task.

    python -m bench.joints --num-agents 3 [--most 64] [--problems 6] [--rollouts 6] [--run DIR]

The policy does not change: it is the warm start, or the agents of a run. Every problem is played
several times. The same samples of a rollout get the advantages of each K, so that only the
arrangement differs. The variance is the trace of the covariance of an agent's gradient over the
rollouts of a problem, averaged over problems and agents. It is relative to that of K = 1, which
is aligned. A step that averages over B problems has 1/B of it. So "problems" is the number of
problems that a step with K = 1 needs for the same variance. The reward's seconds are for one
problem, with its cache.
"""

import argparse
import time

import torch

import train
from bench import common
from magrpo import TRAIN, Play, advantages, arrangement, sample_returns
from policies.logprobs import Row


def response_gradients(module, node, agent: int) -> torch.Tensor:
    """Return d log pi / d parameters of each of an agent's responses: (G, parameters)."""

    def backward(rows, logps, mask) -> None:
        (logps * mask).sum().backward()

    parameters = module.team.parameters_of(agent)
    gradients = []
    for response in node.responses[agent]:
        module.zero_grad()
        row = Row(agent, node.prompts[agent], response.tokens, 1.0, 1.0)
        module.team.score([row], module.sampling, backward)
        pieces = []
        for parameter in parameters:
            grad = parameter.grad
            pieces.append(torch.zeros_like(parameter) if grad is None else grad)
        gradients.append(torch.cat([piece.flatten() for piece in pieces]))
    return torch.stack(gradients)


def sample_weights(module, node, count: int) -> torch.Tensor:
    """Return the factor of each sample's gradient if K is `count`: (n, G)."""
    joints = arrangement(module.team.size, node.samples, count)  # some of node.joints
    columns = {tuple(joint): column for column, joint in enumerate(node.joints.tolist())}
    rewards = node.rewards[:, [columns[tuple(joint)] for joint in joints.tolist()]]
    future = torch.zeros(module.team.size, node.samples)
    returns = sample_returns(rewards, joints, future, 1.0)
    return (advantages(returns, module.algorithm.advantage) / node.samples).float()


def estimates(module, node, counts: list[int]) -> torch.Tensor:
    """Return each agent's estimated gradient by K: (n, counts, parameters)."""
    weights = torch.stack([sample_weights(module, node, count) for count in counts])
    gradients = []
    for agent in range(module.team.size):
        gradients.append(weights[:, agent] @ response_gradients(module, node, agent))
    return torch.stack(gradients)


def measure(module, items: list[dict], counts: list[int], rollouts: int) -> tuple[list, float]:
    """Return the variance by K, and the seconds per problem of the reward of the largest K."""
    team_size = module.team.size
    variances = torch.zeros(len(counts))
    group = module.algorithm.num_generations
    start = module.rollout.seconds["reward"]
    for number, item in enumerate(items):
        key = (0, TRAIN, 0, number * rollouts)
        batch = [item] * rollouts
        [nodes] = module.rollout(batch, key, module.sampling, Play(group, counts[-1]))
        by_rollout = [estimates(module, node, counts) for node in nodes]
        for agent in range(team_size):
            gradients = torch.stack([tensor[agent] for tensor in by_rollout])
            variances += gradients.var(0).sum(-1) / team_size / len(items)
    seconds = module.rollout.seconds["reward"] - start
    return variances.tolist(), seconds / len(items) / rollouts


def variance_table(flags, num_agents: int) -> None:
    """Print the variance by K for a team of so many agents."""
    start = time.perf_counter()
    argv = ["--num-agents", str(num_agents), "--eval-limit", "none"]
    if flags.run:
        argv += ["--init", flags.run]
    args = train.parse(argv)
    module, _ = train.build(args)
    group = args.num_generations
    counts = [1]
    while 2 * counts[-1] <= min(flags.most, group ** (num_agents - 1)):
        counts.append(2 * counts[-1])
    items = module.problems[: flags.problems]
    variances, seconds = measure(module, items, counts, flags.rollouts)
    print(f"\n{num_agents} agents, G {group}; reward of K {counts[-1]}: {seconds:.2f} s")
    print("   K  joint responses  variance  problems")
    for count, variance in zip(counts, variances, strict=True):
        ratio = variance / variances[0]
        print(f"{count:4} {count * group:16} {ratio:9.2f} {1 / ratio:9.1f}")
    print(f"{time.perf_counter() - start:.0f} s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--num-agents", type=int, nargs="+", default=[2, 3, 4])
    parser.add_argument("--most", type=int, default=64, help="largest K")
    parser.add_argument("--problems", type=int, default=6)
    parser.add_argument("--rollouts", type=int, default=6, help="rollouts of each problem")
    parser.add_argument("--run", help="run whose agents play (default: the warm start)")
    flags = parser.parse_args()
    print(common.machine())
    for num_agents in flags.num_agents:
        variance_table(flags, num_agents)


if __name__ == "__main__":
    main()
