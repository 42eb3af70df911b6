"""The held-out evaluation of a run, and a joint response as it is written down."""

import math

import torch

from magrpo import EVAL, MAGRPO, Node, earned, shared
from policies import parallel
from policies.sampling import Sampling
from running.metrics import mean_parts

EVAL_SAMPLES = 4  # sampled joint responses per held-out problem, besides the greedy one


def evaluate(module: MAGRPO, items: list[dict], args) -> tuple[dict, dict, list[Node]]:
    """Held-out evaluation: sampled (as in training, without the tree) and greedy.

    Returns the measures, the returns problem by problem, and the last turn's nodes of the greedy
    rollout. The random numbers are the same at every call, so before and after differ by the team
    alone.
    """
    greedy = Sampling(0.0, 0, 1.0, args.max_new_tokens)
    measures, per_problem = {}, {}
    for name, sampling, samples in (("", module.sampling, EVAL_SAMPLES), ("greedy/", greedy, 1)):
        how = (samples, sampling, "aligned", True)
        turns = parallel.play(module.rollout, items, (args.seed, EVAL, 0, 0), *how)
        returns = torch.DoubleTensor([node.value for node in turns[0]]) / module.maximum
        per_problem[f"{name}return"] = returns.tolist()
        spread = float(returns.std()) if len(items) > 1 else 0.0
        measures[f"{name}return"] = float(returns.mean())
        measures[f"{name}return_se"] = spread / math.sqrt(len(items))
        measures |= {name + key: value for key, value in mean_parts(turns[-1]).items()}
    return measures, per_problem, turns[-1]


def played(node: Node, s: int) -> tuple[list[str], dict[str, float]]:
    """Texts and reward parts of aligned joint response (s, ..., s); no parts where none scored."""
    texts = node.texts((s,) * len(node.responses))
    if not node.parts:
        return texts, {}
    return texts, node.parts[sum(s * stride for stride in node.rewards.stride())]


def worth(parts: dict[str, float], agents: int) -> float:
    """What is logged of a joint response: the mean of what it pays the agents."""
    return float(shared(torch.DoubleTensor(earned(parts, agents))))


def sample_record(step: int, node: Node, turn: int, number: int) -> dict:
    """Aligned joint response `number` of a node as a line of samples.jsonl."""
    texts, parts = played(node, number)
    return {
        "step": step,
        "task_id": node.item.get("task_id"),
        "turn": turn,
        "prompts": node.observations,
        "responses": texts,
        "reward": worth(parts, len(texts)),
        "parts": parts,
    }
