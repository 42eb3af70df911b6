"""Make coop's problems, short Python functions that helpers and a main function can divide.

    python -m examples.warm_start.problems    # tiny/coop-2.jsonl.gz, -3, -4

There is a file for each number of agents. A problem has a predicate, a transform and a reducer. It
is over a list of integers or of words. In the tables, {k} and {m} are small integers, {c} is a
letter.
"""

import functools
import gzip
import hashlib
import itertools
import json
import random
import re
from collections.abc import Iterator
from pathlib import Path

TINY = Path(__file__).resolve().parents[2] / "tiny"
SIZES = {"train": 2000, "dev": 100, "test": 100}

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
# No reducer returns the bare list. If one did, a helper could return the list, and the main
# function would only pass it on.
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
_INTEGERS = (
    *range(-40, 41),
    *range(-195, 196, 10),
    *range(-99, 100, 7),
)
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
    """Return Python for the transformed elements of source that satisfy predicate ("": none)."""
    if not predicate and not transform:
        return source
    condition = f" if {predicate}" if predicate else ""
    return f"[{transform or 'x'} for x in {source}{condition}]"


@functools.cache
def _compositions(agents: int) -> dict[str, list[tuple]]:
    """Return every (domain, predicate, transform, reducer), divided into splits.

    From four agents on there is a second predicate at the end.
    """
    splits = {"train": [], "dev": [], "test": []}
    for domain, (predicates, transforms, _) in _DOMAINS.items():
        seconds = [()]
        if agents > 3:
            seconds = [(name,) for name in predicates if name]
        for predicate, transform in itertools.product(predicates, transforms):
            numeric = domain == "int" or transform == "length"
            reducers = _INT_REDUCERS if numeric else _WORD_REDUCERS
            for reducer, second in itertools.product(reducers, seconds):
                if predicate not in second and _is_useful(predicate, transform, reducer, agents):
                    names = (domain, predicate, transform, reducer, *second)
                    splits[_split_of(names)].append(names)
    return splits


def _is_useful(predicate: str, transform: str, reducer: str, agents: int) -> bool:
    """Return whether every part changes the answer, and there is work for every agent."""
    if transform and reducer == "count":
        return False
    if transform in ("first", "last") and reducer in ("total", "longest"):
        return False
    if agents > 2:
        return bool(predicate and transform) and transform not in _DONE_BY_STAND_INS
    return bool(predicate or transform)


def _split_of(names: tuple[str, ...]) -> str:
    """Return the split of a composition by a hash that ignores the order of two predicates."""
    domain, predicate, transform, reducer, *second = names
    if not predicate:
        return "train"
    predicates = sorted([predicate, *second])
    text = "/".join([domain, *predicates, transform, reducer])
    digest = hashlib.md5(text.encode()).digest()
    return {0: "dev", 1: "test"}.get(digest[0] % 14, "train")


def _compose(rng: random.Random, names: tuple[str, ...]) -> dict:
    """Return a problem of the composition `names`, without tests."""
    domain, predicate_name, transform_name, reducer_name, *second = names
    predicates, transforms, _ = _DOMAINS[domain]

    def filled(*texts: str) -> list[str]:
        k = rng.randint(4, 6) if domain == "word" else rng.randint(2, 9)
        values = {"k": k, "m": rng.randint(3, 9), "c": rng.choice("elnrst")}
        return [text.format(**values) for text in texts]

    noun, predicate, change, transform = filled(
        *predicates[predicate_name], *transforms[transform_name]
    )
    phrase, reducer = _REDUCERS[reducer_name]
    parts = (predicate, transform, reducer)
    if second:
        among, second_predicate = filled(*predicates[second[0]])
        noun = f"{noun} among the {among}"
        parts = (*parts, second_predicate)
    subject = f"{change} of the {noun} in xs" if change else f"{noun} in xs"
    # The solution's helper and main divide the work: the predicate, or else the transform.
    predicate, transform, reducer = whole(parts)
    main = comprehension("", "aux(x)")
    if predicate:
        main = comprehension("aux(x)", transform)
    helper_lines = f"def aux(x):\n    return {predicate or transform}\n"
    main_lines = f"def solve(xs):\n    return {reducer.format(main)}\n"
    return {
        "prompt": f'def solve(xs):\n    """Return {phrase.format(subject)}."""\n',
        "entry_point": "solve",
        "setup": "",
        "composition": names,
        "parts": parts,
        "solution": f"{helper_lines}\n\n{main_lines}",
    }


def whole(parts: tuple[str, ...]) -> tuple[str, str, str]:
    """Return (predicate, transform, reducer) of parts that may have two predicates."""
    predicate, transform, reducer, *second = parts
    predicate = " and ".join([predicate, *second])
    return predicate, transform, reducer


def _tests(rng: random.Random, domain: str, parts: tuple[str, ...]) -> list[str]:
    """Return five unit tests that only the whole composition passes, [] if hardly any exist.

    In every input the predicate keeps some elements and drops some. The answer is not what it would
    be without the predicate, one of two predicates, the transform, or both. The five answers
    differ. Inputs for the mutants that the five let pass are added to the same tests.
    """
    predicate, transform, reducer = whole(parts)
    pairs = [
        (predicate, transform),
        ("", transform),
        (predicate, ""),
        ("", ""),
    ]
    pairs += [(part, transform) for part in (parts[0], *parts[3:])]
    functions = []
    for pair in dict.fromkeys(pairs):
        body = reducer.format(comprehension(*pair))
        functions.append(_python(f"lambda xs: {body}"))
    solve, *partial = functions

    pool = _DOMAINS[domain][2]
    kept = list(filter(_keeps(predicate), pool))
    dropped = sorted(set(pool) - set(kept))
    if len(kept) < 4:
        return []
    inputs = []
    for attempt in range(40):
        if attempt == 10 and not inputs:
            return []
        xs = rng.choices(kept, k=rng.randint(2, 6))
        if predicate:
            xs += rng.choices(dropped, k=rng.randint(1, len(parts)))
        rng.shuffle(xs)
        wrong = [0, 1, -1, "", [], None, xs]  # constant stubs (True == 1), and xs handed on
        wrong += [solve(earlier) for earlier in inputs]
        wrong += [_answer(function, xs) for function in partial]
        if _answer(solve, xs) not in wrong:
            inputs.append(xs)
        if len(inputs) == 5:
            more_inputs = _inputs_for_mutants(inputs, whole(parts))
            return _assertions(solve, inputs, more_inputs)
    return []


def _assertions(solve, inputs: list[list], more_inputs: list[list]) -> list[str]:
    """Return a test for each input. The other inputs join all tests but the first, the cheapest."""
    tests = [[xs] for xs in inputs]
    for number, xs in enumerate(more_inputs):
        tests[1 + number % 4].append(xs)
    assertions = []
    for test in tests:
        calls = [f"solve({xs!r}) == {solve(xs)!r}" for xs in test]
        assertions.append(f"assert {' and '.join(calls)}")
    return assertions


def _inputs_for_mutants(inputs: list[list], parts: tuple[str, str, str]) -> list[list]:
    """Return short inputs for the mutants of the solution that `inputs` let pass.

    Mutants (DeMillo et al. 1978) are solutions with one fault: see `_killed`. The inputs together
    kill every mutant that a candidate kills. Each step takes the input that kills most of the
    mutants left, the shortest of several.
    """
    rng = random.Random(str(inputs))
    keeps = _keeps(parts[0])
    integers = isinstance(inputs[0][0], int)
    edges = [rng.choice(group) for group in _edges(parts[0], integers)]
    killed = set()
    for xs in inputs:
        killed |= _killed(xs, parts, edges)

    candidates = [rng.choices(edges, k=rng.randint(2, 6)) for _ in range(8)]
    candidates += [xs[:2] * 2 for xs in inputs[:2]]
    kept = [x for xs in inputs for x in xs if keeps(x)]
    for edge in edges:
        if edge in killed:
            continue
        for x in (rng.choice(edges), rng.choice(kept)):
            candidates += [[edge], [edge, x], [x, edge]]

    kills = [(xs, _killed(xs, parts, edges)) for xs in candidates]
    chosen = []
    while True:
        gains = [(len(mutants - killed), -len(xs)) for xs, mutants in kills]
        xs, mutants = kills[gains.index(max(gains))]
        if mutants <= killed:
            return chosen
        chosen.append(xs)
        killed |= mutants


def _killed(xs: list, parts: tuple[str, str, str], edges: list) -> set:
    """Return the mutants that answer `xs` wrongly.

    An edge's mutant judges this edge, such as k or zero, the other way. "once" leaves repetitions
    out, "order" turns the order round, "sign" takes the opposite of numbers.
    """
    predicate, transform, reducer = parts
    keeps = _keeps(predicate)
    change = _python(f"lambda x: {transform or 'x'}")
    reduce = _python(f"lambda ys: {reducer.format('ys')}")
    integers = isinstance(xs[0], int)
    if integers and any(-x in xs for x in xs if x):
        return set()  # the two could cancel out
    kept = [change(x) for x in xs if keeps(x)]
    answer = _answer(reduce, kept)
    if answer is None:
        return set()
    mutants = {
        "once": list(dict.fromkeys(kept)),
        "order": kept[::-1],
    }
    if integers:
        mutants["sign"] = [-y for y in kept]
    for edge in set(edges) & set(xs):
        mutants[edge] = [change(x) for x in xs if keeps(x) != (x == edge)]
    return {name for name, ys in mutants.items() if _answer(reduce, ys) != answer}


@functools.cache
def _edges(predicate: str, integers: bool) -> list[list]:
    """Return groups of edges. Within a group, one edge is as good as another."""
    keeps = _keeps(predicate)
    numbers = {0, *map(int, re.findall(r"\d+", predicate))}
    if "% 10" in predicate:
        numbers |= {10 * n for n in numbers}
    if integers:
        near = set()
        for n in numbers:
            near.update(range(n - 1, n + 2), range(-n - 1, 2 - n))
        return [[n] for n in sorted(near)]
    letters = "".join(re.findall(r'"(\w+)"', predicate))
    groups = {}
    for word in _WORDS.split():
        first = word[0]
        last = word[-1]
        size = len(word)
        if len(letters) == 1:
            places = (first, word[1], word[2:-2], word[-2], last)
            likeness = tuple(letters in place for place in places)
        elif letters:
            likeness = (first in letters + "y" and first,)
        elif "len" in predicate:
            likeness = (abs(size - max(numbers)) < 2 and size,)
        else:
            likeness = (first == last, first == last and keeps(word), size % 2)
        groups.setdefault(likeness, []).append(word)
    return [words for likeness, words in groups.items() if any(likeness)]


_python = functools.cache(eval)  # the same few expressions come again and again


def _keeps(predicate: str):
    """Return the function of a predicate. "" keeps everything."""
    return _python(f"lambda x: {predicate or True}")


def _answer(function, xs):
    try:
        return function(xs)
    except (TypeError, ValueError, IndexError):  # the sum of words, the largest of none
        return None


def problems(split: str, seed: str = "", distinct: bool = False, agents: int = 2) -> Iterator[dict]:
    """Yield coop's problems of a split, without end; docstrings recur unless distinct."""
    rng = random.Random(f"coop/{split}{seed}")
    seen = set()
    while True:
        item = _compose(rng, rng.choice(_compositions(agents)[split]))
        if item["prompt"] in seen:
            continue
        if distinct:
            seen.add(item["prompt"])
        tests = _tests(rng, item["composition"][0], item["parts"])
        if tests:
            yield item | {"tests": tests}


def rows(split: str, agents: int) -> Iterator[dict]:
    """Yield the problems of a split as they stand in tiny/."""
    items = problems(split, distinct=True, agents=agents)
    for number, item in enumerate(itertools.islice(items, SIZES[split])):
        yield item | {"task_id": f"coop/{split}/{number}"}


def main():
    for agents in (2, 3, 4):
        lines = [json.dumps(row) + "\n" for split in SIZES for row in rows(split, agents)]
        packed = gzip.compress("".join(lines).encode(), mtime=0)
        (TINY / f"coop-{agents}.jsonl.gz").write_bytes(packed)


if __name__ == "__main__":
    main()
