"""Send plain data between runner and candidate, as tagged JSON with one message a line.

The sender may be hostile. The receiver refuses a message that is too large, too deep or malformed.
"""

import collections
import json
import os
from decimal import Decimal
from fractions import Fraction
from operator import attrgetter

ANSWER_BYTES = 1 << 20  # sender and receiver refuse a longer answer
ERROR_CHARS = 300
NOT_READY = 75  # a runner's exit status if its zygote or a fresh candidate fails
DEPTH = 200


def unpair(flat: list) -> dict:
    return {key: item for key, item in flat}  # noqa: C416  dict() would walk a huge range


CODEC = {  # by type: (tag, function to a text or to parts, type of the flat form, function back)
    list: ("l", list.__iter__, list, list),
    tuple: ("t", tuple.__iter__, list, tuple),
    set: ("s", set.__iter__, list, set),
    frozenset: ("f", frozenset.__iter__, list, frozenset),
    collections.deque: ("q", collections.deque.__iter__, list, collections.deque),
    dict: ("d", dict.items, list, unpair),
    collections.Counter: ("C", dict.items, list, lambda flat: collections.Counter(unpair(flat))),
    bytes: ("b", bytes.hex, str, bytes.fromhex),
    bytearray: ("B", bytearray.hex, str, bytearray.fromhex),
    Decimal: ("D", Decimal.__str__, str, Decimal),
    complex: ("c", attrgetter("real", "imag"), list, lambda two: complex(*two)),
    Fraction: ("F", attrgetter("numerator", "denominator"), list, lambda two: Fraction(*two)),
    range: ("r", attrgetter("start", "stop", "step"), list, lambda three: range(*three)),
}
BUILDERS = {tag: (flat_type, build) for tag, _, flat_type, build in CODEC.values()}
BUILDERS["i"] = str, lambda digits: int(digits, 16)


def pack(value, handle, depth: int = 0):
    """Return a value in the form that json.dumps takes.

    An instance of a subclass becomes its base value. For an object that is not plain data, `handle`
    returns a number or raises.
    """
    value_type = type(value)
    if value is None or value_type is bool or value_type is float:
        return value
    if depth > DEPTH:
        raise ValueError(f"the answer is nested more than {DEPTH} deep")
    for base in value_type.__mro__:  # unlike isinstance, this does not ask the object
        if base is int:
            plain = int.__int__(value)
            if plain.bit_length() < 64:
                return plain
            # Decimal digits take quadratic time and stop at 4300.
            return {"i": format(plain, "x")}
        if base is str:
            return str.__str__(value)
        if base is float:
            return float.__float__(value)
        if base in CODEC:
            tag, flatten, *_ = CODEC[base]
            flat = flatten(value)
            if type(flat) is not str:
                flat = [pack(part, handle, depth + 1) for part in flat]
            return flat if base is list else {tag: flat}
    return {"h": handle(value)}


def unpacker(handle):
    """Return a function that turns a line back into its value.

    It raises one of REFUSED for a line that `pack` cannot have made.
    """

    def revive(tagged: dict):
        [(tag, flat)] = tagged.items()
        if tag == "h":
            return handle(flat)
        flat_type, build = BUILDERS[tag]
        if type(flat) is not flat_type:
            raise TypeError(f"{tag} of {type(flat).__name__}")
        return build(flat)

    decoder = json.JSONDecoder(object_hook=revive)  # making one takes longer than using it
    return lambda line: decoder.decode(line.decode())


REFUSED = (ValueError, TypeError, LookupError, ArithmeticError, RecursionError)


def send(pipe: int, message: bytes) -> None:
    rest = memoryview(message + b"\n")
    while rest:
        rest = rest[os.write(pipe, rest) :]


def receive(pipe: int, limit: float) -> bytearray:
    """Return a line. Raise EOFError if the other side is gone, or sends more than `limit` bytes."""
    line = bytearray()
    while not line.endswith(b"\n"):
        chunk = os.read(pipe, 1 << 16)
        if not chunk or len(line) > limit:
            raise EOFError
        line += chunk
    return line
