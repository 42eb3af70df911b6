"""The processes behind sandbox.py: judge, zygote and candidate. It says why there are three.

`main`, at the end, runs in a fresh interpreter. It loads what programs may import, locks itself for
good (sandbox_locks.py) and forks; the parent becomes the judge, the child the zygote:

  judge      reads programs from the trainer, runs setup and tests. The function under test is a
             Remote: calls travel to the candidate as JSON, answers come back as built-in values, so
             that no line and no object of the candidate is ever in this process.
  zygote     forks a candidate for every program and kills it on demand. It was forked before the
             judge read anything: there is no test in its memory for a candidate to inherit.
  candidate  loads one program and answers. It owns two pipe ends, and locks itself once more.

Once locked, nobody here can open a file, or import a module that is not yet loaded.
"""

import builtins
import collections
import contextlib
import decimal
import fractions
import functools
import gc
import importlib
import json
import os
import random
import signal
import socket
import sys
import time
import types

sys.path.append(os.path.dirname(os.path.abspath(__file__)))  # until preload empties it
import sandbox_locks

# ---- what programs can import, beside the modules above -----------------------------------------

PRELOAD = """__future__ abc array ast base64 binascii bisect calendar cmath collections.abc colorsys
contextvars copy csv dataclasses datetime _strptime difflib enum errno fnmatch graphlib hashlib
heapq hmac html inspect io ipaddress itertools keyword locale logging math numbers operator os.path
pickle pprint queue re reprlib sched secrets shlex statistics string stringprep textwrap threading
timeit token tokenize traceback typing unicodedata urllib.parse uuid warnings weakref zlib
encodings.ascii encodings.base64_codec encodings.cp1252 encodings.hex_codec encodings.idna
encodings.latin_1 encodings.punycode encodings.raw_unicode_escape encodings.rot_13
encodings.unicode_escape encodings.utf_16 encodings.utf_16_be encodings.utf_16_le encodings.utf_32
encodings.utf_8_sig"""


def preload() -> None:
    sys.modules["_hashlib"] = None  # OpenSSL: 4 MB that every fork would pay for
    for name in PRELOAD.split():
        importlib.import_module(name)
    sys.path.clear()
    sys.path_importer_cache.clear()
    sys.argv[:] = [""]
    sys.modules["__main__"] = types.ModuleType("__main__")


# ---- plain data as tagged JSON ------------------------------------------------------------------

ANSWER_BYTES = 1 << 20  # a longer answer is refused, by the sender and by the receiver
DEPTH = 200


class Unsendable(Exception):
    """An answer too large or too deep."""


def flat_int(value: int):
    # hexadecimal when long: decimal digits take quadratic time, and Python stops at 4300 of them
    return value if -(1 << 63) < value < 1 << 63 else {"i": format(value, "x")}


def items(base, value, pack) -> list:
    return [pack(item) for item in base.__iter__(value)]


def pairs(_base, value, pack) -> list:
    return [[pack(key), pack(item)] for key, item in dict.items(value)]


def unpair(flat: list) -> dict:
    return {key: item for key, item in flat}  # noqa: C416  dict() would walk a range, however long


CODEC = {  # type: (tag, how it goes flat, type of the flat, how it is built again)
    tuple: ("t", items, list, tuple),
    set: ("s", items, list, set),
    frozenset: ("f", items, list, frozenset),
    collections.deque: ("q", items, list, collections.deque),
    dict: ("d", pairs, list, unpair),
    collections.Counter: ("C", pairs, list, lambda flat: collections.Counter(unpair(flat))),
    bytes: ("b", lambda _, value, __: bytes.hex(value), str, bytes.fromhex),
    bytearray: ("B", lambda _, value, __: bytearray.hex(value), str, bytearray.fromhex),
    complex: ("c", lambda _, value, __: [value.real, value.imag], list, lambda two: complex(*two)),
    decimal.Decimal: (
        "D",
        lambda _, value, __: decimal.Decimal.__str__(value),
        str,
        decimal.Decimal,
    ),
    fractions.Fraction: (
        "F",
        lambda _, value, pack: [*map(pack, value.as_integer_ratio())],
        list,
        lambda two: fractions.Fraction(*two),
    ),
    range: (
        "r",
        lambda _, value, pack: [*map(pack, (value.start, value.stop, value.step))],
        list,
        lambda three: range(*three),
    ),
}
BUILD = {tag: (kind, build) for tag, _, kind, build in CODEC.values()}
BUILD["i"] = str, lambda digits: int(digits, 16)


class Packer:
    """Turns values into what json.dumps takes, of at most `budget` bytes or so.

    An instance of a subclass goes as its base value. `handle(value)` gives the number of an object
    that is no plain data, or raises.
    """

    def __init__(self, handle, budget: float):
        self.handle, self.left = handle, budget

    def pack(self, value, depth: int = 0):
        kind = type(value)
        self.spend(1)
        if value is None or kind is bool or kind is float:
            return value
        if depth > DEPTH:
            raise Unsendable(f"the answer is nested more than {DEPTH} deep")
        for base in kind.__mro__:  # unlike isinstance, this does not ask the object
            if base is int:
                flat = flat_int(int.__int__(value))
                self.spend(len(flat["i"]) if type(flat) is dict else 8)
                return flat
            if base is str:
                self.spend(str.__len__(value))
                return str.__str__(value)
            if base is float:
                return float.__float__(value)
            inner = functools.partial(self.pack, depth=depth + 1)
            if base is list:
                return items(list, value, inner)
            if base in CODEC:
                tag, flatten, *_ = CODEC[base]
                flat = flatten(base, value, inner)
                self.spend(len(flat) if type(flat) is str else 0)
                return {tag: flat}
        return {"h": self.handle(value)}

    def spend(self, amount: int) -> None:
        self.left -= amount
        if self.left < 0:
            raise Unsendable(f"the answer is larger than {ANSWER_BYTES} bytes")


def unpack(line: bytes, handle):
    """The reverse. Raises one of REFUSED for what no Packer sends: the sender may be hostile."""

    def revive(tagged: dict):
        [(tag, flat)] = tagged.items()
        if tag == "h":
            return handle(flat)
        kind, build = BUILD[tag]
        if type(flat) is not kind:
            raise TypeError(f"{tag} of {type(flat).__name__}")
        return build(flat)

    return json.loads(line, object_hook=revive)


REFUSED = (ValueError, TypeError, LookupError, ArithmeticError, RecursionError)


def send(pipe: int, message: bytes) -> None:
    rest = memoryview(message + b"\n")
    while rest:
        rest = rest[os.write(pipe, rest) :]


def receive(pipe: int, most: float) -> bytearray:
    """A line. EOFError when the other side is gone, or has sent more than `most` bytes."""
    line = bytearray()
    while not line.endswith(b"\n"):
        chunk = os.read(pipe, 1 << 16)
        if not chunk or len(line) > most:
            raise EOFError
        line += chunk
    return line


# ---- candidate ----------------------------------------------------------------------------------

ERROR_CHARS = 300
RESERVE = [bytearray(1 << 20)]  # given up to report a MemoryError


class Solution:
    """The program, in a module of its own, and those of its objects that the judge knows of."""

    def __init__(self):
        self.module = sys.modules["solution"] = types.ModuleType("solution")
        self.entry_point = ""
        self.objects = []

    def answer(self, request: bytes) -> bytes:
        try:
            action, *rest = unpack(request, self.object)
            packed = Packer(self.handle, ANSWER_BYTES).pack(getattr(self, action)(*rest))
            reply = json.dumps(["value", packed]).encode()
            if len(reply) > ANSWER_BYTES:
                raise Unsendable(f"the answer is larger than {ANSWER_BYTES} bytes")
        except BaseException as error:
            if type(error) is MemoryError:
                RESERVE.clear()
            reply = json.dumps(["error", *described(error)]).encode()
        return reply

    def object(self, number: int):
        if number:
            return self.objects[number - 1]
        try:  # at every call anew, as a call by its name would
            return self.module.__dict__[self.entry_point]
        except KeyError:
            raise NameError(f"name {self.entry_point!r} is not defined") from None

    def handle(self, value) -> int:
        self.objects.append(value)
        return len(self.objects)

    # The judge's requests:

    def load(self, setup: str, code: str, entry_point: str) -> None:
        self.entry_point = entry_point
        exec(compile(setup, "<setup>", "exec", dont_inherit=True), self.module.__dict__)
        exec(compile(code, "<program>", "exec", dont_inherit=True), self.module.__dict__)
        self.object(0)

    def call(self, target, arguments: list, keywords: dict):
        return target(*arguments, **keywords)

    def attribute(self, target, name: str):
        return getattr(target, name)

    def iterate(self, target):
        return iter(target)

    def advance(self, target) -> list:
        try:
            return [next(target)]
        except StopIteration:
            return []


def described(error: BaseException) -> tuple[str, str, str]:
    """(nearest built-in class, class, text). Asking for the text runs the program's code."""
    base = next(kind.__name__ for kind in type(error).__mro__ if kind.__module__ == "builtins")
    try:
        text = str.__str__(str(error))[:ERROR_CHARS]
    except BaseException:
        text = "(its text cannot be had)"
    return base, type(error).__name__[:ERROR_CHARS], text


def be_candidate(zygote: int, inbox: int, outbox: int, cpu_seconds: int, missing: list) -> None:
    if not sandbox_locks.lock_candidate(missing, cpu_seconds) or os.getppid() != zygote:
        return  # without a "ready", the judge gives up this worker
    random.seed(0)  # a fork seeds it from the system
    solution = Solution()
    send(outbox, b"ready")
    while True:
        send(outbox, solution.answer(receive(inbox, float("inf"))))


# ---- zygote -------------------------------------------------------------------------------------


def be_zygote(channel: socket.socket, cpu_seconds: int, missing: list) -> None:
    """A message is a processor's number, and ends the candidate before. With two pipe ends it asks
    for a new one, on that processor."""
    candidate, zygote = 0, os.getpid()
    while True:
        message, pipes, *_ = socket.recv_fds(channel, 4, 2)
        if candidate:
            os.kill(candidate, signal.SIGKILL)
            os.waitpid(candidate, 0)
            candidate = 0
        if not message:  # the judge is gone
            os._exit(0)
        if pipes:
            sandbox_locks.keep_to({int.from_bytes(message, "little", signed=True)})
            candidate = os.fork()
            if not candidate:
                try:
                    channel.close()
                    be_candidate(zygote, *pipes, cpu_seconds, missing)
                finally:
                    os._exit(1)
        for pipe in pipes:
            os.close(pipe)


# ---- judge --------------------------------------------------------------------------------------

READY_SECONDS = 10.0
NOT_READY = 75  # exit status: the worker has failed, not the program


class TimeLimit(BaseException):
    """The alarm. Not an Exception, lest a test's `except Exception` catches it."""


class Crash(BaseException):
    """The candidate is gone, or has sent something that is no answer."""


class BadTest(Exception):
    """The test itself is wrong."""


class Candidate:
    """The judge's end of a candidate."""

    def __init__(self, channel: socket.socket, processor: int):
        self.channel, self.lost, self.running = channel, None, True
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
        self.processors = sandbox_locks.allowed_processors()
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

    def judge(self, code: str, tests: list[str], entry_point: str, setup: str) -> dict:
        """{"load": result, "results": one per test, "seconds": } or {"setup": error}."""
        random.seed(0)
        space = {"__name__": "tests", "__builtins__": builtins}
        status, error = self.attempt(self.total_timeout, self.execute, setup, space)
        if status != "ok":
            return {"setup": error}
        began = time.monotonic()
        deadline, restarts, results = began + self.total_timeout, self.restarts, []
        program = (setup, code, entry_point)
        candidate, load = self.start(program, deadline)
        for test in tests:
            if candidate.lost and load[0] == "ok" and restarts and time.monotonic() < deadline:
                restarts -= 1
                candidate, load = self.start(program, deadline)
            if load[0] != "ok":
                result = load
            elif candidate.lost:
                result = results[-1]
            else:
                space[entry_point] = Remote(candidate, 0)
                result = self.attempt(self.share(deadline), self.execute, test, dict(space))
                if result[0] == "ok" and candidate.lost:  # the test has swallowed it
                    result = "crash", f"Crash: {candidate.lost}"
                if result[0] == "timeout" or candidate.lost:
                    candidate.end()
            results.append(result)
            self.report(result[0][0])
        self.report("\n")
        candidate.end()
        sandbox_locks.keep_to(self.processors)
        return {"load": load, "results": results, "seconds": time.monotonic() - began}

    def share(self, deadline: float) -> float:
        return min(self.test_timeout, deadline - time.monotonic())

    def start(self, program: tuple[str, str, str], deadline: float):
        """A new candidate, and the result of loading the program in it."""
        processor = sandbox_locks.current_processor()
        sandbox_locks.keep_to({processor})
        candidate = Candidate(self.channel, processor)
        if self.attempt(READY_SECONDS, candidate.await_ready)[0] != "ok":
            os._exit(NOT_READY)
        load = self.attempt(self.share(deadline), candidate.ask, "load", *program)
        if load[0] != "ok":
            candidate.end()
        return candidate, load

    def execute(self, source: str, space: dict) -> None:
        exec(compiled(source), space)

    def report(self, letter: str) -> None:
        with contextlib.suppress(BlockingIOError):  # more than 64 thousand tests
            os.write(self.progress, letter.encode())


def main() -> None:
    memory_mb, test_timeout, total_timeout, restarts, kernel_locks = json.loads(sys.argv[1])
    sandbox_locks.die_with_parent()  # end of file says so too, unless a fork holds the socket
    trainer, progress, null = os.dup(0), os.dup(1), os.open(os.devnull, os.O_RDWR)
    os.set_blocking(progress, False)
    requests = os.fdopen(trainer, "rb", closefd=False)
    preload()
    for standard in range(3):
        os.dup2(null, standard)
    os.close(null)
    os.chdir("/")
    sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
    ours, zygotes = socket.socketpair()
    missing = sandbox_locks.lock_down(memory_mb, kernel_locks)
    gc.collect()
    gc.freeze()  # or each fork's first collection would write to, and so copy, all of this
    zygote = os.fork()
    if not zygote:
        for descriptor in (trainer, progress, ours.detach()):
            os.close(descriptor)
        be_zygote(zygotes, int(total_timeout) + 2, missing)
    zygotes.close()
    if not sandbox_locks.lock_judge(missing):
        os._exit(NOT_READY)
    judge = Judge(ours, progress, test_timeout, total_timeout, restarts)

    def leave(status: int) -> None:
        ours.close()  # the zygote ends the candidate and itself
        os.waitpid(zygote, 0)
        os._exit(status)

    signal.signal(signal.SIGTERM, lambda *_: leave(NOT_READY))
    send(trainer, json.dumps(missing).encode())
    for request in requests:
        send(trainer, json.dumps(judge.judge(*json.loads(request))).encode())
    leave(0)


if __name__ == "__main__":
    main()
