"""Is there such a model? Told without the libraries that load it, which take seconds to import."""

import importlib.util
from pathlib import Path

from huggingface_hub import model_info, try_to_load_from_cache


def find_model(name: str, bits: int) -> None:
    """Raises ValueError where there is no such folder, .gguf file or hub name."""
    if name.endswith(".gguf"):
        return find_gguf(name, bits)
    if (Path(name) / "adapter_config.json").is_file():
        raise ValueError(f"{name} is an adapter: --model takes its base, --resume a whole run")
    if Path(name).is_dir():
        return None
    try:
        if not try_to_load_from_cache(name, "config.json"):
            model_info(name, timeout=5)
    except Exception as error:  # many kinds: no such name, no network, no access
        raise ValueError(
            f"model {name!r} is no folder, not in the local cache, and the hub does not give "
            f"it ({type(error).__name__})"
        ) from error


def find_gguf(name: str, bits: int) -> None:
    if not Path(name).is_file():
        raise ValueError(f"model {name!r} is no file: a .gguf has to be on this machine")
    if not importlib.util.find_spec("gguf"):
        raise ValueError(f"model {name!r} needs the package gguf: pip install gguf")
    if bits < 16:
        raise ValueError(f"--bits {bits} is not for a .gguf, which is unpacked: give 16 or 32")
