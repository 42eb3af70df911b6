"""The same results in fewer kernels. Delete this folder, and everything runs the plain way.

`accelerate` is the only door. It gives a model of a known kind another way to sample and to compute
log-probabilities (model.py). policies/ does not know this folder.

`layers.py` is the forward pass, written out. `adapters.py` has the adapters of several agents in
one product. In `attention.py` and `decoding.py` a prompt's keys are held and read once for all of
its rows. With `graphs.py` a GPU repeats a decoding step without waiting for the host.
"""

import sys
from collections.abc import Iterable

from policies.fast.layers import is_known
from policies.fast.model import Fast
from policies.loading import fault_of
from policies.shared_model import SharedModel


def accelerate(bases: Iterable[SharedModel]) -> None:
    """Let the models of known kinds run the fast way. Print which of them cannot."""
    for base in bases:
        if not is_known(base.net.config) or not base.takes_masks:
            continue
        base.fast = Fast(base)
        fault = fault_of(base, base.tolerance)
        if fault:
            base.fast = None
            name = type(base.net).__name__
            print(f"warning: {name} runs the plain way, slower ({fault})", file=sys.stderr)
