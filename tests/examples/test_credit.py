"""Credit by enumeration: python -m pytest tests/examples/test_credit.py"""

import itertools
import random
import statistics

import pytest
import torch
from helpers import write_run

from examples.credit import exact, facts, strangers, trap
from examples.credit.exact import ONE_TURN, G
from examples.credit.games import GAMES, SCORED, Game, random_policies
from rewards import code, total


@pytest.mark.parametrize("fact", facts.FACTS, ids=lambda fact: fact.__name__)
def test_a_fact_holds_over_every_outcome(fact):
    fact()


def test_the_columns_of_a_coin(monkeypatch):
    """Two samples of one agent, whose first action pays 1 and has chance p. They differ with chance
    2pq, and then the estimate is (1/4, -1/4)."""
    monkeypatch.setattr(exact, "G", 2)
    coin = Game("coin", torch.tensor([1.0, 0.0, 0.0], dtype=torch.float64))
    row = exact.measure(coin, "aligned")
    pq = random_policies(coin, exact.POLICIES).prod(-1)
    assert row["trace"] == pytest.approx(float((pq / 4 - pq**2 / 2).mean()))
    assert row["noise"] == pytest.approx(2 * row["trace"] / float((pq**2 / 2).mean()))
    columns = [row[name] for name in ("cosine", "length", "samples", "scores", "best")]
    assert columns == pytest.approx([1, 0.5, 2, 2, 1])
    # An exact critic's estimate of one sample is (q^2, -q^2) / 2 or (p^2, -p^2) / 2.
    row = exact.measure(coin, "critic")
    assert row["trace"] == pytest.approx(float((pq * (1 - 4 * pq)).mean()))
    assert row["length"] == pytest.approx(1)


def paid(game, name, agent, joint, seen):
    """What a joint action pays an agent by the definition. `seen` gets the teams that it scores."""

    def worth(team):
        if team:
            seen.add(frozenset(team))
        actions = [action if i in team else game.actions for i, action in enumerate(joint)]
        return float(game.table[tuple(actions)])

    everyone = set(game.start)
    if name in ("difference", "counterfactual"):
        return worth(everyone) - worth(everyone - {agent})
    if name in ("own pay", "pooled"):
        return worth(everyone) + worth({agent})
    if name.endswith("Shapley"):  # what it adds to those who came before, over all orders
        added = []
        for order in itertools.permutations(game.start):
            before = {*order[: order.index(agent)]}
            added.append(worth(before | {agent}) - worth(before))
        return statistics.fmean(added) + (worth(everyone) if name != "Shapley" else 0)
    return worth(everyone)


def plain_credits(game, name, draw, seen):
    """The credit of each response by loops: [agent][sample]."""
    returns = []
    for agent in game.start:
        returns.append([])
        for sample in range(G):
            joints = [draw[sample]]
            if name in ("cross", "optimism"):
                choices = itertools.product(range(G), repeat=game.agents)
                joints = [
                    tuple(draw[number][i] for i, number in enumerate(choice))
                    for choice in choices
                    if choice[agent] == sample
                ]
            earned = [paid(game, name, agent, joint, seen) for joint in joints]
            returns[-1].append(max(earned) if name == "optimism" else statistics.fmean(earned))
    credits = []
    for group in returns:
        of = list(itertools.chain(*returns)) if name == "pooled" else group
        mean = statistics.fmean(of)
        over = 1.0
        if name in ("deviation", "counterfactual", "pooled"):
            over = statistics.pstdev(of) + 1e-4
        elif name == "MaxRL":
            over = mean or 1.0
        elif name == "leave-one-out":
            over = (G - 1) / G
        credits.append([(earned - mean) / over for earned in group])
    return credits


@pytest.mark.parametrize("name", [name for name in ONE_TURN if name not in ("K = 2", "critic")])
@pytest.mark.parametrize("game", [facts.ALONE, facts.TRIO], ids=lambda game: game.name)
def test_an_estimator_is_its_definition(game, name):
    rule = ONE_TURN[name]
    seen = set()
    for draw in random.Random(0).sample(game.draws(G), 40):
        want = plain_credits(game, name, draw, seen)
        torch.testing.assert_close(exact.credits_of(game, rule, draw), torch.tensor(want).double())
    assert SCORED[rule.pay](game.agents) == len(seen)


def test_the_trace_is_that_of_all_agents(monkeypatch):
    """The covariance of the softmax gradients, by a loop over all draws."""
    monkeypatch.setattr(exact, "POLICIES", 1)
    game = facts.ALONE
    [policy] = random_policies(game, 1)
    gradients, chances = [], []
    for draw in game.draws(G):
        credits = plain_credits(game, "aligned", draw, set())
        gradient = torch.zeros_like(policy)
        chance = 1.0
        for sample, joint in enumerate(draw):
            for agent, action in enumerate(joint):
                chance *= float(policy[agent, action])
                score = -policy[agent]
                score[action] += 1
                gradient[agent] += credits[agent][sample] / G * score
        gradients.append(gradient)
        chances.append(chance)
    mean = sum(chance * gradient for chance, gradient in zip(chances, gradients, strict=True))
    spread = [float((gradient - mean).square().sum()) for gradient in gradients]
    trace = sum(chance * square for chance, square in zip(chances, spread, strict=True))
    assert exact.measure(game, "aligned")["trace"] == pytest.approx(trace)


def test_a_critic_that_knows_all_histories_adds_noise(monkeypatch):
    """It cannot be below an agent's own critic (Lyu et al. 2021, arXiv 2102.04402)."""
    monkeypatch.setattr(exact, "POLICIES", 1)
    monkeypatch.setattr(exact, "STARTS", 1)
    central, decentral = (exact.measure(GAMES[-1], name) for name in ("central", "decentral"))
    assert central["trace"] > decentral["trace"]


def test_each_helper_meets_each_main():
    task = strangers.Strangers(num_agents=4)
    item = task.items("dev")[0]
    asked = [task.observe(agent, item, []) for agent in range(4)]
    assert asked == [task.pair.observe(role, item, []) for role in (0, 0, 1, 1)]
    helper, main = item["solution"].split("\n\n\n")
    texts = [helper, "", main, "def solve(xs):\n    return []"]
    paid = strangers.meet(item, texts)
    pairs = {(h, m): total(code(item, [texts[h], texts[m]]), 2) for h in (0, 1) for m in (2, 3)}
    assert paid["agent/0"] == pytest.approx((pairs[0, 2] + pairs[0, 3]) / 2)
    assert paid["agent/3"] == pytest.approx((pairs[0, 3] + pairs[1, 3]) / 2)


def test_the_trap_by_counts_of_programs(tmp_path):
    """Two windows of programs. In the first, 2 of 10 work alone and 1 of these passes. 8 call, and
    4 of these pass and need their helper."""
    first = {"scheme/unused": 0.2, "metric/pass": 0.5, "metric/load_bearing": 0.4}
    later = {"metric/pass": 0.75, "metric/load_bearing": 0.75}  # none works alone
    run = tmp_path / "run"
    write_run(run, steps=[first] * 5 + [later] * 2)
    table = trap.shares(run)
    assert table.index.tolist() == [0, 5]
    assert table.loc[0].tolist() == pytest.approx([0.2, 4 / 8, 0.4 * 1 / 2])
    assert table.loc[5, ["alone", "q"]].tolist() == [0, 0.75]
    assert table.loc[5, "needed":].isna().all()
