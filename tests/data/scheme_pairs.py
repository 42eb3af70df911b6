"""Pairs of a helper and a main function, labelled by hand with their cooperation scheme.

The label says what the main function does in the words of the paper, as a reader of both programs
would; it was written down before the classifier was run on it, and is not changed where the
classifier disagrees. tests/test_schemes.py reports the confusions. The main function is `solve`.

Pairs are separated by a line of "=", a helper from its main function by a line of "-".
"""

FALLBACK = """
def aux(xs):
    return [x for x in xs if x % 2 == 0]
-
def solve(xs):
    try:
        return sum(x * x for x in aux(xs))
    except Exception:
        return sum(x * x for x in xs if x % 2 == 0)
=
def aux(s):
    return s.split()
-
def solve(s):
    words = aux(s)
    if not isinstance(words, list):
        words = s.split(" ")
    return len(words)
=
def aux(n):
    return n > 1 and all(n % d for d in range(2, n))
-
def solve(xs):
    def own(n):
        return n > 1 and all(n % d for d in range(2, n))
    try:
        return [x for x in xs if aux(x)]
    except Exception:
        return [x for x in xs if own(x)]
=
def aux(xs):
    return sorted(xs)
-
def solve(xs):
    ranked = aux(xs)
    if ranked is None or len(ranked) != len(xs):
        ranked = sorted(xs)
    return ranked[len(ranked) // 2]
=
def aux(s):
    return s[::-1]
-
def solve(s):
    return aux(s) or "".join(reversed(s))
=
def aux(xs):
    return max(xs)
-
def solve(xs):
    best = aux(xs)
    return best if best is not None else max(xs)
=
def aux(a, b):
    while b:
        a, b = b, a % b
    return a
-
def solve(a, b):
    try:
        result = aux(a, b)
    except Exception:
        result = None
    if result:
        return result
    while b:
        a, b = b, a % b
    return a
=
def aux(text):
    return {c: text.count(c) for c in text}
-
def solve(text):
    counts = {}
    try:
        counts = aux(text)
    except TypeError:
        for c in text:
            counts[c] = counts.get(c, 0) + 1
    return max(counts, key=counts.get)
=
def aux(xs):
    return sum(xs)
-
def solve(xs):
    total = sum(xs)
    try:
        total = aux(xs)
    except Exception:
        pass
    return total / len(xs)
=
def aux(n):
    return bin(n)[2:]
-
def solve(n):
    digits = aux(n)
    if type(digits) is not str:
        return format(n, "b")
    return digits
=
def aux(xs):
    return list(dict.fromkeys(xs))
-
def solve(xs):
    unique = aux(xs)
    if unique == []:
        seen = []
        for x in xs:
            if x not in seen:
                seen.append(x)
        return seen
    return unique
=
def aux(x):
    return x * x
-
def solve(xs):
    out = []
    for x in xs:
        y = aux(x)
        if y is None:
            y = x ** 2
        out.append(y)
    return out
"""

DECORATOR = """
def aux(xs):
    return max(xs)
-
def solve(xs):
    if not xs:
        return "none"
    return aux(xs)
=
def aux(s):
    return s.split()
-
def solve(s):
    words = aux(s)
    return " ".join(word.capitalize() for word in words)
=
def aux(xs):
    return sum(xs) / len(xs)
-
def solve(xs):
    return round(aux(xs), 2)
=
def aux(xs):
    return [x for x in xs if x > 0]
-
def solve(xs):
    return sum(aux(xs))
=
def aux(n):
    return [d for d in range(1, n + 1) if n % d == 0]
-
def solve(n):
    if n < 1:
        raise ValueError("n must be positive")
    return len(aux(n))
=
def aux(a, b):
    return a * b
-
def solve(a, b):
    return f"{aux(a, b):.1f}"
=
def aux(text):
    return {c: text.count(c) for c in set(text)}
-
def solve(text):
    counts = aux(text.lower())
    best = None
    for c, n in counts.items():
        if best is None or n > counts[best]:
            best = c
    return best
=
def aux(xs):
    return sorted(xs)
-
def solve(xs):
    ranked = aux(xs)
    ranked.reverse()
    return ranked
=
def aux(xs):
    return xs.index(max(xs))
-
def solve(xs):
    try:
        return aux(xs)
    except ValueError:
        return -1
=
def aux(s):
    return "".join(c for c in s if c.isalpha())
-
def solve(s):
    letters = aux(s)
    return letters == letters[::-1]
=
def aux(xs):
    return [x * x for x in xs]
-
def solve(xs):
    total = 0
    for y in aux(xs):
        total += y
    return total
=
def aux(n):
    return n * (n + 1) // 2
-
def solve(xs):
    n = len(xs)
    expected = aux(n)
    return expected - sum(xs)
=
def aux(s):
    return [int(part) for part in s.split(",")]
-
def solve(s):
    numbers = aux(s) if s else []
    return sorted(numbers)[:3]
=
def aux(xs):
    return min(xs), max(xs)
-
def solve(xs):
    low, high = aux(xs)
    return high - low
=
def aux(price, rate):
    return price * (1 - rate)
-
def solve(price, rate):
    if rate >= 1:
        return 0.0
    if rate <= 0:
        return price
    return round(aux(price, rate), 2)
=
def aux(s):
    return s[::-1]
-
def solve(s):
    out = aux(s)
    if out == "":
        return "empty"
    return out
"""

COORDINATOR = """
def aux(x):
    return x * x
-
def solve(xs):
    return sum(aux(x) for x in xs if x % 2 == 0)
=
def aux(word):
    return word[0].upper() + word[1:]
-
def solve(s):
    out = []
    for word in s.split():
        out.append(aux(word))
    return " ".join(out)
=
def aux(a, b):
    return (a[0] - b[0]) ** 2 + (a[1] - b[1]) ** 2
-
def solve(a, b, c):
    return aux(a, b) + aux(b, c) + aux(c, a)
=
def aux(x):
    return x + 1
-
def solve(x):
    return aux(aux(x))
=
def aux(xs, ys):
    return [x for x in xs if x in ys]
-
def solve(lists):
    common = lists[0]
    for ys in lists[1:]:
        common = aux(common, ys)
    return common
=
def aux(x):
    return abs(x)
-
def solve(xs):
    return max(map(aux, xs))
=
def aux(row):
    return sum(row)
-
def solve(matrix):
    best = None
    for row in matrix:
        total = aux(row)
        if best is None or total > best:
            best = total
    return best
=
def aux(s):
    return int(s) if s.isdigit() else 0
-
def solve(text):
    left, right = text.split("+")
    return aux(left) + aux(right)
=
def aux(n):
    return sum(int(d) for d in str(n))
-
def solve(n):
    while n > 9:
        n = aux(n)
    return n
=
def aux(xs):
    return xs[0] if xs else 0
-
def solve(xs):
    if not xs:
        return 0
    return aux(xs) + solve(xs[1:])
=
def aux(left, right):
    return sorted(left + right)
-
def solve(xs):
    if len(xs) < 2:
        return xs
    middle = len(xs) // 2
    return aux(solve(xs[:middle]), solve(xs[middle:]))
=
def aux(word):
    return len(word)
-
def solve(words):
    return {word: aux(word) for word in words}
=
def aux(x):
    return -x
-
def solve(xs):
    return sorted(xs, key=aux)
=
def aux(xs):
    return sum(xs)
-
def solve(xs):
    evens = aux([x for x in xs if x % 2 == 0])
    odds = aux([x for x in xs if x % 2])
    return evens - odds
=
def aux(n):
    return n * n
-
def solve(ns):
    out = []
    for i, n in enumerate(ns):
        if i % 2:
            out.append(aux(n))
        else:
            out.append(n)
    return out
=
def aux(text, i):
    return text[i:i + 3]
-
def solve(text):
    chunks = []
    i = 0
    while i < len(text):
        chunks += [aux(text, i)]
        i += 3
    return "-".join(chunks)
"""

STRATEGY_FILTER = """
def aux(x):
    return x % 2 == 0
-
def solve(xs):
    return sum(x * x for x in xs if aux(x))
=
def aux(x):
    return x % 2 == 0
-
def solve(xs):
    total = 0
    for x in xs:
        if aux(x):
            total += x * x
    return total
=
def aux(s):
    return s == s[::-1]
-
def solve(s):
    if aux(s):
        return "yes"
    return "no"
=
def aux(n):
    return n > 1 and all(n % d for d in range(2, n))
-
def solve(n, x, y):
    return x if aux(n) else y
=
def aux(n):
    return n > 1 and all(n % d for d in range(2, n))
-
def solve(n):
    n += 1
    while not aux(n):
        n += 1
    return n
=
def aux(c):
    return c in "aeiou"
-
def solve(s):
    return "".join(filter(aux, s))
=
def aux(shape):
    return "circle" if len(shape) == 1 else "box"
-
def solve(shape):
    kind = aux(shape)
    if kind == "circle":
        return 3.14 * shape[0] ** 2
    elif kind == "box":
        return shape[0] * shape[1]
    return 0
=
def aux(xs):
    return xs == sorted(xs)
-
def solve(xs):
    ordered = aux(xs)
    if not ordered:
        xs = sorted(xs)
    return xs[0]
=
def aux(q):
    return q == q[::-1]
-
def solve(q, w):
    return sum(q) <= w if aux(q) else False
=
def aux(a, b):
    return a > b
-
def solve(xs):
    best = xs[0]
    for x in xs[1:]:
        if aux(x, best):
            best = x
    return best
=
def aux(command):
    return command.split()[0]
-
def solve(command, n):
    match aux(command):
        case "double":
            return 2 * n
        case "square":
            return n * n
        case _:
            return n
=
def aux(x):
    return x > 0
-
def solve(xs):
    return len([x for x in xs if not aux(x)])
=
def aux(xs):
    return len(set(xs)) == len(xs)
-
def solve(xs):
    return aux(xs) and max(xs) - min(xs)
=
def aux(year):
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
-
def solve(year):
    days = 365
    if aux(year):
        days = 366
    return days
=
def aux(x):
    return "low" if x < 10 else "high"
-
def solve(xs):
    return [x * 2 if aux(x) == "low" else x for x in xs]
=
def aux(a, b):
    return a == b
-
def solve(xs):
    for i in range(len(xs) - 1):
        if aux(xs[i], xs[i + 1]):
            return i
    return -1
"""

WRAPPER = """
def aux(xs):
    return sum(x * x for x in xs if x % 2 == 0)
-
def solve(xs):
    return aux(xs)
=
def aux(s):
    return s[::-1]
-
def solve(s):
    result = aux(s)
    return result
=
def aux(a, b):
    return a + b
-
def solve(a, b):
    x = aux(a, b)
    y = x
    return y
=
def aux(xs, start):
    return start + sum(xs)
-
def solve(xs):
    "The sum."
    return aux(xs, 0)
=
def aux(xs):
    return max(xs)
-
solve = lambda xs: aux(xs)
=
def aux(xs):
    return sorted(xs)
-
def solve(xs):
    helper = aux
    return helper(xs)
=
def aux(xs):
    return xs[0]
-
def solve(xs):
    return aux(sorted(xs))
=
def aux(n):
    return n + 1
-
def solve(n):
    aux(0)
    return aux(n)
=
def aux(n):
    yield from range(n)
-
def solve(n):
    yield from aux(n)
=
def aux(xs, start):
    return start + sum(xs)
-
def solve(xs):
    for answer in [aux(xs, 0)]:
        return answer
=
def aux(x):
    return x
-
def solve(x):
    def inner():
        return aux(x)
    return inner()
"""

UNUSED = """
def aux(x):
    return x % 2 == 0
-
def solve(xs):
    return sum(x * x for x in xs if x % 2 == 0)
=
def aux(xs):
    return sum(xs)
-
def solve(xs):
    aux(xs)
    return sum(xs)
=
def aux(xs):
    return sum(xs)
-
def solve(xs):
    _ = aux(xs)
    return sum(xs)
=
def aux(xs):
    return sum(xs)
-
def solve(xs):
    # aux(xs) would do
    return sum(xs)
=
def aux(xs):
    return sum(xs)
-
def solve(xs):
    if False:
        return aux(xs)
    return sum(xs)
=
def aux(xs):
    return sum(xs)
-
def solve(xs):
    return sum(xs)
    return aux(xs)
=
def aux(xs):
    return sum(xs)
-
def solve(xs):
    if aux(xs):
        pass
    return sum(xs)
=
def aux(xs):
    return sum(xs)
-
def solve(xs):
    y = aux(xs)
    y = sum(xs)
    return y
=
def aux(xs):
    return sum(xs)
-
def solve(xs):
    try:
        aux(xs)
    except Exception:
        pass
    return sum(xs)
=
def aux(xs):
    return sum(xs)
-
def solve(xs):
    return sum(xs) + 0 * aux(xs)
=
def aux(s):
    return s.upper()
-
def solve(s, aux=str.upper):
    return aux(s)
=
def aux(xs):
    return len(xs)
-
def solve(xs):
    print(aux(xs))
    return xs[::-1]
"""

OTHER = """
def aux(xs):
    return sum(xs)
-
def answer(xs):
    return aux(xs)
=
def aux(xs):
    return sum(xs)
-
def solve(xs)
    return aux(xs)
=
def aux(xs):
    return sum(xs)
-
The sum of xs is what aux gives.
=
def aux(x):
    return x % 2 == 0
-
def solve(xs):
    for x in xs:
        assert aux(x) == (x % 2 == 0)
    return sum(x * x for x in xs if x % 2 == 0)
=
def aux(xs):
    xs.sort()
    return xs
-
def solve(xs):
    aux(xs)
    return xs[0]
"""

# Written after the classifier was mended on the pairs above, which it then got right in 83 of 88.
HELD_OUT = {
    "fallback": """
def aux(s):
    return s.count("a")
-
def solve(s):
    try:
        n = aux(s)
        if n < 0:
            raise ValueError
        return n
    except Exception:
        return len([c for c in s if c == "a"])
=
def aux(xs):
    return xs[::2]
-
def solve(xs):
    part = aux(xs)
    if part:
        return part
    else:
        return [xs[i] for i in range(0, len(xs), 2)]
=
def aux(n):
    return n % 3 == 0
-
def solve(ns):
    out = []
    for n in ns:
        flag = aux(n)
        if flag not in (True, False):
            flag = n % 3 == 0
        if flag:
            out.append(n)
    return out
=
def aux(d):
    return sorted(d.items())
-
def solve(d):
    pairs = None
    try:
        pairs = aux(d)
    finally:
        if pairs is None:
            pairs = sorted(d.items())
    return pairs[0]
=
def aux(xs):
    return sum(xs)
-
def solve(xs):
    mine = sum(xs)
    theirs = aux(xs)
    return theirs if theirs == mine else mine
""",
    "decorator": """
def aux(s):
    return s.strip().lower()
-
def solve(s):
    return {"name": aux(s), "length": len(s)}
=
def aux(xs):
    return [(x, xs.count(x)) for x in set(xs)]
-
def solve(xs):
    pairs = aux(xs)
    pairs.sort(key=lambda pair: (-pair[1], pair[0]))
    return [x for x, _ in pairs][:3]
=
def aux(n):
    return str(n)[::-1]
-
def solve(n):
    sign = "-" if n < 0 else ""
    return int(sign + aux(abs(n)))
=
def aux(xs):
    return [x for x in xs if x > 0]
-
def solve(xs):
    if isinstance(xs, str):
        xs = [int(x) for x in xs.split()]
    good = aux(xs)
    assert all(x > 0 for x in good)
    return good
=
def aux(xs):
    return max(xs, key=len)
-
def solve(xs):
    if len(xs) == 0:
        return None
    longest = aux(xs)
    print("longest:", longest)
    return longest
=
def aux(grid):
    return [list(row) for row in zip(*grid)]
-
def solve(grid):
    turned = aux(grid)
    for row in turned:
        row.reverse()
    return turned
""",
    "coordinator": """
def aux(xs):
    return sum(xs) / len(xs)
-
def solve(table):
    means = {}
    for name in table:
        means[name] = aux(table[name])
    return means
=
def aux(a, b):
    return a * b
-
def solve(xs):
    from functools import reduce
    return reduce(aux, xs, 1)
=
def aux(s, c):
    return s.count(c)
-
def solve(s):
    vowels = sum(aux(s, c) for c in "aeiou")
    return vowels, len(s) - vowels
=
def aux(lo, hi):
    return [n for n in range(lo, hi) if n % 2]
-
def solve(a, b, c):
    first = aux(a, b)
    second = aux(b, c)
    return first + second
=
def aux(s):
    return s[1:] + s[0]
-
def solve(s, n):
    for _ in range(n):
        s = aux(s)
    return s
=
def aux(n):
    return n // 2 if n % 2 == 0 else 3 * n + 1
-
def solve(n):
    steps = 0
    while n != 1:
        n = aux(n)
        steps += 1
    return steps
""",
    "strategy filter": """
def aux(s):
    return len(s) > 3
-
def solve(words):
    return [w.upper() if aux(w) else w for w in words]
=
def aux(a, b):
    return "add" if a < b else "subtract"
-
def solve(a, b):
    table = {"add": a + b, "subtract": a - b}
    return table[aux(a, b)]
=
def aux(c):
    return c.isdigit()
-
def solve(s):
    n = 0
    for c in s:
        if not aux(c):
            continue
        n += int(c)
    return n
=
def aux(x):
    return x > 100
-
def solve(xs):
    for x in xs:
        if aux(x):
            break
    else:
        return None
    return x
=
def aux(xs):
    return sum(xs) % 2
-
def solve(xs):
    parity = aux(xs)
    return max(xs) if parity == 0 else min(xs)
=
def aux(w):
    return w in ("the", "a", "an")
-
def solve(text):
    return " ".join(list(filter(lambda w: not aux(w), text.split())))
""",
    "wrapper": """
def aux(a, b):
    return a ** b
-
def solve(base, exponent):
    power: int = aux(base, exponent)
    return power
=
def aux(xs):
    return xs[-1]
-
def solve(*args):
    return aux(*args)
=
def aux(s):
    return s.title()
-
def solve(s):
    if True:
        return aux(s)
=
def aux(s):
    return s.title()
-
def solve(s):
    if isinstance(s, str):
        return aux(s)
    else:
        return aux(s)
""",
    "unused": """
def aux(x):
    return x * 2
-
def solve(xs):
    doubled = [aux(x) for x in xs]
    return sum(2 * x for x in xs)
=
def aux(x):
    return x * 2
-
def solve(xs):
    def helper(x):
        return aux(x)
    return [2 * x for x in xs]
=
def aux(x):
    return x * 2
-
def solve(xs):
    total = 0
    for x in xs:
        aux(x)
        total += 2 * x
    return total
""",
    "other": """
def aux(xs):
    return sum(xs)
-
class solve:
    def __init__(self, xs):
        self.value = aux(xs)
=
def aux(xs):
    return sum(xs)
-
def solve(xs):
    return aux(xs
""",
}


def pairs(block: str) -> list[tuple[str, str]]:
    """(helper, main function) of every pair of a block."""
    halves = (pair.split("\n-\n") for pair in block.split("\n=\n"))
    return [(helper.strip("\n"), main.strip("\n")) for helper, main in halves]


BLOCKS = {
    "fallback": FALLBACK,
    "decorator": DECORATOR,
    "coordinator": COORDINATOR,
    "strategy filter": STRATEGY_FILTER,
    "wrapper": WRAPPER,
    "unused": UNUSED,
    "other": OTHER,
}
PAIRS = [(label, *pair) for label, block in BLOCKS.items() for pair in pairs(block)]
HELD_OUT_PAIRS = [(label, *pair) for label, block in HELD_OUT.items() for pair in pairs(block)]
