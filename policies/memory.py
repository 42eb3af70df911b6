"""What a base's passes take, and how much of it is done at once."""

import torch

from policies.base import Base

# Bytes that one forward pass of the update may keep for its backward pass; more is no faster. On a
# CPU: what its caches hold, or, for a larger model, the activations of CPU_TOKENS tokens, so that
# matrix products have enough rows, but no more than CPU_BYTES.
UPDATE_BYTES = {"cpu": 2**26, "cuda": 3 * 2**30}
CPU_TOKENS, CPU_BYTES = 512, 2**30
# Bytes that one prompt may keep for its backward pass; a longer one is run twice, and costs a third
# more time. On a GPU what a forward pass may keep, on a CPU much more.
PROMPT_BYTES = {"cpu": 2**32, "cuda": UPDATE_BYTES["cuda"]}
DECODE_TOKENS = 2**18  # padded tokens whose keys and values one decode may hold


def activations(base: Base, tokens: int) -> int:
    """Bytes that the backward pass keeps for so many tokens, about: 12 numbers per hidden unit
    and 4 per feed-forward unit of every layer, four bytes each. TokenLogps keeps no logits.
    Without gradients, only one layer's are alive at a time."""
    config = base.net.config.get_text_config()
    inner = getattr(config, "intermediate_size", None) or 4 * config.hidden_size
    width = 12 * config.hidden_size + 4 * inner
    return 4 * tokens * (config.num_hidden_layers if torch.is_grad_enabled() else 1) * width


def cache_bytes(base: Base) -> int:
    """Bytes of one token's keys and values in all layers."""
    config = base.net.config.get_text_config()
    head = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    return 2 * config.num_hidden_layers * heads * head * base.net.dtype.itemsize


def cost(base: Base, prompt: int, response: int) -> float:
    """Share of one forward pass of the update that a row takes up: its own tokens, and a copy
    of its prompt's keys and values."""
    kept = activations(base, response) + prompt * cache_bytes(base)
    return kept / update_bytes(base)


def update_bytes(base: Base) -> int:
    if base.device.type == "cuda":
        return UPDATE_BYTES["cuda"]
    return max(UPDATE_BYTES["cpu"], min(activations(base, CPU_TOKENS), CPU_BYTES))


def longest(base: Base) -> int:
    """Tokens of one prompt whose activations a pass of the update may keep."""
    return max(1, PROMPT_BYTES[base.device.type] // activations(base, 1))
