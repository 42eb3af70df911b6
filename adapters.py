"""LoRA adapters of several agents on one frozen base, applied in one forward pass.

Shapes: N tokens of a pass, ordered by agent; n agents in it; C the most tokens that one of them
has; k layers that read the same input; r the adapters' rank.
"""

import functools

import torch
import torch.nn.functional as F
from peft.tuners.lora import LoraLayer
from torch import Tensor, nn


class Crew:
    """The agents of a pass and where their tokens stand when each agent has C places of its own.
    place: None where every agent has C tokens, and nothing has to be moved."""

    def __init__(self, agents: list[int], tokens: int, device: torch.device, keep: bool):
        """agents: of each row, in order; tokens: of a row; keep: stacks are made once."""
        self.stacks: dict | None = {} if keep else None
        self.agents = sorted(set(agents))
        self.names = [f"agent{agent}" for agent in self.agents]
        counts = [agents.count(agent) * tokens for agent in self.agents]
        self.places = max(counts)
        self.place = None
        if min(counts) < self.places:
            places = [torch.arange(count) + i * self.places for i, count in enumerate(counts)]
            self.place = torch.cat(places).to(device)

    def apart(self, x: Tensor) -> Tensor:
        """(N, X) -> (n, C, X)."""
        if x.dim() == 3:
            return x
        if self.place is not None:
            x = x.new_zeros(len(self.agents) * self.places, x.shape[1]).index_copy(0, self.place, x)
        return x.view(len(self.agents), self.places, -1)

    def together(self, x: Tensor) -> Tensor:
        """(n, C, X) -> (N, X)."""
        x = x.view(-1, x.shape[2])
        return x if self.place is None else x.index_select(0, self.place)


class Adapters:
    """What the linear layers of one base compute, for the agents of the pass at hand."""

    def __init__(self):
        self.crew: Crew | None = None  # none: the frozen base acts

    def enter(self, model: nn.Module) -> None:
        """Has every LoRA layer of a model computed here, whatever calls it."""
        for layer in model.modules():
            if isinstance(layer, LoraLayer):
                layer.forward = functools.partial(self._forward, layer)

    def _forward(self, layer: LoraLayer, x: Tensor) -> Tensor:
        if self.crew is None:
            return type(layer).forward(layer, x)
        return self.linear((layer,), x.flatten(0, 1))[0].view(*x.shape[:2], -1)

    def linear(self, layers: tuple[nn.Module, ...], x: Tensor) -> list[Tensor]:
        """W x + s B A x of layers that read the same x: (N, in) -> (N, out) of each."""
        crew = self.crew
        if crew is not None and crew.place is None:
            x = crew.apart(x)  # adapters' parts are added in place
        bases = [layer.base_layer if isinstance(layer, LoraLayer) else layer for layer in layers]
        plain = all(type(base) is nn.Linear for base in bases)  # and not quantised
        # a module's call costs as much as a small product
        outputs = [F.linear(x, b.weight, b.bias) if plain else b(x) for b in bases]
        if crew is not None:
            downs, ups, scale = self._stacked(layers)
            inner = torch.bmm(crew.apart(x.to(downs.dtype)), downs)
            for i, part in enumerate(inner.split(ups[0].shape[1], 2)):
                if plain and crew.place is None and outputs[i].dtype == part.dtype:
                    outputs[i].baddbmm_(part, ups[i], alpha=scale)
                else:
                    delta = crew.together(torch.bmm(part, ups[i])).view_as(outputs[i])
                    outputs[i] = torch.add(outputs[i], delta.to(outputs[i].dtype), alpha=scale)
        return [output.flatten(0, -2) for output in outputs]

    def _stacked(self, layers: tuple) -> tuple[Tensor, list[Tensor], float]:
        """A side by side, (n, in, k r); B of each layer, (n, r, out); s."""
        stacks, names = self.crew.stacks, self.crew.names
        if stacks and layers[0] in stacks:
            return stacks[layers[0]]
        downs = torch.cat([layer.lora_A[name].weight for name in names for layer in layers])
        downs = downs.view(len(names), -1, downs.shape[1]).transpose(1, 2)
        ups = [
            torch.stack([layer.lora_B[name].weight for name in names]).transpose(1, 2)
            for layer in layers
        ]
        found = downs, ups, layers[0].scaling[names[0]]
        if stacks is not None:
            stacks[layers[0]] = found
        return found
