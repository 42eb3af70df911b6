"""examples/whole.py: the model that it makes of an adapter or of a .gguf file, trained."""

import gguf
import pytest
import torch
from helpers import ROOT, assert_close, move_adapters, small_model, train_run
from peft import PeftModel
from tokenizers.pre_tokenizers import ByteLevel
from transformers import AutoModelForCausalLM

from examples.whole import make_whole
from policies.loading import load_base, load_model, save_agent
from policies.model_names import TeamOptions

TOKENS = [*sorted(ByteLevel.alphabet()), "Ġa", "<|im_start|>", "<|im_end|>"]
END = len(TOKENS) - 1
CHAT = "{% for m in messages %}<|im_start|>{{ m['content'] }}<|im_end|>{% endfor %}<|im_start|>"
SMALL = "--chat-template --max-prompt-tokens 900 --batch-size 1 --num-generations 2 "
SMALL += "--max-new-tokens 4 --max-steps 1 --eval-limit none --lora-rank 2"


def adapter(folder):
    """Save an adapter. Return its path, and the model with it."""
    base = load_base(str(ROOT / "tiny"), [0], TeamOptions([]))
    torch.manual_seed(1)
    move_adapters(base, 0.02)
    save_agent(base, 0, folder / "adapter")
    plain = AutoModelForCausalLM.from_pretrained(ROOT / "tiny", dtype=torch.float32)
    return folder / "adapter", PeftModel.from_pretrained(plain, folder / "adapter").eval()


def packed(folder):
    """Write a .gguf. Return its path, and the model that is in it."""
    model = small_model(
        vocab_size=len(TOKENS), max_position_embeddings=2048, tie_word_embeddings=True
    )
    config = model.config
    path = folder / "little.gguf"
    file = gguf.GGUFWriter(path, "qwen2")
    for name, value in {
        "block_count": config.num_hidden_layers,
        "context_length": config.max_position_embeddings,
        "embedding_length": config.hidden_size,
        "feed_forward_length": config.intermediate_size,
        "head_count": config.num_attention_heads,
        "head_count_kv": config.num_key_value_heads,
        "layer_norm_rms_eps": config.rms_norm_eps,
        "rope_freq_base": config.rope_parameters["rope_theta"],
        "tokenizer_model": "gpt2",
        "token_list": TOKENS,
        "token_types": [1] * (END - 1) + [3, 3],
        "token_merges": ["Ġ a"],
        "eos_token_id": END,
        "bos_token_id": END - 1,
        "chat_template": CHAT,
    }.items():
        getattr(file, f"add_{name}")(value)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.QWEN2, config.num_hidden_layers)
    for name, weight in model.state_dict().items():
        if name != "lm_head.weight":
            file.add_tensor(names.get_name(name, [".weight", ".bias"]), weight.numpy())
    file.write_header_to_file()
    file.write_kv_data_to_file()
    file.write_tensors_to_file()
    file.close()
    return path, model


@pytest.mark.parametrize("make", [adapter, packed])
def test_the_whole_model_computes_what_its_parts_do(make, tmp_path):
    source, model = make(tmp_path)
    folder = tmp_path / "whole"
    make_whole(source, folder)
    loaded, tokenizer = load_model(str(folder), 32)
    ids = torch.randint(0, END - 1, (2, 9))
    with torch.no_grad():
        assert_close(loaded(ids).logits, model(ids).logits)
    if make is packed:
        assert tokenizer.eos_token_id == loaded.generation_config.eos_token_id == END
        assert tokenizer.chat_template == CHAT
        train_run(tmp_path / "run", SMALL, "--model", folder)
