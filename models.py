"""Loading models: what is taken, in how many bits, and what is refused."""

import hashlib
from pathlib import Path

import torch
import torch.nn.functional as F
from huggingface_hub import model_info, try_to_load_from_cache
from transformers import AutoModelForCausalLM, AutoTokenizer, BitsAndBytesConfig

MODEL_FILES = ("config.json", "tokenizer*.json", "model*.safetensors")  # what a fingerprint is of


@torch.no_grad()
def check_head(model) -> None:
    """Raises ValueError where a model's logits are more than its output layer, or where its
    attention cannot be replaced: TokenLogps and RowCache would then compute another model."""
    if model.config._attn_implementation != "shared_prompts":
        raise ValueError(f"{type(model).__name__} does not let its attention be replaced")
    head = model.get_output_embeddings()
    ids = torch.zeros(1, 2, dtype=torch.long, device=model.device)
    logits, hidden = model(input_ids=ids).logits, model.base_model(input_ids=ids).last_hidden_state
    if not torch.allclose(F.linear(hidden, head.weight, head.bias), logits, 1e-2, 1e-2):
        raise ValueError(f"{type(model).__name__} does more than one linear layer for its logits")


def eos_tokens(model, tokenizer) -> frozenset[int]:
    """Every token that ends a response: the checkpoint's (one or several) and the tokenizer's."""
    ids = model.generation_config.eos_token_id
    ids = set(ids if isinstance(ids, list) else [ids]) | {tokenizer.eos_token_id}
    ids.discard(None)
    if not ids:
        raise ValueError("the model has no end-of-sequence token: set eos_token in its tokenizer")
    return frozenset(ids)


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
    gpu = torch.cuda.is_available()
    half = bits == 16 or (bits < 16 and gpu)  # what 8 or 4 bits leave is slow in half on a CPU
    options = {"dtype": torch.bfloat16 if half else torch.float32}
    if bits < 16:
        options["quantization_config"] = BitsAndBytesConfig(
            load_in_8bit=bits == 8,
            load_in_4bit=bits == 4,
            bnb_4bit_quant_type="nf4",
            bnb_4bit_compute_dtype=options["dtype"],
        )
        options["device_map"] = "auto" if gpu else "cpu"
    if (Path(name) / "adapter_config.json").is_file():
        raise ValueError(f"{name} is an adapter: --model takes its base, --resume a whole run")
    try:
        tokenizer = AutoTokenizer.from_pretrained(name, trust_remote_code=trust_remote_code)
        model = AutoModelForCausalLM.from_pretrained(
            name, trust_remote_code=trust_remote_code, use_safetensors=True, **options
        )
    except Exception as error:  # many kinds, some of them long
        if "trust_remote_code" in str(error):
            told = "it brings code of its own: read it, and if you trust it, --trust-remote-code"
        else:
            told = f"it needs config.json, safetensors and a tokenizer ({error!s:.300})"
        raise ValueError(f"cannot load the model {name!r}: {told}") from error
    return model, tokenizer
