"""The distribution that responses are sampled from and scored under: one function, `warp`, makes it
for both, whatever generation defaults a checkpoint ships.

Shapes: R rows (responses), N tokens, D hidden units, V vocabulary.
"""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

RANKED = 256  # for top-p, so many of the likeliest tokens are sorted; all, where they are too few


@dataclass(frozen=True)
class Sampling:
    """The distribution of responses. temperature 0: greedy. top_k 0, top_p 1: no truncation."""

    temperature: float
    top_k: int
    top_p: float
    max_new_tokens: int


def sampling_of(args, greedy: bool = False) -> Sampling:
    """How agents sample: as --temperature, --top-k and --top-p say, or the likeliest token."""
    if greedy:
        return Sampling(0.0, 0, 1.0, args.max_new_tokens)
    return Sampling(args.temperature, args.top_k, args.top_p, args.max_new_tokens)


def capped(x: Tensor, softcap: float | None) -> Tensor:
    """Scores or logits within +-softcap, as Gemma 2 has them."""
    return x if softcap is None else softcap * torch.tanh(x / softcap)


def warp(logits: Tensor, sampling: Sampling, keep: Tensor | None = None) -> Tensor:
    """Logits (R, V) of the sampled distribution: temperature, then top-k, then top-p.

    keep (R, 1) holds the tokens to score: one that rounding moves over the edge of the nucleus in
    the update was inside it when it was sampled.
    """
    logits = logits.float()
    if sampling.temperature not in (0, 1):
        logits = logits / sampling.temperature
    if not sampling.top_k and sampling.top_p == 1:
        return logits
    drop = torch.zeros((), dtype=torch.bool, device=logits.device)
    if 0 < sampling.top_k < logits.shape[-1]:
        drop = logits < logits.topk(sampling.top_k).values[..., -1:]
    if sampling.top_p < 1:
        left = logits.masked_fill(drop, -math.inf) if drop.dim() else logits
        drop = left < nucleus(left, sampling.top_p)
    if keep is not None and drop.dim():
        drop = drop.scatter(-1, keep, False)
    return logits.masked_fill(drop, -math.inf) if drop.dim() else logits


def nucleus(logits: Tensor, top_p: float, count: int = RANKED) -> Tensor:
    """The least logit (R, 1) of the likeliest tokens that together have the mass top_p, of logits
    (R, V); what is as likely as the last of them belongs to them. Sorting a whole vocabulary costs
    more than all else that is done to its logits, and a few hundred nearly always hold the mass:
    `count` are ranked first, and all of them only in rows where those do not."""
    count = min(count, logits.shape[-1])
    ranked = logits.topk(count).values
    mass = (ranked - logits.logsumexp(-1, keepdim=True)).exp()
    kept = (mass.cumsum(-1) - mass < top_p).sum(-1, keepdim=True)  # likelier ones: below top_p
    least = ranked.gather(-1, kept.clamp(min=1) - 1)
    more = (kept[:, 0] == count).nonzero()[:, 0] if count < logits.shape[-1] else ()
    if len(more):
        least[more] = nucleus(logits[more], top_p, logits.shape[-1])
    return least


def choose(logits: Tensor, uniforms: Tensor, sampling: Sampling) -> tuple[Tensor, Tensor, Tensor]:
    """A token for each row of logits (R, V), its log-probability, and the distribution's entropy in
    nats, (R,) each; uniforms (R,) decide."""
    logits = warp(logits, sampling)
    mass = logits.softmax(-1)
    tokens = logits.argmax(-1) if sampling.temperature == 0 else draw(mass, uniforms)
    chosen = tokens[:, None]
    logps = mass.gather(-1, chosen).log_()
    total = logits.gather(-1, chosen) - logps  # log of the sum of exp(logits)
    if sampling.top_k or sampling.top_p < 1:
        logits = logits.clamp(min=-1e30)  # 0 x -inf is not a number
    entropy = total[:, 0] - torch.linalg.vecdot(mass, logits)
    return tokens, logps[:, 0], entropy


def draw(mass: Tensor, uniforms: Tensor) -> Tensor:
    """Tokens (R,) from probabilities (R, V) by inverting the distribution at uniforms (R,).

    One number in [0, 1) decides one token, so a row's sample depends on nothing else in the batch:
    not on which rows are decoded beside it, nor on when finished ones leave. In a large vocabulary,
    whose running sum is slow, first a block of tokens is found, then one of the block.
    """
    shares, size = uniforms.double()[:, None], 256
    if mass.shape[-1] <= 16 * size:
        ends = mass.cumsum(-1, dtype=torch.float64)
        return _passed(ends, shares * ends[:, -1:])[:, 0]
    if mass.shape[-1] % size:
        mass = F.pad(mass, (0, -mass.shape[-1] % size))
    blocks = mass.unflatten(-1, (-1, size))
    ends = blocks.sum(-1).cumsum(-1, dtype=torch.float64)
    points = shares * ends[:, -1:]
    block = _passed(ends, points)
    points = points - F.pad(ends, (1, 0)).gather(-1, block)
    inside = blocks[torch.arange(len(block), device=block.device), block[:, 0]]
    return (size * block + _passed(inside.cumsum(-1, dtype=torch.float64), points))[:, 0]


def _passed(ends: Tensor, points: Tensor) -> Tensor:
    """Index of the first of the running sums (R, X) that is past a row's point (R, 1)."""
    below = 1 - 1e-12  # rounding must not lead past the last token of nonzero probability
    return torch.searchsorted(ends, points.minimum(below * ends[:, -1:]), right=True)


class TokenLogps(torch.autograd.Function):
    """log pi of target tokens (N,) from the last hidden states (N, D) and the output layer.

    Of N x V logits only a few rows exist at a time. d log pi / d hidden is a row of its own for
    every token, known once its logits are: it is made with them, and backward only scales it. A
    trained output layer (full copies) needs its logits once more, for its own gradient.
    """

    @staticmethod
    def forward(ctx, hidden: Tensor, weight: Tensor, bias, targets: Tensor, sampling, softcap=None):
        logps = hidden.new_empty(len(hidden), dtype=torch.float32)
        slope = torch.empty_like(hidden) if ctx.needs_input_grad[0] else None
        ctx.how = sampling, softcap
        for part in _parts(hidden, weight):
            x, those = hidden[part], targets[part]
            logps[part], mass, steep = _token_logps(x, weight, bias, those, *ctx.how)
            if slope is None:
                continue
            if steep is None:  # d log pi / d logits: (1 at the target) - pi
                slope[part] = F.embedding(those, weight) - mass @ weight
            else:
                odds = (-mass).scatter_add_(-1, those[:, None], torch.ones_like(mass[:, :1]))
                slope[part] = (odds * steep) @ weight
        if slope is not None and sampling.temperature:
            slope /= sampling.temperature
        ctx.save_for_backward(hidden, weight, bias, targets, slope)
        return logps

    @staticmethod
    def backward(ctx, grad: Tensor):
        hidden, weight, bias, targets, slope = ctx.saved_tensors
        grads = [None if slope is None else slope * grad[:, None].to(slope.dtype), None, None]
        if ctx.needs_input_grad[1]:
            grads[1] = torch.zeros_like(weight)
            grads[2] = None if bias is None else torch.zeros_like(bias)
            for part in _parts(hidden, weight):
                x = hidden[part].to(weight.dtype)
                _, mass, steep = _token_logps(x, weight, bias, targets[part], *ctx.how)
                scale = (grad[part, None] / (ctx.how[0].temperature or 1)).to(mass.dtype)
                odds = (mass * -scale).scatter_add_(-1, targets[part, None], scale)
                odds = odds if steep is None else odds * steep
                grads[1].addmm_(odds.T, x)
                if bias is not None:
                    grads[2] += odds.sum(0)
        return *grads, None, None, None


def _parts(hidden: Tensor, weight: Tensor) -> list[slice]:
    """Tokens whose logits exist at the same time."""
    size = tokens_at_once(hidden.device, len(weight))
    return [slice(start, start + size) for start in range(0, len(hidden), size)]


def tokens_at_once(device: torch.device, vocab: int) -> int:
    """On a CPU as many as stay in its cache, on a GPU enough to keep its cores busy."""
    return max(2 ** (21 if device.type == "cpu" else 26) // vocab, 64)


def _token_logps(hidden: Tensor, weight: Tensor, bias, targets: Tensor, sampling, softcap):
    """log pi of the targets (N,), pi of all tokens (N, V), and what a soft cap leaves of a logit's
    slope (N, V), None without one."""
    raw = capped(F.linear(hidden, weight, bias), softcap)
    steep = None if softcap is None else (1 - (raw / softcap).square()).to(weight.dtype)
    logits = warp(raw, sampling, targets[:, None])
    mass = logits.softmax(-1)
    # log of the sum of exp(logits), from the likeliest token: the target's mass may round to 0
    total = logits.amax(-1) - mass.amax(-1).log()
    return logits.gather(-1, targets[:, None])[:, 0] - total, mass.to(weight.dtype), steep
