"""LoRA adapters of several agents on one frozen model, applied in one forward pass.

Only `Adapters.linear` knows what an adapter computes.

Shapes of a pass: N tokens, ordered by adapter. n adapters. C tokens of the adapter that has the
most. k layers that read the same input. r is the rank of the adapters.
"""

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from peft.tuners.lora import LoraLayer
from torch import Tensor, nn

# Decoding merges adapters into a copy of the base's weights per agent, of so many bytes in all.
MERGED_BYTES = 2**26
Linears = tuple[nn.Module, ...]  # k linear layers that read the same input


def mergeable_bytes(model: nn.Module) -> float:
    """Return bytes of the weights that carry adapters; inf where one of them cannot be merged."""
    total = 0
    for layer in model.modules():
        if isinstance(layer, LoraLayer):
            base = _base(layer)
            if type(base) is not nn.Linear or base.weight.dtype != torch.float32:
                return math.inf
            total += base.weight.nbytes
    return total


class Adapters:
    """Compute linear layers for rows that have an adapter each.

    `names` has the adapter of each row, equal ones side by side. Without names, the frozen model
    runs. `tokens` is the number of tokens of a row. While `updating`, gradients are taken, so the
    adapters compute in single precision. Otherwise no weight changes, and `made` holds what is made
    of the weights. `merging` says whether adapters are merged into the weights.
    """

    def __init__(
        self,
        names: list[str],
        tokens: int,
        device: torch.device,
        updating: bool,
        merging: bool = False,
        made: dict | None = None,
    ):
        self.names = tuple(dict.fromkeys(names))
        self.updating = updating
        self.merging = merging
        self.made = made
        if names:
            self.groups = Groups([names.count(name) * tokens for name in self.names], device)

    def linear(self, layers: Linears, x: Tensor) -> list[Tensor]:
        """Return W x + s B A x, (N, in) -> (N, out), of each of the layers."""
        if not self.names or not isinstance(layers[0], LoraLayer):
            return [_call(_base(layer), x) for layer in layers]
        return self.merged(layers, x) if self.merging else self.beside(layers, x)

    def merged(self, layers: Linears, x: Tensor) -> list[Tensor]:
        """Return x (W + s B A), by one product for all layers and agents.

        A token of a small model costs by the number of products, not by their size.
        """
        weight, bias, sizes = self.once(merge, layers, x.dtype)
        x = self.groups.split(x)
        outputs = torch.bmm(x, weight) if bias is None else torch.baddbmm(bias, x, weight)
        outputs = self.groups.join(outputs)
        return outputs.split_with_sizes(sizes, 1)

    def beside(self, layers: Linears, x: Tensor) -> list[Tensor]:
        """Return x W + s (x A) B: A is one product for all layers, B one for each layer."""
        dtype = torch.float32 if self.updating else x.dtype
        downs, ups, scale = self.once(stack, layers, dtype)
        grouped = self.groups.split(x)  # (n, C, in)
        even = self.groups.place is None
        inner = torch.bmm(grouped.to(dtype), downs)  # (n, C, k r)
        parts = inner.chunk(len(layers), 2)  # of each layer, (n, C, r)
        outputs = []
        for layer, part, up in zip(layers, parts, ups, strict=True):
            base = _base(layer)
            output = _call(base, grouped if even else x)
            alike = output.dtype == dtype  # not in a mixed --precision
            if even and alike and type(base) is nn.Linear:
                output.baddbmm_(part, up, alpha=scale)
                output = output.flatten(0, 1)
            else:
                delta = torch.bmm(part, up)
                delta = self.groups.join(delta).to(output.dtype)
                output = torch.add(output.view_as(delta), delta, alpha=scale)
            outputs.append(output)
        return outputs

    def once(self, make: Callable, layers: Linears, dtype: torch.dtype) -> tuple:
        """Return make(layers, names, dtype), which `made` holds while no weight changes."""
        if self.updating:
            return make(layers, self.names, dtype)
        key = (layers[0], self.names)
        if key not in self.made:
            self.made[key] = make(layers, self.names, dtype)
        return self.made[key]


def stack(layers: Linears, names: tuple, dtype) -> tuple[Tensor, list[Tensor], float]:
    """Return the adapters of n agents: A, B and s.

    A has all layers side by side (n, in, k r). B is a list by layer, (n, r, out) each.
    """
    downs = []
    ups = []
    for name in names:
        downs += [layer.lora_A[name].weight for layer in layers]  # (r, in) each
    down = torch.cat(downs)  # (n k r, in)
    down = down.unflatten(0, (len(names), -1))
    down = down.transpose(1, 2).to(dtype)
    for layer in layers:
        up = torch.stack([layer.lora_B[name].weight for name in names])
        up = up.transpose(1, 2)
        ups.append(up.to(dtype))
    scale = layers[0].scaling[names[0]]
    return down, ups, scale


def merge(layers: Linears, names: tuple, dtype) -> tuple[Tensor, Tensor | None, list[int]]:
    """Return W + s B A of each agent, the layers' bias, and the size of each layer's output.

    The layers stand side by side (n, in, k out).
    """
    downs, ups, scale = stack(layers, names, dtype)
    parts = downs.chunk(len(layers), 2)
    merged = []
    for layer, down, up in zip(layers, parts, ups, strict=True):
        weight = _base(layer).weight.T
        merged.append(torch.baddbmm(weight, down, up, alpha=scale))
    biases = [_base(layer).bias for layer in layers]
    bias = None if biases[0] is None else torch.cat(biases)
    sizes = [up.shape[2] for up in ups]
    return torch.cat(merged, 2), bias, sizes


def _base(layer: nn.Module) -> nn.Module:
    return layer.base_layer if isinstance(layer, LoraLayer) else layer


def _call(base: nn.Module, x: Tensor) -> Tensor:
    """Return base(x) without a module's call, which costs as much as a small matrix product."""
    if type(base) is nn.Linear:
        return F.linear(x, base.weight, base.bias)
    return base(x)


class Groups:
    """Lay n groups of rows side by side, for one batched product.

    The largest group has C rows. Smaller groups are padded with zeros.
    Groups of sizes [2, 1]: the rows a b | c are padded to a b | c 0, so place = [0, 1, 2].
    """

    def __init__(self, sizes: list[int], device: torch.device):
        self.count = len(sizes)
        self.size = max(sizes)
        self.place = None  # of each row. None: groups are equal in size, and no row has to move
        if min(sizes) < self.size:
            places = []
            for number, size in enumerate(sizes):
                start = number * self.size
                places.append(torch.arange(start, start + size))
            self.place = torch.cat(places).to(device)

    def pad(self, x: Tensor) -> Tensor:
        """(N, ...) -> (n C, ...)."""
        if self.place is None:
            return x
        padded = x.new_zeros(self.count * self.size, *x.shape[1:])
        return padded.index_copy_(0, self.place, x)

    def unpad(self, x: Tensor) -> Tensor:
        """(n C, ...) -> (N, ...)."""
        return x if self.place is None else x.index_select(0, self.place)

    def split(self, x: Tensor) -> Tensor:
        """(N, X) -> (n, C, X)."""
        return self.pad(x).view(self.count, self.size, -1)

    def join(self, x: Tensor) -> Tensor:
        """(n, C, X) -> (N, X)."""
        return self.unpad(x.view(self.count * self.size, -1))
