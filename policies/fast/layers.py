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


def rms_norm(norm: nn.Module, x: Tensor) -> Tensor:
    """Return norm(x) of an RMSNorm module, by one kernel."""
    return F.rms_norm(x, norm.weight.shape, norm.weight, norm.variance_epsilon)


class Layers:
    """Run a model without its output layer, of a kind that `is_known`.

    run_layer(function, *inputs) calls the function of a layer (SharedModel.run_layer).
    """

    def __init__(self, net: nn.Module, run_layer: Callable):
        self.net = net
        self.run_layer = run_layer
        self.layers = net.layers
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

        def run(layer: nn.Module, attention: Callable, x: Tensor) -> Tensor:
            weights = layer.self_attn
            normed = rms_norm(layer.input_layernorm, x)
            query = linear(weights.q_proj, normed).view(heads_of)
            key = linear(weights.k_proj, normed).view(heads_of)
            value = linear(weights.v_proj, normed).view(heads_of)
            if hasattr(weights, "q_norm"):
                query = rms_norm(weights.q_norm, query)
                key = rms_norm(weights.k_norm, key)
            heads = torch.cat([query, key], 2)
            heads = heads * cos + heads.roll(self.size // 2, -1) * sin
            heads = heads.transpose(1, 2)  # (R, heads, T, D)
            query, key = heads.split(self.heads, 1)
            value = value.transpose(1, 2)
            mixed = attention(query, key, value)  # (R, T, heads, D)
            mixed = mixed.view(len(x), -1)  # (N, heads D)
            x = x + linear(weights.o_proj, mixed)
            normed = rms_norm(layer.post_attention_layernorm, x)
            mlp = layer.mlp
            gate = linear(mlp.gate_proj, normed)
            gate = mlp.act_fn(gate)
            inner = gate * linear(mlp.up_proj, normed)
            return x + linear(mlp.down_proj, inner)

        x = self.net.embed_tokens(tokens)
        x = x.flatten(0, 1)  # (N, hidden)
        for layer, attention in zip(self.layers, attentions, strict=True):
            x = self.run_layer(run, layer, attention, x)
        return rms_norm(self.net.norm, x)
