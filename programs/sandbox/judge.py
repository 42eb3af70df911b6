"""The judge: runs a data set's tests against a candidate, of which it sees plain data alone: no
line and no object of the candidate is ever in this process."""

import builtins
import contextlib
import functools
import json
import os
import random
import signal
import socket
import time
import types

from wire import ANSWER_BYTES, ERROR_CHARS, NOT_READY, REFUSED, pack, receive, send, unpacker

READY_SECONDS = 10.0
OUTCOMES = ("ok", "error", "timeout", "memory", "crash")  # from best to worst
OK = ("ok", None)
ENDED = ("ok", "error")  # of a program that came to an end by itself
SHARED = 500  # programs, one after the other, that one candidate may see


class Crash(BaseException):
    """The candidate is gone, or has sent something that is no answer."""


class BadTest(Exception):
    """The test itself is wrong."""


class TimeLimit(BaseException):
    """The alarm. Not an Exception, lest a test's `except Exception` catches it."""


class Candidate:
    """The judge's end of a candidate."""

    def __init__(self, channel: socket.socket):
        self.channel, self.lost, self.running, self.programs = channel, None, True, 0
        self.unpack = unpacker(functools.partial(Remote, self))
        inbox, self.requests = os.pipe()
        self.answers, outbox = os.pipe()
        self.tell_zygote(inbox, outbox)
        os.close(inbox)
        os.close(outbox)

    def tell_zygote(self, *pipes: int) -> None:
        try:
            socket.send_fds(self.channel, [b"."], pipes)
        except OSError:
            os._exit(NOT_READY)

    def await_ready(self) -> None:
        if receive(self.answers, 64) != b"ready\n":
            raise EOFError

    def end(self) -> None:
        self.lost = self.lost or "the program was stopped"
        if self.running:
            self.running = False
            self.tell_zygote()
            os.close(self.requests)
            os.close(self.answers)

    def ask(self, *request):
        """Returns the candidate's answer, or raises what the program raised."""
        if self.lost:
            raise Crash(self.lost)
        try:
            send(self.requests, json.dumps(pack([*request], number_of)).encode())
            line = receive(self.answers, ANSWER_BYTES)
        except (EOFError, BrokenPipeError):
            self.lost = "the program's process died"
            raise Crash(self.lost) from None
        try:
            kind, *rest = self.unpack(line)
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
        return self._candidate.ask(action, self, *rest)

    def __call__(self, *arguments, **keywords):
        return self._ask("call", [*arguments], keywords)

    def __getattr__(self, name: str):
        return self._ask("getattr", name)

    def __setattr__(self, name: str, value):
        self._ask("setattr", name, value)

    def __iter__(self):
        return self._ask("iter")

    def __next__(self):
        # An empty list, and not an exception, is the end: a StopIteration from anywhere else would
        # cut a test's own loops short, and all() of nothing is true.
        for value in self._ask("next"):
            return value
        raise StopIteration

    def __eq__(self, other):
        return False

    __hash__ = object.__hash__

    def __repr__(self):
        return "<an object of the program>"


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


def shown(error: BaseException) -> str:
    try:
        text = vars(error).get("shown") or f"{type(error).__name__}: {error}".removesuffix(": ")
    except Exception:  # it holds a number too long to print, say
        text = type(error).__name__
    # without half characters, which no tokenizer and no file takes
    return text[:ERROR_CHARS].encode(errors="replace").decode()


@functools.lru_cache(4096)
def compiled(source: str) -> types.CodeType:
    """Of setup and tests only, which come again with every answer to the same task."""
    try:
        return compile(source, "<test>", "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        raise BadTest(shown(error)) from None


def execute(source: str, space: dict) -> None:
    exec(compiled(source), space)


class Judge:
    def __init__(self, channel: socket.socket, test_timeout, total_timeout, restarts: int):
        self.channel = channel
        self.test_timeout, self.total_timeout, self.restarts = test_timeout, total_timeout, restarts
        self.candidate, self.armed, self.rang = None, False, False
        signal.signal(signal.SIGALRM, self.ring)

    def ring(self, *_) -> None:
        if self.armed:
            self.rang = True
            raise TimeLimit

    def attempt(self, seconds: float, action, *arguments) -> tuple[str, str | None]:
        """(status, error) of action(*arguments) within so many seconds."""
        late = "timeout", "TimeoutError: no answer in time"
        if seconds <= 0:
            return late
        self.rang = False
        try:
            self.armed = True
            # It rings again every second, in case a test's `except:` swallows it. And should the
            # judge not hear it, deep in C code on a huge answer, the second alarm ends it.
            signal.setitimer(signal.ITIMER_REAL, seconds, 1.0)
            signal.setitimer(signal.ITIMER_VIRTUAL, seconds + 1.0)
            try:
                action(*arguments)
            finally:
                self.armed = False
                signal.setitimer(signal.ITIMER_REAL, 0)
                signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        except BaseException as error:
            kinds = {Crash: "crash", MemoryError: "memory"}
            return late if self.rang else (kinds.get(type(error), "error"), shown(error))
        return late if self.rang else OK

    def judge(self, code, tests, entry_point, setup, apart, once) -> dict:
        """A Verdict's fields but its seconds, or {"setup": error}."""
        # What setup and tests draw follows from what no program has ever seen.
        random.seed(repr((setup, tests)))
        self.space = {"__name__": "tests", "__builtins__": builtins}
        status, error = self.attempt(self.total_timeout, execute, setup, self.space)
        if status != "ok":
            return {"setup": error}
        self.program, self.entry_point, self.tests = [setup, code, entry_point], entry_point, tests
        load, results = self.run(apart, 0 if once else self.restarts)
        return {
            "passed": [result == OK for result in results],
            "outcome": max([load, *results], key=lambda result: OUTCOMES.index(result[0]))[0],
            "errors": [error for _, error in results],
        }

    def run(self, apart: bool, restarts: int):
        """Results of loading and of the tests."""
        deadline, results = time.monotonic() + self.total_timeout, []
        candidate, load = self.start(deadline, apart)
        used = candidate.programs > 1
        for test in self.tests:
            if candidate.lost and load == OK and restarts and time.monotonic() < deadline:
                restarts -= 1
                candidate, load = self.start(deadline, apart)
            if load != OK:
                result = load
            elif candidate.lost:
                result = results[-1]
            else:
                result = self.test(candidate, self.share(deadline), test)
            if used and result[0] not in ENDED:  # who knows what was there before
                return self.run(True, restarts)
            results.append(result)
        if apart:
            candidate.end()
        return load, results

    def test(self, candidate: Candidate, seconds: float, test: str):
        """The result of one test of a program that is loaded."""
        self.space[self.entry_point] = Remote(candidate, 0)  # for what setup defines, too
        random.seed(hash(test))
        result = self.attempt(seconds, execute, test, dict(self.space))
        if result == OK and candidate.lost:  # the test has swallowed it
            result = "crash", f"Crash: {candidate.lost}"
        if result[0] == "timeout" or candidate.lost:
            candidate.end()
        return result

    def share(self, deadline: float) -> float:
        return min(self.test_timeout, deadline - time.monotonic())

    def start(self, deadline: float, apart: bool):
        """A candidate, and the result of loading the program in it: a fresh one; or, if the program
        need not be apart, the one that others like it ran in."""
        candidate = self.candidate
        if apart or not candidate or candidate.lost or candidate.programs == SHARED:
            if candidate:
                candidate.end()
            self.candidate = candidate = Candidate(self.channel)
            if self.attempt(READY_SECONDS, candidate.await_ready)[0] != "ok":
                os._exit(NOT_READY)
        candidate.programs += 1
        load = self.attempt(self.share(deadline), candidate.ask, "load", *self.program)
        if load[0] not in ENDED:
            candidate.end()
        return candidate, load
