"""The bank: parts that know nothing of any problem, to be put in the place of an agent's part.

`HELPERS` stand in for a helper, `MAINS` for a main function, in the order in which they are tried.
What belongs here fits every problem: what was passed in, whole, wrapped or unwrapped; constants;
structure such as lengths and positions. Work does not, such as sorting or sums: tried in place of a
helper that sorts, it would say that sorting adds nothing. Candidates make a part with `install`.
"""

import ast  # noqa: F401  for the tables
import inspect
import itertools
import json  # noqa: F401

MOST_CALLS = 20_000  # of one helper or of what it says: a loop that waits for more would not end


class Endless(RuntimeError):
    """A main has asked too often."""


class Nothing:
    """Whatever is done with it changes nothing: it equals everything, is added without effect,
    and its items, attributes and values are itself. A main that only checks a helper, or carries
    its value along, does as well with this. size: its length, and its value as an integer."""

    truth = True

    def __init__(self, size: int = 0):
        self.size, self.asked = size, 0

    def __bool__(self):
        return self.truth

    def __iter__(self):
        return iter(())


class No(Nothing):
    truth = False


class Blank(list):
    """What a main fills or counts up: an empty list, or zero."""

    asked = 0


def _operators(kind: type, function, names: str) -> None:
    def asked(self, *others, **_):
        self.asked += 1
        if self.asked > MOST_CALLS:
            raise Endless
        return function(self, *others)

    for name in names.split():
        setattr(kind, f"__{name}__", asked)


_ARITHMETIC = "add sub mul truediv floordiv mod pow and or xor lshift rshift matmul"
_ARITHMETIC = " ".join(f"{name} r{name} i{name}" for name in _ARITHMETIC.split())
for _kind, _function, _names in (
    (Nothing, lambda self, *_: self, "getattr call getitem enter next abs neg pos invert round"),
    (Nothing, lambda *_: None, "setitem delitem exit"),
    (Nothing, lambda *_: True, "eq lt le ge contains"),
    (Nothing, lambda *_: False, "ne gt"),
    (No, lambda *_: True, "gt"),
    (No, lambda *_: False, "lt"),
    (Nothing, lambda self: self.size, "len int index hash"),
    (Nothing, lambda *_: 0.0, "float"),
    (Nothing, lambda *_: "", "str"),
    (Nothing, lambda self, other, *_: other, _ARITHMETIC),
    (Blank, lambda *_: 0, "int index"),
    (Blank, lambda self, other, *_: other, _ARITHMETIC),
):
    _operators(_kind, _function, _names)


class Box(list):
    """Values, however they are asked for: by position; as attributes or under any keys in the order
    of asking, the last for all that follow; called or taken out, the last; one after the other as
    the next. Sliced, decoded, split or copied, a box of one value is that value."""

    def __getitem__(self, key):
        if isinstance(key, slice) and len(self) == 1:
            return self[0]
        if isinstance(key, int | slice):
            return list.__getitem__(self, key)
        asked = self.__dict__.setdefault("asked", [])
        asked += [key] * (key not in asked)
        return list.__getitem__(self, min(asked.index(key), len(self) - 1))

    def __getattr__(self, name: str):
        return self[name]

    def __next__(self):
        return next(self.__dict__.setdefault("left", iter(self)))

    def __call__(self, *_, **__):
        return self[-1]

    def __exit__(self, *_):
        return None

    def values(self):
        return list(self)

    __enter__ = get = pop = popleft = read = getvalue = result = __call__
    decode = split = copy = __call__


class Raised(StopIteration, ValueError, TypeError, KeyError, IndexError, RuntimeError):
    """An exception that carries a value, for those who catch any of the usual kinds; `install`
    adds the program's own."""


def throw(error: Exception):
    raise error


def field(size: int, at: int, kind: type, x):
    """x as one field of several, beside others that say nothing."""
    return Box(x if i == at else kind(len(x) if hasattr(x, "__len__") else 0) for i in range(size))


def functions(arguments: str, table: str) -> list:
    """What a table's expressions say of the arguments; a comment may end a line."""
    lines = [line.partition("  #")[0] for line in table.strip().splitlines()]
    return [eval(f"lambda {arguments}: {one}") for line in lines for one in line.split(";")]


# x, y, a: the first argument, the second (or None), and all of them.
HELPERS = functions(
    "x, y, a",
    """
x; Nothing(); No(); y; Box(a); Box([x])  # what it was given, as it is or in a box; nothing
field(2, 0, Nothing, x); field(2, 0, No, x); field(2, 1, Nothing, x); field(2, 1, No, x)
field(3, 0, Nothing, x); field(3, 0, No, x); field(3, 1, Nothing, x); field(3, 1, No, x)
field(3, 2, Nothing, x); field(3, 2, No, x); Box([Box([x])]); Box(a[::-1]); throw(Raised(x))
[Box([value, Nothing()]) for value in x]; list(enumerate(x)); dict(enumerate(x))  # its elements
list(zip(*a)); x.pop(); x.pop(0); x[y]
Box([x[: len(x) // 2], x[len(x) // 2 :]]); Box([x[:1], x[1:]])  # in two pieces
iter(x); next(x); list(x); tuple(x); set(x); str(x); json.dumps(x)  # in another code
len(x); range(len(x))  # its structure
iter(range(*a)); iter(range(1, x + 1))  # always true, where a range is if x > 0
[Blank() for _ in x]; x.append(y) or x; y.append(x) or y
None; True; False; 0; 1; ""; []; {}; set()
lambda *b: (*b, None)[0]  # a function, or the first argument as one
x(*a[1:]); [x(value) for value in y]; [value for value in y if x(value)]
""",
)

# v, a, g: the helper's value; what it was given and its author's global lists, after the call.
MAINS = functions(
    "v, a, g",
    """
v; parts(v)[0]; parts(v)[-1]; parts(v)[1]; called(v, a)  # the value, or a piece of it
parts(parts(v)[0])[0]; parts(parts(v)[-1])[-1]; parts(v)[0] + parts(v)[1]; v[::-1]; v[:-1]; v[1:]
parts(v); tuple(parts(v)); set(parts(v))  # in another code
str(v); int(v); float(v); bool(v); not v; -v; ast.literal_eval(v); v.decode(); v - 1; v + 1
a[0]; a[-1]; a[-1][-1]; g[-1]; g[-1][-1]  # what it left elsewhere
True; False; None
""",
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


def install(replaced: str, caller_of: str, number: int, module: dict) -> None:
    """Puts a part of the bank into a program's module: a helper, or a main calling `caller_of`."""

    calls = itertools.count(1)

    def aux(*args, **kwargs):
        if next(calls) > MOST_CALLS:
            raise Endless
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
