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

What a test can see. Answers and arguments are copies, of these types: None, bool, int, float,
complex, str, bytes, bytearray, list, tuple, set, frozenset, dict, range, Decimal, Fraction, deque,
Counter; an instance of a subclass comes as its base value; 1 MiB at most. Anything else stays in
the candidate as an object that can be called, iterated, asked for attributes, and equals nothing.
So a test sees no change that a function makes to its arguments, and of the program's names only
`entry_point`. Globals of the program last from test to test, until a hang or a crash.

`setup` is trusted, and is run on both sides: in the judge before the tests, in the candidate before
the program. Its functions are therefore there twice. Tests call the judge's, which no program can
change; the program calls its own copy. An instance of a class that setup defines cannot be passed
or compared. What setup or a test changes outside its own names (a module, say) stays changed for
later programs: data sets are trusted not to.

What a program can import is loaded beforehand (PRELOAD in worker.py: most of the standard
library that is pure computation, not asyncio, not numpy); nothing else can be. Threads are refused.

Contained on Linux (x86-64), as root and as a user alike: files, also reading them; sockets;
processes and threads; signals; other processes' memory; the trainer's environment; limits;
capabilities; memory, CPU and wall time; output. By seccomp, Landlock, dropped capabilities,
resource limits and a parent-death signal. As root nothing more is possible than as a user. A
program can read the clock and its user and process numbers, can use one core for as long as it may
run, and can attack the kernel through about 50 system calls. Not contained there: side channels of
the processor, and how much memory all workers together take (workers x memory_mb).

On macOS there is no kernel lock: CPU and file-size limits, an audit hook and deadlines stop
accidents, not intent, and memory is not limited. Linux on other processors has everything but
seccomp, and the audit hook in its place: no files, no network, but other harm is possible. Verdicts
are decided in the same way everywhere. What is missing on a machine is said once, in a warning at
the start.

Verdicts do not depend on what ran before: every program gets a fresh fork (see Program), hashing
and `random` are seeded, that of the tests from their own text, which no program knows. Those of
programs that use the clock, `id` or the system's randomness, or run close to a limit, can vary.
"""

import collections
import json
import os
import signal
import threading
import time
import warnings
from collections.abc import Iterable
from concurrent.futures import Future
from dataclasses import dataclass

from coding.sandbox.process import START_SECONDS, Worker

OUTCOMES = ("ok", "error", "timeout", "memory", "crash")  # from best to worst
GRACE_SECONDS = 3.0  # on top of total_timeout, which a judge keeps itself unless it hangs in C code
NOT_READY = 75  # a judge's exit status when its zygote or a fresh candidate failed it
# Signals that a program has no way to end its judge with.
FROM_OUTSIDE = {-signal.SIGKILL, -signal.SIGTERM, -signal.SIGINT, -signal.SIGHUP, -signal.SIGQUIT}
CACHED = 2048  # verdicts kept, of some KiB each

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
PROBE = """
import os, resource, socket
def closed(way):
    try:
        exec(way)
    except Exception:
        return True
    return False
"""


@dataclass(frozen=True)
class Program:
    """An answer to be judged. `tests` are statements that call `entry_point` by name, each of them
    complete in itself; `setup` is trusted code that both the tests and the program need. What is
    not to be kept `apart` shares a process with its like, each in a new module, and takes a fifth
    of the time: the caller knows that it outlasts no module (extraction.py's tame parts).

    With `replaced`, parts of the bank (bank.py), all or the first few, take the place of the
    function of that name: helpers, or mains that call the helper `caller_of`. The verdict is the
    best part's; its outcome is "timeout" if total_timeout ran out. `limit`: seconds for each.
    `all_or_none`: a part that fails a test passes none."""

    code: str
    tests: tuple[str, ...]  # may be given as any sequence
    entry_point: str
    setup: str = ""
    apart: bool = True
    replaced: str = ""
    caller_of: str = ""
    limit: float = 2.0
    all_or_none: bool = False
    parts: int | None = None

    def __post_init__(self):
        if isinstance(self.tests, str):
            raise TypeError("Program.tests takes a list of tests, not one string")
        object.__setattr__(self, "tests", tuple(self.tests))


@dataclass(frozen=True)
class Verdict:
    """`passed` and `errors` have one entry per test; `outcome` is the worst that occurred."""

    passed: list[bool]
    outcome: str  # one of OUTCOMES; "ok" when every test passed
    errors: list[str | None]  # such as "ValueError: text", 300 characters at most; None if passed
    seconds: float  # wall time on a worker, without the wait for one

    def copy(self) -> "Verdict":
        return Verdict(self.passed[:], self.outcome, self.errors[:], self.seconds)


class Sandbox:
    """Judges programs on up to `workers` workers (default: one per core), started as work comes.

    In seconds and MiB: a program may take `test_timeout` to load and again for each test,
    `total_timeout` in all, and `memory_mb` on top of what an empty worker has. After a hang or a
    crash the next test gets the program freshly loaded, at most `restarts` times; then the failure
    stands for the tests that are left. strict: raise where a lock is missing, instead of a warning.
    kernel_locks=False does without them, as on macOS.
    """

    def __init__(
        self,
        workers: int | None = None,
        test_timeout: float = 2.0,
        total_timeout: float = 10.0,
        memory_mb: int = 512,
        restarts: int = 2,
        strict: bool = False,
        kernel_locks: bool = True,
    ):
        self.workers = workers or os.cpu_count() or 1
        self._limits = [memory_mb, test_timeout, total_timeout, restarts, kernel_locks]
        self._patience = 2 * total_timeout + GRACE_SECONDS  # setup may take as long again
        self._strict, self._missing = strict, []
        self._probed, self._probing = False, threading.Lock()
        self._pid = os.getpid()
        self._changed = threading.Condition()  # guards everything below
        self._queue = collections.deque()  # of Job
        self._known = collections.OrderedDict()  # Program -> Future, the oldest first
        self._threads, self._judges = [], set()
        self._working = set()  # identities of those threads that have a program
        self._closed = False

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def run(self, programs: Iterable[Program]) -> list[Verdict]:
        """Verdicts in the order asked. Identical programs run once, whoever asks, and when.

        Any number of threads may call this at once. ValueError: a `setup` does not run, which is a
        mistake in the data set. RuntimeError: no worker starts, or one program lost two of them
        through no doing of its own.
        """
        if os.getpid() != self._pid:
            raise RuntimeError("this Sandbox is from before a fork: every process needs its own")
        with self._probing:
            if not self._probed:
                self._probe()
                self._probed = True
        return [future.result().copy() for future in self._submit(programs)]

    def close(self) -> None:
        """Ends all processes and threads. A run() that still waits raises RuntimeError."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            for judge in self._judges:
                judge.interrupt()
        for thread in self._threads:
            thread.join()

    def _probe(self) -> None:
        """One warning that names what this machine lacks and which doors are open."""
        ways = [f"assert closed({way!r})" for way in DOORS.values()]
        [future] = self._submit([Program(PROBE, ["assert not closed('pass')", *ways], "closed")])
        (works, *shut), (why, *_) = future.result().passed, future.result().errors
        if not works:
            raise RuntimeError(f"the sandbox does not work on this machine: {why}")
        doors = [door for door, is_shut in zip(DOORS, shut, strict=True) if not is_shut]
        if not doors and not self._missing:
            return
        text = (
            "programs are not fully contained on this machine. Missing: "
            f"{', '.join(self._missing) or 'nothing'}. A program can: "
            f"{', '.join(doors) or 'nothing that was tried'}. Verdicts can be trusted all the "
            "same; run models that you do not trust in a container."
        )
        if self._strict:
            raise RuntimeError(text)
        warnings.warn(text, RuntimeWarning, stacklevel=3)

    def _submit(self, programs: Iterable[Program]) -> list[Future]:
        futures = []
        with self._changed:
            if self._closed:
                raise RuntimeError("this Sandbox is closed")
            for program in programs:
                if program not in self._known:
                    job = Job(program)
                    self._queue.append(job)
                    self._known[program] = job.future
                self._known.move_to_end(program)
                futures.append(self._known[program])
            while len(self._known) > CACHED:
                self._known.popitem(last=False)
            wanted = min(len(self._queue) + len(self._working), self.workers)
            for _ in range(wanted - len(self._threads)):
                self._threads.append(threading.Thread(target=self._work, daemon=True))
                self._threads[-1].start()
            self._changed.notify(len(self._queue))
        return futures

    def _work(self) -> None:
        # One thread per worker, for the whole of its life: the kernel's parent-death signal
        # comes when the thread that started a process ends.
        judge, flying = None, collections.deque()  # flying: sent to the judge, or about to be
        try:
            while self._refill(flying):
                try:
                    judge = judge or self._open_judge()
                    judge.send(flying)
                    reply = judge.reply(self._patience)
                except (OSError, EOFError) as error:  # TimeoutError is an OSError
                    reply = self._lost(flying[0], judge, error)
                    judge = None
                if reply:
                    self._settle(flying.popleft(), reply)
        finally:
            if judge:
                self._close_judge(judge, signal.SIGTERM if flying else None)
            for job in flying:
                job.future.set_exception(RuntimeError("the Sandbox was closed"))

    def _refill(self, flying: collections.deque) -> bool:
        """Keeps one program with the judge and, if no other worker is free for it, one on its way.
        Waits for work; False to stop."""
        with self._changed:
            if not flying:
                self._working.discard(threading.get_ident())
            while not (self._queue or flying or self._closed):
                self._changed.wait()
            self._working.add(threading.get_ident())
            free = len(self._threads) - len(self._working)
            while self._queue and (
                self._closed or not flying or (len(flying) < 2 and len(self._queue) > free)
            ):
                flying.append(self._queue.popleft())
            return not self._closed

    def _open_judge(self) -> Worker:
        judge = Worker(self._limits)
        with self._changed:
            self._judges.add(judge)
            if self._closed:
                judge.interrupt()
        try:
            self._missing = judge.receive(START_SECONDS)
        except (OSError, EOFError) as error:
            status = self._close_judge(judge, signal.SIGKILL)
            raise EOFError(f"status {status}") from error
        return judge

    def _close_judge(self, judge: Worker, by: signal.Signals | None) -> int:
        with self._changed:
            self._judges.discard(judge)
        return judge.close(by)

    def _lost(self, job: "Job", judge: Worker | None, error: Exception) -> dict | None:
        """What it means for a program that its judge is gone: a reply, or None to try once more."""
        if judge is None:
            seconds, status = 0.0, NOT_READY
            why = f"no worker starts ({error})"
        else:
            done = [name for letter in judge.progress() for name in OUTCOMES if name[0] == letter]
            seconds = time.monotonic() - judge.turn
            status = self._close_judge(judge, signal.SIGTERM if self._closed else signal.SIGKILL)
            why = f"its worker ended with status {status}"
        if judge and (isinstance(error, TimeoutError) or status == -signal.SIGVTALRM):
            left = ["timeout", "TimeoutError: the test hangs"]
        elif status in FROM_OUTSIDE or status == NOT_READY:
            job.tries += 1
            if job.tries < 2 or self._closed:
                return None
            return {"lost": why}
        else:  # such as an answer that the judge itself runs out of memory on
            left = ["crash", "Crash: the test ended the judge"]
        results = [[name, None if name == "ok" else name] for name in done]
        results += [left] * (len(job.program.tests) - len(results))
        return {"load": left, "results": results, "seconds": seconds}

    def _settle(self, job: "Job", reply: dict) -> None:
        program = job.program
        if "setup" in reply:
            job.future.set_exception(
                ValueError(f"the setup of {program.entry_point!r} does not run: {reply['setup']}")
            )
        elif "lost" in reply:
            with self._changed:
                self._known.pop(program, None)  # the next to ask may have better luck
            shown = f"{program.entry_point!r}: {reply['lost']}, twice: {program.code[:200]!r}"
            job.future.set_exception(RuntimeError(f"program {shown}"))
        else:
            statuses = [status for status, _ in reply["results"]]
            job.future.set_result(
                Verdict(
                    passed=[status == "ok" for status in statuses],
                    outcome=max([reply["load"][0], *statuses], key=OUTCOMES.index),
                    errors=[error and _encodable(error) for _, error in reply["results"]],
                    seconds=reply["seconds"],
                )
            )


def _encodable(text: str) -> str:
    """A program's text without half characters, which no tokenizer and no file takes."""
    return text.encode(errors="replace").decode()


class Job:
    """A program on its way, and how many workers were lost under it."""

    def __init__(self, program: Program):
        self.program, self.future, self.tries = program, Future(), 0
        self.request = json.dumps([*vars(program).values()]).encode() + b"\n"
