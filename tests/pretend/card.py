"""A pretend CUDA card: the code for GPUs runs on a machine that has none.

    python tests/pretend/card.py train.py --max-steps 2 ...    # any script with its flags
    python tests/pretend/card.py -m pytest tests/test_policies.py

Plain tensors of device cuda:0 whose memory and kernels are the CPU's (card.cpp; a C++ compiler
makes it once, in half a minute). So every branch for a card is taken, tensors of two devices do not
mix, autograd and autocast are torch's own, bytes, waits of the host for the card and uploads are
counted, and memory runs out. It shows no speed, no limit that only a card's kernel has,
neither its rounding nor its order of sums.

CARD_GIB in the environment is the memory that the card has. There is one card.
"""

import contextlib
import ctypes
import hashlib
import importlib.util
import os
import runpy
import shutil
import subprocess
import sys
import types
from pathlib import Path

HERE = Path(__file__).resolve().parent
COUNTERS = ("held", "peak", "waits", "uploads")
card = None


def compiler():
    return shutil.which("g++") or shutil.which("clang++")


def build():
    """The compiled card; made anew when its source or torch is another."""
    source, torch = HERE / "card.cpp", Path(importlib.util.find_spec("torch").origin).parent
    told = source.read_bytes() + (torch / "version.py").read_bytes()
    made = HERE / f"card-{hashlib.sha256(told).hexdigest()[:12]}.so"
    if not made.exists():
        draft = made.with_suffix(f".{os.getpid()}")
        flags = ["-std=c++20", "-O1", "-fPIC", "-shared", "-w", "-lc10", "-ltorch", "-ltorch_cpu"]
        include = [f"-I{torch}/include", f"-I{torch}/include/torch/csrc/api/include"]
        command = [compiler(), str(source), "-o", str(draft), *include, f"-L{torch}/lib", *flags]
        subprocess.run(command, check=True)
        draft.replace(made)
    return made


def insert():
    """Puts the card into this machine: before torch is imported, which looks for one once."""
    global card
    if "torch" in sys.modules:
        raise RuntimeError("insert() comes before `import torch`")
    torch_lib = Path(importlib.util.find_spec("torch").origin).parent / "lib"
    made = build()
    ctypes.CDLL(str(torch_lib / "libtorch_global_deps.so"), mode=ctypes.RTLD_GLOBAL)
    for name in ("libc10.so", "libtorch_cpu.so", "libtorch.so"):
        ctypes.CDLL(str(torch_lib / name), mode=ctypes.RTLD_GLOBAL)
    card = ctypes.CDLL(str(made))
    card.card_count.restype = ctypes.c_int64
    card.card_start(1)
    import bitsandbytes  # noqa: F401  (while there is no card: it takes its kernels for any device)
    import torch

    size = int(float(os.environ.get("CARD_GIB", 80)) * 2**30)
    card.card_limit(ctypes.c_int64(size))  # beyond, it says "out of memory"
    about = types.SimpleNamespace(
        name="pretend card", major=9, minor=0, total_memory=size, uuid="0"
    )
    answers = {
        "is_available": True,
        "is_initialized": True,
        "is_bf16_supported": True,
        "device_count": 1,
        "get_device_name": about.name,
        "get_device_capability": (9, 0),
        "get_device_properties": about,
        "memory_stats": {},
        "get_rng_state_all": [],
    }
    nothing = ("init", "_lazy_init", "_lazy_call", "synchronize", "empty_cache")
    nothing += ("manual_seed", "manual_seed_all", "set_rng_state_all")
    answers |= dict.fromkeys(nothing)
    for name, answer in answers.items():
        _replace(torch.cuda, name, lambda *a, answer=answer, **k: answer)
    _replace(torch.cuda, "current_device", lambda: card.card_current())
    _replace(torch.cuda, "set_device", lambda d: card.card_set(getattr(d, "index", d) or 0))
    for name in ("_exchange_device", "_maybe_exchange_device"):
        _replace(torch.cuda, name, lambda index: card.card_exchange(index))
    _replace(torch.cuda, "memory_allocated", lambda *a: count("held"))
    _replace(torch.cuda, "mem_get_info", lambda *a: (size - count("held"), size))
    _replace(torch.cuda, "max_memory_allocated", lambda *a: count("peak"))
    _replace(torch.cuda, "reset_peak_memory_stats", lambda *a: card.card_reset_peak())
    _graphs()


def _graphs():
    """A graph keeps its operators and their tensors, and a replay writes to the same tensors.

    What waits for the card cannot be recorded. Other than on a card, recording runs it.
    """
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_leaves

    class Graph(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), names=None):
            result = function(*args, **(names or {}))
            self.calls.append((function, args, names or {}, result))
            return result

        def replay(self):
            for function, args, names, result in self.calls:
                again = function(*args, **names)
                for old, new in zip(tree_leaves(result), tree_leaves(again), strict=True):
                    old.copy_(new)

    @contextlib.contextmanager
    def record(graph, **names):
        graph.calls = []
        waits = count("waits")
        with graph:
            yield
        assert count("waits") == waits, "a graph cannot wait for the card"

    torch.cuda.CUDAGraph, torch.cuda.graph = Graph, record


def _replace(module, name, answer):
    for part in (module, module.memory, module.random):
        if hasattr(part, name):
            setattr(part, name, answer)


def count(what):
    """Bytes held and their peak; waits and uploads so far."""
    return card.card_count(COUNTERS.index(what))


if __name__ == "__main__":
    sys.modules["card"] = sys.modules["__main__"]
    insert()
    sys.path[0] = os.getcwd()
    sys.argv = sys.argv[1:]
    if sys.argv[0] == "-m":
        sys.argv = sys.argv[1:]
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    else:
        runpy.run_path(sys.argv[0], run_name="__main__")
