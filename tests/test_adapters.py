"""An adapter's folder as --model: python -m pytest tests/test_adapters.py"""

import shutil
import warnings
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from helpers import (
    ROOT,
    SMALL,
    as_the_card_says,
    assert_close,
    copied_model,
    edit_json,
    flags,
    move_adapters,
    of_a_cpu,
    read_json,
    refused,
    resume,
    run_eval,
    train_run,
    words,
)
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, AutoTokenizer, BitsAndBytesConfig

import train
from policies.loading import load_agent, load_base, load_model, save_agent
from policies.model_names import EMBEDDED, TeamOptions, bases, fingerprint
from training.flags import part_of
from training.report import model_card
from training.run_folder import read_records, write_json
from training.terminal import quiet

TINY = str(EMBEDDED)
SMALL_ADAPTERS = TeamOptions([], lora_rank=4, lora_alpha=8)
TASK = """
from tasks import Coop
class Mine(Coop):
    model = {model!r}
"""


@pytest.fixture(scope="module")
def adapter(tmp_path_factory) -> Path:
    """Far from its start, where it would do nothing."""
    path = tmp_path_factory.mktemp("adapter") / "mine"
    base = load_base(TINY, [0], SMALL_ADAPTERS)
    torch.manual_seed(1)
    move_adapters(base, 0.02)
    save_agent(base, 0, path)
    return path


@pytest.fixture
def copied(adapter, tmp_path) -> Path:
    return Path(shutil.copytree(adapter, tmp_path / "copy"))


def logits(model) -> torch.Tensor:
    with torch.no_grad():
        return model(input_ids=torch.arange(40)[None]).logits


def test_it_is_the_base_with_the_adapter_merged(adapter, tmp_path):
    plain = AutoModelForCausalLM.from_pretrained(TINY, dtype=torch.float32)
    alone = logits(plain)
    expected = logits(PeftModel.from_pretrained(plain, adapter).eval())
    assert (expected - alone).abs().max() > 0.1
    assert_close(logits(load_model(str(adapter), 32, False)[0]), expected)
    base = load_base(str(adapter), [0], SMALL_ADAPTERS)  # a second one goes on top of it
    move_adapters(base, 0.02)
    second = str(tmp_path / "second")
    save_agent(base, 0, Path(second))
    assert bases(second) == [second, str(adapter), TINY]
    merged = load_model(str(adapter), 32, False)[0]
    assert_close(
        logits(load_model(second, 32, False)[0]),
        logits(PeftModel.from_pretrained(merged, second).eval()),
    )


def test_a_run_on_it_goes_on_starts_another_and_is_evaluated(copied, tmp_path, capsys):
    (tmp_path / "mine.py").write_text(TASK.format(model=str(copied)))
    task = f"--task {tmp_path}/mine.py:Mine"
    path = train_run(tmp_path / "run", SMALL, task)
    record = read_json(path / "args.json")
    assert record["bases"] == {str(copied): fingerprint(str(copied))}
    assert record["args"]["lr"] == [3e-3] * 2  # the embedded model's, which it is
    saved = read_json(path / "agents/0/adapter_config.json")
    assert saved["base_model_name_or_path"] == str(copied.resolve())
    resume(path, "--max-steps 2")
    assert len(read_records(path / "metrics.jsonl")) == 2
    capsys.readouterr()
    train.main(words(SMALL, "--dry-run", task, "--init", path))
    assert f"agent 0: 155,648 trainable parameters, from {path}/agents/0" in capsys.readouterr().out
    run_eval("--run", path, "--limit 1 --method trained --num-samples 1")
    weights = copied / "adapter_model.safetensors"
    save_file({name: value * 2 for name, value in load_file(weights).items()}, weights)
    assert "is not what" in refused(capsys, "--resume", path, "--max-steps 4")


@of_a_cpu
@pytest.mark.parametrize("kind", ["", "--num-agents 3", "--model {}", "--bits 4", "--lora-rank 0"])
def test_an_agent_loads_as_its_card_says(kind, adapter, tmp_path):
    """Onto the plain model, tiny/many, an adapter on it, its 4 bits, and as a whole model."""
    path = train_run(tmp_path / "run", SMALL, kind.format(adapter))
    folder = path / "agents/1"
    [file] = folder.glob("*.safetensors")
    weights = {name: weight + 0.02 for name, weight in load_file(file).items()}
    save_file(weights, file, {"format": "pt"})
    args = train.Args(**train.recorded_flags(path))
    base = load_base(args.model[1], [1], part_of(args, TeamOptions))
    load_agent(base, 1, folder)
    model, tokenizer = as_the_card_says(folder)
    model.train()  # on a CPU, layers of 4 bits round more otherwise
    with base.acting([1]):
        assert_close(logits(model), logits(base.net))
    assert tokenizer("def f(x):")["input_ids"] == base.tokenizer("def f(x):")["input_ids"]
    assert str(ROOT) not in (folder / "README.md").read_text("utf-8")


def test_a_card_names_the_model_of_the_hub_under_an_adapter(copied, tmp_path):
    edit_json(copied / "adapter_config.json", base_model_name_or_path="who/what")
    args = flags("--model", copied, "--bits 32")
    write_json(tmp_path / "args.json", {"args": vars(args), "command": "python train.py"})
    base = SimpleNamespace(net=SimpleNamespace(dtype=torch.float32))
    rollout = SimpleNamespace(task=SimpleNamespace(reward="code"))
    module = SimpleNamespace(team=SimpleNamespace(base_of=[base]), rollout=rollout)
    card = model_card(tmp_path, 0, module, {"after": None})
    assert "base_model: who/what\n" in card
    assert 'from_pretrained("who/what", dtype="float32")' in card


def test_a_fingerprint_is_of_the_content(adapter, copied):
    known = fingerprint(str(adapter))
    assert known != fingerprint(TINY)
    near = copied_model(copied.parent / "base")
    config = copied / "adapter_config.json"
    edit_json(config, base_model_name_or_path="../base")  # from the adapter's own folder
    assert fingerprint(str(copied)) == known
    edit_json(config, lora_alpha=16)
    assert fingerprint(str(copied)) != known
    edit_json(config, lora_alpha=8)
    edit_json(near / "config.json", rms_norm_eps=1e-5)
    assert fingerprint(str(copied)) != known


def test_it_has_16_or_32_bits(copied, capsys):
    assert "--bits 4 is not for" in refused(capsys, SMALL, "--bits 4 --model", copied)


@of_a_cpu
def test_a_stored_quantised_model_has_its_own_bits(copied, tmp_path, capsys, monkeypatch):
    """In others, what is merged or trained would be rounded again."""
    monkeypatch.chdir(tmp_path)
    packed = BitsAndBytesConfig(load_in_4bit=True)
    AutoModelForCausalLM.from_pretrained(TINY, quantization_config=packed).save_pretrained("q4")
    AutoTokenizer.from_pretrained(TINY).save_pretrained("q4")
    edit_json(copied / "adapter_config.json", base_model_name_or_path="q4")
    for argv in (f"{copied} --bits 32", "q4 --lora-rank 0", "q4 --bits 8"):
        assert "is stored quantised, not in" in refused(capsys, SMALL, "--model", argv)
    assert load_base("q4", [0], replace(SMALL_ADAPTERS, bits=4)).net.is_loaded_in_4bit


@pytest.mark.parametrize("end", ["lm_head", "embed_tokens"])
def test_an_adapter_of_a_tied_end_is_refused(end, tmp_path):
    plain = AutoModelForCausalLM.from_pretrained(TINY)
    get_peft_model(plain, LoraConfig(target_modules=[end])).save_pretrained(tmp_path)
    with pytest.raises(ValueError, match="it changes one of two tied embeddings"):
        load_model(str(tmp_path), 32, False)


def test_the_remarks_of_merging_are_shown(tmp_path, capsys):
    plain = AutoModelForCausalLM.from_pretrained(TINY)
    config = LoraConfig(target_modules=["q_proj"], modules_to_save=["lm_head"])
    get_peft_model(plain, config).save_pretrained(tmp_path)
    with warnings.catch_warnings():
        quiet(uses_lightning=False)
        load_model(str(tmp_path), 32, False)
    assert f"warning: {tmp_path}: Input and output embeddings are no" in capsys.readouterr().err


def test_a_task_may_name_its_model(adapter, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(TASK.format(model=str(adapter)), encoding="utf-8")
    args = flags("--task mine.py:Mine")
    assert args.model == [str(adapter)] * 2
    assert args.lr == [3e-3] * 2
    assert flags("--task mine.py:Mine --model tiny").model == [TINY] * 2
    Path("mine.py").write_text(TASK.format(model="far/away"), encoding="utf-8")
    assert "model 'far/away' is no folder" in refused(capsys, SMALL, "--task mine.py:Mine")
