"""The bank: parts that know nothing of any problem, to be put in the place of an agent's part.

`HELPERS` stand in for a helper, `MAINS` for a main function; one line is one part, in the order in
which they are tried. A new trick is a new line. What belongs here fits every problem: what was
passed in, whole, wrapped or unwrapped; constants; structure such as lengths and positions. Work
does not, such as sorting or sums: tried in place of a helper that sorts, it would say that sorting
adds nothing.

Candidates have this module loaded, and make a part with `install`.
"""

import ast
import inspect
import itertools
import json

MOST_CALLS = 100_000  # of one helper: a loop that waits for what it never says would not end


class Nothing:
    """Whatever is done with it changes nothing: it equals everything, is added without effect,
    and its items, attributes and values are itself. A main that only checks a helper, or carries
    its value along, does as well with this. size: its length, and its value as an integer."""

    truth = True

    def __init__(self, size: int = 0):
        self.size = size

    def __bool__(self):
        return self.truth

    def __iter__(self):
        return iter(())


class No(Nothing):
    truth = False


class Blank(list):
    """An argument that a helper wants and a main function does not have: an empty list, or zero."""


def _itself(self, *_, **__):
    return self


def _other(self, other, *_):
    return other


# What they do: a function, and the names of the operators that it is.
for _kind, _function, _names in (
    (Nothing, _itself, "getattr call getitem enter next abs neg pos invert round"),
    (Nothing, lambda *_: None, "setitem delitem exit"),
    (Nothing, lambda *_: True, "eq lt le ge contains"),
    (Nothing, lambda *_: False, "ne gt"),
    (No, lambda *_: True, "gt"),
    (No, lambda *_: False, "lt"),
    (Nothing, lambda self: self.size, "len int index hash"),
    (Nothing, lambda *_: 0.0, "float"),
    (Nothing, lambda *_: "", "str"),
    (Blank, lambda *_: 0, "int index"),
):
    for _name in _names.split():
        setattr(_kind, f"__{_name}__", _function)
_OPERATORS = "add sub mul truediv floordiv mod pow and or xor lshift rshift matmul"
for _name in _OPERATORS.split():
    for _side in ("", "r", "i"):
        setattr(Nothing, f"__{_side}{_name}__", _other)
        setattr(Blank, f"__{_side}{_name}__", _other)


class Box(tuple):
    """Values, however they are asked for: by position, as attributes or under any keys in the
    order of asking, the last for all that follow; called, or as the next, the last. Backwards or
    in part, in another code or copied, a box of one value is that value."""

    def __getitem__(self, key):
        if isinstance(key, slice) and len(self) == 1:
            return self[0]
        if isinstance(key, int | slice):
            return tuple.__getitem__(self, key)
        asked = self.__dict__.setdefault("asked", [])
        asked += [key] * (key not in asked)
        return tuple.__getitem__(self, min(asked.index(key), len(self) - 1))

    def __getattr__(self, name: str):
        return self[name]

    def __call__(self, *_, **__):
        return self[-1]

    def __exit__(self, *_):
        return None

    def values(self):
        return list(self)

    __next__ = __enter__ = get = pop = popleft = read = getvalue = result = __call__
    decode = split = copy = __call__


class Raised(StopIteration, ValueError, TypeError, KeyError, IndexError, RuntimeError):
    """An exception that carries a value, for those who catch any of the usual kinds; `install`
    adds the program's own."""


def _raise(error: Exception):
    raise error


def _appended(x, y):
    x.append(y)
    return x


# Parts take x, y, a: the first argument, the second (or None), and all of them.
CONSTANTS = tuple(
    lambda x, y, a, make=make: make()
    for make in (
        lambda: None,
        lambda: True,
        lambda: False,
        lambda: 0,
        lambda: 1,
        str,
        list,
        dict,
        set,
    )
)
# The first argument as one field of two or three, beside others that say nothing.
FIELDS = tuple(
    lambda x, y, a, size=size, at=at, kind=kind: Box(
        x if i == at else kind(len(x) if hasattr(x, "__len__") else 0) for i in range(size)
    )
    for size in (2, 3)
    for at in range(size)
    for kind in (Nothing, No)
)
HELPERS = (
    # what it was given, as it is
    lambda x, y, a: x,
    lambda x, y, a: Nothing(),
    lambda x, y, a: No(),
    lambda x, y, a: y,
    lambda x, y, a: a,
    # in a box
    lambda x, y, a: Box([x]),
    *FIELDS,
    lambda x, y, a: [x],
    lambda x, y, a: Box([Box([x])]),
    lambda x, y, a: Box(a),
    lambda x, y, a: Box(a[::-1]),
    lambda x, y, a: _raise(Raised(x)),
    lambda x, y, a: iter([x]),
    lambda x, y, a: lambda *b: (*b, None)[0],
    # each element in a box, or one after the other, or in two pieces
    lambda x, y, a: [Box([value, Nothing()]) for value in x],
    lambda x, y, a: list(enumerate(x)),
    lambda x, y, a: dict(enumerate(x)),
    lambda x, y, a: list(zip(*a, strict=False)),
    lambda x, y, a: iter(x),
    lambda x, y, a: next(x),
    lambda x, y, a: list(x),
    lambda x, y, a: tuple(x),
    lambda x, y, a: set(x),
    lambda x, y, a: x.pop(),
    lambda x, y, a: x.pop(0),
    lambda x, y, a: x[y],
    lambda x, y, a: Box([x[: len(x) // 2], x[len(x) // 2 :]]),
    lambda x, y, a: Box([x[:1], x[1:]]),
    # in another code
    lambda x, y, a: str(x),
    lambda x, y, a: json.dumps(x),
    # structure
    lambda x, y, a: len(x),
    lambda x, y, a: range(len(x)),
    lambda x, y, a: iter(range(*a)),  # always true, where a range is if x > 0
    lambda x, y, a: iter(range(1, x + 1)),
    lambda x, y, a: [0] * len(x),
    lambda x, y, a: [None] * len(x),
    lambda x, y, a: [[] for _ in x],
    lambda x, y, a: _appended(x, y),
    lambda x, y, a: _appended(y, x),
    *CONSTANTS,
    # a function that it was given, applied
    lambda x, y, a: x(*a[1:]),
    lambda x, y, a: [x(value) for value in y],
    lambda x, y, a: [value for value in y if x(value)],
)

# v, a, g: the helper's value; what it was given and its author's global lists, after the call.
MAINS = (
    lambda v, a, g: v,
    lambda v, a, g: parts(v)[0],
    lambda v, a, g: parts(v)[-1],
    lambda v, a, g: parts(v)[1],
    lambda v, a, g: called(v, a),
    lambda v, a, g: parts(parts(v)[0])[0],
    lambda v, a, g: parts(parts(v)[-1])[-1],
    lambda v, a, g: parts(v)[0] + parts(v)[1],
    lambda v, a, g: parts(v),
    lambda v, a, g: not v,
    lambda v, a, g: -v,
    lambda v, a, g: v - 1,
    lambda v, a, g: v + 1,
    lambda v, a, g: v[::-1],
    lambda v, a, g: v[:-1],
    lambda v, a, g: v[1:],
    lambda v, a, g: list(v),
    lambda v, a, g: tuple(v),
    lambda v, a, g: set(v),
    lambda v, a, g: str(v),
    lambda v, a, g: int(v),
    lambda v, a, g: float(v),
    lambda v, a, g: bool(v),
    lambda v, a, g: v.decode(),
    lambda v, a, g: ast.literal_eval(v),
    lambda v, a, g: a[0],
    lambda v, a, g: a[-1],
    lambda v, a, g: a[-1][-1],
    lambda v, a, g: g[-1],
    lambda v, a, g: g[-1][-1],
    lambda v, a, g: True,
    lambda v, a, g: False,
    lambda v, a, g: None,
)


def parts(value) -> list:
    """What a value consists of: its elements, values or attributes, or what a call of it gives."""
    if isinstance(value, dict):
        return list(value.values())
    if hasattr(value, "__iter__"):
        return list(itertools.islice(value, 1000))
    if isinstance(value, Exception):
        return [*value.args, *vars(value).values()]
    return [value()] if callable(value) else list(vars(value).values())


def called(function, args: list):
    """The function's value, with the arguments that it takes too few or too many of packed into
    a tuple, or made up; these are added to args."""
    parameters = inspect.signature(function).parameters.values()
    places = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    names = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY and p.default is p.empty]
    needed = sum(p.default is p.empty for p in places) + len(names)
    args += [Blank() for _ in range(needed - len(args))]
    taken = list(args)
    if not any(p.kind is p.VAR_POSITIONAL for p in parameters):
        most = len(places) + len(names)
        taken = (
            [*args[: most - 1], tuple(args[most - 1 :])] if 0 < most < len(args) else args[:most]
        )
    count = len(taken) - len(names)
    return function(*taken[:count], **dict(zip(names, taken[count:], strict=True)))


def install(module: dict, replaced: str, caller_of: str, number: int) -> None:
    """Puts one part of the bank into a program's module: a helper, or else a main function that
    calls the helper `caller_of`."""

    calls = itertools.count(1)

    def aux(*args, **kwargs):
        if next(calls) > MOST_CALLS:
            raise RuntimeError("called without end")
        args += tuple(kwargs.values())
        try:
            return HELPERS[number](*(*args, None, None)[:2], args)
        except Raised as error:
            kinds = [kind for kind in module.values() if isinstance(kind, type)]
            kinds = [kind for kind in kinds if issubclass(kind, Exception)]
            raise type("Raised", (Raised, *kinds), {})(*error.args) from None

    def main(*args, **kwargs):
        given = [*args, *kwargs.values()]
        try:
            value = called(module[caller_of], given)
        except Exception as error:  # it may carry the answer
            value = error.args[0] if len(error.args) == 1 else error
        lists = [value for value in module.values() if type(value) is list]
        return MAINS[number](value, given, lists)

    module[replaced] = main if caller_of else aux


def size(caller_of: str) -> int:
    return len(MAINS if caller_of else HELPERS)
