"""Cooperation schemes against labels by hand: python -m pytest tests/test_schemes.py

A label says what a reader of the main function would say in the words of the paper. It was written
down before the classifier saw the program. ASIDE was looked at once, when the classifier was done:
10 of 11 were right, and the renamed helper was mended.
"""

import pytest
from blocks import blocks
from code_pairs import GARBAGE

from programs import schemes
from tasks import CodeTask

SOLVE = {"entry_point": "solve"}


PROGRAMS = """
=== strategy filter
    return max([x.upper() for x in xs if aux(x)], key=len)
=== strategy filter
    total = 0
    for x in xs:
        if not aux(x):
            continue
        total += x * x
    return total
=== strategy filter
    return len(list(filter(lambda x: not aux(x), xs)))
=== coordinator
    return sum([aux(x) for x in xs if x % 3 == 0])
=== coordinator
    if len(xs) < 2:
        return xs
    middle = len(xs) // 2
    return aux(solve(xs[:middle]), solve(xs[middle:]))
=== decorator
    return "-".join(x.upper() for x in aux(xs))
=== decorator
    found = aux(xs)
    found.sort()
    return found[:3]
=== fallback
    return aux(xs) or [x for x in xs if x > 0]
=== fallback
    result = None
    try:
        result = aux(xs)
    except Exception:
        pass
    if result is None:
        result = []
        for x in xs:
            result.append(x + 1)
    return result
=== wrapper
    def inner():
        return aux(xs)
    return inner()
=== unused
    return sum(x * x for x in xs if x % 2 == 0)
=== unused
    _ = aux(xs)
    print(aux(xs))
    return sum(xs)
=== other
    return aux(xs
=== coordinator
    return sum(map(square, xs))
def square(x):
    return aux(x) ** 2
=== strategy filter
    return inner(xs)
def inner(xs):
    return sum(x for x in xs if aux(x))
import functools
solve = functools.cache(inner)
"""

ASIDE = """
=== fallback
    try:
        return aux(xs)
    except Exception:
        return 0
=== fallback
    ys = aux(xs)
    if ys is None:
        return []
    return ys
=== decorator
    if not xs:
        return None
    return aux(xs)
=== coordinator
    return sorted(xs, key=aux)
=== coordinator
    from functools import reduce
    return reduce(aux, xs[1:], xs[0])
=== decorator
    low, high = aux(xs)
    return high - low
=== fallback
    ys = aux(xs)
    if len(ys) != len(xs):
        return [abs(x) for x in xs]
    return ys
=== wrapper
    helper = aux
    return helper(sorted(xs))
"""


@pytest.mark.parametrize("label, body", blocks(PROGRAMS) + blocks(ASIDE))
def test_labels(label, body):
    assert schemes.classify(["", f"def solve(xs):\n{body}"], SOLVE) == label
    assert label in CodeTask.schemes


@pytest.mark.parametrize("name", GARBAGE)
def test_any_text_gets_an_answer(name):
    assert schemes.classify(["", GARBAGE[name]], SOLVE) == "other"


def test_names_of_other_helpers_and_single_agents():
    main = "def solve(xs):\n    return sum(aux2(x) for x in xs if aux(x))"
    assert schemes.classify(["", "", main], SOLVE) == "coordinator"
    assert schemes.classify(["", main.replace("aux2(x)", "x")], SOLVE) == "strategy filter"
    alone = "def aux(x):\n    return x\n\n" + main.replace("aux2(x)", "x")
    assert schemes.classify([alone], SOLVE) == "strategy filter"


def test_a_name_that_hides_the_helper_is_not_the_helper():
    main = "def solve(xs, {0}):\n    {1}\n    return sum(aux(x) for x in xs)"
    assert schemes.classify(["", main.format("aux=abs", "pass")], SOLVE) == "unused"
    assert schemes.classify(["", main.format("n=0", "aux = abs")], SOLVE) == "unused"
