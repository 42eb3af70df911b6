"""The writing rewards of the authors' code, to repeat their runs. Compare those of rewards.py.

    python train.py @recipes/tldr.args --reward examples/released.py:tldr_released

The released code differs from the paper. arxiv's full lengths are ratios of 1.3 to 1.6, and 1.0 to
1.3 in the paper. The vocabulary is of all words, and not of content words. Tau is
`0.4 + 0.05 (k - 1)`, and not `0.6` or `0.4 ln(k + 1)`. The k of tldr looks at the second response
alone, and not at both. A phrase is its letters, so "so" is in "person".
"""

import functools
import re
from dataclasses import replace

from programs.texts import TRANSITIONS
from rewards import ARXIV, TLDR, Levels, Scores, four_levels

ARXIV_RELEASED = replace(ARXIV, length=(0.8, 1.3, 1.6, 2.0))


def as_released(levels: Levels, texts: tuple[str, str], both: bool):
    """Return the same as rewards.as_in_the_paper, as the released code computes it.

    `both` says whether transitions count in both texts, or in the second one alone.
    """
    text = (texts[0] + texts[1] if both else texts[1]).lower()
    kinds = sum(any(phrase in text for phrase in phrases) for phrases in TRANSITIONS.values())
    tau = 0.4 + 0.05 * (kinds - 1) if kinds else 0.0
    sizes = [len(text.split()) for text in texts]
    vocabularies = [set(re.findall(r"\b\w+\b", text.lower())) for text in texts]
    return sizes, vocabularies, tau


tldr_reader = functools.partial(as_released, both=False)
arxiv_reader = functools.partial(as_released, both=True)


def tldr_released(item: dict, responses: list[str]) -> Scores:
    """Return the released code's reward, 0 to 2.98; published curves are divided by 3."""
    return four_levels(TLDR, tldr_reader, responses)


def arxiv_released(item: dict, responses: list[str]) -> Scores:
    """Return the released code's reward, 0 to 2.98; published curves are divided by 3."""
    return four_levels(ARXIV_RELEASED, arxiv_reader, responses)


tldr_released.maximum = arxiv_released.maximum = 3.0
