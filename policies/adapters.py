"""LoRA adapters of several agents on one frozen base, applied in one forward pass. Only
`Adapters.linear` knows what an adapter computes.

Shapes: N tokens of a pass, ordered by agent; n agents in the pass; C tokens of the agent that has
the most; k layers that read the same input; r the rank of the adapters.
"""

import functools
import math
from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from peft.tuners.lora import LoraLayer
from torch import Tensor, nn

# Decoding merges adapters into a copy of the base's weights per agent, of so many bytes in all.
MERGED_BYTES = 2**26


class Adapters:
    """Compute the linear layers of one base for the agents of the current pass."""

    def __init__(self, model: nn.Module):
        self.names: tuple[str, ...] = ()  # of the agents in the pass; empty: the frozen base acts
        self.groups: Groups | None = None  # their tokens
        self.kept: dict | None = None  # while decoding: what was made of the weights, once
        self.layers = [layer for layer in model.modules() if isinstance(layer, LoraLayer)]
        weights = [_base(layer).weight for layer in self.layers]
        mergeable = all(type(_base(layer)) is nn.Linear for layer in self.layers)
        mergeable = mergeable and all(weight.dtype == torch.float32 for weight in weights)
        self.bytes = sum(weight.nbytes for weight in weights) if mergeable else math.inf
        for layer in self.layers:  # also where transformers' own code calls them
            layer.forward = functools.partial(self._forward, layer)

    def act(self, agents: Sequence[int] | None, tokens: int, device: torch.device) -> None:
        """Run rows of so many tokens as these agents from now on. None: as the frozen base."""
        known = sorted(set(agents or ()))
        self.names = tuple(f"agent{agent}" for agent in known)
        sizes = [agents.count(agent) * tokens for agent in known]
        self.groups = Groups(sizes, device) if known else None

    def linear(self, layers: tuple[nn.Module, ...], x: Tensor) -> list[Tensor]:
        """Return W x + s B A x, (N, in) -> (N, out), of each of the layers, which read the same x.

        There are three ways to compute it, of which the first that applies is the fastest:
        without adapters, with adapters merged into the weights, and with adapters beside them.
        """
        if not self.names:
            return [_call(_base(layer), x) for layer in layers]
        if self.kept is not None and len(self.names) * self.bytes <= MERGED_BYTES:
            return self._merged(layers, x)
        return self._beside(layers, x)

    def _merged(self, layers: tuple[nn.Module, ...], x: Tensor) -> list[Tensor]:
        """Return x (W + s B A): one product for all layers and agents. The number of products, not
        their size, is what a token of a small model costs."""
        weight, bias, sizes = self._once(merge, layers, x.dtype)
        x = self.groups.split(x)
        x = torch.bmm(x, weight) if bias is None else torch.baddbmm(bias, x, weight)
        return self.groups.join(x).split_with_sizes(sizes, 1)

    def _beside(self, layers: tuple[nn.Module, ...], x: Tensor) -> list[Tensor]:
        """Return x W + s (x A) B: A is one product for all layers, B one for each layer."""
        # In the update adapters compute in single precision, as their gradients need it.
        dtype = x.dtype if self.kept is not None else torch.float32
        downs, ups, scale = self._once(stack, layers, dtype)
        inner = torch.bmm(self.groups.split(x.to(dtype)), downs)  # (n, C, k r)
        parts = inner.split(ups[0].shape[1], 2)  # of each layer, (n, C, r)
        outputs = []
        for layer, part, up in zip(layers, parts, ups, strict=True):
            base = _base(layer)
            output = _call(base, x)
            alike = output.dtype == part.dtype == up.dtype  # not in a mixed --precision
            if type(base) is nn.Linear and alike and self.groups.place is None:  # in place
                output = self.groups.split(output).baddbmm_(part, up, alpha=scale).flatten(0, 1)
            else:
                delta = self.groups.join(torch.bmm(part, up)).to(output.dtype)
                output = torch.add(output, delta, alpha=scale)
            outputs.append(output)
        return outputs

    def _once(self, make: Callable, layers: tuple[nn.Module, ...], dtype: torch.dtype) -> tuple:
        """Return make(layers, names, dtype): while decoding, what was made before."""
        if self.kept is None:
            return make(layers, self.names, dtype)
        key = (layers[0], self.names)
        if key not in self.kept:
            self.kept[key] = make(layers, self.names, dtype)
        return self.kept[key]

    def _forward(self, layer: LoraLayer, x: Tensor) -> Tensor:
        if not self.names:
            return type(layer).forward(layer, x)
        return self.linear((layer,), x.flatten(0, -2))[0].view(*x.shape[:-1], -1)


def stack(layers: tuple, names: tuple[str, ...], dtype) -> tuple[Tensor, list[Tensor], float]:
    """Return the adapters of n agents: A of all layers side by side (n, in, k r), B of each layer
    (n, r, out), and s."""
    downs = torch.cat([layer.lora_A[name].weight for name in names for layer in layers])
    downs = downs.view(len(names), -1, downs.shape[1]).transpose(1, 2)
    ups = []
    for layer in layers:
        up = torch.stack([layer.lora_B[name].weight for name in names])
        ups.append(up.transpose(1, 2).to(dtype))
    return downs.to(dtype), ups, layers[0].scaling[names[0]]


def merge(layers: tuple, names: tuple[str, ...], dtype) -> tuple[Tensor, Tensor | None, list[int]]:
    """Return W + s B A of each agent with the layers side by side (n, in, k out), their bias, and
    the size of each layer's output."""
    downs, ups, scale = stack(layers, names, dtype)
    merged = []
    for layer, down, up in zip(layers, downs.split(ups[0].shape[1], 2), ups, strict=True):
        merged.append(torch.baddbmm(_base(layer).weight.T, down, up, alpha=scale))
    biases = [_base(layer).bias for layer in layers]
    bias = None if biases[0] is None else torch.cat(biases)
    return torch.cat(merged, 2), bias, [up.shape[2] for up in ups]


def _base(layer: nn.Module) -> nn.Module:
    return layer.base_layer if isinstance(layer, LoraLayer) else layer


def _call(base: nn.Module, x: Tensor) -> Tensor:
    """Return base(x) without a module's call, which costs as much as a small matrix product."""
    return F.linear(x, base.weight, base.bias) if type(base) is nn.Linear else base(x)


class Groups:
    """Lay n groups of rows side by side, for one batched product. The largest group has C rows, and
    zeros stand where a group has fewer.

    Groups of sizes [2, 1]: the rows a b | c are padded to a b | c 0, so place = [0, 1, 2].
    """

    def __init__(self, sizes: list[int], device: torch.device):
        self.count = len(sizes)
        self.size = max(sizes)
        self.place = None  # of each row, where groups differ in size; else nothing has to be moved
        if min(sizes) < self.size:
            places = [torch.arange(size) + i * self.size for i, size in enumerate(sizes)]
            self.place = torch.cat(places).to(device)

    def pad(self, x: Tensor) -> Tensor:
        """(N, ...) -> (n C, ...)."""
        if self.place is None:
            return x
        return x.new_zeros(self.count * self.size, *x.shape[1:]).index_copy_(0, self.place, x)

    def unpad(self, x: Tensor) -> Tensor:
        """(n C, ...) -> (N, ...)."""
        return x if self.place is None else x.index_select(0, self.place)

    def split(self, x: Tensor) -> Tensor:
        """(N, X) -> (n, C, X)."""
        return self.pad(x).view(self.count, self.size, -1)

    def join(self, x: Tensor) -> Tensor:
        """(n, C, X) -> (N, X)."""
        return self.unpad(x.view(self.count * self.size, -1))
