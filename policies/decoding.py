"""Sampling responses: every agent, prompt and sample of a base decoded together.

Shapes: R rows (responses), T tokens of a response, V vocabulary.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from transformers.cache_utils import Cache

from policies.attention import Grid, RowCache
from policies.base import Base
from policies.memory import halving, prompts_at_once
from policies.sampling import Sampling, choose

# Tokens between two looks at which rows have finished. On a GPU a look is a wait, in which the host
# gets no further ahead, and a row more costs nothing.
LOOK = {"cpu": 1, "cuda": 8}


@dataclass
class Response:
    """One action: the sampled tokens, the end-of-sequence token included where there is one."""

    tokens: list[int]
    text: str
    logps: list[float]  # log-probability of each token under the sampled distribution
    entropy: float  # of the sampled distribution, summed over the tokens, in nats
    ended: bool  # False: cut off at max_new_tokens


def decode(
    base: Base,
    prompts: Sequence[tuple[int, ...]],
    agents: Sequence[int] | None,
    uniforms: Tensor,
    sampling: Sampling,
) -> list[list[Response]]:
    """S responses to each prompt. agents (sorted): who answers, None: the frozen base. uniforms
    (prompts, S, T) in [0, 1) decide the tokens, and nothing else does.
    """
    samples, limit = uniforms.shape[1:]

    def in_parts() -> list[list[Response]]:
        found: list[list[Response]] = []
        while len(found) < len(prompts):
            longest = max(map(len, prompts[len(found) :]))
            part = slice(len(found), len(found) + prompts_at_once(base, longest, samples, limit))
            found += _decode(base, prompts[part], agents and agents[part], uniforms[part], sampling)
        return found

    return halving([base], in_parts)


@torch.inference_mode()  # the many small kernels of a step cost an eighth less than in no_grad
def _decode(base: Base, prompts, agents, uniforms, sampling) -> list[list[Response]]:
    samples, limit = uniforms.shape[1:]
    lengths = torch.tensor([len(prompt) - 1 for prompt in prompts], device=base.device)
    owners = [number for number in range(len(prompts)) for _ in range(samples)]  # of each row
    prefix = base.prefill(prompts, agents)
    grid = Grid(owners, lengths, max(map(len, prompts)) - 1, prefix[0][0].shape[1])
    cache = Cache([RowCache(k, v, grid, len(owners), limit) for k, v in prefix])
    uniforms = uniforms.flatten(0, 1).to(base.device)  # (R, T)
    tokens = torch.tensor([[prompts[owner][-1]] for owner in owners], device=base.device)
    positions = lengths.repeat_interleave(samples)[:, None]
    ends = torch.zeros(len(base.head.weight), dtype=torch.bool, device=base.device)
    ends[[token for token in base.ends if token < len(ends)]] = True  # whether a token is one
    alive = torch.arange(len(owners), device=base.device)  # the decoded rows' numbers
    done = torch.zeros_like(alive, dtype=torch.bool)
    steps = []  # of each token: rows, tokens, log-probabilities, entropies
    with base.acting(agents and [agents[owner] for owner in owners], 1, keep=True):
        for step in range(limit):
            logits = base.logits(base.hidden(tokens, positions, cache)[:, -1])
            new, *measured = choose(logits, uniforms[:, step], sampling)
            steps.append((alive, new, *measured))
            tokens, positions = new[:, None], positions + 1
            done = done | ends.index_select(0, new)
            if (step + 1) % LOOK[base.device.type]:
                continue
            finished = int(done.sum())
            if finished == len(alive):
                break
            if 4 * finished >= len(alive):  # copying the cache costs about one step
                keep = (~done).nonzero().squeeze(-1)
                owners = [owners[row] for row in keep.tolist()]
                grid = Grid(owners, lengths, grid.width, grid.heads)
                for layer in cache.layers:
                    layer.select(keep, grid)
                alive, tokens, positions = alive[keep], tokens[keep], positions[keep]
                uniforms, done = uniforms[keep], done[keep]
                base.act(agents and [agents[owner] for owner in owners])
    rows: list[list[tuple]] = [[] for _ in range(len(prompts) * samples)]
    columns = [torch.cat(column).tolist() for column in zip(*steps, strict=True)]
    for row, *token in zip(*columns, strict=True):
        rows[row].append(token)
    found = [response_of(base, *map(list, zip(*row, strict=True))) for row in rows]
    return [found[i : i + samples] for i in range(0, len(found), samples)]


def response_of(base: Base, tokens: list[int], logps: list, entropy: list) -> Response:
    """A decoded row, cut after the first token that ends a response, which is not in its text."""
    end = next((i for i, token in enumerate(tokens) if token in base.ends), None)
    size = len(tokens) if end is None else end + 1
    text = base.text_of(tokens[:end])
    return Response(tokens[:size], text, logps[:size], sum(entropy[:size]), end is not None)
