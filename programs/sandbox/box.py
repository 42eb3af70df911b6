"""Run untrusted programs, and return which tests they pass.

    with Sandbox() as box:
        [verdict] = box.run([Program("def f(x): return x + 1", ["assert f(1) == 2"], "f")])

A verdict is decided in another process than the program's. Each worker is a group of three
processes. The file worker.py starts them, and locks.py locks them.

    trainer ──program, tests──> runner ──pipe ends──> zygote ──fork per program──> candidate
            <────verdicts─────    │ <──── calls and answers, as plain data ─────>    │

The runner runs the tests. The function under test is a stub in the runner. It sends its arguments
to the candidate and gets the answer back as plain built-in values. The candidate never sees a test
or an expected value. It can reach nothing but the two pipes on which it answers.

Answers and arguments are copies. An answer has at most 1 MiB. A test sees no change that a function
makes to its arguments. These types are copied: None, bool, int, float, complex, str, bytes,
bytearray, list, tuple, set, frozenset, dict, range, Decimal, Fraction, deque and Counter. An
instance of a subclass arrives as its base value. Any other object stays in the candidate. It can be
called and iterated, its attributes can be read and set, and it equals nothing.

A test sees one name of the program, `entry_point`. The program's globals last from test to test,
until a hang or a crash.

`setup` is trusted and runs on both sides. Tests call the runner's copy, which no program can
change. The program calls its own copy. An instance of a class that setup defines cannot be passed
or compared. If setup or a test changes anything outside its own names, later programs see the
change.

Verdicts do not depend on earlier programs. Every program gets a fresh fork (`shareable` names the
exception), and hashing and `random` are seeded. docs/sandbox.md lists which system contains what.
"""

import ast
import contextlib
import functools
import itertools
import json
import math
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterable
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from programs.sandbox.parsing import syntax_tree
from programs.sandbox.wire import NOT_READY

# The statuses of a runner that a program cannot cause. -9 is SIGKILL, which Windows does not name.
# If this process ignores SIGCHLD, the system drops a status, and Python says 0.
FROM_OUTSIDE = {-9, NOT_READY, 0}
CACHED = 2048  # verdicts kept, a few KiB each
WORKER = Path(__file__).resolve().with_name("worker.py")
# A worker gets one variable of the trainer, which some interpreters need to start, because the
# others may hold keys. A fixed hash seed makes the order of sets repeatable.
ENVIRONMENT = {
    "PATH": "/usr/bin:/bin",
    "LC_ALL": "C.UTF-8",
    "PYTHONHASHSEED": "0",
    "LD_LIBRARY_PATH": os.environ.get("LD_LIBRARY_PATH", ""),
}
# Seconds until a worker that says nothing hangs. A program's limits are of seconds that count,
# which take longer on a busy machine. A reward's limit (training/threads.py) ends the run before.
PATIENCE = 600.0
LEAVE_SECONDS = 2.0

DOORS = {
    # A probe program tries each of these at the start. An action that works is an open door.
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
    """A program to be judged."""

    code: str  # runs after `statements`; the program fails if it raises
    tests: tuple[str, ...]  # statements that call `entry_point`, each complete in itself
    entry_point: str
    setup: str = ""  # trusted code that both the tests and the program need
    # Sources, written by ast.unparse, that run one by one, as at a prompt. A source that raises is
    # passed over.
    statements: tuple[str, ...] = ()
    # After one failure more than that, all later tests fail. With a number, the program is not
    # loaded again after a hang or a crash.
    may_fail: int | None = None

    def __post_init__(self):
        object.__setattr__(self, "tests", tuple(self.tests))


# A program that shares a process may use these attributes, methods of plain data.
DATA = (str, bytes, list, tuple, dict, set, int, float, complex)
ATTRIBUTES = set(itertools.chain(*map(dir, DATA))) - {"format", "format_map"}
OUTWARD = """import class async await case eval exec compile open input globals locals vars dir type
getattr setattr delattr object super breakpoint help memoryview"""
LEADS_OUT = set(OUTWARD.split())


def shareable(program: Program) -> bool:
    """Return whether a program can share a process: a second run in it would not notice the first.

    It runs in a module of its own there, and takes a fifth of the time. `code` may be written in
    ways that hide a word, such as a space after a dot.
    """
    return not program.code and all(map(is_inward, program.statements))


@functools.lru_cache(CACHED)  # many programs have a statement in common
def is_inward(source: str) -> bool:
    """Return whether a statement reaches nothing that the next program could see.

    The rule reads words, also those of texts, since "{0.__globals__}" reads an attribute. Without
    imports, classes, special names and unknown attributes no program reaches a mutable object of
    another module, and without setting attributes it changes none.
    """
    attributes = re.findall(r"\.([^\W\d]\w*)", source)
    if "__" in source or not LEADS_OUT.isdisjoint(re.findall(r"\w+", source)):
        return False
    if not ATTRIBUTES.issuperset(attributes):
        return False
    parts = ast.walk(syntax_tree(source))
    return all(isinstance(part.ctx, ast.Load) for part in parts if isinstance(part, ast.Attribute))


@dataclass(frozen=True)
class Verdict:
    """`passed` and `errors` have one entry per test; `outcome` is the worst that occurred."""

    passed: list[bool]
    outcome: str  # "ok", "error", "timeout", "memory" or "crash", from best to worst
    errors: list[str | None]  # "ValueError: text", at most 300 characters, or None if passed
    seconds: float  # that count, as the limits of a Sandbox


QUOTA = Path("/sys/fs/cgroup/cpu.max")  # of a container


def cores() -> int:
    """Return this process's number of cores, its share where --devices started several.

    taskset, Slurm and a container's quota limit them.
    """
    count = os.cpu_count()
    if hasattr(os, "sched_getaffinity"):  # not on macOS
        count = len(os.sched_getaffinity(0))
    with contextlib.suppress(OSError, ValueError):  # another system, or no quota ("max")
        quota, period = map(int, QUOTA.read_text("utf-8").split())
        count = min(count, math.ceil(quota / period))
    processes = os.environ.get("LOCAL_WORLD_SIZE") or os.environ.get("WORLD_SIZE") or 1
    return max(count // int(processes), 1)


class Sandbox(contextlib.AbstractContextManager):
    """Judges programs on up to `workers` workers (by default one per core), started on demand.

    `test_timeout`   Seconds to load the program, and for each test.
    `total_timeout`  Seconds for the program with all its tests.
    `memory_mb`      MiB on top of an empty worker's memory.
    `restarts`       How often a program is loaded again after a hang or a crash.
    `kernel_locks`   False leaves them out, as on macOS.

    The seconds in which a program waits for a core do not count (TestRunner in runner.py). After
    the last restart, the failure counts for the remaining tests too.
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
        self._limits = [memory_mb, test_timeout, total_timeout, restarts, kernel_locks]
        self._missing: list[str] = []  # names of locks
        self._probed = False
        self._probing = threading.Lock()
        self._pid = os.getpid()
        self._count = workers
        self._lock = threading.Lock()  # guards everything below
        self._future = functools.lru_cache(CACHED)(self._submit)  # one per Program
        self._workers: dict[int, Worker] = {}  # by thread
        self._closed = False

    def __exit__(self, *_):
        self.close()

    def run(self, programs: Iterable[Program]) -> list[Verdict]:
        """Return the verdicts, in order. Identical programs run once. Thread-safe.

        Raise ValueError if a `setup` does not run, which is a mistake in the data set. Raise
        RuntimeError if no worker starts, or if something outside ends two workers.
        """
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

    @functools.cached_property
    def _pool(self) -> ThreadPoolExecutor:
        """Return the threads, made when --devices has started its processes.

        Each worker has a thread that lives as long as the worker. The kernel sends the parent-death
        signal when the thread that started a process ends.
        """
        return ThreadPoolExecutor(self._count or cores(), thread_name_prefix="sandbox")

    def _submit(self, program: Program) -> Future:
        return self._pool.submit(self._verdict, program)

    def close(self) -> None:
        """End all processes and threads. A run() that still waits raises RuntimeError."""
        with self._lock:
            self._closed = True
            workers = list(self._workers.values())
        for worker in workers:  # before the thread that started it ends
            worker.end()
        self._pool.shutdown(cancel_futures=True)
        for worker in workers:
            worker.close()

    def _probe(self) -> None:
        """Warn once about the locks that this machine lacks and about the doors that are open."""
        tests = tuple(f"enter({way!r})" for way in ["pass", *DOORS.values()])
        verdict = self._pool.submit(self._verdict, Program(PROBE, tests, "enter")).result()
        failure, *refusals = verdict.errors
        if failure:
            raise RuntimeError(f"the sandbox does not work on this machine: {failure}")
        doors = []
        for door, refusal in zip(DOORS, refusals, strict=True):
            # A door is shut if the program is refused, not if it crashes or hangs there.
            if refusal is None or refusal.partition(":")[0] in ("Crash", "TimeoutError"):
                doors.append(door)
        if not doors and not self._missing:
            return
        warnings.warn(
            "programs are not fully contained on this machine. Missing: "
            f"{', '.join(self._missing) or 'nothing'}. A program can: "
            f"{', '.join(doors) or 'nothing that was tried'}. Verdicts can be trusted all the "
            "same; run models that you do not trust in a container.",
            RuntimeWarning,
            stacklevel=3,
        )

    def _verdict(self, program: Program) -> Verdict:
        """Return the verdict of this thread's worker, or of one more if that worker is lost."""
        for _ in range(2):
            worker = self._worker()
            try:
                reply = worker.ask([*vars(program).values(), not shareable(program)])
            except (OSError, EOFError) as error:  # TimeoutError is an OSError
                with self._lock:
                    del self._workers[threading.get_ident()]
                status = worker.close()
                hangs = isinstance(error, TimeoutError) or status == -signal.SIGVTALRM
                if self._closed or (status in FROM_OUTSIDE and not hangs):
                    continue
                if hangs:
                    outcome = "timeout"
                    message = "TimeoutError: the test hangs"
                else:
                    outcome = "crash"  # out of memory, for example
                    message = "Crash: the test ended the runner"
                count = len(program.tests)
                return Verdict([False] * count, outcome, [message] * count, self._limits[2])
            if "setup" in reply:
                raise ValueError(
                    f"the setup of {program.entry_point!r} does not run: {reply['setup']}"
                )
            return Verdict(**reply)
        self._future.cache_clear()  # the next call tries again
        raise RuntimeError(f"a worker ended twice with status {status}: {program.code!r:.200}")

    def _worker(self) -> "Worker":
        """Return this thread's worker, started if it has none."""
        thread = threading.get_ident()
        if thread not in self._workers:
            worker = Worker(self._limits)
            self._missing = worker.missing
            with self._lock:
                if self._closed:
                    worker.close()
                    raise RuntimeError("the Sandbox was closed")
                self._workers[thread] = worker
        return self._workers[thread]


class Worker:
    """The trainer's end of one worker, which is a fresh interpreter.

    A fork would copy the trainer's memory. That is slow, and may hold secrets.
    """

    def __init__(self, limits: list):
        self.socket, theirs = socket.socketpair()
        self.socket.settimeout(PATIENCE)
        self.replies = self.socket.makefile("rb")
        # without -I, which would ignore the hash seed
        command = [sys.executable, "-s", "-S", "-P", "-B", str(WORKER), json.dumps(limits)]
        with theirs:  # in its own session, so that Ctrl-C reaches the trainer alone
            self.process = subprocess.Popen(
                command,
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=sys.__stderr__ or subprocess.DEVNULL,
                env=ENVIRONMENT,
                start_new_session=True,
            )
        try:
            started = self.receive()
        except (OSError, EOFError) as error:
            raise RuntimeError(f"no worker starts (status {self.close()})") from error
        if "error" in started:
            self.close()
            raise RuntimeError(f"no worker starts: {started['error']}")
        self.missing = started["missing"]  # names of locks

    def ask(self, request: list) -> dict:
        self.socket.sendall(json.dumps(request).encode() + b"\n")
        return self.receive()

    def receive(self) -> dict:
        """Return the next reply. Raise TimeoutError without one, EOFError if the runner is gone.

        Before, the runner may ask for the file that says how long a candidate waited for a core.
        """
        while line := self.replies.readline():
            reply = json.loads(line)
            if isinstance(reply, dict):
                return reply
            try:
                with open(f"/proc/{reply}/schedstat", "rb") as file:
                    socket.send_fds(self.socket, [b"."], [file.fileno()])
            except OSError:  # macOS, or it is gone
                self.socket.sendall(b".")
        raise EOFError

    def end(self) -> int:
        """End the runner, the zygote and the candidate, and return the runner's exit status.

        A runner that hangs in C code is killed. Its zygote then sees end of file and exits.
        """
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
