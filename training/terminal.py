"""What both programs say on the terminal, and how they leave it."""

import logging
import os
import signal
import sys
import warnings

from training.flags import Parser
from training.plugins import user_line


def quiet() -> None:
    """Keeps libraries' remarks off the terminal: what a user must know comes from us."""
    warnings.filterwarnings("ignore", module="lightning|transformers|torch.jit|bitsandbytes|peft")
    import lightning.pytorch  # noqa: F401  (it sets its own level when it is imported)
    import transformers

    for name in ("lightning.pytorch", "lightning.fabric", "bitsandbytes"):
        logging.getLogger(name).setLevel(logging.ERROR)
    # Says which process died before it ends the others.
    logging.getLogger("lightning.fabric.strategies.launchers.subprocess_script").setLevel("INFO")
    transformers.utils.logging.disable_progress_bar()
    transformers.utils.logging.set_verbosity_error()


def quit_on_signals(prog: str) -> None:
    """SIGINT and SIGTERM end the process with one line while there is nothing to save: until
    training begins, which has handlers of its own (Recorder.catch_signals)."""

    def leave(number, frame):
        os.write(2, f"{prog}: stopped by {signal.Signals(number).name}\n".encode())
        os._exit(130)  # an exception could be swallowed anywhere in the imports

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, leave)


def is_first(processes: int) -> bool:
    """Return whether this process is the one that prints and writes.

    This is known before the processes have met, by what Lightning, torchrun and SLURM put into the
    environment of the others.
    """
    names = ("RANK", "LOCAL_RANK", "NODE_RANK", "GROUP_RANK", "SLURM_PROCID")
    return processes == 1 or not any(int(os.environ.get(name) or 0) for name in names)


def fail(top: Parser, error: Exception) -> None:
    """Ends a program with an error in one line; with the place in a file of the user's, if it comes
    from one."""
    if isinstance(error, BrokenPipeError):  # as `| head`: what is still buffered has no reader
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    where, notes = user_line(error), " ".join(getattr(error, "__notes__", []))
    message = f"{where}{error}"
    if not isinstance(error, (ValueError, OSError, RuntimeError, FloatingPointError)):
        hint = "" if where else " (--debug shows where)"
        message = f"{where}{type(error).__name__}: {error}{hint}"
    try:
        top.error(f"{message} {notes}")
    finally:
        if error.args[1:2] == (False,):  # a reward hangs, and would keep this process alive
            os._exit(2)
