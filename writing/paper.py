"""The writing rewards of arXiv 2508.04652: as the paper describes them, and as its code has them.

Both have four levels; a level that fails ends the count, and what was earned before it stays. Each
level's value is a component, of at most:

    structure 0.5     both responses have so many words
    length 1.0        characters of the second per character of the first
    vocabulary 0.5    different words of the second per different word of the first
    coherence 0.4     0.4 tau: of k of the 12 categories of transitions a phrase occurs
    consistency 0.6   0.6 min(J, cap) / cap: J is the Jaccard index of the two sets of content words

|               | tldr_paper           | arxiv_paper          | released code instead            |
|---------------|----------------------|----------------------|----------------------------------|
| words, each   | 8 to 256             | 128 to 256           | the same                         |
| length        | full in [1.6, 3.2],  | full in [1.0, 1.3],  | tldr the same; arxiv full in     |
|               | 0 at 1.1 and at 5.0  | 0 at 0.8 and at 1.5  | [1.3, 1.6], 0 at 0.8 and at 2.0  |
| vocabulary    | full from 2.0,       | full in [0.7, 1.3],  | the same                         |
|               | 0 at 1.3             | 0 at 0.5 and at 1.7  |                                  |
| ... of        | content words        | content words        | all words [1]                    |
| tau           | 0.6 ln(k + 1),       | 0.4 ln(k + 1),       | 0.4 + 0.05 (k - 1),              |
|               | at most 1            | at most 1            | 0 at k = 0                       |
| k looks at    | both responses       | both responses       | tldr the second; arxiv both,     |
|               |                      |                      | joined without a blank           |
| a phrase is   | whole words          | whole words          | letters: "so" is in "person"     |
| cap of J      | 0.03                 | 0.23                 | the same                         |
| words are     | text.py's            | text.py's            | runs of \\w; when counted, what   |
|               |                      |                      | stands between blanks            |

Content words are those that are not among the paper's 106 stop-words. Which code: that of the
authors' writing experiments since 31 Dec 2025. [1] Their logger, with which the baselines were
evaluated, leaves stop-words out and has the paper's band of lengths, so it scores the same pair
differently: 0.50 instead of 2.84, or 1.50 instead of 2.98.

None of these looks at the post or at the abstract.
"""

import math
import re
from dataclasses import dataclass

from writing.text import ramp, split, words
from writing.words import STOP_WORDS, TRANSITIONS

PARTS = ("structure", "length", "vocabulary", "coherence", "consistency")


@dataclass(frozen=True)
class Band:
    """1 from first to last, 0 at low and at high, linear between and 0 outside."""

    low: float
    first: float
    last: float = math.inf
    high: float = math.inf

    def __call__(self, value: float) -> float:
        if value <= self.last:
            return ramp(value, self.low, self.first)
        return 1.0 - ramp(value, self.last, self.high)

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high


@dataclass(frozen=True)
class Levels:
    words: tuple[int, int]
    length: Band
    vocabulary: Band
    tau: float  # factor of the logarithm, in the paper's form
    cap: float  # of the Jaccard index


TLDR = Levels((8, 256), Band(1.1, 1.6, 3.2, 5.0), Band(1.3, 2.0), 0.6, 0.03)
ARXIV = Levels((128, 256), Band(0.8, 1.0, 1.3, 1.5), Band(0.5, 0.7, 1.3, 1.7), 0.4, 0.23)
ARXIV_RELEASED = Levels(ARXIV.words, Band(0.8, 1.3, 1.6, 2.0), ARXIV.vocabulary, 0.4, 0.23)


def _score(levels: Levels, responses: list[str], read) -> dict[str, float]:
    """The four levels. read(texts): the size in words and the set of words of each, and tau."""
    parts, texts = dict.fromkeys(PARTS, 0.0), split(responses)
    if texts is None:
        return parts
    sizes, vocabularies, tau = read(texts)
    if not all(levels.words[0] <= size <= levels.words[1] for size in sizes):
        return parts
    parts["structure"] = 0.5
    length = len(texts[1]) / max(len(texts[0]), 1)
    if length not in levels.length:
        return parts
    parts["length"] = levels.length(length)
    ratio = len(vocabularies[1]) / max(len(vocabularies[0]), 1)
    if ratio not in levels.vocabulary:
        return parts
    parts["vocabulary"] = 0.5 * levels.vocabulary(ratio)
    one, two = (vocabulary - STOP_WORDS for vocabulary in vocabularies)
    jaccard = len(one & two) / len(one | two) if one | two else 1.0
    parts["coherence"] = 0.4 * tau
    parts["consistency"] = 0.6 * ramp(jaccard, 0.0, levels.cap)
    return parts


def _paper(levels: Levels, responses: list[str]) -> dict[str, float]:
    def read(texts):
        found = [words(text) for text in texts]
        text = f" {' '.join(found[0])} | {' '.join(found[1])} "
        kinds = sum(any(f" {p} " in text for p in phrases) for phrases in TRANSITIONS.values())
        tau = min(levels.tau * math.log(kinds + 1), 1.0)
        return map(len, found), [set(some) - STOP_WORDS for some in found], tau

    return _score(levels, responses, read)


def _released(levels: Levels, responses: list[str], both: bool) -> dict[str, float]:
    """both: whether transitions are looked for in both texts, or in the second alone."""

    def read(texts):
        text = (texts[0] + texts[1] if both else texts[1]).lower()
        kinds = sum(any(phrase in text for phrase in some) for some in TRANSITIONS.values())
        tau = min(0.4 + min(0.05 * (kinds - 1), 0.6), 1.0) if kinds else 0.0
        found = [set(re.findall(r"\b\w+\b", text.lower())) for text in texts]
        return [len(text.split()) for text in texts], found, tau

    return _score(levels, responses, read)


def tldr_paper(item: dict, responses: list[str]) -> dict[str, float]:
    """0 to 3, and 3 is reached: five categories, one content word in 33 shared."""
    return _paper(TLDR, responses)


def arxiv_paper(item: dict, responses: list[str]) -> dict[str, float]:
    """0 to 3, and 3 is reached with all twelve categories."""
    return _paper(ARXIV, responses)


def tldr_released(item: dict, responses: list[str]) -> dict[str, float]:
    """0 to 2.98, the most that tau allows; published curves are divided by 3 all the same."""
    return _released(TLDR, responses, both=False)


def arxiv_released(item: dict, responses: list[str]) -> dict[str, float]:
    """0 to 2.98; see tldr_released."""
    return _released(ARXIV_RELEASED, responses, both=True)


for _reward in (tldr_paper, arxiv_paper, tldr_released, arxiv_released):
    _reward.maximum = 3.0
