"""Variance of the gradient against K of --joint, on the embedded team's own task.

    python -m bench.joints --num-agents 3 [--most 64] [--problems 6] [--rollouts 6] [--run DIR]
    python -m bench.joints --cost 2 8     # a step with 2 agents beside one with 8, K = 2

The policy stays as it is: the warm start, or the agents of a run. Every problem is played several
times; of each rollout the same samples are given the advantages of each K in turn, so that only the
arrangement differs. The variance of an agent's gradient is the trace of its covariance over the
rollouts of a problem, meaned over problems and agents, and stands beside that of K = 1, aligned. A
step that averages over B problems has 1/B of it, so "problems" says how many problems a step with
K = 1 would need for the same. Seconds are those of the reward, with its cache, for one problem.
"""

import argparse
import itertools
import math
import statistics
import tempfile
import time
from pathlib import Path

import torch

import train
from bench import common
from magrpo import TRAIN, advantages, arrangement, sample_returns
from policies.scoring import Row


def gradients(module, node, agent: int) -> torch.Tensor:
    """d log pi / d parameters of each of an agent's responses: (G, parameters)."""

    def backward(rows, logps, mask) -> None:
        (logps * mask).sum().backward()

    parameters, found = module.team.parameters_of(agent), []
    for response in node.responses[agent]:
        module.zero_grad()
        row = Row(agent, node.prompts[agent], response.tokens, 1.0, 1.0)
        module.team.score([row], module.sampling, backward)
        grads = (p.grad if p.grad is not None else torch.zeros_like(p) for p in parameters)
        found.append(torch.cat([grad.flatten() for grad in grads]))
    return torch.stack(found)


def estimates(module, node, counts: list[int]) -> list[torch.Tensor]:
    """Each agent's estimated gradient by K: (counts, parameters)."""
    size, group = module.team.size, node.samples
    place = {tuple(joint): number for number, joint in enumerate(node.joints.tolist())}
    values = []
    for count in counts:
        joints = arrangement(size, group, count)
        pay = node.pay[:, [place[tuple(joint)] for joint in joints.tolist()]]
        returns = sample_returns(pay, joints, torch.zeros(size, group), 1.0)
        values.append(advantages(returns, module.args.advantage) / group)
    weights = torch.stack(values).float()  # (counts, n, G)
    return [weights[:, agent] @ gradients(module, node, agent) for agent in range(size)]


def measure(module, items: list[dict], counts: list[int], rollouts: int) -> tuple[list, float]:
    """(variance by K, meaned over problems and agents; seconds of the reward of the largest K)."""
    total, seconds, group = torch.zeros(len(counts)), 0.0, module.args.num_generations
    for number, item in enumerate(items):
        key = (0, TRAIN, 0, number * rollouts)
        start = module.rollout.seconds["reward"]
        [nodes] = module.rollout([item] * rollouts, key, group, module.sampling, counts[-1], False)
        seconds += module.rollout.seconds["reward"] - start
        by_rollout = [estimates(module, node, counts) for node in nodes]
        for agent in range(module.team.size):
            found = torch.stack([grads[agent] for grads in by_rollout])  # (rollouts, counts, P)
            total += found.var(0).sum(-1) / module.team.size / len(items)
    return total.tolist(), seconds / len(items) / rollouts


def cost(sizes: list[int], rounds: int = 5) -> None:
    """CPU seconds of a step by the number of agents, in turn, on the toy of bench.step."""
    texts, seconds = common.prompts(64, 64, 512), {agents: [] for agents in sizes}
    with tempfile.TemporaryDirectory() as folder:
        common.make_model(Path(folder), 512)
        argv = ["--joint", "2", "--batch-size", "4"]
        teams = {agents: common.ours(folder, texts, agents, 1, argv) for agents in sizes}
        for turn, agents in itertools.product(range(rounds + 1), sizes):
            start = time.process_time()
            teams[agents].step()
            seconds[agents] += [time.process_time() - start] if turn else []
    first = statistics.median(seconds[sizes[0]])
    for agents, found in seconds.items():
        middle = statistics.median(found)
        print(f"{agents} agents: {middle:.2f} s a step, {middle / first:.2f} of the first")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--num-agents", type=int, nargs="+", default=[2, 3, 4])
    parser.add_argument("--most", type=int, default=64, help="largest K")
    parser.add_argument("--problems", type=int, default=6)
    parser.add_argument("--rollouts", type=int, default=6, help="of each problem")
    parser.add_argument("--run", help="whose agents play (the warm start)")
    parser.add_argument("--cost", type=int, nargs="+", help="numbers of agents, timed instead")
    flags = parser.parse_args()
    print(common.machine())
    if flags.cost:
        return cost(flags.cost)
    for agents in flags.num_agents:
        argv = ["--num-agents", str(agents), "--eval-limit", "none"]
        args = train.parse(argv + ["--init", flags.run] * bool(flags.run))
        module, _ = train.build(args)
        most = min(flags.most, args.num_generations ** (agents - 1))
        counts = [2**i for i in range(int(math.log2(most)) + 1)]
        start = time.perf_counter()
        found, seconds = measure(module, module.problems[: flags.problems], counts, flags.rollouts)
        print(f"\n{agents} agents, G {args.num_generations}; reward of K {most}: {seconds:.2f} s")
        print("   K  joint responses  variance  problems")
        for count, variance in zip(counts, found, strict=True):
            share = variance / found[0]
            joints = count * args.num_generations
            print(f"{count:4} {joints:16} {share:9.2f} {1 / share:9.1f}", flush=True)
        print(f"{time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
