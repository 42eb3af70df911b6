"""Attention over prompts that several rows share.

Every model comes here through transformers' AttentionInterface.

Shapes: P prompts of up to S rows each. R rows. H query heads, h key heads, g = H / h.
W prompt positions. T tokens of a response. D units of a head.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import AttentionInterface
from transformers.cache_utils import DynamicLayer

from policies.adapters import Groups
from policies.sampling import capped

# On a Hopper GPU, PyTorch 2.11 and later take cuDNN's attention first. With a mask, and with 64
# keys more than a multiple of 128, its gradient is NaN for a query whose scores are all below -88
# (pytorch/pytorch#196678). On an H100, 1 to 2 steps in a hundred were skipped for it.
torch.backends.cuda.enable_cudnn_sdp(False)


class Grid:
    """Lay rows out by the prompt that they continue, P x S.

    A prompt's keys are then read once for all of its rows. Rows are ordered by prompt.

    An example is owners = [0, 0, 2] with prompts of 3, 1 and 2 tokens. Rows 0 and 1 continue prompt
    0, row 2 continues prompt 2, and prompt 1 has no rows. So P = 2, S = 2, prompts = [0, 2]. The
    layout is

        prompt 0:  row 0  row 1
        prompt 2:  row 2  zeros

    Prompts are padded to W = 3 tokens. So padding = [[0, 0, 0], [0, 0, -inf]].
    """

    def __init__(self, owners: list[int], real: Tensor, heads: int):
        """owners: the number of each row's prompt, in order.

        real (all prompts, W) is False at padding.
        """
        self.width = real.shape[1]
        self.heads = heads
        self.prompts = list(dict.fromkeys(owners))  # that have rows
        counts = [owners.count(prompt) for prompt in self.prompts]
        self.groups = Groups(counts, real.device)
        real = real[self.prompts]
        self.padding = None  # (P h, 1, W), added to the scores: -inf at a prompt's padding
        if not real.all():
            padding = torch.where(real, 0.0, -math.inf)[:, None]
            self.padding = padding.repeat_interleave(heads, 0)

    def by_prompt(self, x: Tensor) -> Tensor:
        """(R h, g, X) -> (P h, S g, X)."""
        rows = x.unflatten(0, (-1, self.heads))  # (R, h, g, X)
        layout = self.groups.pad(rows)
        layout = layout.unflatten(0, (-1, self.groups.size))  # (P, S, h, g, X)
        layout = layout.transpose(1, 2).flatten(2, 3)  # (P, h, S g, X)
        return layout.flatten(0, 1)

    def by_row(self, x: Tensor) -> Tensor:
        """(P h, S g, X) -> (R h, g, X)."""
        layout = x.unflatten(1, (self.groups.size, -1))  # (P h, S, g, X)
        layout = layout.unflatten(0, (-1, self.heads))  # (P, h, S, g, X)
        layout = layout.transpose(1, 2).flatten(0, 1)  # (P S, h, g, X)
        rows = self.groups.unpad(layout)  # (R, h, g, X)
        return rows.flatten(0, 1)


class PromptCache(DynamicLayer):
    """Hold the keys and values (P, h, W, D) that one layer makes of prompts.

    A layer that runs again, in the backward pass, makes them again and is given its own.
    """

    def update(self, keys: Tensor, values: Tensor, *args, **kwargs):
        keys = keys.contiguous()
        values = values.contiguous()
        if not self.is_initialized:
            self.hold(keys, values)
        return keys, values

    def hold(self, keys: Tensor, values: Tensor) -> None:
        self.lazy_initialization(keys, values)
        self.keys = keys
        self.values = values


class PrefixCache(PromptCache):
    """Hold one layer's keys and values of P sequences, for rows that continue those of owners (R,).

    A row reads those of its sequence, then its own. They are put together when a layer reads them,
    and (keep) held for what continues the rows. Otherwise only a layer's are there at a time.
    """

    def __init__(self, keys: Tensor, values: Tensor, owners: Tensor, keep: bool):
        super().__init__()
        self.begun_keys = keys
        self.begun_values = values
        self.owners = owners
        self.keep = keep

    def get_seq_length(self) -> int:
        return self.begun_keys.shape[2]

    def update(self, keys: Tensor, values: Tensor, *args, **kwargs):
        keys = self.join(self.begun_keys, keys)
        values = self.join(self.begun_values, values)
        if self.keep and not self.is_initialized:
            self.hold(keys, values)
        return keys, values

    def join(self, prompts: Tensor, rows: Tensor) -> Tensor:
        """(P, h, W, D) and (R, h, T, D) -> (R, h, W + T, D)."""
        # A lookup's gradient is summed row by row. That of an index is summed in any order.
        begun = F.embedding(self.owners, prompts.flatten(1))
        begun = begun.unflatten(1, prompts.shape[1:])
        return torch.cat([begun, rows], 2)


class Clock:
    """Say on the device which token of the responses is decoded, for a step that a graph repeats.

    place (1,) is its index. mask (T,) is added to scores: -inf at the places after it.
    """

    def __init__(self, room: int, device: torch.device):
        self.places = torch.arange(room, device=device)

    def set(self, place: Tensor) -> None:
        self.place = place
        self.mask = torch.where(self.places > place, -math.inf, 0.0)


class RowCache(PromptCache):
    """Hold keys and values of one layer while decoding.

    A prompt's keys are held once for all of its rows. A row's new keys go into a store with room
    for every token. (DynamicLayer grows by concatenation. To copy the whole cache for every token
    took 3/4 of the decode's time on a CPU.)

    With a `clock` every token is the same work: on the whole store, whose later places are masked.
    """

    def __init__(
        self,
        keys: Tensor,
        values: Tensor,
        grid: Grid,
        rows: int,
        room: int,
        clock: Clock | None,
    ):
        if not keys.is_cuda:  # a CPU makes the products in single precision: cast only once
            keys = keys.float()
            values = values.float()
        super().__init__()
        self.hold(keys, values)
        self.keys = keys.flatten(0, 1).transpose(1, 2)  # (P h, D, W)
        self.values = values.flatten(0, 1)  # (P h, W, D)
        self.grid = grid
        self.clock = clock
        self.used = room if clock else 0  # places of the store that a token attends to
        shape = (rows, grid.heads, room)
        self.row_keys = keys.new_zeros(*shape, keys.shape[3])  # (R, h, T, D)
        self.row_values = values.new_zeros(*shape, values.shape[3])

    def get_seq_length(self) -> int:
        return self.grid.width + self.used

    def update(self, keys: Tensor, values: Tensor, *args, **kwargs):
        """Take a token's keys and values (R, h, 1, D). `attend` is given the cache itself."""
        if self.clock:
            self.row_keys.index_copy_(2, self.clock.place, keys)
            self.row_values.index_copy_(2, self.clock.place, values)
            return self, self
        self.row_keys.select(2, self.used).copy_(keys.select(2, 0))
        self.row_values.select(2, self.used).copy_(values.select(2, 0))
        self.used += 1
        return self, self

    def attend(self, query: Tensor, scaling: float, softcap: float | None) -> Tensor:
        """Return attention over a row's prompt and its response so far.

        (R, H, 1, D) -> (R, 1, H, D).
        """
        grid = self.grid
        rows, heads, _, size = query.shape
        query = query * scaling
        query = query.view(rows * grid.heads, -1, size)  # (R h, g, D)
        prompt = _products(grid.by_prompt(query), self.keys)  # (P h, S g, W)
        prompt = capped(prompt, softcap)
        if grid.padding is not None:
            prompt += grid.padding
        keys = self.row_keys.flatten(0, 1)
        keys = keys.narrow(1, 0, self.used)  # (R h, T, D)
        response = _products(query, keys.transpose(1, 2))  # (R h, g, T)
        response = capped(response, softcap)
        if self.clock:
            response += self.clock.mask
        scores = torch.cat([prompt, grid.by_prompt(response)], -1)
        weights = scores.softmax(-1).to(self.values.dtype)
        prompt, response = weights.split_with_sizes([grid.width, self.used], -1)
        mixed = torch.bmm(prompt, self.values)
        mixed = grid.by_row(mixed)  # (R h, g, D)
        response = grid.by_row(response).to(mixed.dtype)
        values = self.row_values.flatten(0, 1)
        values = values.narrow(1, 0, self.used)  # (R h, T, D)
        values = values.to(mixed.dtype)  # autocast does not see a product in place
        mixed.baddbmm_(response, values)  # in place: saves a copy
        mixed = mixed.view(rows, 1, heads, -1)
        return mixed.to(query.dtype)

    def select(self, rows: Tensor, prompts: Tensor, grid: Grid) -> None:
        """Keep these rows, and their prompts at these places. `grid` lays them out anew."""
        self.row_keys = self.row_keys[rows]
        self.row_values = self.row_values[rows]
        if len(prompts) < len(self.grid.prompts):
            heads = (-1, grid.heads)
            keys = self.keys.unflatten(0, heads)
            self.keys = keys[prompts].flatten(0, 1)
            values = self.values.unflatten(0, heads)
            self.values = values[prompts].flatten(0, 1)
        self.grid = grid


def _products(queries: Tensor, keys: Tensor) -> Tensor:
    """Return queries @ keys in single precision.

    Scores rounded to 16 bits would move log-probabilities by several hundredths.
    """
    if queries.dtype == torch.float32 and not torch.is_autocast_enabled(queries.device.type):
        return torch.bmm(queries, keys)
    if queries.is_cuda and queries.dtype != torch.float32:
        return torch.bmm(queries, keys, out_dtype=torch.float32)
    with torch.autocast(queries.device.type, enabled=False):
        return torch.bmm(queries.float(), keys.float())


def attend(module, query, key, value, attention_mask, scaling=None, softcap=None, **kwargs):
    """Compute the attention of every model, for transformers' AttentionInterface.

    It is causal over tokens that continue nothing. Tokens that continue a prefix have a mask
    (prefixes.py). In decoding it takes a RowCache. A sliding window is longer than any prompt and
    response together: Base.hold sees to that.
    """
    scaling = query.shape[-1] ** -0.5 if scaling is None else scaling
    if isinstance(key, RowCache):
        return key.attend(query, scaling, softcap), None
    rows, heads, tokens, size = query.shape
    sharing = heads // key.shape[1]  # g
    if attention_mask is None and softcap is None:
        if query.is_cuda and query.dtype == torch.float32 and sharing > 1:
            # a GPU's fused kernels group heads in 16 bits alone: the others would keep all scores
            key = key.repeat_interleave(sharing, 1)
            value = value.repeat_interleave(sharing, 1)
        mixed = F.scaled_dot_product_attention(
            query, key, value, is_causal=True, scale=scaling, enable_gqa=True
        )
    else:  # the queries that share a head's keys go beside each other: keys are never repeated
        if attention_mask is None:
            attention_mask = query.new_ones(1, 1, tokens, tokens, dtype=torch.bool)
            attention_mask = attention_mask.tril()
        query = query.reshape(rows, key.shape[1], -1, size)
        mask = attention_mask.repeat(1, 1, sharing, 1)
        if softcap is None:
            mixed = F.scaled_dot_product_attention(query, key, value, mask, scale=scaling)
        else:
            query = query * scaling
            scores = query.float() @ key.float().transpose(2, 3)
            scores = capped(scores, softcap)
            scores = scores.masked_fill(~mask, -math.inf)
            weights = scores.softmax(-1)
            mixed = weights.to(value.dtype) @ value
    mixed = mixed.reshape(rows, heads, tokens, -1)  # a GPU's fused kernels return other strides
    return mixed.transpose(1, 2).contiguous(), None


AttentionInterface.register("shared_prompts", attend)
