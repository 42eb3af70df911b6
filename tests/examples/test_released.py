"""The writing rewards of the authors' code: python -m pytest tests/examples/test_released.py"""

import math

import pytest
from helpers import total
from test_writing import numbers, sized

import rewards
from examples.released import arxiv_released, tldr_released


def test_released_salad():
    """Twelve categories of transitions, one shared word: the most that the code pays."""
    salad = ["cat dog sat mat big red sun hat"]
    salad += ["cat also such as that is so but first indeed in short just as though if when"]
    assert total(tldr_released({}, salad)) == pytest.approx(2.98)
    assert total(rewards.tldr_paper({}, salad)) == pytest.approx(1.5)  # what their logger gave


def test_released_matches_letters_and_the_paper_words():
    first = "she wrote about the house and the river again today"
    second = f"{first} because life strengthens every person who was ever lonely near any water at"
    second += " all under dark grey skies of november"
    # so in person, as in was, then in strengthens, if in life: 4 categories, tau 0.55
    assert tldr_released({}, [first, second])["coherence"] == pytest.approx(0.4 * 0.55)
    assert rewards.tldr_paper({}, [first, second])["coherence"] == 0
    said = [first, f"{second}; however, so what"]  # however: contrast, concession; so: cause_effect
    assert rewards.tldr_paper({}, said)["coherence"] == pytest.approx(0.4 * 0.6 * math.log(4))


def test_bands_of_length():
    lengths = zip(numbers("0.79 0.9 1.2 1.4 1.8 4.1"), numbers("0 0.2 0.8 1 0.5 0"), strict=True)
    for ratio, length in lengths:
        parts = arxiv_released({}, sized(ratio))
        assert parts["length"] == pytest.approx(length, abs=0.02)
        assert (total(parts) == 0.5) == (length == 0)  # then nothing else counts
