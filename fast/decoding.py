"""The rows of a decode, as policies/decoding.py asks for them, with a prompt's keys held once.

Shapes: P prompts, R rows, V vocabulary.
"""

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from fast.adapters import Adapters
from fast.attention import Clock, Grid, PromptCache, RowCache
from fast.graphs import Graph


class FastRows:
    """The rows that are still decoded; see policies.decoding.Rows."""

    def __init__(self, fast, prompts: list, agents: list[int] | None, samples: int, limit: int):
        self.fast = fast
        self.place = 0  # of the next token in the responses
        self.places = torch.arange(limit, device=fast.base.device)
        self.made: dict = {}  # of the weights, which do not change while decoding
        device = fast.base.device
        self.numbers = torch.arange(len(prompts) * samples, device=device)
        self.owners = [number for number in range(len(prompts)) for _ in range(samples)]
        self.agents = agents and [agents[owner] for owner in self.owners]
        lengths = torch.tensor([len(prompt) for prompt in prompts], device=device)
        self.starts = lengths.repeat_interleave(samples)[:, None]  # (R, 1)
        self.clock = Clock(limit, device) if fast.has_graph() else None
        logits = self.prefill(prompts, agents, lengths, limit)  # (P, V)
        self.logits = logits.repeat_interleave(samples, 0)
        self.adapt()

    def prefill(self, prompts: list, agents: list[int] | None, lengths: Tensor, limit: int):
        """Run the prompts, padded on the right. Return the logits (P, V) that follow them."""
        fast = self.fast
        ids = pad_sequence([torch.tensor(prompt) for prompt in prompts], batch_first=True)
        ids = ids.to(lengths.device)
        steps = torch.arange(ids.shape[1], device=ids.device)
        last = lengths[:, None] - 1
        # padding repeats the last position: later ones might leave the model's context
        positions = steps.minimum(last)
        names = fast.base.adapters_of(agents)
        adapters = Adapters(names, ids.shape[1], ids.device, False, fast.merging(names), self.made)
        caches = [PromptCache() for _ in fast.layers.layers]
        hidden = fast.layers(ids, positions, adapters, caches)
        self.real = steps <= last  # (P, W)
        self.grid = Grid(self.owners, self.real, heads=caches[0].keys.shape[1])
        rows = len(self.owners)
        self.caches = [RowCache(cache, self.grid, rows, limit, self.clock) for cache in caches]
        rows = torch.arange(len(prompts), device=ids.device) * ids.shape[1]
        return fast.logits(hidden[rows + last[:, 0]])

    def adapt(self) -> None:
        """Lay the adapters out for the rows, and record the step anew."""
        names = self.fast.base.adapters_of(self.agents)
        device = self.numbers.device
        merging = self.fast.merging(names)
        self.adapters = Adapters(names, 1, device, False, merging, self.made)
        self.forward = Graph(self.run) if self.clock else self.run

    def run(self, tokens: Tensor, positions: Tensor, place: Tensor) -> Tensor:
        """Return the logits (R, V) after tokens (R, 1), which stand at this place (1,)."""
        if self.clock:
            self.clock.set(place)
        hidden = self.fast.layers(tokens, positions, self.adapters, self.caches)
        return self.fast.logits(hidden)

    def step(self, tokens: Tensor) -> None:
        """Let the model read a token of every row (R,)."""
        place = self.places[self.place, None]
        self.logits = self.forward(tokens[:, None], self.starts + place, place)
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
