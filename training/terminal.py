"""Keep the terminal of both programs quiet, and end them with one line."""

import contextlib
import logging
import os
import signal
import sys
import warnings
from concurrent.futures import wait

from training import reward_runner
from training.flags import Parser
from training.plugins import user_line

ALL = 0.95  # fraction of the groups, or of the maximum return, that counts as all of it
NOTHING = (
    "a reward with steps between nothing and all; easier problems; more --num-generations; "
    "a larger --max-new-tokens, if responses are cut off"
)
SOLVED = "harder problems, or stop here: all joint responses earn the maximum, or nearly"


def remedy(earned: float) -> str:
    """Return what to try where all rewards of a group are equal. earned: share of the maximum."""
    return SOLVED if earned >= ALL else NOTHING


def quiet(uses_lightning: bool = True) -> None:
    """Keep the libraries' remarks off the terminal. Lightning is loaded only if it is used."""
    warnings.filterwarnings("ignore", module="lightning|transformers|torch.jit|bitsandbytes|peft")
    if uses_lightning:  # it takes seconds to load, and sets its own level then
        import lightning.pytorch  # noqa: F401
    import transformers

    for name in ("lightning.pytorch", "lightning.fabric"):
        logging.getLogger(name).setLevel(logging.ERROR)
    # This logger says which process died before it ends the others.
    logging.getLogger("lightning.fabric.strategies.launchers.subprocess_script").setLevel("INFO")
    transformers.utils.logging.disable_progress_bar()
    transformers.utils.logging.set_verbosity_error()


def quit_on_signals(prog: str) -> None:
    """Let SIGINT and SIGTERM end the process with one line while there is nothing to save.

    Training sets its own handlers (recorder.Signals).
    """

    def stop(number, frame):
        os.write(2, f"{prog}: stopped by {signal.Signals(number).name}\n".encode())
        os._exit(130)  # an exception could be swallowed anywhere in the imports

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)


def is_first(processes: int) -> bool:
    """Return whether this process is the one that prints and writes.

    Lightning, torchrun and SLURM number the others in their environment, before the processes meet.
    """
    names = ("RANK", "LOCAL_RANK", "NODE_RANK", "GROUP_RANK", "SLURM_PROCID")
    return processes == 1 or not any(int(os.environ.get(name) or 0) for name in names)


def printable(text: str) -> str:
    """Return a model's text without what would control the terminal."""
    return "".join(c for c in text.expandtabs(4) if c.isprintable() or c == "\n")


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: 1 problem, 2 problems."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def drop_output() -> None:
    """Drop what standard output still buffers, where its reader has gone, as `| head` does."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def leave(status: int) -> None:
    """End the process, even while a user's function hangs. Python would wait for its thread."""
    if wait(reward_runner.RUNNING, timeout=1).not_done:
        with contextlib.suppress(OSError):  # its reader may have gone
            sys.stdout.flush()
        os._exit(status)
    sys.exit(status)


def fail(top: Parser, error: Exception) -> None:
    """End a program with an error in one line, which names the place in a user's file if any."""
    if isinstance(error, BrokenPipeError):
        drop_output()
    place = user_line(error)
    message = f"{place}{error}"
    told = isinstance(error, (ValueError, OSError, RuntimeError, FloatingPointError))
    if not told or not str(error):
        hint = "" if place else " (--debug shows where)"
        message = f"{place}{type(error).__name__}: {error}{hint}"
    if isinstance(error, ModuleNotFoundError):  # of a package that few runs need
        message = f"{place}{error}: pip install {error.name}"
    notes = " ".join(getattr(error, "__notes__", []))
    with contextlib.suppress(SystemExit):
        top.error(f"{message} {notes}")
    leave(2)
