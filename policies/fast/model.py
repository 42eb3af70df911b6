"""A model whose forward pass is written out: the fast way to sample and to score.

Shapes: B trees of L tokens, N tokens of responses, V vocabulary.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from policies.fast.adapters import Adapters
from policies.fast.attention import TreeAttention
from policies.fast.decoding import FastRows
from policies.fast.layers import Layers
from policies.logprobs import Layout
from policies.sampling import Sampling, target_logps
from policies.shared_model import SharedModel, recomputed

# Logits that are computed at a time: as many as a CPU's cache holds, or as keep a GPU's cores busy.
CPU_LOGITS = 2**21
GPU_LOGITS = 2**26
LEAST = 128  # tokens at a time: with fewer, a matrix product is slower


class Fast:
    """Run one base of a kind that layers.py knows."""

    rows = FastRows  # samples

    def __init__(self, base: SharedModel):
        self.layers = Layers(base.net.base_model, base.run_layer)

    def token_logps(self, base: SharedModel, layout: Layout, sampling: Sampling) -> Tensor:
        """Return log-probabilities (N,), as logprobs.token_logps does."""
        layers = self.layers
        query_heads, key_heads = layers.heads
        sharing = query_heads // key_heads
        trees = TreeAttention(layout.seen, sharing, base.net.dtype)
        size = layout.ids.shape[1]
        adapters = Adapters(base.row_adapters, size, base.device, updating=True)
        attentions = [trees.attend] * len(layers.layers)
        hidden = layers(layout.ids, layout.positions, adapters, attentions)
        # Responses may share a place. In several threads, only a gradient of `embedding` adds up
        # their parts in one order.
        hidden = F.embedding(layout.predicted, hidden)
        logits = GPU_LOGITS
        if base.device.type == "cpu":
            logits = CPU_LOGITS
        vocabulary = len(base.head.weight)
        count = max(logits // vocabulary, LEAST)

        def logps_of(states: Tensor, tokens: Tensor, agents: list) -> Tensor:
            token_sampling = sampling.of(agents, base.device)
            return target_logps(base.head(states), tokens, token_sampling)

        hidden_parts = hidden.split(count)
        target_parts = layout.targets.split(count)
        starts = range(0, max(len(layout.agents), 1), count)
        agent_parts = [layout.agents[start : start + count] for start in starts]
        parts = zip(hidden_parts, target_parts, agent_parts, strict=True)
        # A trained output layer needs the logits once more.
        if base.head.weight.requires_grad or not hidden.requires_grad:
            return torch.cat([recomputed(logps_of, *part) for part in parts])
        # Each token has V logits. So its gradient is taken as soon as they are there.
        logps = []
        slopes = []
        for states, tokens, agents in parts:
            leaf = states.detach().requires_grad_()
            part = logps_of(leaf, tokens, agents)
            slopes += torch.autograd.grad(part.sum(), leaf)
            logps.append(part.detach())
        change = hidden - hidden.detach()  # 0, but for the gradient
        slope = torch.cat(slopes).float()
        zero = slope * change
        return torch.cat(logps) + zero.sum(-1)
