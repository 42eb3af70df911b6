"""Send plain data between judge and candidate, as tagged JSON with one message a line.

The sender may be hostile. The receiver refuses a message that is too large, too deep or malformed.
"""

import collections
import json
import os
from decimal import Decimal
from fractions import Fraction

ANSWER_BYTES = 1 << 20  # sender and receiver refuse a longer answer
ERROR_CHARS = 300
NOT_READY = 75  # a judge's exit status if its zygote or a fresh candidate fails
DEPTH = 200


def items(base, value, pack) -> list:
    return [pack(item) for item in base.__iter__(value)]


def pairs(_base, value, pack) -> list:
    return [[pack(key), pack(item)] for key, item in dict.items(value)]


def unpair(flat: list) -> dict:
    return {key: item for key, item in flat}  # noqa: C416  dict() would walk a huge range


def by_parts(*names: str):
    return lambda _base, value, pack: [pack(getattr(value, name)) for name in names]


CODEC = {  # type: (tag, function to the flat form, type of the flat form, function back)
    list: ("l", items, list, list),
    tuple: ("t", items, list, tuple),
    set: ("s", items, list, set),
    frozenset: ("f", items, list, frozenset),
    collections.deque: ("q", items, list, collections.deque),
    dict: ("d", pairs, list, unpair),
    collections.Counter: ("C", pairs, list, lambda flat: collections.Counter(unpair(flat))),
    bytes: ("b", lambda _base, value, _pack: bytes.hex(value), str, bytes.fromhex),
    bytearray: ("B", lambda _base, value, _pack: bytearray.hex(value), str, bytearray.fromhex),
    Decimal: ("D", lambda _base, value, _pack: Decimal.__str__(value), str, Decimal),
    complex: ("c", by_parts("real", "imag"), list, lambda two: complex(*two)),
    Fraction: ("F", by_parts("numerator", "denominator"), list, lambda two: Fraction(*two)),
    range: ("r", by_parts("start", "stop", "step"), list, lambda three: range(*three)),
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
            flat = flatten(base, value, lambda item: pack(item, handle, depth + 1))
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
