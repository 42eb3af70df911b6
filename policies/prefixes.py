"""What several sequences begin with is run once: a radix tree of tokens, as in RadixAttention.

(Zheng et al. 2023, SGLang: Efficient Execution of Structured Language Model Programs.) A prompt is
run once for its responses, an introduction once for the prompts that begin with it, and in the
update a response once for the prompts of the next turn that begin with its prompt and with it.

Shapes: P sequences that others continue, W places of each. R rows of up to T tokens.
"""

import functools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from transformers.cache_utils import Cache

from policies.attention import PrefixCache, PromptCache
from policies.base import Base

BLOCK = 64  # a shared beginning has a multiple of so many tokens: for fewer, a pass gains nothing
LEAST_GAIN = 0.25  # share of a decode's prompt tokens, padding included, that sharing has to save
PADDING = 2**40  # position of a place that no token attends to
padded = functools.partial(nn.utils.rnn.pad_sequence, batch_first=True)


@dataclass
class Segment:
    """Tokens that continue another segment: a node of the tree."""

    agent: int
    start: int  # position of the first token. Of what it continues, it attends to those before.
    tokens: Sequence[int]
    row: object = None  # the response in the update whose tokens they are
    children: list["Segment"] = field(default_factory=list)
    owner: int = 0  # number of the sequence in the Prefix that it continues


class Prefix:
    """Keys and values of P sequences, cut off from the passes that made them.

    Gradients of what continues them add up here. `backward` sends them on, or the backward pass of
    the log-probabilities that they are `carried_by`.
    """

    def __init__(self, layers: list[tuple[Tensor, Tensor]], positions: Tensor):
        self.positions = positions  # (P, W), PADDING where there is no token
        self.ends = []  # keys and values in turn, (P, heads, W, D) each
        self.leaves = []
        for pair in layers:
            for end in pair:
                leaf = end.detach()
                self.ends.append(end)
                self.leaves.append(leaf.requires_grad_(end.requires_grad))

    def layers(self) -> list[tuple[Tensor, Tensor]]:
        return list(zip(self.leaves[::2], self.leaves[1::2], strict=True))

    def trained(self) -> tuple[list[Tensor], list[Tensor]]:
        """Return the keys and values that have gradients, and these gradients."""
        ends = [end for end in self.ends if end.requires_grad]
        grads = [leaf.grad for leaf in self.leaves if leaf.requires_grad]
        return ends, grads

    def carried_by(self, logps: Tensor) -> Tensor:
        """Return logps, whose backward pass is then the prefix's, too."""
        ends, _ = self.trained()
        return Carry.apply(logps, self, *ends)

    def backward(self) -> None:
        ends, grads = self.trained()
        if ends:
            torch.autograd.backward(ends, grads)


class Carry(torch.autograd.Function):
    """The identity. Its backward pass also sends on the gradients of a prefix."""

    @staticmethod
    def forward(ctx, logps: Tensor, prefix: Prefix, *ends: Tensor) -> Tensor:
        ctx.prefix = prefix
        return logps.view_as(logps)

    @staticmethod
    def backward(ctx, grad: Tensor):
        _, grads = ctx.prefix.trained()
        return grad, None, *grads


def run(
    base: Base, segments: list[Segment], prefix: Prefix | None, frozen: bool, keep: bool
) -> tuple[Tensor, Prefix | None]:
    """Return last hidden states (R, T, hidden) of segments, and (keep) what they and theirs are.

    Segments are ordered by agent. frozen: they are run by the base, without adapters. The hidden
    states of segments without responses mean nothing.
    """
    device = base.device
    ids = padded([torch.tensor(segment.tokens) for segment in segments]).to(device)
    sizes = torch.tensor([[len(segment.tokens)] for segment in segments], device=device)  # (R, 1)
    starts = torch.tensor([[segment.start] for segment in segments], device=device)  # (R, 1)
    steps = torch.arange(ids.shape[1], device=device)
    places = starts + steps
    mask = None
    cache = Cache(layer_class_to_replicate=PromptCache)
    positions = places.masked_fill(steps >= sizes, PADDING)
    if prefix:
        owners = torch.tensor([segment.owner for segment in segments], device=device)
        begun = prefix.positions[owners]
        begun = begun.masked_fill(begun >= starts, PADDING)
        positions = torch.cat([begun, positions], 1)
        mask = attended(begun < PADDING, len(steps))
        cache = Cache(layers=[PrefixCache(*pair, owners, keep) for pair in prefix.layers()])
    agents = None if frozen else [segment.agent for segment in segments]
    with base.acting(agents, len(steps)):
        hidden = base.hidden(ids, places, cache, mask, keys_only=segments[0].row is None)
    if not keep:
        return hidden, None
    return hidden, Prefix([(layer.keys, layer.values) for layer in cache.layers], positions)


def attended(begun: Tensor, limit: int) -> Tensor:
    """Return which places tokens attend to, (R or 1, 1, T, W + T).

    They are the places that have begun (R, W), the token itself, and the row before it.
    """
    if begun.all():
        begun = begun[:1]
    prefix = begun[:, None, None].expand(-1, 1, limit, -1)
    causal = torch.ones(limit, limit, dtype=torch.bool, device=begun.device).tril()
    causal = causal.expand(len(begun), 1, limit, limit)
    return torch.cat([prefix, causal], -1)


def prefill(base: Base, texts: Sequence[tuple[int, ...]], agents: Sequence[int] | None) -> Prefix:
    """Return keys and values of texts, by their agents (None: by the frozen base).

    What several begin with is run once, where this saves enough.
    """
    asked = agents or [0] * len(texts)
    keys = list(zip(asked, texts, strict=True))
    starts = []
    segments = []
    for (agent, text), places in zip(keys, cuts(keys), strict=True):
        size = max(places, default=0)
        starts.append((agent, text[:size]))
        segments.append(Segment(agent, size, text[size:]))
    distinct = sorted({(agent, start) for agent, start in starts if start})
    prefix = None
    flat = len(texts) * max(map(len, texts))
    shared = len(texts) * max(len(segment.tokens) for segment in segments)
    shared += len(distinct) * max((len(start) for _, start in distinct), default=0)
    if distinct and shared <= (1 - LEAST_GAIN) * flat:
        number_of = {start: number for number, start in enumerate(distinct)}
        for segment, start in zip(segments, starts, strict=True):
            segment.owner = number_of.get(start, 0)  # without a start it attends to none of it
        start_agents = agents and [agent for agent, _ in distinct]
        prefix = prefill(base, [start for _, start in distinct], start_agents)
    else:
        segments = [Segment(agent, 0, text) for agent, text in keys]
    _, prefix = run(base, segments, prefix, frozen=agents is None, keep=True)
    return prefix


def cuts(keys: list[tuple[int, tuple]]) -> list[list[int]]:
    """Return where each text (agent, tokens) is cut, so that no shared beginning is run twice.

    A cut is a multiple of BLOCK, before the last token, where texts of one agent part: fewer of
    them begin with the tokens up to the next cut.
    """
    counts = Counter()
    for agent, text in keys:
        for size in range(BLOCK, len(text), BLOCK):
            counts[agent, text[:size]] += 1
    places = []
    for agent, text in keys:
        kept = []
        deeper = 1
        for size in reversed(range(BLOCK, len(text), BLOCK)):
            count = counts[agent, text[:size]]
            if count > deeper:
                kept.append(size)
                deeper = count
        places.append(kept[::-1])
    return places
