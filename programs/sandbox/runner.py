"""Judge programs: run a data set's tests against a candidate.

The runner receives plain data alone. It never runs a line of the candidate, and never holds one of
its objects.
"""

import builtins
import contextlib
import functools
import json
import os
import random
import signal
import socket
import time
from dataclasses import dataclass

from wire import ANSWER_BYTES, ERROR_CHARS, NOT_READY, REFUSED, pack, receive, send, unpacker

READY_SECONDS = 10.0
TICK = 0.1  # seconds between two looks at a program that is late
OUTCOMES = ("ok", "error", "timeout", "memory", "crash")  # from best to worst
OK = ("ok", None)
ENDED = ("ok", "error")  # the program came to an end by itself
SHARED = 500  # how many programs one candidate may run, one after the other


class Crash(BaseException):
    """The candidate is gone, or has sent a malformed answer."""


class BadTest(Exception):
    """The test passes what cannot be sent."""


class TimeLimit(BaseException):
    """The alarm. It is not an Exception, so that a test's `except Exception` does not catch it."""


class Candidate:
    """The runner's end of a candidate."""

    def __init__(self, channel: socket.socket, trainer: socket.socket):
        self.channel = channel
        self.trainer = trainer
        self.lost: str | None = None  # why it can no longer answer
        self.running = True
        self.programs = 0  # loaded so far
        self.schedstats: list[int] = []  # its file with the time that it waited for a core
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
        os.write(self.trainer.fileno(), receive(self.answers, 64))  # its process number
        _, self.schedstats, *_ = socket.recv_fds(self.trainer, 1, 1)

    def end(self) -> None:
        self.lost = self.lost or "the program was stopped"
        if self.running:
            self.running = False
            self.tell_zygote()
            for file in (self.requests, self.answers, *self.schedstats):
                os.close(file)
            self.schedstats = []

    def ask(self, *request):
        """Return the candidate's answer, or raise the exception that the program raised."""
        if self.lost:
            raise Crash(self.lost)
        try:
            send(self.requests, json.dumps(pack([*request], number_of)).encode())
            line = receive(self.answers, ANSWER_BYTES)
        except (EOFError, BrokenPipeError):
            self.lost = "the program's process died"
            raise Crash(self.lost) from None
        try:
            tag, *rest = self.unpack(line)
            if tag == "value":
                [value] = rest
                return value
            error = rebuilt(*rest)
        except REFUSED as reason:
            self.lost = f"the program sent no answer ({type(reason).__name__})"
            raise Crash(self.lost) from None
        raise error


class Remote:
    """An object that stays in the candidate.

    A test can call it, iterate over it, and read and set its attributes. The program's own
    equality, order, length and arithmetic are out of reach. They would show the program the
    expected value, and it could agree.
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
        # An empty list is the end. If the program's StopIteration came through, it would cut a
        # test's own loops short, and all() of nothing is true.
        for value in self._ask("next"):
            return value
        raise StopIteration

    def __eq__(self, _):
        return False

    __hash__ = object.__hash__

    def __repr__(self):
        return "<an object of the program>"


def number_of(value) -> int:
    if not isinstance(value, Remote):
        raise BadTest(f"it passes a {type(value).__name__}, which is no plain data")
    return value._number


def rebuilt(base: str, text: str) -> BaseException:
    """Return the program's exception as the nearest built-in one, such as a ValueError.

    The program chooses the text, but no name.
    """
    error_type = vars(builtins).get(base)
    if not (isinstance(error_type, type) and issubclass(error_type, BaseException)):
        error_type = Exception
    elif issubclass(error_type, StopIteration | StopAsyncIteration | GeneratorExit):
        error_type = RuntimeError  # it would end a loop of the test
    for parent in error_type.__mro__:  # a UnicodeDecodeError cannot be made from a text alone
        with contextlib.suppress(TypeError):
            error = parent(text)
            break
    error.shown = f"{error_type.__name__}: {text}".removesuffix(": ")
    return error


def shown(error: BaseException) -> str:
    """Return "Type: text", at most ERROR_CHARS long."""
    try:
        text = vars(error).get("shown") or f"{type(error).__name__}: {error}".removesuffix(": ")
    except Exception:  # it may hold a number that is too long to print
        text = type(error).__name__
    # Tokenizers and files cannot hold half characters.
    return text[:ERROR_CHARS].encode(errors="replace").decode()


# Setup and tests come again with every answer to the same task.
compiled = functools.lru_cache(4096)(compile)


def execute(source: str, space: dict) -> None:
    exec(compiled(source, "<test>", "exec"), space)


@dataclass
class TestRunner:
    """Runs the tests of one program after the other.

    A limit counts the seconds in which the program could have run: those by the clock, less those
    in which it or this process waited for a core. So a verdict does not depend on other processes,
    and who sleeps has no more time than who computes. Linux gives the second number in a file. The
    trainer opens it, because a locked process cannot.
    """

    channel: socket.socket
    trainer: socket.socket
    schedstats: list[int]  # this process's file, or none (macOS)
    test_timeout: float
    total_timeout: float
    restarts: int
    candidate: Candidate | None = None
    armed: bool = False  # an alarm may interrupt
    rang: bool = False

    def __post_init__(self):
        signal.signal(signal.SIGALRM, self.ring)

    def ring(self, *_) -> None:
        if self.armed:
            left = self.limit + self.began - self.clock()
            # It rings again, also because a test's `except:` may swallow what is raised here.
            signal.setitimer(signal.ITIMER_REAL, max(left, TICK))
            if left < 0:
                self.rang = True
                raise TimeLimit

    def clock(self) -> float:
        """Return a clock of the seconds that count.

        Without schedstats it goes at the tenth of its speed, and RLIMIT_CPU ends who computes.
        """
        now = time.monotonic()
        if not self.schedstats:
            return now / 10
        for file in self.schedstats + (self.candidate.schedstats if self.candidate else []):
            nanoseconds = os.pread(file, 64, 0).split()[1]
            now -= int(nanoseconds) / 1e9
        return now

    def attempt(self, seconds: float, action, *arguments) -> tuple[str, str | None]:
        """Return (outcome, error) of action(*arguments) within so many seconds that count."""
        late = "timeout", "TimeoutError: no answer in time"
        if seconds <= 0:
            return late
        self.rang = False
        self.limit = seconds
        self.began = self.clock()
        try:
            self.armed = True
            # The second timer ends a runner that is deep in C code and does not hear the alarm.
            signal.setitimer(signal.ITIMER_REAL, seconds)
            signal.setitimer(signal.ITIMER_VIRTUAL, seconds + 1.0)
            try:
                action(*arguments)
            finally:
                self.armed = False
                signal.setitimer(signal.ITIMER_REAL, 0)
                signal.setitimer(signal.ITIMER_VIRTUAL, 0)
                self.used += self.clock() - self.began
        except BaseException as error:
            if self.rang:
                return late
            outcomes = {Crash: "crash", MemoryError: "memory"}
            return outcomes.get(type(error), "error"), shown(error)
        return late if self.rang else OK

    def verdict(self, code, tests, entry_point, setup, statements, may_fail, own_process) -> dict:
        """Return a Verdict's fields, or {"setup": error}."""
        # Programs never see the tests, so they cannot foresee what setup and tests draw.
        random.seed(repr((setup, tests)))
        self.used = 0.0  # seconds that count
        self.space = {"__name__": "tests", "__builtins__": builtins}
        status, error = self.attempt(self.total_timeout, execute, setup, self.space)
        if status != "ok":
            return {"setup": error}
        self.program = [setup, statements, code, entry_point]
        self.entry_point = entry_point
        self.tests = tests
        if may_fail is None:
            load, results = self.run(own_process, len(tests), self.restarts)
        else:
            load, results = self.run(own_process, may_fail, restarts=0)
        outcomes = [outcome for outcome, _ in [load, *results]]
        return {
            "passed": [result == OK for result in results],
            "outcome": max(outcomes, key=OUTCOMES.index),
            "errors": [error for _, error in results],
            "seconds": self.used,
        }

    def run(self, own_process: bool, may_fail: int, restarts: int):
        """Return the result of loading and the results of the tests, as (outcome, error).

        If the program does not load, its result is that of every test. After a failed test the next
        one runs. After more than `may_fail` failed tests, the last result is that of all others. If
        a test hangs, or the candidate crashes, it loads again, up to `restarts` times. Then the
        last result is that of all others. If earlier programs were loaded in this candidate, the
        program runs again instead, in a candidate of its own.
        """
        self.used = 0.0
        results = []
        failures = 0
        candidate, load = self.start(own_process)
        used_before = candidate.programs > 1
        for test in self.tests:
            if candidate.lost and load == OK and restarts and self.seconds_left() > 0:
                restarts -= 1
                candidate, load = self.start(own_process)
            if load != OK:
                result = load
            elif candidate.lost or failures > may_fail:
                result = results[-1]
            else:
                result = self.test(candidate, test)
            if used_before and result[0] not in ENDED:  # an earlier program may be the cause
                return self.run(True, may_fail, restarts)
            results.append(result)
            failures += result != OK
        if own_process:
            candidate.end()
        return load, results

    def test(self, candidate: Candidate, test: str):
        """Return the result of one test of a loaded program."""
        self.space[self.entry_point] = Remote(candidate, 0)  # setup's functions may call it, too
        random.seed(hash(test))
        result = self.attempt(self.seconds_left(), execute, test, dict(self.space))
        if result == OK and candidate.lost:  # the test has swallowed the Crash
            result = "crash", f"Crash: {candidate.lost}"
        if result[0] == "timeout" or candidate.lost:
            candidate.end()
        return result

    def seconds_left(self) -> float:
        """Return the seconds that the next test may take."""
        return min(self.test_timeout, self.total_timeout - self.used)

    def start(self, own_process: bool):
        """Return a candidate, and the result of loading the program in it.

        The candidate is a fresh one, or the one that earlier programs shared.
        """
        candidate = self.candidate
        if own_process or not candidate or candidate.lost or candidate.programs == SHARED:
            if candidate:
                candidate.end()
            self.candidate = candidate = Candidate(self.channel, self.trainer)
            if self.attempt(READY_SECONDS, candidate.await_ready)[0] != "ok":
                os._exit(NOT_READY)
        candidate.programs += 1
        load = self.attempt(self.seconds_left(), candidate.ask, "load", *self.program)
        if load[0] not in ENDED:
            candidate.end()
        return candidate, load
