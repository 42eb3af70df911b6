"""What is sampled is what is scored, whatever the kind of attention.

Texts run side by side in a tree or with padding, and one by one where a model cannot bear that.
python -m pytest tests/test_maskless.py
"""

import pytest
import transformers
from helpers import (
    ROOT,
    assert_close,
    assert_same_gradients,
    resume,
    score_alone,
    small_base,
    train_run,
)
from test_policies import (
    EXPERTS,
    GEMMA,
    KINDS,
    LLAMA,
    gradients,
    looped,
    rows_of,
    sampled,
    small_kind,
)

from policies import team
from policies.loading import check
from policies.sampling import Sampling
from training.run_folder import read_records

WARM = Sampling(0.7, 0, 1.0, 8)
LINEAR = {f"linear_{name}": 2 for name in ("num_key_heads", "num_value_heads")}
LINEAR |= {f"linear_{name}_head_dim": 8 for name in ("key", "value")}
LAYERS = {"layer_types": ["linear_attention", "full_attention"]}
NEO = {"attention_types": [[["local"], 2]], "window_size": 8, "num_layers": 2, "num_heads": 4}
OTHERS = {  # kind: its configuration
    # found at loading
    "bloom": {"n_head": 4, "n_layer": 2},  # it makes positions from the mask
    "mpt": {"d_model": 32, "n_heads": 4, "n_layers": 2, "max_seq_len": 64},
    "qwen3_next": LLAMA | EXPERTS | LINEAR | LAYERS | {"head_dim": 8},
    # at the first long texts
    "gpt_neo": NEO,
    "llama4_text": LLAMA
    | {"attention_chunk_size": 8, "intermediate_size_mlp": 48, "num_local_experts": 2}
    | {"head_dim": 8, "floor_scale": 4},
    "mistral": LLAMA | {"sliding_window": 8},
    "gemma3_text": GEMMA | {"sliding_window": 8},
    # never
    "opt": KINDS["opt"],
    "olmo2": LLAMA,
}
AT_LOADING = [*OTHERS][:3]
NEVER = [*OTHERS][-2:]


def team_of(base):
    """Return a team of one base."""
    made = team.Team.__new__(team.Team)
    team.nn.Module.__init__(made)
    made.bases = [base]
    return made


@pytest.mark.parametrize("kind", OTHERS)
def test_what_is_sampled_is_what_is_scored(kind, monkeypatch, capsys):
    """Log-probabilities are those of a loop over tokens, and gradients those of single texts."""
    monkeypatch.setitem(KINDS, kind, OTHERS[kind])
    base = small_base(model=small_kind(kind))
    base.checkpointing = base.net.supports_gradient_checkpointing
    check(base)
    assert base.takes_masks == (kind not in AT_LOADING)
    prompts = [tuple(range(3, 13)), (*range(3, 20), *range(3, 16)), (5, 6)]
    agents = [0, 0, 1]
    while True:
        rows = rows_of(
            prompts, agents, sampled(base, prompts, agents, sampling=Sampling(1, 9, 0.9, 8))
        )
        got = gradients(base, rows, sampling=Sampling(1, 9, 0.9, 8))
        if not team_of(base).falls_back(rows):
            break
    assert base.takes_masks == (kind in NEVER)
    assert capsys.readouterr().err.count("warning") == (kind not in NEVER)
    for row in rows:
        assert_close(row.scored, row.logps)
        assert_close(row.scored, looped(base, row, WARM).detach())
    assert_same_gradients(got, gradients(base, rows, score_alone, WARM))


def test_where_texts_differ_alone_too_the_run_ends():
    base = small_base()
    rows = rows_of([(3, 4)], [0], sampled(base, [(3, 4)], [0]))
    gradients(base, rows)
    assert not team_of(base).falls_back(rows)
    rows[0].logps[0] += 0.1
    assert team_of(base).falls_back(rows)
    with pytest.raises(ValueError, match="also text by text: this model cannot be trained here"):
        team_of(base).falls_back(rows)


SMALL = "--batch-size 2 --num-generations 3 --max-new-tokens 4 --max-steps 2 --eval-limit none"


@pytest.mark.parametrize("flags", ["--kl-coef 0.1 --share", "--lora-rank 0"])
def test_a_run_whose_texts_do_not_fit_into_a_window_goes_on(flags, tmp_path, capsys):
    tokenizer = transformers.AutoTokenizer.from_pretrained(ROOT / "tiny")
    size = {"vocab_size": len(tokenizer), "max_position_embeddings": 512}
    for part in (small_kind("mistral", sliding_window=24, **size), tokenizer):
        part.save_pretrained(tmp_path / "model")
    run = train_run(tmp_path / "run", SMALL, flags, "--model", tmp_path / "model")
    resume(run, "--max-steps 3")
    assert capsys.readouterr().err.count("each text runs alone from now on") == 1
    for metrics in read_records(run / "metrics.jsonl"):
        assert metrics["logp_difference/max"] < 1e-3
        assert metrics["grad_norm/0"] > 0


REFUSED = {
    "bert": {"intermediate_size": 48},  # every token sees the ones after it
    "recurrent_gemma": GEMMA | {"lru_width": 32, "num_hidden_layers": 3},  # its cache is its own
}


@pytest.mark.parametrize("kind", REFUSED)
def test_a_model_whose_decode_is_not_its_forward_pass_is_refused(kind, monkeypatch):
    monkeypatch.setitem(KINDS, kind, REFUSED[kind])
    with pytest.raises(ValueError, match="cannot be trained here: one token after the other"):
        check(small_base(model=small_kind(kind)))
