"""Measure a team's two texts: their words, lengths, copied runs and ends.

A word has letters and digits of any script with their accents (`\\w`, so foo_bar is one word). It
may have apostrophes inside (don't). A number with its points and commas is a word (10,000 or 2.3),
and so is a whole URL. Everything else separates words, hyphens and emoji included. Words are
compared in lower case, and a curly apostrophe equals a straight one. A script without spaces gives
one word per run. Only the first 4,096 words of a text count.
"""

import itertools
import math
import re
import unicodedata
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from policies import Mistake

SEPARATOR = "=== PART TWO ==="  # between the two texts that a single agent writes
WORDS_READ = 4096
RUN = 4  # words in a row that count as copied if they also stand elsewhere

_MARKS = "".join(c for c in map(chr, range(0x300, 0x1AC0)) if unicodedata.category(c)[0] == "M")
_WORD = re.compile(
    r"(?:https?://|www\.)\S*[^\s.,;:!?)\]}'\"]"  # a URL
    rf"|\w+(?:(?:'(?=\w)|(?<=\d)[.,](?=\d)|[{_MARKS}]+)\w*)*"
)


@dataclass(frozen=True)
class Lengths:
    """The lengths that a task wants, in words, with the paper's numbers."""

    least: int  # words of each text
    longer: tuple[float, float]  # second / first: the score rises from 0 to 1 between the two
    even: float  # longer / shorter, at most


TLDR_LENGTHS = Lengths(8, (1.0, 1.6), math.inf)  # second at least 1.6 times the first
ARXIV_LENGTHS = Lengths(128, (-1, 0), 1.3)  # longer at most 1.3 times the shorter


def words(text: str) -> list[str]:
    text = text.lower().replace("\u2019", "'")
    return [match[0] for match in itertools.islice(_WORD.finditer(text), WORDS_READ)]


def split(responses: list[str]) -> tuple[str, ...] | None:
    """Return the two texts of a team, or None.

    A single agent's response has to hold SEPARATOR exactly once. Otherwise the two parts are
    unknown, and every reward is 0.
    """
    if len(responses) == 1:
        texts = responses[0].split(SEPARATOR)
        return tuple(texts) if len(texts) == 2 else None
    if len(responses) != 2:
        raise Mistake(f"the writing rewards are for 1 or 2 agents, not {len(responses)}")
    return tuple(responses)


def ramp(value: float, start: float, end: float) -> float:
    """Return 0 up to `start`, 1 from `end` on, and linear values between.

    `end` may be smaller than `start`.
    """
    fraction = (value - start) / (end - start)
    return min(max(fraction, 0.0), 1.0)


def length_score(wanted: Lengths, first: str, second: str) -> float:
    """Return how well the lengths of two texts fit, from 0 to 1."""
    first_size = len(words(first))
    second_size = len(words(second))
    shorter, longer = sorted((first_size, second_size))
    if not shorter:
        return 0.0
    enough = min(shorter, wanted.least) / wanted.least
    even = min(wanted.even * shorter / longer, 1.0)
    return enough * ramp(second_size / first_size, *wanted.longer) * even


def copied_share(source: str, first: str, second: str) -> float:
    """Return the fraction of the texts' four-word runs that stand elsewhere, from 0 to 1.

    Elsewhere is the source, the other text before it, or another place in the same text. A run that
    occurs twice in a text counts at both places. So a text that only repeats itself is all copied.
    """
    known = set(_runs(source))
    total = 0
    hits = 0
    for text in (first, second):
        counts = Counter(_runs(text))
        for run, count in counts.items():
            if run in known or count > 1:
                hits += count
        total += counts.total()
        known |= counts.keys()
    return hits / total if total else 0.0


def _runs(text: str) -> list[tuple[str, ...]]:
    """Return every run of RUN words of a text."""
    text_words = words(text)
    starts = range(len(text_words) - RUN + 1)
    return [tuple(text_words[start : start + RUN]) for start in starts]


def has_end(text: str) -> bool:
    """Return whether a text ends with a full stop of any script, and so was not cut off."""
    for character in reversed(text.rstrip()):
        kind = unicodedata.category(character)
        if kind not in ("Pe", "Pf", "Pi") and character not in "\"'*_":  # they may follow it
            return kind == "Po" and character not in ",;:%&@#/\\"
    return False


_LISTS = {}
for _line in Path(__file__).with_name("words.txt").read_text("utf-8").splitlines():
    _category, _words = _line.split(": ")
    _LISTS[_category] = _words.split(", ")
STOP_WORDS = frozenset(_LISTS.pop("stop words"))  # the 106 of the paper's code
TRANSITIONS = _LISTS  # the 12 categories of the paper's code, 279 phrases with duplicates
