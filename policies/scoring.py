"""Scoring responses: log-probabilities under the sampled distribution, with their gradient.

Shapes: R rows (responses), T tokens of a response, W cached prompt positions.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

import torch
from torch import Tensor
from transformers.cache_utils import Cache, DynamicLayer

from policies.base import Base
from policies.memory import cost
from policies.sampling import Sampling, TokenLogps


@dataclass
class Row:
    """One response in the update."""

    agent: int
    prompt: tuple[int, ...]
    tokens: list[int]
    advantage: float = 0.0
    weight: float = 1.0  # its share of the batch
    problem: int = 0  # its number in the batch
    logps: list[float] = field(default_factory=list)  # of its tokens, as they were sampled

    @property
    def coef(self) -> float:
        """Its coefficient in the loss."""
        return self.advantage * self.weight


def score(
    base: Base, rows: list[Row], sampling: Sampling, frozen: bool = False
) -> Iterator[tuple[list[int], Tensor, Tensor]]:
    """Log-probabilities of responses in micro-batches: row numbers, logps (r, T), mask (r, T).

    Sorted by length, under a budget. The consumer calls backward on each micro-batch; what has
    then reached the prompts' keys and values goes back through the prompts once, at the end.
    """
    groups: dict[tuple, list[int]] = {}
    for number, row in enumerate(rows):
        groups.setdefault((row.agent, row.prompt), []).append(number)
    prompts = list(groups)
    for chunk in pack([cost(base, 0, len(prompt)) for _, prompt in prompts]):
        mine = sorted(prompts[c] for c in chunk)  # by agent
        prefix = base.prefill([p for _, p in mine], None if frozen else [a for a, _ in mine])
        leaves = [[t.detach().requires_grad_(t.requires_grad) for t in kv] for kv in prefix]
        owner = {number: i for i, key in enumerate(mine) for number in groups[key]}
        width = max(len(prompt) for _, prompt in mine)
        for batch in pack([cost(base, width, len(rows[n].tokens)) for n in owner]):
            numbers = sorted((list(owner)[b] for b in batch), key=owner.get)
            some = [rows[n] for n in numbers]
            owners = [owner[n] for n in numbers]
            kv = [[_spread(t, owners) for t in pair] for pair in leaves]
            yield numbers, *_score(base, some, kv, sampling, frozen)
        ends = [t for pair in prefix for t in pair if t.requires_grad]
        grads = [leaf.grad for pair in leaves for leaf in pair if leaf.requires_grad]
        if any(grad is None for grad in grads):
            raise RuntimeError("score: call backward on each micro-batch before the next one")
        if ends:
            torch.autograd.backward(ends, grads)


def _score(base: Base, rows: list[Row], prefix: list, sampling: Sampling, frozen: bool):
    """Log-probabilities and mask (r, T) of rows whose prompts' keys and values are `prefix`."""
    limit, device = max(len(row.tokens) for row in rows), base.device
    layers = []
    for keys, values in prefix:
        layer = DynamicLayer()
        layer.lazy_initialization(keys, values)
        layer.keys, layer.values = keys, values
        layers.append(layer)
    pad = [[0] * (limit - len(row.tokens)) for row in rows]
    targets = torch.tensor(
        [row.tokens + p for row, p in zip(rows, pad, strict=True)], device=device
    )
    opening = torch.tensor([[row.prompt[-1]] for row in rows], device=device)
    lengths = torch.tensor([[len(row.prompt) - 1] for row in rows], device=device)
    with base.acting(None if frozen else [row.agent for row in rows], limit):
        hidden = base.hidden(
            torch.cat([opening, targets[:, :-1]], 1),
            lengths + torch.arange(limit, device=device),
            Cache(layers=layers),
            _mask(base, lengths, prefix[0][0].shape[2], limit),
        )
    sizes = torch.tensor([[len(row.tokens)] for row in rows], device=device)
    mask = torch.arange(limit, device=device) < sizes
    real = mask.flatten().nonzero().squeeze(-1)
    logps = TokenLogps.apply(
        hidden.flatten(0, 1).index_select(0, real),
        base.head.weight,
        getattr(base.head, "bias", None),
        targets.flatten()[real],
        sampling,
        base.softcap,
    )
    return logps.new_zeros(mask.numel()).index_copy(0, real, logps).view_as(mask), mask


def _mask(base: Base, lengths: Tensor, width: int, limit: int) -> Tensor:
    """What tokens of responses may look at, (R or 1, 1, T, W + T): the real part of their
    prompt, and themselves and what came before."""
    if int(lengths.min()) == width:
        lengths = lengths[:1]
    places = torch.arange(width, device=base.device) < lengths
    prompt = places[:, None, None].expand(-1, 1, limit, width)
    causal = torch.ones(limit, limit, dtype=torch.bool, device=base.device).tril()
    return torch.cat([prompt, causal.expand(len(lengths), 1, limit, limit)], -1)


def _spread(x: Tensor, owners: list[int]) -> Tensor:
    """x[owners], owners in order. The gradient of plain indexing is summed by threads in no fixed
    order, that of index_select row by row, and that of equal shares in one sum."""
    first, count = owners[0], owners.count(owners[0])
    prompts, rest = divmod(len(owners), count)
    if not rest and owners == [first + i // count for i in range(len(owners))]:
        return x.narrow(0, first, prompts).repeat_interleave(count, 0)
    return x.index_select(0, torch.tensor(owners, device=x.device))


def pack(costs: list[float]) -> Iterator[list[int]]:
    """Numbers of the items, the most costly first, cut so that count x largest cost stays within 1
    and into about equal parts.

    >>> list(pack([0.2, 0.5, 0.2, 0.5, 0.2, 0.2]))
    [[1, 3], [0, 2, 4, 5]]
    """
    order = sorted(range(len(costs)), key=lambda number: -costs[number])
    while order:
        batches = math.ceil(len(order) / max(1, int(1 / costs[order[0]])))
        count = math.ceil(len(order) / batches)
        yield order[:count]
        order = order[count:]
