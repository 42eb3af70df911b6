"""The trainer's end of a worker: starts its interpreter, sends programs, reads what it replies."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

WORKER = Path(__file__).resolve().with_name("worker.py")
# Of the trainer's own variables only what some interpreters do not start without: a key in there is
# none of a program's business. A fixed hash seed makes the order of sets repeatable.
ENVIRONMENT = {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", "PYTHONHASHSEED": "0"}
PASSED_ON = ("LD_LIBRARY_PATH",)
START_SECONDS = 60.0  # a worker takes 0.1 s to start, on a machine that is not swapping
LEAVE_SECONDS = 2.0


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
                command,
                stdin=theirs,
                stdout=subprocess.PIPE,
                bufsize=0,
                env=ENVIRONMENT | passed_on,
                start_new_session=True,
            )
        os.set_blocking(self.process.stdout.fileno(), False)

    def ask(self, request: list, seconds: float):
        self.progress()
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

    def progress(self) -> str:
        """First letters of the outcomes since this was last called. They come on a pipe of their
        own, which wakes nobody up, for the day when the judge does not live to reply."""
        return (self.process.stdout.read() or b"").decode().rpartition("\n")[2]

    def interrupt(self) -> None:
        """From another thread: wakes the one that waits in receive."""
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)

    def close(self, by: signal.Signals | None) -> int:
        """Ends the judge, and with it zygote and candidate; returns its exit status."""
        self.replies.close()
        self.socket.close()  # an idle judge leaves at this, a busy one by SIGTERM,
        if by:  # one that hangs or is gone by SIGKILL: its zygote then sees end of file, and leaves
            self.process.send_signal(by)
        self.wait()
        self.process.stdout.close()
        return self.process.returncode

    def wait(self) -> None:
        try:
            self.process.wait(LEAVE_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
