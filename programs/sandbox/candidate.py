"""Be the candidate: load one program and answer the runner's requests about it.

The candidate owns two pipe ends, and adds a lock to the worker's own (locks.py).
"""

import contextlib
import functools
import json
import os
import random
import sys
import types

import locks
from wire import ANSWER_BYTES, ERROR_CHARS, pack, receive, send, unpacker

RESERVE = [bytearray(1 << 20)]  # freed to report a MemoryError
compiled = functools.cache(compile)  # programs that share a process have sources in common


class Solution:
    """The program in its module, and the objects of it that the runner knows."""

    def __init__(self):
        self.module = types.ModuleType("solution")
        self.entry_point = ""
        self.objects = []  # number n stands at index n - 1
        self.unpack = unpacker(self.object)

    def answer(self, request: bytes) -> bytes:
        try:
            action, *rest = self.unpack(request)
            value = self.load(*rest) if action == "load" else ACTIONS[action](*rest)
            reply = json.dumps(["value", pack(value, self.handle)]).encode()
            if len(reply) > ANSWER_BYTES:
                raise ValueError(f"the answer is larger than {ANSWER_BYTES} bytes")
        except BaseException as error:
            if type(error) is MemoryError:
                RESERVE.clear()
            reply = json.dumps(["error", *described(error)]).encode()
        return reply

    def object(self, number: int):
        """Return the object with this number. Number 0 is the program's entry point."""
        if number:
            return self.objects[number - 1]
        try:  # looked up at every call, as a call by its name would
            return self.module.__dict__[self.entry_point]
        except KeyError:
            raise NameError(f"name {self.entry_point!r} is not defined") from None

    def handle(self, value) -> int:
        self.objects.append(value)
        return len(self.objects)

    def load(self, setup: str, statements: list[str], code: str, entry_point: str):
        self.module.__dict__.clear()  # its functions and their globals hold each other
        self.module = sys.modules["solution"] = types.ModuleType("solution")
        self.entry_point = entry_point
        self.objects = []
        random.seed(0)  # each fork is seeded by the system
        exec(compiled(setup, "<setup>", "exec"), self.module.__dict__)
        for statement in statements:
            with contextlib.suppress(BaseException):
                exec(compiled(statement, "<program>", "exec"), self.module.__dict__)
        exec(compiled(code, "<program>", "exec"), self.module.__dict__)
        self.object(0)


def advance(target) -> list:
    """Return [next value], or [] at the end."""
    try:
        return [next(target)]
    except StopIteration:
        return []


ACTIONS = {
    "call": lambda target, arguments, keywords: target(*arguments, **keywords),
    "getattr": getattr,
    "setattr": setattr,
    "iter": iter,
    "next": advance,
}


def described(error: BaseException) -> tuple[str, str]:
    """Return (nearest built-in class, text). The program's code may run for the text."""
    classes = type(error).__mro__
    base = next(parent.__name__ for parent in classes if parent.__module__ == "builtins")
    try:
        text = str.__str__(str(error))[:ERROR_CHARS]
    except BaseException:
        text = "(its text cannot be had)"
    return base, text


def be_candidate(zygote: int, inbox: int, outbox: int, cpu_seconds: int, missing: list) -> None:
    if not locks.lock_candidate(missing, cpu_seconds) or os.getppid() != zygote:
        return  # without its process number, the runner gives up this worker
    solution = Solution()
    send(outbox, str(os.getpid()).encode())
    while True:
        send(outbox, solution.answer(receive(inbox, float("inf"))))
