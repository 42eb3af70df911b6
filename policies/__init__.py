"""How models are loaded, sampled and scored. The door: shared_model.py, and what it names."""

import logging
import os

# Threads of GNU's OpenMP spin 300,000 times before they sleep. Beside other jobs that takes the
# cores from the thread they wait for. OpenMP reads this when torch is imported, and every program
# imports this package first. Other kinds of OpenMP ignore it.
if "OMP_WAIT_POLICY" not in os.environ:
    os.environ.setdefault("GOMP_SPINCOUNT", "1000")

# peft imports it, and it then says on standard error which kernels for a CPU it lacks.
logging.getLogger("bitsandbytes").setLevel(logging.ERROR)


class Mistake(ValueError):
    """A user's mistake, or trouble outside this code. One line says all of it, without a traceback.

    Raise it, and no other class, where a check of this project finds one. Any other error is a
    fault of the code, and ends a program with Python's traceback.
    """
