"""What travels between judge and candidate: plain data as tagged JSON, a line a message.

The sender may be hostile: what is too large, too deep or malformed is refused by who reads it.
"""

import collections
import json
import os
from decimal import Decimal
from fractions import Fraction

ANSWER_BYTES = 1 << 20  # a longer answer is refused, by the sender and by the receiver
ERROR_CHARS = 300
NOT_READY = 75  # a judge's exit status when its zygote or a fresh candidate failed it
DEPTH = 200


def items(base, value, pack) -> list:
    return [pack(item) for item in base.__iter__(value)]


def pairs(_base, value, pack) -> list:
    return [[pack(key), pack(item)] for key, item in dict.items(value)]


def unpair(flat: list) -> dict:
    return {key: item for key, item in flat}  # noqa: C416  dict() would walk a range, however long


def by_parts(*names: str):
    return lambda _base, value, pack: [pack(getattr(value, name)) for name in names]


CODEC = {  # type: (tag, how it goes flat, type of the flat, how it is built again)
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
BUILD = {tag: (kind, build) for tag, _, kind, build in CODEC.values()}
BUILD["i"] = str, lambda digits: int(digits, 16)


def pack(value, handle, depth: int = 0):
    """A value as what json.dumps takes. An instance of a subclass goes as its base value; `handle`
    gives the number of an object that is no plain data, or raises."""
    kind = type(value)
    if value is None or kind is bool or kind is float:
        return value
    if depth > DEPTH:
        raise ValueError(f"the answer is nested more than {DEPTH} deep")
    for base in kind.__mro__:  # unlike isinstance, this does not ask the object
        if base is int:
            plain = int.__int__(value)
            # hexadecimal when long: decimal digits take quadratic time, and stop at 4300
            return plain if plain.bit_length() < 64 else {"i": format(plain, "x")}
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
    """The reverse: a function of a line. It raises one of REFUSED for what pack does not give."""

    def revive(tagged: dict):
        [(tag, flat)] = tagged.items()
        if tag == "h":
            return handle(flat)
        kind, build = BUILD[tag]
        if type(flat) is not kind:
            raise TypeError(f"{tag} of {type(flat).__name__}")
        return build(flat)

    decoder = json.JSONDecoder(object_hook=revive)  # it takes longer to make than to use
    return lambda line: decoder.decode(line.decode())


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
