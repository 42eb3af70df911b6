"""Scoring responses: log-probabilities under the sampled distribution, with their gradient.

Shapes: R rows (responses), T tokens of a response.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import torch
from torch import Tensor

from policies.base import Base
from policies.memory import COPY, checkpoints, update_tokens
from policies.prefixes import Prefix, Segment, cuts, padded, run, send_back
from policies.sampling import Sampling, target_logps, token_logps

CAP = 2.0  # largest importance weight of a token


@dataclass
class Row:
    """One response in the update."""

    agent: int
    prompt: tuple[int, ...]
    tokens: list[int]
    advantage: float = 0.0
    weight: float = 1.0  # share of the batch
    problem: int = 0  # number in the batch
    # log-probabilities of the tokens
    logps: list[float] = field(default_factory=list)  # when they were sampled
    scored: Tensor | None = None  # when they were scored last
    old: Tensor | None = None  # before the first update
    reference: Tensor | None = None  # under the frozen base

    @property
    def coef(self) -> float:
        """Its coefficient in the loss."""
        return self.advantage * self.weight


def score(
    base: Base,
    rows: list[Row],
    sampling: Sampling,
    backward: Callable | None = None,
    frozen: bool = False,
) -> None:
    """Score responses in micro-batches and set `row.scored` of each row.

    backward(rows, logps (r, T), mask (r, T)) is called for every micro-batch. It has to call
    backward on a loss made of logps. None: no gradients are kept. With `frozen` the base scores,
    without adapters.

    The rows are a tree (prefixes.py): a response follows its prompt, and a later prompt may follow
    a response. The segments that continue others are sorted by length and take so many tokens at a
    time. Each is run once. The gradients of all that continues it add up in its keys and values,
    and go back through it once. So its activations are kept until then.
    """
    learns = backward is not None
    roots = tree(rows)
    passes = max(map(depth, roots), default=1)  # that are kept at a time
    longest = max((max(len(row.prompt), len(row.tokens)) for row in rows), default=0)
    total = sum(map(tokens_of, roots))
    checkpointing = learns and checkpoints(base, longest, total, passes)
    if base.layers:
        base.layers.checkpointing = checkpointing
    max_tokens = update_tokens(base, checkpointing, passes)

    def walk(segments: list[Segment], prefix: Prefix | None) -> None:
        """Run prompts, or responses, that continue the prefix, and all that continues them."""
        width = prefix.positions.shape[1] if prefix else 0
        costs = [COPY * width + len(segment.tokens) for segment in segments]
        for numbers in pack(costs, max_tokens):
            numbers.sort(key=lambda number: segments[number].owner)  # and so by agent
            visit([segments[number] for number in numbers], prefix)

    def visit(segments: list[Segment], prefix: Prefix | None) -> None:
        """Run one micro-batch, all that continues it, and its backward pass."""
        children = []
        for number, segment in enumerate(segments):
            for child in segment.children:
                child.owner = number
                children.append(child)
        with torch.set_grad_enabled(learns):
            hidden, kept = run(base, segments, prefix, frozen, bool(children))
        walk([child for child in children if not child.row], kept)
        walk([child for child in children if child.row], kept)
        outputs = kept.outputs if kept else []
        leaves = kept.leaves if kept else []
        if segments[0].row:
            batch = [segment.row for segment in segments]
            with torch.set_grad_enabled(learns):
                logps, mask = log_probabilities(base, batch, hidden, sampling)
            for row, values in zip(batch, logps.detach(), strict=True):
                row.scored = values[: len(row.tokens)]
            if learns:
                leaf = logps.detach().requires_grad_()
                backward(batch, leaf, mask)
                outputs = [*outputs, logps]
                leaves = [*leaves, leaf]
        if learns:
            send_back(outputs, leaves)

    walk(roots, None)


def tree(rows: list[Row]) -> list[Segment]:
    """Return the tree of prompts and responses: the segments that continue none, by agent.

    A prompt that begins with another and with the response to it continues that response. Else it
    continues the common prefix of several prompts.
    """
    responses = defaultdict(list)  # to each prompt of an agent
    for row in rows:
        tokens = [row.prompt[-1], *row.tokens[:-1]]
        segment = Segment(row.agent, len(row.prompt) - 1, tokens, row)
        responses[row.agent, row.prompt].append(segment)
    texts = defaultdict(list)  # of an agent -> what continues them
    begun = []  # the prompts with which this one begins
    for agent, prompt in sorted(responses):
        while begun and begun[-1] != (agent, prompt[: len(begun[-1][1])]):
            begun.pop()
        earlier = [segment for key in begun for segment in responses[key]]
        parent, size = continued(earlier, prompt)
        begun.append((agent, prompt))
        segments = responses[agent, prompt]
        if parent:
            parent.children.append(Segment(agent, size, prompt[size:-1], children=segments))
        else:
            texts[agent, prompt[:-1]] += segments
    roots = []
    nodes: dict[tuple, Segment] = {}
    keys = sorted(texts)
    for (agent, text), places in zip(keys, cuts(keys), strict=True):
        siblings = roots
        start = 0
        for size in [*places, len(text)]:
            known = (agent, text[:size])
            if known not in nodes:
                nodes[known] = Segment(agent, start, text[start:size])
                siblings.append(nodes[known])
            siblings = nodes[known].children
            start = size
        siblings += texts[agent, text]
    for number, root in enumerate(roots):
        root.owner = number
    return roots


def continued(responses: list[Segment], prompt: tuple) -> tuple[Segment | None, int]:
    """Return the response that a prompt continues, and how many tokens the two have in common.

    They are the earlier prompt, and what this one repeats of the response.
    """
    best = None
    longest = 0
    for segment in responses:
        size = segment.start + 1  # of the earlier prompt
        same = size
        for first, second in zip(segment.tokens[1:], prompt[size:-2], strict=False):
            if first != second:
                break
            same += 1
        if same > max(size, longest):
            best = segment
            longest = same
    return best, longest


def depth(segment: Segment) -> int:
    return 1 + max(map(depth, segment.children), default=0)


def tokens_of(segment: Segment) -> int:
    """Return the tokens of a segment and of all that continues it."""
    return len(segment.tokens) + sum(map(tokens_of, segment.children))


def log_probabilities(base: Base, rows: list[Row], hidden: Tensor, sampling: Sampling):
    """Return log-probabilities and mask (r, T) of rows, from their last hidden states."""
    device = base.device
    targets = padded([torch.tensor(row.tokens) for row in rows]).to(device)
    sizes = [[len(row.tokens)] for row in rows]
    sizes = torch.tensor(sizes, device=device)  # (r, 1)
    mask = torch.arange(targets.shape[1], device=device) < sizes
    real = mask.flatten().nonzero()
    real = real.squeeze(-1)  # places of the tokens that are not padding
    # A CPU computes as many logits at once as its cache holds, a GPU enough to keep its cores busy.
    logits = 2 ** (21 if device.type == "cpu" else 26)
    logps = token_logps(
        hidden.flatten(0, 1).index_select(0, real),
        targets.flatten()[real],
        lambda states, tokens: target_logps(base.logits(states), tokens, sampling),
        max(logits // len(base.head.weight), 64),
        base.head.weight.requires_grad,
    )
    table = logps.new_zeros(mask.numel()).index_copy(0, real, logps)
    return table.view_as(mask), mask


def importance(logps: Tensor, rows: list[Row]) -> Tensor:
    """Return weights (R, T) in the loss for tokens that a server has sampled (engine.py).

    They are min(pi / mu, CAP), detached. pi is the policy before the first update, with
    log-probabilities logps (R, T). mu is the server's policy, with log-probabilities `row.logps`.
    Weights of padding mean nothing.

    This is truncated importance sampling (Ionides 2008) of tokens, biased and of bounded variance.
    Yao et al. 2025 do the same (Your Efficient RL Framework Secretly Brings You Off-Policy RL
    Training).
    """
    before = logps.detach()
    if rows[0].old is not None:
        before = padded([row.old for row in rows])
    sampled = padded([logps.new_tensor(row.logps) for row in rows])
    ratio = (before - sampled).exp()
    return ratio.clamp(max=CAP)


def pack(costs: list[float], limit: float) -> Iterator[list[int]]:
    """Yield numbers of the items in parts of about equal size, the most costly item first.

    In each part, the number of items times the largest cost stays within the limit.

    >>> list(pack([2, 5, 2, 5, 2, 2], 10))
    [[1, 3], [0, 2, 4, 5]]
    """
    order = sorted(range(len(costs)), key=lambda number: -costs[number])
    while order:
        largest = costs[order[0]]
        most = max(1, int(limit / largest))
        batches = math.ceil(len(order) / most)
        count = math.ceil(len(order) / batches)
        yield order[:count]
        order = order[count:]
