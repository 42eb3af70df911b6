"""Scoring responses: log-probabilities under the sampled distribution, with their gradient.

Shapes: R rows (responses), T tokens of a response, W cached prompt positions.
"""

import functools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from operator import itemgetter

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers.cache_utils import Cache

from policies.attention import PrefixCache
from policies.base import Base
from policies.memory import COPY, update_tokens
from policies.sampling import Sampling, TokenLogps, target_logps

CAP = 2.0  # largest importance weight of a token
padded = functools.partial(nn.utils.rnn.pad_sequence, batch_first=True)


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
    old: Tensor | None = None  # the same, as they were scored before the first update
    reference: Tensor | None = None  # the same, as the frozen base scores them

    @property
    def coef(self) -> float:
        """Its coefficient in the loss."""
        return self.advantage * self.weight


def score(
    base: Base,
    rows: list[Row],
    sampling: Sampling,
    backward: Callable[[list[Row], Tensor, Tensor], None] | None = None,
    frozen: bool = False,
) -> None:
    """Score responses in micro-batches and set `row.scored` of each row.

    backward(rows, logps (r, T), mask (r, T)) is called for every micro-batch, and has to call
    backward on a loss made of logps. None: no gradients are kept. frozen: the base scores, without
    adapters.

    Rows are sorted by length and take so many tokens at a time. A prompt is run once for all of its
    rows: their gradients add up in its keys and values, and go back through the prompt once.
    """
    learns = backward is not None and not frozen
    by_prompt: dict[tuple, list[Row]] = {}
    for row in rows:
        by_prompt.setdefault((row.agent, row.prompt), []).append(row)
    keys = list(by_prompt)
    most = update_tokens(base)
    for chunk in pack([len(prompt) for _, prompt in keys], most):
        chunk_keys = sorted(keys[number] for number in chunk)  # by agent
        agents = None if frozen else [agent for agent, _ in chunk_keys]
        prompts = [prompt for _, prompt in chunk_keys]
        with torch.set_grad_enabled(learns):
            prefix = Prefix(base.prefill(prompts, agents))
        owned = []  # each row with the number of its prompt
        for number, key in enumerate(chunk_keys):
            owned += [(number, row) for row in by_prompt[key]]
        copy = COPY * max(map(len, prompts))
        for batch in pack([copy + len(row.tokens) for _, row in owned], most):
            pairs = sorted((owned[number] for number in batch), key=itemgetter(0))
            owners = torch.tensor([owner for owner, _ in pairs], device=base.device)
            batch_rows = [row for _, row in pairs]
            with torch.set_grad_enabled(learns):
                logps, mask = _score(base, batch_rows, prefix.of(owners), sampling, frozen)
            for row, values in zip(batch_rows, logps.detach(), strict=True):
                row.scored = values[: len(row.tokens)]
            if backward:
                backward(batch_rows, logps, mask)
        if learns:
            prefix.backward()


class Prefix:
    """Keys and values of P prompts, cut off from the passes that made them: gradients of the rows
    add up here, and `backward` sends them on through the prompts."""

    def __init__(self, layers: list[tuple[Tensor, Tensor]]):
        self.ends = [tensor for pair in layers for tensor in pair]  # keys and values in turn
        self.leaves = [end.detach().requires_grad_(end.requires_grad) for end in self.ends]

    def of(self, owners: Tensor) -> list[Tensor]:
        """Return keys and values of each row's prompt: of (P, ...) those numbered owners (R,)."""
        # a lookup: its gradient is summed row by row, and not in any order, as of an index
        rows = [F.embedding(owners, leaf.flatten(1)) for leaf in self.leaves]
        return [
            row.unflatten(1, leaf.shape[1:]) for row, leaf in zip(rows, self.leaves, strict=True)
        ]

    def backward(self) -> None:
        ends = [end for end in self.ends if end.requires_grad]
        grads = [leaf.grad for leaf in self.leaves if leaf.requires_grad]
        if any(grad is None for grad in grads):
            raise RuntimeError("score: its callback has to call backward on each micro-batch")
        if ends:
            torch.autograd.backward(ends, grads)


def _score(base: Base, rows: list[Row], prefix: list[Tensor], sampling: Sampling, frozen: bool):
    """Return log-probabilities and mask (r, T) of rows. prefix: their prompts' keys and values."""
    limit = max(len(row.tokens) for row in rows)
    device = base.device
    targets = padded([torch.tensor(row.tokens) for row in rows]).to(device)
    opening = torch.tensor([[row.prompt[-1]] for row in rows], device=device)
    lengths = torch.tensor([[len(row.prompt) - 1] for row in rows], device=device)
    with base.acting(None if frozen else [row.agent for row in rows], limit):
        hidden = base.hidden(
            torch.cat([opening, targets[:, :-1]], 1),
            lengths + torch.arange(limit, device=device),
            Cache(layers=list(map(PrefixCache, prefix[::2], prefix[1::2]))),
            _mask(base, lengths, prefix[0].shape[2], limit),
        )
    sizes = torch.tensor([[len(row.tokens)] for row in rows], device=device)
    mask = torch.arange(limit, device=device) < sizes
    real = mask.flatten().nonzero().squeeze(-1)
    # On a CPU as many logits at once as stay in its cache, on a GPU enough to keep its cores busy.
    most = 2 ** (21 if device.type == "cpu" else 26)
    logps = TokenLogps.apply(
        hidden.flatten(0, 1).index_select(0, real),
        targets.flatten()[real],
        lambda states, tokens: target_logps(base.logits(states), tokens, sampling),
        max(most // len(base.head.weight), 64),
        *(p for p in base.head.parameters() if p.requires_grad),
    )
    return logps.new_zeros(mask.numel()).index_copy(0, real, logps).view_as(mask), mask


def importance(logps: Tensor, rows: list[Row]) -> Tensor:
    """Return weights (R, T) in the loss for tokens that a server has sampled (engine.py).

    They are min(pi / mu, CAP), detached. pi is the policy before the first update, whose logps
    (R, T) are. mu is the server's policy, whose are the `logps` of the rows. Weights of padding
    mean nothing.

    Truncated importance sampling (Ionides 2008) of tokens, as in Yao et al. 2025 (Your Efficient RL
    Framework Secretly Brings You Off-Policy RL Training): biased, and of bounded variance.
    """
    before = logps.detach() if rows[0].old is None else padded([row.old for row in rows])
    return (before - padded([logps.new_tensor(row.logps) for row in rows])).exp().clamp(max=CAP)


def _mask(base: Base, lengths: Tensor, width: int, limit: int) -> Tensor:
    """Return what tokens of responses may look at, (R or 1, 1, T, W + T): the real part of their
    prompt, themselves, and what came before in the response."""
    if int(lengths.min()) == width:
        lengths = lengths[:1]
    places = torch.arange(width, device=base.device) < lengths
    prompt = places[:, None, None].expand(-1, 1, limit, width)
    causal = torch.ones(limit, limit, dtype=torch.bool, device=base.device).tril()
    return torch.cat([prompt, causal.expand(len(lengths), 1, limit, limit)], -1)


def pack(costs: list[float], most: float) -> Iterator[list[int]]:
    """Yield numbers of the items in parts, the most costly item first. In each part count x largest
    cost stays within `most`; parts are about equal.

    >>> list(pack([2, 5, 2, 5, 2, 2], 10))
    [[1, 3], [0, 2, 4, 5]]
    """
    order = sorted(range(len(costs)), key=lambda number: -costs[number])
    while order:
        batches = math.ceil(len(order) / max(1, int(most / costs[order[0]])))
        count = math.ceil(len(order) / batches)
        yield order[:count]
        order = order[count:]
