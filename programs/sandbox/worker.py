"""Start a worker of the sandbox, which is three processes. box.py says why there are three.

`main` runs in a fresh interpreter. It loads the modules that programs may import, and locks itself
for good (locks.py). From then on it cannot open a file or import another module. Then it forks. The
parent becomes the runner, and the child becomes the zygote.

The zygote forks a candidate for every program and ends it on demand. It never reads a test, so a
candidate cannot inherit one.
"""

import builtins
import contextlib
import gc
import importlib
import json
import os
import signal
import socket
import sys
import types

sys.path.append(os.path.dirname(os.path.abspath(__file__)))  # until preload empties it
import locks
import observer  # noqa: F401  programs whose helper is observed import it
from candidate import be_candidate
from runner import TestRunner
from wire import NOT_READY, send

# Programs can import these modules, and those that are imported above.
PRELOAD = """__future__ abc array ast base64 binascii bisect calendar cmath collections.abc colorsys
contextvars copy csv dataclasses datetime _strptime difflib enum errno fnmatch graphlib hashlib
heapq hmac html inspect io ipaddress itertools keyword locale logging math numbers operator os.path
pickle pprint queue re reprlib sched secrets shlex statistics string stringprep textwrap threading
timeit token tokenize traceback typing unicodedata unittest urllib.parse uuid warnings weakref zlib
encodings.ascii encodings.base64_codec encodings.cp1252 encodings.hex_codec encodings.idna
encodings.latin_1 encodings.punycode encodings.raw_unicode_escape encodings.rot_13
encodings.unicode_escape encodings.utf_16 encodings.utf_16_be encodings.utf_16_le encodings.utf_32
encodings.utf_8_sig"""


def preload() -> None:
    sys.modules["_hashlib"] = None  # OpenSSL: 4 MB that every fork would pay for
    for name in PRELOAD.split():
        importlib.import_module(name)
    builtins.exit = builtins.quit = sys.exit  # type: ignore[assignment]  # site made none
    sys.path.clear()
    sys.path_importer_cache.clear()
    sys.argv[:] = [""]
    sys.modules["__main__"] = types.ModuleType("__main__")


def be_zygote(channel: socket.socket, cpu_seconds: int, missing: list) -> None:
    """Fork a candidate for each message with two pipe ends. Every message ends the last one."""
    candidate = 0
    zygote = os.getpid()
    while True:
        message, pipes, *_ = socket.recv_fds(channel, 1, 2)
        if candidate:
            os.kill(candidate, signal.SIGKILL)
            os.waitpid(candidate, 0)
            candidate = 0
        if not message:  # the runner is gone
            os._exit(0)
        if pipes:
            candidate = os.fork()
            if not candidate:
                try:
                    channel.close()
                    be_candidate(zygote, *pipes, cpu_seconds, missing)
                finally:
                    os._exit(1)
        for pipe in pipes:
            os.close(pipe)


def main() -> None:
    # A parent may have left these ignored or blocked.
    for number in (signal.SIGCHLD, signal.SIGALRM, signal.SIGVTALRM):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    memory_mb, test_timeout, total_timeout, restarts, kernel_locks = json.loads(sys.argv[1])
    locks.die_with_parent()  # end of file ends it too, unless a fork holds the socket
    trainer = os.dup(0)
    link = socket.socket(fileno=trainer)  # the same, for the files that the trainer sends
    null = os.open(os.devnull, os.O_RDWR)
    requests = os.fdopen(trainer, "rb", closefd=False)
    schedstats = []
    with contextlib.suppress(OSError):  # macOS
        schedstats.append(os.open("/proc/self/schedstat", os.O_RDONLY))
    preload()
    for standard in range(3):
        os.dup2(null, standard)
    os.close(null)
    os.chdir("/")
    sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
    ours, zygotes = socket.socketpair()
    try:
        missing = locks.lock_down(memory_mb, kernel_locks)
        gc.collect()
        gc.freeze()  # otherwise each fork's first collection would copy all of this memory
        zygote = os.fork()
    except OSError as error:  # no /proc, or too many processes
        send(trainer, json.dumps({"error": str(error)}).encode())
        os._exit(NOT_READY)
    if not zygote:
        os.close(trainer)
        for file in schedstats:
            os.close(file)
        ours.close()
        be_zygote(zygotes, int(total_timeout) + 2, missing)
    zygotes.close()
    if "seccomp" not in missing and not locks.add_filter(locks.JUDGE_FILTER):
        os._exit(NOT_READY)
    runner = TestRunner(ours, link, schedstats, test_timeout, total_timeout, restarts)

    def leave(status: int) -> None:
        ours.close()  # the zygote ends the candidate and itself
        os.waitpid(zygote, 0)
        os._exit(status)

    signal.signal(signal.SIGTERM, lambda *_: leave(NOT_READY))
    send(trainer, json.dumps({"missing": missing}).encode())
    for request in requests:
        send(trainer, json.dumps(runner.verdict(*json.loads(request))).encode())
    leave(0)


if __name__ == "__main__":
    main()
