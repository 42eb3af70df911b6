"""The judge's end of a candidate: what it asks, and what comes back, as built-in values or objects
that stay where they are."""

import builtins
import contextlib
import functools
import json
import os
import socket

from wire import ANSWER_BYTES, REFUSED, Packer, receive, send, unpack

NOT_READY = 75  # exit status: the worker has failed, not the program


class Crash(BaseException):
    """The candidate is gone, or has sent something that is no answer."""


class BadTest(Exception):
    """The test itself is wrong."""


class Candidate:
    """The judge's end of a candidate."""

    def __init__(self, channel: socket.socket, processor: int):
        self.channel, self.lost, self.running = channel, None, True
        self.processor, self.programs = processor, 0
        inbox, self.requests = os.pipe()
        self.answers, outbox = os.pipe()
        self.tell_zygote(processor, inbox, outbox)
        os.close(inbox)
        os.close(outbox)

    def tell_zygote(self, processor: int, *pipes: int) -> None:
        try:
            socket.send_fds(self.channel, [processor.to_bytes(4, "little", signed=True)], pipes)
        except OSError:
            os._exit(NOT_READY)

    def await_ready(self) -> None:
        if receive(self.answers, 64) != b"ready\n":
            raise EOFError

    def end(self) -> None:
        self.lost = self.lost or "the program was stopped"
        if self.running:
            self.running = False
            self.tell_zygote(-1)
            os.close(self.requests)
            os.close(self.answers)

    def ask(self, *request):
        """Returns the candidate's answer, or raises what the program raised."""
        if self.lost:
            raise Crash(self.lost)
        try:
            send(self.requests, json.dumps(request).encode())
            line = receive(self.answers, ANSWER_BYTES)
        except (EOFError, BrokenPipeError):
            self.lost = "the program's process died"
            raise Crash(self.lost) from None
        return self.answer(line)

    def answer(self, line: bytes):
        """What a line of the candidate's says."""
        try:
            kind, *rest = unpack(line, functools.partial(Remote, self))
            if kind == "value":
                [value] = rest
                return value
            error = rebuilt(*rest)
        except REFUSED as reason:
            self.lost = f"the program sent no answer ({type(reason).__name__})"
            raise Crash(self.lost) from None
        raise error


class Remote:
    """An object that stays in the candidate: to be called, iterated, asked for attributes and given
    new ones.

    It has no equality, order, length or arithmetic of its own: a program that defines those would
    be shown what it is compared with, and could agree.
    """

    __slots__ = ("_candidate", "_number")

    def __init__(self, candidate: Candidate, number: int):
        object.__setattr__(self, "_candidate", candidate)
        object.__setattr__(self, "_number", number)

    def _ask(self, action: str, *rest):
        return self._candidate.ask(action, {"h": self._number}, *rest)

    def __call__(self, *arguments, **keywords):
        return self._ask("call", *packed(arguments, keywords))

    def __getattr__(self, name: str):
        return self._ask("attribute", name)

    def __setattr__(self, name: str, value):
        [packed_value], _ = packed((value,), {})
        self._ask("set_attribute", name, packed_value)

    def __iter__(self):
        return self._ask("iterate")

    def __next__(self):
        # An empty list, and not an exception, is the end: a StopIteration from anywhere else would
        # cut a test's own loops short, and all() of nothing is true.
        for value in self._ask("advance"):
            return value
        raise StopIteration

    def __eq__(self, other):
        return False

    __hash__ = object.__hash__

    def __repr__(self):
        return "<an object of the program>"


class Versions:
    """The same program with several parts of the bank, numbered from 0, and the first call that a
    test makes: it is the same for all of them, so they answer it at once."""

    def __init__(self, candidate: Candidate, numbers: list[int], seconds: float):
        self.candidate, self.numbers, self.seconds = candidate, numbers, seconds
        self.first, self.lines = None, {}  # the call, and the reply of each

    def reply(self, number: int, call: list) -> str | None:
        """A version's reply to the first call; None if another one is asked for."""
        if self.first is None:
            self.first = json.dumps(call)
            with contextlib.suppress(Exception):  # their answers may be too large together
                lines = self.candidate.ask("call_each", self.numbers, self.seconds, *call)
                self.lines = dict(zip(self.numbers, lines, strict=True))
        return self.lines.get(number) if self.first == json.dumps(call) else None


class Version(Remote):
    """The function under test of one of them."""

    __slots__ = ("_calls", "_versions")

    def __init__(self, versions: Versions, number: int):
        super().__init__(versions.candidate, -number)
        object.__setattr__(self, "_versions", versions)
        object.__setattr__(self, "_calls", 0)

    def __call__(self, *arguments, **keywords):
        call = packed(arguments, keywords)
        object.__setattr__(self, "_calls", self._calls + 1)
        line = self._versions.reply(-self._number, call) if self._calls == 1 else None
        if line is None:
            return self._ask("call", *call)
        return self._candidate.answer(line.encode())

    def known(self) -> str | None:
        """The one reply that decides the test's result, if the test asked for nothing else."""
        line = self._versions.lines.get(-self._number, '"h"')
        return line if self._calls == 1 and '"h"' not in line else None


def packed(arguments: tuple, keywords: dict) -> list:
    packer = Packer(number_of, float("inf"))
    return [packer.pack([*arguments]), packer.pack(keywords)]


def number_of(value) -> int:
    if not isinstance(value, Remote):
        raise BadTest(f"it passes a {type(value).__name__}, which is no plain data")
    return value._number


def rebuilt(base: str, name: str, text: str) -> BaseException:
    """The program's exception, as the nearest built-in one: a test may expect a ValueError."""
    kind = getattr(builtins, base)
    if not issubclass(kind, BaseException) or issubclass(
        kind, StopIteration | StopAsyncIteration | GeneratorExit
    ):  # these end loops
        kind = RuntimeError
    for parent in kind.__mro__:  # some, such as UnicodeDecodeError, cannot be made from a text
        with contextlib.suppress(TypeError):
            error = parent(text)
            break
    error.shown = f"{name}: {text}".removesuffix(": ")
    return error
