"""LoRA adapters of several agents on one frozen model, applied in one forward pass.

Only `Adapters.linear` knows what an adapter computes.

Shapes of a pass: N tokens, ordered by adapter. n adapters. C tokens of the adapter that has the
most. r is the rank of the adapters.
"""

from collections import Counter

import torch
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
        counts = Counter(names)
        self.names = list(counts)
        self.updating = updating
        self.stacks: dict = {}  # by layer
        if names:
            sizes = [count * tokens for count in counts.values()]
            self.groups = Groups(sizes, device)

    def linear(self, layer: nn.Module, x: Tensor) -> Tensor:
        """Return W x + s B A x, (N, in) -> (N, out), by one product each for all agents."""
        base = layer
        if isinstance(layer, LoraLayer):
            base = layer.base_layer
        if not self.names:
            return base(x)
        dtype = x.dtype
        if self.updating:
            dtype = torch.float32
        down, up, scale = self.stacked(layer, dtype)
        rows = self.groups.pad(x)  # (n, C, in)
        inner = torch.bmm(rows.to(dtype), down)  # (n, C, r)
        if self.groups.even:
            output = base(rows)  # (n, C, out)
            # not in a mixed --precision
            if output.dtype == dtype and type(base) is nn.Linear:
                output.baddbmm_(inner, up, alpha=scale)
                return output.flatten(0, 1)
            output = output.flatten(0, 1)
        else:
            output = base(x)
        delta = torch.bmm(inner, up)
        delta = self.groups.unpad(delta)
        delta = delta.to(output.dtype)
        return torch.add(output, delta, alpha=scale)

    def stacked(self, layer: LoraLayer, dtype: torch.dtype) -> tuple[Tensor, Tensor, float]:
        """Return the adapters of a layer: A (n, in, r), B (n, r, out) and s."""
        if layer in self.stacks:
            return self.stacks[layer]
        downs = [layer.lora_A[name].weight for name in self.names]
        down = torch.stack(downs).transpose(1, 2)  # (n, in, r)
        ups = [layer.lora_B[name].weight for name in self.names]
        up = torch.stack(ups).transpose(1, 2)  # (n, r, out)
        scale = layer.scaling[self.names[0]]
        stack = (down.to(dtype), up.to(dtype), scale)
        if not self.updating:
            self.stacks[layer] = stack
        return stack


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
        """(N, ...) -> (n, C, ...)."""
        if not self.even:
            rows = self.count * self.size
            padded = x.new_zeros(rows, *x.shape[1:])
            x = padded.index_copy_(0, self.place, x)
        return x.unflatten(0, (self.count, self.size))

    def unpad(self, x: Tensor) -> Tensor:
        """(n, C, ...) -> (N, ...)."""
        x = x.flatten(0, 1)
        if not self.even:
            x = x.index_select(0, self.place)
        return x
