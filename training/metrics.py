"""What is logged at every step, from its rollout; docs/metrics.md says what each name means."""

import itertools
import math
import resource
import sys
from collections import Counter
from collections.abc import Iterable

import numpy as np
import torch

from policies import parallel
from policies.scoring import CAP, Row
from rewards import logged

KL_PROBLEMS = 2  # whose first responses are compared with the frozen base


def measure(module) -> dict[str, float]:
    """The metrics of the step that `module` has just made."""
    nodes = list(itertools.chain(*module.turns))
    roots = [node.value for node in module.turns[0]]
    spreads = reward_spreads(module)
    metrics = {
        "return": np.mean(roots) / largest_return(module.turns, module.rollout),
        **mean_parts(nodes),
        "reward_std": spreads.mean(),
        "frac_reward_zero_std": (spreads < 1e-9).double().mean(),
    }
    if module.team.size == 2 and module.args.joint == "cross":
        metrics |= influences([n for n in nodes if n.samples > 1 and all(n.prompts)])
    for turn, here in enumerate(module.turns):
        metrics[f"turn_{turn}/reward"] = np.mean([float(node.rewards.mean()) for node in here])
    tokens = 0
    # A full copy leaves no base to compare with, and KL is of distributions without truncation.
    plain = module.sampling.top_p == 1 and not module.sampling.top_k
    if module.args.lora_rank and plain:
        metrics |= divergences(module, nodes)
    for agent in range(module.team.size):
        mine = [r for node in nodes if node.prompts[agent] for r in node.responses[agent]]
        metrics[f"grad_norm/{agent}"] = module.norms[agent]
        if not mine:
            continue  # it did not speak
        length = sum(len(response.tokens) for response in mine)
        tokens += length
        metrics[f"completions/{agent}/mean_length"] = length / len(mine)
        metrics[f"completions/{agent}/clipped_ratio"] = np.mean([not r.ended for r in mine])
        metrics[f"entropy/{agent}"] = sum(response.entropy for response in mine) / length
    metrics |= logp_differences(module.learned, bool(module.team.engine))
    if module.args.updates > 1:
        metrics["clip_fraction"] = clip_fraction(module.learned, module.args.clip)
    metrics["lr"] = module.learning_rate
    seconds = dict(module.rollout.seconds)
    seconds["reward"] -= seconds["judge"]  # what a reward asks of a language model
    if not module.rollout.reward.needs_model:
        del seconds["judge"]
    metrics |= {f"seconds/{name}": value for name, value in seconds.items()}
    metrics["tokens_per_second"] = tokens / seconds["rollout"]
    return {name: float(value) for name, value in metrics.items()}


def memory_gib() -> float:
    """The most memory that this process has had so far, GiB: of its card, or else resident."""
    if torch.cuda.is_available():
        return torch.cuda.max_memory_allocated() / 2**30
    unit = 1 if sys.platform == "darwin" else 2**10  # of getrusage, bytes
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**30


def reward_spreads(module) -> torch.Tensor:
    """(groups,): standard deviation of the pay in each, of the agent whose pay differs most."""
    scored = [group for group in module.groups() if is_scored(group)] or module.groups()
    groups = [torch.cat([node.pay.flatten(1) for node in group], 1) for group in scored]
    return torch.stack([max(pay.std(correction=0) for pay in group) for group in groups])


def is_scored(nodes: list) -> bool:
    """Whether a turn is scored: a reward gives {} to each joint response of one that is not."""
    return any(map(any, (node.parts for node in nodes)))


def largest_return(turns: list[list], rollout) -> float:
    """The reward's maximum for every turn that is scored (for all of them, where none is)."""
    gamma, numbers = rollout.args.gamma, range(len(turns))
    scored = [turn for turn in numbers if is_scored(turns[turn])] or numbers
    return rollout.reward.maximum * sum(gamma**turn for turn in scored)


def influences(nodes: list) -> dict[str, float]:
    """Means over nodes, in units of the reward squared, of the unbiased estimates by the two-way
    analysis of variance with random effects (Searle, Casella and McCulloch, Variance Components,
    1992): agents' samples are independent draws, and all G x G joint responses are scored."""
    sums = np.zeros(3)
    for node in nodes:
        group = node.samples
        table = np.empty((group, group))
        table[tuple(node.joints.T.tolist())] = node.rewards
        means = table.mean(1), table.mean(0)
        rest = table - means[0][:, None] - means[1] + table.mean()
        together = np.square(rest).sum() / (group - 1) ** 2
        sums += [*(mean.var(ddof=1) - together / group for mean in means), together]
    names = "influence/0", "influence/1", "influence/together"
    return dict(zip(names, sums / len(nodes), strict=True)) if nodes else {}


def logp_differences(rows: list[Row], engine: bool) -> dict[str, float]:
    """How far the (first) update's log-probabilities of the sampled tokens are from the decode's,
    in nats; 0 where no process has a row that was scored."""
    gaps = gathered(row.old.double().cpu() - torch.DoubleTensor(row.logps) for row in rows)
    sizes, cut, tokens = gaps.abs(), gaps > math.log(CAP), max(len(gaps), 1)
    largest = sizes.max() if len(gaps) else 0.0
    found = {"logp_difference/mean": sizes.sum() / tokens, "logp_difference/max": largest}
    return found | ({"ratio/clipped": cut.double().sum() / tokens} if engine else {})


def clip_fraction(rows: list[Row], clip: tuple[float, float]) -> float:
    """Share of the tokens whose ratio pi / old is outside PPO's bounds in the last update."""
    ratio = gathered((row.scored - row.old).exp() for row in rows)
    outside = (ratio < 1 - clip[0]) | (ratio > 1 + clip[1])
    return float(outside.sum()) / max(len(ratio), 1)


def gathered(values: Iterable[torch.Tensor]) -> torch.Tensor:
    """These numbers of all processes' rows, one after the other."""
    answers = parallel.tell([value.double().cpu() for value in values])
    return torch.cat([torch.zeros(0, dtype=torch.float64), *itertools.chain(*answers)])


def mean_parts(nodes: list) -> dict[str, float]:
    """Mean of every part of the reward over the scored joint responses, by its name in the log."""
    scored, sums = [parts for node in nodes for parts in node.parts if parts], Counter()
    for parts in scored:
        for name, value in parts.items():
            sums[logged(name)] += value
    return {name: total / len(scored) for name, total in sums.items()}


@torch.no_grad()
def divergences(module, nodes: list) -> dict[str, float]:
    """KL(policy || frozen base) per token of each agent that spoke, by the k3 estimator, of its
    first response at its first nodes: one pass of few rows, so it is made at every step."""
    rows = []
    for agent in range(module.team.size):
        for node in [node for node in nodes if node.prompts[agent]][:KL_PROBLEMS]:
            first = node.responses[agent][0]
            rows.append(Row(agent, node.prompts[agent], first.tokens, logps=first.logps))
    module.team.score(rows, module.sampling, frozen=True)
    sums, tokens = Counter(), Counter()
    for row in rows:
        ratio = row.scored - row.scored.new_tensor(row.logps)
        sums[row.agent] += float((ratio.exp() - 1 - ratio).sum())
        tokens[row.agent] += len(row.logps)
    return {f"kl/{agent}": sums[agent] / tokens[agent] for agent in tokens}
