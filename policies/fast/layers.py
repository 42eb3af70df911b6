"""The forward pass of a decoder of the Llama kind, written out.

It has half the kernels and less Python than transformers' own.

Shapes: R rows of T tokens, N = R T. Heads have D units.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from policies.fast.adapters import Adapters

KINDS = ("llama", "mistral", "qwen2", "qwen3")
ROTATIONS = ("default", "linear", "llama3", "yarn")  # whose angles are functions of the position


def is_known(config) -> bool:
    """Return whether layers of this kind are written out here. Attention has no window here."""
    rotation = getattr(config, "rope_parameters", None) or {}
    rotates = rotation.get("rope_type") in ROTATIONS
    window = getattr(config, "sliding_window", None)
    return config.model_type in KINDS and rotates and not window


class Layer:
    """Hold the parts of one layer.

    A module's lookups and calls cost as much as small kernels, and decoding goes through every
    layer for every token.
    """

    def __init__(self, layer: nn.Module):
        attention = layer.self_attn
        mlp = layer.mlp
        self.query = attention.q_proj
        self.key = attention.k_proj
        self.value = attention.v_proj
        self.output = attention.o_proj
        self.gate = mlp.gate_proj
        self.up = mlp.up_proj
        self.down = mlp.down_proj
        self.activation = mlp.act_fn.forward
        self.input_norm = norm(layer.input_layernorm)
        self.post_norm = norm(layer.post_attention_layernorm)
        self.q_norm = None
        self.k_norm = None
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
    """Run a model without its output layer, of a kind that `is_known`.

    run_layer(function, *inputs) calls the function of a layer (SharedModel.run_layer).
    """

    def __init__(self, net: nn.Module, run_layer: Callable):
        self.net = net
        self.run_layer = run_layer
        self.layers = [Layer(layer) for layer in net.layers]
        self.norm = norm(net.norm)
        self.size = net.layers[0].self_attn.head_dim
        config = net.config
        self.heads = [config.num_attention_heads, config.num_key_value_heads]

    def rotations(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Return cosines and sines (R, T, 1, D) of the rotary angles at positions (R, T)."""
        weights = self.net.embed_tokens.weight  # for their type and device alone
        cos, sin = self.net.rotary_emb(weights, positions)
        first, second = sin.chunk(2, -1)
        sin = torch.cat([-first, second], -1)
        return cos.unsqueeze(-2), sin.unsqueeze(-2)

    def __call__(
        self,
        tokens: Tensor,
        positions: Tensor,
        adapters: Adapters,
        attentions: list[Callable],
    ) -> Tensor:
        """Return the last hidden states (N, hidden) of tokens (R, T).

        Each layer has its own of the `attentions` (attention.py).
        """
        linear = adapters.linear
        heads_of = (*tokens.shape, -1, self.size)  # (R, T, heads, D)
        cos, sin = self.rotations(positions)

        def run(layer: Layer, attention: Callable, x: Tensor) -> Tensor:
            normed = layer.input_norm(x)
            query = linear(layer.query, normed).view(heads_of)
            key = linear(layer.key, normed).view(heads_of)
            value = linear(layer.value, normed).view(heads_of)
            if layer.q_norm:
                query = layer.q_norm(query)
                key = layer.k_norm(key)
            heads = torch.cat([query, key], 2)
            heads = heads * cos + heads.roll(self.size // 2, -1) * sin
            heads = heads.transpose(1, 2)  # (R, heads, T, D)
            query, key = heads.split(self.heads, 1)
            value = value.transpose(1, 2)
            mixed = attention(query, key, value)  # (R, T, heads, D)
            mixed = mixed.view(len(x), -1)  # (N, heads D)
            x = x + linear(layer.output, mixed)
            normed = layer.post_norm(x)
            gate = linear(layer.gate, normed)
            gate = layer.activation(gate)
            inner = gate * linear(layer.up, normed)
            return x + linear(layer.down, inner)

        x = self.net.embed_tokens(tokens)
        x = x.flatten(0, 1)  # (N, hidden)
        for layer, attention in zip(self.layers, attentions, strict=True):
            x = self.run_layer(run, layer, attention, x)
        return self.norm(x)
