"""Agents on disk: saved, read back, started from, and what is refused as --model.

python -m pytest tests/test_adapters.py
"""

from pathlib import Path

import pytest
import torch
from helpers import (
    SMALL,
    assert_close,
    copied_model,
    edit_json,
    flags,
    of_a_cpu,
    refused,
    train_run,
)
from peft import PeftModel
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, AutoTokenizer, BitsAndBytesConfig

import train
from policies.loading import load_agent, load_base
from policies.model_names import EMBEDDED, TeamOptions, fingerprint
from training.flags import part_of

TINY = str(EMBEDDED)


def logits(model):
    with torch.no_grad():
        return model(input_ids=torch.arange(40)[None]).logits


@of_a_cpu
@pytest.mark.parametrize("kind", ["--num-agents 3", "--bits 4", "--lora-rank 0"])
def test_an_agent_loads_with_peft_and_starts_a_run(kind, tmp_path):
    """Onto tiny/many, tiny in 4 bits, and as a whole model of transformers."""
    path = train_run(tmp_path / "run", SMALL, kind)
    folder = path / "agents/1"
    [file] = folder.glob("*.safetensors")
    weights = {name: weight + 0.02 for name, weight in load_file(file).items()}
    save_file(weights, file, {"format": "pt"})
    args = train.Args(**train.recorded_flags(path))
    base = load_base(args.model[1], [1], part_of(args, TeamOptions))
    load_agent(base, 1, folder)
    if args.lora_rank:
        packed = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4")
        options = {"quantization_config": packed} if args.bits == 4 else {}
        plain = AutoModelForCausalLM.from_pretrained(args.model[1], dtype="float32", **options)
        model = PeftModel.from_pretrained(plain, folder)
        assert model.peft_config["default"].base_model_name_or_path.startswith("tiny")
    else:
        model = AutoModelForCausalLM.from_pretrained(folder)
    model.train()  # on a CPU, layers of 4 bits round more otherwise
    with base.acting([1]):
        assert_close(logits(model), logits(base.net))
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert tokenizer("def f(x):")["input_ids"] == base.codec.tokenizer("def f(x):")["input_ids"]
    train_run(tmp_path / "next", SMALL, kind, "--dry-run --init", path)


def test_a_fingerprint_is_of_the_content(tmp_path):
    copy = copied_model(tmp_path / "base")
    assert fingerprint(str(copy)) == fingerprint(TINY)
    edit_json(copy / "config.json", rms_norm_eps=1e-5)
    assert fingerprint(str(copy)) != fingerprint(TINY)


@of_a_cpu
def test_a_stored_quantised_model_has_its_own_bits(tmp_path, capsys):
    """In others, what is trained would be rounded again."""
    packed = BitsAndBytesConfig(load_in_4bit=True)
    AutoModelForCausalLM.from_pretrained(TINY, quantization_config=packed).save_pretrained("q4")
    AutoTokenizer.from_pretrained(TINY).save_pretrained("q4")
    for argv in ("--lora-rank 0", "--bits 8"):
        assert "is stored quantised, not in" in refused(capsys, SMALL, "--model q4", argv)
    assert load_base("q4", [0], TeamOptions([], bits=4)).net.is_loaded_in_4bit


def test_a_task_may_name_its_model(capsys):
    source = "from tasks import Coop\nclass Mine(Coop):\n    model = '{}'\n"
    Path("mine.py").write_text(source.format("tiny/half"), "utf-8")
    args = flags("--task mine.py:Mine")
    assert args.model == [f"{TINY}/half"] * 2
    assert args.lr == [3e-3] * 2
    assert flags("--task mine.py:Mine --model tiny").model == [TINY] * 2
