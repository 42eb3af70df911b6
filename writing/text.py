"""Reading prose: its words and sentences, and what can be said of a text by itself.

A word is a run of letters and digits of any script with its accents (`\\w`, so foo_bar is one),
with apostrophes inside it (don't), or a number with its points and commas (10,000 or 2.3), or a
whole URL. Everything else, hyphens and emoji included, only separates words. Words are compared in
lower case, with the curly apostrophe as the straight one. A script without spaces gives one word
per run. This rule counts, everywhere: lengths, vocabularies, copies, transitions.

A sentence ends at . ! ? or an ellipsis before a blank (not after one letter or an abbreviation
such as "et al."), at an empty line, and before a list item.

Function words hold a sentence together (the, of, because); all others are content words. Two
content words are the same if their stems are: seven letters at most, without the commonest endings.

Time is linear in the length of a text, and no more than its first 1,024 words are measured.
"""

import functools
import itertools
import math
import re
import unicodedata
from dataclasses import dataclass

from writing.words import AUXILIARIES, FUNCTION_WORDS, NEVER, SUBJECTS, TO_OR_MODAL, TRANSITIONS

SEPARATOR = "=== PART TWO ==="  # between the two texts that a single agent writes
WORDS_READ = 1024

_MARKS = "".join(c for c in map(chr, range(0x300, 0x1AC0)) if unicodedata.category(c)[0] == "M")
_TOKEN = re.compile(
    r"((?:https?://|www\.)\S*[^\s.,;:!?)\]}'\"])"  # 1: a URL
    rf"|(\w+(?:(?:'(?=\w)|(?<=\d)[.,](?=\d)|[{_MARKS}]+)\w*)*)"  # 2: a word or a number
    r"|([.!?…]+|\n\s*(?:[-*•#]|\d+[.)]\s|\n))"  # 3: the end of a sentence, perhaps
    r"|([,;:()\[\]/\u2013\u2014]|\s-+\s)"  # 4: a mark inside a sentence
)
_ENDINGS = (("ies", "y"), ("ied", "y"), ("ing", ""), ("ed", ""), ("es", ""), ("ly", ""), ("s", ""))
_ABBREVIATIONS = {"al", "dr", "eq", "fig", "mr", "mrs", "vs"}


# --- words ----------------------------------------------------------------------------------------


@dataclass
class Text:
    """A text as words, what follows each ("", "," or "."), and its sentences as ranges of words."""

    words: list[str]
    after: list[str]
    sentences: list[range]


def read(text: str, limit: int = WORDS_READ) -> Text:
    """The first `limit` words of a text and its sentences; the last one needs no full stop."""
    text = text.lower().replace("\u2019", "'")
    words, after, ends = [], [], [0]
    for match in _TOKEN.finditer(text):
        kind = match.lastindex
        if kind < 3:
            if len(words) == limit:
                break
            words.append(match[0])
            after.append("")
        elif not words or after[-1] == ".":
            continue
        elif kind == 4:
            after[-1] = ","
        elif _ends(text, match, words[-1]):
            after[-1] = "."
            ends.append(len(words))
    if words and after[-1] != ".":
        after[-1] = "."
        ends.append(len(words))
    return Text(words, after, [range(*pair) for pair in itertools.pairwise(ends)])


def _ends(text: str, mark: re.Match, word: str) -> bool:
    """Whether a sentence ends at this mark, which follows this word: not in 2.3, e.g., file.py."""
    if mark[0][0] == "\n":
        return True
    if mark[0] == "." and (len(word) == 1 or word in _ABBREVIATIONS):
        return mark.end() == len(text)
    return text[mark.end() : mark.end() + 1] in ("", " ", "\n", "\t", *"\"')]*”")


@functools.lru_cache(1 << 16)
def stem(word: str) -> str:
    """studies, studied, studying -> study; relationship, relationships -> relatio."""
    word = re.sub(r"'s?$", "", word)
    if len(word) < 4 or not word.isalpha():
        return word
    for ending, left in _ENDINGS:
        if word.endswith(ending) and not word.endswith("ss") and len(word) - len(ending) >= 3:
            word = word[: -len(ending)] + left
            break
    if len(word) > 3 and (word[-1] == "e" or word[-1] == word[-2]):
        word = word[:-1]
    return word[:7]


def content(text: Text) -> list[str]:
    """The stem of each content word, "" in the place of a function word."""
    return ["" if word in FUNCTION_WORDS else stem(word) for word in text.words]


def split(responses: list[str]) -> tuple[str, str] | None:
    """The two texts of a team. A single agent's response has to hold SEPARATOR exactly once; where
    it does not, there is no telling which part is which: None, and every reward is 0."""
    texts = responses[0].split(SEPARATOR) if len(responses) == 1 else responses
    if len(responses) == 1 and len(texts) != 2:
        return None
    if len(texts) != 2:
        raise ValueError(f"the writing rewards are for 1 or 2 agents, not {len(responses)}")
    return texts[0], texts[1]


# --- numbers --------------------------------------------------------------------------------------


def share(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


def ramp(value: float, zero: float, one: float) -> float:
    """0 up to `zero`, 1 from `one` on, linear between; `one` may be the smaller of the two."""
    return min(max((value - zero) / (one - zero), 0.0), 1.0)


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


# --- prose or salad -------------------------------------------------------------------------------


def faults(text: Text) -> int:
    """Words that are not where English puts them. One each for
    - a word that never follows the one before it: "the of", "to accepted", "a idea" (NEVER)
    - a content word after eight others, with nothing between but commas, and, or, a, an, the
    - a function word after nine others
    - a word after 32 others without any mark
    - a piece of one or two words between marks, after three such pieces: "cat, red hat, sun, mat,"
    """
    count = plain = function = piece = short = 0
    for i, word in enumerate(text.words):
        mark = text.after[i]
        count += misplaced(word, mark or text.words[i + 1])
        if word in FUNCTION_WORDS:
            function += 1
            plain = plain if word in ("and", "or", "a", "an", "the") else 0
        else:
            plain, function = plain + 1, 0
        piece += 1
        count += (plain > 8) + (function > 9) + (piece > 32)
        if mark:
            short = short + 1 if piece < 3 else 0
            count += short > 3
            piece, plain = 0, 0 if mark == "." else plain
    return count


def misplaced(word: str, follower: str) -> bool:
    """Whether `follower`, a word or a mark, never comes right after this word."""
    if follower in NEVER.get(word, ()):
        return True
    if len(follower) < 5 or not follower.isalpha():  # an SQL query, to wed
        return False
    if word in TO_OR_MODAL:
        ed = follower.endswith("ed") and not follower.endswith("eed")
        return ed or (word != "to" and follower.endswith("ing") and follower != "bring")
    if word == "a":
        return follower[0] in "aei" and not follower.startswith("eu")
    return word == "an" and follower[0] not in "aeiouh"


def verbs(text: Text) -> int:
    """Signs of a verb: an auxiliary, -ed, -ing, "to" or a subject pronoun before a content word."""
    count = 0
    for i, word in enumerate(text.words):
        if word in AUXILIARIES or (len(word) > 4 and word.endswith(("ed", "ing"))):
            count += 1
        elif (word in SUBJECTS or word == "to") and not text.after[i]:
            count += text.words[i + 1] not in FUNCTION_WORDS
    return count


def repeated(text: Text) -> int:
    """Words inside a six-word pattern, its content words left blank, that occurs more than once."""
    blank = [word if word in FUNCTION_WORDS else "" for word in text.words]
    first: dict[tuple, int] = {}
    hit = [False] * len(blank)
    for i, pattern in enumerate(zip(*(blank[step:] for step in range(6)), strict=False)):
        if pattern.count("") > 4:  # says nothing about how the sentence is built
            continue
        if (seen := first.setdefault(pattern, i)) != i:
            hit[i : i + 6] = hit[seen : seen + 6] = [True] * 6
    return sum(hit)


def neighbours(words: list[str]) -> tuple[set, set]:
    """The pairs of words that stand one and two places apart, for `copied`. Both sets hold also
    each pair with a content word in it that stands up to three places apart: a word may be left
    out of a copy, or put into it."""
    apart = [set(zip(words, words[distance:], strict=False)) for distance in (1, 2, 3)]
    loose = {pair for pair in set().union(*apart) if not FUNCTION_WORDS.issuperset(pair)}
    return apart[0] | loose, apart[1] | loose


def copied(words: list[str], known: tuple[set, set]) -> float:
    """Share of the words, or of the content words if that is more, that have two neighbours, among
    the two before and the two after, which are their neighbours in the other text, too. Replacing,
    dropping or adding every third word does not hide a copy."""
    one, two = (
        [pair in there for pair in zip(words, words[distance:], strict=False)]
        for distance, there in enumerate(known, 1)
    )
    around = zip([*one, 0], [0, *one], [*two, 0, 0], [0, 0, *two], strict=False)
    same = [sum(found) > 1 for found in around][: len(words)]
    plain = [found for word, found in zip(words, same, strict=True) if word not in FUNCTION_WORDS]
    return max(share(sum(same), len(words)), share(sum(plain), len(plain)))


# --- transitions ----------------------------------------------------------------------------------


def _phrases() -> dict[str, list[tuple[list[str], str, str]]]:
    """First word of a transition: (its other words, category, phrase), the longest first. A phrase
    of several categories belongs to the first of them; "because" is our addition."""
    categories = {"because": "cause_effect"}
    for category, phrases in TRANSITIONS.items():
        categories |= {phrase: categories.get(phrase, category) for phrase in phrases}
    table: dict[str, list] = {}
    for phrase in sorted(categories, key=lambda phrase: -len(phrase.split())):
        first, *rest = phrase.split()
        table.setdefault(first, []).append((rest, categories[phrase], phrase))
    return table


PHRASES = _phrases()


def find_transitions(text: Text, sentence: range) -> list[tuple[int, int, str, str]]:
    """(start, stop, category, phrase) of each transition in a sentence, the longest match first."""
    found, i = [], sentence.start
    while i < sentence.stop:
        for rest, category, phrase in PHRASES.get(text.words[i], ()):
            stop = i + 1 + len(rest)
            if stop <= sentence.stop and text.words[i + 1 : stop] == rest:
                found.append((i, stop, category, phrase))
                i = stop - 1
                break
        i += 1
    return found
