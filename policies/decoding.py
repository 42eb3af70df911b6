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
    """Sample S responses to each prompt. agents (sorted): who answers, None: the frozen base. Only
    the uniforms (prompts, S, T) in [0, 1) decide the tokens."""
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
    count = len(prompts) * samples  # R
    lengths = torch.tensor([len(prompt) - 1 for prompt in prompts], device=base.device)
    owners = [number for number in range(len(prompts)) for _ in range(samples)]  # of each row
    prefix = base.prefill(prompts, agents)
    grid = Grid(owners, lengths, max(map(len, prompts)) - 1, prefix[0][0].shape[1])
    cache = Cache([RowCache(keys, values, grid, count, limit) for keys, values in prefix])
    uniforms = uniforms.flatten(0, 1).to(base.device)  # (R, T)
    tokens = torch.tensor([[prompts[owner][-1]] for owner in owners], device=base.device)
    positions = lengths.repeat_interleave(samples)[:, None]
    ends = torch.zeros(len(base.head.weight), dtype=torch.bool, device=base.device)
    ends[[token for token in base.ends if token < len(ends)]] = True  # whether a token is one
    alive = torch.arange(count, device=base.device)  # the numbers of the rows still decoded
    done = torch.zeros_like(alive, dtype=torch.bool)
    record = Record(count)
    with base.acting(agents and [agents[owner] for owner in owners], 1, keep=True):
        for step in range(limit):
            logits = base.logits(base.hidden(tokens, positions, cache)[:, -1])
            new, logps, entropies = choose(logits, uniforms[:, step], sampling)
            record.add(alive, new, logps, entropies)
            tokens = new[:, None]
            positions = positions + 1
            done = done | ends.index_select(0, new)
            if (step + 1) % LOOK[base.device.type]:
                continue
            finished = int(done.sum())
            if finished == len(alive):
                break
            if 4 * finished >= len(alive):  # copying the cache costs about one step
                kept = (~done).nonzero().squeeze(-1)
                owners = [owners[row] for row in kept.tolist()]
                grid = Grid(owners, lengths, grid.width, grid.heads)
                for layer in cache.layers:
                    layer.select(kept, grid)
                alive = alive[kept]
                tokens = tokens[kept]
                positions = positions[kept]
                uniforms = uniforms[kept]
                done = done[kept]
                base.act(agents and [agents[owner] for owner in owners])
    rows = [response_of(base, *row) for row in record.rows()]
    return [rows[start : start + samples] for start in range(0, count, samples)]


class Record:
    """Keep what was sampled in each step, and sort it by row at the end: until then nothing waits
    for the device."""

    def __init__(self, count: int):
        self.count = count
        self.steps: list[tuple[Tensor, Tensor, Tensor, Tensor]] = []

    def add(self, rows: Tensor, tokens: Tensor, logps: Tensor, entropies: Tensor) -> None:
        """Take one token of each of these rows."""
        self.steps.append((rows, tokens, logps, entropies))

    def rows(self) -> list[tuple[list[int], list[float], list[float]]]:
        """Return tokens, log-probabilities and entropies of each row, in order."""
        rows = [([], [], []) for _ in range(self.count)]
        numbers, *columns = (torch.cat([step[i] for step in self.steps]).tolist() for i in range(4))
        for place, number in enumerate(numbers):
            for values, column in zip(rows[number], columns, strict=True):
                values.append(column[place])
        return rows


def response_of(base: Base, tokens: list[int], logps: list, entropy: list) -> Response:
    """A decoded row, cut after the first token that ends a response, which is not in its text."""
    end = next((i for i, token in enumerate(tokens) if token in base.ends), None)
    size = len(tokens) if end is None else end + 1
    text = base.text_of(tokens[:end])
    return Response(tokens[:size], text, logps[:size], sum(entropy[:size]), end is not None)
