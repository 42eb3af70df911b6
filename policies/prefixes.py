"""Common prefixes of sequences are run once: a radix tree of tokens, as in RadixAttention.

RadixAttention is of Zheng et al. 2023 (SGLang). A prompt is run once for its responses, and a
common prefix of prompts once for all of them. In the update a response is run once for the prompts
of the next turn that continue it.

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

BLOCK = 64  # a common prefix has a multiple of so many tokens: for fewer, a pass gains nothing
LEAST_GAIN = 0.25  # share of the prompts' tokens that sharing has to save
PADDING = 2**30  # the position of a place that is not attended to
padded = functools.partial(nn.utils.rnn.pad_sequence, batch_first=True)


@dataclass
class Segment:
    """Tokens that continue another segment: a node of the tree."""

    agent: int
    start: int  # position of the first token, which attends to all earlier positions
    tokens: Sequence[int]
    row: object = None  # the response (scoring.Row). None: a part of a prompt
    children: list["Segment"] = field(default_factory=list)
    owner: int = 0  # number of the sequence in the Prefix that it continues


class Prefix:
    """Keys and values of P sequences, cut off from the pass that made them.

    Gradients of all that continues them add up in `leaves`. `send_back` sends them on.
    """

    def __init__(self, layers: list[tuple[Tensor, Tensor]], positions: Tensor):
        self.positions = positions  # (P, W), PADDING at padding
        self.outputs = []  # keys and values in turn, (P, heads, W, D) each, with their graph
        self.leaves = []  # the same, without it
        for pair in layers:
            for output in pair:
                leaf = output.detach()
                self.outputs.append(output)
                self.leaves.append(leaf.requires_grad_(output.requires_grad))

    def layers(self) -> list[tuple[Tensor, Tensor]]:
        return list(zip(self.leaves[::2], self.leaves[1::2], strict=True))


def send_back(outputs: list[Tensor], leaves: list[Tensor]) -> None:
    """Take the gradients of the leaves back through the pass that made the outputs."""
    outputs = [output for output in outputs if output.requires_grad]
    grads = [leaf.grad for leaf in leaves if leaf.requires_grad]
    if outputs:
        torch.autograd.backward(outputs, grads)


def run(
    base: Base, segments: list[Segment], prefix: Prefix | None, frozen: bool, keep: bool
) -> tuple[Tensor | None, Prefix | None]:
    """Run segments, each after the sequence of the prefix that it continues.

    Return the last hidden states (R, T, hidden) of responses (None for prompts), and (keep) keys
    and values of the whole sequences. Segments are ordered by agent. frozen: without adapters.
    """
    device = base.device
    ids = padded([torch.tensor(segment.tokens) for segment in segments]).to(device)
    sizes = torch.tensor([[len(segment.tokens)] for segment in segments], device=device)  # (R, 1)
    starts = torch.tensor([[segment.start] for segment in segments], device=device)  # (R, 1)
    steps = torch.arange(ids.shape[1], device=device)
    # padding repeats the last position: later ones might leave the model's context
    places = starts + steps.minimum(sizes - 1)
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
    keys_only = segments[0].row is None
    with base.acting(agents, len(steps)):
        hidden = base.hidden(ids, places, cache, mask, keys_only)
    if keys_only:
        hidden = None
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

    A common prefix is run once, where this saves enough.
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
    """Return where each text (agent, tokens) is cut, so that common prefixes are run once.

    Texts of one agent are cut where they part: fewer of them begin with the tokens up to the next
    cut. A cut is a multiple of BLOCK and leaves a token. Cuts that save too little are left out.
    """
    numbers = {}  # of each prefix, by the number of the prefix before its last block, and the block
    counts = Counter()
    paths = []
    for agent, text in keys:
        number = -1 - agent
        path = []
        for size in range(BLOCK, len(text), BLOCK):
            number = numbers.setdefault((number, text[size - BLOCK : size]), len(numbers))
            path.append(number)
        counts.update(path)
        paths.append(path)
    places = []
    for path in paths:
        kept = []
        deeper = 1
        for blocks in range(len(path), 0, -1):
            count = counts[path[blocks - 1]]
            if count > deeper:
                kept.append(blocks * BLOCK)
                deeper = count
        places.append(kept[::-1])
    shared = sum(max(kept, default=0) for kept in places)
    once = BLOCK * sum(count > 1 for count in counts.values())
    if shared - once < LEAST_GAIN * sum(len(text) for _, text in keys):
        return [[] for _ in keys]
    return places
