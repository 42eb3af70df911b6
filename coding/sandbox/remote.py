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
    """An object that stays in the candidate: to be called, iterated, asked for attributes.

    It has no equality, order, length or arithmetic of its own: a program that defines those would
    be shown what it is compared with, and could agree.
    """

    __slots__ = ("_candidate", "_number")

    def __init__(self, candidate: Candidate, number: int):
        self._candidate, self._number = candidate, number

    def _ask(self, action: str, *rest):
        return self._candidate.ask(action, {"h": self._number}, *rest)

    def __call__(self, *arguments, **keywords):
        packer = Packer(number_of, float("inf"))
        return self._ask("call", packer.pack([*arguments]), packer.pack(keywords))

    def __getattr__(self, name: str):
        return self._ask("attribute", name)

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


def number_of(value) -> int:
    if type(value) is not Remote:
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
