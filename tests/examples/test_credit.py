"""Credit by enumeration: python -m pytest tests/examples/test_credit.py"""

import pytest
import torch

from examples.credit import exact, facts
from examples.credit.games import Game, random_policies


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
