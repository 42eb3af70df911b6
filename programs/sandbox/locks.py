"""Lock the sandbox's processes: Linux refuses them system calls for good, and without root.

1. The worker calls `lock_down` before it forks.
2. The runner adds JUDGE_FILTER.
3. Every candidate calls `lock_candidate`.

Each process is locked before it reads a byte from outside.
"""

import contextlib
import ctypes
import os
import resource
import signal
import struct
import sys

LINUX = sys.platform == "linux"
X86_64 = LINUX and os.uname().machine == "x86_64" and sys.maxsize > 1 << 32
LIBC = ctypes.CDLL(None)
PR_SET_PDEATHSIG, PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS = 1, 22, 38
# The allowed system calls. All others answer EPERM. A locked process does not need open, stat,
# socket and exec. With fcntl and ioctl it could make the kernel send any signal to any process, or
# type into a terminal.
TABLE = """
read 0, write 1, close 3, poll 7, mmap 9, mprotect 10, munmap 11, brk 12, rt_sigaction 13,
rt_sigprocmask 14, rt_sigreturn 15, select 23, sched_yield 24, mremap 25, madvise 28, pause 34,
nanosleep 35, getitimer 36, alarm 37, setitimer 38, getpid 39, exit 60, wait4 61, getcwd 79,
gettimeofday 96, getrlimit 97, getrusage 98, times 100, getuid 102, getgid 104, geteuid 107,
getegid 108, getppid 110, sigaltstack 131, gettid 186, time 201, futex 202, sched_getaffinity 204,
restart_syscall 219, clock_gettime 228, clock_getres 229, clock_nanosleep 230, exit_group 231,
pselect6 270, ppoll 271, set_robust_list 273, getrandom 318, membarrier 324, getcpu 309, rseq 334"""
CALLS = {name: int(number) for name, number in map(str.split, TABLE.split(","))}
ZYGOTE_ONLY = {"clone": 56, "fork": 57, "kill": 62, "prctl": 157, "prlimit64": 302}
NOT_CANDIDATE = {"pread64": 17, "sendmsg": 46, "recvmsg": 47, "pipe2": 293}
CLONE3, ENOSYS, EPERM = 435, 38, 1  # ENOSYS sends the C library back to clone
ALLOW, REFUSE, KILL = 0x7FFF0000, 0x00050000, 0x80000000
LOAD, EQUAL, AT_LEAST, RETURN = 0x20, 0x15, 0x35, 0x06  # BPF instructions
NUMBER, ARCHITECTURE = 0, 4  # offsets in the struct that a filter reads


def seccomp_filter(answers: dict[int, int], default: int) -> ctypes.Array:
    """Return the filter that gives each system call its answer, and all others the default."""
    code = [
        (LOAD, 0, 0, ARCHITECTURE),
        (EQUAL, 1, 0, 0xC000003E),
        (RETURN, 0, 0, KILL),  # int 0x80
        (LOAD, 0, 0, NUMBER),
        (AT_LEAST, 0, 1, 0x40000000),
        (RETURN, 0, 0, KILL),  # x32
    ]
    for call, answer in answers.items():
        code.append((EQUAL, 0, 1, call))
        code.append((RETURN, 0, 0, answer))
    code.append((RETURN, 0, 0, default))
    body = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *line) for line in code))
    header = struct.pack("HxxxxxxP", len(code), ctypes.addressof(body))
    program = ctypes.create_string_buffer(header)
    program.body = body  # keeps it alive, because the kernel follows its address
    return program


FIRST_FILTER = seccomp_filter(
    {CLONE3: REFUSE | ENOSYS}
    | dict.fromkeys((CALLS | ZYGOTE_ONLY | NOT_CANDIDATE).values(), ALLOW),
    REFUSE | EPERM,
)
# Later filters refuse more. They are small, because every candidate takes time to install one.
JUDGE_FILTER = seccomp_filter(dict.fromkeys(ZYGOTE_ONLY.values(), REFUSE | EPERM), ALLOW)
CANDIDATE_FILTER = seccomp_filter(
    dict.fromkeys((ZYGOTE_ONLY | NOT_CANDIDATE).values(), REFUSE | EPERM), ALLOW
)


def prctl(option: int, first: int, second: int = 0) -> bool:
    return LIBC.prctl(option, *map(ctypes.c_void_p, (first, second, 0, 0))) == 0


def add_filter(program: ctypes.Array) -> bool:
    return prctl(PR_SET_SECCOMP, 2, ctypes.addressof(program))


def landlock() -> bool:
    """Deny files, TCP, abstract sockets and signals to the outside, as far as the kernel can."""
    version = LIBC.syscall(444, None, ctypes.c_size_t(0), 1)
    file_rights = (1 << {1: 13, 2: 14, 3: 15, 4: 15}.get(version, 16)) - 1
    tcp_rights = 3 if version >= 4 else 0  # an older kernel accepts a 0 here
    scopes = 3 if version >= 6 else 0
    denied = struct.pack("QQQ", file_rights, tcp_rights, scopes)
    ruleset = LIBC.syscall(444, denied, ctypes.c_size_t(len(denied)), 0)
    if ruleset < 0:
        return False
    locked = LIBC.syscall(446, ruleset, 0) == 0
    os.close(ruleset)
    return locked


def limit(name: int, value: int) -> bool:
    """Set a resource limit (RLIMIT_...), and return whether that worked."""
    _, hard = resource.getrlimit(name)
    if hard != resource.RLIM_INFINITY:
        value = min(value, hard)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(name, (value, value))
        return True
    return False


def lock_down(memory_mb: int, kernel_locks: bool) -> list[str]:
    """Lock this process and all it will fork. Return the names of the locks that are missing."""
    limit(resource.RLIMIT_FSIZE, 0)
    limit(resource.RLIMIT_CORE, 0)
    limit(resource.RLIMIT_NOFILE, 64)
    limit(resource.RLIMIT_STACK, 64 << 20)
    if not (LINUX and kernel_locks):
        return ["seccomp", "Landlock", "a memory limit"]
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "wb") as score:
        score.write(b"1000")  # Linux kills this process first when memory runs out
    with open("/proc/self/statm", "rb") as sizes:
        size = int(sizes.read().split()[0]) * resource.getpagesize()
    no_capabilities = bytes(24)
    locks = {  # set in this order
        "a memory limit": limit(resource.RLIMIT_AS, size + (memory_mb << 20)),
        "no_new_privs": prctl(PR_SET_NO_NEW_PRIVS, 1),
        "dropped capabilities": LIBC.capset(struct.pack("Ii", 0x20080522, 0), no_capabilities) == 0,
        "Landlock": landlock(),
        "seccomp": X86_64 and add_filter(FIRST_FILTER),
    }
    return [name for name, locked in locks.items() if not locked]


def lock_candidate(missing: list[str], cpu_seconds: int) -> bool:
    limit(resource.RLIMIT_CPU, cpu_seconds)
    if "seccomp" in missing:
        sys.addaudithook(audit)
        return die_with_parent()
    return die_with_parent() and add_filter(CANDIDATE_FILTER)


def die_with_parent() -> bool:
    return not LINUX or prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


HARMLESS = """
exec compile import sys. gc. code. object. function. builtins. array. marshal. pickle.find_class
time.sleep cpython."""


def audit(event: str, _arguments) -> None:
    """Refuse an event. This lock of a candidate without seccomp stops accidents, not intent."""
    if not event.startswith(tuple(HARMLESS.split())):
        raise PermissionError(f"{event} is not allowed here")
