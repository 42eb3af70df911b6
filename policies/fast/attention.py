"""Attention over prompts that several rows share.

Scores are divided by sqrt(D), as the models of layers.py do it.

Shapes: P prompts of up to S rows each. R rows. H query heads, h key heads, g = H / h.
W prompt positions. T tokens of a response. D units of a head.
"""

import math
from collections import Counter
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from policies.fast.adapters import Groups

BLOCK = 128  # queries of a tree that attend at once


class TreeAttention:
    """Attention in R trees of T tokens, where each token sees those before it on its branch.

    A response sees its prompt and itself. So a block of Q queries needs few of the keys, and the
    others are left out. All layers add the same masks. If these were not numbers yet, each layer
    would keep a copy of its own for the backward pass.
    """

    def __init__(self, seen: Tensor, sharing: int, dtype: torch.dtype):
        """Take seen (R, 1, T, T), g (`sharing`) and the dtype of the queries."""
        self.sharing = sharing
        # Each block has the places (K,) of the keys that any query sees. It has numbers
        # (R, 1, g Q, K) that are added to the scores, -inf where a query does not see a key.
        self.blocks: list[tuple[Tensor, Tensor]] = []
        for rows in seen.split(BLOCK, 2):
            any_sees = rows.flatten(0, 2).any(0)  # (T,)
            places = any_sees.nonzero().squeeze(1)
            sees = rows.index_select(3, places)
            mask = torch.where(sees, 0.0, -math.inf)
            mask = mask.to(dtype)
            mask = mask.repeat(1, 1, sharing, 1)
            self.blocks.append((places, mask))

    def attend(self, query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """Return attention (R, T, H, D) of query (R, H, T, D) over keys and values (R, h, T, D).

        The queries that share a head's keys go beside each other.
        """
        query = query.unflatten(1, (-1, self.sharing))  # (R, h, g, T, D)
        blocks = query.split(BLOCK, 3)
        parts = []
        for queries, (places, mask) in zip(blocks, self.blocks, strict=True):
            mixed = F.scaled_dot_product_attention(
                queries.flatten(2, 3),
                keys.index_select(2, places),
                values.index_select(2, places),
                mask,
            )
            mixed = mixed.unflatten(2, (self.sharing, -1))  # (R, h, g, Q, D)
            parts.append(mixed.permute(0, 3, 1, 2, 4))
        mixed = torch.cat(parts, 1)  # (R, T, h, g, D)
        return mixed.flatten(2, 3)


class Grid:
    """Lay rows out by the prompt that they continue, P x S.

    A prompt's keys are then read once for all of its rows. Rows are ordered by prompt.

    An example is owners = [0, 0, 2] with prompts of 3, 1 and 2 tokens. Rows 0 and 1 continue prompt
    0, row 2 continues prompt 2, and prompt 1 has no rows. So P = 2, S = 2, prompts = [0, 2]. The
    layout is

        prompt 0   row 0  row 1
        prompt 2   row 2  zeros.

    Prompts are padded to W = 3 tokens. So padding = [[0, 0, 0], [0, 0, -inf]].
    """

    def __init__(self, owners: list[int], real: Tensor, heads: int):
        """owners: the number of each row's prompt, in order.

        real (all prompts, W) is False at padding.
        """
        self.heads = heads
        counts = Counter(owners)
        self.prompts = list(counts)  # that have rows
        self.groups = Groups(list(counts.values()), real.device)
        padding = torch.where(real[self.prompts], 0.0, -math.inf)  # (P, W), added to the scores
        padding = padding.repeat_interleave(heads, 0)
        self.padding = padding[:, None]  # (P h, 1, W)

    def by_prompt(self, x: Tensor) -> Tensor:
        """(R h, g, X) -> (P h, S g, X)."""
        rows = x.unflatten(0, (-1, self.heads))  # (R, h, g, X)
        layout = self.groups.pad(rows)  # (P, S, h, g, X)
        layout = layout.transpose(1, 2)  # (P, h, S, g, X)
        layout = layout.flatten(2, 3)
        return layout.flatten(0, 1)

    def by_row(self, x: Tensor) -> Tensor:
        """(P h, S g, X) -> (R h, g, X)."""
        layout = x.unflatten(1, (self.groups.size, -1))  # (P h, S, g, X)
        layout = layout.unflatten(0, (-1, self.heads))  # (P, h, S, g, X)
        layout = layout.transpose(1, 2)  # (P, S, h, g, X)
        rows = self.groups.unpad(layout)  # (R, h, g, X)
        return rows.flatten(0, 1)


class Step(NamedTuple):
    """The state that all layers share while a token of every row is read."""

    grid: Grid
    place: Tensor  # (1,) of the token in the responses
    mask: Tensor  # (T,) for the places it may attend to, added to the scores. -inf after the token


class RowCache:
    """Hold keys and values of one layer while decoding: first a pass over prompts, then tokens.

    A prompt's keys are held once for all of its rows. A row's new keys go into a store with room
    for every token. (To grow it by concatenation copies the whole cache for every token, which
    took 3/4 of the decode's time on a CPU.)
    """

    def __init__(self, rows: int, room: int):
        self.rows = rows
        self.room = room

    def attend_prompts(self, query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """Return causal attention (P, W, H, D) over prompts. Hold their keys and values.

        query (P, H, W, D), keys and values (P, h, W, D).
        """
        sharing = query.shape[1] // keys.shape[1]  # g
        mixed = F.scaled_dot_product_attention(
            query,
            # a GPU's fused kernels group heads in 16 bits alone: the others would keep all scores
            keys.repeat_interleave(sharing, 1),
            values.repeat_interleave(sharing, 1),
            is_causal=True,
        )
        if not keys.is_cuda:  # a CPU makes the products in single precision: cast only once
            keys = keys.float()
            values = values.float()
        keys = keys.contiguous()
        self.keys = keys.transpose(2, 3)  # (P, h, D, W)
        self.values = values.contiguous()
        _, heads, _, size = keys.shape
        shape = (self.rows, heads, self.room, size)  # (R, h, T, D)
        self.row_keys = keys.new_zeros(shape)
        self.row_values = values.new_zeros(shape)
        return mixed.transpose(1, 2).contiguous()

    def attend(self, step: Step, query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """Return attention over a row's prompt and its response so far, this token included.

        `query` is (R, H, 1, D), `keys` and `values` are (R, h, 1, D). The result is (R, 1, H, D).
        """
        grid = step.grid
        # 1) Store this token.
        keys = keys.to(self.row_keys.dtype)
        values = values.to(self.row_values.dtype)
        self.row_keys.index_copy_(2, step.place, keys)
        self.row_values.index_copy_(2, step.place, values)
        # 2) Compute the scores of a row's prompt, and of its response.
        rows, _, _, size = query.shape
        query = query.reshape(rows * grid.heads, -1, size)  # (R h, g, D)
        prompt_keys = self.keys.flatten(0, 1)  # (P h, D, W)
        prompt = products(grid.by_prompt(query), prompt_keys)  # (P h, S g, W)
        prompt += grid.padding
        used = len(step.mask)
        keys = self.row_keys[:, :, :used]
        keys = keys.flatten(0, 1)  # (R h, T, D)
        keys = keys.transpose(1, 2)
        response = products(query, keys)  # (R h, g, T)
        response += step.mask
        response = grid.by_prompt(response)  # (P h, S g, T)
        # 3) Mix the values of both.
        scores = torch.cat([prompt, response], -1)
        weights = scores.softmax(-1)
        weights = weights.to(values.dtype)
        sizes = [prompt.shape[-1], used]  # W, T
        prompt, response = weights.split(sizes, -1)
        prompt_values = self.values.flatten(0, 1)  # (P h, W, D)
        mixed = torch.bmm(prompt, prompt_values)
        mixed = grid.by_row(mixed)  # (R h, g, D)
        response = grid.by_row(response)  # (R h, g, T)
        response = response.to(mixed.dtype)
        values = self.row_values[:, :, :used]
        values = values.flatten(0, 1)  # (R h, T, D)
        # autocast does not see a product in place, which saves a copy
        mixed.baddbmm_(response, values.to(mixed.dtype))
        mixed = mixed.view(rows, 1, -1, size)
        return mixed.to(query.dtype)

    def select(self, rows: Tensor, prompts: Tensor) -> None:
        """Keep these rows, and their prompts at these places."""
        self.row_keys = self.row_keys[rows]
        self.row_values = self.row_values[rows]
        self.keys = self.keys[prompts]
        self.values = self.values[prompts]


def products(queries: Tensor, keys: Tensor) -> Tensor:
    """Return the scaled queries @ keys in single precision.

    Scores rounded to 16 bits would move log-probabilities by several hundredths. So would queries
    that are rounded once more, where the scale is no power of 2.
    """
    scale = queries.shape[-1] ** -0.5
    with torch.autocast(queries.device.type, enabled=False):
        if queries.is_cuda and queries.dtype != torch.float32:
            return scale * torch.bmm(queries, keys, out_dtype=torch.float32)
        return torch.bmm(scale * queries.float(), keys.float())
