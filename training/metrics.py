"""Compute what is logged of a step from its rollout. docs/metrics.md explains the names."""

import itertools
import math
import resource
import sys
from collections import defaultdict
from collections.abc import Iterable

import numpy as np
import torch

from policies import processes
from policies.loading import device
from policies.logprobs import CAP, Row, gaps
from rewards import EQUAL, largest_return, logged

Measures = dict[str, float]  # by their names in metrics.jsonl
KL_PROBLEMS = 2  # whose first responses are compared with the frozen base


def measure(module) -> Measures:
    """Return the metrics of the step that `module` has just made."""
    nodes = list(itertools.chain(*module.turns))
    scores = itertools.chain(*(node.parts for node in nodes))
    metrics: dict = {"return": np.mean(problem_returns(module.turns, module.rollout))}
    metrics |= mean_parts(list(filter(None, scores)))
    metrics |= group_measures(module)
    for turn, turn_nodes in enumerate(module.turns):
        rewards = [node.team_rewards.mean() for node in turn_nodes]
        metrics[f"turn_{turn}/reward"] = np.mean(rewards)
    if module.rollout.episode.turns > 1:
        metrics |= lengths(module.turns)
    # A full copy leaves no base to compare with, and KL is of distributions without truncation.
    truncated = module.sampling.top_p < 1 or module.sampling.top_k
    if module.team.options.lora_rank and not truncated:
        metrics |= divergences(module, nodes)
    metrics["responses"] = sum(len(node.asked) * node.samples for node in nodes)
    for agent in range(module.team.size):
        metrics |= completions(nodes, agent)
    metrics |= {f"grad_norm/{name}": norm for name, norm in module.norms.items()}
    metrics |= logp_differences(module)
    metrics["skipped"] = module.skipped > 0
    rates = {f"lr/{name}": rate for name, rate in module.rates.items()}
    metrics |= rates if len(set(rates.values())) > 1 else {"lr": rates["lr/0"]}
    metrics |= module.scalars
    seconds = module.rollout.seconds
    metrics |= {f"seconds/{name}": value for name, value in seconds.items()}
    metrics["seconds/step"] = sum(seconds.values())
    metrics["tokens_per_second"] = sampled_tokens(nodes) / seconds["rollout"]
    return {name: float(value) for name, value in metrics.items()}


def completions(nodes: list, agent: int) -> Measures:
    """Return the measures of an agent's responses, {} where it did not speak."""
    responses = []
    for node in nodes:
        if node.prompts[agent]:
            responses += node.responses[agent]
    if not responses:
        return {}
    tokens = sum(len(response.tokens) for response in responses)
    cut_off = sum(not response.ended for response in responses)
    return {
        f"completions/{agent}/mean_length": tokens / len(responses),
        f"completions/{agent}/clipped_ratio": cut_off / len(responses),
        f"entropy/{agent}": sum(sum(response.entropies) for response in responses) / tokens,
    }


def sampled_tokens(nodes: Iterable) -> int:
    """Return the number of tokens that all agents sampled at these nodes."""
    responses = itertools.chain(*itertools.chain(*(node.responses for node in nodes)))
    return sum(len(response.tokens) for response in responses)


def memory_gib() -> float:
    """Return this process's peak memory in GiB, on its GPU or else resident."""
    if device().type == "cuda":
        return torch.cuda.max_memory_allocated() / 2**30
    unit = 1 if sys.platform == "darwin" else 2**10  # of getrusage, bytes
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**30


def group_measures(module) -> dict:
    """Return how the rewards within a group differ, and the share of groups that teach something.

    The agent whose rewards differ most counts. A group teaches if a response of an
    agent that learns has an advantage. An agent that did not speak has none.
    """
    groups = module.groups()
    spreads = []  # standard deviations of the groups that are scored
    for group in list(filter(is_scored, groups)) or groups:
        rewards = torch.cat([node.rewards for node in group], 1)  # (n, joint responses)
        spreads.append(rewards.std(1, correction=0).max())
    deviations = torch.stack(spreads)
    learning = []
    for group in groups:
        advantages = []
        for node, agent in itertools.product(group, range(module.team.size)):
            if node.prompts[agent] and agent not in module.algorithm.freeze:
                advantages.append(node.advantages[agent])
        learning.append(any(map(torch.any, advantages)))
    return {
        "reward_std": deviations.mean(),
        "frac_reward_zero_std": (deviations < EQUAL).double().mean(),
        "groups_with_gradient": np.mean(learning),
    }


def lengths(turns: list[list]) -> Measures:
    """Return an episode's mean number of turns, and how many ended as a prompt did not fit."""
    mean_turns = 0.0
    too_long = 0
    possible = len(turns[0])  # nodes of a turn, if no episode had ended
    for nodes in turns:
        mean_turns += len(nodes) / possible
        possible *= nodes[0].samples
        too_long += sum(map(cut_off, nodes))
    return {"mean_turns": mean_turns, "too_long": too_long}


def cut_off(node) -> int:
    """Return how many episodes ended after a node because the next prompt did not fit."""
    count = 0
    for sample, child in enumerate(node.children):
        asked = node.steps[node.aligned(sample)].asked
        count += child is None and asked is not None
    return count


def is_scored(nodes: list) -> bool:
    """Return whether a joint response is scored. A reward returns {} if it does not score."""
    return any(any(node.parts) for node in nodes)


def warn_of_zeros(turns: list[list]) -> None:
    """Say so if no episode was scored, although no prompt was too long."""
    nodes = list(itertools.chain(*turns))
    if not is_scored(nodes) and not any(map(cut_off, nodes)):
        print(
            f"warning: no turn of {len(turns)} was scored, so all return 0: the task's `play` "
            "yielded and returned no joint response, or needs more --turns",
            file=sys.stderr,
        )


def problem_returns(turns: list[list], rollout) -> list[float]:
    """Return the normalised return of each problem.

    With --joint cross this is a mean over joint responses, of which the aligned ones alone are
    played on. So the return of a problem may exceed 1, although no episode's does.
    """
    largest = highest_return(rollout)
    return [root.value / largest for root in turns[0]]


def highest_return(rollout) -> float:
    """Return the largest return of an episode. The returns that are logged are shares of it."""
    scored = rollout.task.scored(rollout.episode.turns)
    return largest_return(rollout.reward.maximum, scored, rollout.episode.gamma)


def logp_differences(module) -> Measures:
    """Return how far the update's log-probabilities are from the decode's, in nats.

    They are those of all processes' rows, 0 without any.
    """
    differences = torch.cat(processes.gather(gaps(module.learned))).double()
    if not len(differences):
        differences = torch.zeros(1)
    sizes = differences.abs()
    metrics: dict = {"logp_difference/mean": sizes.mean(), "logp_difference/max": sizes.max()}
    if module.team.engine:
        metrics["ratio/clipped"] = (differences > math.log(CAP)).double().mean()
    return metrics


def mean_parts(scores: list[dict]) -> Measures:
    """Return the mean of each part of the reward, as logged."""
    rows = logged_parts(scores)
    names = rows[0] if rows else ()
    return {name: sum(row[name] for row in rows) / len(rows) for name in names}


def logged_parts(scores: list[dict]) -> list[Measures]:
    """Return the parts of the reward as logged. A part that a score lacks is 0 there."""
    names = dict.fromkeys(itertools.chain(*scores))
    return [{logged(name): parts.get(name, 0.0) for name in names} for parts in scores]


def divergences(module, nodes: list) -> Measures:
    """Return KL(policy || frozen base) per token of each agent that spoke, by the k3 estimator.

    It reads an agent's first response at its first nodes, so that the pass has few rows.
    """
    rows = defaultdict(list)  # by agent
    for agent, node in itertools.product(range(module.team.size), nodes):
        prompt = node.prompts[agent]
        if prompt and len(rows[agent]) < KL_PROBLEMS:
            first = node.responses[agent][0]
            row = Row(agent, prompt, first.tokens, problem=node.problem, logps=first.logps)
            rows[agent].append(row)
    module.team.score([*itertools.chain(*rows.values())], module.sampling, frozen=True)
    metrics: dict = {}
    for agent, agent_rows in rows.items():
        ratio = gaps(agent_rows)
        metrics[f"kl/{agent}"] = (ratio.exp() - 1 - ratio).mean()
    return metrics
