"""Rows of a pass that belong together: an agent's tokens, or the responses to a prompt."""

import torch
from torch import Tensor


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
