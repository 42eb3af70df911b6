"""Games so small that every outcome of every sample can be listed (exact.py), and what they pay.

Rewards lie between 0 and 1, and the best is 1. An absent agent's action is a blank, the number
`actions`.
"""

import collections
import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

F64 = torch.float64


@dataclass(frozen=True, eq=False)
class Game:
    """A game. A context is what an agent knows, nothing at first, then its own first action.

    `table` has the rewards by joint action, (actions + 1,) * agents, blanks included. `second` has
    the rewards of a second turn, which is played where the first one earned nothing. A game of two
    turns has two agents.
    """

    name: str
    table: Tensor
    second: Tensor | None = None

    @property
    def agents(self) -> int:
        return self.table.ndim

    @property
    def actions(self) -> int:
        return len(self.table) - 1

    @property
    def start(self) -> tuple[int, ...]:
        """Return the agents' contexts at the first turn."""
        return tuple(range(self.agents))

    @property
    def contexts(self) -> int:
        if self.second is None:
            return self.agents
        return self.agents * (1 + self.actions)

    def later(self, joint: tuple) -> tuple[int, ...]:
        """Return the agents' contexts after a joint action."""
        return tuple(self.agents * (1 + action) + agent for agent, action in enumerate(joint))

    def goes_on(self, joint: tuple) -> bool:
        return self.second is not None and float(self.table[joint]) == 0

    def draws(self, samples: int) -> list[tuple]:
        """Return all ways to draw so many joint actions."""
        joints = itertools.product(range(self.actions), repeat=self.agents)
        return [*itertools.product(joints, repeat=samples)]

    def episodes(self) -> Iterator[list[tuple]]:
        """Yield every episode as its turns: (contexts, joint action, reward)."""
        for (joint,) in self.draws(1):
            first = (self.start, joint, self.table[joint])
            if not self.goes_on(joint):
                yield [first]
                continue
            for (then,) in self.draws(1):
                yield [first, (self.later(joint), then, self.second[then])]


def matrix(rows: list[list[float]]) -> Tensor:
    """Return a table of two agents, scaled to 0 to 1. With a blank it has what 0 is scaled to."""
    table = torch.zeros(len(rows) + 1, len(rows) + 1, dtype=F64)
    table[:-1, :-1] = torch.tensor(rows)
    return (table - table.min()) / (table.max() - table.min())


def trio() -> Tensor:
    """Return a table of three agents: all 0 earns most, all 1 earns .5 with any number of them."""
    table = torch.zeros(3, 3, 3, dtype=F64)
    for joint in itertools.product(range(3), repeat=3):
        present = [action for action in joint if action < 2]
        if present and not any(present):
            table[joint] = (0.0, 0.1, 0.4, 1.0)[len(present)]
        if present and all(present):
            table[joint] = 0.5
    return table


# The first two are Claus and Boutilier's (1998). In the third, agent 0's helper fits or does not,
# agent 1 calls it or works alone, and the rewards are about those of coop. In the last, a half
# right answer ends the episode at once.
GAMES = [
    Game("climbing", matrix([[11, -30, 0], [-30, 7, 6], [0, 0, 5]])),
    Game("penalty", matrix([[10, 0, -30], [0, 2, 0], [-30, 0, 10]])),
    Game(
        "alone pays",
        torch.tensor([[1, 0.625, 0], [0.375, 0.625, 0], [0.25, 0.625, 0]], dtype=F64),
    ),
    Game("three agents", trio()),
    Game(
        "two turns",
        torch.tensor([[0.5, 0, 0], [0, 0, 0], [0, 0, 0]], dtype=F64),
        torch.tensor([[0.3, 0], [0, 1]], dtype=F64),
    ),
]


# --------------------------------------------------------------------------------------------------
# What joint responses pay each agent: actions (n, J) -> (n, J)
# --------------------------------------------------------------------------------------------------


def earned(game: Game, actions: Tensor, present) -> Tensor:
    """Return the reward of joint actions, (J,), if only some agents are there."""
    rows = actions.clone()
    for agent in set(game.start) - set(present):
        rows[agent] = game.actions
    return game.table[tuple(rows)]


def shared(game: Game, actions: Tensor) -> Tensor:
    return earned(game, actions, game.start).expand(game.agents, -1)


def difference(game: Game, actions: Tensor) -> Tensor:
    without = [earned(game, actions, {*game.start} - {agent}) for agent in game.start]
    return shared(game, actions) - torch.stack(without)


def with_own_pay(game: Game, actions: Tensor) -> Tensor:
    alone = [earned(game, actions, {agent}) for agent in game.start]
    return shared(game, actions) + torch.stack(alone)


def coalitions(game: Game, agent: int) -> Iterator[tuple]:
    """Yield every coalition of the other agents, with its weight in the Shapley value."""
    others = [other for other in game.start if other != agent]
    for size in range(game.agents):
        for members in itertools.combinations(others, size):
            yield members, 1 / game.agents / math.comb(len(others), size)


def shapley(game: Game, actions: Tensor) -> Tensor:
    pay = torch.zeros(actions.shape, dtype=F64)
    for agent in game.start:
        for members, weight in coalitions(game, agent):
            joined = earned(game, actions, {*members, agent})
            pay[agent] += weight * (joined - earned(game, actions, members))
    return pay


def with_shapley(game: Game, actions: Tensor) -> Tensor:
    return shared(game, actions) + shapley(game, actions)


# Joint responses that are scored to pay one
SCORED = {
    shared: lambda agents: 1,
    difference: lambda agents: 1 + agents,
    with_own_pay: lambda agents: 1 + agents,
    shapley: lambda agents: 2**agents - 1,
    with_shapley: lambda agents: 2**agents - 1,
}


# --------------------------------------------------------------------------------------------------
# What a policy earns: (contexts, actions)
# --------------------------------------------------------------------------------------------------

Values = dict  # by what is known: the contexts of all agents, or that of one


def values_of(game: Game, policy: Tensor) -> Values:
    """Return the exact value of all that may be known. policy: (contexts, actions)."""
    mass: dict = collections.defaultdict(float)
    total: dict = collections.defaultdict(float)
    for episode in game.episodes():
        chance = math.prod(policy[contexts, joint].prod() for contexts, joint, _ in episode)
        to_go = 0.0
        for contexts, _, reward in reversed(episode):
            to_go += reward
            for known in (contexts, *contexts):
                mass[known] += chance
                total[known] += chance * to_go
    return {known: total[known] / mass[known] for known in mass}


def true_gradient(game: Game, policy: Tensor) -> Tensor:
    """Return the gradient of the expected reward by logits."""
    logits = policy.log().requires_grad_()
    reward = values_of(game, logits.softmax(-1))[game.start]
    [gradient] = torch.autograd.grad(reward, logits)
    return gradient


def random_policies(game: Game, count: int) -> Tensor:
    """Return policies that are uniform in the simplex."""
    draw = np.random.default_rng(0)
    size = (count, game.contexts)
    return torch.from_numpy(draw.dirichlet(np.ones(game.actions), size))
