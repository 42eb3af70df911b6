"""Credit by enumeration: python -m pytest tests/examples/test_credit.py"""

import pytest
import torch

from examples.credit import exact, facts, strangers
from examples.credit.games import Game, random_policies
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
