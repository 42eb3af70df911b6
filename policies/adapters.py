"""LoRA adapters of several agents on one frozen base, applied in one forward pass.

Shapes: N tokens of a pass, ordered by agent; n agents in it; C the most tokens that one of them
has; k layers that read the same input; r the adapters' rank.
"""

import contextlib
import functools
import math
from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from peft.tuners.lora import LoraLayer
from torch import Tensor, nn

# Decoding may merge the adapters into a copy of the base's weights per agent: of so many bytes.
MERGED_BYTES = 2**26


class Crew:
    """The agents of a pass and where their tokens stand when each agent has C places of its own.
    place: None where every agent has C tokens, and nothing has to be moved."""

    def __init__(self, agents: Sequence[int], tokens: int, device: torch.device):
        """agents: of each row, in order; tokens: of a row."""
        known = sorted(set(agents))
        self.names = tuple(f"agent{agent}" for agent in known)
        counts = [agents.count(agent) * tokens for agent in known]
        self.places = max(counts)
        self.place = None
        if min(counts) < self.places:
            places = [torch.arange(count) + i * self.places for i, count in enumerate(counts)]
            self.place = torch.cat(places).to(device)

    def apart(self, x: Tensor) -> Tensor:
        """(N, X) -> (n, C, X)."""
        if self.place is not None:
            x = x.new_zeros(len(self.names) * self.places, x.shape[1]).index_copy(0, self.place, x)
        return x.view(len(self.names), self.places, -1)

    def together(self, x: Tensor) -> Tensor:
        """(n, C, X) -> (N, X)."""
        x = x.view(-1, x.shape[2])
        return x if self.place is None else x.index_select(0, self.place)


class Adapters:
    """What the linear layers of one base compute, for the agents of the pass at hand."""

    def __init__(self, model: nn.Module):
        self.crew: Crew | None = None  # None: the frozen base acts
        self.kept: dict | None = None  # under `still`: what was computed from the weights, once
        self.layers = [layer for layer in model.modules() if isinstance(layer, LoraLayer)]
        weights = [_base(layer).weight for layer in self.layers]
        plain = all(type(_base(layer)) is nn.Linear for layer in self.layers)
        plain &= all(weight.dtype == torch.float32 for weight in weights)
        self.bytes = sum(weight.nbytes for weight in weights) if plain else math.inf
        for layer in self.layers:  # also where transformers' own code calls them
            layer.forward = functools.partial(self._forward, layer)

    def _forward(self, layer: LoraLayer, x: Tensor) -> Tensor:
        if self.crew is None:
            return type(layer).forward(layer, x)
        return self.linear((layer,), x.flatten(0, -2))[0].view(*x.shape[:-1], -1)

    def merged_bytes(self, agents: int) -> int:
        """Bytes that a decode of so many agents takes for merged copies; 0 where it makes none."""
        size = agents * self.bytes
        return size if size <= MERGED_BYTES else 0

    @contextlib.contextmanager
    def still(self):
        """While no weight changes (decoding): what is computed from weights is kept."""
        self.kept = {}
        try:
            yield
        finally:
            self.kept = None

    def linear(self, layers: tuple[nn.Module, ...], x: Tensor) -> list[Tensor]:
        """W x + s B A x of layers that read the same x: (N, in) -> (N, out) of each."""
        crew = self.crew
        if crew is None:
            return [_call(_base(layer), x) for layer in layers]
        if self.kept is not None and self.merged_bytes(len(crew.names)):
            weight, bias, sizes = self._once(self._merged, layers)
            x = crew.apart(x)
            x = torch.bmm(x, weight) if bias is None else torch.baddbmm(bias, x, weight)
            return crew.together(x).split_with_sizes(sizes, 1)
        downs, ups, scale = self._once(self._stacked, layers)
        inner = torch.bmm(crew.apart(x.to(downs.dtype)), downs)
        outputs = []
        for layer, part, up in zip(layers, inner.split(ups[0].shape[1], 2), ups, strict=True):
            plain = crew.place is None and type(_base(layer)) is nn.Linear
            if plain and x.dtype == part.dtype == up.dtype:  # and not under autocast
                output = _call(_base(layer), crew.apart(x)).baddbmm_(part, up, alpha=scale)
                outputs.append(output.flatten(0, 1))
            else:
                output, delta = _call(_base(layer), x), crew.together(torch.bmm(part, up))
                outputs.append(torch.add(output, delta.to(output.dtype), alpha=scale))
        return outputs

    def _once(self, make: Callable, layers: tuple) -> tuple:
        if self.kept is None:
            return make(layers)
        key = layers[0], self.crew.names
        if key not in self.kept:
            self.kept[key] = make(layers)
        return self.kept[key]

    def _stacked(self, layers: tuple) -> tuple[Tensor, list[Tensor], float]:
        """A side by side, (n, in, k r); B of each layer, (n, r, out); s."""
        names = self.crew.names
        downs = torch.cat([layer.lora_A[name].weight for name in names for layer in layers])
        downs = downs.view(len(names), -1, downs.shape[1]).transpose(1, 2)
        ups = [
            torch.stack([layer.lora_B[name].weight for name in names]).transpose(1, 2)
            for layer in layers
        ]
        return downs, ups, layers[0].scaling[names[0]]

    def _merged(self, layers: tuple) -> tuple[Tensor, Tensor | None, list[int]]:
        """W + s B A of each agent, the layers side by side, (n, in, k out); bias; sizes of out."""
        downs, ups, scale = self._stacked(layers)
        parts = zip(layers, downs.split(ups[0].shape[1], 2), ups, strict=True)
        merged = [
            torch.baddbmm(_base(layer).weight.T, down, up, alpha=scale) for layer, down, up in parts
        ]
        biases = [_base(layer).bias for layer in layers]
        bias = None if biases[0] is None else torch.cat(biases)
        weight = torch.cat(merged, 2) if len(merged) > 1 else merged[0]
        return weight, bias, [up.shape[2] for up in ups]


def _base(layer: nn.Module) -> nn.Module:
    return layer.base_layer if isinstance(layer, LoraLayer) else layer


def _call(base: nn.Module, x: Tensor) -> Tensor:
    """base(x), without a module's call, which costs as much as a small matrix product."""
    return F.linear(x, base.weight, base.bias) if type(base) is nn.Linear else base(x)
