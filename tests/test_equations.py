"""The equations against literals and exact enumeration: python -m pytest tests/test_equations.py

Enumeration: a game so small that every outcome of every sample can be listed. The mean of the
estimated gradient over all of them, weighted by probability, is then exact, and is compared with
autograd of the expected return.
"""

import collections
import itertools
import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from helpers import flags

from magrpo import (
    EVAL,
    MAGRPO,
    TRAIN,
    Algorithm,
    Episode,
    Rollout,
    advantages,
    agent_rewards,
    arrangement,
    clipped_loss,
    generator,
    kl_loss,
    learning_rate_factor,
    policy_loss,
    problem_numbers,
    sample_returns,
    team_mean,
)
from policies.decoding import Response
from tasks import Task
from training.flags import part_of
from training.metrics import influences
from training.scoring import Scorer

torch.set_default_dtype(torch.float32)
F64 = torch.float64


@pytest.mark.parametrize(
    ("mode", "want"),
    [
        ("mean", [-0.5, -0.5, 0.5, 0.5]),
        ("rloo", [-2 / 3, -2 / 3, 2 / 3, 2 / 3]),
        ("std", [-0.5 / 0.5001, -0.5 / 0.5001, 0.5 / 0.5001, 0.5 / 0.5001]),
        ("max", [-1, -1, 0, 0]),
        ("none", [0, 0, 1, 1]),
    ],
)
def test_advantages_of_a_known_group(mode, want):
    returns = torch.tensor([0.0, 0, 1, 1], dtype=F64)
    got = advantages(returns, mode)
    torch.testing.assert_close(got, torch.tensor(want, dtype=F64))
    if mode != "none":
        torch.testing.assert_close(advantages(returns + 100, mode), got)  # shift invariance
        assert abs(float(got.sum())) < 1e-12 or mode == "max"
    order = torch.tensor([2, 0, 3, 1])
    torch.testing.assert_close(advantages(returns[order], mode), got[order])


@pytest.mark.parametrize("mode", ["mean", "rloo", "std", "max"])
@pytest.mark.parametrize("value", [0.0, 0.1, 1 / 3, 1e6])
@pytest.mark.parametrize("group", [1, 3, 8])
def test_equal_returns_have_exactly_no_advantage(mode, value, group):
    got = advantages(torch.full((2, group), value, dtype=F64), mode)
    assert torch.equal(got, torch.zeros(2, group, dtype=F64))


def test_an_agents_own_terms_leave_the_others_alone():
    returns = torch.tensor([[0.0, 1, 2], [5, 3, 4]], dtype=F64)
    shifted = returns + torch.tensor([[0.0], [100]], dtype=F64)
    torch.testing.assert_close(advantages(shifted, "mean"), advantages(returns, "mean"))


@pytest.mark.parametrize(
    ("agents", "group"), [(1, 3), (2, 8), (2, 3), (3, 4), (3, 5), (4, 3), (6, 2)]
)
def test_every_response_is_in_as_many_joint_responses(agents, group):
    """Aligned and cross are the two ends; in between no joint response comes twice."""
    everything = group ** (agents - 1)
    for count in range(1, everything + 1):
        joints = arrangement(agents, group, count)
        assert len(joints) == group * count == len(set(map(tuple, joints.tolist())))
        assert all(of.bincount().tolist() == [count] * group for of in joints.T)
    aligned = [[sample] * agents for sample in range(group)]
    assert arrangement(agents, group, 1).tolist() == aligned
    cross = [list(joint) for joint in itertools.product(range(group), repeat=agents)]
    assert arrangement(agents, group, everything).tolist() == cross
    assert arrangement(agents, group, math.inf).tolist() == cross


def test_the_docstrings_example():
    assert "".join(map(str, arrangement(3, 3, 2).flatten().tolist())) == "000012111120201222"


def meetings(agents: int, group: int, count: int) -> list[collections.Counter]:
    """How often each pair of samples meets, for each two agents."""
    joints = arrangement(agents, group, count)
    pairs = itertools.combinations(range(agents), 2)
    return [collections.Counter(map(tuple, joints[:, two].tolist())) for two in pairs]


@pytest.mark.parametrize(
    ("agents", "group", "rounds"),
    [(2, 8, 8), (4, 8, 4), (3, 5, 5), (3, 9, 9), (4, 7, 7), (5, 5, 5), (6, 7, 7)],
)
def test_samples_that_met_meet_others_first(agents, group, rounds):
    """Latin: no two meet twice in so many rounds, all G of them where the prime factors of G are
    large enough."""
    for count in range(1, rounds + 1):
        assert all(max(met.values()) == 1 for met in meetings(agents, group, count))


def test_samples_of_four_agents_meet_twice_half_as_often_as_by_chance():
    assert all(len(met) >= 0.7 * 8 * 8 for met in meetings(4, 8, 8))


@pytest.mark.parametrize("group", range(2, 8))
def test_samples_of_three_agents_meet_again_as_late_as_shifts_allow(group):
    """Every choice of the third agent's shifts beside the second's 0, 1, ..., G - 1: the rounds in
    which the two differ by as many shifts are the most that there can be."""
    choices = itertools.permutations(range(group))
    best = max(len({(b - a) % group for a, b in enumerate(choice)}) for choice in choices)
    for count in range(1, best + 1):
        assert all(max(met.values()) == 1 for met in meetings(3, group, count))


def test_returns_are_means_over_partners():
    future = torch.tensor([[10.0, 20.0], [1.0, 2.0], [0.0, 4.0]], dtype=F64)
    for count in range(1, 5):
        joints = arrangement(3, 2, count)
        pay = torch.arange(3 * len(joints), dtype=F64).reshape(3, -1) ** 2  # three agents, G = 2
        got = sample_returns(pay, joints, future, 0.5)
        for agent, sample in itertools.product(range(3), range(2)):
            own = [float(pay[agent, n]) for n, j in enumerate(joints) if j[agent] == sample]
            want = sum(own) / count + 0.5 * float(future[agent, sample])
            assert float(got[agent, sample]) == pytest.approx(want, rel=1e-15)
    aligned = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], dtype=F64)
    want = [[6.0, 12.0], [3.5, 5.0], [5.0, 8.0]]
    assert sample_returns(aligned, arrangement(3, 2, 1), future, 0.5).tolist() == want


def test_what_a_joint_response_pays_each_agent():
    parts = {"a": 1.0, "b": -0.25, "metric/c": 9.0, "agent/1": 0.5}
    assert agent_rewards(parts, 3) == [0.75, 1.25, 0.75]
    assert float(team_mean(torch.tensor(agent_rewards(parts, 3)))) == pytest.approx(0.75 + 0.5 / 3)
    third = torch.full((3, 2), 1 / 3, dtype=F64)
    assert torch.equal(team_mean(third), third[0])  # exactly: not (x + x + x) / 3


# Games of two agents with three actions each, and of three with two.
REWARD = {
    2: torch.tensor([[1.0, -2.0, 0.5], [3.0, 0.0, -1.0], [0.2, 2.5, 1.5]], dtype=F64),
    3: torch.tensor([[[1.0, -2.0], [0.5, 3.0]], [[0.0, -1.0], [0.2, 2.5]]], dtype=F64),
}
LOGITS = {2: ([0.3, -0.5, 0.8], [-0.2, 0.9, 0.1]), 3: ([0.3, -0.5], [-0.2, 0.9], [0.8, 0.1])}
ENDS = {"aligned": 1, "cross": math.inf}


def expected_gradient(count: float, mode: str, group: int, agents: int = 2):
    """Expected estimate, true gradient, and gradient of the expected best of a group's returns, of
    each agent's by its own parameters; every response in `count` joint responses."""
    logits = [torch.tensor(values, dtype=F64, requires_grad=True) for values in LOGITS[agents]]
    logps = [values.log_softmax(-1) for values in logits]
    objective = sum(
        torch.stack([p[a] for p, a in zip(logps, chosen, strict=True)]).sum().exp()
        * REWARD[agents][chosen]
        for chosen in itertools.product(*map(range, REWARD[agents].shape))
    )
    true = torch.cat(torch.autograd.grad(objective, logits, retain_graph=True))
    total, of_best = torch.zeros(6, dtype=F64), torch.zeros(6, dtype=F64)
    none, joints = torch.zeros(agents, group, dtype=F64), arrangement(agents, group, count)
    samples = itertools.product(range(len(REWARD[agents])), repeat=group)
    for actions in itertools.product(list(samples), repeat=agents):
        picked = [p[list(a)] for p, a in zip(logps, actions, strict=True)]  # (G,) each
        probability = sum(p.sum() for p in picked).exp().detach()
        chosen = [torch.tensor(a)[of] for a, of in zip(actions, joints.T, strict=True)]
        returns = sample_returns(REWARD[agents][chosen].expand(agents, -1), joints, none, 1.0)
        values = advantages(returns, mode) / group
        loss = sum(
            policy_loss(p[:, None], torch.ones(group, 1), a)
            for p, a in zip(picked, values, strict=True)
        )
        gradient = torch.cat(torch.autograd.grad(-loss, logits, retain_graph=True))
        total += probability * gradient
        best = sum(p.sum() * r.max() for p, r in zip(picked, returns, strict=True))
        of_best += probability * torch.cat(torch.autograd.grad(best, logits, retain_graph=True))
    return total, true, of_best


def expected_ratio(*how) -> torch.Tensor:
    total, true, _ = expected_gradient(*how)
    return total / true


@pytest.mark.parametrize("joint", ["aligned", "cross"])
@pytest.mark.parametrize("group", [2, 3])
def test_the_best_as_baseline_is_biased_against_the_best(joint, group):
    """It depends on the sample that it is taken from, as the mean does, but not by a constant
    factor: what is followed is the gradient of E[R] - E[best of G] / G."""
    total, true, of_best = expected_gradient(ENDS[joint], "max", group)
    torch.testing.assert_close(total, true - of_best / group, rtol=1e-9, atol=1e-9)
    ratio = total / true
    assert float(ratio.max() - ratio.min()) > 1  # no learning rate could mend that
    assert joint == "aligned" or float(ratio.min()) < 0  # it may even point the other way


@pytest.mark.parametrize(
    ("agents", "count"), [(2, 1), (2, 2), (2, math.inf), (3, 2), (3, math.inf)]
)
@pytest.mark.parametrize("group", [2, 3])
@pytest.mark.parametrize("mode", ["mean", "rloo", "none"])
def test_expected_gradient_is_the_true_gradient(agents, count, mode, group):
    want = (group - 1) / group if mode == "mean" else 1.0
    ratio = expected_ratio(count, mode, group, agents)
    torch.testing.assert_close(ratio, torch.full((6,), want, dtype=F64), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("joint", ["aligned", "cross"])
def test_dividing_by_the_deviation_is_biased(joint):
    ratio = expected_ratio(ENDS[joint], "std", 3)
    assert float(ratio.max() - ratio.min()) > 0.2  # no learning rate could mend that


class Game(Task):
    """Two agents, two actions, two turns. Agent 0 acts at both turns, knowing its first action;
    agent 1 chooses at turn 0 only. Samples come from a script, so that all can be listed."""

    size, context = 2, math.inf
    reward_of = (
        [[1.0, -1.0], [0.5, 2.0]],
        [0.0, 3.0],
    )  # turn 0 by both, turn 1 by agent 0 + memory

    def __init__(self, silent: bool):
        self.script, self.silent = iter(()), silent  # whether agent 1 does not speak at turn 1
        self.base_of = {0: self, 1: self}

    def end_at(self, text):
        assert text == ""

    def speakers(self, item, turn):
        return [0] if turn and self.silent else None

    def encode(self, text, chat, limit, room):
        return tuple(text.encode())

    def observe(self, agent, item, history):
        return f"{agent}:{history[0][0] if history else ''}"

    def feedback(self, item, responses):
        return ["", ""]

    def sample(self, prompts, uniforms, sampling):
        answers = []
        for agent, prompt in prompts:
            chooses = agent == 0 or len(prompt) == 2
            picks = [next(self.script) if chooses else 0 for _ in range(uniforms.shape[1])]
            answers.append([Response([p], f"{len(prompt)}{p}", [0.0], 0.0, True) for p in picks])
        return answers

    def reward(self, item, texts):
        turn, first = texts[0]
        assert (texts[1] == "") == (self.silent and turn != "2")
        if turn == "2":
            return self.reward_of[0][int(first)][int(texts[1][1])]
        return self.reward_of[1][int(first)]

    reward.maximum = 3.0


def two_turn_gradient(branching: str, joint: str, mode: str, gamma: float, silent=False):
    """(expected estimate, true gradient) of agent 0 turn 0, agent 1, agent 0 turn 1 (two)."""
    args = flags(
        *("--num-generations", "2", "--batch-size", "1", "--turns", "2"),
        *("--branching", branching, "--joint", joint, "--advantage", mode, "--gamma", str(gamma)),
    )
    logits = torch.tensor([0.4, -0.3, 0.7, -0.6], dtype=F64, requires_grad=True)
    ones = logits.sigmoid()  # probability of action 1: agent 0; agent 1; agent 0 after "20", "21"
    r0, r1 = (torch.tensor(r, dtype=F64) for r in Game.reward_of)
    first, second = torch.stack([1 - ones[0], ones[0]]), torch.stack([1 - ones[1], ones[1]])
    later = torch.stack([(1 - ones[2 + a]) * r1[0] + ones[2 + a] * r1[1] for a in range(2)])
    now = (first[:, None] * second[None] * r0).sum()
    (true,) = torch.autograd.grad(now + gamma * (first * later).sum(), logits, retain_graph=True)
    if gamma:  # each turn's own return counts undiscounted from that turn on (Eq. 2)
        true = torch.cat([true[:2], true[2:] / gamma])
    game = Game(silent)
    module = MAGRPO.__new__(MAGRPO)
    torch.nn.Module.__init__(module)
    object.__setattr__(module, "algorithm", part_of(args, Algorithm))
    object.__setattr__(module, "team", game)
    rollout = Rollout(game, game, Scorer(game.reward), part_of(args, Episode))
    total = torch.zeros(4, dtype=F64)
    later_choices = 4 if branching == "tree" else 2
    for script in itertools.product((0, 1), repeat=4 + later_choices):
        game.script = iter(script)
        turns = rollout(
            [{}], (0, TRAIN, 0, 0), 2, args_sampling(), ENDS[joint], branching == "chain"
        )
        object.__setattr__(module, "turns", turns)
        module.set_advantages()
        probability, objective = torch.ones((), dtype=F64), torch.zeros((), dtype=F64)
        for row in module.rows():
            text = bytes(row.prompt).decode()
            if row.agent == 1 and len(text) > 2:
                assert not silent
                continue  # acts without a choice
            place = row.agent if len(text) == 2 else 2 + int(text[-1])
            p = ones[place] if row.tokens[0] else 1 - ones[place]
            probability = probability * p
            objective = objective + row.coef * p.log()
        (gradient,) = torch.autograd.grad(objective, logits, retain_graph=True)
        total += probability.detach() * gradient
    return total, true


def args_sampling():
    from policies.sampling import Sampling

    return Sampling(1.0, 0, 1.0, 1)


@pytest.mark.parametrize("branching", ["tree", "chain"])
@pytest.mark.parametrize("joint", ["aligned", "cross"])
@pytest.mark.parametrize(
    ("mode", "scale", "silent"), [("mean", 0.5, False), ("rloo", 1.0, False), ("rloo", 1.0, True)]
)
def test_two_turns_estimate_the_true_gradient(branching, joint, mode, scale, silent):
    got, true = two_turn_gradient(branching, joint, mode, 1.0, silent)
    torch.testing.assert_close(got, scale * true, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("gamma", [0.0, 0.5])
def test_gamma_weighs_the_next_turn(gamma):
    got, true = two_turn_gradient("tree", "aligned", "rloo", gamma)
    seen = slice(0, 4 if gamma else 2)
    torch.testing.assert_close(got[seen], true[seen], rtol=1e-9, atol=1e-9)


def test_policy_loss_is_reinforce():
    logps = torch.tensor([[-1.0, -2.0, -4.0], [-0.5, -8.0, -8.0]], requires_grad=True)
    mask = torch.tensor([[1, 1, 1], [1, 0, 0]])
    loss = policy_loss(logps, mask, torch.tensor([0.5, -2.0]))
    assert float(loss) == -(0.5 * -7.0 + -2.0 * -0.5)
    loss.backward()
    assert logps.grad.tolist() == [[-0.5, -0.5, -0.5], [2.0, 0.0, 0.0]]  # padding has no gradient


def test_the_clipped_loss_is_that_of_the_ratio():
    """By enumeration: over what the old policy samples, the gradient is that of E[A] under the new
    one; and of one token, none where the ratio is beyond its bound and would go on from it."""
    logits = torch.tensor([0.3, -1.0, 0.6], dtype=F64, requires_grad=True)
    old = torch.tensor([1.0, 0.2, -0.4], dtype=F64).log_softmax(-1)
    worth, ones = torch.tensor([1.0, -2.0, 0.5], dtype=F64), torch.ones(3, 1, dtype=F64)
    logps = logits.log_softmax(-1)
    (want,) = torch.autograd.grad(-(logps.exp() * worth).sum(), logits, retain_graph=True)
    loss = clipped_loss(logps[:, None], old[:, None], ones, worth * old.exp(), (1.0, 99.0))
    (got,) = torch.autograd.grad(loss, logits)
    torch.testing.assert_close(got, want)
    for ratio, coef, slope in [(1.3, 1, 0), (1.3, -1, 1.3), (0.7, 1, -0.7), (0.7, -1, 0)]:
        token = torch.tensor([[math.log(ratio)]], requires_grad=True)
        clipped_loss(
            token, torch.zeros(1, 1), torch.ones(1, 1), torch.tensor([coef]), (0.2, 0.2)
        ).backward()
        assert float(token.grad) == pytest.approx(slope)


def test_kl_gradient_is_that_of_each_token_given_those_before_it():
    """All nine responses of two tokens, of three kinds: the second's logits depend on the first."""
    random = torch.Generator().manual_seed(0)
    logits = torch.randn(
        4, 3, dtype=F64, generator=random
    ).requires_grad_()  # first, and after each
    reference = torch.randn(4, 3, dtype=F64, generator=random).log_softmax(-1)
    logps = logits.log_softmax(-1)
    divergences = (logps.exp() * (logps - reference)).sum(-1)  # (4,), of each distribution
    by_token = divergences[0] + logps[0].exp().detach() @ divergences[1:]
    (want,) = torch.autograd.grad(by_token, logits, retain_graph=True)
    first, second = torch.cartesian_prod(torch.arange(3), torch.arange(3)).T
    found, frozen = (
        torch.stack([table[0, first], table[1 + first, second]], 1) for table in (logps, reference)
    )
    weight = found.sum(1).exp().detach()  # each response's probability: the expectation
    loss = kl_loss(found, frozen, torch.ones(9, 2), weight)
    (got,) = torch.autograd.grad(loss, logits, retain_graph=True)
    torch.testing.assert_close(got, want)
    whole = divergences[0] + logps[0].exp() @ divergences[1:]
    (other,) = torch.autograd.grad(whole, logits)
    torch.testing.assert_close(got[1:], other[1:])  # the last token's
    assert (got[0] - other[0]).abs().max() > 0.01  # its effect on the second's KL
    assert float(kl_loss(frozen, frozen, torch.ones(9, 2), weight)) == 0


def test_learning_rate_schedules():
    factor = learning_rate_factor
    assert [factor(s, "constant", 4, 9) for s in range(6)] == [0.25, 0.5, 0.75, 1, 1, 1]
    for kind, share in (("linear", 0.3), ("cosine", (1 - math.cos(0.3 * math.pi)) / 2)):
        found = [factor(s, kind, 0, 10) for s in (0, 3, 10)]
        assert found == pytest.approx([1, 1 - 0.9 * share, 0.1])


def test_problem_order_is_a_function_of_the_position():
    order = problem_numbers(0, 30, 10, seed=3)
    assert sorted(order[:10]) == sorted(order[10:20]) == list(range(10))
    assert order[:10] != order[10:20]
    assert problem_numbers(7, 5, 10, seed=3) == order[7:12]
    assert problem_numbers(0, 10, 10, seed=4) != order[:10]
    for epoch, stream in itertools.product((0, 1), (TRAIN, EVAL)):  # numpy adds the zeros
        node = generator(3, stream, 0, 0).permutation(10).tolist()
        assert problem_numbers(10 * epoch, 10, 10, seed=3) != node


# --- who mattered: the analysis of variance -------------------------------------------------------


def table_node(table):
    """A node whose joint responses are all pairs, in another order than the table's."""
    group = len(table)
    joints = torch.tensor(list(itertools.product(range(group), repeat=2))).flip(0)
    rewards = torch.tensor([table[i][j] for i, j in joints.tolist()])
    return SimpleNamespace(samples=group, joints=joints, team_rewards=rewards)


def test_influences_are_unbiased():
    """Agents of three actions each; every draw of G = 2 samples with its probability."""
    pay = np.array([[0.0, 1.0, 4.0], [2.0, -1.0, 0.5], [0.0, 3.0, 1.0]])
    chances = np.array([[0.2, 0.5, 0.3], [0.6, 0.3, 0.1]])
    means = pay @ chances[1], pay.T @ chances[0]
    mean = chances[0] @ means[0]
    want = [float(chances[i] @ (means[i] - mean) ** 2) for i in (0, 1)]
    total = float(chances[0] @ (pay - mean) ** 2 @ chances[1])
    want.append(total - sum(want))
    found = np.zeros(3)
    for draw in itertools.product(range(3), repeat=4):
        rows, columns = draw[:2], draw[2:]
        chance = np.prod(chances[0][list(rows)]) * np.prod(chances[1][list(columns)])
        node = table_node(pay[np.ix_(rows, columns)].tolist())
        found += chance * np.array(list(influences([node]).values()))
    assert found == pytest.approx(want)
