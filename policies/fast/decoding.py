"""The rows of a decode, as policies/decoding.py asks for them, with a prompt's keys held once.

Shapes: P prompts, R rows, V vocabulary.
"""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from policies.fast.adapters import Adapters
from policies.fast.attention import Clock, Grid, RowCache
from policies.fast.graphs import Graph


class FastRows:
    """The rows that are still decoded; see policies.decoding.Rows."""

    def __init__(
        self,
        fast,
        prompts: list,
        agents: list[int] | None,
        samples: int,
        limit: int,
    ):
        device = fast.base.device
        count = len(prompts)
        self.fast = fast
        self.place = 0  # of the next token in the responses
        self.places = torch.arange(limit, device=device)
        self.made: dict = {}  # of the weights, which do not change while decoding
        self.numbers = torch.arange(count * samples, device=device)
        self.owners = []  # the prompt of each row
        for number in range(count):
            self.owners += [number] * samples
        self.agents = None
        if agents:
            self.agents = [agents[owner] for owner in self.owners]
        sizes = [len(prompt) for prompt in prompts]
        lengths = torch.tensor(sizes, device=device)
        starts = lengths.repeat_interleave(samples)
        self.starts = starts[:, None]  # (R, 1)
        self.clock = None
        # A step that a graph repeats may not wait for the GPU. Layers in 8 bits wait.
        if device.type == "cuda" and not fast.base.int8:
            self.clock = Clock(self.places)
        logits = self.prefill(prompts, agents, lengths, limit)  # (P, V)
        self.logits = logits.repeat_interleave(samples, 0)
        self.adapt()

    def prefill(
        self,
        prompts: list,
        agents: list[int] | None,
        lengths: Tensor,
        limit: int,
    ) -> Tensor:
        """Run the prompts, padded on the right to W. Return the logits (P, V) that follow them."""
        fast = self.fast
        device = lengths.device
        rows = [torch.tensor(prompt) for prompt in prompts]
        ids = pad_sequence(rows, batch_first=True)
        width = ids.shape[1]
        places = torch.arange(width, device=device)
        last = lengths - 1  # (P,)
        # padding repeats the last position: later ones might leave the model's context
        positions = places.minimum(last[:, None])
        names = fast.base.adapters_of(agents)
        adapters = Adapters(names, width, device, False, self.made)
        self.real = places < lengths[:, None]  # (P, W)
        _, heads = fast.layers.layers[0].heads
        self.grid = Grid(self.owners, self.real, heads)
        self.caches = []
        for _ in fast.layers.layers:
            self.caches.append(RowCache(self.grid, len(self.owners), limit, self.clock))
        attentions = [cache.attend_prompts for cache in self.caches]
        hidden = fast.layers(ids.to(device), positions, adapters, attentions)
        numbers = torch.arange(len(prompts), device=device)
        ends = numbers * width + last  # in the flattened ids
        return fast.base.head(hidden[ends])

    def adapt(self) -> None:
        """Lay the adapters out for the rows, and record the step anew."""
        names = self.fast.base.adapters_of(self.agents)
        device = self.numbers.device
        self.adapters = Adapters(names, 1, device, False, self.made)
        self.forward: Callable[..., Tensor] = self.run
        if self.clock:
            self.forward = Graph(self.run)

    def run(self, tokens: Tensor, positions: Tensor, place: Tensor) -> Tensor:
        """Return the logits (R, V) after tokens (R, 1), which stand at this place (1,)."""
        if self.clock:
            self.clock.set(place)
        attentions = [cache.attend for cache in self.caches]
        hidden = self.fast.layers(tokens, positions, self.adapters, attentions)
        return self.fast.base.head(hidden)

    def step(self, tokens: Tensor) -> None:
        """Let the model read a token of every row (R,)."""
        place = self.places[self.place, None]
        positions = self.starts + place
        self.logits = self.forward(tokens[:, None], positions, place)
        self.place += 1

    def keep(self, going_on: Tensor) -> None:
        """Drop all rows but these, given by their places (r,)."""
        self.numbers = self.numbers[going_on]
        self.starts = self.starts[going_on]
        places = going_on.tolist()
        self.owners = [self.owners[place] for place in places]
        if self.agents:
            self.agents = [self.agents[place] for place in places]
        prompts = self.grid.prompts
        self.grid = Grid(self.owners, self.real, self.grid.heads)
        kept = [prompts.index(prompt) for prompt in self.grid.prompts]
        kept = torch.tensor(kept, device=going_on.device)  # once for all layers
        for cache in self.caches:
            cache.select(going_on, kept, self.grid)
        self.adapt()
