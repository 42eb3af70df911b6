"""Attention over prompts that several rows share, for every model through transformers'
AttentionInterface.

Shapes: P prompts of up to S rows each, R rows, H query heads, h key heads, g = H / h, W prompt
positions, T tokens of a response, D units of a head.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import AttentionInterface
from transformers.cache_utils import DynamicLayer

from policies.adapters import Groups
from policies.sampling import capped


class Grid:
    """Which prompt each of R rows continues: rows are ordered by prompt and laid out P x S, so that
    a prompt's keys are read once for all of its rows."""

    def __init__(self, owners: list[int], lengths: Tensor, width: int, heads: int):
        """owners: of each row the number of its prompt, in order; lengths: of all prompts."""
        self.width, self.heads = width, heads
        self.prompts = list(dict.fromkeys(owners))  # that have rows
        self.groups = Groups([owners.count(prompt) for prompt in self.prompts], lengths.device)
        lengths = lengths[self.prompts]
        self.hidden = None  # (P h, 1, W), added to the scores: -inf at a prompt's padding
        if int(lengths.min()) < width:
            padding = torch.arange(width, device=lengths.device) >= lengths[:, None]
            hidden = torch.zeros(padding.shape, device=lengths.device)
            hidden = hidden.masked_fill(padding, -math.inf)[:, None]
            self.hidden = hidden.repeat_interleave(heads, 0)

    def by_prompt(self, x: Tensor) -> Tensor:
        """(R h, g, X) -> (P h, S g, X)."""
        x, groups = self.groups.pad(x.view(-1, self.heads, *x.shape[1:])), self.groups
        x = x.view(groups.count, groups.size, *x.shape[1:]).transpose(1, 2)
        return x.reshape(groups.count * self.heads, -1, x.shape[-1])

    def by_row(self, x: Tensor) -> Tensor:
        """(P h, S g, X) -> (R h, g, X)."""
        groups, size = self.groups, x.shape[2]
        x = x.view(groups.count, self.heads, groups.size, -1, size).transpose(1, 2)
        x = groups.unpad(x.reshape(groups.count * groups.size, self.heads, -1, size))
        return x.reshape(-1, x.shape[2], size)


class PrefixCache(DynamicLayer):
    """A layer's keys and values in the update: each row's prompt's, (R, h, W, D), then its own."""

    def __init__(self, keys: Tensor, values: Tensor):
        super().__init__()
        self.lazy_initialization(keys, values)
        self.keys, self.values = keys, values


class RowCache(PrefixCache):
    """Keys and values of one layer while decoding: a prompt's are held once for all of its rows, a
    row's own in a store with room for every token. (DynamicLayer grows by concatenation: copying
    the whole cache for every token took 3/4 of the decode's time on a CPU.)"""

    def __init__(self, keys: Tensor, values: Tensor, grid: Grid, rows: int, room: int):
        if not keys.is_cuda:  # there these products are made in single precision: cast only once
            keys, values = keys.float(), values.float()
        super().__init__(keys, values)
        self.keys, self.values = keys.flatten(0, 1).transpose(1, 2), values.flatten(0, 1)
        self.grid, self.used = grid, 0
        shape = (rows, grid.heads, room)
        self.own = [t.new_empty(*shape, t.shape[3]) for t in (keys, values)]  # (R, h, T, D)

    def get_seq_length(self) -> int:
        return self.grid.width + self.used

    def update(self, keys: Tensor, values: Tensor, *args, **kwargs):
        """Takes a token's keys and values (R, h, 1, D); `attend` is given the cache itself."""
        for own, new in zip(self.own, (keys, values), strict=True):
            own.select(2, self.used).copy_(new.select(2, 0))
        self.used += 1
        return self, self

    def attend(self, query: Tensor, scaling: float, softcap: float | None) -> Tensor:
        """(R, H, 1, D) -> (R, 1, H, D): attention over a row's prompt and its own tokens."""
        grid, (rows, heads, _, size) = self.grid, query.shape
        query = (query * scaling).view(rows * grid.heads, -1, size)  # (R h, H / h, D)
        prompt = capped(_products(grid.by_prompt(query), self.keys), softcap)
        if grid.hidden is not None:
            prompt += grid.hidden
        keys, values = (own.flatten(0, 1).narrow(1, 0, self.used) for own in self.own)
        own = capped(_products(query, keys.transpose(1, 2)), softcap)
        weights = torch.cat([prompt, grid.by_prompt(own)], -1).softmax(-1).to(self.values.dtype)
        prompt, own = weights.split_with_sizes([grid.width, self.used], -1)
        mixed = grid.by_row(torch.bmm(prompt, self.values))  # to add to it in place saves a copy
        own = grid.by_row(own).to(mixed.dtype)
        mixed.baddbmm_(own, values.to(mixed.dtype))  # autocast does not see it
        return mixed.view(rows, 1, heads, -1).to(query.dtype)

    def select(self, rows: Tensor, grid: Grid) -> None:
        """Keeps these rows and their prompts, which `grid` lays out anew."""
        self.own = [own[rows] for own in self.own]
        if grid.prompts != self.grid.prompts:
            left = [self.grid.prompts.index(prompt) for prompt in grid.prompts]
            self.keys, self.values = (
                t.unflatten(0, (-1, grid.heads))[left].flatten(0, 1)
                for t in (self.keys, self.values)
            )
        self.grid = grid


def _products(queries: Tensor, keys: Tensor) -> Tensor:
    """queries @ keys in single precision: rounded to 16 bits, scores would move log-probabilities
    by several hundredths."""
    if queries.dtype == torch.float32 and not torch.is_autocast_enabled(queries.device.type):
        return torch.bmm(queries, keys)
    if queries.is_cuda and queries.dtype != torch.float32:
        return torch.bmm(queries, keys, out_dtype=torch.float32)
    with torch.autocast(queries.device.type, enabled=False):
        return torch.bmm(queries.float(), keys.float())


def attend(module, query, key, value, attention_mask, scaling=None, softcap=None, **kwargs):
    """The attention of every model here, for transformers' AttentionInterface: causal over prompts,
    over a RowCache in decoding, and under scoring's mask in the update. A sliding window is longer
    than any prompt and response together: Base.context sees to that."""
    scaling = query.shape[-1] ** -0.5 if scaling is None else scaling
    if isinstance(key, RowCache):
        return key.attend(query, scaling, softcap), None
    rows, heads, tokens, size = query.shape
    if attention_mask is None and softcap is None:
        if query.is_cuda and query.dtype == torch.float32 and heads > key.shape[1]:
            # a card's fused kernels group heads in 16 bits alone: all scores would be kept here
            key, value = (t.repeat_interleave(heads // key.shape[1], 1) for t in (key, value))
        mixed = F.scaled_dot_product_attention(
            query, key, value, is_causal=True, scale=scaling, enable_gqa=True
        )
    else:  # the queries that share a head's keys go beside each other: keys are never repeated
        if attention_mask is None:
            attention_mask = query.new_ones(1, 1, tokens, tokens, dtype=torch.bool).tril()
        query = query.reshape(rows, key.shape[1], -1, size)
        mask = attention_mask.repeat(1, 1, heads // key.shape[1], 1)
        if softcap is None:
            mixed = F.scaled_dot_product_attention(query, key, value, mask, scale=scaling)
        else:
            scores = capped((query * scaling).float() @ key.float().transpose(2, 3), softcap)
            mixed = scores.masked_fill(~mask, -math.inf).softmax(-1).to(value.dtype) @ value
    return mixed.view(rows, heads, tokens, -1).transpose(1, 2).contiguous(), None


AttentionInterface.register("shared_prompts", attend)
