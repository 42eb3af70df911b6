"""How held-out problems are played, and a joint response as it is written down."""

import itertools
import math
import sys
import textwrap

import numpy as np
import torch
from tqdm import tqdm

from magrpo import EVAL, MAGRPO, Node, Rollout, earned, mean_pay
from policies import parallel
from policies.sampling import Sampling, sampling_of
from training.metrics import largest_return, mean_parts

EVAL_SAMPLES = 4  # sampled joint responses per held-out problem, besides the greedy one


def play(
    rollout: Rollout, items: list[dict], seed: int, samples: int, sampling: Sampling, bar: tqdm
) -> list[list[Node]]:
    """The nodes of each turn of all items, some of them at a time. One joint response opens one
    next turn: the held-out problems are played without the tree. The random numbers are a function
    of the seed and the problem's number alone, so two teams differ by themselves."""
    turns: list[list[Node]] = []
    # On a CPU as many problems at once as its caches hold.
    step = (100 if torch.cuda.is_available() else 10) * parallel.place()[1]
    for start in range(0, len(items), step):
        key, part = (seed, EVAL, 0, start), items[start : start + step]
        found = parallel.play(rollout, part, key, samples, sampling, 1, True)
        turns = [a + b for a, b in itertools.zip_longest(turns, found, fillvalue=[])]
        bar.update(len(part))
    return turns


def progress(title: str, count: int, **how) -> tqdm:
    """A bar over so many problems."""
    shown = {"desc": title, "total": count, "unit": "problem", "leave": False}
    return tqdm(**shown, mininterval=0, miniters=1, **how)  # each update is of some problems


def evaluate(module: MAGRPO, items: list[dict], title="held out") -> tuple[dict, dict, list[Node]]:
    """Sampled and greedy: the measures, the returns by problem, the greedy rollout's last nodes."""
    measures, per_problem, args = {}, {}, module.args
    with progress(title, 2 * len(items), file=sys.stdout, disable=parallel.place()[0] > 0) as bar:
        for name, greedy, samples in (("", False, EVAL_SAMPLES), ("greedy/", True, 1)):
            turns = play(module.rollout, items, args.seed, samples, sampling_of(args, greedy), bar)
            values = torch.DoubleTensor([node.value for node in turns[0]])
            returns = values / largest_return(turns, module.rollout)
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
    return texts, node.parts[node.joints.tolist().index([s] * len(node.responses))]


def worth(parts: dict[str, float], agents: int) -> float:
    """What is logged of a joint response: the mean of what it pays the agents."""
    return float(mean_pay(torch.DoubleTensor(earned(parts, agents))))


def task_id(item: dict):
    """An item's task_id as plain Python: no checkpoint takes a scalar of numpy."""
    value = item.get("task_id")
    return value.item() if isinstance(value, np.generic) else value


def sample_record(step: int, node: Node, turn: int, number: int) -> dict:
    """Aligned joint response `number` of a node as a line of samples.jsonl."""
    texts, parts = played(node, number)
    return {
        "step": step,
        "task_id": task_id(node.item),
        "turn": turn,
        "prompts": list(map(str, node.observations)),
        "responses": texts,
        "reward": worth(parts, len(texts)),
        "parts": parts,
    }


def as_markdown(record: dict) -> str:
    """A line of samples.jsonl for TensorBoard: what it earned, what each agent was asked and wrote,
    as an indented block of code, which neither Markdown nor HTML in it can leave."""
    parts = ", ".join(f"{name} {value:.3g}" for name, value in record["parts"].items())
    lines = [f"reward {record['reward']:.3f} ({parts}); {record['task_id']}, turn {record['turn']}"]
    for agent, texts in enumerate(zip(record["prompts"], record["responses"], strict=True)):
        lines += [f"\nagent {agent} was asked:", texts[0], f"\nagent {agent} wrote:", texts[1]]
    return textwrap.indent("\n".join(lines), "    ", lambda line: True)
