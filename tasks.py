"""The tasks by name, what a task is, and coop, the embedded team's.

A task is a plain class, made with data= (--data), num_agents= and, where --feedback is given,
feedback= (a function of an item and the responses that gives one text per agent):

    items(split) -> [item]                 the problems of "train", "dev" and "test": plain dicts
    observe(agent, item, history) -> text  one agent's prompt; history: its own (response, feedback)
    feedback(item, responses) -> [text]    what each agent is told after a turn, with --turns 2
    advance(item, responses) -> item       what becomes of the world, for the next turn (optional)
    scheme(item, responses) -> name        how the work was divided, counted by eval.py (optional)
    draw(item, responses) -> picture       what it looks like (optional, running/pictures.py)
    modes                                  its own names for --feedback (optional): it is given one
    reward, model                          names of its default reward and (optional) model

What an agent observes is computed from the item and from its own history, so a partner's text
cannot get in, unless `advance` puts it into the item and `observe` shows it. --task takes a name of
the table, a dotted path or file.py:Class.
"""

import functools
import hashlib
import itertools
import random
import re
from collections.abc import Iterator

TASKS = {
    "coop": "tasks.Coop",
    "humaneval": "coding.tasks.HumanEval",
    "coophumaneval": "coding.tasks.CoopHumanEval",
    "mbpp": "coding.tasks.MBPP",
    "tldr": "writing.tasks.Tldr",
    "arxiv": "writing.tasks.Arxiv",
    "build": "building.embedded.Build",
    "strbuild": "building.tasks.StrBuild",
    "housebuild": "building.tasks.HouseBuild",
}

# --- coop: the embedded team's problems ---------------------------------------------------------
# A problem is predicate x transform x reducer, over a list of integers or of words. Each table
# maps a name to (English, Python); {k} and {m} are small integers, {c} is a letter.

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


def comprehension(predicate: str, transform: str, source: str = "xs") -> str:
    """The list of the transformed elements of source that satisfy predicate ("" means none)."""
    if not predicate and not transform:
        return source
    return f"[{transform or 'x'} for x in {source}{' if ' + predicate if predicate else ''}]"


@functools.cache
def _compositions() -> dict[str, list[tuple]]:
    """Every (domain, predicate, transform, reducer), divided into splits by a hash of its names."""
    splits = {"train": [], "dev": [], "test": []}
    pointless = {(change, "count") for change in _INT_TRANSFORMS | _WORD_TRANSFORMS if change}
    pointless |= {(one, by) for one in ("first", "last") for by in ("total", "longest")}
    for domain, (predicates, transforms, _) in _DOMAINS.items():
        for predicate in predicates:
            for transform in transforms:
                numeric = domain == "int" or transform == "length"
                for reducer in _INT_REDUCERS if numeric else _WORD_REDUCERS:
                    if not (predicate or transform) or (transform, reducer) in pointless:
                        continue
                    names = (domain, predicate, transform, reducer)
                    digest = hashlib.md5("/".join(names).encode()).digest()[0]
                    held_out = {0: "dev", 1: "test"}.get(digest % 14) if predicate else None
                    splits[held_out or "train"].append(names)
    return splits


def _compose(rng: random.Random, names: tuple[str, str, str, str]) -> dict:
    """A problem of the composition `names`, still without tests."""
    predicates, transforms, _ = _DOMAINS[names[0]]
    k = rng.randint(4, 6) if names[0] == "word" else rng.randint(2, 9)
    values = {"k": k, "m": rng.randint(3, 9), "c": rng.choice("elnrst")}
    noun, predicate = (text.format(**values) for text in predicates[names[1]])
    change, transform = (text.format(**values) for text in transforms[names[2]])
    phrase, reducer = _REDUCERS[names[3]]
    subject = f"{change} of the {noun} in xs" if change else f"{noun} in xs"
    # The solution divides the work: a helper for the predicate, or else for the transform.
    main = comprehension("aux(x)", transform) if predicate else comprehension("", "aux(x)")
    solution = f"def aux(x):\n    return {predicate or transform}\n\n\n"
    return {
        "prompt": f'def solve(xs):\n    """Return {phrase.format(subject)}."""\n',
        "entry_point": "solve",
        "setup": "",
        "composition": names,
        "parts": (predicate, transform, reducer),
        "solution": solution + f"def solve(xs):\n    return {reducer.format(main)}\n",
    }


def _tests(rng: random.Random, domain: str, parts: tuple[str, str, str]) -> list[str]:
    """Five unit tests that only the whole composition passes; none where there are hardly any.

    In every input the predicate keeps some elements and drops some, and the answer is not what it
    would be without the predicate, the transform or both. The five answers differ.
    """
    predicate, transform, reducer = parts
    pairs = [(predicate, transform), ("", transform), (predicate, ""), ("", "")]
    solve, *partial = (
        _python(f"lambda xs: {reducer.format(comprehension(*pair))}")
        for pair in dict.fromkeys(pairs)
    )

    def tells(xs: list, answers: list) -> bool:
        others = [0, 1, -1, "", [], None, xs, *answers, *(_answer(part, xs) for part in partial)]
        return _answer(solve, xs) not in others

    pool = _DOMAINS[domain][2]  # True == 1 above: no constant stub may pass by accident
    kept = _python(f"lambda xs: {comprehension(predicate, 'x')}")(pool)
    dropped, inputs = sorted(set(pool) - set(kept)), []
    for tried in range(40 if len(kept) > 3 else 0):
        if tried == 10 and not inputs:
            break
        xs = rng.choices(kept, k=rng.randint(2, 6))
        xs += rng.choices(dropped, k=rng.randint(1, 3)) if predicate else []
        rng.shuffle(xs)
        if tells(xs, [solve(ys) for ys in inputs]):
            inputs.append(xs)
        if len(inputs) == 5:
            sharpened = _sharpened(inputs, parts, tells, solve) if predicate else inputs
            return [f"assert solve({xs!r}) == {solve(xs)!r}" for xs in sharpened]
    return []


def _sharpened(inputs: list[list], parts: tuple[str, str, str], tells, solve) -> list[list]:
    """The inputs, with edges among their elements: what a nearly right predicate judges wrongly,
    such as k and zero. An edge is tried if to judge it otherwise would change the answer."""
    predicate, transform, reducer = parts
    keeps, change = _python(f"lambda x: {predicate}"), _python(f"lambda x: {transform or 'x'}")
    reduce = _python(f"lambda ys: {reducer.format('ys')}")
    rng, done = random.Random(str(inputs)), []
    left = [rng.choice(alike) for alike in _edges(predicate, isinstance(inputs[0][0], int))]
    rng.shuffle(left)
    if isinstance(left[0], int):  # first those where the predicate changes
        left.sort(key=lambda n: keeps(n - 1) == keeps(n) == keeps(n + 1))

    def tries(xs, edges, others):
        flipped = ([change(x) for x in xs if keeps(x) != (x == edge)] for edge in edges)
        return all(_answer(reduce, ys) != solve(xs) for ys in flipped) and tells(xs, others)

    for xs in inputs:
        others = [solve(ys) for ys in done + inputs[len(done) + 1 :]]
        kept, dropped = [x for x in xs if keeps(x)], [x for x in xs if not keeps(x)]
        ys, tried = [], []
        for edge in left[:8]:
            if isinstance(edge, int) and edge and -edge in ys:
                continue  # in a sum, what becomes of the two could cancel out
            options = rng.sample([[*ys, edge], [edge, *ys]], 2)
            if not tried and keeps(edge):
                options = [[*zs, edge, *dropped[:1]] for zs in ([edge], kept[:1], kept[1:2])]
            elif not tried:
                options = [[edge, *zs, edge] for zs in (kept[:2], kept[-1:], kept[:1])]
            tests = (zs for zs in options if len(zs) < 9 and tries(zs, [*tried, edge], others))
            if zs := next(tests, None):
                ys, tried = zs, [*tried, edge]
        done.append(ys or xs)
        left = [edge for edge in left if edge not in tried]
    return done


@functools.cache
def _edges(predicate: str, integers: bool) -> list[list]:
    """Groups of edges of which one is as good as another."""
    keeps = _python(f"lambda x: {predicate}")
    numbers = {0, *map(int, re.findall(r"\d+", predicate))}
    letters = "".join(re.findall(r'"(\w+)"', predicate))
    if integers:
        near = {s * (n + d) for n in numbers for d in (0, 1, -1) for s in (1, -1)}
        return [[n] for n in sorted(near)]
    groups = {}
    for word in _WORDS.split():
        if len(letters) == 1:
            alike = word[0] == letters, letters in word[1:-1], word[-1] == letters
        elif letters or "len" in predicate:
            near = word[0] in letters + "y" if letters else abs(len(word) - max(numbers)) < 2
            alike = (near and (word[0] if letters else len(word)),)
        else:
            alike = word[0] == word[-1], word[0] == word[-1] and keeps(word)
        groups.setdefault(alike, []).append(word)
    return [words for alike, words in groups.items() if any(alike)]


_python = functools.cache(eval)  # the same few expressions come again and again


def _answer(function, xs):
    try:
        return function(xs)
    except (TypeError, ValueError, IndexError):  # the sum of words, the largest of none
        return None


def problems(split: str, seed: str = "", distinct: bool = False) -> Iterator[dict]:
    """Coop's problems of a split, without end; docstrings come again unless they are distinct."""
    rng, seen = random.Random(f"coop/{split}{seed}"), set()
    while True:
        item = _compose(rng, rng.choice(_compositions()[split]))
        if item["prompt"] not in seen:
            seen |= {item["prompt"]} if distinct else set()
            if tests := _tests(rng, item["composition"][0], item["parts"]):
                yield item | {"tests": tests}


class Coop:
    """The embedded team's task: short Python problems that one helper and one main function solve.

    A problem asks for a reducer (the sum of ...) of a transform (the squares of ...) of the
    elements of a list of integers or words that satisfy a predicate (the even numbers). Agents
    0 to n-2 write the helpers (`aux`, `aux2`, ...), the last agent writes `solve`, and neither
    sees the other's text: which part of the work a helper does is nowhere written, they have to
    come to agree. With one agent, the same policy writes `aux` and then `solve`.

    The splits hold different compositions (predicate, transform, reducer): those of "dev" and
    "test" occur nowhere in "train", while each of their parts does. Docstrings within a split
    differ. Nothing depends on a seed: a split is always the same problems in the same order.
    """

    reward = "code"

    def __init__(self, data: str | None = None, num_agents: int = 2, feedback=None):
        if data is not None:
            raise ValueError("task coop makes its own problems: it takes no --data")
        if num_agents < 1:
            raise ValueError(f"task coop needs at least 1 agent, not {num_agents}")
        self.num_agents, self.tell = num_agents, feedback

    def items(self, split: str) -> list[dict]:
        sizes = {"train": 2000, "dev": 100, "test": 100}
        if split not in sizes:
            raise ValueError(f"task coop has no split {split!r}: it has train, dev and test")
        items = itertools.islice(problems(split, distinct=True), sizes[split])
        return [item | {"task_id": f"coop/{split}/{i}"} for i, item in enumerate(items)]

    def observe(self, agent: int, item: dict, history: list[tuple[str, str]]) -> str:
        """The problem, the agent's own earlier responses with their feedback, and its role."""
        role = self._role(agent) + "\n"
        turns = [f"{role}{response.rstrip()}\n{feedback}\n" for response, feedback in history]
        return item["prompt"] + "".join(turns) + role

    def _role(self, agent: int) -> str:
        helpers = ["aux", *(f"aux{i}" for i in range(2, self.num_agents))]
        if self.num_agents == 1:
            return "# write the helper aux, then solve"
        if agent < self.num_agents - 1:
            return f"# write the helper {helpers[agent]}"
        return f"# write solve, you can call {' and '.join(helpers)}"

    def feedback(self, item: dict, responses: list[str]) -> list[str]:
        """The same line for every agent: how many tests passed, and the first exception if any.

        With --feedback it is that mode's text, as comments.
        """
        if self.tell:
            told = self.tell(item, responses)
            return ["\n".join(f"# {line}" for line in text.splitlines()) for text in told]
        from coding.rewards import verdict as judged  # the sandbox: only who needs it pays

        verdict = judged(item, responses)
        names = (error.partition(":")[0] for error in verdict.errors if error)
        raised = next((name for name in names if name != "AssertionError"), None)
        line = passed_line(sum(verdict.passed), len(verdict.passed), raised)
        return [line] * len(responses)

    def scheme(self, item: dict, responses: list[str]) -> str:
        from coding.schemes import classify

        return classify(responses, item["entry_point"])


def passed_line(passed: int, total: int, error: str | None) -> str:
    return f"# passed {passed} of {total}" + (f", {error}" if error else "")
