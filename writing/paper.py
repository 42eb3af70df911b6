"""The writing rewards of arXiv 2508.04652: as the paper describes them, and as its code has them.

Both have four levels; a level that fails ends the count, and what was earned before it stays. Each
level's value is a component, of at most:

    structure 0.5     both responses have so many words
    length 1.0        characters of the second per character of the first
    vocabulary 0.5    different words of the second per different word of the first
    coherence 0.4     0.4 tau: of k of the 12 categories of transitions a phrase occurs
    consistency 0.6   0.6 min(J, cap) / cap: J is the Jaccard index of the two sets of content words

The numbers are in Levels. Where the released code differs from the paper:

|               | paper                | released code                                           |
|---------------|----------------------|---------------------------------------------------------|
| arxiv: length | all in [1.0, 1.3]    | all in [1.3, 1.6]                                       |
| vocabulary of | content words        | all words [1]                                           |
| tau <= 1      | 0.6 or 0.4 ln(k + 1) | 0.4 + 0.05 (k - 1), 0 at k = 0                          |
| k looks at    | both responses       | tldr the second; arxiv both, joined without a blank     |
| a phrase is   | whole words          | letters: "so" is in "person"                            |
| words are     | text.py's            | runs of \\w; when counted, what stands between blanks   |

Content words are those that are not among the paper's 106 stop-words. Which code: that of the
authors' writing experiments since 31 Dec 2025. [1] Their logger, with which the baselines were
evaluated, leaves stop-words out and has the paper's band of lengths, so it scores the same pair
differently: 0.50 instead of 2.84, or 1.50 instead of 2.98.

None of these looks at the post or at the abstract.
"""

import functools
import math
import re
from dataclasses import dataclass, replace
from pathlib import Path

from writing.text import ramp, split, words

# words.txt has the lists of the paper's code, double entries included, a line each: 12 categories
# of transitions with 279 entries, and 106 stop-words.
_LINES = (Path(__file__).parent / "words.txt").read_text().splitlines()
TRANSITIONS = {kind: listed.split(", ") for kind, listed in (line.split(": ") for line in _LINES)}
STOP_WORDS = frozenset(TRANSITIONS.pop("stop words"))
PARTS = ("structure", "length", "vocabulary", "coherence", "consistency")


@dataclass(frozen=True)
class Levels:
    """A band is worth nothing at its first and last number, all between the two others."""

    words: tuple[int, int]
    length: tuple[float, float, float, float]
    vocabulary: tuple[float, float, float, float]
    tau: float  # factor of the logarithm, in the paper's form
    cap: float  # of the Jaccard index
    both: bool = True  # whether the released k looks at both texts


TLDR = Levels((8, 256), (1.1, 1.6, 3.2, 5.0), (1.3, 2.0, math.inf, math.inf), 0.6, 0.03, False)
ARXIV = Levels((128, 256), (0.8, 1.0, 1.3, 1.5), (0.5, 0.7, 1.3, 1.7), 0.4, 0.23)
ARXIV_RELEASED = replace(ARXIV, length=(0.8, 1.3, 1.6, 2.0))


def _score(levels: Levels, read, item: dict, responses: list[str]) -> dict[str, float]:
    """The four levels. read: the size in words and the set of words of each text, and tau."""
    parts, texts = dict.fromkeys(PARTS, 0.0), split(responses)
    if texts is None:
        return parts
    sizes, vocabularies, tau = read(levels, texts)
    if not all(levels.words[0] <= size <= levels.words[1] for size in sizes):
        return parts
    parts["structure"] = 0.5
    for part, most, (one, two) in (("length", 1.0, texts), ("vocabulary", 0.5, vocabularies)):
        low, first, last, high = getattr(levels, part)
        ratio = len(two) / max(len(one), 1)
        if not low <= ratio <= high:
            return parts
        over = ramp(ratio, last, high) if ratio > last else 0.0
        parts[part] = most * (ramp(ratio, low, first) - over)
    one, two = (vocabulary - STOP_WORDS for vocabulary in vocabularies)
    jaccard = len(one & two) / len(one | two) if one | two else 1.0
    parts["coherence"] = 0.4 * tau
    parts["consistency"] = 0.6 * ramp(jaccard, 0.0, levels.cap)
    return parts


def _paper(levels: Levels, texts: tuple[str, str]):
    found = [words(text) for text in texts]
    text = f" {' '.join(found[0])} | {' '.join(found[1])} "
    kinds = sum(any(f" {p} " in text for p in phrases) for phrases in TRANSITIONS.values())
    tau = min(levels.tau * math.log(kinds + 1), 1.0)
    return map(len, found), [set(some) - STOP_WORDS for some in found], tau


def _released(levels: Levels, texts: tuple[str, str]):
    text = (texts[0] * levels.both + texts[1]).lower()
    kinds = sum(any(phrase in text for phrase in some) for some in TRANSITIONS.values())
    tau = min(0.4 + min(0.05 * (kinds - 1), 0.6), 1.0) if kinds else 0.0
    found = [set(re.findall(r"\b\w+\b", text.lower())) for text in texts]
    return [len(text.split()) for text in texts], found, tau


# 0 to 3, and 3 is reached: by five categories, one content word in 33 shared; by all categories
tldr_paper = functools.partial(_score, TLDR, _paper)
arxiv_paper = functools.partial(_score, ARXIV, _paper)
# 0 to 2.98, the most that tau allows; published curves are divided by 3 all the same
tldr_released = functools.partial(_score, TLDR, _released)
arxiv_released = functools.partial(_score, ARXIV_RELEASED, _released)
for _reward in (tldr_paper, arxiv_paper, tldr_released, arxiv_released):
    _reward.maximum = 3.0
