"""Sampling responses: every agent, prompt and sample of a base decoded together.

Shapes: R rows (responses), T tokens of a response, V vocabulary.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from transformers.cache_utils import Cache

from policies.attention import Clock, Grid, RowCache
from policies.base import Base
from policies.graphs import Graph
from policies.memory import halving, prompts_at_once
from policies.prefixes import PADDING, prefill
from policies.sampling import Sampling, choose, precision

# Tokens between two looks at which rows have finished. On a GPU the host waits in a look, and gets
# no further ahead. A finished row that is still decoded costs nothing there.
LOOK = {"cpu": 1, "cuda": 8, "mps": 8}
# The rest of the rows goes on alone when at most this share is left. To copy the cache costs about
# one step, and on a GPU the graph is recorded anew.
KEPT = {"cpu": 0.75, "cuda": 0.5, "mps": 0.75}


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
    """Sample S responses to each prompt, by its agent. Agents are sorted.

    agents None: by the frozen base. Only the uniforms (prompts, S, T) in [0, 1) decide the tokens.
    """
    samples, limit = uniforms.shape[1:]

    def in_parts() -> list[list[Response]]:
        answers: list[list[Response]] = []
        while len(answers) < len(prompts):
            longest = max(map(len, prompts[len(answers) :]))
            count = prompts_at_once(base, longest, samples, limit)
            part = slice(len(answers), len(answers) + count)
            part_agents = agents and agents[part]
            answers += _decode(base, prompts[part], part_agents, uniforms[part], sampling)
        return answers

    return halving([base], in_parts)


@torch.inference_mode()  # the many small kernels of a step cost an eighth less than in no_grad
def _decode(base: Base, prompts, agents, uniforms, sampling) -> list[list[Response]]:
    samples, limit = uniforms.shape[1:]
    device = base.device
    lengths = torch.tensor([len(prompt) - 1 for prompt in prompts], device=device)
    starts = lengths.repeat_interleave(samples)
    starts = starts[:, None]  # (R, 1)
    count = len(starts)  # R
    owners = [row // samples for row in range(count)]  # each row's prompt
    prefix = prefill(base, [prompt[:-1] for prompt in prompts], agents)
    real = prefix.positions < PADDING
    layers = prefix.layers()
    keys, _ = layers[0]
    grid = Grid(owners, real, heads=keys.shape[1])
    clock = Clock(limit, device) if has_graph(base) else None
    caches = [RowCache(keys, values, grid, count, limit, clock) for keys, values in layers]
    cache = Cache(caches)

    def forward(tokens: Tensor, positions: Tensor, place: Tensor) -> Tensor:
        """Return the logits (R, V) of the token at this place (1,)."""
        if clock:
            clock.set(place)
        hidden = base.hidden(tokens, positions, cache)
        return base.logits(hidden[:, -1])

    logits_of = Graph(forward) if clock else forward
    ends = torch.zeros(len(base.head.weight), dtype=torch.bool, device=device)  # (V,)
    ends[list(base.eos)] = True
    uniforms = uniforms.flatten(0, 1).to(precision(device)).to(device)  # (R, T)
    tokens = torch.zeros(count, limit, dtype=torch.long, device=device)
    logps = torch.zeros(count, limit, device=device)
    entropies = torch.zeros(count, limit, device=device)
    ended = torch.zeros(count, dtype=torch.bool, device=device)
    alive = torch.arange(count, device=device)  # the rows still decoded
    steps = torch.arange(limit, device=device)
    last = [prompts[owner][-1:] for owner in owners]
    inputs = torch.tensor(last, device=device)  # (R, 1)
    row_agents = agents and [agents[owner] for owner in owners]
    with base.acting(row_agents, 1, keep=True):
        for step in range(limit):
            logits = logits_of(inputs, starts[alive] + step, steps[step, None])
            new, logp, entropy = choose(logits, uniforms[alive, step], sampling)
            tokens[alive, step] = new
            logps[alive, step] = logp
            entropies[alive, step] = entropy
            ended[alive] |= ends[new]
            inputs = new[:, None]
            look = LOOK[device.type]
            if (step + 1) % look:
                continue
            if base.stops:
                ended[alive] |= stopped(base, tokens[alive, : step + 1], look)
            kept = (~ended[alive]).nonzero().squeeze(-1)
            if len(kept) == 0:
                break
            if len(kept) <= KEPT[device.type] * len(alive):
                owners = [owners[row] for row in kept.tolist()]
                before = grid.prompts
                grid = Grid(owners, real, grid.heads)
                places = [before.index(prompt) for prompt in grid.prompts]
                places = torch.tensor(places, device=device)  # once for all layers
                for layer in cache.layers:
                    layer.select(kept, places, grid)
                alive = alive[kept]
                inputs = inputs[kept]
                base.act(agents and [agents[owner] for owner in owners])
                logits_of = Graph(forward) if clock else forward
    rows = zip(tokens.tolist(), logps.tolist(), entropies.tolist(), strict=True)
    responses = [response_of(base, *row) for row in rows]
    return [responses[start : start + samples] for start in range(0, count, samples)]


def has_graph(base: Base) -> bool:
    """Return whether a decoding step can be recorded as a CUDA graph: it may not wait for the GPU.

    Layers in 8 bits wait, and transformers' own forward pass may.
    """
    return base.device.type == "cuda" and base.layers is not None and not base.int8


def stopped(base: Base, tokens: Tensor, new: int) -> Tensor:
    """Return which rows (R,) have completed a text that ends a response, with their new tokens.

    Each token of such a text has one of its bytes or more. So the text begins at most as many
    tokens before the new ones as it has bytes.
    """
    reach = new + max(len(stop.encode()) for stop in base.stops)
    tails = tokens[:, -reach:].tolist()
    return torch.tensor([base.is_stopped(tail) for tail in tails], device=tokens.device)


def response_of(base: Base, tokens: list[int], logps: list, entropy: list) -> Response:
    """Return a row cut after the first token that ends a response. The rest means nothing.

    The text is without what ended it: the end-of-sequence token, or a text and what follows it.
    """
    size = base.end_of(tokens)
    tokens = tokens[:size]
    text = base.text_of(tokens)
    for stop in base.stops:
        text = text.partition(stop)[0]
    return Response(
        tokens=tokens,
        text=text,
        logps=logps[:size],
        entropy=sum(entropy[:size]),
        ended=size is not None,
    )
