"""The candidate: loads one program and answers the judge's requests about it.

It owns two pipe ends, and locks itself once more than the worker did (locks.py).
"""

import functools
import json
import os
import pickle
import random
import signal
import sys
import types

import bank
import locks
from wire import ANSWER_BYTES, Packer, Unsendable, receive, send, unpack

ERROR_CHARS = 300
RESERVE = [bytearray(1 << 20)]  # given up to report a MemoryError
TICK = 0.1  # seconds of CPU time
MOST_HANGS = 5  # parts of the bank that do not end; then none is tried any more
LOADED = json.dumps(["value", None])
LATE = json.dumps(["error", "TimeoutError", "Late", "a part of the bank did not end"])


class Late(BaseException):
    """The end of a part's CPU time. Not an Exception, lest a program catches it by mistake."""


class Solution:
    """The program, in a module of its own, and those of its objects that the judge knows of; or
    the same program with several parts of the bank, each in a module of its own."""

    def __init__(self):
        self.modules, self.entry_point, self.objects = [], "", []
        self.ticks = self.end = 0  # of the CPU time of parts of the bank

    def tick(self, *_) -> None:
        self.ticks += 1
        if self.ticks > self.end:
            raise Late

    def answer(self, request: bytes) -> bytes:
        return self.reply(lambda: unpack(request, self.object))

    def reply(self, request) -> bytes:
        try:
            action, *rest = request()
            packed = Packer(self.handle, ANSWER_BYTES).pack(getattr(self, action)(*rest))
            reply = json.dumps(["value", packed]).encode()
            if len(reply) > ANSWER_BYTES:
                raise Unsendable(f"the answer is larger than {ANSWER_BYTES} bytes")
        except Late:
            raise
        except BaseException as error:
            if type(error) is MemoryError:
                RESERVE.clear()
            reply = json.dumps(["error", *described(error)]).encode()
        return reply

    def object(self, number: int):
        """One that was handed out; or, from 0 down, what a module has under entry_point."""
        if number > 0:
            return self.objects[number - 1]
        try:  # at every call anew, as a call by its name would
            return self.modules[-number].__dict__[self.entry_point]
        except KeyError:
            raise NameError(f"name {self.entry_point!r} is not defined") from None

    def handle(self, value) -> int:
        self.objects.append(value)
        return len(self.objects)

    # The judge's requests:

    def load(self, setup: str, code: str, entry_point: str) -> None:
        self.forget(entry_point)
        self.load_module(setup, code, lambda space: None)

    def load_parts(self, setup, code, entry_point, part, numbers, seconds) -> list[str]:
        """LOADED, an error or LATE: the program, with each of these parts of the bank in turn."""
        self.forget(entry_point)
        installs = [functools.partial(bank.install, *part, number) for number in numbers]
        return self.each([("load_module", setup, code, install) for install in installs], seconds)

    def forget(self, entry_point: str) -> None:
        for module in self.modules:
            module.__dict__.clear()  # its functions and their globals hold each other
        self.modules, self.entry_point, self.objects = [], entry_point, []

    def load_module(self, setup: str, code: str, prepare) -> None:
        module = sys.modules["solution"] = types.ModuleType("solution")
        self.modules.append(module)
        random.seed(0)  # a fork seeds it from the system
        exec(compiled(setup, "<setup>"), module.__dict__)
        prepare(module.__dict__)
        exec(compiled(code, "<program>"), module.__dict__)
        self.object(1 - len(self.modules))

    def call(self, target, arguments: list, keywords: dict):
        return target(*arguments, **keywords)

    def attribute(self, target, name: str):
        return getattr(target, name)

    def set_attribute(self, target, name: str, value) -> None:
        setattr(target, name, value)

    def iterate(self, target):
        return iter(target)

    def advance(self, target) -> list:
        try:
            return [next(target)]
        except StopIteration:
            return []

    def call_each(self, numbers: list[int], seconds: float, arguments, keywords) -> list[str]:
        """The replies of the program's versions to the same call, each with copies of its own."""
        copied = pickle.dumps((arguments, keywords))  # sooner copied than unpacked
        return self.each([("call_copy", number, copied) for number in numbers], seconds)

    def call_copy(self, number: int, copied: bytes):
        arguments, keywords = pickle.loads(copied)
        return self.object(-number)(*arguments, **keywords)

    def each(self, requests: list[tuple], seconds: float) -> list[str]:
        """The reply to each of some requests, or LATE after so many seconds of CPU time."""
        replies, hangs = [], 0
        signal.signal(signal.SIGPROF, self.tick)
        # It ticks on, in case the program's `except:` swallows one.
        signal.setitimer(signal.ITIMER_PROF, TICK, TICK)
        try:
            for request in requests:
                self.end = self.ticks + seconds / TICK
                try:
                    if hangs > MOST_HANGS:
                        raise Late
                    replies.append(self.reply(lambda request=request: request).decode())
                except Late:
                    hangs += 1
                    replies.append(LATE)
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
        return replies


@functools.cache
def compiled(source: str, name: str) -> types.CodeType:
    return compile(source, name, "exec", dont_inherit=True)


def described(error: BaseException) -> tuple[str, str, str]:
    """(nearest built-in class, class, text). Asking for the text runs the program's code."""
    base = next(kind.__name__ for kind in type(error).__mro__ if kind.__module__ == "builtins")
    try:
        text = str.__str__(str(error))[:ERROR_CHARS]
    except BaseException:
        text = "(its text cannot be had)"
    return base, type(error).__name__[:ERROR_CHARS], text


def be_candidate(zygote: int, inbox: int, outbox: int, cpu_seconds: int, missing: list) -> None:
    if not locks.lock_candidate(missing, cpu_seconds) or os.getppid() != zygote:
        return  # without a "ready", the judge gives up this worker
    solution = Solution()
    send(outbox, b"ready")
    while True:
        send(outbox, solution.answer(receive(inbox, float("inf"))))
