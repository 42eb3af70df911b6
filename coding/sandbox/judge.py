"""The judge: runs a data set's tests against a candidate, of which it sees plain data alone.

The function under test is a Remote (remote.py): calls travel to the candidate as JSON, answers come
back as built-in values, so that no line and no object of the candidate is ever in this process.
"""

import builtins
import contextlib
import functools
import os
import random
import signal
import socket
import time
import types

import bank
import locks
from candidate import ERROR_CHARS, LATE, LOADED, MOST_HANGS
from remote import NOT_READY, BadTest, Candidate, Crash, Remote, Version, Versions

READY_SECONDS = 10.0
OK = ("ok", None)
FAILED = ("error", "no part of the bank passes it")
HANGS = ("timeout", "too many parts of the bank do not end")
ENDED = ("ok", "error")  # of a program that came to an end by itself
SHARED = 500  # programs, one after the other, that one candidate may see


class TimeLimit(BaseException):
    """The alarm. Not an Exception, lest a test's `except Exception` catches it."""


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

    def judge(
        self, code, tests, entry_point, setup, apart, replaced, caller_of, all_or_none, parts
    ) -> dict:
        """{"load": result, "results": one per test, "seconds": } or {"setup": error}. Where a
        function is replaced, the results are those of the best part of the bank."""
        # What setup and tests draw follows from what no program has ever seen.
        random.seed(repr((setup, tests)))
        space = {"__name__": "tests", "__builtins__": builtins}
        status, error = self.attempt(self.total_timeout, self.execute, setup, space)
        if status != "ok":
            return {"setup": error}
        began, program = time.monotonic(), (setup, code, entry_point)
        if replaced:
            numbers = [*range(bank.size(caller_of))][:parts]
            load, results = self.try_parts(
                program, (replaced, caller_of), numbers, tests, space, apart, all_or_none
            )
        else:
            load, results = self.run(program, tests, space, apart)
        locks.keep_to(self.processors)
        return {"load": load, "results": results, "seconds": time.monotonic() - began}

    def run(self, program: tuple[str, str, str], tests: list[str], space: dict, apart: bool):
        """How the program loads, and the result of each test."""
        deadline, restarts, results = time.monotonic() + self.total_timeout, self.restarts, []
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
                function = Remote(candidate, 0)
                result = self.test(function, self.share(deadline), test, space, program[2])
            if used and result[0] not in ENDED:
                break
            results.append(result)
            self.report(result[0][0])
        if apart:
            candidate.end()
        if len(results) < len(tests):  # who knows what was there before: once more, in a fresh one
            self.report("\n")
            return self.run(program, tests, space, apart=True)
        return load, results

    def try_parts(self, program, place, numbers, tests, space: dict, apart: bool, all_or_none):
        """OK, or HANGS if too many parts of the bank do not end, and the results of the best."""
        found, hangs = [], 0
        for group in [[number] for number in numbers] if apart else [numbers]:
            candidate = self.open(apart)
            parts = [*program, place, group, self.test_timeout]
            results, late = self.try_versions(candidate, parts, tests, space, all_or_none)
            if candidate.lost and not apart:  # who knows by which of them
                return self.try_parts(program, place, numbers, tests, space, True, all_or_none)
            if apart:
                candidate.end()
            found += results
            hangs += late
            if hangs > MOST_HANGS:
                return HANGS, [FAILED] * len(tests)
        if all_or_none:
            found = [results for results in found if results.count(OK) == len(tests)]
        best = max(found, key=lambda results: results.count(OK), default=[])
        return OK, best + [FAILED] * (len(tests) - len(best))

    def try_versions(self, candidate, parts: list, tests, space: dict, all_or_none: bool):
        """The results of some parts of the bank in one candidate, each as far as it came, and how
        many of them did not end. all_or_none: a part is dropped at the first test that it fails."""
        _, _, entry_point, _, numbers, seconds = parts
        patience, lines = seconds if len(numbers) == 1 else self.total_timeout, []
        last = self.attempt(patience, lambda: lines.extend(candidate.ask("load_parts", *parts)))
        if last[0] not in ENDED:
            candidate.end()
        hangs, results = lines.count(LATE) + (last[0] == "timeout"), [[] for _ in numbers]
        live = [number for number, line in enumerate(lines) if line == LOADED]
        for test in tests:
            if hangs > MOST_HANGS or not live:
                break
            versions, known = Versions(candidate, live, seconds), {}
            for number in live:
                result = known.get(versions.lines.get(number))
                if not result:
                    function = Version(versions, number)
                    last = self.test(function, patience, test, space, entry_point)
                    result = OK if last == OK else FAILED
                    if line := function.known():
                        known[line] = result
                if candidate.lost:
                    return results, hangs + (last[0] == "timeout")
                results[number].append(result)
            late = [number for number in live if versions.lines.get(number) == LATE]
            hangs += len(late)
            passed = [one.count(OK) for one in results]
            # What can still be the best: each may pass all the tests that are left.
            least = len(tests) if all_or_none else max(passed)
            room = len(tests) - len(results[live[0]])
            live = [n for n in live if passed[n] + room >= least and n not in late]
        return results, hangs

    def test(self, function: Remote, seconds: float, test: str, space: dict, entry_point: str):
        """The result of one test of a program that is loaded."""
        candidate = function._candidate
        space[entry_point] = function  # for what setup defines, too
        random.seed(hash(test))
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

    def execute(self, source: str, space: dict) -> None:
        exec(compiled(source), space)

    def report(self, letter: str) -> None:
        with contextlib.suppress(BlockingIOError):  # more than 64 thousand tests
            os.write(self.progress, letter.encode())
