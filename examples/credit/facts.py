"""Facts about credit, each an assertion over every outcome: python -m examples.credit.facts"""

import torch

from examples.credit.exact import (
    G_TURNS,
    NO_VALUES,
    ONE_TURN,
    Estimator,
    G,
    credits_of,
    expected,
    outcomes,
)
from examples.credit.games import (
    GAMES,
    Game,
    coalitions,
    difference,
    earned,
    random_policies,
    true_gradient,
    values_of,
)

BY_NAME = {game.name: game for game in GAMES}
ALONE = BY_NAME["alone pays"]
TRIO = BY_NAME["three agents"]
TURNS = BY_NAME["two turns"]
FIRST = slice(0, TURNS.agents)  # contexts of its first turn
LATER = slice(TURNS.agents, None)


def close(got, want) -> None:
    torch.testing.assert_close(got, want, rtol=1e-9, atol=1e-9)


def mean_gradient(game, name, values=NO_VALUES):
    """Return an estimator's expected gradient and the true one, at one policy."""
    [policy] = random_policies(game, 1)
    if values is None:
        values = values_of(game, policy)
    got = expected(outcomes(game, name, values), policy[None])[0]
    return got, true_gradient(game, policy)


def cross_is_the_counterfactual_baseline():
    """COMA subtracts what an agent's other responses earn beside the same partners.

    Cross is this baseline, averaged over the partners: it needs no critic.
    """
    for game in (ALONE, TRIO):
        for draw in game.draws(G):
            columns = torch.tensor(draw).T  # (n, G)
            rewards = game.table[torch.meshgrid(*columns, indexing="ij")]  # (G, ..., G)
            for agent, got in enumerate(credits_of(game, ONE_TURN["cross"], draw)):
                counterfactual = rewards - rewards.mean(agent, keepdim=True)
                partners = [other for other in game.start if other != agent]
                close(got, counterfactual.mean(partners))


def under_cross_the_difference_reward_changes_nothing():
    rule = Estimator(ONE_TURN["cross"].count, "mean", difference)
    for game in (ALONE, TRIO):
        for draw in game.draws(G):
            close(credits_of(game, rule, draw), credits_of(game, ONE_TURN["cross"], draw))


def shapley_follows_the_mean_over_coalitions():
    """With two agents half of its gradient is that of working alone."""
    for game in (ALONE, TRIO):
        got, true = mean_gradient(game, "Shapley")
        [policy] = random_policies(game, 1)
        logits = policy.log().requires_grad_()
        chances = logits.softmax(-1)
        draws = game.draws(1)
        actions = torch.tensor([joint for (joint,) in draws]).T
        chance = torch.stack([chances[game.start, joint].prod() for (joint,) in draws])
        for agent in game.start:
            objective = 0.0
            for members, weight in coalitions(game, agent):
                objective = objective + weight * chance @ earned(game, actions, {*members, agent})
            [want] = torch.autograd.grad(objective, logits, retain_graph=True)
            close(got[agent], (G - 1) / G * want[agent])
            [alone] = torch.autograd.grad(
                chance @ earned(game, actions, {agent}), logits, retain_graph=True
            )
            if game.agents == 2:
                close(want[agent], (true[agent] + alone[agent]) / 2)


def a_baseline_per_turn_index_is_biased_and_returns_to_go_are_not():
    """The bias is at the first turn, where a response decides whether the episode goes on."""
    for name in ("tree", "chain"):
        got, true = mean_gradient(TURNS, name)
        close(got, (G_TURNS - 1) / G_TURNS * true)
    got, true = mean_gradient(TURNS, "turn index")
    assert torch.cosine_similarity(got[FIRST].flatten(), true[FIRST].flatten(), 0) < 0.99


def a_mean_over_the_lines_left_shortens_the_later_turn():
    """Each turn's gradient keeps its direction, and the second turn's is shorter."""
    got, true = mean_gradient(TURNS, "lines left")
    close(got[FIRST], (G_TURNS - 1) / G_TURNS * true[FIRST])
    reached = true[LATER] != 0
    ratio = got[LATER][reached] / true[LATER][reached]
    assert ratio.min() > 0
    assert ratio.max() < (G_TURNS - 1) / G_TURNS


def dividing_by_the_deviation_weighs_problems_alike():
    """A problem whose rewards differ ten times less has a gradient of the same length.

    With the mean it is ten times shorter, as the true gradient is.
    """
    small = Game("a tenth", ALONE.table / 10)
    for name, ratio in (("aligned", 0.1), ("deviation", 1.0)):
        got, _ = mean_gradient(ALONE, name)
        of_small, _ = mean_gradient(small, name)
        torch.testing.assert_close(of_small, ratio * got, rtol=0.02, atol=1e-9)


def an_exact_critic_has_no_bias():
    for game, names in ((ALONE, ["critic"]), (TURNS, ["central", "decentral"])):
        for name in names:
            close(*mean_gradient(game, name, None))


FACTS = [
    cross_is_the_counterfactual_baseline,
    under_cross_the_difference_reward_changes_nothing,
    shapley_follows_the_mean_over_coalitions,
    a_baseline_per_turn_index_is_biased_and_returns_to_go_are_not,
    a_mean_over_the_lines_left_shortens_the_later_turn,
    dividing_by_the_deviation_weighs_problems_alike,
    an_exact_critic_has_no_bias,
]

if __name__ == "__main__":
    for fact in FACTS:
        fact()
        print(fact.__name__.replace("_", " "))
