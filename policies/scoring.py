"""Scoring responses: log-probabilities under the sampled distribution, with their gradient.

Shapes: R rows (responses), T tokens of a response, W cached prompt positions.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

import torch
from torch import Tensor

from policies.base import Base, cached
from policies.memory import cost, longest
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
    scored: Tensor | None = None  # the same, as they were scored last

    @property
    def coef(self) -> float:
        """Its coefficient in the loss."""
        return self.advantage * self.weight


def score(
    base: Base, rows: list[Row], sampling: Sampling, frozen: bool = False
) -> Iterator[tuple[list[int], Tensor, Tensor]]:
    """Log-probabilities of responses in micro-batches: row numbers, logps (r, T), mask (r, T).

    Sorted by length, under a budget. The consumer calls backward on each micro-batch; what has
    then reached the prompts' keys and values goes back through the prompts once, and what has
    reached the adapters' stacks into the adapters, at the end.
    """
    groups: dict[tuple, list[int]] = {}
    for number, row in enumerate(rows):
        groups.setdefault((row.agent, row.prompt), []).append(number)
    prompts = list(groups)
    with base.adapters.learning([row.agent for row in rows]):
        for chunk in pack([cost(base, 0, len(prompt)) for _, prompt in prompts]):
            mine = sorted(prompts[c] for c in chunk)  # by agent
            prefix = Prefix(base, [p for _, p in mine], None if frozen else [a for a, _ in mine])
            owner = {number: i for i, key in enumerate(mine) for number in groups[key]}
            width = max(len(prompt) for _, prompt in mine)
            for batch in pack([cost(base, width, len(rows[n].tokens)) for n in owner]):
                numbers = sorted((list(owner)[b] for b in batch), key=owner.get)
                some = [rows[n] for n in numbers]
                kv = prefix.spread([owner[n] for n in numbers])
                logps, mask = _score(base, some, kv, sampling, frozen)
                for row, values in zip(some, logps.detach(), strict=True):
                    row.scored = values[: len(row.tokens)]
                yield numbers, logps, mask
            prefix.backward()


class Prefix:
    """Keys and values of prompts, and how their gradient goes back through the prompts.

    Where one prompt's activations are more than a pass may keep, it is run without keeping any. On
    the way back it is run again in pieces, the last one first: what a piece asks of the keys and
    values before it is added to their gradient, of which the next piece is then the end.
    """

    def __init__(self, base: Base, prompts: list[tuple[int, ...]], agents: list[int] | None):
        self.base, self.prompts, self.agents, self.piece = base, prompts, agents, longest(base)
        self.width = max(map(len, prompts)) - 1
        learns = torch.is_grad_enabled() and agents is not None
        self.again = learns and len(prompts) == 1 and self.width > self.piece
        with torch.set_grad_enabled(learns and not self.again):
            self.ends = base.prefill(prompts, agents)
        self.leaves = [_leaves(pair, self.again) for pair in self.ends]

    def spread(self, owners: list[int]) -> list[list[Tensor]]:
        """The keys and values of rows, whose prompts are `owners`, in order."""
        spread = _spreader(owners, self.base.device)
        return [[spread(t) for t in pair] for pair in self.leaves]

    def backward(self) -> None:
        grads = [leaf.grad for pair in self.leaves for leaf in pair if leaf.requires_grad]
        if any(grad is None for grad in grads):
            raise RuntimeError("score: call backward on each micro-batch before the next one")
        if not self.again:
            ends = [t for pair in self.ends for t in pair if t.requires_grad]
            return torch.autograd.backward(ends, grads) if ends else None
        for start in reversed(range(0, self.width, self.piece)):
            part = self.prompts[0][start : start + self.piece + 1]  # prefill leaves out the last
            past = [_leaves([t[:, :, :start] for t in pair], True) for pair in self.leaves]
            ends = self.base.prefill([part], self.agents, past if start else None)
            torch.autograd.backward([t for pair in ends for t in pair], grads)
            grads = [leaf.grad for pair in past for leaf in pair]


def _leaves(tensors: Iterable[Tensor], learn: bool = False) -> list[Tensor]:
    return [t.detach().requires_grad_(learn or t.requires_grad) for t in tensors]


def _score(base: Base, rows: list[Row], prefix: list, sampling: Sampling, frozen: bool):
    """Log-probabilities and mask (r, T) of rows whose prompts' keys and values are `prefix`."""
    limit, device = max(len(row.tokens) for row in rows), base.device
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
            cached(prefix),
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


def _spreader(owners: list[int], device: torch.device) -> Callable[[Tensor], Tensor]:
    """x -> x[owners], owners in order. The gradient of plain indexing is summed by threads in no
    fixed order, that of index_select row by row, and that of equal shares in one sum."""
    first, count = owners[0], owners.count(owners[0])
    prompts, rest = divmod(len(owners), count)
    if not rest and owners == [first + i // count for i in range(len(owners))]:
        return lambda x: x.narrow(0, first, prompts).repeat_interleave(count, 0)
    index = torch.tensor(owners, device=device)
    return lambda x: x.index_select(0, index)


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
