"""Runs code that nobody trusts, and says which tests it passed.

    with Sandbox() as box:
        [verdict] = box.run([Program("def f(x): return x + 1", ["assert f(1) == 2"], "f")])

What decides a verdict never shares a process with the program that is judged. Each worker is a
group of three processes, which are in worker.py (and what locks them in locks.py):

    trainer ──program, tests──> judge ──pipe ends──> zygote ──fork per program──> candidate
            <────verdicts─────    │ <──── calls and answers, as plain data ─────>    │

The judge runs the tests; in them the function under test is a stub that sends its arguments to the
candidate and gets the answer back as plain built-in values. The candidate has never seen a test or
an expected value, and can reach nothing but the two pipes it answers on.

Answers and arguments are copies, of these types: None, bool, int, float, complex, str, bytes,
bytearray, list, tuple, set, frozenset, dict, range, Decimal, Fraction, deque, Counter; an instance
of a subclass comes as its base value; 1 MiB at most. Anything else stays in the candidate as an
object that can be called, iterated, asked for attributes and given new ones, and equals nothing.
So a test sees no change that a function makes to its arguments, and of the program's names only
`entry_point`. Globals of the program last from test to test, until a hang or a crash.

`setup` is trusted, and is run on both sides. Tests call the judge's functions, which no program can
change; the program calls its own copy. An instance of a class that setup defines cannot be passed
or compared. What setup or a test changes outside its own names stays changed for later programs.

Verdicts do not depend on what ran before: every program gets a fresh fork (see Program), hashing
and `random` are seeded. docs/sandbox.md says what is contained on which system, and what is not.
"""

import contextlib
import functools
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Iterable
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from programs.sandbox.wire import NOT_READY

GRACE_SECONDS = 3.0
# Exit statuses that a program has no way to give its judge.
FROM_OUTSIDE = {-signal.SIGKILL, -signal.SIGTERM, -signal.SIGINT, -signal.SIGHUP, -signal.SIGQUIT}
FROM_OUTSIDE |= {NOT_READY}
CACHED = 2048  # verdicts kept, of some KiB each
WORKER = Path(__file__).resolve().with_name("worker.py")
# Of the trainer's own variables only what some interpreters do not start without: a key in there is
# none of a program's business. A fixed hash seed makes the order of sets repeatable.
ENVIRONMENT = {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", "PYTHONHASHSEED": "0"}
PASSED_ON = ("LD_LIBRARY_PATH",)
START_SECONDS = 60.0  # a worker takes 0.1 s to start, on a machine that is not swapping
LEAVE_SECONDS = 2.0

DOORS = {
    # tried by a probe program at the start: what works there is an open door
    "write files": "path = f'/tmp/sandbox-probe-{os.getpid()}'; open(path, 'x'); os.unlink(path)",
    "read files": "os.listdir('/')",
    "open sockets": "socket.socket()",
    "start processes": "os.fork() or os._exit(0)",
    "send signals": "os.kill(os.getppid(), 0)",
    "change limits": "resource.setrlimit(resource.RLIMIT_NOFILE, (32, 32))",
    "take 64 GiB of memory": "bytearray(64 << 30)",
}
PROBE = "import os, resource, socket\ndef enter(way): exec(way)"


@dataclass(frozen=True)
class Program:
    """An answer to be judged. `tests` are statements that call `entry_point` by name, each of them
    complete in itself; `setup` is trusted code that both the tests and the program need. A program
    that need not be `apart` shares a process with others, each in a new module, and takes a fifth
    of the time: the caller knows that nothing it does outlasts its module (extraction.py). A
    program that runs `once` is not loaded again after a hang or a crash."""

    code: str
    tests: tuple[str, ...]  # may be given as any sequence
    entry_point: str
    setup: str = ""
    apart: bool = True
    once: bool = False

    def __post_init__(self):
        object.__setattr__(self, "tests", tuple(self.tests))


@dataclass(frozen=True)
class Verdict:
    """`passed` and `errors` have one entry per test; `outcome` is the worst that occurred."""

    passed: list[bool]
    outcome: str  # "ok", "error", "timeout", "memory" or "crash", from best to worst
    errors: list[str | None]  # such as "ValueError: text", 300 characters at most; None if passed
    seconds: float  # wall time on a worker, without the wait for one


class Sandbox(contextlib.AbstractContextManager):
    """Judges programs on up to `workers` workers (default: one per core), started as work comes.

    In seconds and MiB: a program may take `test_timeout` to load and again for each test,
    `total_timeout` in all, and `memory_mb` on top of what an empty worker has. After a hang or a
    crash the next test gets the program freshly loaded, at most `restarts` times; then the failure
    stands for the tests that are left. kernel_locks=False does without them, as on macOS.
    """

    def __init__(
        self,
        workers: int | None = None,
        test_timeout: float = 2.0,
        total_timeout: float = 10.0,
        memory_mb: int = 512,
        restarts: int = 2,
        kernel_locks: bool = True,
    ):
        self.workers = workers or os.cpu_count() or 1
        self._limits = [memory_mb, test_timeout, total_timeout, restarts, kernel_locks]
        self._missing: list[str] = []
        self._probed, self._probing = False, threading.Lock()
        self._pid = os.getpid()
        # A thread for each worker, that lives as long as it: the kernel's parent-death signal comes
        # when the thread that started a process ends.
        self._pool = ThreadPoolExecutor(self.workers, thread_name_prefix="sandbox")
        self._lock = threading.Lock()  # guards everything below
        self._future = functools.lru_cache(CACHED)(self._submitted)  # of each Program
        self._workers: dict[int, Worker] = {}  # by their thread
        self._closed = False

    def __exit__(self, *_):
        self.close()

    def run(self, programs: Iterable[Program]) -> list[Verdict]:
        """Verdicts in the order asked. Identical programs run once, whoever asks, and when. Any
        number of threads may call this at once. ValueError: a `setup` does not run, which is a
        mistake in the data set. RuntimeError: no worker starts, or two were lost from outside."""
        if os.getpid() != self._pid:
            raise RuntimeError("this Sandbox is from before a fork: every process needs its own")
        with self._probing:
            if not self._probed:
                self._probe()
                self._probed = True
        with self._lock:
            futures = [self._future(program) for program in programs]
        try:
            return [future.result() for future in futures]
        except CancelledError:
            raise RuntimeError("the Sandbox was closed") from None

    def close(self) -> None:
        """Ends all processes and threads. A run() that still waits raises RuntimeError."""
        with self._lock:
            self._closed, workers = True, list(self._workers.values())
        for worker in workers:  # before the thread that started it ends
            worker.end()
        self._pool.shutdown(cancel_futures=True)
        while self._workers:
            self._workers.popitem()[1].close()

    def _probe(self) -> None:
        """One warning that names what this machine lacks and which doors are open."""
        ways = [f"enter({way!r})" for way in ("pass", *DOORS.values())]
        why, *refusals = self._submitted(Program(PROBE, ways, "enter")).result().errors
        if why:
            raise RuntimeError(f"the sandbox does not work on this machine: {why}")
        ajar = None, "Crash", "TimeoutError"  # one that ends or hangs the program is not shut
        kinds = [error and error.partition(":")[0] for error in refusals]
        doors = [door for door, error in zip(DOORS, kinds, strict=True) if error in ajar]
        if not doors and not self._missing:
            return
        text = (
            "programs are not fully contained on this machine. Missing: "
            f"{', '.join(self._missing) or 'nothing'}. A program can: "
            f"{', '.join(doors) or 'nothing that was tried'}. Verdicts can be trusted all the "
            "same; run models that you do not trust in a container."
        )
        warnings.warn(text, RuntimeWarning, stacklevel=3)

    def _submitted(self, program: Program) -> Future:
        if self._closed:
            raise RuntimeError("this Sandbox is closed")
        return self._pool.submit(self._judge, program)

    def _judge(self, program: Program) -> Verdict:
        """In a thread of the pool: the verdict of its worker, or else of one more."""
        # A judge keeps its limits itself, unless it hangs in C code; setup may take as long again.
        patience = 2 * self._limits[2] + GRACE_SECONDS
        for _ in range(2):
            try:
                worker = self._worker()
            except (OSError, EOFError) as error:
                why = f"no worker starts ({error})"
                continue
            began, count = time.monotonic(), len(program.tests)
            try:
                reply = worker.ask([*vars(program).values()], patience)
            except (OSError, EOFError) as error:  # TimeoutError is an OSError
                with self._lock:
                    del self._workers[threading.get_ident()]
                status = worker.close()
                hangs = isinstance(error, TimeoutError) or status == -signal.SIGVTALRM
                if self._closed or (status in FROM_OUTSIDE and not hangs):
                    why = f"its worker ended with status {status}"
                    continue
                outcome, message = "crash", "Crash: the test ended the judge"  # out of memory, say
                if hangs:
                    outcome, message = "timeout", "TimeoutError: the test hangs"
                seconds = time.monotonic() - began
                return Verdict([False] * count, outcome, [message] * count, seconds)
            if "setup" in reply:
                message = f"the setup of {program.entry_point!r} does not run: {reply['setup']}"
                raise ValueError(message)
            return Verdict(**reply, seconds=time.monotonic() - began)
        self._future.cache_clear()  # the next to ask may have better luck
        if self._closed:
            raise RuntimeError("the Sandbox was closed")
        raise RuntimeError(f"program {program.entry_point!r}: {why}, twice: {program.code[:200]!r}")

    def _worker(self) -> "Worker":
        """This thread's worker, started if it has none."""
        thread = threading.get_ident()
        if thread not in self._workers:
            worker = Worker(self._limits)
            self._missing = worker.missing
            with self._lock:
                if self._closed:
                    raise EOFError(f"status {worker.close()}")
                self._workers[thread] = worker
        return self._workers[thread]


class Worker:
    """The trainer's end of one worker: a fresh interpreter, not a fork: a copy of the trainer's
    memory would be slow to make, and holds what no program should come near."""

    def __init__(self, limits: list):
        self.socket, theirs = socket.socketpair()
        self.replies = self.socket.makefile("rb")
        # not -I, which would ignore the hash seed
        command = [sys.executable, "-s", "-S", "-P", "-B", str(WORKER), json.dumps(limits)]
        passed_on = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
        with theirs:  # its own session: Ctrl-C in the terminal is for the trainer
            self.process = subprocess.Popen(
                command, stdin=theirs, env=ENVIRONMENT | passed_on, start_new_session=True
            )
        try:
            self.missing = self.receive(START_SECONDS)  # locks
        except (OSError, EOFError) as error:
            raise EOFError(f"status {self.close()}") from error

    def ask(self, request: list, seconds: float):
        self.socket.settimeout(START_SECONDS)
        self.socket.sendall(json.dumps(request).encode() + b"\n")
        return self.receive(seconds)

    def receive(self, seconds: float):
        """The next line. TimeoutError if it does not come, EOFError if the judge is gone."""
        self.socket.settimeout(seconds)
        line = self.replies.readline()
        if not line.endswith(b"\n"):
            raise EOFError
        return json.loads(line)

    def end(self) -> int:
        """Ends the judge, and with it zygote and candidate; returns its exit status. One that hangs
        in C code is killed: its zygote then sees end of file, and leaves."""
        self.process.terminate()
        try:
            return self.process.wait(LEAVE_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()

    def close(self) -> int:
        self.replies.close()
        self.socket.close()
        return self.end()
