"""A model from a .gguf file: what was packed, trained, resumed, evaluated and read back."""

from pathlib import Path
from types import SimpleNamespace

import gguf
import psutil
import pytest
import torch
from helpers import (
    as_the_card_says,
    assert_close,
    move_adapters,
    of_a_cpu,
    read_json,
    refused,
    run_eval,
    small_model,
    train_run,
)
from tokenizers.pre_tokenizers import ByteLevel
from transformers import AutoModelForCausalLM, AutoTokenizer

from policies import loading
from policies.model_names import fingerprint

TOKENS = [*sorted(ByteLevel.alphabet()), "Ġa", "<|im_start|>", "<|im_end|>"]
END = len(TOKENS) - 1
CHAT = (
    "{% for m in messages %}<|im_start|>{{ m['content'] }}<|im_end|>{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>{% endif %}"
)


@pytest.fixture(scope="module")
def packed(tmp_path_factory):
    """(path of a .gguf, the model that is in it)."""
    model = small_model(
        vocab_size=len(TOKENS), max_position_embeddings=2048, tie_word_embeddings=True
    )
    config = model.config
    path = tmp_path_factory.mktemp("gguf") / "little.gguf"
    file = gguf.GGUFWriter(path, "qwen2")
    file.add_block_count(config.num_hidden_layers)
    file.add_context_length(config.max_position_embeddings)
    file.add_embedding_length(config.hidden_size)
    file.add_feed_forward_length(config.intermediate_size)
    file.add_head_count(config.num_attention_heads)
    file.add_head_count_kv(config.num_key_value_heads)
    file.add_layer_norm_rms_eps(config.rms_norm_eps)
    file.add_rope_freq_base(config.rope_parameters["rope_theta"])
    file.add_tokenizer_model("gpt2")
    file.add_token_list(TOKENS)
    file.add_token_types([1] * (END - 1) + [3, 3])
    file.add_token_merges(["Ġ a"])
    file.add_eos_token_id(END)
    file.add_bos_token_id(END - 1)
    file.add_chat_template(CHAT)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.QWEN2, config.num_hidden_layers)
    for name, weight in model.state_dict().items():
        if name == "lm_head.weight":
            continue
        file.add_tensor(names.get_name(name, [".weight", ".bias"]), weight.numpy())
    file.write_header_to_file()
    file.write_kv_data_to_file()
    file.write_tensors_to_file()
    file.close()
    return path, model


SMALL = "--max-prompt-tokens 900 --batch-size 1 --num-generations 2 --max-new-tokens 4 "
SMALL += "--max-steps 1 --eval-limit 1 --lora-rank 2"


def test_it_is_the_model_that_was_packed(packed):
    path, model = packed
    loaded, tokenizer = loading.load_model(str(path), 32, False)
    ids = torch.randint(0, END - 1, (2, 9))
    assert_close(loaded(ids).logits, model(ids).logits)
    assert tokenizer.eos_token_id == END
    chat = [{"role": "user", "content": "a"}]
    text = tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
    assert text.startswith("<|im_start|>a<|im_end|><|im_start|>")


@pytest.mark.parametrize("rank", ["2", "0"])
def test_its_agents_load_elsewhere_and_name_their_base(packed, rank, tmp_path, monkeypatch, capsys):
    path, _ = packed
    monkeypatch.chdir(tmp_path)
    train_run("one", SMALL, f"--model {path} --lora-rank {rank} --chat-template --bits 32")
    agent = Path("runs/one/agents/0")
    recorded = read_json(Path("runs/one/args.json"))
    assert recorded["bases"] == {str(path): fingerprint(str(path))}
    if rank == "0":
        saved = AutoModelForCausalLM.from_pretrained(agent)
    else:
        named = read_json(agent / "adapter_config.json")["base_model_name_or_path"]
        assert Path(named) == path.parent
        saved, _ = as_the_card_says(agent)
        move_adapters(saved, 1.0)
        saved.save_pretrained(agent, save_embedding_layers=False)
    merged, tokenizer = loading.load_model(str(agent), 32, False)
    ids = torch.tensor([[5, 6, 7]])
    assert_close(merged(ids).logits, saved(ids).logits)
    assert tokenizer.chat_template == CHAT
    assert AutoTokenizer.from_pretrained(agent).eos_token_id == END
    run_eval("--run one --method trained --limit 1")
    assert "trained" in capsys.readouterr().out


@of_a_cpu
def test_what_cannot_be_read_is_told(packed, tmp_path, monkeypatch, capsys):
    path, _ = packed
    monkeypatch.chdir(tmp_path)
    Path("cut.gguf").write_bytes(path.read_bytes()[:5000])
    Path("other.gguf").write_bytes(path.read_bytes().replace(b"qwen2", b"qwexx"))
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=10_000))
    for argv, error in (
        (f"{path} --bits 8", "--bits 8"),
        ("cut.gguf", "cannot load the model"),
        ("other.gguf", "an architecture that transformers reads"),
        (path, "0.0 GB are free: give fewer --bits"),
    ):
        assert error in refused(capsys, SMALL, "--run x --model", argv)
