"""What travels between judge and candidate: plain data as tagged JSON, a line a message.

The sender may be hostile: what is too large, too deep or malformed is refused by who reads it.
"""

import collections
import decimal
import fractions
import functools
import json
import os

ANSWER_BYTES = 1 << 20  # a longer answer is refused, by the sender and by the receiver
DEPTH = 200


class Unsendable(Exception):
    """An answer too large or too deep."""


def flat_int(value: int):
    # hexadecimal when long: decimal digits take quadratic time, and Python stops at 4300 of them
    return value if -(1 << 63) < value < 1 << 63 else {"i": format(value, "x")}


def items(base, value, pack) -> list:
    return [pack(item) for item in base.__iter__(value)]


def pairs(_base, value, pack) -> list:
    return [[pack(key), pack(item)] for key, item in dict.items(value)]


def unpair(flat: list) -> dict:
    return {key: item for key, item in flat}  # noqa: C416  dict() would walk a range, however long


CODEC = {  # type: (tag, how it goes flat, type of the flat, how it is built again)
    tuple: ("t", items, list, tuple),
    set: ("s", items, list, set),
    frozenset: ("f", items, list, frozenset),
    collections.deque: ("q", items, list, collections.deque),
    dict: ("d", pairs, list, unpair),
    collections.Counter: ("C", pairs, list, lambda flat: collections.Counter(unpair(flat))),
    bytes: ("b", lambda _, value, __: bytes.hex(value), str, bytes.fromhex),
    bytearray: ("B", lambda _, value, __: bytearray.hex(value), str, bytearray.fromhex),
    complex: ("c", lambda _, value, __: [value.real, value.imag], list, lambda two: complex(*two)),
    decimal.Decimal: (
        "D",
        lambda _, value, __: decimal.Decimal.__str__(value),
        str,
        decimal.Decimal,
    ),
    fractions.Fraction: (
        "F",
        lambda _, value, pack: [*map(pack, value.as_integer_ratio())],
        list,
        lambda two: fractions.Fraction(*two),
    ),
    range: (
        "r",
        lambda _, value, pack: [*map(pack, (value.start, value.stop, value.step))],
        list,
        lambda three: range(*three),
    ),
}
BUILD = {tag: (kind, build) for tag, _, kind, build in CODEC.values()}
BUILD["i"] = str, lambda digits: int(digits, 16)


class Packer:
    """Turns values into what json.dumps takes, of at most `budget` bytes or so.

    An instance of a subclass goes as its base value. `handle(value)` gives the number of an object
    that is no plain data, or raises.
    """

    def __init__(self, handle, budget: float):
        self.handle, self.left = handle, budget

    def pack(self, value, depth: int = 0):
        kind = type(value)
        self.spend(1)
        if value is None or kind is bool or kind is float:
            return value
        if depth > DEPTH:
            raise Unsendable(f"the answer is nested more than {DEPTH} deep")
        for base in kind.__mro__:  # unlike isinstance, this does not ask the object
            if base is int:
                flat = flat_int(int.__int__(value))
                self.spend(len(flat["i"]) if type(flat) is dict else 8)
                return flat
            if base is str:
                self.spend(str.__len__(value))
                return str.__str__(value)
            if base is float:
                return float.__float__(value)
            inner = functools.partial(self.pack, depth=depth + 1)
            if base is list:
                return items(list, value, inner)
            if base in CODEC:
                tag, flatten, *_ = CODEC[base]
                flat = flatten(base, value, inner)
                self.spend(len(flat) if type(flat) is str else 0)
                return {tag: flat}
        return {"h": self.handle(value)}

    def spend(self, amount: int) -> None:
        self.left -= amount
        if self.left < 0:
            raise Unsendable(f"the answer is larger than {ANSWER_BYTES} bytes")


def unpack(line: bytes, handle):
    """The reverse. Raises one of REFUSED for what no Packer sends: the sender may be hostile."""

    def revive(tagged: dict):
        [(tag, flat)] = tagged.items()
        if tag == "h":
            return handle(flat)
        kind, build = BUILD[tag]
        if type(flat) is not kind:
            raise TypeError(f"{tag} of {type(flat).__name__}")
        return build(flat)

    return json.loads(line, object_hook=revive)


REFUSED = (ValueError, TypeError, LookupError, ArithmeticError, RecursionError)


def send(pipe: int, message: bytes) -> None:
    rest = memoryview(message + b"\n")
    while rest:
        rest = rest[os.write(pipe, rest) :]


def receive(pipe: int, most: float) -> bytearray:
    """A line. EOFError when the other side is gone, or has sent more than `most` bytes."""
    line = bytearray()
    while not line.endswith(b"\n"):
        chunk = os.read(pipe, 1 << 16)
        if not chunk or len(line) > most:
            raise EOFError
        line += chunk
    return line
