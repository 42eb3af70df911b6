"""Finding models: whether one exists, and which one it is, without the slow imports of loading."""

import hashlib
import json
import os
from dataclasses import dataclass, field
from pathlib import Path

from policies import Mistake

EMBEDDED = Path(__file__).resolve().parent.parent / "tiny"  # the models of this project
DEVICE = "MAGRPO_DEVICE"  # environment variable with the device that --device chooses
ADAPTER = "adapter_config.json"  # as peft writes it
WEIGHTS = "adapter_model.safetensors"
MODEL_FILES = ("config.json", "tokenizer*.json", "*model*.safetensors")  # of a fingerprint


@dataclass(frozen=True)
class TeamOptions:
    """The agents and their models: train.py's flags of the same names."""

    model: list[str]  # one per agent
    share: bool = False
    lora_rank: int = 16
    lora_alpha: int = 32
    bits: int = 32
    template_arg: dict = field(default_factory=dict)


def is_adapter(name: str | Path) -> bool:
    return (Path(name) / ADAPTER).is_file()


def adapter_config(folder: str | Path) -> dict:
    """Return an adapter's config, which names its base. Raise ValueError for another file."""
    path = Path(folder) / ADAPTER
    try:
        config = json.loads(path.read_text("utf-8-sig"))
    except ValueError:
        config = None
    match config:
        case {"base_model_name_or_path": str()}:
            return config
    raise Mistake(f"{path} is not JSON that names the base of an adapter")


def recorded_name(name: str) -> str:
    """Return the name that a run or an agent records for a model.

    An embedded model is "tiny", "tiny/half", ... This name holds in every clone of the project.
    The path of another folder is whole.
    """
    path = Path(name).resolve()
    if not path.is_dir():
        return name
    if path.is_relative_to(EMBEDDED):
        return path.relative_to(EMBEDDED.parent).as_posix()
    return str(path)


def located(name: str) -> str:
    """Return this clone's path of an embedded model, and any other model's name as it is."""
    folder = EMBEDDED.parent / name
    embedded = Path(name).parts[:1] == (EMBEDDED.name,) and folder.is_dir()
    if embedded:
        return str(folder)
    return name


def find_model(name: str) -> None:
    """Raise ValueError where a model is neither the folder of a whole model nor a hub's name."""
    if is_adapter(name) or name.endswith(".gguf"):
        raise Mistake(
            f"model {name!r} is not a whole model: make one of it, python examples/whole.py "
            f"{name} FOLDER, and name that folder"
        )
    if Path(name).is_dir():
        return
    from huggingface_hub import model_info, try_to_load_from_cache  # a quarter of a second

    try:
        if not try_to_load_from_cache(name, "config.json"):
            model_info(name, timeout=5)
    except Exception as error:  # many kinds: no such name, no network, no access
        raise Mistake(
            f"model {name!r} is no folder, not in the local cache, and the hub does not give it "
            f"({type(error).__name__}): name another, --model, such as the small .venv/smollm2, "
            "which `make smollm2` makes"
        ) from error


def fingerprint(name: str) -> str | None:
    """Return a hash of a model's or an adapter's files, without its name or an adapter's config.

    None: the files are the hub's, and not on this machine yet. The hash is of each file's size and
    of 64 blocks of 64 KiB, evenly spread, so it takes a moment for any size. Training moves every
    weight, and so cannot hide between the blocks.
    """
    folder = Path(name)
    if not folder.is_dir():
        from huggingface_hub import try_to_load_from_cache

        try:
            config_path = try_to_load_from_cache(name, "config.json")
        except ValueError:  # the name of a folder that has gone
            return None
        if not isinstance(config_path, str):
            return None
        folder = Path(config_path).parent
    files = set()
    for pattern in MODEL_FILES:
        files.update(folder.glob(pattern))
    digest = hashlib.sha256()
    for path in sorted(files):
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            digest.update(f"{path.name} {size}\n".encode())
            for start in range(0, size, max(size // 64, 1 << 16)):
                file.seek(start)
                digest.update(file.read(1 << 16))
    return digest.hexdigest()
