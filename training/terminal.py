"""Keep the terminal of both programs quiet, and end them with one line."""

import logging
import os
import signal
import sys
import traceback
import warnings

from policies import Mistake
from training.flags import Parser
from training.plugins import PLUGINS


def reset_process(top: Parser) -> None:
    """Undo what a parent may have left: an ignored signal, a narrow stream. Refuse Windows."""
    if sys.platform == "win32":  # it lacks Unix's signals and locks
        top.error("this needs Linux, macOS or, on Windows, WSL")
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # it ends without a traceback
    sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]


def quiet() -> None:
    """Keep the libraries' remarks off the terminal."""
    warnings.filterwarnings("ignore", module="lightning|transformers|torch.jit|bitsandbytes|peft")
    import lightning.pytorch  # noqa: F401  (it sets its own level when it is loaded)
    import transformers

    for name in ("lightning.pytorch", "lightning.fabric", "bitsandbytes"):
        logging.getLogger(name).setLevel(logging.ERROR)
    # This logger says which process died before it ends the others.
    logging.getLogger("lightning.fabric.strategies.launchers.subprocess_script").setLevel("INFO")
    transformers.utils.logging.set_verbosity_error()


def is_first(processes: int) -> bool:
    """Return whether this process is the one that prints and writes.

    Lightning, torchrun and SLURM number the others in their environment, before the processes meet.
    """
    names = ("RANK", "LOCAL_RANK", "NODE_RANK", "SLURM_PROCID")
    return processes == 1 or not any(int(os.environ.get(name) or 0) for name in names)


def printable(text: str) -> str:
    """Return a model's text without what would control the terminal."""
    return "".join(c for c in text.expandtabs(4) if c.isprintable() or c == "\n")


def drop_output() -> None:
    """Drop what goes to standard output, and what it still buffers."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def is_one_line(error: Exception) -> bool:
    """Return whether an error's text says all: a Mistake, or what the system refuses or lacks.

    An error of the system that passes through a user's plug-in may be a fault of it.
    """
    modules = {frame.f_globals["__name__"] for frame, _ in traceback.walk_tb(error.__traceback__)}
    of_the_system = isinstance(error, OSError | ModuleNotFoundError)
    return isinstance(error, Mistake) or (of_the_system and not modules & PLUGINS)


def fail(top: Parser, error: Exception) -> None:
    """End a program with one line and status 2, or with the traceback of a fault and status 1."""
    if not is_one_line(error):
        traceback.print_exception(error)
        sys.exit(1)
    if isinstance(error, ModuleNotFoundError):
        error.add_note("in this Python: pip install it, or source .venv/bin/activate")
    top.error(" ".join([str(error), *getattr(error, "__notes__", [])]))
