"""LoRA adapters of several agents on one frozen model, applied in one forward pass.

Only `Adapters.linear` knows what an adapter computes.

Shapes of a pass: N tokens, ordered by adapter. n adapters. C tokens of the adapter that has the
most. r is the rank of the adapters.
"""

import torch
import torch.nn.functional as F
from peft.tuners.lora import LoraLayer
from torch import Tensor, nn


class Adapters:
    """Compute linear layers for rows that have an adapter each.

    `names` has the adapter of each row, equal ones side by side. Without names, the frozen model
    runs. `tokens` is the number of tokens of a row. While `updating`, gradients are taken, so the
    adapters compute in single precision. Otherwise no weight changes, and the stacks of them are
    made once.
    """

    def __init__(self, names: list[str], tokens: int, device: torch.device, updating: bool):
        self.names = list(dict.fromkeys(names))
        self.updating = updating
        self.stacks: dict = {}  # by layer
        if names:
            sizes = [names.count(name) * tokens for name in self.names]
            self.groups = Groups(sizes, device)

    def linear(self, layer: nn.Module, x: Tensor) -> Tensor:
        """Return W x + s B A x, (N, in) -> (N, out), by one product each for all agents."""
        base = layer.base_layer if isinstance(layer, LoraLayer) else layer
        if not self.names:
            return _call(base, x)
        dtype = torch.float32 if self.updating else x.dtype
        down, up, scale = self.stacked(layer, dtype)
        rows = self.groups.pad(x)
        rows = rows.unflatten(0, (len(self.names), -1))  # (n, C, in)
        inner = torch.bmm(rows.to(dtype), down)  # (n, C, r)
        if self.groups.even:
            output = _call(base, rows)  # (n, C, out)
            # not in a mixed --precision
            if output.dtype == dtype and type(base) is nn.Linear:
                output.baddbmm_(inner, up, alpha=scale)
                return output.flatten(0, 1)
            output = output.flatten(0, 1)
        else:
            output = _call(base, x)
        delta = torch.bmm(inner, up)
        delta = self.groups.unpad(delta.flatten(0, 1))
        return torch.add(output, delta.to(output.dtype), alpha=scale)

    def stacked(self, layer: LoraLayer, dtype: torch.dtype) -> tuple[Tensor, Tensor, float]:
        """Return the adapters of a layer: A (n, in, r), B (n, r, out) and s."""
        if layer in self.stacks:
            return self.stacks[layer]
        down = torch.stack([layer.lora_A[name].weight for name in self.names])  # (n, r, in)
        down = down.transpose(1, 2).to(dtype)
        up = torch.stack([layer.lora_B[name].weight for name in self.names])  # (n, out, r)
        up = up.transpose(1, 2).to(dtype)
        stack = (down, up, layer.scaling[self.names[0]])
        if not self.updating:
            self.stacks[layer] = stack
        return stack


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
        self.even = min(sizes) == self.size  # groups are equal in size, and no row has to move
        if not self.even:
            places: list[int] = []  # of each row
            for number, size in enumerate(sizes):
                start = number * self.size
                places += range(start, start + size)
            self.place = torch.tensor(places, device=device)

    def pad(self, x: Tensor) -> Tensor:
        """(N, ...) -> (n C, ...)."""
        if self.even:
            return x
        padded = x.new_zeros(self.count * self.size, *x.shape[1:])
        return padded.index_copy_(0, self.place, x)

    def unpad(self, x: Tensor) -> Tensor:
        """(n C, ...) -> (N, ...)."""
        if self.even:
            return x
        return x.index_select(0, self.place)
