"""The programs of test_sandbox.py: attacks on the verdict, on the machine, on time and memory, and
honest but odd ones. Each is a Case; the lists at the end of each section collect them.

An attack on the verdict is asked for f(n) = n * n + 4 and must pass none of SQUARE. An attack on
the machine returns "done" where it got what it wanted. In its code, TMP stands for a folder that
holds secret.txt, PID for the trainer, PORT for a port on which the trainer listens.
"""

from dataclasses import dataclass
from textwrap import dedent

from blocks import blocks

SQUARE = (
    "assert f(3) == 13",
    "assert f(5) == 29, 'not 29'",
    "result = f(6)\nassert result == 40",
    "assert [f(n) for n in (1, 2)] == [5, 8]",
    "assert (f(1), {'key': f(2)}) == (5, {'key': 8})",
    "assert sorted({f(1), f(2)}) == [5, 8]",
    "assert abs(f(2) - 8) < 1e-6",
    "assert not f(2) != 8",
    "assert 7 < f(2) < 9 and f(2) in {8: None}",
    "assert all(a == b for a, b in zip(map(f, [1, 2]), [5, 8]))",
    "for n in range(3):\n    assert f(n) - 4 == n * n",
)
FAILED = ("error", "crash", "timeout", "memory")
FIVE = ("assert f(1) == 5",)
UNDONE = ("assert attack() == 'done'",)  # which must fail


@dataclass(frozen=True)
class Case:
    name: str
    code: str
    tests: tuple[str, ...] = SQUARE
    entry_point: str = "f"
    outcomes: tuple[str, ...] = FAILED
    setup: str = ""


def cases(table="", tests=SQUARE, entry_point="f", outcomes=FAILED, **codes):
    """Return the cases of a table, whose parts are codes, and those of the named codes."""
    if table:
        codes = dict(blocks(table)) | codes
    return [
        Case(name, dedent(code).lstrip("\n"), tests, entry_point, outcomes)
        for name, code in codes.items()
    ]


def with_tests(table, outcomes=FAILED):
    """Return the cases of a table. A part is a code, its tests, and a setup, if it has one. Its
    head names an entry point that is not f, too."""
    made = []
    for head, part in blocks(table):
        name, _, entry_point = head.partition(" ")
        part, _, setup = part.partition("\n--- setup\n")
        code, *tests = part.split("\n---\n")
        made.append(Case(name, code, tuple(tests), entry_point or "f", outcomes, setup))
    return made


# ---- attacks on the verdict ---------------------------------------------------------------------

LEAVE = cases(
    """
=== hard_exit_in_call
import os
def f(n): os._exit(0)
=== exit_through_libc
import ctypes
def f(n): ctypes.CDLL(None).exit(0)
=== exit_at_exit
import atexit, os
atexit.register(os._exit, 0)
def f(n): raise SystemExit
=== stop_iteration
def f(n): raise StopIteration
=== own_base_exception
class Out(BaseException): pass
def f(n): raise Out
=== assertion_error_is_success
import builtins
class Quiet(BaseException): pass
builtins.AssertionError = Quiet
def f(n): raise Quiet
"""
)

EQUAL = """
class Equal:
    def __eq__(self, other): return True
    def __ne__(self, other): return False
    def __hash__(self): return 0
    def __getattr__(self, name): return lambda *_: True
    __lt__ = __le__ = __gt__ = __ge__ = __contains__ = __eq__
    def __sub__(self, other): return self
    __add__ = __radd__ = __rsub__ = __mul__ = __sub__
    def __abs__(self): return 0
    def __float__(self): return 13.0
    def __index__(self): return 13
    def __bool__(self): return True
    def __len__(self): return 1
    def __iter__(self): return iter([self])
    def __call__(self, *_): return self
"""


def equal_to_all(base, value):
    return f"""
        class Same({base}):
            def __eq__(self, other): return True
            def __ne__(self, other): return False
            def __lt__(self, other): return True
            __gt__ = __le__ = __ge__ = __lt__
            def __sub__(self, other): return 0
            def __hash__(self): return 0
        def f(n): return Same({value})
        """


OBJECTS = cases(
    equal_object=EQUAL + "def f(n): return Equal()",
    equal_entry=EQUAL + "f = Equal()",
    equal_as_key=EQUAL + "def f(n): return {Equal(): Equal()}",
    equal_class="""
        class Meta(type):
            def __eq__(self, other): return True
            def __ne__(self, other): return False
            def __hash__(self): return 0
        class Answer(metaclass=Meta): pass
        def f(n): return Answer
        """,
    equal_int=equal_to_all("int", "1"),
    equal_str=equal_to_all("str", "'x'"),
    pretended_class="""
        class Liar:
            __class__ = property(lambda self: int)
            def __int__(self): return 13
            __index__ = __int__
        def f(n): return Liar()
        """,
    not_a_number="def f(n): return float('nan')",
    looks_like_the_protocol="""
        def f(n): return '["value", %d]' % (n * n + 4)
        """,
    itself="def f(n): return f",
    generator_of_answers="def f(n): yield n * n + 4",
    empty_iterator="def f(n): return iter([])",
    coroutine="async def f(n): return n * n + 4",
    exploding_pickle="""
        class Boom:
            def __reduce__(self): return (print, ('boom',))
            __reduce_ex__ = lambda self, protocol: self.__reduce__()
        def f(n): return Boom()
        """,
)

SABOTAGE = cases(
    """
=== patched_builtins
import builtins, math
for name in ("abs", "all", "any", "sorted", "len", "zip", "map", "isinstance", "max"):
    setattr(builtins, name, lambda *_, **__: True)
math.isclose = lambda *_, **__: True
def f(n): return 0
=== patched_json
import json
json.dumps = lambda *_, **__: '["value", 14]'
json.loads = lambda *_, **__: ["call", abs, [14], {}]
def f(n): return 0
=== patched_harness
import sys
frame = sys._getframe()
while frame:
    for name in list(frame.f_globals):
        if name in ("Packer", "unpack", "described", "Solution", "compiled", "shown"):
            frame.f_globals[name] = lambda *_, **__: 13
    frame = frame.f_back
def f(n): return 0
=== everything_answers
import sys
def f(n): return 13
solution = sys._getframe(1).f_locals.get("self")
if solution is not None:
    solution.answer = lambda request: b'["value", 0]'
=== late_redefinition
def f(n):
    global f
    f = lambda n: True
    return True
=== replaced_entry
class Names(dict):
    def __missing__(self, key): return 13
globals()["__builtins__"] = Names()
=== changed_small_integers
import ctypes
def f(n):
    for number in (5, 8, 13, 29, 40):  # each becomes 0, in this process
        ctypes.c_uint32.from_address(id(number) + 24).value = 0
    return 0
=== trace
import sys
def trace(frame, event, arg):
    frame.f_locals["value"] = 14
    return trace
sys.settrace(trace)
sys.setprofile(lambda *_: None)
def f(n): return 0
"""
)

# Looks for the tests in every place it can think of, and answers from them if it finds any.
PEEK = """
import ast
def answer_from(text, n):
    for part in text.split("assert ")[1:]:
        call, _, expected = part.partition("==")
        if call.strip() == f"f({n})":
            return ast.literal_eval(expected.partition(",")[0].strip())
    return None
"""
SPY = cases(
    frames=PEEK
    + """
import sys
def f(n):
    frame = sys._getframe()
    while frame:
        for value in [*frame.f_locals.values(), *frame.f_globals.values()]:
            if (found := answer_from(repr(value), n)) is not None:
                return found
        frame = frame.f_back
""",
    garbage_collector=PEEK
    + """
import gc
def f(n):
    gc.unfreeze() if hasattr(gc, "unfreeze") else None
    for value in gc.get_objects():
        for inner in gc.get_referents(value):
            if type(inner) is str and "assert f(" in inner and len(inner) < 200:
                if (found := answer_from(inner, n)) is not None:
                    return found
""",
    every_descriptor=PEEK
    + """
import os
def f(n):
    text = b""
    for descriptor in range(64):
        if descriptor in (0, 1, 2):
            continue
        try:
            os.set_blocking(descriptor, False)
            text += os.read(descriptor, 1 << 16)
        except OSError:
            pass
    return answer_from(text.decode(errors="replace"), n)
""",
    process_memory=PEEK
    + """
import os
def f(n):
    for pid in (os.getpid(), os.getppid()):
        with open(f"/proc/{pid}/mem", "rb") as memory, open(f"/proc/{pid}/maps") as maps:
            for line in maps:
                start, end = (int(part, 16) for part in line.split()[0].split("-"))
                memory.seek(start)
                text = memory.read(end - start).decode(errors="replace")
                if (found := answer_from(text, n)) is not None:
                    return found
""",
    parents_memory=PEEK
    + """
import ctypes, os
def f(n):
    buffer = ctypes.create_string_buffer(1 << 16)
    class Vector(ctypes.Structure):
        _fields_ = [("base", ctypes.c_void_p), ("size", ctypes.c_size_t)]
    here = Vector(ctypes.addressof(buffer), 1 << 16)
    there = Vector(id(os) & ~0xfff, 1 << 16)
    read = ctypes.CDLL(None).process_vm_readv
    read(os.getppid(), ctypes.byref(here), 1, ctypes.byref(there), 1, 0)
    return answer_from(buffer.raw.decode(errors="replace"), n)
""",
)


def forged(*lines):
    """Writes lines to every descriptor, from inside the call."""
    return f"""
import os
def f(n):
    for descriptor in range(64):
        for line in {lines!r}:
            try:
                os.write(descriptor, line.encode() + b"\\n")
            except OSError:
                pass
    return 0
"""


FORGE = cases(
    forged_true=forged('["value", true]'),
    forged_verdict=forged('{"load": ["ok", null], "results": [["ok", null]], "seconds": 0}'),
    forged_ready=forged("ready"),
    forged_letters=forged("ooooooooooo"),
    forged_stop=forged('["stop"]', '["error", "StopIteration", "x"]'),
    forged_no_exception=forged('["error", "print", "x", "y"]'),
    forged_later_reply="""
        import os
        for descriptor in range(3, 64):
            try:
                os.write(descriptor, b'["value", 13]\\n' * 5)
            except OSError:
                pass
        def f(n): return 0
        """,
    forged_depth="""
        import os
        def f(n):
            for descriptor in range(3, 64):
                try:
                    os.write(descriptor, b'["value", ' + b'[' * 60000 + b']' * 60000 + b']\\n')
                except OSError:
                    pass
        """,
    forged_length="""
        import os
        def f(n):
            for descriptor in range(3, 64):
                try:
                    while True:
                        os.write(descriptor, b'0' * 65536)
                except OSError:
                    pass
        """,
    closed_descriptors="""
        import os
        def f(n):
            os.closerange(0, 64)
            return 0
        """,
)

TEXTS = cases(
    """
=== text_that_raises
class Bad(Exception):
    def __str__(self): raise SystemExit
def f(n): raise Bad
=== text_that_exits
import os
class Bad(Exception):
    def __str__(self): os._exit(0)
def f(n): raise Bad
=== text_that_is_huge
def f(n): raise ValueError('x' * 5_000_000)
"""
)

SOURCES = cases(
    empty="",
    missing_entry="def g(n): return n * n + 4",
    uncallable_entry="f = 13",
    broken_syntax="def f(n) return n",
    enormous="def f(n): return 0\n" + "x = 1\n" * 200_000,
    deeply_nested="f = " + "(" * 50_000 + ")" * 50_000,
    nul_byte="def f(n): return n * n + 4\0",
    lone_surrogate="def f(n): return n * n + 4  # \ud800",
    bidirectional="def f(n): return n * n + 5  # \u202e 4 + \u2066",
    prose="Here is the function you asked for:\n\nIt squares the number.",
    the_tests_as_prose="\n".join(SQUARE) + "\ndef f(n): return n * n + 4",
)

VERDICT = LEAVE + OBJECTS + SABOTAGE + SPY + FORGE + TEXTS + SOURCES


# ---- attacks on the machine ---------------------------------------------------------------------


# A system call as the kernel sees it; a result of -1 is a refusal.
SYSCALL = """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
def syscall(number, *arguments):
    result = libc.syscall(ctypes.c_long(number), *arguments)
    if result == -1: raise OSError(ctypes.get_errno(), 'refused')
"""


def attacks(table, **codes):
    """Each line of the table is an attack: its name, and what it does."""
    for line in table.strip().split("\n"):
        name, action = line.split(maxsplit=1)
        code = SYSCALL if "syscall(" in action else ""
        codes[name] = f"{code}import os\ndef attack():\n    {action}\n    return 'done'"
    return cases(tests=UNDONE, entry_point="attack", **codes)


def machine_code(*code):
    """Runs code in a page of its own; a result below 0 is a refusal."""
    return f"""
import ctypes
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
page = libc.mmap(None, ctypes.c_size_t(4096), 7, 0x22, -1, ctypes.c_size_t(0))
ctypes.memmove(page, bytes({list(code)}), {len(code)})
def attack():
    result = ctypes.CFUNCTYPE(ctypes.c_int)(page)()
    if result < 0: raise OSError(-result, "refused")
    return "done"
"""


FILES = attacks(
    """
write             open('TMP/loot', 'w').write('x')
truncate          os.truncate('TMP/secret.txt', 0)
delete            os.unlink('TMP/secret.txt')
rename            os.rename('TMP/secret.txt', 'TMP/loot')
symbolic_link     os.symlink('/etc/passwd', 'TMP/loot')
chmod             os.chmod('TMP/secret.txt', 0o777)
chown             os.chown('TMP/secret.txt', 1, 1)
attributes        os.setxattr('TMP/secret.txt', 'user.x', b'y')
make_fifo         os.mkfifo('TMP/loot')
change_root       os.chroot('TMP')
shared_memory     os.open('/dev/shm/loot', os.O_CREAT | os.O_RDWR)
through_libc      import ctypes; assert ctypes.CDLL(None).open(b'TMP/loot', 0o102, 0o600) >= 0
at_exit           import atexit; atexit.register(lambda: open('TMP/loot', 'w')); 1 / 0
read              assert 'treasure' in open('TMP/secret.txt').read()
stat              os.stat('TMP/secret.txt')
read_process      open('/proc/self/status').read()
handle_at         syscall(304, 0, 0, 0)
read_own_image    assert os.readlink('/proc/self/exe')
environment       assert 'SANDBOX_TEST_KEY' in os.environ
environment_file  assert b'treasure' in open('/proc/PID/environ', 'rb').read()
""",
    late_thread="""
        import threading, time
        def late(): time.sleep(0.2); open('TMP/loot', 'w')
        def attack():
            threading.Thread(target=late).start()
            return 'done'
        """,
    environment_on_the_stack="""
        import ctypes
        def attack():
            entries = ctypes.POINTER(ctypes.c_char_p).in_dll(ctypes.CDLL(None), "environ")
            seen = b""
            for number in range(100):
                if not entries[number]:
                    break
                seen += entries[number]
            stack = ctypes.cast(entries, ctypes.c_void_p).value
            return "done" if b"treasure" in seen + ctypes.string_at(stack, 2048) else "no"
        """,
)

NETWORK = attacks(
    r"""
tcp               import socket; socket.create_connection(('127.0.0.1', PORT), 1)
udp               import socket; socket.socket(type=2).sendto(b'x', ('127.0.0.1', PORT))
listen            import socket; socket.create_server(('127.0.0.1', 0))
unix              import socket; socket.socket(socket.AF_UNIX).bind('TMP/loot')
abstract          import socket; socket.socket(socket.AF_UNIX).bind('\0loot')
raw               import socket; socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
pair              import socket; socket.socketpair()
resolve           import socket; assert socket.getaddrinfo('localhost', 80)
pass_descriptors  import socket; socket.send_fds(socket.socket(fileno=3), [b'x'], [0])
""",
    inherited="""
        import array, os, socket
        def attack():
            for descriptor in range(3, 64):
                try:
                    socket.socket(fileno=descriptor).sendto(b"x", ("127.0.0.1", PORT))
                    return "done"
                except OSError:
                    pass
        """,
)

PROCESSES = attacks(
    r"""
fork                  if os.fork() == 0: os._exit(0)
spawn                 os.posix_spawn('/bin/true', ['true'], {})
subprocess            import subprocess; subprocess.run(['true'])
replace               os.execv('/bin/true', ['true'])
vfork                 syscall(58)
clone                 syscall(56, 17, 0, 0, 0, 0)
clone3                syscall(435, b'\0' * 64, 64)
new_thread            import threading; threading.Thread(target=print).start()
memory_file           os.memfd_create('loot')
signal_trainer        import signal; os.kill(PID, signal.SIGUSR1)
signal_parent         os.kill(os.getppid(), 0)
signal_own_group      import signal; os.killpg(0, signal.SIGUSR1)
signal_everybody      os.kill(-1, 0)
signal_by_thread      syscall(234, PID, PID, 10)
signal_by_descriptor  os.pidfd_open(PID)
signal_by_input       syscall(72, 3, 8, PID)
signal_on_input       syscall(72, 3, 4, 0x2000)
signal_by_timer       syscall(222, 0, 0, 0)
parent_death_signal   syscall(157, 1, 0)
trace_trainer         syscall(101, 16, PID, 0, 0)
read_trainer          syscall(310, PID, 0, 0, 0, 0, 0)
write_trainer         syscall(311, PID, 0, 0, 0, 0, 0)
compare               syscall(312, PID, PID, 0, 0, 0)
"""
)

POWERS = attacks(
    r"""
own_limit                 import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (9, 9))
limit_of_trainer          import resource; resource.prlimit(PID, resource.RLIMIT_NOFILE)
affinity                  os.sched_setaffinity(0, {0})
scheduler                 os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
become_root               os.setuid(0)
capabilities              syscall(126, b'\x22\x05\x08\x20' + b'\0' * 4, b'\xff' * 24)
user_namespace            syscall(272, 0x10000000)
network_namespace         syscall(272, 0x40000000)
enter_namespace           syscall(308, 3, 0)
mount                     syscall(165, b'none', b'TMP', b'tmpfs', 0, 0)
bpf                       syscall(321, 0, b'\0' * 128, 128)
ring                      syscall(425, 8, b'\0' * 120)
performance_counters      syscall(298, b'\0' * 120, 0, -1, -1, 0)
keys                      syscall(248, b'user', b'x', b'y', 1, -3)
message_queue             syscall(240, b'loot', 0o102, 0o600, 0)
system_v_memory           syscall(29, 0, 4096, 0o1600)
poison_memory             syscall(28, ctypes.c_void_p(id(os) & ~4095), ctypes.c_size_t(4096), 100)
fault_handler             syscall(323, 0)
watch_files               syscall(253)
personality               syscall(135, 0x0040000)
host_name                 syscall(170, b'loot', 4)
more_filters              syscall(317, 1, 0, 0)
type_into_terminal        syscall(16, 0, 0x5412, b'x')
terminal_by_large_number  syscall(16, 0, ctypes.c_ulong(0x100005412), b'x')
x32                       syscall(0x40000000 + 39)
""",
    # mov eax, 20 (getpid); int 0x80; ret
    old_interrupt=machine_code(0xB8, 20, 0, 0, 0, 0xCD, 0x80, 0xC3),
    # the same for open("/"): the kernel must not even look at the path
    old_open=machine_code(0xB8, 5, 0, 0, 0, 0x31, 0xDB, 0xCD, 0x80, 0xC3),
)

MACHINE = FILES + NETWORK + PROCESSES + POWERS


# ---- attacks on time and memory -----------------------------------------------------------------

SLOW = cases(
    """
=== loop_at_top
while True: pass
=== loop_in_call
def f(n):
    while True: pass
=== loop_in_finally
def f(n):
    try: return 5
    finally:
        while True: pass
=== loop_in_text
class Bad(Exception):
    def __str__(self):
        while True: pass
def f(n): raise Bad
=== loop_in_iteration
class Endless(list):
    def __iter__(self):
        while True: pass
def f(n): return iter(Endless()) if n else None
=== loop_in_c
def f(n): return sum(range(10 ** 15))
=== swallows_everything
def f(n):
    while True:
        try:
            while True: pass
        except BaseException: pass
=== ignores_signals
import signal
for number in range(1, 64):
    try: signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError): pass
def f(n):
    while True: pass
=== own_alarm
import signal
signal.signal(signal.SIGALRM, lambda *_: None)
signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)
def f(n):
    while True: pass
=== sleeps
import time
def f(n): time.sleep(60)
=== reads_its_pipe
import os
def f(n):
    while True: os.read(3, 1 << 16)
""",
    FIVE,
    outcomes=("timeout",),
)

EXHAUST = cases(
    """
=== touches_memory
def f(n): return bytearray(1 << 33)
=== grows_memory
def f(n):
    x = []
    while True: x.append(bytearray(1 << 20))
=== maps_memory
import mmap
def f(n): return mmap.mmap(-1, 1 << 36)
=== huge_answer
def f(n): return 'x' * (50 << 20)
=== deep_answer
def f(n):
    x = []
    for _ in range(10 ** 5): x = [x]
    return x
=== shared_answer
def f(n):
    x = []
    for _ in range(60): x = [x, x]
    return x
=== recursion_without_limit
import sys
sys.setrecursionlimit(10 ** 9)
def f(n): return max([n], key=f)
=== segfault
import ctypes
def f(n): ctypes.string_at(8)
=== stops_itself
import os, signal
def f(n): os.kill(os.getpid(), signal.SIGSTOP)
=== swarm_of_threads
import threading, time
def f(n):
    for _ in range(10 ** 4): threading.Thread(target=time.sleep, args=(60,)).start()
    return 5
=== bad_exit_handler
import atexit
def hang():
    while True: pass
atexit.register(hang)
def f(n): raise SystemExit
=== wrecked_interpreter
import builtins, sys
def f(n):
    sys.modules.clear()
    vars(builtins).clear()
    return 5 if len([]) else 0
""",
    FIVE,
    outcomes=("memory", "crash", "error", "timeout"),
)

# A plain answer of which a careless test, run by the judge, makes something endless.
STEER = with_tests(
    """
=== huge_range
def f(n): return range(10 ** 15)
---
assert sum(f(1)) == 5
=== huge_repeat
def f(n): return 10 ** 12
---
assert 'a' * f(1) == 'aaaaa'
=== colliding
def f(n): return [k * (2 ** 61 - 1) for k in range(1, 50_000)]
---
assert set(f(1)) == {5}
=== endless_generator
def f(n):
    while True: yield 5
---
assert list(f(1)) == [5]
=== swallowed_limit
def f(n):
    while True: pass
---
try:
    f(1)
except:
    pass
=== swallowed_crash
import os
def f(n): os._exit(0)
---
try:
    f(1)
except:
    pass
"""
)

# ---- across programs: what the first plants, the second must not see ----------------------------

PLANTS = cases(
    """
=== in_builtins
import builtins
builtins.planted = 1
builtins.len = None
def f(n): return 4
=== in_modules
import math, sys
math.planted = sys.planted = math.sqrt = 1
def f(n): return 4
=== in_random
import random
random.seed(77)
random.random()
def f(n): return 4
=== in_limits
import sys
sys.setrecursionlimit(50_000)
def f(n): return 4
=== in_signals
import signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
def f(n): return 4
=== in_harness
import sys
sys._getframe(1).f_globals["RESERVE"].append("planted")
def f(n): return 4
=== in_descriptors
import os
os.closerange(0, 3)
def f(n): return 4
=== in_crash
import os
def f(n): os._exit(1)
=== in_memory
x = bytearray(90 << 20)
def f(n): return 4
=== in_cpu_time
import time
end = time.time() + 0.5
while time.time() < end: pass
def f(n): return 4
""",
    ("assert f(2) == 4",),
)
CHECK_NOTHING_PLANTED = """
import builtins, math, os, random, signal, sys
def f(n):
    assert not hasattr(builtins, "planted") and not hasattr(math, "planted")
    assert not hasattr(sys, "planted") and len("ab") == 2 and math.sqrt(4) == 2
    assert sys.getrecursionlimit() == 1000
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    assert "planted" not in sys._getframe(1).f_globals["RESERVE"]
    assert "solution" in sys.modules and len(bytearray(90 << 20)) and os.write(1, b"x")
    return [random.random() for _ in range(3)], list({"a", "b", "c", "d"})
"""

# ---- honest, but odd: all must pass -------------------------------------------------------------


HONEST = with_tests(
    r"""
=== prints_oddly
import sys
def f(text):
    print(text, '\ud800', file=sys.stderr)
    print(text, '\ud800')
    sys.stdout.write(text)
    sys.stdout.flush()
    return text
---
assert f('\u20ac \U0001f600 \ud800') == '\u20ac \U0001f600 \ud800'
=== raised_limit
import sys
sys.setrecursionlimit(100_000)
def f(n): return 0 if n == 0 else 1 + f(n - 1)
---
assert f(20_000) == 20_000
=== imports
import abc, ast, base64, bisect, cmath, collections, copy, csv, dataclasses, datetime
import decimal, difflib, enum, fractions, functools, hashlib, heapq, html, io, itertools
import json, math, operator, os, pprint, queue, random, re, statistics, string, struct
import sys, textwrap, time, typing, unicodedata, urllib.parse, uuid, zlib
from collections import Counter, OrderedDict, defaultdict, deque, namedtuple
from typing import Any, Dict, List, Optional, Tuple, Union
def f(text: Optional[str]) -> List[Any]:
    return [hashlib.md5(text.encode()).hexdigest(), hashlib.sha256(b"").hexdigest()[:4],
            statistics.mean([1, 2]),
            str(datetime.datetime.strptime("5 Mar 2024", "%d %b %Y")),
            base64.b64encode(b"x"), re.sub("a", "b", text), math.isqrt(17)]
---
assert f('a') == ['0cc175b9c0f1b6a831c399e269772661', 'e3b0', 1.5,
                  '2024-03-05 00:00:00', b'eA==', 'b', 4]
=== subclasses
from collections import OrderedDict, defaultdict, namedtuple
import enum
Point = namedtuple('Point', 'x y')
class Level(enum.IntEnum): HIGH = 3
def f(kind):
    return {'tuple': Point(1, 2), 'dict': defaultdict(list, a=[1]), 'enum': Level.HIGH,
            'ordered': OrderedDict(b=2, a=1), 'bool': 1 == 1}[kind]
---
assert f('tuple') == (1, 2)
---
assert f('dict') == {'a': [1]}
---
assert f('enum') == 3
---
assert f('ordered') == {'a': 1, 'b': 2}
---
assert list(f('ordered')) == ['b', 'a']
---
assert f('bool') is True
=== infinite_generator
def f():
    n = 0
    while True:
        yield n
        n += 1
---
from itertools import islice
assert list(islice(f(), 3)) == [0, 1, 2]
---
it = f()
assert (next(it), next(it)) == (0, 1)
=== plain_types
from collections import Counter, deque
from decimal import Decimal
from fractions import Fraction
def f(value): return value
---
assert f({1: {2, 3}, (4, 5): frozenset([6])}) == {1: {2, 3}, (4, 5): frozenset([6])}
---
assert f(b'\0\xff') == b'\0\xff' and f(bytearray(b'x')) == bytearray(b'x')
---
from decimal import Decimal
assert f(Decimal('0.10')) == Decimal('0.1')
---
from fractions import Fraction
assert f(Fraction(1, 3)) * 3 == 1
---
from collections import Counter, deque
assert f(Counter('aab')).most_common(1) == [('a', 2)] and f(deque([1, 2])) == deque([1, 2])
---
assert f(range(2, 9, 3)) == range(2, 9, 3) and f(1 + 2j) == 1 + 2j
---
assert f(None) is None and f(True) is True and f('') == '' and f([[], (), {}]) == [[], (), {}]
---
assert type(f(1.0)) is float and type(f(1)) is int and type(f((1,))) is tuple
---
assert f(0.1 + 0.2) == 0.1 + 0.2 and f(-0.0) == 0 and f(5e-324) == 5e-324
=== big_integers
def f(n): return 7 ** n
---
assert f(50_000) == 7 ** 50_000
---
assert -f(200) == -(7 ** 200)
=== state_across_tests
count = 0
def f(seen=[]):
    global count
    count += 1
    seen.append(count)
    return seen
---
assert f() == [1]
---
assert f() == [1, 2]
=== arguments_are_copies
def f(xs):
    xs.sort()
    return xs
---
xs = [2, 1]
assert f(xs) == [1, 2] and xs == [2, 1]
=== main_guard
def f(n): return n
if __name__ == '__main__':
    print(input())
    f(1 / 0)
---
assert f(1) == 1
=== linked_objects
class Node:
    def __init__(self, value, next=None): self.value, self.next = value, next
    def last(self, other=None): return other or self
def f(values):
    node = None
    for value in reversed(values): node = Node(value, node)
    return node
---
node = f([1, 2])
assert node.value == 1 and node.next.value == 2 and node.next.next is None
---
a, b = f([1]), f([2])
assert a.last(b).value == 2 and a != b
=== raises_as_expected
class TooSmall(ValueError): pass
def f(n):
    if n < 0: raise TooSmall(f'{n} is too small')
    return {}[n] if n else b'\xff'.decode()
---
try:
    f(-1)
except ValueError as error:
    assert str(error) == '-1 is too small'
else:
    assert False
---
try:
    f(1)
    assert False
except KeyError:
    pass
---
try:
    f(0)
    assert False
except UnicodeError:
    pass
=== names_of_the_harness load
def send(n): return n + 1
def receive(n): return send(n) * 2
class Remote: pass
class Packer: value = 3
json = os = sys = main = TestRunner = tests = space = None
def load(n): return receive(n) + Packer.value
---
assert load(1) == 7
=== large_arguments
def f(xs): return xs[-1], len(xs)
---
assert f(list(range(200_000))) == (199_999, 200_000)
---
assert f('é' * 3_000_000) == ('é', 3_000_000)
=== setup_on_both_sides
def f(x): return poly([1, 2], x) + LIMIT
---
assert f(3) == poly([1, 2], 3) + 10 == 17
---
assert abs(math.sqrt(f(3) - 1) - 4) < 1e-9
--- setup
import math
LIMIT = 10
def poly(cs, x):
    return sum(c * x ** k for k, c in enumerate(cs))
=== setup_calls_the_entry
def f(n): return n + 1
---
assert twice(3) == 5
--- setup
def twice(n): return f(f(n))
=== entry_in_setup
def f(n): return n + 1
---
assert f(1) == 2
--- setup
def f(n):
    raise NotImplementedError
=== reads_no_input
import sys
def f():
    try:
        return input()
    except EOFError:
        return sys.stdin.read()
---
assert f() == ''
""",
    ("ok",),
)
