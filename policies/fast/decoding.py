"""The rows of a decode, as policies/decoding.py asks for them, with a prompt's keys held once.

Shapes: P prompts, R rows, V vocabulary, W positions of the longest prompt.
"""

import functools
import math
from collections.abc import Sequence

import torch
from torch import Tensor

from policies.decoding import Ask
from policies.fast.adapters import Adapters
from policies.fast.attention import Grid, RowCache, Step
from policies.fast.graphs import Graph
from policies.logprobs import padded
from policies.shared_model import SharedModel


class FastRows:
    """The rows that are still decoded; see policies.decoding.Rows."""

    def __init__(self, base: SharedModel, asks: Sequence[Ask], samples: int, limit: int):
        device = base.device
        self.base = base
        self.agents = [ask.agent for ask in asks]  # per prompt
        self.samples = samples
        rows = len(asks) * samples
        self.numbers = torch.arange(rows, device=device)
        self.read = 0  # tokens of the responses so far
        self.places = torch.arange(limit, device=device)
        lengths = [[len(ask.prompt)] for ask in asks]
        self.lengths = torch.tensor(lengths, device=device)  # (P, 1)
        # A step that a graph repeats may not wait for the GPU. Layers in 8 bits wait.
        self.repeats = device.type == "cuda" and not base.int8
        layers = base.fast.layers.layers
        self.caches = [RowCache(rows, limit) for _ in layers]
        logits = self.prefill(asks)
        self.logits = logits.repeat_interleave(samples, 0)
        self.lay_out()

    def prefill(self, asks: Sequence[Ask]) -> Tensor:
        """Run the prompts, padded on the right to W. Return the logits (P, V) that follow them."""
        base = self.base
        ids = [torch.tensor(ask.prompt) for ask in asks]
        ids = padded(ids)
        ids = ids.to(base.device)
        width = ids.shape[1]
        places = torch.arange(width, device=base.device)
        last = self.lengths - 1
        self.real = places <= last  # (P, W)
        # padding repeats the last position: later ones might leave the model's context
        positions = places.minimum(last)
        names = base.adapters_of(self.agents)
        adapters = Adapters(names, width, base.device, updating=False)
        attentions = [cache.attend_prompts for cache in self.caches]
        hidden = base.fast.layers(ids, positions, adapters, attentions)
        ends = places == last
        hidden = hidden[ends.flatten()]  # (P, hidden)
        return base.head(hidden)

    def lay_out(self) -> None:
        """Lay the rows out by prompt and by adapter, and record the step anew."""
        base = self.base
        owners = self.numbers // self.samples  # the prompt of each row
        self.starts = self.lengths[owners]  # (R, 1)
        owners = owners.tolist()
        _, key_heads = base.fast.layers.heads
        self.grid = Grid(owners, self.real, key_heads)
        agents = [self.agents[owner] for owner in owners]
        names = base.adapters_of(agents)
        self.adapters = Adapters(names, 1, base.device, updating=False)
        self.graph = Graph()

    def run(self, tokens: Tensor, place: Tensor) -> Tensor:
        """Return the logits (R, V) after tokens (R, 1), which stand at this place (1,)."""
        # A graph repeats the same work for every token: it masks the places after the token.
        places = self.places
        if not self.repeats:
            places = places[: self.read + 1]
        mask = torch.where(places > place, -math.inf, 0.0)
        step = Step(self.grid, place, mask)
        attentions = [functools.partial(cache.attend, step) for cache in self.caches]
        positions = self.starts + place  # (R, 1)
        hidden = self.base.fast.layers(tokens, positions, self.adapters, attentions)
        return self.base.head(hidden)

    def step(self, tokens: Tensor) -> None:
        """Let the model read a token of every row (R,)."""
        place = self.places[self.read, None]
        # Not an attribute: a reference cycle would keep the caches until Python collects it.
        run = self.run
        if self.repeats:
            run = functools.partial(self.graph, run)
        self.logits = run(tokens[:, None], place)
        self.read += 1

    def keep(self, going_on: Tensor) -> None:
        """Drop all rows but these, given by their places (r,)."""
        prompts = self.grid.prompts
        self.numbers = self.numbers[going_on]
        self.lay_out()
        kept = [prompts.index(prompt) for prompt in self.grid.prompts]
        kept = torch.tensor(kept, device=going_on.device)  # once for all layers
        for cache in self.caches:
            cache.select(going_on, kept)
