"""The distribution that responses are sampled from and scored under.

One function, `warp`, makes it for both, whatever generation defaults a checkpoint ships.

Shapes: R rows (responses), N tokens, V vocabulary.
"""

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

RANKED = 64  # number of the likeliest tokens that top-p sorts first
NEARLY_0 = 1e-6  # a temperature that leaves the likeliest token alone, beside rows of another
MORE = 32  # how many times as many it sorts next, where they are too few


@dataclass(frozen=True)
class Sampling:
    """The distribution of responses. Temperature 0 is greedy. top_k 0 and top_p 1 cut nothing."""

    temperature: Any  # of all agents, or a sequence: of each. `of` makes it that of rows: (R, 1)
    top_k: int
    top_p: float
    max_new_tokens: int

    def of(self, agents: Sequence[int], device: torch.device | None = None) -> "Sampling":
        """Return the same for rows of these agents: with their one temperature, or each row's."""
        temperature = self.temperature
        if isinstance(temperature, Sequence):
            values = [temperature[agent] for agent in agents]
            temperature = values[0]
            if len({*values}) > 1:
                rows = torch.tensor(values, device=device)
                temperature = rows.clamp(min=NEARLY_0)[:, None]
        return dataclasses.replace(self, temperature=temperature)

    def greedy(self) -> "Sampling":
        """Return the same with the likeliest token at every place."""
        return Sampling(0.0, 0, 1.0, self.max_new_tokens)


def warp(logits: Tensor, sampling: Sampling, keep: Tensor | None = None) -> Tensor:
    """Return logits (R, V) of the sampled distribution: temperature, then top-k, then top-p.

    keep (R, 1) holds the tokens to score. They were inside the nucleus when they were sampled, and
    rounding in the update must not move them out of it.
    """
    logits = logits.float()
    temperature = sampling.temperature
    if torch.is_tensor(temperature) or temperature not in (0, 1):
        logits = logits / temperature
    least = None
    if 0 < sampling.top_k < logits.shape[-1]:
        ranked = logits.topk(sampling.top_k).values
        least = ranked[..., -1:]
    if sampling.top_p < 1:
        truncated = logits
        if least is not None:
            truncated = logits.masked_fill(logits < least, -math.inf)
        least = nucleus(truncated, sampling.top_p)
    if least is None:
        return logits
    outside = logits < least
    if keep is not None:
        outside.scatter_(-1, keep, False)
    return logits.masked_fill(outside, -math.inf)


def nucleus(logits: Tensor, top_p: float, count: int = RANKED) -> Tensor:
    """Return the least logit (R, 1) in the nucleus of logits (R, V).

    The nucleus is the likeliest tokens that together have the mass top_p. Tokens as likely as the
    last of them belong to them.

    To sort a whole vocabulary costs more than all else that is done to its logits, and a few
    dozen tokens nearly always hold the mass. So `count` tokens are ranked first, and more of them
    only in rows where these are too few.
    """
    known = logits.shape[-1]
    count = min(count, known)
    ranked = logits.topk(count).values
    total = logits.logsumexp(-1, keepdim=True)
    mass = (ranked - total).exp()
    likelier = mass.cumsum(-1) - mass  # mass of the tokens before each token
    inside = (likelier < top_p) & (mass > 0)  # a sum of nearly 1 may be rounded down
    kept = inside.sum(-1, keepdim=True)
    last = kept.clamp(min=1) - 1
    least = ranked.gather(-1, last)
    if count < known:
        too_few = kept[:, 0] == count
        more = too_few.nonzero()[:, 0]  # rows; on a GPU the host waits for them
        if len(more):
            least[more] = nucleus(logits[more], top_p, MORE * count)
    return least


def choose(logits: Tensor, uniforms: Tensor, sampling: Sampling) -> tuple[Tensor, Tensor, Tensor]:
    """Return a token, its log-probability and the entropy for each row of logits (R, V).

    The uniforms (R,) decide. The entropy is that of the distribution, in nats. Each is (R,).
    """
    logits = warp(logits, sampling)
    mass = logits.softmax(-1)
    greedy = not torch.is_tensor(sampling.temperature) and sampling.temperature == 0
    tokens = logits.argmax(-1) if greedy else draw(mass, uniforms)
    chosen = tokens[:, None]
    logps = mass.gather(-1, chosen).log_()
    total = logits.gather(-1, chosen) - logps  # log of the sum of exp(logits)
    logits = logits.clamp(min=-1e30)  # 0 x -inf is not a number
    with torch.autocast(logits.device.type, enabled=False):  # it would round this to 16 bits
        mean_logit = torch.linalg.vecdot(mass, logits)
    entropy = total[:, 0] - mean_logit
    return tokens, logps[:, 0], entropy


def draw(mass: Tensor, uniforms: Tensor) -> Tensor:
    """Draw tokens (R,) from probabilities (R, V) by inverting the distribution at uniforms (R,).

    So a row's sample depends on nothing else in the batch. The running sum has the precision of the
    uniforms. In float32 it might err by 9e-3 for 150,000 tokens. A token without mass is not drawn:
    the sum does not pass a number there.
    """
    ends = mass.cumsum(1, dtype=uniforms.dtype)
    points = uniforms[:, None] * ends[:, -1:]
    tokens = torch.searchsorted(ends, points, right=True)[:, 0]
    return tokens.clamp(max=mass.shape[1] - 1)  # where the mass is not a number


def target_logps(logits: Tensor, targets: Tensor, sampling: Sampling) -> Tensor:
    """Return log pi (N,) of target tokens (N,) from the model's logits (N, V)."""
    warped = warp(logits, sampling, targets[:, None])
    return -F.cross_entropy(warped, targets, reduction="none")
