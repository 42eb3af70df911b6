"""The forward pass of a decoder of the Llama kind, written out: half of the kernels and less of the
Python of transformers' own, which every other kind goes through (Base.hidden).

Shapes: R rows of T tokens, N = R T; heads of D units.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers.cache_utils import Cache

from adapters import Adapters
from attention import attend

KINDS = ("llama", "mistral", "qwen2", "qwen3")
ROTATIONS = ("default", "linear", "llama3", "yarn")  # whose angles are functions of the position


def is_known(config) -> bool:
    rotation = getattr(config, "rope_parameters", None) or {}
    whole = getattr(config, "sliding_window", None) is None
    return whole and config.model_type in KINDS and rotation.get("rope_type") in ROTATIONS


class Blocks:
    """net: the model without its output layer, of a kind that `is_known`."""

    def __init__(self, net: nn.Module, adapters: Adapters):
        self.net, self.linear = net, adapters.linear
        self.size = net.layers[0].self_attn.head_dim
        self.table = torch.empty(0)  # of rotations, (positions, 2 D)

    def rotations(self, positions: Tensor, count: int) -> tuple[Tensor, Tensor]:
        """Cosines and sines (.., T, 1, D) of the rotary angles at positions (.., T) below count."""
        if len(self.table) < count:
            weight = self.net.embed_tokens.weight  # for its device and type
            every = torch.arange(max(count, 2 * len(self.table)), device=weight.device)
            cos, sin = self.net.rotary_emb(weight, every[None])
            first, second = sin[0].chunk(2, -1)
            self.table = torch.cat([cos[0], -first, second], -1)
        return F.embedding(positions, self.table).unsqueeze(-2).split(self.size, -1)

    def __call__(
        self, tokens: Tensor, positions: Tensor, cache: Cache, mask: Tensor | None, keys_only: bool
    ) -> Tensor:
        """Last hidden states (R, T, hidden) of tokens (R, T); see Base.hidden."""
        layers, shape = self.net.layers, tokens.shape
        turn = self.rotations(positions, cache.get_seq_length() + shape[1])
        x = self.net.embed_tokens(tokens).flatten(0, 1)
        for index, layer in enumerate(layers):
            attention, mlp = layer.self_attn, layer.mlp
            seen = norm(layer.input_layernorm, x)
            qkv = self.linear((attention.q_proj, attention.k_proj, attention.v_proj), seen)
            query, key, value = (t.view(*shape, -1, self.size) for t in qkv)
            if hasattr(attention, "q_norm"):
                query, key = norm(attention.q_norm, query), norm(attention.k_norm, key)
            query, key = rotate(query, *turn), rotate(key, *turn)
            query, key, value = (t.transpose(1, 2) for t in (query, key, value))
            key, value = cache.update(key, value, index)
            if keys_only and index + 1 == len(layers):
                break
            mixed, _ = attend(attention, query, key, value, mask, attention.scaling)
            x = x + self.linear((attention.o_proj,), mixed.view(len(x), -1))[0]
            seen = norm(layer.post_attention_layernorm, x)
            gate, up = self.linear((mlp.gate_proj, mlp.up_proj), seen)
            x = x + self.linear((mlp.down_proj,), mlp.act_fn(gate) * up)[0]
        return norm(self.net.norm, x).view(*shape, -1)


def norm(module: nn.Module, x: Tensor) -> Tensor:
    return F.rms_norm(x, module.weight.shape, module.weight, module.variance_epsilon)


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """x (R, T, heads, D) turned by its position; the first half of `sin` is negative."""
    return x * cos + x.roll(x.shape[-1] // 2, -1) * sin
