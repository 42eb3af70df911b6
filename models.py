"""Loading models: what is taken, in how many bits, and what is refused."""

import hashlib
import math
import os
from pathlib import Path

import torch
from huggingface_hub import model_info, try_to_load_from_cache
from torch import nn
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, BitsAndBytesConfig

MODEL_FILES = ("config.json", "tokenizer*.json", "model*.safetensors")  # what a fingerprint is of


def context(config) -> float:
    """Tokens that a prompt and its response may have together: the model's positions, and its
    attention window, over which the caches here do not slide."""
    limits = [getattr(config, "max_position_embeddings", None)]
    kinds = getattr(config, "layer_types", None)
    if kinds is None or "sliding_attention" in kinds:
        limits.append(getattr(config, "sliding_window", None))
    if kinds and "chunked_attention" in kinds:
        limits.append(config.attention_chunk_size)
    return min((limit for limit in limits if limit), default=math.inf)


def adapted(model) -> list[str] | str:
    """Which linear layers carry adapters, as peft takes it: all of them; in a mixture of experts,
    whose experts are no linear layers but stacked weights, those of the attention."""
    if all(parameter.dim() < 3 for parameter in model.parameters()):
        return "all-linear"
    names = {
        name
        for module in model.modules()
        for name, layer in module.named_children()
        if "Attention" in type(module).__name__ and isinstance(layer, nn.Linear)
    }
    return sorted(names)


def beyond_linear(config) -> tuple[float, float | None]:
    """What some models do to the output of their last layer: (factor, soft cap)."""
    config = config.get_text_config()
    scale = getattr(config, "logit_scale", None) or 1.0  # Cohere's name, and Granite's
    scale /= getattr(config, "logits_scaling", None) or 1.0
    return scale, getattr(config, "final_logit_softcapping", None)


def quantized(model) -> bool:
    return any(not parameter.is_floating_point() for parameter in model.parameters())


def eos_tokens(model, tokenizer) -> frozenset[int]:
    """Every token that ends a response: the checkpoint's (one or several) and the tokenizer's."""
    ids = model.generation_config.eos_token_id
    ids = set(ids if isinstance(ids, list) else [ids]) | {tokenizer.eos_token_id}
    ids.discard(None)
    if not ids:
        raise ValueError("the model has no end-of-sequence token: set eos_token in its tokenizer")
    return frozenset(ids)


def device() -> torch.device:
    """Where this process trains and evaluates: its own CUDA card, or the CPU. Apple's MPS has no
    float64, by which tokens are drawn."""
    if not torch.cuda.is_available():
        return torch.device("cpu")
    place = next(filter(None, map(os.environ.get, ("LOCAL_RANK", "SLURM_LOCALID"))), "0")
    return torch.device("cuda", int(place))


def fingerprint(name: str) -> str:
    """Tells a model's files (config, tokenizer, weights) from another's; the name is not in it.

    Of each file its size and 64 blocks of 64 KiB, evenly spread, are hashed, so it takes a moment
    for any size. Training moves every weight, and so cannot hide between the blocks.
    """
    config = Path(name) / "config.json"
    found = config if config.is_file() else try_to_load_from_cache(name, "config.json")
    folder, digest = Path(found).parent, hashlib.sha256()
    for path in sorted({file for kind in MODEL_FILES for file in folder.glob(kind)}):
        size = path.stat().st_size
        digest.update(f"{path.name} {size}\n".encode())
        with path.open("rb") as file:
            for start in range(0, size, max(size // 64, 1 << 16)):
                file.seek(start)
                digest.update(file.read(1 << 16))
    return digest.hexdigest()


def load_model(name: str, bits: int, trust_remote_code: bool):
    """(model, tokenizer) of a local folder or a hub name, the weights in 32, 16, 8 or 4 bits.

    Raises ValueError where there is no such model, at once: transformers would retry for a minute.
    """
    if not Path(name).is_dir():
        try:
            if not try_to_load_from_cache(name, "config.json"):
                model_info(name, timeout=5)
        except Exception as error:  # many kinds: no such name, no network, no access
            raise ValueError(
                f"model {name!r} is no folder, not in the local cache, and the hub does not give "
                f"it ({type(error).__name__})"
            ) from error
    here = device()
    half = bits == 16 or (bits < 16 and here.type == "cuda")  # what 8 or 4 bits leave is slow in
    # half on a CPU
    options = {"dtype": torch.bfloat16 if half else torch.float32}
    if bits < 16:
        options["quantization_config"] = BitsAndBytesConfig(
            load_in_8bit=bits == 8,
            load_in_4bit=bits == 4,
            bnb_4bit_quant_type="nf4",
            bnb_4bit_compute_dtype=options["dtype"],
        )
        options["device_map"] = {"": here}  # whole on this process's card, not spread over all
    if (Path(name) / "adapter_config.json").is_file():
        raise ValueError(f"{name} is an adapter: --model takes its base, --resume a whole run")
    needs = "it needs config.json and safetensors"
    try:
        AutoConfig.from_pretrained(name, trust_remote_code=trust_remote_code)
        needs = "it has no tokenizer files, or none that transformers reads"
        tokenizer = AutoTokenizer.from_pretrained(name, trust_remote_code=trust_remote_code)
        needs = "it needs config.json and safetensors"
        model = AutoModelForCausalLM.from_pretrained(
            name, trust_remote_code=trust_remote_code, use_safetensors=True, **options
        )
    except Exception as error:  # many kinds, some of them long
        if "trust_remote_code" in str(error):
            told = "it brings code of its own: read it, and if you trust it, --trust-remote-code"
        else:
            told = f"{needs} ({error!s:.300})"
        raise ValueError(f"cannot load the model {name!r}: {told}") from error
    return model, tokenizer
