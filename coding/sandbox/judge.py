"""The judge: runs a data set's tests against a candidate, of which it sees plain data alone.

The function under test is a Remote (remote.py): calls travel to the candidate as JSON, answers come
back as built-in values, so that no line and no object of the candidate is ever in this process.
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
import types

import bank
import locks
from candidate import ERROR_CHARS
from remote import NOT_READY, BadTest, Candidate, Crash, Remote, number_of, rebuilt
from wire import Packer, unpack

READY_SECONDS = 10.0
OK = ("ok", None)
FAILED = ("error", "no part of the bank passes it")
LATE = ("timeout", "the bank takes too long")
ENDED = ("ok", "error")  # of a program that came to an end by itself
SHARED = 500  # programs, one after the other, that one candidate may see


class TimeLimit(BaseException):
    """The alarm. Not an Exception, lest a test's `except Exception` catches it."""


class Unsure(BaseException):
    """It takes more than the answer to one call to know."""


def shown(error: BaseException) -> str:
    try:
        text = vars(error).get("shown") or f"{type(error).__name__}: {error}".removesuffix(": ")
    except Exception:  # it holds a number too long to print, say
        text = type(error).__name__
    return text[:ERROR_CHARS]


@functools.lru_cache(4096)
def compiled(source: str) -> types.CodeType:
    """Of setup and tests only, which come again with every answer to the same task."""
    try:
        return compile(source, "<test>", "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        raise BadTest(shown(error)) from None


class Judge:
    def __init__(
        self,
        channel: socket.socket,
        progress: int,
        test_timeout: float,
        total_timeout: float,
        restarts: int,
    ):
        self.channel, self.progress = channel, progress
        self.test_timeout, self.total_timeout, self.restarts = test_timeout, total_timeout, restarts
        self.armed = self.rang = False
        self.processors, self.candidate = locks.allowed_processors(), None
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
        except TimeLimit:
            return late
        except Crash as error:
            return "crash", shown(error)
        except MemoryError as error:
            return "memory", shown(error)
        except BaseException as error:
            return late if self.rang else ("error", shown(error))
        return late if self.rang else ("ok", None)

    def judge(self, code, tests, entry_point, setup, apart, replaced, caller_of, *limits) -> dict:
        """{"load": result, "results": one per test, "seconds": } or {"setup": error}. Where a
        function is replaced, the results are those of the best part of the bank."""
        # The inputs that tests draw follow from what no program has ever seen.
        random.seed(repr((setup, tests)))
        space = {"__name__": "tests", "__builtins__": builtins}
        status, error = self.attempt(self.total_timeout, self.execute, setup, space)
        if status != "ok":
            return {"setup": error}
        self.drawn, began, program = random.getstate(), time.monotonic(), (setup, code, entry_point)
        if replaced:
            program = (*program, replaced, caller_of)
            load, results = self.try_parts(program, tests, space, apart, *limits)
        else:
            load, results = self.run(program, tests, space, apart)
        self.report("\n")
        locks.keep_to(self.processors)
        return {"load": load, "results": results, "seconds": time.monotonic() - began}

    def run(self, program: tuple[str, str, str], tests: list[str], space: dict, apart: bool):
        """How the program loads, and the result of each test."""
        deadline, restarts, results = time.monotonic() + self.total_timeout, self.restarts, []
        random.setstate(self.drawn)
        candidate, load = self.start(program, deadline, apart)
        used = candidate.programs > 1
        for test in tests:
            if candidate.lost and load == OK and restarts and time.monotonic() < deadline:
                restarts -= 1
                candidate, load = self.start(program, deadline, apart)
            if load != OK:
                result = load
            elif candidate.lost:
                result = results[-1]
            else:
                result = self.test(candidate, self.share(deadline), test, space, program[2])
            if used and result[0] not in ENDED:
                break
            results.append(result)
            self.report(result[0][0])
        self.leave(candidate, apart)
        if len(results) < len(tests):
            self.report("\n")
            return self.run(program, tests, space, apart=True)
        return load, results

    def try_parts(self, program, tests, space: dict, apart: bool, limit, all_or_none, parts):
        """Whether the bank was gone through in time, and the results of its best part."""
        deadline, best = time.monotonic() + self.total_timeout, [FAILED] * len(tests)
        least = len(tests) if all_or_none else 1  # tests that it takes to be better
        first = tests[:1] if all_or_none else tests
        numbers = range(bank.size(program[-1]))[:parts]
        known = {} if apart else self.known(program, first, space, limit, len(numbers))
        for number in numbers:
            if time.monotonic() > deadline:
                return LATE, best
            if least > len(tests):
                break
            results = known.get(number, [])
            if len(results) < len(tests) and FAILED not in results:
                room = len(tests) - least
                results = self.try_part((*program, number), tests, space, apart, limit, room)
            if results.count(OK) >= least:
                best, least = results, results.count(OK) + 1
        return OK, best

    def try_part(self, program, tests, space: dict, apart: bool, limit: float, room: int):
        """The results of one part, up to where it fails more tests than there is room for."""
        for alone in (apart, True):
            random.setstate(self.drawn)
            candidate, deadline = self.open(alone), time.monotonic() + limit
            used, results = candidate.programs > 1, []
            last = self.attempt(limit, candidate.ask, "load", *program)
            for test in tests:
                if last[0] not in ENDED or results.count(FAILED) > room:
                    break
                last = self.test(candidate, deadline - time.monotonic(), test, space, program[2])
                results.append(OK if last == OK else FAILED)
            self.leave(candidate, alone)
            if last[0] in ENDED or not used:
                break
        return results + [FAILED] * (len(tests) - len(results))

    def known(self, program, tests: list[str], space: dict, limit, size: int) -> dict[int, list]:
        """The results of the parts for which each test makes one call, the same for every part, by
        number: that is nearly all of them, for one request to the candidate."""
        calls, made = [], []

        def noted(*arguments, **keywords):
            packer = Packer(number_of, float("inf"))
            call = ["call", {"h": 0}, packer.pack([*arguments]), packer.pack(keywords)]
            made.append(json.dumps(call))

        def first(*arguments, **keywords):
            noted(*arguments, **keywords)
            unsure()

        def unsure(*_):
            raise Unsure

        random.setstate(self.drawn)
        for test in tests:
            made.clear()
            self.attempt(limit, self.execute, test, space | {program[2]: first})
            if len(made) != 1:
                return {}
            calls += made
        candidate, replies = self.open(apart=False), []
        asked = self.attempt(
            limit, lambda: replies.extend(candidate.ask("call_parts", [*program], size, calls))
        )
        if asked != OK:
            candidate.end()
            return {}

        @functools.cache
        def result(index: int, reply: str):
            made.clear()

            def answer(*arguments, **keywords):
                noted(*arguments, **keywords)
                if made != calls[index : index + 1]:
                    unsure()
                kind, *rest = unpack(reply.encode(), unsure)
                if kind == "value":
                    return rest[0]
                raise rebuilt(*rest)

            test_space = space | {program[2]: answer}
            found = self.attempt(limit, self.execute, tests[index], test_space)
            if found[0] not in ENDED or made != calls[index : index + 1]:
                return None
            return OK if found == OK else FAILED

        found = {}
        for number, answers in enumerate(replies):
            results = [result(index, reply) for index, reply in enumerate(answers)]
            results += [FAILED] * (len(tests) - len(answers))  # it does not load
            if None not in results:
                found[number] = results
        return found

    def test(self, candidate, seconds: float, test: str, space: dict, entry_point: str):
        """The result of one test of a program that is loaded."""
        space[entry_point] = Remote(candidate, 0)  # for what setup defines, too
        result = self.attempt(seconds, self.execute, test, dict(space))
        if result == OK and candidate.lost:  # the test has swallowed it
            result = "crash", f"Crash: {candidate.lost}"
        if result[0] == "timeout" or candidate.lost:
            candidate.end()
        return result

    def share(self, deadline: float) -> float:
        return min(self.test_timeout, deadline - time.monotonic())

    def start(self, program: tuple[str, str, str], deadline: float, apart: bool):
        """A candidate, and the result of loading the program in it."""
        candidate = self.open(apart)
        load = self.attempt(self.share(deadline), candidate.ask, "load", *program)
        if load[0] not in ENDED:
            candidate.end()
        return candidate, load

    def open(self, apart: bool) -> Candidate:
        """A fresh candidate; or, if the program need not be apart, the one that others like it ran
        in. What did not end there (who knows why) is tried again in a fresh one."""
        candidate = self.candidate
        if apart or not candidate or candidate.lost or candidate.programs == SHARED:
            if candidate:
                candidate.end()
            processor = locks.current_processor()
            locks.keep_to({processor})
            self.candidate = candidate = Candidate(self.channel, processor)
            if self.attempt(READY_SECONDS, candidate.await_ready)[0] != "ok":
                os._exit(NOT_READY)
        locks.keep_to({candidate.processor})
        candidate.programs += 1
        return candidate

    def leave(self, candidate: Candidate, apart: bool) -> None:
        if apart:
            candidate.end()

    def execute(self, source: str, space: dict) -> None:
        exec(compiled(source), space)

    def report(self, letter: str) -> None:
        with contextlib.suppress(BlockingIOError):  # more than 64 thousand tests
            os.write(self.progress, letter.encode())
