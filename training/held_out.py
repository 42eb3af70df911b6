"""Play held-out problems, and write joint responses down."""

import itertools
import math
import statistics
import sys
from collections.abc import Iterator

from tqdm import tqdm

from magrpo import EVAL, MAGRPO, Node, Play, Rollout, team_mean
from policies import Mistake, processes
from policies.codec import as_text
from policies.sampling import Sampling
from rewards import EQUAL, total
from training.metrics import highest_return, mean_parts, problem_returns, warn_of_zeros
from training.reward_runner import ROUNDING
from training.terminal import printable

# Problems that a process plays first, so that it can tell how far it is. The next part is twice as
# large, and so on: small parts are slower.
FIRST = 8
EVAL_SAMPLES = 4  # sampled joint responses per held-out problem, besides the greedy one


def play(
    rollout: Rollout, items: list[dict], seed: int, samples: int, sampling: Sampling, name: str
) -> list[list[Node]]:
    """Return the nodes of each turn of all items. samples 0: one greedy response.

    name: what the terminal calls this.

    Held-out problems are played without the tree: one joint response opens one next turn. The
    random numbers depend only on the seed and the problem's number. So two teams get the same ones.
    """
    way = "sampled"
    if not samples:
        way = "greedy"
        sampling = sampling.greedy()
    lines = Play(max(samples, 1), joints=1, chain=True)
    number, count = processes.place()
    size = FIRST * count
    start = 0
    played = []
    pause = 0 if sys.stderr.isatty() else 60  # a log is told once a minute
    bar = tqdm(
        desc=f"{name}, {way}",
        total=len(items),
        unit="problem",
        mininterval=pause,
        delay=pause,
        leave=False,
        disable=number > 0,
    )
    with bar:
        while start < len(items):
            part = items[start : start + size]
            played.append(processes.play(rollout, part, (seed, EVAL, 0, start), sampling, lines))
            bar.update(len(part))
            start += size
            size *= 2
    return processes.joined(played)


def evaluate(module: MAGRPO, items: list[dict], name: str = "held out") -> tuple[dict, list[Node]]:
    """Play items sampled and greedily.

    Returns the measures, and the first nodes of the greedy rollout. Mistake: an episode earns more
    than the largest return.
    """
    played = {}
    ends = {}
    for prefix, samples in (("", EVAL_SAMPLES), ("greedy/", 0)):
        turns = play(module.rollout, items, module.algorithm.seed, samples, module.sampling, name)
        warn_of_zeros(turns)
        played[prefix] = turns
        ends[prefix] = [end_parts(root) for root in turns[0]]
    names = dict.fromkeys(itertools.chain(*itertools.chain(*ends.values())))
    measures = {}
    for prefix, turns in played.items():
        returns = problem_returns(turns, module.rollout)
        measures[f"{prefix}return"] = statistics.fmean(returns)
        best = max(float(team_mean(root.returns).max()) for root in turns[0])
        best /= highest_return(module.rollout)
        if best > 1 + ROUNDING:
            raise Mistake(
                f"an episode returns {best:g} of at most 1: a task with per_episode earns the "
                "reward's maximum once in an episode, and not at each turn"
            )
        if max(returns) - min(returns) > EQUAL:  # equal values do not show their spread
            error = statistics.stdev(returns) / math.sqrt(len(items))
            measures[f"{prefix}return_se"] = error
        for part in names:
            values = [parts.get(part, 0.0) for parts in ends[prefix]]
            measures[prefix + part] = statistics.fmean(values)
    return measures, turns[0]


def end_parts(root: Node) -> dict[str, float]:
    """Return the mean of each part of the reward over the ends of a problem's episodes.

    An episode that ends unscored counts as 0, as in the return. A measure of several problems is
    the mean of theirs. This holds for training's held-out evaluation and for eval.py's tables.
    """
    ends = []
    for sample in range(root.samples):
        *_, (node, number) = episode(root, sample)
        ends.append(played(node, number)[1])
    return mean_parts(ends)


def episode(root: Node, sample: int) -> Iterator[tuple[Node, int]]:
    """Yield the nodes of an episode with the number of its sample, from turn 0 to its end."""
    node = root
    while node:
        yield node, sample
        node = node.children[sample] if node.children else None
        sample = 0  # a later turn has one sample


def played(node: Node, sample: int) -> tuple[list[str], dict[str, float]]:
    """Return the texts of a sample's aligned joint response, and its parts ({} if not scored)."""
    texts = node.aligned(sample)
    return list(texts), node.steps[texts].parts


def sample_record(node: Node, number: int, maximum: float) -> dict:
    """Return what aligned joint response `number` of a node was asked, wrote and earned."""
    texts, parts = played(node, number)
    prompts = [as_text(node.asked.get(agent, "")) for agent in range(len(texts))]
    return {
        "task_id": node.item.get("task_id"),
        "turn": len(node.history),
        "prompts": prompts,
        "responses": texts,
        "reward": total(parts, len(texts)),
        "maximum": maximum,  # of the reward
        "parts": parts,
    }


def shown(record: dict) -> str:
    """Return a line of samples.jsonl for a reader: the reward, the prompts and the responses."""
    # + 0.0: minus nothing is 0, not -0
    parts = ", ".join(f"{name} {value + 0.0:.3g}" for name, value in record["parts"].items())
    earned = "not scored"
    if parts:
        earned = f"reward {record['reward']:.3f} of {record['maximum']:g} ({parts})"
    lines = [f"{earned}; {record['task_id'] or 'a problem'}, turn {record['turn']}"]
    for agent, prompt in enumerate(record["prompts"]):
        if not prompt:
            continue  # it did not speak
        response = record["responses"][agent]
        lines += [f"\nagent {agent} was asked:", prompt, f"\nagent {agent} wrote:", response]
    return printable("\n".join(lines))
