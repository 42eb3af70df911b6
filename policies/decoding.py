"""Sampling responses: every agent, prompt and sample of a model decoded together.

Shapes: P prompts, S samples of each, R rows (responses), T tokens of a response, W positions that
are read so far, V vocabulary.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from policies import Mistake
from policies.codec import Codec
from policies.logprobs import padded
from policies.memory import halving, prompts_at_once
from policies.sampling import Sampling, choose
from policies.shared_model import SharedModel, repeat_each

# Tokens between two looks at which rows have finished. On a GPU the host waits in a look, and gets
# no further ahead. A finished row that is still decoded costs nothing there.
LOOK = {"cpu": 1, "cuda": 8}
# The rest of the rows goes on alone when at most this share is left. To copy the cache costs about
# one step.
KEPT = {"cpu": 0.75, "cuda": 0.5}


class Ask(NamedTuple):
    """What an agent is asked."""

    agent: int
    prompt: tuple[int, ...]  # token ids
    begun: str = ""  # the beginning of the answer, with which the prompt ends


@dataclass
class Response:
    """One action: the sampled tokens, the end-of-sequence token included where there is one."""

    tokens: list[int]
    text: str  # after the given beginning of the answer, if there is one
    logps: list[float]  # log-probability of each token under the sampled distribution
    entropies: list[float]  # of the sampled distribution at each token, in nats
    ended: bool  # False: cut off at max_new_tokens


SILENCE = Response([], "", [], [], True)  # of an agent that does not speak at a turn


class Rows:
    """The rows that are still decoded, S of each prompt, with what the model has read of them."""

    logits: Tensor  # (R, V) of the next token

    def __init__(self, base: SharedModel, asks: Sequence[Ask], samples: int, limit: int):
        """Let the model read the prompts, padded on the left to W.

        A prompt is read once, and its cache is copied. The caches of a model that takes no mask may
        be of any kind, so its one prompt is read by all of its rows. The cache grows with the
        responses: only policies/fast/ needs their `limit` in tokens.
        """
        if not base.takes_masks:
            asks = repeat_each(asks, samples)
            samples = 1
        self.base = base
        self.agents = [ask.agent for ask in asks]
        self.cache: Any = None  # of transformers
        ids = [torch.tensor(ask.prompt) for ask in asks]
        ids = padded(ids, padding_side="left", padding_value=-1)
        ids = ids.to(base.device)
        self.real = ids >= 0  # (R, W), False at the padding before a prompt
        self.read(ids.clamp(min=0))
        if samples > 1:
            self.cache.batch_repeat_interleave(samples)
            self.logits = self.logits.repeat_interleave(samples, 0)
            self.real = self.real.repeat_interleave(samples, 0)
            self.agents = repeat_each(self.agents, samples)
        self.numbers = torch.arange(len(self.real), device=base.device)  # (R,): of all rows

    def read(self, ids: Tensor) -> None:
        """Let the model read tokens (R, t), the last of `real`. Set logits (R, V) of the next."""
        inputs = {}
        if self.base.takes_masks:
            size = ids.shape[1]
            positions = self.real.cumsum(1) - 1
            positions = positions[:, -size:]
            inputs["position_ids"] = positions.clamp(min=0)
            inputs["attention_mask"] = self.real.long()
        with self.base.acting(self.agents):
            outputs = self.base.net(
                ids, past_key_values=self.cache, use_cache=True, logits_to_keep=1, **inputs
            )
        self.logits = outputs.logits[:, -1]
        self.cache = outputs.past_key_values

    def step(self, tokens: Tensor) -> None:
        """Let the model read a token of every row (R,)."""
        self.real = F.pad(self.real, (0, 1), value=True)
        self.read(tokens[:, None])

    def keep(self, going_on: Tensor) -> None:
        """Drop all rows but these, given by their places (r,)."""
        self.numbers = self.numbers[going_on]
        self.agents = [self.agents[place] for place in going_on.tolist()]
        self.real = self.real[going_on]
        self.cache.batch_select_indices(going_on)


def decode(
    base: SharedModel, asks: Sequence[Ask], uniforms: Tensor, sampling: Sampling
) -> list[list[Response]]:
    """Sample S responses to each prompt, by its agent. Agents are sorted.

    Memory limits how many prompts are decoded at once. Only the uniforms (P, S, T) in [0, 1)
    decide the tokens. With --engine a server samples.
    """
    if base.engine:
        return base.engine.sample(asks, uniforms, sampling)
    samples, limit = uniforms.shape[1:]
    make_rows = Rows
    if base.fast:
        make_rows = base.fast.rows

    def in_parts() -> list[list[Response]]:
        longest = max((len(ask.prompt) for ask in asks), default=0)
        count = prompts_at_once(base, longest, samples, limit)
        answers: list[list[Response]] = []
        for start in range(0, len(asks), count):
            part = asks[start : start + count]
            part_uniforms = uniforms[start : start + count].flatten(0, 1)  # (R, T)
            with torch.inference_mode():  # a step's kernels cost an eighth less than in no_grad
                rows = make_rows(base, part, samples, limit)
                row_asks = repeat_each(part, samples)
                responses = decode_rows(base, rows, row_asks, part_uniforms, sampling)
            for first in range(0, len(responses), samples):
                answers.append(responses[first : first + samples])
        return answers

    return halving([base], in_parts)


def decode_rows(
    base: SharedModel,
    rows: Rows,
    asks: list[Ask],
    uniforms: Tensor,
    sampling: Sampling,
) -> list[Response]:
    """Sample a response of every row, to its own prompt, by the uniforms (R, T)."""
    device = base.device
    count, limit = uniforms.shape
    uniforms = uniforms.double().to(device)
    tokens = torch.zeros(count, limit, dtype=torch.long, device=device)
    logps = torch.zeros(count, limit, device=device)
    entropies = torch.zeros_like(logps)
    sizes: list[int | None] = [None] * count  # how many tokens a response has, if it has ended
    agents = [ask.agent for ask in asks]
    row_sampling = sampling.of(agents, device)
    row_numbers = list(range(count))  # rows.numbers, which a GPU would be waited for
    seen = 0  # tokens of these rows at the last look
    for step in range(limit):
        # 1) Choose a token of every row.
        numbers = rows.numbers  # (r,) of those that are still decoded
        row_uniforms = uniforms[numbers, step]
        new, logp, entropy = choose(rows.logits, row_uniforms, row_sampling)
        tokens[numbers, step] = new
        logps[numbers, step] = logp
        entropies[numbers, step] = entropy
        size = step + 1  # tokens of these rows so far
        # 2) Now and then, drop the rows that have ended.
        if size % LOOK[device.type] == 0 or size == limit:
            going_on = []  # places in the rows
            written = tokens[numbers, :size].tolist()
            for place, number in enumerate(row_numbers):
                if sizes[number] is None:
                    sizes[number] = base.codec.end_of(written[place], asks[number].begun, seen)
                if sizes[number] is None:
                    going_on.append(place)
            seen = size
            if not going_on or size == limit:
                break
            few = KEPT[device.type] * len(new)
            if base.takes_masks and len(going_on) <= few:
                kept = torch.tensor(going_on, device=device)
                rows.keep(kept)
                new = new[kept]
                row_numbers = [row_numbers[place] for place in going_on]
                row_sampling = sampling.of([agents[number] for number in row_numbers], device)
        # 3) Let the model read the tokens.
        rows.step(new)
    if not logps.isfinite().all():
        raise Mistake(f"{type(base.net).__name__} draws tokens without a probability")
    begun = [ask.begun for ask in asks]
    answers = zip(tokens.tolist(), logps.tolist(), entropies.tolist(), begun, sizes, strict=True)
    return [response_of(base.codec, *answer) for answer in answers]


def response_of(
    codec: Codec,
    tokens: list[int],
    logps: list[float],
    entropies: list[float],
    begun: str,
    size: int | None,
) -> Response:
    """Return a row cut after the token that ends a response, its `size`-th. None: no token does.

    The text is without what ended it: the end-of-sequence token, or a text and what follows it.
    """
    tokens = tokens[:size]
    text = begun + codec.text_of(tokens)
    return Response(
        tokens=tokens,
        text=codec.before_stop(text, len(begun)),
        logps=logps[:size],
        entropies=entropies[:size],
        ended=size is not None,
    )
