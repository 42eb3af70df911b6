"""Attention over prompts that several rows share.

Shapes: P prompts of up to S rows each. R rows. H query heads, h key heads, g = H / h.
W prompt positions. T tokens of a response. D units of a head.
"""

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from policies.fast.adapters import Groups

BLOCK = 128  # queries of a tree that attend at once


class Block(NamedTuple):
    """The keys that any of Q queries sees, side by side in a tree."""

    places: Tensor  # (K,): of the keys
    mask: Tensor  # (R, 1, g Q, K), added to the scores: -inf where a query does not see a key


class TreeMask:
    """Say which tokens of R trees see which.

    A response sees its prompt and itself. So a block of queries needs few of the keys, and the
    others are left out. All layers add the same masks. If these were not numbers yet, each layer
    would keep a copy of its own for the backward pass.
    """

    def __init__(self, seen: Tensor, sharing: int, dtype: torch.dtype):
        """Take seen (R, 1, T, T), g (`sharing`) and the dtype of the queries."""
        self.blocks = []
        for rows in seen.split(BLOCK, 2):
            seen_by_any = rows.flatten(0, 2).any(0)
            places = seen_by_any.nonzero().squeeze(1)
            rows = rows.index_select(3, places)
            mask = torch.zeros(rows.shape, dtype=dtype, device=rows.device)
            mask.masked_fill_(~rows, -math.inf)
            mask = mask.repeat(1, 1, sharing, 1)
            self.blocks.append(Block(places, mask))


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
            padding = torch.where(real, 0.0, -math.inf)  # (P, W)
            padding = padding.repeat_interleave(heads, 0)
            self.padding = padding[:, None]

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


class Clock:
    """Say on the device which token of the responses is decoded, for a step that a graph repeats.

    place (1,) is its index. mask (T,) is added to scores: -inf at the places after it.
    """

    def __init__(self, places: Tensor):
        self.places = places  # 0 to T - 1

    def set(self, place: Tensor) -> None:
        self.place = place
        self.mask = torch.where(self.places > place, -math.inf, 0.0)


class RowCache:
    """Hold keys and values of one layer while decoding: first a pass over prompts, then tokens.

    A prompt's keys are held once for all of its rows. A row's new keys go into a store with room
    for every token. (To grow it by concatenation copies the whole cache for every token, which
    took 3/4 of the decode's time on a CPU.)

    With a `clock` every token is the same work. It runs on the whole store, whose later places are
    masked.
    """

    def __init__(self, grid: Grid, rows: int, room: int, clock: Clock | None):
        self.grid = grid
        self.rows = rows
        self.room = room
        self.clock = clock
        self.used = room if clock else 0  # places of the store that a token attends to

    def attend_prompts(
        self,
        query: Tensor,
        keys: Tensor,
        values: Tensor,
        scaling: float,
    ) -> Tensor:
        """Return causal attention over prompts, as `attend` does. Hold their keys and values."""
        mixed = attend(query, keys, values, scaling)
        if not keys.is_cuda:  # a CPU makes the products in single precision: cast only once
            keys = keys.float()
            values = values.float()
        keys = keys.contiguous()
        self.keys = keys.flatten(0, 1).transpose(1, 2)  # (P h, D, W)
        self.values = values.contiguous().flatten(0, 1)  # (P h, W, D)
        shape = (self.rows, keys.shape[1], self.room, keys.shape[3])  # (R, h, T, D)
        self.row_keys = keys.new_zeros(shape)
        self.row_values = values.new_zeros(shape)
        return mixed

    def store(self, keys: Tensor, values: Tensor) -> None:
        """Put a token's keys and values (R, h, 1, D) behind those before it."""
        if self.clock:
            self.row_keys.index_copy_(2, self.clock.place, keys)
            self.row_values.index_copy_(2, self.clock.place, values)
            return
        place = slice(self.used, self.used + 1)
        self.row_keys[:, :, place] = keys
        self.row_values[:, :, place] = values
        self.used += 1

    def attend(
        self,
        query: Tensor,
        keys: Tensor,
        values: Tensor,
        scaling: float,
    ) -> Tensor:
        """Return attention over a row's prompt and its response so far, this token included.

        query (R, H, 1, D), keys and values (R, h, 1, D) -> (R, 1, H, D).
        """
        self.store(keys, values)
        grid = self.grid
        rows, heads, _, size = query.shape
        query = query * scaling
        query = query.view(rows * grid.heads, -1, size)  # (R h, g, D)
        prompt = products(grid.by_prompt(query), self.keys)  # (P h, S g, W)
        if grid.padding is not None:
            prompt += grid.padding
        keys = self.row_keys.flatten(0, 1)
        keys = keys.narrow(1, 0, self.used)  # (R h, T, D)
        response = products(query, keys.transpose(1, 2))  # (R h, g, T)
        if self.clock:
            response += self.clock.mask
        response = grid.by_prompt(response)
        scores = torch.cat([prompt, response], -1)
        weights = scores.softmax(-1).to(self.values.dtype)
        sizes = [grid.width, self.used]
        prompt, response = weights.split_with_sizes(sizes, -1)
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


def products(queries: Tensor, keys: Tensor) -> Tensor:
    """Return queries @ keys in single precision.

    Scores rounded to 16 bits would move log-probabilities by several hundredths.
    """
    device = queries.device.type
    single = queries.dtype == torch.float32
    if single and not torch.is_autocast_enabled(device):
        return torch.bmm(queries, keys)
    if queries.is_cuda and not single:
        return torch.bmm(queries, keys, out_dtype=torch.float32)
    with torch.autocast(device, enabled=False):
        return torch.bmm(queries.float(), keys.float())


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    scaling: float,
    mask: TreeMask | None = None,
) -> Tensor:
    """Return attention (R, T, H, D) of query (R, H, T, D) over key and value (R, h, T, D).

    mask: which tokens see which. None: each sees all before it, and itself.
    """
    sharing = query.shape[1] // key.shape[1]  # g
    if mask:
        return attend_in_blocks(query, key, value, scaling, mask, sharing)
    if query.is_cuda and query.dtype == torch.float32 and sharing > 1:
        # a GPU's fused kernels group heads in 16 bits alone: the others would keep all scores
        key = key.repeat_interleave(sharing, 1)
        value = value.repeat_interleave(sharing, 1)
    mixed = F.scaled_dot_product_attention(
        query, key, value, is_causal=True, scale=scaling, enable_gqa=True
    )
    return mixed.transpose(1, 2).contiguous()


def attend_in_blocks(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    scaling: float,
    mask: TreeMask,
    sharing: int,
) -> Tensor:
    """Return what `attend` does. The queries that share a head's keys go beside each other."""
    query = query.unflatten(1, (-1, sharing))  # (R, h, g, T, D)
    parts = []
    blocks = query.split(BLOCK, 3)
    for queries, block in zip(blocks, mask.blocks, strict=True):
        mixed = F.scaled_dot_product_attention(
            queries.flatten(2, 3),
            key.index_select(2, block.places),
            value.index_select(2, block.places),
            block.mask,
            scale=scaling,
        )
        mixed = mixed.unflatten(2, (sharing, -1))  # (R, h, g, Q, D)
        mixed = mixed.permute(0, 3, 1, 2, 4)
        parts.append(mixed)
    mixed = torch.cat(parts, 1)  # (R, T, h, g, D)
    return mixed.flatten(2, 3)
