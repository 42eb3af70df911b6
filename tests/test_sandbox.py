"""sandbox.py: its interface, the programs of sandbox_programs.py, and that nothing is left behind.

pytest tests/test_sandbox.py
"""

import contextlib
import multiprocessing
import os
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest
import sandbox_programs as programs
from blocks import blocks

from programs.sandbox import box as sandbox
from programs.sandbox import wire
from programs.sandbox.box import Program, Sandbox

ROOT = Path(sandbox.__file__).resolve().parent
LINUX = sys.platform == "linux"
# for kernel locks, a limit of memory, /proc
of_linux = pytest.mark.skipif(not LINUX, reason="macOS has less")
QUICK = {"test_timeout": 0.5, "total_timeout": 2.0, "memory_mb": 256, "restarts": 0}
PATIENT = {"test_timeout": 20.0, "total_timeout": 60.0}
REFUSALS = (
    "PermissionError",
    "ModuleNotFoundError",
    "OSError: [Errno 38]",
    "Crash: the program's",
    "RuntimeError: can't start new thread",
    "ValueError: not allowed to raise",
    "OSError: [Errno 22]",
    "OSError: [Errno -3]",
    "ZeroDivisionError",
)
ADD = Program(
    "def add(a, b): return a + b", ["assert add(1, 2) == 3", "assert add(1, 2) == 4"], "add"
)

pytestmark = pytest.mark.filterwarnings("ignore:programs are not fully contained")


@pytest.fixture(scope="module")
def box():
    with Sandbox(workers=2, **PATIENT) as opened:
        yield opened


@pytest.fixture
def canary(tmp_path, monkeypatch):
    """A folder with a secret, a listening port, a signal handler: what attacks would move."""
    (tmp_path / "secret.txt").write_text("treasure")
    monkeypatch.setenv("SANDBOX_TEST_KEY", "treasure")
    signals = []
    before = signal.signal(signal.SIGUSR1, lambda *_: signals.append(1))
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield tmp_path, server, signals
    signal.signal(signal.SIGUSR1, before)


def program(case, folder="TMP", port=9):
    code = case.code.replace("TMP", str(folder)).replace("PID", str(os.getpid()))
    return Program(code.replace("PORT", str(port)), case.tests, case.entry_point, case.setup)


def verdict_of(box, code, tests, **options):
    """Return the verdict of a function f."""
    [verdict] = box.run([Program(code, tests, "f", **options)])
    return verdict


def family(pid, recursive=True):
    """The descendants of a process, or its children."""
    return {process.pid for process in psutil.Process(pid).children(recursive)}


def alive(pids):
    living = set()
    for pid in pids:
        with contextlib.suppress(psutil.NoSuchProcess):
            if psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:  # however late init reaps it
                living.add(pid)
    return living


def soon(condition):
    """Return whether a condition holds within half a minute."""
    deadline = time.monotonic() + 30
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.01)
    return condition()


def state():
    """What a program or the sandbox could have changed of the trainer and its machine."""
    links = set()
    for entry in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            links.add((entry.name, os.readlink(entry)))
    return {
        "descriptors": {link for link in links if "/proc/" not in link[1]},
        "threads": {thread.name for thread in threading.enumerate()},
        "limits": [resource.getrlimit(kind) for kind in range(10)],
        "signals": {number: signal.getsignal(number) for number in signal.valid_signals()},
        "priority": os.getpriority(os.PRIO_PROCESS, 0),
        "processors": os.sched_getaffinity(0),
        "children": family(os.getpid()),
        # What attacks would call loot, where names are the whole machine's:
        "shared memory": os.path.exists("/dev/shm/loot"),
        "sockets": "loot" in Path("/proc/net/unix").read_text("utf-8"),
    }


def assert_unchanged(before):
    """But for candidates of earlier tests, which may still have been on their way out."""
    now = state()
    now["children"] |= before["children"]
    assert now == before


# ---- the programs -------------------------------------------------------------------------------


@pytest.mark.parametrize("locks", [True, False])
def test_no_attack_on_the_verdict_earns_a_test_and_honest_programs_pass(locks):
    with Sandbox(workers=4, kernel_locks=locks, **QUICK) as box:
        assert_failed(programs.VERDICT, box)
    with Sandbox(workers=2, kernel_locks=locks, **PATIENT) as box:
        verdicts = box.run([program(case) for case in programs.HONEST])
    for case, verdict in zip(programs.HONEST, verdicts, strict=True):
        assert verdict.errors == [None] * len(case.tests), case.name
        assert all(verdict.passed), case.name
        assert verdict.outcome == "ok", case.name


def assert_failed(cases, box):
    verdicts = box.run([program(case) for case in cases])
    for case, verdict in zip(cases, verdicts, strict=True):
        assert not any(verdict.passed), (case.name, verdict)
        assert verdict.outcome in case.outcomes, (case.name, verdict)


@of_linux
def test_attacks_on_the_machine_are_refused_and_leave_no_trace(canary):
    folder, server, signals = canary
    secret = folder / "secret.txt"
    was = os.stat(secret)
    before = state()
    with Sandbox(workers=4, **QUICK) as box:
        port = server.getsockname()[1]
        verdicts = box.run([program(case, folder, port) for case in programs.MACHINE])
        pids = family(os.getpid()) - before["children"]
    for case, verdict in zip(programs.MACHINE, verdicts, strict=True):
        assert not any(verdict.passed), (case.name, verdict)
        if "AssertionError" not in verdict.errors[0]:  # it tried, and saw that it had failed
            assert verdict.errors[0].startswith(REFUSALS), (case.name, verdict)
    assert_unchanged(before)
    assert list(folder.iterdir()) == [secret]
    assert os.stat(secret) == was
    assert secret.read_text() == "treasure"
    server.settimeout(0)
    with pytest.raises(BlockingIOError):
        server.accept()
    assert not signals
    assert soon(lambda: not alive(pids))


@of_linux
def test_time_and_memory_are_bounded():
    before = state()
    with Sandbox(workers=6, **QUICK) as box:
        assert_failed(programs.SLOW + programs.EXHAUST + programs.STEER, box)
        pids = family(os.getpid()) - before["children"]
    assert_unchanged(before)
    assert soon(lambda: not alive(pids))


def test_nothing_passes_from_one_program_to_the_next():
    with Sandbox(workers=1, memory_mb=128) as box:
        checker = programs.CHECK_NOTHING_PLANTED
        assert verdict_of(box, checker, ["assert f(0) == 0"]).errors == ["AssertionError"]
        alone = (
            "from random import Random\nr = Random(0)\nnumbers, names = f(0)\n"
            "assert numbers == [r.random() for _ in range(3)]\n"
            "assert names == list({'a', 'b', 'c', 'd'})"
        )
        for number, case in enumerate(programs.PLANTS):
            _, after = box.run([program(case), Program(f"{checker}# {number}", [alone], "f")])
            assert after.passed == [True], (case.name, after)


def handle(number):
    raise LookupError(number)


@pytest.mark.parametrize(
    "line",
    [
        '["value", {"s": {"r": [0, 1000000000000000, 1]}}]',
        '["value", {"d": [{"r": [0, 1000000000000000, 1]}]}]',
        '["value", {"C": [[[], 1]]}]',
        '["value", {"z": 1}]',
        '["value", {"h": 1}]',
        '["value", {"F": [1, 0]}]',
        '["value", {"b": "0"}]',
        '["value", ' + "9" * 5000 + "]",
        "[" * 100_000,
        "ready",
        "\xff",
    ],
)
def test_what_is_no_answer_is_refused_at_once(line):
    began = time.process_time()
    with pytest.raises(wire.REFUSED):
        wire.unpacker(handle)(line.encode("latin-1"))
    assert time.process_time() - began < 0.5


# ---- the interface ------------------------------------------------------------------------------

LATE = "TimeoutError: no answer in time"
DIED = "Crash: the program's process died"
BY_NUMBER = (
    "import os\ndef f(n):\n    if n == 1: raise KeyError('no')\n    if n == 2: os._exit(1)\n"
    "    if n == 3: return bytearray(1 << 40)\n    while n == 4: pass\n    return n"
)
PROMPT = (
    "x = 1",
    "x = 2; 1 / 0; x = 3",
    "import sys; sys.exit()",
    "def f(: pass",
    "y = x",
    "def f(): return x, y",
)
OPTIONS = {
    "no restarts": {"may_fail": 6},
    "few failures": {"may_fail": 1},
    "setup": {"setup": "LIMIT = 3\ndef check(x): return x == LIMIT"},
    "statements run as at a prompt": {"statements": PROMPT},
    "a statement loads, and fails later": {"statements": ("def f(): return g()", "def h(): pass")},
}
# A program and the outcome, then what each test says. With restarts, the third failure finds none
# left, and stands for what follows. With a setup, the program changes its own copy; the tests use
# the runner's, and see no other name of it.
TOLD = """
=== each test: crash
BY_NUMBER
---
assert f(0) == 0          passes
assert f(0) == 1          AssertionError
assert f(0) == 1, 'zero'  AssertionError: zero
f(1)                      KeyError: 'no'
f(2)                      Crash: the program's process died
f(3)                      MemoryError
f(                        SyntaxError: '(' was never closed (<test>, line 1)
f(lambda: 0)              BadTest: it passes a function, which is no plain data
nowhere                   NameError: name 'nowhere' is not defined
assert f(0) < 1           passes
=== it loads: ok
def f(): pass
---
=== it does not load: error
def f(:
---
=== it leaves: error
def f(): exit()
---
f()  SystemExit
=== nothing is defined: error
---
f()  NameError: name 'f' is not defined
=== restarts: crash
BY_NUMBER
---
f(4)    TimeoutError: no answer in time
f(2)    Crash: the program's process died
f(0)    passes
f(4.0)  TimeoutError: no answer in time
0       TimeoutError: no answer in time
=== no restarts: timeout
BY_NUMBER
---
f(0)  passes
f(4)  TimeoutError: no answer in time
0     TimeoutError: no answer in time
=== few failures: error
BY_NUMBER
---
f(1)       KeyError: 'no'
nowhere()  NameError: name 'nowhere' is not defined
0          NameError: name 'nowhere' is not defined
=== setup: error
global LIMIT
LIMIT = 7
def check(x): return True
def f(): return LIMIT
aux = f
---
assert check(f())  AssertionError
assert LIMIT == 3  passes
aux()              NameError: name 'aux' is not defined
=== statements run as at a prompt: ok
---
assert f() == (2, 2)  passes
=== a statement loads, and fails later: error
---
f()  NameError: name 'g' is not defined
"""


@pytest.mark.parametrize("head, part", blocks(TOLD))
def test_a_verdict_says_what_happened(head, part):
    name, _, outcome = head.partition(": ")
    code, _, rows = part.replace("BY_NUMBER", BY_NUMBER).partition("---")
    told = dict(re.split(" {2,}", row) for row in rows.strip().splitlines())
    with Sandbox(workers=1, test_timeout=0.5, restarts=2) as box:
        verdict = verdict_of(box, code, [*told], **OPTIONS.get(name, {}))
    assert [error or "passes" for error in verdict.errors] == [*told.values()]
    assert verdict.passed == [error is None for error in verdict.errors]
    assert verdict.outcome == outcome


def test_an_error_is_cut_and_has_whole_characters(box):
    """Half of a character would pass through feedback into a prompt."""
    tests = ["f('x' * 10 ** 6)", "assert False, 'y' * 10 ** 6", "f('\\ud800')"]
    errors = [f"ValueError: {'x' * 288}", f"AssertionError: {'y' * 284}", "ValueError: ?"]
    assert verdict_of(box, "def f(text): raise ValueError(text)", tests).errors == errors


def test_the_whole_program_has_a_limit():
    code = "def f(n):\n    for _ in range(10 ** 7): pass\n    return n"
    with Sandbox(workers=1, test_timeout=5, total_timeout=1) as box:
        verdict = verdict_of(box, code, [f"assert f({n}) == {n}" for n in range(50)])
    assert verdict.passed[0]
    assert not any(verdict.passed[20:])
    assert verdict.outcome == "timeout"


def test_a_test_that_hangs_the_runner_fails_with_all_others():
    # C code does not hear the alarm: the runner dies of it, and its worker is replaced.
    tests = ["assert f(1) == range(10 ** 15)", "assert sum(f(1)) == 5", "assert f(1)"]
    with Sandbox(workers=1, **QUICK) as box:
        hung, after = box.run([Program("def f(n): return range(10 ** 15)", tests, "f"), ADD])
    assert (hung.passed, hung.outcome) == ([False] * 3, "timeout")
    assert after.passed == [True, False]


def test_identical_programs_run_once():
    """The system's randomness tells one run from two."""
    same = Program("import os\ndef f(): return os.urandom(8).hex()", ["assert f() == 0, f()"], "f")
    with Sandbox(workers=4, **PATIENT) as box, ThreadPoolExecutor(4) as threads:
        batches = threads.map(box.run, [[same] * 20] * 5)
        assert len({verdict.errors[0] for batch in batches for verdict in batch}) == 1


def test_what_a_test_draws_cannot_be_foreseen_and_comes_again(box):
    """The runner is seeded by its tests, which no program knows, and candidates by a constant."""
    test = "import random\nn = random.randrange(10**9)\nassert f() == n, n"
    foresees = "import random\ndef f(): return random.randrange(10**9)"
    asked = [Program(f"{foresees} # {i}", [test], "f") for i in range(2)]
    first, again, other = box.run([*asked, Program(foresees, [test + " "], "f")])
    assert first.errors == again.errors != other.errors
    assert first.errors[0].startswith("AssertionError")


RAISE = """def f(kind):
    if kind == "group":
        raise ExceptionGroup("many", [ValueError("x")])
    if kind == "decode":
        raise UnicodeDecodeError("utf8", b"x", 0, 1, "many")
    raise SyntaxError("many")"""


def test_a_test_reads_the_text_of_an_exception_of_any_kind(box):
    """Some kinds take more than a text."""
    read = "try:\n    f({!r})\nexcept Exception as error:\n    assert 'many' in str(error)"
    tests = [read.format(kind) for kind in ("group", "decode", "syntax")]
    [verdict] = box.run([Program(RAISE, tests, "f")])
    assert verdict.errors == [None] * 3


TAME = """
return sum(sorted(x)) or [y.upper() for y in x if y.isdigit()]
"""
WILD = """
x.real = 3.5
for Counter.update in [max]: pass
import sys
return getattr(x, 'a')
return __builtins__
return x.__class__
return (y for y in x).gi_frame
class A: pass
match x: case object(gi_frame=c): return c
async def f(): pass
return '{0.__init__}'.format(x)
f = x.format_map
"""


def test_what_outlasts_no_module_shares_a_process():
    """What hangs or crashes there is tried again in a process of its own, and spoils nothing."""
    for source in (TAME + WILD).strip().splitlines():
        program = Program("", (), "f", statements=(source,))
        assert sandbox.shareable(program) == (source in TAME)
    assert not sandbox.shareable(ADD)
    setup = "from os import _exit as leave"
    count = "n = 0\ndef f():\n    global n\n    n += 1\n    return n # "
    with Sandbox(workers=1, **QUICK) as box:
        for code, error in (
            (count + "1", "AssertionError: 2"),
            ("def f(): leave(0)", DIED),
            (count + "2", "AssertionError: 2"),
            ("def f():\n    while True: pass", LATE),
            (count + "3", "AssertionError: 2"),
        ):
            program = Program("", ["assert f() == 0, f()"], "f", setup, (code,))
            [verdict] = box.run([program])
            assert verdict.errors == [error]


@pytest.mark.parametrize("setup", ["import nowhere", "def (", "raise SystemExit"])
def test_a_broken_setup_is_the_data_sets_mistake(box, setup):
    with pytest.raises(ValueError, match="setup of 'f' does not run: "):
        verdict_of(box, "def f(): pass", ["f()"], setup=setup)


# ---- workers ------------------------------------------------------------------------------------


@of_linux
def test_close_interrupts_what_runs_and_leaves_nothing():
    before = state()
    box = Sandbox(workers=3, test_timeout=60, total_timeout=60)
    hang = [Program(f"while True: pass # {n}", ["f()"], "f") for n in range(9)]
    with ThreadPoolExecutor(1) as thread:
        waiting = thread.submit(box.run, hang)
        assert soon(lambda: len(family(os.getpid()) - before["children"]) == 9)
        pids = family(os.getpid()) - before["children"]
        began = time.monotonic()
        box.close()
        with pytest.raises(RuntimeError, match="the Sandbox was closed"):
            waiting.result()
    assert time.monotonic() - began < 30
    assert_unchanged(before)
    assert soon(lambda: not alive(pids))
    box.close()
    with pytest.raises(RuntimeError, match="after shutdown"):
        box.run([ADD])


@of_linux
@pytest.mark.parametrize("victim", ["runner", "zygote"])
def test_a_worker_killed_from_outside_is_replaced(victim):
    def kill():
        [runner] = box._workers.values()
        pid = runner.process.pid
        if victim == "zygote":
            [pid] = family(pid, recursive=False)
        os.kill(pid, signal.SIGKILL)

    code = "import time\ndef f():\n    time.sleep(0.7)\n    return 1"
    before = family(os.getpid())
    with Sandbox(workers=1, **PATIENT) as box:
        box.run([ADD])
        pids = family(os.getpid()) - before
        kill()  # while idle
        assert verdict_of(box, "def f(): return 1", ["assert f() == 1"]).passed == [True]
        timer = threading.Timer(0.4, kill)  # while it works
        timer.start()
        assert verdict_of(box, code, ["assert f() == 1"]).passed == [True]
        assert not alive(pids)


def test_there_are_no_more_workers_than_cores(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3, 5, 7}, raising=False)
    monkeypatch.setattr(sandbox, "QUOTA", tmp_path / "cpu.max")
    for text, count in (("max 100000", 3), ("50000 100000", 1), ("150000 100000", 2)):
        sandbox.QUOTA.write_text(f"{text}\n")
        assert sandbox.cores() == count
    with Sandbox() as box:  # made before --devices starts its processes
        monkeypatch.setenv("WORLD_SIZE", "2")
        assert box._pool._max_workers == 1


SLEEPS = "import time\ndef f(): time.sleep(1)"
LOOPS = "def f():\n    while True: pass"
WORKS = """
import time
def f():
    end = time.process_time() + 0.3
    while time.process_time() < end: pass
"""


def compete(core):
    os.sched_setaffinity(0, {core})
    while True:
        pass


@of_linux
def test_the_time_counts_in_which_a_program_could_run():
    """Also where four others want its core, and it has a fifth of the time."""
    before = os.sched_getaffinity(0)
    core = min(before)
    fork = multiprocessing.get_context("fork")
    others = [fork.Process(target=compete, args=[core]) for _ in range(4)]
    for other in others:
        other.start()
    os.sched_setaffinity(0, {core})
    try:
        with Sandbox(workers=1, test_timeout=0.6) as box:
            for code, errors in ((WORKS, [None]), (SLEEPS, [LATE]), (LOOPS, [LATE])):
                assert verdict_of(box, code, ["f()"]).errors == errors
    finally:
        os.sched_setaffinity(0, before)
        for other in others:
            other.kill()
            other.join()


def test_where_nobody_counts_who_waits_the_clock_has_ten_times_as_long(monkeypatch):
    change_worker(monkeypatch, "worker.py", "/proc/self/schedstat", "/nowhere")
    with Sandbox(workers=1, test_timeout=0.2) as box:
        for code, errors in ((SLEEPS, [None]), (LOOPS, [LATE])):
            assert verdict_of(box, code, ["f()"]).errors == errors


def change_worker(monkeypatch, file, old, new):
    """Let workers start from a copy of the sandbox with another text in a file."""
    copy = Path(shutil.copytree(ROOT, "sandbox"))
    source = (copy / file).read_text()
    (copy / file).write_text(source.replace(old, new))
    monkeypatch.setattr(sandbox, "WORKER", (copy / "worker.py").resolve())


@of_linux
@pytest.mark.parametrize(
    "change, reason",
    [
        (("worker.py", "def main()", "sys.exit(3)\ndef main()"), r" \(status 3\)"),
        (("locks.py", "/proc/self/statm", "/no/statm"), ": .*No such file .*: '/no/statm'"),
    ],
)
def test_a_worker_that_does_not_start_says_why(monkeypatch, change, reason):
    change_worker(monkeypatch, *change)
    with Sandbox(workers=1) as box, pytest.raises(RuntimeError, match="no worker starts" + reason):
        box.run([ADD])


INHERITS = """
import signal, sys
sys.path.insert(0, sys.argv[1])
for number in (signal.SIGCHLD, signal.SIGALRM, signal.SIGVTALRM):
    signal.signal(number, signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
from programs.sandbox.box import Program, Sandbox
with Sandbox(workers=1, test_timeout=0.5, restarts=0) as box:
    codes = ["def f(): return 1", "def f():\\n    while True: pass", "def f(): return 1 # "]
    verdicts = box.run([Program(code, ["assert f() == 1"], "f") for code in codes])
    with open("outcomes", "w") as file:
        print(*[verdict.outcome for verdict in verdicts], file=file)
    try:
        box.run([Program("def f(): return range(10 ** 15)", ["assert sum(f()) == 5"], "f")])
    except RuntimeError as error:
        with open("outcomes", "a") as file:
            print(str(error)[:38], file=file)
"""


@of_linux
def test_what_a_parent_left_ignored_blocked_or_closed_changes_no_verdict(tmp_path):
    """Where the trainer ignores SIGCHLD, nobody knows how a runner ended."""
    shell = f'exec {sys.executable} -c "$0" "$1" <&- >&- 2>&-'
    subprocess.run(["sh", "-c", shell, INHERITS, ROOT.parents[1]], cwd=tmp_path, check=False)
    told = (tmp_path / "outcomes").read_text()
    assert told == "ok timeout ok\na worker ended twice with status 0: 'd\n"


TRAINER = """
import os, sys, threading, time
sys.path.insert(0, {root!r})
from programs.sandbox.box import Program, Sandbox
box = Sandbox(workers=2, test_timeout=60, total_timeout=60)
box.run([Program("def f(): return 1", ["f()"], "f")])
for n in range(2):
    hang = Program(f"while True: pass # {{n}}", ["f()"], "f")
    threading.Thread(target=box.run, args=([hang],), daemon=True).start()
time.sleep(1)
if {fork} and not os.fork():  # it holds the workers' sockets open
    time.sleep(8)
    os._exit(0)
print("ready", flush=True)
time.sleep(60)
"""


@of_linux
@pytest.mark.parametrize("fork", [False, True])
def test_workers_die_with_the_trainer(fork):
    code = TRAINER.format(root=str(ROOT.parents[1]), fork=fork)
    command = [sys.executable, "-W", "ignore", "-c", code]
    trainer = subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True)
    with trainer.stdout as output:
        assert output.readline() == b"ready\n"
        assert soon(lambda: len(family(trainer.pid)) == 6 + fork)  # runner, zygote, candidate twice
        pids = family(trainer.pid)
        trainer.kill()
        trainer.wait()
        assert soon(lambda: len(alive(pids)) == fork)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(trainer.pid, signal.SIGKILL)  # the fork


@of_linux
def test_a_worker_holds_nothing_of_the_trainers_and_hears_no_ctrl_c():
    with open("/dev/null", encoding="utf-8") as _held, Sandbox(workers=1, **PATIENT) as box:
        box.run([ADD])
        [worker] = box._workers.values()
        runner = psutil.Process(worker.process.pid)
        [zygote] = runner.children()
        for process, most in ((runner, 6), (zygote, 4)):
            assert os.getsid(process.pid) != os.getsid(0)
            assert os.getpgid(process.pid) == runner.pid
            assert process.num_fds() <= most
            status = Path(f"/proc/{process.pid}/status").read_text("utf-8")
            for line in ("NoNewPrivs:\t1", "Seccomp:\t2", "CapEff:\t0{16}", "CapPrm:\t0{16}"):
                assert re.search(line, status)
            with contextlib.suppress(psutil.AccessDenied):
                assert process.environ().keys() <= sandbox.ENVIRONMENT.keys()
    assert sandbox.ENVIRONMENT.keys() == {"PATH", "LC_ALL", "PYTHONHASHSEED", "LD_LIBRARY_PATH"}


def test_missing_locks_and_open_doors_are_told_once(monkeypatch):
    change_worker(monkeypatch, "locks.py", "sys.addaudithook(audit)", "pass")
    with Sandbox(workers=1, kernel_locks=False) as box:
        with pytest.warns(RuntimeWarning, match=r"seccomp, Landlock.*container") as told:
            box.run([])
        for door in sandbox.DOORS.keys() - {"take 64 GiB of memory"}:
            assert door in str(told[0].message)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            box.run([ADD])


UNHEARD = ("stat", "resolve", "make_fifo", "change_root", "read_own_image", "late_thread")


def test_the_audit_hook_stops_accidents(tmp_path):
    # What is left on macOS: ordinary ways out are shut, though ctypes opens them again.
    cases = []
    for case in programs.FILES + programs.NETWORK:
        if "ctypes" not in case.code and case.name not in UNHEARD:
            cases.append(case)
    (tmp_path / "secret.txt").write_text("treasure")
    with Sandbox(workers=2, kernel_locks=False, **QUICK) as box:
        verdicts = box.run([program(case, tmp_path) for case in cases])
    for case, verdict in zip(cases, verdicts, strict=True):
        assert not any(verdict.passed), case.name
    assert [path.name for path in tmp_path.iterdir()] == ["secret.txt"]


AS_NOBODY = """
import os, sys, warnings
sys.path.insert(0, sys.argv[1])
import sandbox_programs
from programs.sandbox.box import Program, Sandbox
warnings.simplefilter("error")
def program(case):
    code = case.code.replace("TMP", sys.argv[1]).replace("PID", str(os.getpid()))
    return Program(code.replace("PORT", "9"), case.tests, case.entry_point, case.setup)
with Sandbox(workers=2, test_timeout=2, total_timeout=9, restarts=0) as box:
    verdicts = box.run([program(case) for case in sandbox_programs.MACHINE])
for case, verdict in zip(sandbox_programs.MACHINE, verdicts):
    if any(verdict.passed):
        print(case.name, verdict)
print(os.getuid(), "done")
"""


@pytest.mark.skipif(not LINUX or os.getuid() != 0, reason="needs root, to become somebody else")
def test_it_holds_for_an_ordinary_user():
    python = "/usr/bin/python3"  # root's own Python may be out of nobody's reach
    nobody = {"user": 65534, "group": 65534, "extra_groups": []}
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o777)
        for file in ("sandbox_programs.py", "blocks.py"):
            shutil.copy(Path(programs.__file__).with_name(file), folder)
        shutil.copytree(ROOT, f"{folder}/programs/sandbox")
        Path(folder, "secret.txt").write_text("treasure", "utf-8")
        command = [python, "-B", "-c", AS_NOBODY, folder]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, **nobody)
        assert not os.path.exists(f"{folder}/loot")
    if "SyntaxError" in done.stderr:
        pytest.skip(f"{python} is too old")
    assert (done.stdout, done.stderr) == ("65534 done\n", "")
