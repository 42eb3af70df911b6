"""Repeat the kernels of a decoding step as a CUDA graph, which the host launches at once.

A token of a large model takes a thousand kernels. A GPU ends most of them before the host has
launched the next one. So without a graph it waits for the host.
"""

from collections.abc import Callable

import torch
from torch import Tensor


class Graph:
    """Call a function of tensors that launches the same kernels on tensors of the same shapes.

    Every call passes the same function. The graph does not keep it: a method of the object that
    keeps the graph would be a reference cycle. The function may not wait for the GPU. Other tensors
    that it reads have to stay where they are in memory. The next call overwrites the result.
    """

    graph: torch.cuda.CUDAGraph | None = None  # from the first call on

    def __call__(self, function: Callable[..., Tensor], *tensors: Tensor) -> Tensor:
        if self.graph is None:
            result = function(*tensors)  # also makes what is made of the weights once
            self.record(function, *tensors)
            return result
        for held, tensor in zip(self.tensors, tensors, strict=True):
            held.copy_(tensor)
        self.graph.replay()
        return self.result

    def record(self, function: Callable[..., Tensor], *tensors: Tensor) -> None:
        """Record the kernels. None of them runs meanwhile."""
        self.tensors = [tensor.clone() for tensor in tensors]
        self.graph = torch.cuda.CUDAGraph()
        # Other threads may use the GPU meanwhile: those of rewards, and NCCL's.
        with torch.cuda.graph(self.graph, capture_error_mode="thread_local"):
            self.result = function(*self.tensors)
