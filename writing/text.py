"""Read a team's two texts: their words, their lengths, what is copied, whether they end.

A word is a run of letters and digits of any script with its accents (`\\w`, so foo_bar is one),
with apostrophes inside it (don't), or a number with its points and commas (10,000 or 2.3), or a
whole URL. Everything else, hyphens and emoji included, only separates words. Words are compared in
lower case, with the curly apostrophe as the straight one. A script without spaces gives one word
per run. No more than the first 4,096 words of a text are read.
"""

import itertools
import math
import re
import unicodedata
from collections import Counter
from dataclasses import dataclass
from functools import cache
from pathlib import Path

SEPARATOR = "=== PART TWO ==="  # between the two texts that a single agent writes
WORDS_READ = 4096
RUN = 4  # words that are copied if they stand elsewhere in this order

_MARKS = "".join(c for c in map(chr, range(0x300, 0x1AC0)) if unicodedata.category(c)[0] == "M")
_WORD = re.compile(
    r"(?:https?://|www\.)\S*[^\s.,;:!?)\]}'\"]"  # a URL
    rf"|\w+(?:(?:'(?=\w)|(?<=\d)[.,](?=\d)|[{_MARKS}]+)\w*)*"
)


@dataclass(frozen=True)
class Lengths:
    """How long the two texts of a task should be, in words; the paper's numbers."""

    least: int  # of each text
    longer: tuple[float, float]  # second / first: worth nothing up to the first, all from the next
    even: float  # longer / shorter, at most


TLDR_LENGTHS = Lengths(8, (1.0, 1.6), math.inf)  # second at least 1.6 times the first
ARXIV_LENGTHS = Lengths(128, (-1, 0), 1.3)  # longer at most 1.3 times the shorter


def words(text: str) -> list[str]:
    text = text.lower().replace("\u2019", "'")
    return [match[0] for match in itertools.islice(_WORD.finditer(text), WORDS_READ)]


def split(responses: list[str]) -> tuple[str, str] | None:
    """Return the two texts of a team.

    A single agent's response has to hold SEPARATOR exactly once. Where it does not, nothing tells
    which part is which: the answer is None, and every reward is 0.
    """
    if len(responses) == 1:
        texts = responses[0].split(SEPARATOR)
        return (texts[0], texts[1]) if len(texts) == 2 else None
    if len(responses) != 2:
        raise ValueError(f"the writing rewards are for 1 or 2 agents, not {len(responses)}")
    return responses[0], responses[1]


def ramp(value: float, zero: float, one: float) -> float:
    """Return 0 up to `zero`, 1 from `one` on, linear between; `one` may be the smaller of them."""
    return min(max((value - zero) / (one - zero), 0.0), 1.0)


def length_score(wanted: Lengths, first: str, second: str) -> float:
    """Return how well the lengths of two texts fit, from 0 to 1."""
    first_size = len(words(first))
    second_size = len(words(second))
    if not first_size or not second_size:
        return 0.0
    shorter, longer = sorted((first_size, second_size))
    enough = min(shorter, wanted.least) / wanted.least
    even = min(wanted.even * shorter / longer, 1.0)
    return enough * ramp(second_size / first_size, *wanted.longer) * even


def copied_share(source: str, first: str, second: str) -> float:
    """Return the share of the texts' four-word runs that stand elsewhere, from 0 to 1.

    Elsewhere is the source, the text before, or another place in the same text. A run that occurs
    twice in a text counts at both places: a text that only repeats itself is copied as a whole.
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
    listed = words(text)
    return [tuple(listed[start : start + RUN]) for start in range(len(listed) - RUN + 1)]


def has_end(text: str) -> bool:
    """Return whether a text ends with a full stop of any script: one that was cut off does not."""
    last = text.rstrip().rstrip("\"')]»\u201d\u2019")[-1:]
    return bool(last) and unicodedata.category(last) == "Po" and last not in ",;:"


@cache
def transitions() -> dict[str, list[str]]:
    """Return the 12 categories of transitions of the paper's code, 279 phrases, double ones too."""
    lists = _word_lists()
    return {kind: phrases for kind, phrases in lists.items() if kind != "stop words"}


@cache
def stop_words() -> frozenset[str]:
    """Return the 106 stop-words of the paper's code."""
    return frozenset(_word_lists()["stop words"])


def _word_lists() -> dict[str, list[str]]:
    lists = {}
    for line in Path(__file__).with_name("words.txt").read_text().splitlines():
        kind, phrases = line.split(": ")
        lists[kind] = phrases.split(", ")
    return lists
