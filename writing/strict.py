"""How a pair of responses to a post (`tldr`) or to an abstract (`arxiv`) is scored: strict rewards.

They measure what the paper's rewards (paper.py) measure, structure, consistency and
coherence, each in [0, 1], and do not pay for what can be had without writing. No model is needed,
every count can be repeated by hand (`tldr` has an example), and a joint response takes less than
2 ms. Words, sentences, content words and stems are explained in text.py. An *anchor* is a
content word of the source that would not fit any other source (GENERIC_WORDS: author, problem,
result, ...). The words of transitions, but for EVERYDAY ones, are left out of the counts. Every
part is in [0, 1], linear between the two limits, and logged as metric/<part>:

    structure   = trust x (2 ratio + vocabulary) / 3
    consistency = trust x (shared + focus) / 2
    coherence   = trust x connected
    trust       = length x order x balance x varied x grounded x specific x linked x original

| part       | what is counted                                              | 0 at  | 1 at      |
|------------|--------------------------------------------------------------|-------|-----------|
| ratio      | words of the second response per word of the first: tldr [1] | 1.1   | 1.6 - 3.2 |
|            |                                                    arxiv [1] | 0.8   | 1.0 - 1.3 |
| vocabulary | the same of different content words:                    tldr | 1.3   | 2.0       |
|            |                                                    arxiv [1] | 0.5   | 0.7 - 1.3 |
| shared     | anchors that both name, per anchor of the one with fewer     | 0     | 1/4       |
| focus      | of the ten anchors the source says most often: those named   | 0     | 4/10      |
| connected  | 1 - 1/2^k for k kinds of transitions that join something [2] |       |           |
| length     | words of a response:                                tldr [1] | 3     | 8 - 256   |
|            |                                                    arxiv [1] | 64    | 128 - 256 |
| order      | faults ("the of", "cat, hat, sun, mat") per word (+ 25) [3]  | 0.030 | 0.012     |
| balance    | signs of a verb per word,                                    | 0.02  | 0.05      |
|            | times content words per word                                 | 0.22  | 0.32      |
| varied     | different content words per content word,                    | 0.4   | 0.65      |
|            | times words in a six-word pattern that comes again           | 0.6   | 0.25      |
| grounded   | anchors per different content word: tldr, first response     | 0.08  | 0.30      |
|            |                                     tldr, second             | 0.14  | 0.34      |
|            |                                     arxiv, first             | 0.08  | 0.22      |
|            |                                     arxiv, second            | 0.15  | 0.35      |
|            | times words in sentences that name two different anchors     | 0.15  | 0.45      |
|            | times the number of different anchors                        | 1     | 4         |
| specific   | GENERIC_WORDS per different content word of the two:    tldr | 0.42  | 0.32      |
|            |                                                        arxiv | 0.55  | 0.42      |
| linked     | neighbouring anchors of a sentence that stand together in    | 0.35  | 0.55      |
|            | the source: in the same or adjoining 24ths of it [4]         |       |           |
| original   | words copied from the source, or by the second from the      | 0.88  | 0.60      |
|            | first (`copied` in text.py);                         |       |           |
|            | anchors of the second response that the first does not name  | 0.1   | 0.4       |

length, order, balance, varied and grounded are those of the worse response; original is the least
of its four figures. [1] 0 again: ratio at 5.0 and 1.5, vocabulary at 1.7, length at 320. [2] One of
the paper's twelve kinds counts once, and at most one transition per sentence: one that opens the
sentence or follows a mark, or a conjunction (JOINING) after three unmarked words; it is not next to
another transition, three words follow, and so does an anchor. Looked at are the second response of
tldr and both of arxiv (their mean). Where more than one word in twelve begins a transition (but for
EVERYDAY ones), the worth falls in proportion. [3] Also that of both together. [4] Those of both
together, or of the second alone if that is less. A 24th is at least six words; one link that holds
is added to those found.

What this cannot see: whether a sentence is true (one "not" too many) or makes sense; an answer to
the post in place of a summary; most of grammar. Some of these still earn something: a copy of the
source with every second content word replaced, templates whose blanks are filled with anchors that
stand together, and, where the source is so short that everything stands together, an honest
response whose content words are exchanged. It undervalues a good summary that shares few words
with its post. It reads English: other languages earn 0.
"""

import functools
import itertools
import math
import re
from dataclasses import dataclass

from writing.text import (
    Band,
    content,
    copied,
    faults,
    find_transitions,
    neighbours,
    ramp,
    read,
    repeated,
    share,
    split,
    stem,
    verbs,
)
from writing.words import EVERYDAY, GENERIC_WORDS, JOINING

SOURCE_READ = 4096  # words of a source; the rest is not looked at
_LABELS = re.compile(r"(?m)^(SUBREDDIT:.*|TITLE:|POST:|TL;DR:)")  # of a post, no words of it
_GENERIC = frozenset(map(stem, GENERIC_WORDS))


@dataclass(frozen=True)
class Kind:
    """What a task asks for."""

    field: str  # of the item: where its source is
    length: Band
    ratio: Band
    vocabulary: Band
    grounded: tuple[tuple[float, float], tuple[float, float]]  # per response: 0 at, 1 at
    specific: tuple[float, float]
    connected: tuple[int, ...]  # the responses whose transitions count


TLDR = Kind(
    field="prompt",
    length=Band(3, 8, 256, 320),
    ratio=Band(1.1, 1.6, 3.2, 5.0),
    vocabulary=Band(1.3, 2.0),
    grounded=((0.08, 0.30), (0.14, 0.34)),
    specific=(0.42, 0.32),
    connected=(1,),
)
ARXIV = Kind(
    field="abstract_text",
    length=Band(64, 128, 256, 320),
    ratio=Band(0.8, 1.0, 1.3, 1.5),
    vocabulary=Band(0.5, 0.7, 1.3, 1.7),
    grounded=((0.08, 0.22), (0.15, 0.35)),  # a background may leave the abstract further
    specific=(0.55, 0.42),
    connected=(0, 1),
)


class Source:
    """A post or an abstract: where its anchors stand, and what a copy of it would look like."""

    def __init__(self, text: str):
        words = read(_LABELS.sub("", text), SOURCE_READ)
        stretch = max(6.0, len(words.words) / 24)  # words; fewer than six say nothing
        self.places: dict[str, set[int]] = {}  # anchor: the stretches it stands in
        count: dict[str, int] = {}
        for number, word in enumerate(content(words)):
            if word and word not in _GENERIC:
                self.places.setdefault(word, set()).add(int(number / stretch))
                count[word] = count.get(word, 0) + 1
        self.around = {
            word: {place + step for place in places for step in (-1, 0, 1)}
            for word, places in self.places.items()
        }
        self.keys = set(sorted(count, key=count.get, reverse=True)[:10])  # ties: the earlier one
        self.neighbours = neighbours(words.words)


_source = functools.lru_cache(512)(Source)


class Part:
    """One response, read against the source. The words of its transitions, but for EVERYDAY ones,
    are no content words, and are left out where words are counted or compared (`bare`)."""

    def __init__(self, response: str, source: Source):
        self.text = read(response)
        self.transitions = [find_transitions(self.text, each) for each in self.text.sentences]
        joints = {
            place
            for start, stop, _, phrase in itertools.chain(*self.transitions)
            if phrase not in EVERYDAY
            for place in range(start, stop)
        }
        self.bare = [word for i, word in enumerate(self.text.words) if i not in joints]
        self.size = len(self.bare)
        found = enumerate(content(self.text))
        self.content = ["" if i in joints else word for i, word in found]
        self.tokens = [word for word in self.content if word]
        self.types = set(self.tokens)
        self.named = [word in source.places for word in self.content]
        self.anchors = self.types & source.places.keys()

    def sentences(self):
        """The anchors of each sentence, in their order, and the sentence."""
        for sentence in self.text.sentences:
            yield [self.content[i] for i in sentence if self.named[i]], sentence


# --- the parts: (kind, source, first response, second response) -> [0, 1] -------------------------


def ratio(kind: Kind, source: Source, one: Part, two: Part) -> float:
    """The second response is longer by as much as the task asks."""
    return kind.ratio(share(two.size, one.size))


def vocabulary(kind: Kind, source: Source, one: Part, two: Part) -> float:
    """The second response uses more content words, by as much as the task asks."""
    return kind.vocabulary(share(len(two.types), len(one.types)))


def shared(kind: Kind, source: Source, one: Part, two: Part) -> float:
    """Both responses name the same things of the source."""
    return ramp(
        share(len(one.anchors & two.anchors), min(len(one.anchors), len(two.anchors))), 0, 0.25
    )


def focus(kind: Kind, source: Source, one: Part, two: Part) -> float:
    """Together they name what the source says most often."""
    return ramp(share(len((one.anchors | two.anchors) & source.keys), len(source.keys)), 0, 0.4)


def connected(kind: Kind, source: Source, one: Part, two: Part) -> float:
    """Transitions join sentences or clauses that are about the source."""
    return sum(_connected((one, two)[i]) for i in kind.connected) / len(kind.connected)


def _connected(part: Part) -> float:
    text, categories, crammed = part.text, set(), 0
    for sentence, found in zip(text.sentences, part.transitions, strict=True):
        starts, stops = {start for start, *_ in found}, {stop for _, stop, *_ in found}
        counted = set()
        for start, stop, category, phrase in found:
            opens = start == sentence.start or text.after[start - 1] == ","
            alone = start - sentence.start < 3 or any(text.after[start - 3 : start])
            joins = opens or (phrase in JOINING and not alone)
            goes_on = stop + 3 <= sentence.stop and any(part.named[stop : sentence.stop])
            if joins and goes_on and stop not in starts and start not in stops:
                counted = counted or {category}
            crammed += phrase not in EVERYDAY
        categories |= counted
    return (1 - 0.5 ** len(categories)) * min(1.0, part.size / (12 * max(crammed, 1)))


def length(kind: Kind, source: Source, one: Part, two: Part) -> float:
    """Neither response is too short or too long."""
    return min(kind.length(part.size) for part in (one, two))


def order(kind: Kind, source: Source, one: Part, two: Part) -> float:
    """Words come in an English order."""
    found = [(faults(part.text), part.size) for part in (one, two)]
    found.append(tuple(map(sum, zip(*found, strict=True))))
    return min(ramp(count / (size + 25), 0.030, 0.012) for count, size in found)


def balance(kind: Kind, source: Source, one: Part, two: Part) -> float:
    """There are verbs, not only nouns, and content words, not only filler."""
    return min(
        ramp(share(verbs(part.text), part.size), 0.02, 0.05)
        * ramp(share(len(part.tokens), part.size), 0.22, 0.32)
        for part in (one, two)
    )


def varied(kind: Kind, source: Source, one: Part, two: Part) -> float:
    """Neither words nor the frames of sentences come again and again."""
    return min(
        ramp(share(len(part.types), len(part.tokens)), 0.4, 0.65)
        * ramp(share(repeated(part.text), len(part.text.words)), 0.6, 0.25)
        for part in (one, two)
    )


def grounded(kind: Kind, source: Source, one: Part, two: Part) -> float:
    """Both responses say what the source says, in most of their sentences."""
    worth = []
    for part, limits in zip((one, two), kind.grounded, strict=True):
        about = sum(
            len(sentence) for anchors, sentence in part.sentences() if len(set(anchors)) > 1
        )
        worth.append(
            ramp(share(len(part.anchors), len(part.types)), *limits)
            * ramp(share(about, len(part.text.words)), 0.15, 0.45)
            * ramp(len(part.anchors), 1, 4)
        )
    return min(worth)


def specific(kind: Kind, source: Source, one: Part, two: Part) -> float:
    """The pair would not fit any other source as well."""
    types = one.types | two.types
    return ramp(share(len(types & _GENERIC), len(types)), *kind.specific)


def linked(kind: Kind, source: Source, one: Part, two: Part) -> float:
    """What stands together in a response stands together in the source."""
    worth = []
    for parts in ([one, two], [two]):
        held = links = 1
        for anchors, _ in itertools.chain(*(part.sentences() for part in parts)):
            for left, right in itertools.pairwise(anchors):
                if left != right:
                    links += 1
                    held += not source.around[left].isdisjoint(source.places[right])
        worth.append(ramp(held / links, 0.35, 0.55))
    return min(worth)


def original(kind: Kind, source: Source, one: Part, two: Part) -> float:
    """Neither copies the source; the second response does not copy the first, and adds to it."""
    most = max(
        copied(one.bare, source.neighbours),
        copied(two.bare, source.neighbours),
        copied(two.bare, neighbours(one.bare)),
    )
    added = share(len(two.anchors - one.anchors), len(two.anchors))
    return min(ramp(most, 0.88, 0.60), ramp(added, 0.1, 0.4))


TRUST = (length, order, balance, varied, grounded, specific, linked, original)
EARNED = (ratio, vocabulary, shared, focus, connected)


# --- the rewards ----------------------------------------------------------------------------------


def _strict(kind: Kind, item: dict, responses: list[str]) -> dict[str, float]:
    texts = split(responses) or ("", "")
    source = _source(item[kind.field])
    one, two = (Part(text, source) for text in texts)
    part = {measure.__name__: measure(kind, source, one, two) for measure in TRUST + EARNED}
    trust = math.prod(part[measure.__name__] for measure in TRUST)
    return {
        "structure": trust * (2 * part["ratio"] + part["vocabulary"]) / 3,
        "consistency": trust * (part["shared"] + part["focus"]) / 2,
        "coherence": trust * part["connected"],
        **{f"metric/{name}": value for name, value in part.items()},
    }


def tldr(item: dict, responses: list[str]) -> dict[str, float]:
    """A concise and a detailed summary of item["prompt"], 0 to 3. An example by hand:

    post    TITLE: My bike was stolen
            POST: My bike was stolen from the yard on Monday. The camera shows a man with a red van.
            The police will not watch the video, and my insurance wants a receipt that I lost. What
            can I do?
    first   My bike was stolen from the yard, and the police are no help.
    second  A camera filmed a man and a red van. However, the police refuse to watch, and I lost my
            receipt.

    Content words: bike stolen yard police help; camera filmed man red van police refuse watch lost
    receipt. All are anchors but help (generic), filmed and refuse (not in the post).

    length       13 and 19 words (without However)                                             1
    order        no fault                                                                      1
    balance      verbs: was, are, 2/13; filmed, to watch, I lost, 3/19. Content: 5/13, 10/19   1
    varied       all of the 5 and of the 10 content words differ                               1
    grounded     4/5 and 8/10 of them are anchors, in every sentence two or more               1
    specific     1 of 14 different content words fits any post                                 1
    linked       42 words: stretches of six. bike-stolen, stolen-yard, camera-man, man-red,
                 red-van, police-watch, lost-receipt hold; yard-police and watch-lost do not,
                 for one stands in the second stretch and one in the fourth, or in the fifth
                 and the seventh: (7 + 1) / (9 + 1) = 0.8; second alone (5 + 1) / (6 + 1)      1
    original     copied: "my bike was stolen from the yard", and the "the" between yard and
                 police, 8/13; "a man", "a red van the", 6/19 (3/5 and 3/10 of the content
                 words are less): (0.88 - 0.6154) / (0.88 - 0.60)                         0.9451
    trust                                                                                 0.9451

    ratio        19/13 = 1.4615: (1.4615 - 1.1) / (1.6 - 1.1)                             0.7231
    vocabulary   10/5 = 2                                                                      1
    structure    0.9451 x (2 x 0.7231 + 1) / 3                                            0.7706
    shared       police: 1 of 4 anchors                                                        1
    focus        bike, stolen (both twice), yard, Monday, camera, man, red, van, police, watch:
                 9 of these 10 are named                                                       1
    consistency  0.9451 x (1 + 1) / 2                                                     0.9451
    connected    However opens a sentence, and police follows: k = 1                         0.5
    coherence    0.9451 x 0.5                                                             0.4725
                                                                                   total  2.1882
    """
    return _strict(TLDR, item, responses)


def arxiv(item: dict, responses: list[str]) -> dict[str, float]:
    """Background and motivation, methods and implications, of item["abstract_text"]; 0 to 3."""
    return _strict(ARXIV, item, responses)


tldr.maximum = arxiv.maximum = 3.0
