"""The trainer's end of a worker: starts its interpreter, sends programs, reads what it replies."""

import collections
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

WORKER = Path(__file__).resolve().with_name("worker.py")
# Of the trainer's own variables only what some interpreters do not start without: a key in there is
# none of a program's business. A fixed hash seed makes the order of sets repeatable.
ENVIRONMENT = {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", "PYTHONHASHSEED": "0"}
PASSED_ON = ("LD_LIBRARY_PATH",)
START_SECONDS = 60.0  # a worker takes 0.1 s to start, on a machine that is not swapping
LEAVE_SECONDS = 2.0
AHEAD_BYTES = 1 << 15  # a request up to this size waits in the socket for the one before to end


class Worker:
    """The trainer's end of one worker: a fresh interpreter, not a fork: a copy of the trainer's
    memory would be slow to make, and holds what no program should come near."""

    def __init__(self, limits: list):
        self.socket, theirs = socket.socketpair()
        # not -I, which would ignore the hash seed
        command = [sys.executable, "-s", "-S", "-P", "-B", str(WORKER), json.dumps(limits)]
        environment = ENVIRONMENT | {
            name: os.environ[name] for name in PASSED_ON if name in os.environ
        }
        for end in (self.socket, theirs):  # macOS gives 8 KiB
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 18)
        with theirs:  # its own session: Ctrl-C in the terminal is for the trainer
            self.process = subprocess.Popen(
                command,
                stdin=theirs,
                stdout=subprocess.PIPE,
                bufsize=0,
                env=environment,
                start_new_session=True,
            )
        os.set_blocking(self.process.stdout.fileno(), False)
        self.heard, self.told = bytearray(), ""
        self.sent = 0  # requests without a reply so far
        self.turn = 0.0  # when it began with the first of them

    def send(self, jobs: collections.deque) -> None:
        """Sends those of `jobs` that it does not have yet, big ones only when it is idle."""
        self.socket.settimeout(START_SECONDS)
        while self.sent < len(jobs):
            job = jobs[self.sent]
            if self.sent and len(job.request) > AHEAD_BYTES:
                return  # both sides would wait for the other to read
            if not self.sent:
                self.turn = time.monotonic()
            self.socket.sendall(job.request)
            self.sent += 1

    def reply(self, seconds: float) -> dict:
        reply = self.receive(seconds)
        self.sent, self.turn = self.sent - 1, time.monotonic()
        self.progress()
        return reply

    def receive(self, seconds: float):
        """The next line. TimeoutError if it does not come, EOFError if the judge is gone."""
        deadline = time.monotonic() + seconds
        while (end := self.heard.find(b"\n")) < 0:
            self.socket.settimeout(max(deadline - time.monotonic(), 0.001))
            chunk = self.socket.recv(1 << 16)
            if not chunk:
                raise EOFError
            self.heard += chunk
        line = bytes(self.heard[:end])
        del self.heard[: end + 1]
        return json.loads(line)

    def progress(self) -> str:
        """First letters of the outcomes since the last reply. They come on a pipe of their own,
        which wakes nobody up, for the day when the judge does not live to reply."""
        told = self.told + (self.process.stdout.read() or b"").decode()
        self.told = told.rpartition("\n")[2]
        return self.told

    def interrupt(self) -> None:
        """From another thread: wakes the one that waits in receive."""
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)

    def close(self, by: signal.Signals | None) -> int:
        """Ends the judge, and with it zygote and candidate; returns its exit status."""
        self.socket.close()  # an idle judge leaves at this, a busy one by SIGTERM,
        if by:  # one that hangs or is gone by SIGKILL: its zygote then sees end of file, and leaves
            self.process.send_signal(by)
        try:
            self.process.wait(LEAVE_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
        return self.process.returncode
