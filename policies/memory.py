"""Sizes of a decode and of a pass of the update.

They are constant budgets, in hidden units: a token has hidden_size units in each layer. If memory
runs out all the same, they are halved and the work is done again. A CPU has no such error, so its
budgets are small.
"""

import math
from collections.abc import Callable, Sequence

import torch

from policies.shared_model import SharedModel

# Units of a pass of the update. The backward pass keeps 90 to 140 bytes of each on a CPU, which are
# 1.5 to 2.3 GB. On a GPU in 16 bits it keeps 45 to 75 bytes, which are 12 to 20 GB.
PASS = {"cpu": 2**24, "cuda": 2**28}
# With gradient checkpointing it keeps less than an eighth.
RECOMPUTED = 8
# Units whose keys and values a decode holds. They take 8 bytes of each at most on a CPU, and 4 in
# 16 bits. Most models have fewer heads of keys, and so an eighth of that.
DECODE = {"cpu": 2**28, "cuda": 2**33}
# Tokens of a pass of several trees. A CPU gains nothing from more than its caches hold.
TOGETHER = {"cpu": 512, "cuda": math.inf}

# A pass takes a GPU as long as the host needs to launch its kernels. So each layer runs twice, and
# keeps less, if more passes than this were needed otherwise (bench/README.md has both times).
MOST_PASSES = 3
MOST_HALVINGS = 20  # then it is one prompt, and one response, at a time


def token_units(base: SharedModel) -> int:
    """Return the hidden units of a token in all layers."""
    config = base.net.config.get_text_config()
    return config.hidden_size * config.num_hidden_layers


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
    units = token_units(base)
    if recomputing:
        units /= RECOMPUTED
    if not base.fast:  # the plain way holds the logits of all tokens, 24 bytes each
        units += len(base.head.weight) / 4
    return PASS[base.device.type] / units / 2**base.halved


def prompts_at_once(base: SharedModel, prompt: int, samples: int, limit: int) -> int:
    """Return how many prompts one decode takes. `prompt` is the number of tokens of the longest.

    A prompt needs memory for its keys and values, those of its responses, and the logits of one
    token of each. The plain way copies a prompt's keys and values for each of its responses.
    """
    if not base.takes_masks:
        return 1
    copies = samples
    if base.fast:
        copies = 1
    tokens = copies * prompt + samples * limit
    logits = samples * len(base.head.weight)
    units = tokens * token_units(base) + 4 * logits
    return max(1, DECODE[base.device.type] // units // 2**base.halved)


def halving(bases: Sequence[SharedModel], work: Callable):
    """Return work(). Do it again with half as much at once as long as memory runs out."""
    while True:
        try:
            return work()
        except RuntimeError as error:  # the next try is outside, where nothing holds its tensors
            # cuBLAS says by its text that memory ran out
            short = isinstance(error, torch.OutOfMemoryError) or "ALLOC_FAILED" in str(error)
            if not short or bases[0].halved >= MOST_HALVINGS:
                raise
            for base in bases:
                base.halved += 1
        torch.cuda.empty_cache()  # CUDA's libraries have allocators of their own
