"""The slow and obvious path: transformers' own forward pass with peft's own adapters.

The fast path (decoding.py, scoring.py) is tested against this file and compared with it whenever a
model is loaded (loading.py). This path runs the models whose layers the fast path does not know.

Shapes: S samples of one prompt. R rows (prompt and response). L tokens of the longest row.
T tokens of the longest response. V vocabulary.
"""

import contextlib
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from policies.base import Base
from policies.decoding import Response, response_of
from policies.memory import LOGIT_BYTES, share, update_tokens
from policies.sampling import Sampling, choose, precision, target_logps
from policies.scoring import Row, pack, padded

CACHES = ("past_key_values", "cache_params")  # what transformers' models call their cache


@contextlib.contextmanager
def acting(base: Base, agent: int | None):
    """Switch on an agent's adapter (None: no adapter) and transformers' own attention."""
    attention = base.net.config._attn_implementation
    base.net.set_attn_implementation(base.attention)
    if base.lora and agent is not None:
        base.model.base_model.enable_adapter_layers()
        base.model.set_adapter(f"agent{base.policy_of[agent]}")
    try:
        yield
    finally:
        base.net.set_attn_implementation(attention)
        if base.lora:
            base.model.base_model.disable_adapter_layers()
            base.mark_trained()  # peft's switches have changed which parameters are


@torch.inference_mode()
def decode(
    base: Base, prompts: Sequence, agents: Sequence | None, uniforms: Tensor, sampling: Sampling
) -> list[list[Response]]:
    """Sample S responses to each prompt, by its agent. agents None: by the frozen base.

    The numbers uniforms (prompts, S, T) in [0, 1) decide the tokens.
    """
    answers = []
    for number, prompt in enumerate(prompts):
        with acting(base, agents[number] if agents else None):
            answers.append(respond(base, prompt, uniforms[number], sampling))
    return answers


def respond(base: Base, prompt: tuple, uniforms: Tensor, sampling: Sampling) -> list[Response]:
    """Sample S responses to one prompt, one token after the other."""
    samples, limit = uniforms.shape
    uniforms = uniforms.to(precision(base.device)).to(base.device)
    ids = torch.tensor([prompt] * samples, device=base.device)  # what the model reads next
    cache = {}  # what it has read before
    tokens = []
    logps = []
    entropies = []
    for step in range(limit):
        outputs = base.net(input_ids=ids, use_cache=True, **cache)
        cache = {name: outputs[name] for name in CACHES if outputs.get(name) is not None}
        logits = outputs.logits[:, -1]  # (S, V)
        new, logp, entropy = choose(logits, uniforms[:, step], sampling)  # (S,)
        tokens.append(new)
        logps.append(logp)
        entropies.append(entropy)
        rows = torch.stack(tokens, 1).tolist()
        if all(base.end_of(row) is not None for row in rows):
            break
        ids = new[:, None] if cache else torch.cat([ids, new[:, None]], 1)
    columns = [torch.stack(values, 1).tolist() for values in (tokens, logps, entropies)]  # (S, T)
    return [response_of(base, *row) for row in zip(*columns, strict=True)]


def score(
    base: Base, rows: list[Row], sampling: Sampling, backward: Callable | None = None, frozen=False
) -> None:
    """Set `row.scored`, the log-probabilities of the response, of each row.

    backward(rows, logps (R, T), mask (R, T)) is called for every micro-batch, as in scoring.py.
    None: no gradients. With `frozen` the base scores, without adapters.
    """
    max_tokens = min(update_tokens(base), share(base) / LOGIT_BYTES / len(base.head.weight))
    learns = backward is not None
    for agent in sorted({row.agent for row in rows}):
        agent_rows = [row for row in rows if row.agent == agent]
        sizes = [len(row.prompt) + len(row.tokens) for row in agent_rows]
        for numbers in pack(sizes, max_tokens):
            batch = [agent_rows[number] for number in numbers]
            with torch.set_grad_enabled(learns), acting(base, None if frozen else agent):
                logps = log_probabilities(base, batch, sampling)
            for row, values in zip(batch, logps, strict=True):
                row.scored = values.detach()
            if backward:
                mask = padded([torch.ones_like(values, dtype=torch.bool) for values in logps])
                backward(batch, padded(logps), mask)


def log_probabilities(base: Base, rows: list[Row], sampling: Sampling) -> list[Tensor]:
    """Return log pi of each row's response. Whole rows are run, padded on the right."""
    ids = [torch.tensor([*row.prompt, *row.tokens]) for row in rows]
    logits = base.net(input_ids=padded(ids).to(base.device), use_cache=False).logits  # (R, L, V)
    logps = []
    for row, row_logits in zip(rows, logits, strict=True):
        targets = torch.tensor(row.tokens, device=base.device)
        start = len(row.prompt) - 1  # each token is foretold one place before its own
        row_logits = row_logits[start : start + len(targets)]
        logps.append(target_logps(row_logits, targets, sampling))
    return logps
