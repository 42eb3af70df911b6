"""The equations against literals and exact enumeration: python -m pytest tests/test_equations.py

Enumeration: a game so small that every outcome of every sample can be listed. The mean of the
estimated gradient over all of them, weighted by probability, is then exact, and is compared with
autograd of the expected return.
"""

import collections
import itertools
import math

import pytest
import torch
from helpers import at_step, flags

import train
from magrpo import (
    EVAL,
    TRAIN,
    Node,
    advantages,
    agent_rewards,
    arrangement,
    back_up,
    generator,
    kl_loss,
    learning_rate_factor,
    policy_loss,
    sample_returns,
    step_problems,
    team_mean,
)
from policies.decoding import Response
from tasks import Task
from training import threads
from training.metrics import problem_returns
from training.reward_runner import Scorer

F64 = torch.float64


@pytest.fixture(autouse=True)
def one_thread(monkeypatch):
    """Let none of the thousands of rollouts start sixteen threads for its rewards."""
    monkeypatch.setattr(threads, "THREADS", 1)


def doubles(*values):
    return torch.tensor(values, dtype=F64)


@pytest.mark.parametrize(
    "mode, low, high",
    [
        ("mean", -0.5, 0.5),
        ("rloo", -2 / 3, 2 / 3),
        ("std", -0.5 / 0.5001, 0.5 / 0.5001),
        ("max", -1, 0),
        ("none", 0, 1),
    ],
)
def test_advantages_of_a_known_group(mode, low, high):
    """Two agents with returns of their own, and samples in another order."""
    returns = doubles([0, 0, 1, 1], [101, 100, 101, 100])
    want = doubles([low, low, high, high], [high, low, high, low])
    if mode == "none":
        want[1] += 100
    torch.testing.assert_close(advantages(returns, mode), want)


def test_a_choice_without_its_branch_trains_nothing():
    with pytest.raises(ValueError, match="no branch for 'median'"):
        advantages(doubles([0, 1]), "median")


@pytest.mark.parametrize("mode", ["mean", "rloo", "std", "max"])
@pytest.mark.parametrize("value", [0.0, 0.1, 1e6])
@pytest.mark.parametrize("group", [1, 3])
def test_equal_returns_have_exactly_no_advantage(mode, value, group):
    returns = torch.full((2, group), value, dtype=F64)
    assert torch.equal(advantages(returns, mode), torch.zeros(2, group, dtype=F64))


def test_the_division_by_the_deviation_has_no_constant_scale():
    """R is 1 with chance p, and else 0. The scale of the gradient is another where p is small."""
    group = 4
    scales = []
    for chance in (0.05, 0.5):
        estimate = 0.0
        for drawn in itertools.product((0.0, 1.0), repeat=group):
            scores = doubles(drawn) - chance  # of log p by the logit of p
            probability = math.prod(chance if passed else 1 - chance for passed in drawn)
            values = advantages(doubles(drawn), "std")
            estimate += probability * float((values * scores).mean())
        scales.append(estimate / (chance * (1 - chance)))  # over the true gradient
    rare, even = scales
    assert rare > 1.05 * even


@pytest.mark.parametrize("agents, group", [(1, 3), (2, 8), (3, 4), (3, 5), (4, 3), (6, 2)])
def test_every_response_is_in_as_many_joint_responses(agents, group):
    """Aligned and cross are the two ends. In between, no joint response comes twice."""
    everything = group ** (agents - 1)
    for count in range(1, everything + 1):
        joints = arrangement(agents, group, count)
        assert len(joints) == len({*map(tuple, joints.tolist())})
        for column in joints.T:
            assert column.bincount().tolist() == [count] * group
    aligned = [[sample] * agents for sample in range(group)]
    assert arrangement(agents, group, 1).tolist() == aligned
    cross = [list(joint) for joint in itertools.product(range(group), repeat=agents)]
    for count in (everything, math.inf):
        assert arrangement(agents, group, count).tolist() == cross


def meetings(agents, group, count):
    """How often each pair of samples meets, for each two agents."""
    joints = arrangement(agents, group, count)
    pairs = itertools.combinations(range(agents), 2)
    return [collections.Counter(map(tuple, joints[:, two].tolist())) for two in pairs]


@pytest.mark.parametrize(
    "agents, group, rounds",
    [(2, 8, 8), (3, 8, 4), (4, 8, 4), (3, 9, 9), (5, 5, 5), (6, 7, 7)],
)
def test_samples_that_met_meet_others_first(agents, group, rounds):
    """No two meet twice in so many rounds: K's default, 4, with G 8, and all G where the prime
    factors of G are large enough. In rounds of random order, a seventh of the meetings are lost."""
    for count in range(1, rounds + 1):
        assert {max(met.values()) for met in meetings(agents, group, count)} == {1}


def test_what_a_joint_response_pays_each_agent():
    parts = {"a": 1.0, "b": -0.25, "metric/c": 9.0, "agent/1": 0.5}
    rewards = agent_rewards(parts, 3)
    assert rewards == [0.75, 1.25, 0.75]
    assert float(team_mean(torch.tensor(rewards))) == pytest.approx(0.75 + 0.5 / 3)
    third = torch.full((3, 2), 1 / 3, dtype=F64)
    assert torch.equal(team_mean(third), third[0])  # exactly: not (x + x + x) / 3


# Games of two agents with three actions each, and of three with two.
REWARD = {
    2: doubles([1.0, -2.0, 0.5], [3.0, 0.0, -1.0], [0.2, 2.5, 1.5]),
    3: doubles([[1.0, -2.0], [0.5, 3.0]], [[0.0, -1.0], [0.2, 2.5]]),
}
LOGITS = {2: [[0.3, -0.5, 0.8], [-0.2, 0.9, 0.1]], 3: [[0.3, -0.5], [-0.2, 0.9], [0.8, 0.1]]}


def expected_gradient(count, mode, group, agents):
    """Return the expected estimate and the true gradient of each agent, by its logits.

    Every response is in `count` joint ones.
    """
    rewards = REWARD[agents]
    logits = [doubles(*values).requires_grad_() for values in LOGITS[agents]]
    logps = [values.log_softmax(-1) for values in logits]
    expected = 0.0
    for chosen in itertools.product(range(len(rewards)), repeat=agents):
        logp = sum(own[action] for own, action in zip(logps, chosen, strict=True))
        expected = expected + logp.exp() * rewards[chosen]
    losses = 0.0  # their gradient is the estimate's: each is weighted by its group's probability
    joints = arrangement(agents, group, count)
    samples = [*itertools.product(range(len(rewards)), repeat=group)]
    for drawn in itertools.product(samples, repeat=agents):
        node = Node(0, {}, (), [], {}, [], group, joints=joints)
        actions = torch.tensor(drawn)  # (n, G)
        node.rewards = rewards[tuple(actions.gather(1, joints.T))].expand(agents, -1)
        back_up([[node]], 1.0, 0.0)
        assert node.value == pytest.approx(float(node.rewards.mean()))
        picked = torch.stack([own[row] for own, row in zip(logps, actions, strict=True)])
        values = advantages(node.returns, mode) / group
        loss = policy_loss(
            picked.flatten()[:, None], torch.ones(agents * group, 1), values.flatten()
        )
        losses = losses + picked.sum().exp().detach() * loss
    got = torch.autograd.grad(-losses, logits, retain_graph=True)
    return got, torch.autograd.grad(expected, logits)


@pytest.mark.parametrize("agents, count", [(2, 1), (2, 2), (2, math.inf), (3, 2), (3, math.inf)])
@pytest.mark.parametrize("group", [2, 3])
@pytest.mark.parametrize("mode", ["mean", "rloo"])
def test_expected_gradient_is_the_true_gradient(agents, count, group, mode):
    """`mean` scales it by (G - 1) / G."""
    estimate, true = expected_gradient(count, mode, group, agents)
    scale = (group - 1) / group if mode == "mean" else 1.0
    for got, gradient in zip(estimate, true, strict=True):
        torch.testing.assert_close(got, scale * gradient, rtol=1e-9, atol=1e-9)


def test_the_baseline_max_works_against_the_best():
    """It follows E[R] - E[best of G] / G."""
    group = 3
    rewards = doubles(1.0, -2.0, 0.5)
    logits = doubles(0.3, -0.5, 0.8).requires_grad_()
    expected = 0.0
    objective = 0.0
    for drawn in itertools.product(range(3), repeat=group):
        returns = rewards[list(drawn)]
        logps = logits.log_softmax(-1)[list(drawn)]
        chance = logps.sum().exp()
        expected = expected + chance * (returns.mean() - returns.max() / group)
        values = advantages(returns, "max") / group
        loss = policy_loss(logps[:, None], torch.ones(group, 1), values)
        objective = objective - chance.detach() * loss
    [want] = torch.autograd.grad(expected, logits, retain_graph=True)
    [got] = torch.autograd.grad(objective, logits)
    torch.testing.assert_close(got, want)


@pytest.mark.parametrize("agents, count", [(1, 1), (2, 1), (2, math.inf), (3, 2), (4, 5)])
@pytest.mark.parametrize("optimism", [0.0, 0.3, 1.0])
def test_a_return_lies_between_the_mean_and_the_best_of_its_own_joint_responses(
    agents, count, optimism
):
    """Each agent has rewards of its own, and the joint responses come in any order."""
    random = torch.Generator().manual_seed(0)
    joints = arrangement(agents, 3, count)
    joints = joints[torch.randperm(len(joints), generator=random)]
    rewards = torch.randn(agents, len(joints), dtype=F64, generator=random)
    future = torch.randn(agents, 3, dtype=F64, generator=random)
    returns = sample_returns(rewards, joints, future, optimism)
    for agent, sample in itertools.product(range(agents), range(3)):
        scored = zip(joints.tolist(), rewards[agent].tolist(), strict=True)
        earned = [reward for joint, reward in scored if joint[agent] == sample]
        mean = sum(earned) / len(earned)
        want = (1 - optimism) * mean + optimism * max(earned) + float(future[agent, sample])
        assert float(returns[agent, sample]) == pytest.approx(want)


class Game(Task):
    """Two agents, two actions, two turns. Agent 0 acts at both turns, knowing its first action;
    agent 1 chooses at turn 0 only. Samples come from a script, so that all can be listed."""

    size = 2
    context = math.inf
    first_reward = ((1.0, -1.0), (0.5, 2.0))  # by both agents' actions
    first_own = ((0.5, -1.0), (2.0, 0.0))  # what agent 0 earns alone
    second_reward = (0.0, 3.0)  # by agent 0's action

    def __init__(self, silent, ends):
        self.script = iter(())
        self.silent = silent  # whether agent 1 does not speak at turn 1
        self.ends = ends  # whether agent 0's action 1 ends the episode
        self.codec = self
        self.base_of = {0: self, 1: self}
        self.bases = [self]
        self.num_agents = 2

    def end_at(self, text):
        assert text == ""

    def play(self, item):
        texts = yield {0: "0:", 1: "1:"}
        yield texts
        if self.is_over(texts):
            return
        prompts = {agent: f"{agent}:{text}" for agent, text in enumerate(texts)}
        if self.silent:
            del prompts[1]
        texts = yield prompts
        yield texts

    def is_over(self, texts):
        return self.ends and texts[0] == "21"

    def encode(self, text, chat, limit, room, begun):
        return tuple(text.encode())

    def sample(self, asks, uniforms, sampling):
        answers = []
        for agent, prompt, _ in asks:
            responses = []
            for _ in range(uniforms.shape[1]):
                action = next(self.script) if agent == 0 or len(prompt) == 2 else 0
                text = f"{len(prompt)}{action}"
                responses.append(Response([action], text, [0.0], 0.0, True))
            answers.append(responses)
        return answers

    def reward(self, item, texts):
        length, action = texts[0]
        assert (texts[1] == "") == (self.silent and length != "2")
        if length == "2":
            actions = int(action), int(texts[1][1])
            shared = self.first_reward[actions[0]][actions[1]]
            return {"reward": shared, "agent/0": self.first_own[actions[0]][actions[1]]}
        return {"reward": self.second_reward[int(action)]}

    reward.maximum = 9.0


class Once(Game):
    """An episode ends where both agents' actions are 1, and else at turn 1. Only its end is scored,
    so at turn 0 some joint responses are and some are not."""

    per_episode = True

    def play(self, item):
        texts = yield {0: "0:", 1: "1:"}
        if not self.is_over(texts):
            texts = yield {agent: f"{agent}:{text}" for agent, text in enumerate(texts)}
        return texts

    def is_over(self, texts):
        return texts == ["21", "21"]


def true_two_turn_gradient(logits, gamma, game):
    """By agent 0's logit at turn 0, agent 1's, and agent 0's at turn 1 after either action. Agent 1
    does not follow what agent 0 earns alone."""
    chances = torch.stack([1 - logits.sigmoid(), logits.sigmoid()], 1)  # (4, 2)
    over = doubles(*([game.is_over([f"2{a}", f"2{b}"]) for b in (0, 1)] for a in (0, 1)))
    scored = over if game.per_episode else torch.ones(2, 2)
    now = chances[0] @ (scored * doubles(*Game.first_reward)) @ chances[1]
    now = now + chances[0] @ (scored * doubles(*Game.first_own)) @ chances[1].detach()
    going_on = chances[0] * ((1 - over) @ chances[1])
    later = going_on @ (chances[2:] @ doubles(*Game.second_reward))
    discount = 1.0 if game.per_episode else gamma
    (true,) = torch.autograd.grad(now + discount * later, logits)
    if discount:  # each turn's own return counts undiscounted from that turn on (Eq. 2)
        true = torch.cat([true[:2], true[2:] / discount])
    return true


def module_of(game, joint, branching="tree", advantage="mean", **changes):
    """A module of two samples and one problem a step."""
    args = flags("--turns 2 --num-generations 2 --batch-size 1 --max-new-tokens 1 --optimism 0")
    options = {"joint": joint, "branching": branching, "advantage": advantage, **changes}
    vars(args).update(options)
    return train.module_of(game, game, Scorer(game.reward), [{}], args)


def two_turn_gradient(branching, joint, mode, gamma=1.0, silent=False, ends=False, kind=Game):
    """Return the expected estimate and the true gradient."""
    logits = doubles(0.4, -0.3, 0.7, -0.6).requires_grad_()
    logps = torch.stack([-logits, logits], 1).sigmoid().log()  # (4, 2)
    game = kind(silent, ends)
    module = module_of(game, joint, branching, mode, gamma=gamma)
    objectives = 0.0
    for script in itertools.product((0, 1), repeat=8 if branching == "tree" else 6):
        game.script = iter(script)
        with at_step(0):
            module.turns = module.play(1)
        module.set_advantages()
        objective = log_probability = 0.0
        for row in module.rows():
            text = bytes(row.prompt).decode()
            if row.agent == 1 and len(text) > 2:
                assert not silent
                continue  # acts without a choice
            place = row.agent if len(text) == 2 else 2 + int(text[-1])
            logp = logps[place, row.tokens[0]]
            log_probability = log_probability + logp
            objective = objective + row.coef * logp
        unused = 2 ** len([*game.script])  # scripts that differ in what was not sampled
        objectives = objectives + log_probability.exp().detach() * objective / unused
    (estimate,) = torch.autograd.grad(objectives, logits)
    return estimate, true_two_turn_gradient(logits, gamma, game)


@pytest.mark.parametrize("branching", ["tree", "chain"])
@pytest.mark.parametrize("joint", ["aligned", "cross"])
@pytest.mark.parametrize(
    "mode, gamma, silent",
    [("mean", 1.0, False), ("rloo", 1.0, False), ("rloo", 0.5, True), ("rloo", 0.0, False)],
)
def test_two_turns_estimate_the_true_gradient(branching, joint, mode, gamma, silent):
    got, true = two_turn_gradient(branching, joint, mode, gamma, silent)
    seen = slice(0, 4 if gamma else 2)
    scale = 0.5 if mode == "mean" else 1.0
    torch.testing.assert_close(got[seen], scale * true[seen], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("branching", ["tree", "chain"])
def test_an_episode_that_ends_early_estimates_the_true_gradient(branching):
    got, true = two_turn_gradient(branching, "cross", "rloo", ends=True)
    assert bool(true[2])
    torch.testing.assert_close(got, true, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("branching", ["tree", "chain"])
@pytest.mark.parametrize("joint", ["aligned", "cross"])
def test_an_episode_that_only_its_end_pays_estimates_the_true_gradient(branching, joint):
    """Gamma discounts nothing: the turn before the second is not scored where there is one."""
    got, true = two_turn_gradient(branching, joint, "rloo", gamma=0.5, kind=Once)
    assert bool(true[1])
    torch.testing.assert_close(got, true, rtol=1e-9, atol=1e-9)


class Told(Game):
    """At turn 1 agent 0 fits one of its partner's two answers, or none."""

    def encode(self, text, chat, limit, room, begun):
        return (0, 0)  # so that both agents act at both turns

    def reward(self, item, texts):
        return {"reward": float(texts[0][1] == texts[1][1])}

    reward.maximum = 1.0


@pytest.mark.parametrize("joint", ["aligned", "cross"])
def test_optimism_is_of_the_last_turn_and_of_the_step_and_changes_no_value(joint):
    def nodes(optimism, step):
        game = Told(silent=False, ends=False)
        game.script = itertools.cycle([0, 1, 1])
        module = module_of(game, joint, optimism=optimism, max_steps=4)
        with at_step(step):
            return [*itertools.chain(*module.play(1))]

    for step, weight in enumerate((0.8, 0.4, 0.0, 0.0)):
        for plain, optimistic in zip(nodes(0.0, step), nodes(0.8, step), strict=True):
            assert plain.value == optimistic.value
            spread = torch.zeros_like(plain.returns)
            if joint == "cross" and plain.history:
                table = plain.rewards.reshape(2, 2, 2)
                spread[0] = table[0].amax(1) - table[0].mean(1)
                spread[1] = table[1].amax(0) - table[1].mean(0)
                assert spread.any()
            torch.testing.assert_close(optimistic.returns, plain.returns + weight * spread)


class Solved(Game):
    """An episode pays 1, at the turn that solves it. Agent 0's action 0 solves it at once, its
    action 1 if agent 1's is 1, and every response does at turn 1."""

    per_episode = True

    def is_over(self, texts):
        return texts[0][0] != "2" or texts[0][1] == "0" or texts[1][1] == "1"

    def reward(self, item, texts):
        return {"reward": float(self.is_over(texts))}

    reward.maximum = 1.0


@pytest.mark.parametrize("branching", ["tree", "chain"])
@pytest.mark.parametrize("optimism", [0.0, 1.0])
def test_a_response_that_delays_what_an_episode_pays_gains_nothing(branching, optimism):
    """Over agent 1's draws, both actions return 1. A maximum over all joint responses of turn 0
    would return 1.5 for action 1 (its best reward is 1, and a line that goes on pays again). One
    that is taken only where no line went on would return 1.125: the draw decides where that is."""
    mean = torch.zeros(2, dtype=F64)
    largest = 0.0
    for draw in itertools.product((0, 1), repeat=2):
        game = Solved(silent=False, ends=True)
        game.script = itertools.chain([0, 1, *draw], itertools.repeat(0))
        module = module_of(game, "cross", branching, optimism=optimism, max_steps=2)
        with at_step(0):
            turns = module.play(1)
        mean += turns[0][0].returns[0] / 4
        largest = max(largest, *problem_returns(turns, module.rollout))
    assert mean.tolist() == [1.0, 1.0]
    assert largest > 1, "a mean over unlike joint responses, which is not refused"


def test_kl_gradient_is_that_of_each_token_given_those_before_it():
    """All nine responses of two tokens, of three kinds: the second's logits depend on the first."""
    random = torch.Generator().manual_seed(0)
    tables = torch.randn(2, 4, 3, dtype=F64, generator=random)  # first token, and after each
    logits = tables[0].requires_grad_()
    logps = logits.log_softmax(-1)
    reference = tables[1].log_softmax(-1)
    divergences = (logps.exp() * (logps - reference)).sum(-1)  # (4,)
    by_token = divergences[0] + logps[0].exp().detach() @ divergences[1:]
    (want,) = torch.autograd.grad(by_token, logits, retain_graph=True)
    first, second = torch.cartesian_prod(torch.arange(3), torch.arange(3)).T

    def of_responses(table):
        return torch.stack([table[0, first], table[1 + first, second]], 1)  # (9, 2)

    own = of_responses(logps)
    weight = own.sum(1).exp().detach()  # each response's probability: the expectation
    loss = kl_loss(own, of_responses(reference), torch.ones(9, 2), weight)
    (got,) = torch.autograd.grad(loss, logits)
    torch.testing.assert_close(got, want)
    assert kl_loss(own, own, torch.ones(9, 2), weight).detach() == 0


def test_learning_rate_schedules():
    factor = learning_rate_factor
    assert [factor(s, "constant", 4, 9) for s in range(6)] == [0.25, 0.5, 0.75, 1, 1, 1]
    for kind, drop in (("linear", 0.3), ("cosine", (1 - math.cos(0.3 * math.pi)) / 2)):
        factors = [factor(step, kind, 0, 10) for step in (0, 3, 10)]
        assert factors == pytest.approx([1, 1 - 0.9 * drop, 0.1])


def test_problem_order_is_a_function_of_the_step():
    order = step_problems(0, 30, 10, seed=3)
    assert sorted(order[:10]) == sorted(order[10:20]) == list(range(10))
    assert order[:10] != order[10:20]
    assert step_problems(3, 4, 10, seed=3) == order[12:16]
    assert step_problems(0, 10, 10, seed=4) != order[:10]
    for epoch, stream in itertools.product((0, 1), (TRAIN, EVAL)):  # numpy adds the zeros
        other = generator(3, stream, 0, 0).permutation(10).tolist()
        assert step_problems(epoch, 10, 10, seed=3) != other
