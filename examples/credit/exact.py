"""Compare estimators of credit exactly. Every outcome of every sample of small games is listed.

    python -m examples.credit.exact [--out exact.png]      # a table and a picture, in a minute

Each agent samples G responses. An estimator turns their rewards into a gradient by the agents'
logits. The columns are averaged over random policies.

    `cosine`   Of its expected gradient with the true gradient g. It is 1 without bias.
    `length`   Of its expected gradient over that of g. A learning rate makes up for it.
    `trace`    Of its covariance.
    `samples`  Responses that it samples.
    `scores`   Joint responses that it scores.
    `noise`    Mean trace over the expected gradient's mean square, times samples. It is left after
               as many samples. `by score` is the same times scores.
    `best`     Share of random starts from which its expected gradient leads to the best reward, 1.

An estimator is a choice of three things, the joint responses that are scored (`arrangement`), what
they pay each agent (games.py), and the baseline (`advantages`).

    `aligned, K, cross`   Each response is in 1, K or all joint responses.
    `leave-one-out`       The baseline is the mean of the others.
    `deviation, MaxRL`    Divided by the group's deviation (GRPO), or by its mean (2602.02710).
    `optimism`            A response's best joint response counts, not the mean of them.
    `difference`          Pays `r(a) - r(a without i)`.
    `counterfactual`      The same, divided by the group's deviation.
    `Shapley`             Pays the mean of `r(S + i) - r(S)` over coalitions S.
    `team, Shapley`       Pays `r(a)` and the Shapley value (SHARP, 2602.08335, without its tools).
    `own pay, pooled`     Pays `r(a) + r(i alone)`. `pooled` has one mean and deviation for all.
    `critic`              The baseline is the exact value.
    `tree, chain`         Each first response opens a second turn with G samples, or with one.
    `lines left`          A chain whose baseline leaves out lines that have ended, not 0 for them.
    `turn index`          Each turn's reward is centred over the lines that reached that turn.
    `central, decentral`  The critic knows all agents' histories, or an agent's own.

An estimator of your own is a line of ONE_TURN, with a branch in `credit` if its baseline is new. A
game of your own is a line of GAMES in games.py.
"""

import argparse
import collections
import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from examples.credit.games import (
    F64,
    GAMES,
    SCORED,
    Game,
    Values,
    difference,
    random_policies,
    shapley,
    shared,
    true_gradient,
    values_of,
    with_own_pay,
    with_shapley,
)
from magrpo import Node, advantages, arrangement, back_up, sample_returns

G = 3  # responses of an agent in games of one turn
G_TURNS = 2  # in the game of two
POLICIES = 12  # random policies that bias and variance are averaged over
STARTS = 600  # random policies that expected gradients are followed from


@dataclass(frozen=True)
class Estimator:
    """An estimator of one turn."""

    count: float = 1  # joint responses of each response
    baseline: str = "mean"
    pay: Callable = shared
    optimism: float = 0.0


ONE_TURN = {
    "aligned": Estimator(),
    "leave-one-out": Estimator(1, "rloo"),
    "deviation": Estimator(1, "std"),
    "MaxRL": Estimator(1, "maxrl"),
    "K = 2": Estimator(2),
    "cross": Estimator(math.inf),
    "optimism": Estimator(math.inf, optimism=1.0),
    "difference": Estimator(1, "mean", difference),
    "counterfactual": Estimator(1, "std", difference),
    "Shapley": Estimator(1, "mean", shapley),
    "team, Shapley": Estimator(1, "mean", with_shapley),
    "own pay": Estimator(1, "mean", with_own_pay),
    "pooled": Estimator(1, "pooled", with_own_pay),
    "critic": Estimator(1, "critic"),
}
TWO_TURNS = ["tree", "chain", "lines left", "turn index", "central", "decentral"]
CRITICS = ("critic", "central", "decentral")
NO_VALUES: Values = collections.defaultdict(lambda: torch.tensor(0.0))


# --------------------------------------------------------------------------------------------------
# Outcomes: lists of responses, (context, action, weight of its grad log pi)
# --------------------------------------------------------------------------------------------------


def rows_of(contexts: tuple, draw: tuple, weights: Tensor) -> Iterator[tuple]:
    """Yield the responses of a turn: joint actions `draw`, with weights (n, G)."""
    for agent, context in enumerate(contexts):
        for joint, weight in zip(draw, weights[agent].tolist(), strict=True):
            yield context, joint[agent], weight


def credit(returns: Tensor, baseline: str) -> Tensor:
    """Return returns minus a baseline, (n, G). Three kinds are not magrpo.py's."""
    if baseline == "pooled":
        return (returns - returns.mean()) / (returns.std(correction=0) + 1e-4)
    if baseline == "maxrl":
        mean = returns.mean(-1, keepdim=True)
        return advantages(returns, "mean") / mean.clamp(min=1e-9)
    if baseline == "chain":  # lines that have ended count as 0
        left = returns.shape[1]
        return advantages(F.pad(returns, (0, G_TURNS - left)), "mean")[:, :left]
    if baseline in CRITICS:
        return returns
    return advantages(returns, baseline)


def credits_of(game: Game, rule: Estimator, draw: tuple) -> Tensor:
    """Return the advantages of G joint actions, (n, G), but for a critic's value."""
    joints = arrangement(game.agents, G, rule.count)  # (J, n)
    actions = torch.tensor(draw).T  # (n, G)
    rewards = rule.pay(game, actions.gather(1, joints.T))  # (n, J)
    future = torch.zeros(actions.shape, dtype=F64)
    returns = sample_returns(rewards, joints, future, rule.optimism)
    return credit(returns, rule.baseline)


def one_turn(game: Game, rule: Estimator, values: Values) -> Iterator[Iterable]:
    """Yield every outcome of one turn."""
    value = values[game.start] if rule.baseline == "critic" else 0.0
    for draw in game.draws(G):
        yield rows_of(game.start, draw, (credits_of(game, rule, draw) - value) / G)


def node(table: Tensor, contexts: tuple, draw: tuple) -> Node:
    """Return a node of two agents, who drew these joint actions."""
    rewards = torch.stack([table[joint] for joint in draw]).expand(2, -1)
    joints = arrangement(2, len(draw), 1)
    item = {"contexts": contexts, "draw": draw}
    return Node(0, item, (), [], {}, [], len(draw), joints=joints, rewards=rewards)


def two_turns(game: Game, name: str, values: Values) -> Iterator[Iterable]:
    """Yield every outcome of two turns. The second one has G samples on a tree, else one."""
    samples = G_TURNS if name == "tree" else 1
    for first in game.draws(G_TURNS):
        root = node(game.table, game.start, first)
        options = []
        for joint in first:
            options.append(game.draws(samples) if game.goes_on(joint) else [()])
        for then in itertools.product(*options):
            pairs = zip(first, then, strict=True)
            root.children = [
                node(game.second, game.later(joint), draw) if draw else None
                for joint, draw in pairs
            ]
            later = [child for child in root.children if child]
            back_up([[root], later], 1.0, 0.0)
            set_advantages(name, root, later)
            yield itertools.chain(
                weighted(name, root, values, G_TURNS),
                *(weighted(name, child, values, G_TURNS * samples) for child in later),
            )


def set_advantages(name: str, root: Node, later: list[Node]) -> None:
    """Set the advantages of an episode's nodes, but for a critic's value."""
    baseline = name if name in ("chain", *CRITICS) else "mean"
    root.advantages = credit(root.returns, baseline)
    groups = [[child] for child in later] if name == "tree" else [later]
    for group in filter(None, groups):
        returns = torch.cat([child.returns for child in group], 1)
        parts = credit(returns, baseline).split(group[0].samples, 1)
        for child, part in zip(group, parts, strict=True):
            child.advantages = part
    if name == "turn index":
        root.advantages = advantages(root.rewards, "mean")
        for sample, child in enumerate(root.children):
            if child:
                root.advantages[:, sample] += child.advantages[:, 0]


def weighted(name: str, node: Node, values: Values, count: int) -> Iterator[tuple]:
    """Yield a node's responses. count: responses of an agent at this turn."""
    contexts = node.item["contexts"]
    known = {"central": [contexts, contexts], "decentral": contexts}.get(name, ())
    weights = node.advantages
    if known:
        weights = weights - torch.stack([values[key] for key in known])[:, None]
    return rows_of(contexts, node.item["draw"], weights / count)


def outcomes(game: Game, name: str, values: Values) -> Tensor:
    """Return what an estimator may draw: (2, W, contexts, actions).

    First how often an action is drawn in a context, then the sum of its weights.
    """
    if game.second is None:
        drawn = one_turn(game, ONE_TURN[name], values)
    else:
        drawn = two_turns(game, name, values)
    tables = []
    for rows in drawn:
        table = np.zeros((2, game.contexts, game.actions))
        for context, action, weight in rows:
            table[:, context, action] += (1, weight)
        tables.append(table)
    return torch.from_numpy(np.stack(tables, 1))


# --------------------------------------------------------------------------------------------------
# Expectations over all outcomes. policies: (S, contexts, actions)
# --------------------------------------------------------------------------------------------------


def chances(table: Tensor, policies: Tensor) -> Tensor:
    """Return the probability of each outcome, (S, W)."""
    return torch.einsum("wca,sca->sw", table[0], policies.log()).exp()


def expected(table: Tensor, policies: Tensor) -> Tensor:
    """Return the expected gradient by logits, (S, contexts, actions)."""
    mean = torch.einsum("sw,wca->sca", chances(table, policies), table[1])
    return mean - mean.sum(-1, keepdim=True) * policies


def share_of_best(game: Game, table: Tensor) -> float:
    """Return the share of starts from which the expected gradient leads to a reward near 1."""
    logits = random_policies(game, STARTS).log()
    for _ in range(200):
        step = expected(table, logits.softmax(-1))
        norm = step.norm(dim=(1, 2), keepdim=True)
        logits += 0.3 * step / norm.clamp(min=1e-9)
    ends = [values_of(game, policy)[game.start] for policy in logits.softmax(-1)]
    return float(np.mean([end > 0.95 for end in ends]))


def measure(game: Game, name: str) -> dict[str, float]:
    """Return the columns of an estimator in a game."""
    table = outcomes(game, name, NO_VALUES)
    row: dict = collections.defaultdict(float)
    # The value of a critic, which is exact, does not change an expected gradient.
    row["best"] = share_of_best(game, table)
    for policy in random_policies(game, POLICIES):
        if name in CRITICS:
            table = outcomes(game, name, values_of(game, policy))
        chance = chances(table, policy[None])[0]  # (W,)
        drawn, credits = table
        gradients = credits - credits.sum(-1, keepdim=True) * policy  # (W, contexts, actions)
        mean = torch.einsum("w,wca->ca", chance, gradients)
        true = true_gradient(game, policy)
        row["cosine"] += float((mean * true).sum() / mean.norm() / true.norm()) / POLICIES
        row["length"] += float(mean.norm() / true.norm()) / POLICIES
        row["square"] += float(mean.square().sum()) / POLICIES
        spread = (gradients - mean).square().sum((1, 2))
        row["trace"] += float(chance @ spread) / POLICIES
        row["samples"] += float(chance @ drawn.sum((1, 2))) / POLICIES
    row["scores"] = row["samples"] / game.agents
    if game.second is None:
        rule = ONE_TURN[name]
        joints = arrangement(game.agents, G, rule.count)
        row["scores"] = len(joints) * SCORED[rule.pay](game.agents)
    noise = row["trace"] / row["square"]
    return row | {"noise": noise * row["samples"], "by score": noise * row["scores"]}


# --------------------------------------------------------------------------------------------------
# The table and the picture
# --------------------------------------------------------------------------------------------------

COLUMNS = ("cosine", "length", "trace", "samples", "scores", "noise", "by score", "best")


def draw(tables: dict[str, dict], path: Path) -> None:
    """Draw bias against noise at equal samples, an axis for each game. Numbers name estimators."""
    from matplotlib.figure import Figure

    from evaluation.runs import COLORS

    blue, vermillion, *_ = COLORS
    height = math.ceil((len(tables) + 1) / 3)
    figure = Figure((11, 3.25 * height), layout="constrained")
    *places, legend = figure.subplots(height, 3).flat
    for spare in places[len(tables) :]:
        spare.axis("off")
    names = [*ONE_TURN, *TWO_TURNS]
    for place, (game, rows) in zip(places, tables.items(), strict=False):
        points = collections.defaultdict(list)  # estimators that are alike share one
        for name, row in rows.items():
            point = (round(1 - row["cosine"], 2), round(row["noise"]))
            points[point].append(names.index(name) + 1)
        for point, numbers in points.items():
            text = " ".join(map(str, numbers))
            style = {"textcoords": "offset points", "va": "center", "fontsize": 9}
            if point[0] > 0:  # biased
                place.plot(*point, "s", color=vermillion)
                place.annotate(text, point, (6, 0), ha="left", **style)
            else:
                place.plot(*point, "o", color=blue)
                place.annotate(text, point, (-6, 0), ha="right", **style)
        place.set(title=game, xlabel="bias: 1 - cosine", ylabel="noise at equal samples")
        widest = max(bias for bias, _ in points)
        place.margins(y=0.1)
        place.set(xlim=(-0.75 * widest, 1.25 * widest), ylim=(0, None))
    text = "\n".join(f"{number} {name}" for number, name in enumerate(names, 1))
    text += "\n\nsquares are biased"
    legend.text(0, 1, text, va="top", fontsize=9)
    legend.axis("off")
    figure.savefig(path, dpi=90)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default="exact.png")
    out = parser.parse_args().out
    print(f"{'':30}" + "".join(f"{column:>9}" for column in COLUMNS))
    tables: dict = {}
    for game in GAMES:
        rows = tables.setdefault(game.name, {})
        for name in ONE_TURN if game.second is None else TWO_TURNS:
            rows[name] = measure(game, name)
            cells = "".join(f"{rows[name][column]:9.3f}" for column in COLUMNS)
            print(f"{game.name:14}{name:16}{cells}", flush=True)
    draw(tables, out)


if __name__ == "__main__":
    main()
