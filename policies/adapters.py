"""LoRA adapters of several agents on one frozen base, applied in one forward pass. What an adapter
computes is `Adapters.linear`, and nothing else here knows it.

Shapes: N tokens of a pass, ordered by agent; n agents in it; C the most tokens that one of them
has; k layers that read the same input; r the adapters' rank.
"""

import functools
import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from peft.tuners.lora import LoraLayer
from torch import Tensor, nn

# Decoding merges adapters into a copy of the base's weights per agent, of so many bytes in all.
MERGED_BYTES = 2**26


class Adapters:
    """What the linear layers of one base compute, for the agents of the pass at hand."""

    def __init__(self, model: nn.Module):
        self.names: tuple[str, ...] = ()  # of the agents in the pass; none: the frozen base acts
        self.groups: Groups | None = None  # their tokens
        self.kept: dict | None = None  # while decoding: what was made of the weights, once
        self.layers = [layer for layer in model.modules() if isinstance(layer, LoraLayer)]
        bases = [_base(layer) for layer in self.layers]
        plain = all(type(one) is nn.Linear and one.weight.dtype == torch.float32 for one in bases)
        self.bytes = sum(one.weight.nbytes for one in bases) if plain else math.inf
        for layer in self.layers:  # also where transformers' own code calls them
            layer.forward = functools.partial(self._forward, layer)

    def act(self, agents: Sequence[int] | None, tokens: int, device: torch.device) -> None:
        """From now on rows of so many tokens are run as these agents; None: the frozen base."""
        known = sorted(set(agents or ()))
        self.names = tuple(f"agent{agent}" for agent in known)
        sizes = [agents.count(agent) * tokens for agent in known]
        self.groups = Groups(sizes, device) if known else None

    def linear(self, layers: tuple[nn.Module, ...], x: Tensor) -> list[Tensor]:
        """W x + s B A x of layers that read the same x: (N, in) -> (N, out) of each."""
        if not self.names:
            return [_call(_base(layer), x) for layer in layers]
        if self.kept is not None and len(self.names) * self.bytes <= MERGED_BYTES:
            # as one product: a token of a small model is bound by how many there are
            weight, bias, sizes = self._once(merge, layers, x.dtype)
            x = self.groups.split(x)
            x = torch.bmm(x, weight) if bias is None else torch.baddbmm(bias, x, weight)
            return self.groups.join(x).split_with_sizes(sizes, 1)
        # In the update adapters compute in single precision, as their gradients need it.
        dtype = x.dtype if self.kept is not None else torch.float32
        downs, ups, scale = self._once(stack, layers, dtype)
        inner, outputs = torch.bmm(self.groups.split(x.to(dtype)), downs), []
        for layer, part, up in zip(layers, inner.split(ups[0].shape[1], 2), ups, strict=True):
            output, plain = _call(_base(layer), x), type(_base(layer)) is nn.Linear
            alike = output.dtype == part.dtype == up.dtype  # not in a mixed --precision
            if plain and alike and self.groups.place is None:  # in place
                output = self.groups.split(output).baddbmm_(part, up, alpha=scale).flatten(0, 1)
            else:
                delta = self.groups.join(torch.bmm(part, up)).to(output.dtype)
                output = torch.add(output, delta, alpha=scale)
            outputs.append(output)
        return outputs

    def _once(self, make, layers: tuple, dtype: torch.dtype) -> tuple:
        kept, key = {} if self.kept is None else self.kept, (layers[0], self.names)
        if key not in kept:
            kept[key] = make(layers, self.names, dtype)
        return kept[key]

    def _forward(self, layer: LoraLayer, x: Tensor) -> Tensor:
        if not self.names:
            return type(layer).forward(layer, x)
        return self.linear((layer,), x.flatten(0, -2))[0].view(*x.shape[:-1], -1)


def stack(layers: tuple, names: tuple[str, ...], dtype) -> tuple[Tensor, list[Tensor], float]:
    """The adapters of n agents: A of all layers side by side, (n, in, k r); B of each layer,
    (n, r, out); s."""
    downs = torch.cat([layer.lora_A[name].weight for name in names for layer in layers])
    downs = downs.view(len(names), -1, downs.shape[1]).transpose(1, 2)
    ups = [torch.stack([layer.lora_B[name].weight for name in names]) for layer in layers]
    ups = [up.transpose(1, 2).to(dtype) for up in ups]
    return downs.to(dtype), ups, layers[0].scaling[names[0]]


def merge(layers: tuple, names: tuple[str, ...], dtype) -> tuple[Tensor, Tensor | None, list[int]]:
    """W + s B A of each agent, the layers side by side, (n, in, k out); bias; sizes of out."""
    downs, ups, scale = stack(layers, names, dtype)
    parts = zip(layers, downs.split(ups[0].shape[1], 2), ups, strict=True)
    merged = [torch.baddbmm(_base(la).weight.T, down, up, alpha=scale) for la, down, up in parts]
    biases = [_base(layer).bias for layer in layers]
    bias = None if biases[0] is None else torch.cat(biases)
    return torch.cat(merged, 2), bias, [up.shape[2] for up in ups]


def _base(layer: nn.Module) -> nn.Module:
    return layer.base_layer if isinstance(layer, LoraLayer) else layer


def _call(base: nn.Module, x: Tensor) -> Tensor:
    """base(x), without a module's call, which costs as much as a small matrix product."""
    return F.linear(x, base.weight, base.bias) if type(base) is nn.Linear else base(x)


class Groups:
    """n groups of rows, in order, of which the largest has C. Side by side they are one batched
    product, with zeros where a group has fewer rows."""

    def __init__(self, sizes: list[int], device: torch.device):
        self.count, self.size = len(sizes), max(sizes)
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
