"""The forward pass of a decoder of the Llama kind, written out.

It has half the kernels and less Python than transformers' own.

Shapes: R rows of T tokens, N = R T. Heads have D units.
"""

import functools
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from fast.adapters import Adapters
from fast.attention import TreeMask, attend

KINDS = ("llama", "mistral", "qwen2", "qwen3")
ROTATIONS = ("default", "linear", "llama3", "yarn")  # whose angles are functions of the position


def is_known(config) -> bool:
    rotation = getattr(config, "rope_parameters", None) or {}
    return config.model_type in KINDS and rotation.get("rope_type") in ROTATIONS


class Layer:
    """Hold the parts of one layer.

    A module's lookups and calls cost as much as small kernels, and decoding goes through every
    layer for every token.
    """

    def __init__(self, layer: nn.Module):
        attention = layer.self_attn
        mlp = layer.mlp
        self.qkv = (attention.q_proj, attention.k_proj, attention.v_proj)
        self.output = (attention.o_proj,)
        self.scaling = attention.scaling
        query_heads = attention.q_proj.out_features // attention.head_dim
        key_heads = attention.k_proj.out_features // attention.head_dim
        self.heads = [query_heads, key_heads]
        self.gate_up = (mlp.gate_proj, mlp.up_proj)
        self.down = (mlp.down_proj,)
        self.activation = mlp.act_fn.forward
        self.input_norm = norm(layer.input_layernorm)
        self.post_norm = norm(layer.post_attention_layernorm)
        self.q_norm = self.k_norm = None
        if hasattr(attention, "q_norm"):
            self.q_norm = norm(attention.q_norm)
            self.k_norm = norm(attention.k_norm)


def norm(module: nn.Module):
    """Return the function of an RMSNorm module."""
    weight = module.weight
    shape = weight.shape
    epsilon = module.variance_epsilon
    return lambda x: F.rms_norm(x, shape, weight, epsilon)


class Layers:
    """Run a model without its output layer, of a kind that `is_known`."""

    def __init__(self, net: nn.Module):
        self.net = net
        self.layers = [Layer(layer) for layer in net.layers]
        self.norm = norm(net.norm)
        self.size = net.layers[0].self_attn.head_dim

    def rotations(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Return cosines and sines (R, T, 1, D) of the rotary angles at positions (R, T)."""
        cos, sin = self.net.rotary_emb(self.net.embed_tokens.weight, positions)
        first, second = sin.chunk(2, -1)
        sin = torch.cat([-first, second], -1)
        return cos.unsqueeze(-2), sin.unsqueeze(-2)

    def __call__(
        self,
        tokens: Tensor,
        positions: Tensor,
        adapters: Adapters,
        caches: list | None = None,
        mask: TreeMask | None = None,
        needed: tuple[Tensor, Adapters] | None = None,
        recomputing: bool = False,
    ) -> Tensor:
        """Return the last hidden states (N, hidden) of tokens (R, T).

        With `caches`, one for each layer, the caches compute the attention (attention.py). The
        `mask` says which tokens see which. Without it, a token sees all earlier ones. `needed` has
        places (M,) and their adapters. Only the states of these places are returned, (M, hidden).
        While `recomputing`, each layer keeps its input alone, and runs again in the backward pass.
        """
        shape = tokens.shape
        rotation = self.rotations(positions)
        x = self.net.embed_tokens(tokens)
        x = x.flatten(0, 1)  # (N, hidden)
        run = self.run
        if recomputing:
            # Without dropout, running again needs no random numbers.
            options = {"use_reentrant": False, "preserve_rng_state": False}
            run = functools.partial(checkpoint, self.run, **options)
        for index, layer in enumerate(self.layers):
            attention = attend
            if caches:
                attention = caches[index].attend
            last = index + 1 == len(self.layers)
            places = needed if last else None
            x = run(layer, x, shape, rotation, adapters, attention, mask, places)
        return self.norm(x)

    def run(
        self,
        layer: Layer,
        x: Tensor,
        shape: torch.Size,
        rotation: tuple[Tensor, Tensor],
        adapters: Adapters,
        attention: Callable,
        mask: TreeMask | None,
        needed: tuple[Tensor, Adapters] | None,
    ) -> Tensor:
        """Return what a layer makes of x (N, hidden), or of the needed places."""
        linear = adapters.linear
        cos, sin = rotation
        normed = layer.input_norm(x)
        parts = linear(layer.qkv, normed)
        query, key, value = (part.view(*shape, -1, self.size) for part in parts)
        if layer.q_norm:
            query = layer.q_norm(query)
            key = layer.k_norm(key)
        heads = torch.cat([query, key], 2)
        heads = heads * cos + heads.roll(self.size // 2, -1) * sin  # rotated by position
        heads = heads.transpose(1, 2)
        query, key = heads.split_with_sizes(layer.heads, 1)
        mixed = attention(query, key, value.transpose(1, 2), layer.scaling, mask)
        mixed = mixed.view(len(x), -1)
        if needed:
            places, their_adapters = needed
            x = x[places]
            mixed = mixed[places]
            linear = their_adapters.linear
        [output] = linear(layer.output, mixed)
        x = x + output
        normed = layer.post_norm(x)
        gate, up = linear(layer.gate_up, normed)
        inner = layer.activation(gate) * up
        [output] = linear(layer.down, inner)
        return x + output
