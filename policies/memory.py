"""Sizes of a decode and of a pass of the update, so that each takes a share of the device's memory.

The rest is for weights, gradients and Adam's moments. The shares are counted roughly. If memory
runs out all the same, they are halved and the work is done again.
"""

import functools
from collections.abc import Callable, Sequence
from pathlib import Path

import psutil
import torch

from policies.shared_model import SharedModel

SHARE = {"cpu": 1 / 8, "cuda": 1 / 4}
LOGIT_BYTES = 24  # of one logit while it is used, with top-p
# On a CPU, a pass of the update that keeps more than the caches hold gains nothing. With a larger
# model it may keep the activations of CPU_TOKENS tokens, so that matrix products have enough rows,
# but at most CPU_BYTES.
CACHE_BYTES = 2**26
CPU_TOKENS = 512
CPU_BYTES = 2**30

# A pass takes a GPU as long as the host needs to launch its kernels. So each layer runs twice, and
# keeps less, if more passes than this were needed otherwise (bench/README.md has both times).
MOST_PASSES = 3
MOST_HALVINGS = 20  # then it is one prompt, and one response, at a time


@functools.cache
def host() -> int:
    """Return bytes of the machine's memory, or of what this process may take of it."""
    limits = group_limits(Path("/"))
    return min([psutil.virtual_memory().total, *limits])


def group_limits(root: Path) -> list[int]:
    """Return the memory limits of this process's control groups, which containers and Slurm set.

    A group's limit holds for all groups below it. Version 1 of the groups is not read.
    """
    listing = root / "proc/self/cgroup"
    if not listing.is_file():  # not Linux
        return []
    line = listing.read_text("utf-8").splitlines()[-1]
    path = line.partition("::/")[2]
    group = root / "sys/fs/cgroup" / path
    limits = []
    for folder in (group, *group.parents):  # in a container the first ones may be out of sight
        file = folder / "memory.max"
        if not file.is_file():
            continue
        text = file.read_text("utf-8").strip()
        if text != "max":
            limits.append(int(text))
    return limits


def share(base: SharedModel) -> int:
    """Return bytes that one decode, or one pass of the update, may take."""
    total = host()
    if base.device.type == "cuda":
        total = torch.cuda.get_device_properties(base.device).total_memory
    return int(total * SHARE[base.device.type] / 2**base.halved)


def activation_bytes(base: SharedModel) -> int:
    """Return roughly the bytes that the backward pass keeps of one token in one layer.

    They hold 7 numbers per hidden unit (on a CPU 12) and 4 per feed-forward unit. Adapters read 3
    and 1 of these in 32 bits.
    """
    config = base.net.config.get_text_config()
    size = base.net.dtype.itemsize
    inner = getattr(config, "intermediate_size", None) or 4 * config.hidden_size
    kept = 4  # numbers in the model's type
    if base.device.type == "cpu":
        kept = 9
    hidden = kept * size + 3 * 4
    return hidden * config.hidden_size + (3 * size + 4) * inner


def cache_numbers(base: SharedModel) -> int:
    """Return how many numbers the keys and values of one token are, in all layers."""
    config = base.net.config.get_text_config()
    head = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    return 2 * config.num_hidden_layers * heads * head


def update_bytes(base: SharedModel, recomputing: bool) -> int:
    """Return roughly the bytes that a pass of the update keeps of one token.

    recomputing: with gradient checkpointing. They are one layer's activations then, and each
    layer's input.
    """
    config = base.net.config.get_text_config()
    activations = activation_bytes(base)
    kept = activations * config.num_hidden_layers
    if recomputing:
        inputs = config.num_hidden_layers * config.hidden_size
        kept = activations + base.net.dtype.itemsize * inputs
    if not base.fast:  # the plain way holds the logits of all tokens
        kept += len(base.head.weight) * LOGIT_BYTES
    return kept


def checkpoints(base: SharedModel, longest: int, total: int) -> bool:
    """Return whether a pass of the update uses gradient checkpointing.

    It does if the flag says so, or if a pass could not hold the longest prompt and response
    otherwise. On a GPU a pass has to hold a third of all tokens, too. total: their number.
    """
    if base.checkpointing:
        return True
    least = longest
    if base.device.type != "cpu":
        least = max(longest, total / MOST_PASSES)
    short = pass_tokens(base, False) < least
    return short and base.net.supports_gradient_checkpointing


def pass_tokens(base: SharedModel, recomputing: bool) -> float:
    """Return how many tokens a pass of the update bears."""
    return share(base) / update_bytes(base, recomputing)


def update_tokens(base: SharedModel, recomputing: bool) -> float:
    """Return how many tokens a pass takes of several trees: on a CPU, more gain nothing."""
    tokens = pass_tokens(base, recomputing)
    if base.device.type != "cpu":
        return tokens
    token_bytes = update_bytes(base, recomputing)
    enough = min(CPU_TOKENS, CPU_BYTES / token_bytes)
    fastest = max(CACHE_BYTES / token_bytes, enough)
    return min(tokens, fastest)


def prompts_at_once(base: SharedModel, prompt: int, samples: int, limit: int) -> int:
    """Return how many prompts one decode takes. `prompt` is the number of tokens of the longest.

    A prompt needs memory for four things: its pass, its keys and values, those of the responses,
    and the logits of one token of each response. The plain way copies a prompt's keys and values
    for each of its responses.
    """
    if not base.takes_masks:
        return 1
    copies = samples
    if base.fast:
        copies = 1
    size = 4  # policies/fast/ casts them on a CPU
    if base.device.type == "cuda":
        size = base.net.dtype.itemsize
    tokens = copies * prompt + samples * limit
    cache = cache_numbers(base) * size * tokens
    logits = samples * len(base.head.weight) * LOGIT_BYTES
    needed = cache + logits + prompt * activation_bytes(base)
    return max(1, share(base) // needed)


def halving(bases: Sequence[SharedModel], work: Callable):
    """Return work(). Do it again with half as much at once as long as memory runs out."""
    while True:
        try:
            return work()
        except RuntimeError as error:  # the next try is outside, where nothing holds its tensors
            # cuBLAS says by its text that memory ran out
            short = isinstance(error, torch.OutOfMemoryError) or "ALLOC_FAILED" in str(error)
            if not short or bases[0].halved == MOST_HALVINGS:
                raise
            for base in bases:
                base.halved += 1
        torch.cuda.empty_cache()  # CUDA's libraries have allocators of their own
