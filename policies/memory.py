"""What a base's passes take, and how much of it is done at once.

A decode, and a pass of the update, may take a share of the device's memory: of a card's or the
machine's own, or of --memory. What is left is for weights, gradients and Adam's moments.
"""

import functools
import os
from pathlib import Path

import torch

from policies.base import Base
from policies.sampling import Sampling, tokens_at_once

SHARE = {"cpu": 1 / 8, "cuda": 1 / 4}
# On a CPU, a pass of the update that keeps more than its caches hold is no faster; with a larger
# model it may keep the activations of CPU_TOKENS tokens, so that matrix products have enough rows,
# but no more than CPU_BYTES.
UPDATE_BYTES = {"cpu": 2**26}
CPU_TOKENS, CPU_BYTES = 512, 2**30
HELD = 1.4  # what a CPU's heap holds for a byte of a pass, holes and all: measured
PROMPT_BYTES = 2**32  # on a CPU, what a prompt may keep; a longer one is run twice
LOGIT_BYTES = {False: 12, True: 24}  # of one logit while it is used; with top-k or top-p


def total(base: Base) -> int:
    """Bytes of memory that this process may plan with."""
    limit = int(base.memory * 2**30) if base.memory else None
    if base.device.type == "meta":  # bench/hardware.py: no device, and so a limit
        return limit
    if base.device.type == "cuda":
        own = torch.cuda.get_device_properties(base.device).total_memory
    else:
        own = host()
    return min(limit or own, own)


@functools.cache
def host() -> int:
    """Bytes of the machine's memory, or of the container that this process is in."""
    own = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit = Path("/sys/fs/cgroup/memory.max")
    told = limit.read_text().strip() if limit.is_file() else "max"
    return own if told == "max" else min(own, int(told))


def share(base: Base) -> int:
    """Bytes that one decode, or one pass of the update over prompts and responses, may take."""
    return int(total(base) * SHARE.get(base.device.type, SHARE["cuda"]))


def activations(base: Base, tokens: int) -> int:
    """Bytes that the backward pass keeps for so many tokens, about: of every layer 7 numbers per
    hidden unit (on a CPU 12) and 4 per feed-forward unit, of which adapters read 3 and 1 in 32
    bits. TokenLogps keeps no logits. Without gradients, only one layer's are alive at a time."""
    config, size = base.net.config.get_text_config(), base.net.dtype.itemsize
    inner = getattr(config, "intermediate_size", None) or 4 * config.hidden_size
    hidden = (9 if base.device.type == "cpu" else 4) * size + 3 * 4
    width = hidden * config.hidden_size + (3 * size + 4) * inner
    return tokens * (config.num_hidden_layers if torch.is_grad_enabled() else 1) * width


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
    """Bytes that a forward pass of the update over prompts, or over responses, may keep."""
    most = share(base) // 2
    if base.device.type != "cpu":
        return most
    return min(most, max(UPDATE_BYTES["cpu"], min(activations(base, CPU_TOKENS), CPU_BYTES)))


def longest(base: Base) -> int:
    """Tokens of one prompt whose activations a pass of the update may keep. A longer one is run
    twice, and costs a third more time."""
    most = share(base) // 2
    most = min(most, PROMPT_BYTES) if base.device.type == "cpu" else most
    return max(1, most // activations(base, 1))


def weights(base: Base) -> int:
    """Bytes of a base's weights and adapters. On a CPU, those in 8 and 4 bits are there once more
    in 32, about: the file stays mapped, of which the layers that are not packed are a part."""
    found = sum(t.nbytes for t in (*base.parameters(), *base.buffers()))
    packed = {  # an adapter's layer shows its base's weight as its own, too
        id(module.weight): module
        for module in base.modules()
        if isinstance(getattr(module, "weight", None), torch.Tensor)
        and not module.weight.is_floating_point()
    }
    for module in packed.values():
        if state := getattr(module.weight, "quant_state", None):
            found += state.absmax.nbytes  # 4 bits: the scale of each block of 64 weights
        if base.device.type == "cpu":
            found += 4 * module.in_features * module.out_features
    return found


def adapters_bytes(base: Base) -> int:
    """Bytes of what a decode makes of the agents' adapters: merged weights, or stacks of them."""
    if not base.lora:
        return 0
    stacked = sum(p.nbytes for agent in base.agents for p in base.parameters_of(agent))
    return stacked + base.adapters.merged_bytes(len(base.agents))


def beside_bytes(base: Base, rows: int, prompt: int, limit: int, sampling: Sampling) -> int:
    """Bytes that a pass of the update over so many responses takes besides its activations: their
    own keys and values beside another copy of their prompts', every layer's mask, and the logits
    that exist at a time (TokenLogps)."""
    config, vocab = base.net.config.get_text_config(), len(base.head.weight)
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    mask = config.num_attention_heads // heads * limit * (prompt + limit) * base.net.dtype.itemsize
    logits = min(rows * limit, tokens_at_once(base.device, vocab)) * vocab * logit_bytes(sampling)
    kept = (prompt + limit) * cache_bytes(base) + config.num_hidden_layers * mask
    return rows * kept + logits


def logit_bytes(sampling: Sampling) -> int:
    return LOGIT_BYTES[sampling.top_k > 0 or sampling.top_p < 1]


@torch.no_grad()
def decode_bytes(base: Base, prompt: int, samples: int, limit: int, sampling: Sampling) -> int:
    """Bytes that one prompt of so many tokens takes while its responses are decoded: first its own
    pass, then keys and values of all tokens, and the logits of one token of each response."""
    logits = samples * len(base.head.weight) * logit_bytes(sampling)
    prefill = prompt * cache_bytes(base) + activations(base, prompt)
    held = (prompt + samples * limit) * cache_bytes(base)
    if base.device.type == "cpu":  # RowCache: in single precision there; `prefilled_at_once`
        return held * 4 // base.net.dtype.itemsize + logits
    return max(prefill, held + logits)


@torch.no_grad()
def prefilled_at_once(base: Base, prompt: int) -> int:
    """How many prompts, the longest of so many tokens, one pass of a decode takes. On a CPU more
    than its caches hold are no faster together."""
    most = min(share(base), UPDATE_BYTES.get(base.device.type, share(base)))
    return max(1, most // activations(base, prompt))


def prompts_at_once(base: Base, prompt: int, samples: int, limit: int, sampling: Sampling) -> int:
    """How many prompts, the longest of so many tokens, one decode takes."""
    return max(1, share(base) // decode_bytes(base, prompt, samples, limit, sampling))
