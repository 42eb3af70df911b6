"""Reading a text: its words, and a team's two texts.

A word is a run of letters and digits of any script with its accents (`\\w`, so foo_bar is one),
with apostrophes inside it (don't), or a number with its points and commas (10,000 or 2.3), or a
whole URL. Everything else, hyphens and emoji included, only separates words. Words are compared in
lower case, with the curly apostrophe as the straight one. A script without spaces gives one word
per run. No more than the first 4,096 words of a text are read.
"""

import itertools
import re
import unicodedata

SEPARATOR = "=== PART TWO ==="  # between the two texts that a single agent writes
WORDS_READ = 4096

_MARKS = "".join(c for c in map(chr, range(0x300, 0x1AC0)) if unicodedata.category(c)[0] == "M")
_WORD = re.compile(
    r"(?:https?://|www\.)\S*[^\s.,;:!?)\]}'\"]"  # a URL
    rf"|\w+(?:(?:'(?=\w)|(?<=\d)[.,](?=\d)|[{_MARKS}]+)\w*)*"
)


def words(text: str) -> list[str]:
    text = text.lower().replace("\u2019", "'")
    return [match[0] for match in itertools.islice(_WORD.finditer(text), WORDS_READ)]


def split(responses: list[str]) -> tuple[str, str] | None:
    """The two texts of a team. A single agent's response has to hold SEPARATOR exactly once; where
    it does not, there is no telling which part is which: None, and every reward is 0."""
    texts = responses[0].split(SEPARATOR) if len(responses) == 1 else responses
    if len(responses) == 1 and len(texts) != 2:
        return None
    if len(texts) != 2:
        raise ValueError(f"the writing rewards are for 1 or 2 agents, not {len(responses)}")
    return texts[0], texts[1]


def ramp(value: float, zero: float, one: float) -> float:
    """0 up to `zero`, 1 from `one` on, linear between; `one` may be the smaller of the two."""
    return min(max((value - zero) / (one - zero), 0.0), 1.0)
