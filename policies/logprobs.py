"""Scoring responses: log-probabilities under the sampled distribution, with their gradient.

Each token is run once. Sequences that begin alike are a tree of tokens (`Tree`): the prompt, its G
responses, the next turn's prompts that continue them. A tree is run as one sequence, with a mask
that lets each token see those before it on its own branch.

Shapes: B trees of up to L tokens. N tokens of responses. R rows (responses), T tokens of a
response. V vocabulary.
"""

import functools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from policies.memory import TOGETHER, checkpoints, pass_tokens
from policies.sampling import Sampling, target_logps
from policies.shared_model import SharedModel

CAP = 2.0  # largest importance weight of a token
padded = functools.partial(nn.utils.rnn.pad_sequence, batch_first=True)


@dataclass
class Row:
    """One response in the update."""

    agent: int
    prompt: tuple[int, ...]
    tokens: list[int]
    advantage: float = 0.0
    weight: float = 1.0  # share of the batch
    problem: int = 0  # number in the batch
    # log-probabilities of the tokens
    logps: list[float] = field(default_factory=list)  # when they were sampled
    scored: Tensor | None = None  # when they were scored last
    reference: Tensor | None = None  # under the frozen base

    @property
    def size(self) -> int:
        """Its number of tokens, those of the prompt included."""
        return len(self.prompt) + len(self.tokens)

    @property
    def coef(self) -> float:
        """Its coefficient in the loss."""
        return self.advantage * self.weight


def score(
    base: SharedModel,
    rows: list[Row],
    sampling: Sampling,
    backward: Callable | None = None,
    frozen: bool = False,
) -> None:
    """Score responses in micro-batches and set `row.scored` of each row.

    backward(rows, logps (R, T), mask (R, T)) is called for every micro-batch. It has to call
    backward on a loss made of logps. None: no gradients are kept. With `frozen` the base scores,
    without adapters.
    """
    learns = backward is not None
    longest = max((row.size for row in rows), default=0)
    prompts = {(row.agent, row.prompt) for row in rows}
    total = sum(len(row.tokens) for row in rows)
    total += sum(len(prompt) for _, prompt in prompts)
    recomputing = learns and checkpoints(base, longest, total)
    logps_of = token_logps
    if base.fast:
        logps_of = base.fast.token_logps
    limit = pass_tokens(base, recomputing)
    batch_limit = min(limit, TOGETHER[base.device.type])
    together = [row for row in rows if row.size <= base.reach]
    alone = [row for row in rows if row.size > base.reach]
    # Some models keep tables of so many places as their context has.
    tree_limit = min(limit, base.codec.context, base.longest_tree)
    batches = [*packed(trees_of(together, tree_limit), batch_limit)]
    batches += packed(trees_of(alone, 0), batch_limit)
    for batch in batches:
        agents = None
        if not frozen:
            agents = [tree.rows[0].agent for tree in batch]
        base.recomputing = recomputing
        with torch.set_grad_enabled(learns), base.acting(agents):
            logps = logps_of(base, lay_out(base, batch), sampling)  # (N,)
            batch_rows = [row for tree in batch for row in tree.rows]
            lengths = [len(row.tokens) for row in batch_rows]
            parts = logps.split(lengths)
            for row, part in zip(batch_rows, parts, strict=True):
                row.scored = part.detach()
            if learns:
                real = [torch.ones_like(part, dtype=torch.bool) for part in parts]
                backward(batch_rows, padded(parts), padded(real))


def gaps(rows: list[Row]) -> Tensor:
    """Return how far the scored log-probabilities are from the sampled ones, in nats, (N,)."""
    differences = [torch.zeros(0)]
    for row in rows:
        sampled = torch.tensor(row.logps)
        differences.append(row.scored.cpu() - sampled)
    return torch.cat(differences)


class Tree:
    """Distinct tokens of rows that begin alike, each with the token before it.

    An example is the prompt "a b" with the responses "c d" and "c e f".

        a ── b ── c ──(d)
                  └── e ──(f)

    The last token of a response predicts none, so it is not run. The tree has these tokens.

        place   0  1  2  3
        token   a  b  c  e
        parent -1  0  1  2

    It predicts c at place 1, d and e at place 2, and f at place 3. So of the rows c d, c e f,
    `predicted` is 1 2, 1 2 3.
    """

    def __init__(self):
        self.rows = []
        self.predicted = []  # of all tokens of the rows: where each is predicted
        self.places = {}  # by the place of the token before (-1: none), and the token

    def add(self, row: Row) -> None:
        """Add a response after its prompt."""
        path = []  # places of the text's tokens but the last
        place = -1
        text = [*row.prompt, *row.tokens]
        for token in text[:-1]:
            place = self.places.setdefault((place, token), len(self.places))
            path.append(place)
        self.predicted += path[len(row.prompt) - 1 :]
        self.rows.append(row)

    def takes(self, row: Row, limit: float) -> bool:
        """Return whether a row's prompt begins with the first one, or shares half of its problem's.

        The second is a later turn that shows other texts at its end. The tree has at most `limit`
        tokens then.
        """
        root = self.rows[0]
        if row.agent != root.agent or len(self.places) + row.size > limit:
            return False
        size = len(root.prompt)
        if row.problem == root.problem:
            size = (size + 1) // 2
        return row.prompt[:size] == root.prompt[:size]


def trees_of(rows: list[Row], limit: float) -> list[Tree]:
    """Return the trees of rows: one for all prompts of an agent that begin with the same prompt.

    A tree has at most `limit` tokens, if one response has. With 0 each response has its own tree.
    """
    trees: list[Tree] = []
    for row in sorted(rows, key=lambda row: (row.agent, row.prompt)):
        if not trees or not trees[-1].takes(row, limit):
            trees.append(Tree())
        trees[-1].add(row)
    return trees


def packed(trees: list[Tree], limit: float) -> Iterator[list[Tree]]:
    """Yield the trees of each pass, ordered by agent: parts of about equal size, the largest first.

    In each part, the number of trees times the tokens of the largest stays within the limit.
    """
    order = sorted(range(len(trees)), key=lambda number: -len(trees[number].places))
    while order:
        largest = trees[order[0]]
        capacity = max(1, int(limit / len(largest.places)))  # trees
        batches = math.ceil(len(order) / capacity)
        count = math.ceil(len(order) / batches)
        yield [trees[number] for number in sorted(order[:count])]
        order = order[count:]


@dataclass
class Layout:
    """Trees side by side, as the model runs them: padded on the right."""

    ids: Tensor  # (B, L)
    predicted: Tensor  # (N,), places in the flattened ids where the responses' tokens are predicted
    targets: Tensor  # (N,), these tokens
    agents: list[int]  # (N,), whose they are
    positions: Tensor | None = None  # (B, L). Both are None where the texts run alone.
    seen: Tensor | None = None  # (B, 1, L, L), whether a token sees another


def lay_out(base: SharedModel, trees: list[Tree]) -> Layout:
    """Return the layout of trees on the model's device."""
    ids = [torch.tensor([token for _, token in tree.places]) for tree in trees]
    ids = padded(ids)
    count, size = ids.shape
    predicted = []
    targets = []
    agents = []
    for number, tree in enumerate(trees):
        start = number * size
        predicted += [start + place for place in tree.predicted]
        for row in tree.rows:
            targets += row.tokens
            agents += [row.agent] * len(row.tokens)
    device = base.device
    whole: dict = {"dtype": torch.long, "device": device}  # there may be no token
    predicted = torch.tensor(predicted, **whole)
    targets = torch.tensor(targets, **whole)
    layout = Layout(ids.to(device), predicted, targets, agents)
    if trees[0].rows[0].size > base.reach:
        return layout
    seen = torch.eye(size, dtype=torch.bool)
    seen = seen.repeat(count, 1, 1, 1)
    for number, tree in enumerate(trees):
        rows = seen[number, 0].numpy()  # a token sees itself, and those on the way to it
        for (parent, _), place in tree.places.items():
            if parent >= 0:
                rows[place] |= rows[parent]
    layout.seen = seen.to(device)
    # In its text a token stands after those that it sees.
    layout.positions = layout.seen.sum(-1)[:, 0] - 1
    return layout


def token_logps(base: SharedModel, layout: Layout, sampling: Sampling) -> Tensor:
    """Return log pi (N,) of the responses' tokens, by transformers' forward pass."""
    inputs = {}
    if layout.seen is not None:
        dtype = base.net.dtype
        mask = torch.where(layout.seen, 0.0, torch.finfo(dtype).min)
        inputs["attention_mask"] = mask.to(dtype)
        inputs["position_ids"] = layout.positions
    logits = base.net(layout.ids, use_cache=False, **inputs).logits
    # Responses may share a place. In several threads, only a gradient of `embedding` adds up their
    # parts in one order.
    logits = logits.flatten(0, 1)
    logits = F.embedding(layout.predicted, logits)
    token_sampling = sampling.of(layout.agents, base.device)
    return target_logps(logits, layout.targets, token_sampling)


def importance(logps: Tensor, rows: list[Row]) -> Tensor:
    """Return weights (R, T) in the loss for tokens that a server has sampled (engine.py).

    They are min(pi / mu, CAP), detached. pi is the policy that learns, with log-probabilities
    logps (R, T). mu is the server's policy, with log-probabilities `row.logps`.
    Weights of padding mean nothing.

    This is truncated importance sampling (Ionides 2008) of tokens, biased and of bounded variance.
    Yao et al. 2025 do the same (Your Efficient RL Framework Secretly Brings You Off-Policy RL
    Training).
    """
    sampled = [logps.new_tensor(row.logps) for row in rows]
    log_ratio = logps.detach() - padded(sampled)
    ratio = log_ratio.exp()
    return ratio.clamp(max=CAP)
