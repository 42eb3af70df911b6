"""Scoring responses: log-probabilities under the sampled distribution, with their gradient.

Shapes: R rows (responses), T tokens of a response, W cached prompt positions.
"""

import functools
import math
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from transformers.cache_utils import Cache

from policies.attention import PrefixCache
from policies.base import Base
from policies.memory import COPY, checkpoints, update_tokens
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

    Rows are sorted by length and take so many tokens at a time. A prompt is run once for all of its
    rows. Their gradients add up in its keys and values, and go back through the prompt once.
    """
    learns = backward is not None
    by_prompt = defaultdict(list)
    for row in rows:
        by_prompt[row.agent, row.prompt].append(row)
    keys = list(by_prompt)
    longest = max((max(len(row.prompt), len(row.tokens)) for row in rows), default=0)
    checkpointing = learns and checkpoints(base, longest)
    if base.layers:
        base.layers.checkpointing = checkpointing
    max_tokens = update_tokens(base, checkpointing)
    lengths = [len(prompt) for _, prompt in keys]
    for chunk in pack(lengths, max_tokens):
        chunk_keys = sorted(keys[number] for number in chunk)  # by agent
        agents = None if frozen else [agent for agent, _ in chunk_keys]
        prompts = [prompt for _, prompt in chunk_keys]
        with torch.set_grad_enabled(learns):
            prefix = Prefix(base.prefill(prompts, agents))
        chunk_rows = []
        owners = []  # of each row, the number of its prompt
        for number, key in enumerate(chunk_keys):
            chunk_rows += by_prompt[key]
            owners += [number] * len(by_prompt[key])
        copy = COPY * max(map(len, prompts))  # each row copies its prompt's keys and values
        costs = [copy + len(row.tokens) for row in chunk_rows]
        for numbers in pack(costs, max_tokens):
            numbers.sort(key=owners.__getitem__)  # by prompt, and so by agent
            batch = [chunk_rows[number] for number in numbers]
            batch_owners = [owners[number] for number in numbers]
            with torch.set_grad_enabled(learns):
                cache = prefix.of(torch.tensor(batch_owners, device=base.device))
                logps, mask = _score(base, batch, cache, sampling, frozen)
            for row, values in zip(batch, logps.detach(), strict=True):
                row.scored = values[: len(row.tokens)]
            if backward:
                backward(batch, logps, mask)
        if learns:
            prefix.backward()


class Prefix:
    """Keys and values of P prompts, cut off from the passes that made them.

    Gradients of the rows add up here. `backward` sends them on through the prompts.
    """

    def __init__(self, layers: list[tuple[Tensor, Tensor]]):
        self.ends = []  # keys and values in turn
        self.leaves = []
        for pair in layers:
            for end in pair:
                leaf = end.detach()
                self.ends.append(end)
                self.leaves.append(leaf.requires_grad_(end.requires_grad))

    def of(self, owners: Tensor) -> Cache:
        """Return a cache for rows that continue the prompts numbered owners (R,)."""
        layers = []
        for keys, values in zip(self.leaves[::2], self.leaves[1::2], strict=True):
            layers.append(PrefixCache(keys, values, owners))
        return Cache(layers=layers)

    def backward(self) -> None:
        ends = [end for end in self.ends if end.requires_grad]
        grads = [leaf.grad for leaf in self.leaves if leaf.requires_grad]
        if ends:
            torch.autograd.backward(ends, grads)


def _score(base: Base, rows: list[Row], cache: Cache, sampling: Sampling, frozen: bool):
    """Return log-probabilities and mask (r, T) of rows. cache: their prompts' keys and values."""
    limit = max(len(row.tokens) for row in rows)
    device = base.device
    targets = padded([torch.tensor(row.tokens) for row in rows]).to(device)
    opening = torch.tensor([row.prompt[-1:] for row in rows], device=device)  # (r, 1)
    inputs = torch.cat([opening, targets[:, :-1]], 1)
    lengths = [[len(row.prompt) - 1] for row in rows]
    lengths = torch.tensor(lengths, device=device)  # (r, 1)
    steps = torch.arange(limit, device=device)
    attention_mask = _mask(base, lengths, cache.get_seq_length(), limit)
    agents = None if frozen else [row.agent for row in rows]
    with base.acting(agents, limit):
        hidden = base.hidden(inputs, lengths + steps, cache, attention_mask)
    sizes = [[len(row.tokens)] for row in rows]
    sizes = torch.tensor(sizes, device=device)  # (r, 1)
    mask = steps < sizes
    real = mask.flatten().nonzero()
    real = real.squeeze(-1)  # places of the tokens that are not padding
    # A CPU computes as many logits at once as its cache holds, a GPU enough to keep its cores busy.
    logits = 2 ** (21 if device.type == "cpu" else 26)
    logps = TokenLogps.apply(
        hidden.flatten(0, 1).index_select(0, real),
        targets.flatten()[real],
        lambda states, tokens: target_logps(base.logits(states), tokens, sampling),
        max(logits // len(base.head.weight), 64),
        *(p for p in base.head.parameters() if p.requires_grad),
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


def _mask(base: Base, lengths: Tensor, width: int, limit: int) -> Tensor:
    """Return which positions tokens of responses attend to, (R or 1, 1, T, W + T).

    They are the prompt without its padding, the token itself, and the response before it.
    """
    if int(lengths.min()) == width:
        lengths = lengths[:1]
    places = torch.arange(width, device=base.device) < lengths
    prompt = places[:, None, None].expand(-1, 1, limit, width)
    causal = torch.ones(limit, limit, dtype=torch.bool, device=base.device).tril()
    causal = causal.expand(len(lengths), 1, limit, limit)
    return torch.cat([prompt, causal], -1)


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
