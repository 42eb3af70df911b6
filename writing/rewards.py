"""How a pair of texts from one source is scored, for `tldr` and `arxiv`, by a language model that
reads them (rewards.py: `lm`), in any language that it reads; no word lists. 0 to 3:

    3 sqrt(fluent_1 grounded_1 fluent_2 grounded_2) original lengths finished

| part     | what it is of a text, or of both                                            |         |
|----------|-----------------------------------------------------------------------------|---------|
| fluent   | log p per token, mean of with and without the source before it: (c + u) / 2 | -7, .5  |
| grounded | share of a text's information -u that its source explains, (c - u) / -u [1],| .16,    |
|          | where c - u is of the whole text and of its least 24 tokens, half and half  | .05     |
| original | 1 - s^2, s: share of four-word runs that stand in the source, in the        |         |
|          | partner's text, or elsewhere in the same one                                |         |
| lengths  | tldr: 8 words in both, in the second 1.6 times the first's; arxiv: 128 in   | the     |
|          | both, in the longer 1.3 times the shorter's at most; less in proportion     | paper's |
| finished | .7 for each text that does not end with a mark, as one that was cut off     | .7      |

fluent and grounded are sigmoids of (value - first) / second: smooth, so that a weak model has a
slope to climb at its own level. What each part is for: u alone cannot know the subject's names, c
alone praises whatever repeats the source, and their mean falls for word salad and keywords; a text
of another source, a template or invention is not explained by this one (grounded), and 24 tokens,
the mean length of a summary, show one invented sentence among good ones; copying and repetition
please every likelihood (original). The constants were chosen on people's texts of SciTLDR's train
split: docs/writing.md has the figures.

What this cannot see: whether a sentence is true where its words fit (one "not" too many), and what
the language model itself does not know. The paper's rewards are in paper.py.

[1] c - u is pointwise mutual information; over -u, Theil's uncertainty coefficient. As a measure of
what a summary owes to its source: Padmakumar and He 2021, Unsupervised Extractive Summarization
using Pointwise Mutual Information; van der Poel et al. 2022, Mutual Information Alleviates
Hallucinations in Abstractive Summarization.
"""

import functools
import math
import unicodedata
from collections import Counter
from dataclasses import dataclass

import numpy as np

from writing.text import ramp, split, words

FLUENT, GROUNDED, WINDOW = (-7.0, 0.5), (0.16, 0.05), 24
RUN = 4  # words that are copied if they stand elsewhere in this order
CUT = 0.7  # worth of a text without an end
METRICS = ("fluent", "grounded", "original", "lengths", "finished")


@dataclass(frozen=True)
class Kind:
    field: str  # of the item: the source
    ask: str  # what the language model is asked for
    least: int  # words of a text
    longer: tuple[float, float]  # second / first, in words: worth nothing, worth all
    even: float  # longer / shorter, at most


TLDR = Kind("prompt", "Summarize this text.", 8, (1.0, 1.6), math.inf)
ARXIV = Kind(
    "abstract_text", "Write the introduction of the paper with this abstract.", 128, (-1, 0), 1.3
)


def _score(kind: Kind, item: dict, responses: list[str], lm) -> dict[str, float]:
    parts = {"writing": 0.0} | {f"metric/{name}": 0.0 for name in METRICS}
    texts = split(responses)
    if texts is None or not all(text.strip() for text in texts):
        return parts
    source = item[kind.field].strip()
    one, two = (_read(lm, f"{source}\n\n{kind.ask}", kind.ask, text.strip()) for text in texts)
    found = {
        "fluent": math.sqrt(sigmoid(one[0], *FLUENT) * sigmoid(two[0], *FLUENT)),
        "grounded": math.sqrt(sigmoid(one[1], *GROUNDED) * sigmoid(two[1], *GROUNDED)),
        "original": 1 - copied(source, *texts) ** 2,
        "lengths": lengths(kind, *texts),
        "finished": math.prod(1.0 if ends(text) else CUT for text in texts),
    }
    parts["writing"] = 3 * math.prod(found.values())
    return parts | {f"metric/{name}": value for name, value in found.items()}


def _read(lm, asked: str, alone: str, text: str) -> tuple[float, float]:
    """How fluent a text is, in nats per token, and the share of it that its source explains."""
    given, without = lm(asked, text), lm(alone, text)
    if not len(given):
        return -math.inf, -math.inf
    gain = given - without
    window = np.ones(min(WINDOW, len(gain))) / min(WINDOW, len(gain))
    least = np.convolve(gain, window, "valid").min()
    information = max(-without.mean(), 0.1)
    fluent, explained = (given.mean() + without.mean()) / 2, (gain.mean() + least) / 2
    return float(fluent), float(explained / information)


def sigmoid(value: float, middle: float, width: float) -> float:
    return 1 / (1 + math.exp(min((middle - value) / width, 700.0)))


def copied(source: str, one: str, two: str) -> float:
    """Share of the texts' runs of RUN words that stand in the source, in the text before, or
    elsewhere in the same text: what is said twice counts at both places, so that a text which only
    repeats itself is copied as a whole, and not but for its first sentence."""
    known, runs, hits = set(_runs(words(source))), 0, 0
    for text in (one, two):
        own = Counter(_runs(words(text)))
        hits += sum(count for run, count in own.items() if run in known or count > 1)
        runs += own.total()
        known |= own.keys()
    return hits / runs if runs else 0.0


def _runs(found: list[str]) -> list[tuple[str, ...]]:
    return list(zip(*(found[start:] for start in range(RUN)), strict=False))


def lengths(kind: Kind, one: str, two: str) -> float:
    first, second = len(words(one)), len(words(two))
    if not first or not second:
        return 0.0
    enough = min(first, second, kind.least) / kind.least
    even = min(kind.even * min(first, second) / max(first, second), 1.0)
    return enough * ramp(second / first, *kind.longer) * even


def ends(text: str) -> bool:
    """Whether a text ends with a full stop of any script, as none does that was cut off."""
    last = text.rstrip().rstrip("\"')]»\u201d\u2019")[-1:]
    return bool(last) and unicodedata.category(last) == "Po" and last not in ",;:"


tldr = functools.partial(_score, TLDR)  # a concise summary and a longer one; 0 to 3
arxiv = functools.partial(_score, ARXIV)  # an introduction in two halves; 0 to 3
for _reward in (tldr, arxiv):
    _reward.maximum, _reward.needs_model = 3.0, True
