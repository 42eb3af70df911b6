"""Keep the terminal of both programs quiet, and end them with one line."""

import logging
import os
import sys
import traceback
import warnings

from training.flags import Parser

FOUND = ValueError | RuntimeError | FloatingPointError | ModuleNotFoundError
# This project's modules. A user's own may lie beside them.
OURS = "__main__ train eval magrpo tasks rewards policies training evaluation programs"


def quiet() -> None:
    """Keep the libraries' remarks off the terminal."""
    warnings.filterwarnings("ignore", module="lightning|transformers|torch.jit|bitsandbytes|peft")
    import lightning.pytorch  # noqa: F401  (it sets its own level when it is loaded)
    import transformers

    for name in ("lightning.pytorch", "lightning.fabric"):
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


def is_mistake(error: Exception) -> bool:
    """Return whether an error is a user's mistake that our code found, rather than a fault.

    An error inside a user's file is neither: its traceback shows the line.
    """
    modules = [frame.f_globals["__name__"] for frame, _ in traceback.walk_tb(error.__traceback__)]
    if any(name.endswith(".py") for name in modules):  # a plug-in is named by its path
        return False
    is_ours = modules[-1].partition(".")[0] in OURS.split()
    return isinstance(error, OSError) or (is_ours and isinstance(error, FOUND))


def fail(top: Parser, error: Exception) -> None:
    """End a program with a user's mistake in one line, or with the traceback of any other error."""
    if not is_mistake(error):
        traceback.print_exception(error)
        sys.exit(1)
    top.error(" ".join([str(error), *getattr(error, "__notes__", [])]))
