"""Whether a model is there, and which one it is, without the slow import of what loads it."""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

EMBEDDED = Path(__file__).resolve().parent.parent / "tiny"  # the models of this project
ADAPTER, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"  # as peft writes them
MODEL_FILES = ("config.json", "tokenizer*.json", "model*.safetensors")  # what a fingerprint is of,
ADAPTER_FILES = ("tokenizer*.json", WEIGHTS)  # with an adapter's config, but for its base's name


@dataclass(frozen=True)
class TeamOptions:
    """Who the agents are: train.py's flags of the same names."""

    model: list[str]  # one per agent
    share: bool = False
    lora_rank: int = 16
    lora_alpha: int = 32
    bits: int = 32
    trust_remote_code: bool = False
    template_arg: dict | None = None


def is_adapter(name: str | Path) -> bool:
    return (Path(name) / ADAPTER).is_file()


def adapter_config(folder: str | Path) -> dict:
    """Return an adapter's configuration. Raises ValueError where it is not what peft writes."""
    path = Path(folder) / ADAPTER
    try:
        config = json.loads(path.read_text())
        config.get("r")
    except (ValueError, AttributeError) as error:
        raise ValueError(f"{path} is not what peft writes: {error}") from error
    return config


def recorded_name(name: str) -> str:
    """Return the name that a run or an agent records for a model. An embedded model is "tiny",
    "tiny/half", ...: the name holds in every clone of the project."""
    path = Path(name).resolve()
    if path.is_dir() and path.is_relative_to(EMBEDDED):
        return path.relative_to(EMBEDDED.parent).as_posix()
    return name


def located(name: str) -> str:
    """Return this clone's path of an embedded model, by its recorded name or by the path that it
    had in a clone that is gone. Return the name of any other model as it is."""
    path = Path(name)
    is_path = path.is_absolute() and EMBEDDED.name in path.parts
    if not is_path and path.parts[:1] != (EMBEDDED.name,):
        return name
    start = len(path.parts) - path.parts[::-1].index(EMBEDDED.name)
    here = EMBEDDED.joinpath(*path.parts[start:])
    if not here.is_dir():
        return name
    if name != EMBEDDED.name and path.exists() and path.resolve() != here:
        return name  # a model of the user's, in a folder of the same name
    return str(here)


def base_of(folder: str | Path) -> str:
    """Return the model that an adapter was trained on, "" where it names none.

    A relative path is looked for in the adapter's own folder first, so that the two may be moved
    together. For a .gguf base, peft records the folder. The model is the file in it.
    An embedded model is found by its name.
    """
    name = str(adapter_config(folder).get("base_model_name_or_path") or "")
    near = Path(folder) / name
    name = str(near.resolve()) if name and near.is_dir() else located(name)
    packed = sorted(map(str, Path(name).glob("*.gguf"))) if name else []
    if not packed or (Path(name) / "config.json").is_file() or is_adapter(name):
        return name
    if len(packed) > 1:
        raise ValueError(f"the base of adapter {folder} is one of {', '.join(packed)}: leave it")
    return packed[0]


def bases(name: str) -> list[str]:
    """Return what a model is made of: an adapter, the base that it is merged into, which may be an
    adapter too, and so on. A whole model is [name]. Raises ValueError where that has no end."""
    names = [name]
    while is_adapter(names[-1]):
        base = base_of(names[-1])
        if not base or Path(base).resolve() in [Path(seen).resolve() for seen in names]:
            raise ValueError(f"{names[-1]} is an adapter, and its {ADAPTER} names no base of it")
        names.append(base)
    return names


def find_model(name: str, bits: int) -> None:
    """Raises ValueError where there is no such folder, .gguf file or hub name."""
    *adapters, base = bases(name)
    packed = base.endswith(".gguf")
    if bits < 16 and (adapters or packed):
        kind = "an adapter to merge" if adapters else "a .gguf to unpack"
        raise ValueError(f"--bits {bits} is not for {name}, {kind}: give 16 or 32")
    for folder in adapters:
        if not (Path(folder) / WEIGHTS).is_file():
            raise ValueError(f"{folder} is an adapter without its {WEIGHTS}")
    if packed and not Path(base).is_file():
        raise ValueError(f"model {base!r} is no file: a .gguf has to be on this machine")
    if packed or Path(base).is_dir():
        return
    from huggingface_hub import model_info, try_to_load_from_cache  # a quarter of a second

    try:
        if not try_to_load_from_cache(base, "config.json"):
            model_info(base, timeout=5)
    except Exception as error:  # many kinds: no such name, no network, no access
        which = f", the base of adapter {adapters[-1]}," if adapters else ""
        raise ValueError(
            f"model {base!r}{which} is no folder, not in the local cache, and the hub does not "
            f"give it ({type(error).__name__})"
        ) from error


def fingerprint(name: str) -> str | None:
    """Return a hash of a model's files (config, tokenizer, weights), without its name. None: the
    files are the hub's, and not on this machine yet.

    The size of each file and 64 blocks of 64 KiB, evenly spread, are hashed, so it takes a moment
    for any size. Training moves every weight, and so cannot hide between the blocks.
    """
    digest = hashlib.sha256()
    *adapters, base = bases(name)
    files = [Path(base)]
    if not base.endswith(".gguf"):
        folder = Path(base)
        if not (folder / "config.json").is_file():
            from huggingface_hub import try_to_load_from_cache

            config_path = try_to_load_from_cache(base, "config.json")
            if not isinstance(config_path, str):
                return None
            folder = Path(config_path).parent
        files = sorted({file for kind in MODEL_FILES for file in folder.glob(kind)})
    for folder in adapters:
        config = adapter_config(folder) | {"base_model_name_or_path": None}
        digest.update(json.dumps(config, sort_keys=True).encode())
        files += sorted(file for kind in ADAPTER_FILES for file in Path(folder).glob(kind))
    for path in files:
        size = path.stat().st_size
        digest.update(f"{path.name} {size}\n".encode())
        with path.open("rb") as file:
            for start in range(0, size, max(size // 64, 1 << 16)):
                file.seek(start)
                digest.update(file.read(1 << 16))
    return digest.hexdigest()
