"""Runs code that nobody trusts, and says which tests it passed (first, simple form).

A stand-in with the final interface: one fresh interpreter per program with limits and a time-out.
"""

import collections
import json
import os
import resource
import subprocess
import sys
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

OUTCOMES = ("ok", "error", "timeout", "memory", "crash")


@dataclass(frozen=True)
class Program:
    """A candidate's source and the tests it has to pass."""

    code: str
    tests: tuple[str, ...]
    entry_point: str
    setup: str = ""

    def __post_init__(self):
        if isinstance(self.tests, str):
            raise ValueError("Program.tests is a list of statements, not one string")
        object.__setattr__(self, "tests", tuple(self.tests))


@dataclass(frozen=True)
class Verdict:
    """passed and errors have one entry per test; outcome is one of OUTCOMES."""

    passed: list[bool]
    outcome: str
    errors: list[str | None]
    seconds: float


RUNNER = r"""
import json, os, random, signal, sys
job = json.load(sys.stdin)
out = os.fdopen(os.dup(1), "w")
null = os.open(os.devnull, os.O_RDWR)
os.dup2(null, 0); os.dup2(null, 1); os.dup2(null, 2)
def say(**what):
    out.write(json.dumps(what) + "\n"); out.flush()
def text(e):
    try:
        return f"{type(e).__name__}: {e}"[:300]
    except BaseException:
        return type(e).__name__
class Slow(BaseException): pass
def ring(*_): raise Slow("time limit")
signal.signal(signal.SIGALRM, ring)
random.seed(0)
space = {"__name__": "program"}
try:
    exec(compile(job["setup"], "setup", "exec"), space)
except Exception as e:
    say(setup=text(e)); os._exit(0)
def attempt(source):
    signal.setitimer(signal.ITIMER_REAL, job["test_timeout"])
    try:
        exec(compile(source, "program", "exec"), space)
        result = None, None
    except Slow as e: result = "timeout", "TimeoutError: time limit"
    except MemoryError as e: result = "memory", text(e)
    except BaseException as e: result = "error", text(e)
    signal.setitimer(signal.ITIMER_REAL, 0)
    return result
loaded = attempt(job["code"])
for test in job["tests"]:
    say(result=attempt(test) if loaded[0] is None else loaded)
os._exit(0)
"""


class Sandbox:
    """Judges programs. Times in seconds, memory in MiB; workers defaults to the cores."""

    def __init__(self, workers=None, test_timeout=2.0, total_timeout=10.0, memory_mb=512):
        self.limits = (test_timeout, total_timeout, memory_mb)
        self.pool = ThreadPoolExecutor(workers or os.cpu_count() or 1)
        self.seen = collections.OrderedDict()
        self.lock = threading.Lock()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def run(self, programs: list[Program]) -> list[Verdict]:
        """One verdict per program, in the order asked; ValueError for a broken setup."""
        futures = [self._submit(program) for program in programs]
        return [future.result() for future in futures]

    def close(self):
        self.pool.shutdown()

    def _submit(self, program: Program) -> Future:
        with self.lock:
            if program not in self.seen:
                self.seen[program] = self.pool.submit(self._judge, program)
                while len(self.seen) > 4096:
                    self.seen.popitem(last=False)
            self.seen.move_to_end(program)
            return self.seen[program]

    def _judge(self, program: Program) -> Verdict:
        test_timeout, total_timeout, memory_mb = self.limits
        job = {"code": program.code, "tests": program.tests, "setup": program.setup,
               "test_timeout": test_timeout}

        def limit():
            resource.setrlimit(resource.RLIMIT_AS, (memory_mb << 20, memory_mb << 20))
            resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

        start, slow = time.monotonic(), False
        try:
            done = subprocess.run(
                [sys.executable, "-s", "-S", "-P", "-c", RUNNER], input=json.dumps(job),
                capture_output=True, text=True, timeout=total_timeout, preexec_fn=limit,
                start_new_session=True, env={"PYTHONHASHSEED": "0"})
            output = done.stdout
        except subprocess.TimeoutExpired as late:
            slow, output = True, (late.stdout or b"").decode()
        lines = [json.loads(line) for line in output.splitlines() if line.endswith("}")]
        if lines and "setup" in lines[0]:
            raise ValueError(f"broken setup of {program.entry_point}: {lines[0]['setup']}")
        lost = ("timeout", "TimeoutError: time limit") if slow else ("crash", "crash: process died")
        results = [tuple(line["result"]) for line in lines][:len(program.tests)]
        results += [lost] * (len(program.tests) - len(results))
        status = [status for status, _ in results]
        outcome = next((s for s in ("crash", "memory", "timeout", "error") if s in status), "ok")
        return Verdict([s is None for s in status], outcome, [e for _, e in results],
                       time.monotonic() - start)
