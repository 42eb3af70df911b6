"""Models that take no attention mask: python -m pytest tests/test_maskless.py"""

import pytest
import transformers
from helpers import (
    assert_close,
    random_rows,
    refused,
    small_base,
    train_run,
    uniforms,
    world,
)
from test_policies import EXPERTS, KINDS, LLAMA, gradients, looped, small_kind

from policies.loading import check
from policies.sampling import Sampling
from training.run_folder import read_records

LINEAR = {f"linear_{name}": 2 for name in ("num_key_heads", "num_value_heads")}
LINEAR |= {f"linear_{name}_head_dim": 8 for name in ("key", "value")}
MAMBA = {"mamba_d_ssm": 32, "mamba_n_heads": 4, "mamba_d_head": 8, "mamba_d_state": 8}
OTHERS = {
    "mamba": {"state_size": 4},
    "falcon_h1": LLAMA | MAMBA,  # a hybrid
    "qwen3_next": LLAMA
    | EXPERTS
    | LINEAR
    | {"head_dim": 8, "layer_types": ["linear_attention", "full_attention"]},
    "bloom": {"n_head": 4, "n_layer": 2},  # it makes positions from the mask
}


@pytest.mark.parametrize("kind", OTHERS)
def test_a_model_without_masks_runs_prompt_by_prompt(kind, monkeypatch, capsys):
    monkeypatch.setitem(KINDS, kind, OTHERS[kind])
    base = small_base(model=small_kind(kind))
    check(base)
    [warning] = capsys.readouterr().err.splitlines()
    assert "runs prompt by prompt, which is slower" in warning
    rows = random_rows(base)
    prompts = [row.prompt for row in rows]
    agents = [row.agent for row in rows]
    sampling = Sampling(0.7, 9, 0.8, 5)
    answers = base.sample(prompts, agents, uniforms(len(rows), 1, 5), sampling)
    for row, [response] in zip(rows, answers, strict=True):
        row.tokens = response.tokens
        row.logps = response.logps
    base.score(rows, sampling)
    for row in rows:
        assert_close(row.scored, row.logps)
        assert_close(row.scored, looped(base, row, sampling).detach())
    got = gradients(base, rows)
    assert {name.split(".")[-2] for name in got} == {"agent0", "agent1"}
    assert all(gradient.any() for gradient in got.values())


def saved(kind: str, folder, **changes) -> str:
    """A small random model with the embedded one's tokenizer."""
    tokenizer = transformers.AutoTokenizer.from_pretrained("tiny")
    end = tokenizer.eos_token_id
    model = small_kind(
        kind, vocab_size=len(tokenizer), eos_token_id=end, bos_token_id=end, **changes
    )
    model.generation_config.eos_token_id = end
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


SMALL = "--batch-size 2 --num-generations 3 --max-new-tokens 4 --lr 0.01 --lr-schedule constant "
SMALL += "--eval-limit none --bits 32"  # a CPU that is faster with 16 rounds the log-probabilities


@pytest.mark.parametrize(
    "flags",
    [
        "--kl-coef 0.1",
        "--freeze 1",
        "--share --top-p 0.9 --top-k 20",
        "--lora-rank 0",
    ],
)
def test_a_state_space_model_trains_with(flags, tmp_path, monkeypatch):
    """Every agent that is not frozen learns, from what was sampled."""
    monkeypatch.setitem(KINDS, "mamba", OTHERS["mamba"])
    model = saved("mamba", tmp_path / "model")
    run = train_run(tmp_path / "run", SMALL, world(tmp_path), flags, "--max-steps 1 --model", model)
    [metrics] = read_records(run / "metrics.jsonl")
    assert metrics["logp_difference/max"] < 1e-3
    learned = [metrics[f"grad_norm/{agent}"] > 0 for agent in range(2)]
    assert learned == [True, "--freeze" not in flags]


def test_a_model_that_looks_ahead_is_refused(tmp_path, monkeypatch, capsys):
    """BERT has a head for generation, and every token sees the ones after it."""
    monkeypatch.setitem(KINDS, "bert", {"intermediate_size": 48})
    model = saved("bert", tmp_path / "bert")
    assert "BertLMHeadModel cannot be trained here" in refused(capsys, SMALL, "--model", model)
