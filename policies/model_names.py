"""Finding models: whether one exists, and which one it is, without the slow imports of loading."""

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path

EMBEDDED = Path(__file__).resolve().parent.parent / "tiny"  # the models of this project
DEVICE = "MAGRPO_DEVICE"  # environment variable with the device that --device chooses
DEVICES = ("cuda", "mps", "cpu")
TARGETS = ("all", "attention")  # of adapters
ADAPTER = "adapter_config.json"  # as peft writes it
WEIGHTS = "adapter_model.safetensors"
# Files that a fingerprint covers, with an adapter's config without its base's name.
MODEL_FILES = ("config.json", "tokenizer*.json", "model*.safetensors")
ADAPTER_FILES = ("tokenizer*.json", WEIGHTS)


@dataclass(frozen=True)
class TeamOptions:
    """The agents and their models: train.py's flags of the same names."""

    model: list[str]  # one per agent
    share: bool = False
    lora_rank: int = 16
    lora_alpha: int = 32
    lora_targets: str = "all"  # or attention: which linear layers carry adapters
    bits: int = 32
    trust_remote_code: bool = False
    template_arg: dict[str, str] = field(default_factory=dict)


def is_adapter(name: str | Path) -> bool:
    return (Path(name) / ADAPTER).is_file()


def adapter_config(folder: str | Path) -> dict:
    """Return an adapter's configuration. Raise ValueError where it is not as peft writes it."""
    path = Path(folder) / ADAPTER
    try:
        config = json.loads(path.read_text("utf-8"))
        config.get("r")
    except (ValueError, AttributeError) as error:
        raise ValueError(f"{path} is not what peft writes: {error}") from error
    return config


def recorded_name(name: str) -> str:
    """Return the name that a run or an agent records for a model.

    An embedded model is "tiny", "tiny/half", ... This name holds in every clone of the project.
    """
    path = Path(name).resolve()
    if path.is_dir() and path.is_relative_to(EMBEDDED):
        return path.relative_to(EMBEDDED.parent).as_posix()
    return name


def located(name: str) -> str:
    """Return this clone's path of an embedded model, and any other model's name as it is.

    An embedded model is found by its recorded name, or by its path in a clone that is gone.
    """
    path = Path(name)
    is_path = path.is_absolute() and EMBEDDED.name in path.parts
    if not is_path and path.parts[:1] != (EMBEDDED.name,):
        return name
    start = len(path.parts) - path.parts[::-1].index(EMBEDDED.name)
    folder = EMBEDDED.joinpath(*path.parts[start:])
    if not folder.is_dir():
        return name
    if name != EMBEDDED.name and path.exists() and path.resolve() != folder:
        return name  # a model of the user's, in a folder of the same name
    return str(folder)


def base_of(folder: str | Path) -> str:
    """Return the model that an adapter was trained on, "" where it names none.

    A relative path is looked for in the adapter's own folder first, so that the two may be moved
    together. For a .gguf base, peft records the folder. The model is the file in it.
    An embedded model is found by its name.
    """
    name = str(adapter_config(folder).get("base_model_name_or_path") or "")
    if not name:
        return ""
    near = Path(folder) / name
    name = str(near.resolve()) if near.is_dir() else located(name)
    packed = sorted(map(str, Path(name).glob("*.gguf")))
    if not packed or (Path(name) / "config.json").is_file() or is_adapter(name):
        return name
    if len(packed) > 1:
        raise ValueError(f"the base of adapter {folder} is one of {', '.join(packed)}: leave it")
    return packed[0]


def bases(name: str) -> list[str]:
    """Return the parts of a model: an adapter, the base that it is merged into, and so on.

    A base may be an adapter, too. A whole model is [name]. Raise ValueError for a chain without
    end.
    """
    names = [name]
    while is_adapter(names[-1]):
        base = base_of(names[-1])
        if not base or Path(base).resolve() in [Path(seen).resolve() for seen in names]:
            raise ValueError(f"{names[-1]} is an adapter, and its {ADAPTER} names no base of it")
        names.append(base)
    return names


def find_model(name: str, bits: int) -> None:
    """Raise ValueError where a model is neither a folder, a .gguf file nor a hub name."""
    *adapters, base = bases(name)
    packed = base.endswith(".gguf")
    if bits < 16 and (adapters or packed):
        format_name = "an adapter to merge" if adapters else "a .gguf to unpack"
        raise ValueError(f"--bits {bits} is not for {name}, {format_name}: give 16 or 32")
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
    """Return a hash of a model's files (config, tokenizer, weights), without its name.

    None: the files are the hub's, and not on this machine yet. The hash is of each file's size and
    of 64 blocks of 64 KiB, evenly spread, so it takes a moment for any size. Training moves every
    weight, and so cannot hide between the blocks.
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
        files = matching(folder, MODEL_FILES)
    for folder in adapters:
        config = adapter_config(folder) | {"base_model_name_or_path": None}
        digest.update(json.dumps(config, sort_keys=True).encode())
        files += matching(Path(folder), ADAPTER_FILES)
    for path in files:
        size = path.stat().st_size
        digest.update(f"{path.name} {size}\n".encode())
        with path.open("rb") as file:
            for start in range(0, size, max(size // 64, 1 << 16)):
                file.seek(start)
                digest.update(file.read(1 << 16))
    return digest.hexdigest()


def matching(folder: Path, patterns: tuple[str, ...]) -> list[Path]:
    """Return the files of a folder that match any of the patterns, sorted."""
    files = set()
    for pattern in patterns:
        files.update(folder.glob(pattern))
    return sorted(files)
