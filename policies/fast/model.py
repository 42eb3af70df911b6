"""A model whose forward pass is written out: the fast way to sample and to score.

Shapes: B trees of L tokens, N tokens of responses, D hidden units, V vocabulary.
"""

import functools
from collections.abc import Callable, Iterable

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from policies.fast.adapters import Adapters
from policies.fast.attention import TreeMask, attend
from policies.fast.decoding import FastRows
from policies.fast.layers import Layers
from policies.logprobs import Layout
from policies.sampling import Sampling, target_logps
from policies.shared_model import SharedModel

# Logits that are computed at a time: as many as a CPU's cache holds, or as keep a GPU's cores busy.
CPU_LOGITS = 2**21
GPU_LOGITS = 2**26
LEAST = 64  # tokens at a time


class Fast:
    """Run one base of a kind that layers.py knows."""

    def __init__(self, base: SharedModel):
        self.base = base
        self.layers = Layers(base.net.base_model)
        query_heads, key_heads = self.layers.layers[0].heads
        self.sharing = query_heads // key_heads  # queries that share a head's keys

    def prefill(self, base: SharedModel, prompts, agents, samples: int, limit: int) -> FastRows:
        """Let the model read the prompts. Return S rows of each, as decoding.prefill does."""
        return FastRows(self, prompts, agents, samples, limit)

    def token_logps(self, base: SharedModel, layout: Layout, sampling: Sampling) -> Tensor:
        """Return log-probabilities (N,), as logprobs.token_logps does."""
        size = layout.ids.shape[1]
        adapters = Adapters(base.row_adapters, size, base.device, updating=True)
        mask = TreeMask(layout.seen, self.sharing, base.net.dtype)
        attentions = [functools.partial(attend, mask=mask)] * len(self.layers.layers)
        hidden = self.layers(layout.ids, layout.positions, adapters, attentions, base.recomputing)
        hidden = hidden[layout.predicted]
        logits = CPU_LOGITS if base.device.type == "cpu" else GPU_LOGITS
        count = max(logits // len(base.head.weight), LEAST)

        def logps_of(states: Tensor, tokens: Tensor) -> Tensor:
            return target_logps(base.head(states), tokens, sampling)

        if hidden.requires_grad and not base.head.weight.requires_grad:
            return TokenLogps.apply(hidden, layout.targets, logps_of, count)
        # A trained output layer needs the logits once more. Without dropout they are
        # the same, so no state of random numbers is kept.
        options = {"use_reentrant": False, "preserve_rng_state": False}
        logps = []
        for states, tokens in in_parts(hidden, layout.targets, count):
            logps.append(checkpoint(logps_of, states, tokens, **options))
        return torch.cat(logps)


def in_parts(hidden: Tensor, targets: Tensor, count: int) -> Iterable[tuple[Tensor, Tensor]]:
    """Return states (n, D) and target tokens (n,), at most `count` at a time."""
    return zip(hidden.split(count), targets.split(count), strict=True)


class TokenLogps(torch.autograd.Function):
    """Compute logps_of(hidden, targets), log pi (N,) of tokens, for `count` of them at a time.

    A token's gradient is taken as soon as its logits are there, because each token has V of them.
    """

    @staticmethod
    def forward(
        ctx,
        hidden: Tensor,
        targets: Tensor,
        logps_of: Callable,
        count: int,
    ) -> Tensor:
        values = []
        slopes = []
        for states, tokens in in_parts(hidden, targets, count):
            leaf = states.detach().requires_grad_()
            with torch.enable_grad():
                logps = logps_of(leaf, tokens)
            values.append(logps.detach())
            ones = torch.ones_like(logps)
            [slope] = torch.autograd.grad(logps, leaf, ones)
            slopes.append(slope)
        ctx.save_for_backward(torch.cat(slopes))
        return torch.cat(values)

    @staticmethod
    def backward(ctx, grad: Tensor):
        [slopes] = ctx.saved_tensors
        return slopes * grad[:, None], None, None, None
