"""Make a whole model of an adapter's folder or of a .gguf file, for --model.

    python examples/whole.py SOURCE FOLDER

An adapter is merged into its base. The embedded base's learning rate stays behind: train.py then
needs --lr 0.003. A .gguf needs pip install gguf.
"""

from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

from policies import Mistake
from policies.model_names import adapter_config, located
from training.flags import Parser
from training.terminal import fail, quiet

TOP = Parser("whole.py", __doc__)
TOP.add_argument("source", type=Path)
TOP.add_argument("folder", type=Path)


def merged(folder: Path):
    """Return an adapter's base with the adapter in its weights, and the tokenizer."""
    from peft import PeftModel  # after `quiet`: it loads bitsandbytes, which warns

    base = located(adapter_config(folder)["base_model_name_or_path"])
    model = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
    has_tokenizer = (folder / "tokenizer_config.json").is_file()
    tokenizer = AutoTokenizer.from_pretrained(folder if has_tokenizer else base)
    if len(tokenizer) > model.get_input_embeddings().num_embeddings:  # it was trained with new ones
        model.resize_token_embeddings(len(tokenizer))
    return PeftModel.from_pretrained(model, folder).merge_and_unload(safe_merge=True), tokenizer


def unpacked(file: Path):
    """Return the model and the tokenizer of a .gguf file."""
    loaded = AutoModelForCausalLM.from_pretrained(
        file.parent, gguf_file=file.name, quantization_config=GgufConfig(dequantize=True)
    )
    vars(loaded.config).pop("quantization_config", None)  # it is unpacked by now
    model = AutoModelForCausalLM.from_config(loaded.config)  # transformers does not save `loaded`
    model.load_state_dict(loaded.state_dict())
    model.generation_config = loaded.generation_config
    return model, AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)


def make_whole(source: Path, folder: Path) -> None:
    if source.is_file() and source.suffix == ".gguf":
        model, tokenizer = unpacked(source)
    elif (source / "adapter_config.json").is_file():
        model, tokenizer = merged(source)
    else:
        raise Mistake(f"{source} is neither a .gguf file nor the folder of an adapter")
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


if __name__ == "__main__":
    try:
        flags = TOP.parse_args()
        quiet()
        make_whole(flags.source, flags.folder)
    except Exception as error:
        fail(TOP, error)
