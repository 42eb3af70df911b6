"""What has to work on a card, run on the pretend one. It takes minutes, and a C++ compiler.

python tests/pretend/card.py -m pytest tests/pretend/cases.py
"""

import card
import pytest
import torch
from helpers import ROOT, resume, rounding, run_eval, small_base, train_run, watch
from test_policies import assert_same_answers, gradients, small_kind
from test_train import assert_same_run

from bench.memory import make_model, measured
from policies import memory
from policies.decoding import Ask, decode
from policies.fast import accelerate, decoding
from policies.loading import load_model
from policies.logprobs import Row
from policies.sampling import Sampling
from training.run_folder import read_records

PLAIN = Sampling(1.0, 0, 1.0, 64)
TINY = str(ROOT / "tiny")
SMALL = "--batch-size 2 --num-generations 3 --eval-limit 2 --sample-every 1 --max-new-tokens 32 "
SMALL += "--max-steps 2"


def trained(path, *flags):
    train_run(path, SMALL, *flags)
    return read_records(path / "metrics.jsonl")


# --- a run ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "argv",
    [
        "",
        "--bits 16 --turns 2 --branching chain --kl-coef 0.1",
        "--bits 4 --top-p 0.9",
        "--bits 8",
        "--lora-rank 0",
    ],
)
def test_a_run_and_its_evaluation(argv, tmp_path, capsys):
    for row in trained(tmp_path / "run", argv):
        assert 0 <= row["memory_gib"] < 1
    run_eval(f"--run {tmp_path}/run --limit 2 --num-samples 2 --method trained single")
    out, err = capsys.readouterr()
    assert "device cuda" in out
    assert "trained" in out
    assert "slower" not in err  # every base takes the fast path


def test_a_card_without_bf16_computes_4_bits_in_32(monkeypatch):
    assert load_model(TINY, 4)[0].dtype == torch.bfloat16
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda place: (7, 5))
    assert load_model(TINY, 4)[0].dtype == torch.float32


def test_the_card_learns_what_the_cpu_learns(tmp_path, monkeypatch):
    argv = "--eval-limit none --temperature 0.7"
    there = trained(tmp_path / "card", argv)
    with monkeypatch.context() as away:
        away.setattr(torch.cuda, "is_available", lambda: False)
        here = trained(tmp_path / "cpu", argv)
    for name in ("return", "grad_norm/0", "grad_norm/1", "entropy/0", "completions/1/mean_length"):
        assert there[0][name] == pytest.approx(here[0][name], rel=rounding()), name


def test_a_resumed_run_is_the_same_bit_for_bit(tmp_path):
    same = "--eval-limit none --lr-schedule constant --optimism 0"
    trained(tmp_path / "whole", same, "--max-steps 4")
    trained(tmp_path / "parts", same)
    resume(tmp_path / "parts", "--max-steps 4")
    assert_same_run(tmp_path / "whole", tmp_path / "parts")


# --- what stays on which device -------------------------------------------------------------------


def test_a_decode_waits_for_the_card_at_every_eighth_token():
    """And sends nothing there. No row ends early."""
    base = small_base().to("cuda")
    accelerate([base])
    base.codec.eos = frozenset()
    waits = []
    uploads = []
    for tokens in (32, 64):
        numbers = torch.rand(4, 3, tokens, dtype=torch.float64)
        waits.append(-card.count("waits"))
        uploads.append(-card.count("uploads"))
        prompts = [(3, 4, 5), (6, 7), (8, 9, 10), (11, 12)]
        decode(base, list(map(Ask, [0, 0, 1, 1], prompts)), numbers, PLAIN)
        waits[-1] += card.count("waits")
        uploads[-1] += card.count("uploads")
    assert (waits[1] - waits[0]) / 32 <= 1 / 8
    assert uploads[0] == uploads[1]


@pytest.mark.parametrize("agents", [[0, 0, 1, 2], [0, 0, 0, 0]])
def test_graphs_decode_what_the_step_itself_decodes(agents, monkeypatch):
    """Rows end at different times, so the rest is laid out anew, and a new graph is recorded."""
    base = small_base([0, 1, 2], model=small_kind("qwen2"))
    accelerate([base])
    numbers = torch.rand(4, 8, 40, dtype=torch.float64)
    prompts = [(3, 4, 5), (9, 8, 7, 6, 5), (3, 4, 5), (7, 7)]
    work = (list(map(Ask, agents, prompts)), numbers, PLAIN)
    here = decode(base, *work)
    base.to("cuda")
    recorded = watch(monkeypatch, decoding.Graph, "record")
    there = decode(base, *work)
    assert len(recorded) > 1
    monkeypatch.setattr(decoding, "Graph", lambda: lambda step, *tensors: step(*tensors))
    assert decode(base, *work) == there
    assert_same_answers(there, here)


# --- memory ---------------------------------------------------------------------------------------


def budget(base, tokens):
    """The budget of a pass of so many tokens."""
    units = tokens * memory.PASS["cuda"] / memory.pass_tokens(base, False)
    return {"cpu": units, "cuda": units}


@pytest.mark.parametrize("rank", [4, 0])
def test_checkpointing_with_eight_layers_takes_a_third_of_the_memory(rank, monkeypatch):
    """It gives the same gradients, and comes by itself where a pass cannot hold the prompt."""
    model = small_kind("llama", num_hidden_layers=8, max_position_embeddings=512)
    base = small_base([0], rank, model=model).to("cuda")
    rows = [Row(0, tuple([3, 4, 5, 6] * 100), [7, 8, 9], 0.5)]  # one pass in both cases
    grads = []
    kept = []
    for tokens in (404, 402):
        monkeypatch.setattr(memory, "PASS", budget(base, tokens))
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        grads.append(gradients(base, rows))
        kept.append(torch.cuda.max_memory_allocated() - before)
    for name, gradient in grads[0].items():
        assert torch.equal(grads[1][name], gradient)
    assert kept[1] < 0.4 * kept[0]


def test_a_dry_run_takes_what_the_run_takes(tmp_path):
    """bench/memory.py has the whole table."""
    make_model(tmp_path, 4096, 256)
    row = measured(str(tmp_path), True, {"batch": 2, "response": 16, "bits": 32, "turns": 2})
    assert 1 / 1.2 < row["expected"] / row["peak"] < 1.2
