"""Coop's problems: short Python functions that helpers and a main function can divide.

A problem is predicate x transform x reducer, over a list of integers or of words. Each table
maps a name to (English, Python); {k} and {m} are small integers, {c} is a letter.
"""

import functools
import hashlib
import itertools
import random
import re
from collections.abc import Iterator

_INT_PREDICATES = {
    "even": ("even numbers", "x % 2 == 0"),
    "odd": ("odd numbers", "x % 2 == 1"),
    "positive": ("positive numbers", "x > 0"),
    "negative": ("negative numbers", "x < 0"),
    "multiple": ("multiples of {k}", "x % {k} == 0"),
    "greater": ("numbers greater than {k}", "x > {k}"),
    "less": ("numbers less than {k}", "x < {k}"),
    "ending": ("numbers ending in {k}", "abs(x) % 10 == {k}"),
    "one-digit": ("one-digit numbers", "abs(x) < 10"),
    "two-digit": ("two-digit numbers", "9 < abs(x) < 100"),
    "": ("numbers", ""),
}
_INT_TRANSFORMS = {
    "square": ("squares", "x * x"),
    "cube": ("cubes", "x ** 3"),
    "double": ("doubles", "2 * x"),
    "half": ("floored halves", "x // 2"),
    "absolute": ("absolute values", "abs(x)"),
    "opposite": ("opposites", "-x"),
    "successor": ("successors", "x + 1"),
    "last-digit": ("last digits", "abs(x) % 10"),
    "remainder": ("remainders modulo {m}", "x % {m}"),
    "": ("", ""),
}
_WORD_PREDICATES = {
    "vowel": ("words starting with a vowel", 'x[0] in "aeiou"'),
    "starting": ('words starting with "{c}"', 'x[0] == "{c}"'),
    "ending": ('words ending in "{c}"', 'x[-1] == "{c}"'),
    "containing": ('words containing "{c}"', '"{c}" in x'),
    "longer": ("words longer than {k}", "len(x) > {k}"),
    "shorter": ("words shorter than {k}", "len(x) < {k}"),
    "k-letter": ("{k}-letter words", "len(x) == {k}"),
    "palindrome": ("palindromes", "x == x[::-1]"),
    "": ("words", ""),
}
_WORD_TRANSFORMS = {
    "length": ("lengths", "len(x)"),
    "upper": ("uppercase forms", "x.upper()"),
    "reversal": ("reversals", "x[::-1]"),
    "first": ("first letters", "x[0]"),
    "last": ("last letters", "x[-1]"),
    "doubled": ("doubled forms", "x + x"),
    "tail": ("tails", "x[1:]"),
    "": ("", ""),
}
# Every reducer does something: with the bare list as an answer, a helper that returns the list
# would leave the main function nothing to do but to pass it on.
_REDUCERS = {
    "sum": ("the sum of the {}", "sum({})"),
    "largest": ("the largest of the {}", "max({})"),
    "smallest": ("the smallest of the {}", "min({})"),
    "sorted": ("the sorted list of the {}", "sorted({})"),
    "reversed": ("the {}, in reverse order", "{}[::-1]"),
    "last": ("the last of the {}", "{}[-1]"),
    "count": ("the number of {}", "len({})"),
    "joined": ("the {}, joined with dashes", '"-".join({})'),
    "total": ("the total length of the {}", 'len("".join({}))'),
    "longest": ("the longest of the {}", "max({}, key=len)"),
}
_INT_REDUCERS = ("sum", "largest", "smallest", "sorted", "reversed", "last", "count")
_WORD_REDUCERS = ("sorted", "reversed", "last", "count", "joined", "total", "longest")
_INTEGERS = (*range(-40, 41), *range(-195, 196, 10), *range(-99, 100, 7))
_WORDS = """
    apple arm at bat be bird bread bus candle cat civic cloud cup dad deed do dog dolphin eagle
    echo eel egg elephant eve fish garden go goose grape green hat house idea ink iron island kayak
    kitchen lamp lantern lemon level lion lizard madam melon mirror mom moon mouse needle nest net
    night noon nut ocean octopus olive onion orange owl ox paper pearl peep pencil piano picture
    planet pop queen radar rainbow refer rest river robot rotor salt sand seal sheep snail solos
    stone storm sun table tenet tiger toast train tree umbrella uncle under unit up us violin wagon
    water window winter wow yarn zebra
"""
_DOMAINS = {
    "int": (_INT_PREDICATES, _INT_TRANSFORMS, _INTEGERS),
    "word": (_WORD_PREDICATES, _WORD_TRANSFORMS, tuple(_WORDS.split())),
}
# A part that only does one of these adds nothing: a stand-in does it too (programs/teams.py).
_DONE_BY_STAND_INS = ("length", "reversal")


def comprehension(predicate: str, transform: str, source: str = "xs") -> str:
    """The list of the transformed elements of source that satisfy predicate ("" means none)."""
    if not predicate and not transform:
        return source
    return f"[{transform or 'x'} for x in {source}{' if ' + predicate if predicate else ''}]"


@functools.cache
def _compositions(agents: int) -> dict[str, list[tuple]]:
    """Every (domain, predicate, transform, reducer), from four agents on with a second predicate,
    divided into splits by a hash of its names; which predicate comes first is no difference."""
    splits = {"train": [], "dev": [], "test": []}
    pointless = {(change, "count") for change in _INT_TRANSFORMS | _WORD_TRANSFORMS if change}
    pointless |= {(one, by) for one in ("first", "last") for by in ("total", "longest")}
    for domain, (predicates, transforms, _) in _DOMAINS.items():
        seconds = [(name,) for name in predicates if name] if agents > 3 else [()]
        for predicate, transform in itertools.product(predicates, transforms):
            parts = predicate and transform and transform not in _DONE_BY_STAND_INS
            numeric = domain == "int" or transform == "length"
            reducers = _INT_REDUCERS if numeric else _WORD_REDUCERS
            for reducer, second in itertools.product(reducers, seconds):
                if not (parts if agents > 2 else predicate or transform):
                    continue
                if (transform, reducer) in pointless or predicate in second:
                    continue
                text = "/".join((domain, *sorted((predicate, *second)), transform, reducer))
                digest = hashlib.md5(text.encode()).digest()
                held_out = {0: "dev", 1: "test"}.get(digest[0] % 14) if predicate else None
                names = (domain, predicate, transform, reducer, *second)
                splits[held_out or "train"].append(names)
    return splits


def _compose(rng: random.Random, names: tuple[str, ...]) -> dict:
    """A problem of the composition `names`, still without tests."""
    predicates, transforms, _ = _DOMAINS[names[0]]

    def drawn() -> dict:
        k = rng.randint(4, 6) if names[0] == "word" else rng.randint(2, 9)
        return {"k": k, "m": rng.randint(3, 9), "c": rng.choice("elnrst")}

    first = drawn()
    noun, predicate = (text.format(**first) for text in predicates[names[1]])
    change, transform = (text.format(**first) for text in transforms[names[2]])
    phrase, reducer = _REDUCERS[names[3]]
    parts = (predicate, transform, reducer)
    if second := names[4:]:
        more = drawn()
        among, other = (text.format(**more) for text in predicates[second[0]])
        noun, parts = f"{noun} among the {among}", (*parts, other)
    subject = f"{change} of the {noun} in xs" if change else f"{noun} in xs"
    # The solution's helper and main divide the work: the predicate, or else the transform.
    predicate, transform, reducer = whole(parts)
    main = comprehension("aux(x)", transform) if predicate else comprehension("", "aux(x)")
    return {
        "prompt": f'def solve(xs):\n    """Return {phrase.format(subject)}."""\n',
        "entry_point": "solve",
        "setup": "",
        "composition": names,
        "parts": parts,
        "solution": f"def aux(x):\n    return {predicate or transform}\n\n\n"
        f"def solve(xs):\n    return {reducer.format(main)}\n",
    }


def whole(parts: tuple[str, ...]) -> tuple[str, str, str]:
    """(predicate, transform, reducer) of the parts of a problem, which may have two predicates."""
    predicate, transform, reducer, *second = parts
    return " and ".join([predicate, *second]), transform, reducer


def _tests(rng: random.Random, domain: str, parts: tuple[str, ...]) -> list[str]:
    """Five unit tests that only the whole composition passes; none where there are hardly any.

    In every input the predicate keeps some elements and drops some, and the answer is not what it
    would be without the predicate, one of two, the transform or both. The five answers differ. What
    the five inputs leave open is asked beside them.
    """
    predicate, transform, reducer = whole(parts)
    pairs = [(predicate, transform), ("", transform), (predicate, ""), ("", "")]
    pairs += [(one, transform) for one in (parts[0], *parts[3:])]
    solve, *partial = (
        _python(f"lambda xs: {reducer.format(comprehension(*pair))}")
        for pair in dict.fromkeys(pairs)
    )

    pool = _DOMAINS[domain][2]
    kept = _python(f"lambda xs: {comprehension(predicate, 'x')}")(pool)
    dropped, inputs = sorted(set(pool) - set(kept)), []
    for tried in range(40 if len(kept) > 3 else 0):
        if tried == 10 and not inputs:
            break
        xs = rng.choices(kept, k=rng.randint(2, 6))
        xs += rng.choices(dropped, k=rng.randint(1, len(parts))) if predicate else []
        rng.shuffle(xs)
        others = [0, 1, -1, "", [], None, xs, *map(solve, inputs)]  # True == 1: constant stubs
        if _answer(solve, xs) not in [*others, *(_answer(part, xs) for part in partial)]:
            inputs.append(xs)
        if len(inputs) == 5:
            asked = [[xs] for xs in inputs]
            for number, xs in enumerate(_open(inputs, whole(parts))):
                asked[1 + number % 4].append(xs)  # the first test stays one call: it is cheapest
            tests = [[f"solve({xs!r}) == {solve(xs)!r}" for xs in lists] for lists in asked]
            return [f"assert {' and '.join(calls)}" for calls in tests]
    return []


def _open(inputs: list[list], parts: tuple[str, str, str]) -> list[list]:
    """Short inputs that tell from the solution those of its mutants (DeMillo et al. 1978) which
    `inputs` do not: an edge, such as k or zero, judged otherwise; repetitions left out; the
    order turned round; the opposite of a number."""
    predicate, transform, reducer = parts
    keeps = _python(f"lambda x: {predicate or True}")
    change = _python(f"lambda x: {transform or 'x'}")
    reduce = _python(f"lambda ys: {reducer.format('ys')}")
    rng = random.Random(str(inputs))
    integers = isinstance(inputs[0][0], int)
    edges = [rng.choice(alike) for alike in _edges(predicate, integers)]

    def caught(xs: list) -> set:
        if any(-x in xs for x in xs if integers and x):
            return set()  # what becomes of the two could cancel out
        kept = [change(x) for x in xs if keeps(x)]
        mutants = {e: [change(x) for x in xs if keeps(x) != (x == e)] for e in {*edges} & {*xs}}
        mutants |= {"once": [*dict.fromkeys(kept)], "order": kept[::-1]}
        mutants |= {"sign": [-y for y in kept]} if integers else {}
        answer = _answer(reduce, kept)
        wrong = {name for name, ys in mutants.items() if _answer(reduce, ys) != answer}
        return wrong if answer is not None else set()

    known = set().union(*map(caught, inputs))
    drawn = [rng.choices(edges, k=rng.randint(2, 6)) for _ in range(8)]
    drawn += [[*xs[:2], *xs[:2]] for xs in inputs[:2]]
    kept = [x for xs in inputs for x in xs if keeps(x)]
    for edge in (edge for edge in edges if edge not in known):
        for other in (rng.choice(edges), rng.choice(kept)):
            drawn += [[edge], [edge, other], [other, edge]]
    tried, found = [(xs, caught(xs)) for xs in drawn], []
    while True:
        xs, new = max(tried, key=lambda one: (len(one[1] - known), -len(one[0])))
        if new <= known:
            return found
        found.append(xs)
        known |= new


@functools.cache
def _edges(predicate: str, integers: bool) -> list[list]:
    """Groups of edges of which one is as good as another."""
    keeps = _python(f"lambda x: {predicate or True}")
    numbers = {0, *map(int, re.findall(r"\d+", predicate))}
    numbers |= {10 * n for n in numbers} if "% 10" in predicate else set()
    letters = "".join(re.findall(r'"(\w+)"', predicate))
    if integers:
        near = {s * (n + d) for n in numbers for d in (0, 1, -1) for s in (1, -1)}
        return [[n] for n in sorted(near)]
    groups = {}
    for word in _WORDS.split():
        if len(letters) == 1:
            places = word[0], word[1], word[2:-2], word[-2], word[-1]
            alike = tuple(letters in place for place in places)
        elif letters or "len" in predicate:
            near = word[0] in letters + "y" if letters else abs(len(word) - max(numbers)) < 2
            alike = (near and (word[0] if letters else len(word)),)
        else:
            alike = word[0] == word[-1], word[0] == word[-1] and keeps(word), len(word) % 2
        groups.setdefault(alike, []).append(word)
    return [words for alike, words in groups.items() if any(alike)]


_python = functools.cache(eval)  # the same few expressions come again and again


def _answer(function, xs):
    try:
        return function(xs)
    except (TypeError, ValueError, IndexError):  # the sum of words, the largest of none
        return None


def problems(split: str, seed: str = "", distinct: bool = False, agents: int = 2) -> Iterator[dict]:
    """Coop's problems of a split, without end; docstrings come again unless they are distinct."""
    rng, seen = random.Random(f"coop/{split}{seed}"), set()
    while True:
        item = _compose(rng, rng.choice(_compositions(agents)[split]))
        if item["prompt"] not in seen:
            seen |= {item["prompt"]} if distinct else set()
            if tests := _tests(rng, item["composition"][0], item["parts"]):
                yield item | {"tests": tests}
