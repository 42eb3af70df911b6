"""What is sampled is what is scored, whatever the kind of attention.

Texts run side by side in a tree or with padding, and one by one where a model cannot bear that.
python -m pytest tests/test_maskless.py
"""

import pytest
import torch
import transformers
from helpers import (
    ROOT,
    assert_close,
    assert_same_gradients,
    resume,
    score_alone,
    small_base,
    train_run,
    world,
)
from test_policies import KINDS, WARPED, gradients, looped, rows_of, sampled, small_kind

from policies import team
from policies.loading import check
from training.run_folder import read_records

KIND_NAMES = [*KINDS]
REFUSED = KIND_NAMES[-2:]
LONG = KIND_NAMES[-5:-2]
AT_LOADING = KIND_NAMES[-8:-5]
CASES = [(kind, 4, {}) for kind in KIND_NAMES if kind not in REFUSED]
CASES += [(kind, 0, {}) for kind in ("llama", "gemma2", "mixtral")]  # full copies
CASES += [("mistral", 4, {"sliding_window": 8})]


def team_of(base):
    """Return a team of one base."""
    made = team.Team.__new__(team.Team)
    team.nn.Module.__init__(made)
    made.bases = [base]
    return made


@pytest.mark.parametrize(("kind", "rank", "changes"), CASES)
def test_what_is_sampled_is_what_is_scored(kind, rank, changes, capsys):
    """Log-probabilities are those of a loop over tokens, and gradients those of single texts."""
    model = small_kind(kind, **changes)
    base = small_base([0, 1] if rank else [0], rank, model=model)
    base.checkpointing = base.net.supports_gradient_checkpointing
    check(base)
    assert base.takes_masks == (kind not in AT_LOADING)
    prompts = [tuple(range(3, 13)), (*range(3, 20), *range(3, 16)), (5, 6)]
    agents = [0, 0, 1] if rank else [0, 0, 0]
    while True:
        rows = rows_of(prompts, agents, sampled(base, prompts, agents, 3, WARPED))
        got = gradients(base, rows, sampling=WARPED)
        if not team_of(base).falls_back(rows):
            break
    falls = kind in LONG or bool(changes)
    assert base.takes_masks == (kind not in AT_LOADING and not falls)
    assert capsys.readouterr().err.count("warning") == (not base.takes_masks)
    for row in rows:
        assert_close(row.scored, row.logps)
        assert_close(row.scored, looped(base, row, WARPED).detach())
    assert len(got) == len([*base.parameters()]) or rank
    assert_same_gradients(got, gradients(base, rows, score_alone, WARPED))


@pytest.mark.parametrize("kind", REFUSED)
def test_a_model_whose_decode_is_not_its_forward_pass_is_refused(kind):
    with pytest.raises(ValueError, match="cannot be trained here: one token after the other"):
        check(small_base(model=small_kind(kind)))


def test_where_texts_differ_alone_too_the_run_ends():
    base = small_base()
    rows = rows_of([(3, 4)], [0], sampled(base, [(3, 4)], [0]))
    gradients(base, rows)
    assert not team_of(base).falls_back(rows)
    rows[0].logps[0] += 0.04 * sum(len(row.tokens) for row in rows)
    with torch.autocast("cpu", torch.bfloat16):  # SmolLM2 has as much of rounding on a GPU
        assert not team_of(base).falls_back(rows)
    assert team_of(base).falls_back(rows)
    with pytest.raises(ValueError, match="also text by text: this model cannot be trained here"):
        team_of(base).falls_back(rows)


SMALL = "--batch-size 2 --num-generations 3 --max-new-tokens 12 --max-steps 2 --eval-limit none"


@pytest.mark.parametrize("flags", ["--kl-coef 0.1", "--lora-rank 0 --share"])
def test_a_run_whose_texts_do_not_fit_into_a_window_goes_on(flags, tmp_path, capsys):
    tokenizer = transformers.AutoTokenizer.from_pretrained(ROOT / "tiny")
    size = {"vocab_size": len(tokenizer), "max_position_embeddings": 512}
    for part in (small_kind("mistral", sliding_window=8, **size), tokenizer):
        part.save_pretrained(tmp_path / "model")
    run = train_run(tmp_path / "run", SMALL, world(tmp_path), flags, "--model", tmp_path / "model")
    resume(run, "--max-steps 3")
    assert capsys.readouterr().err.count("each text runs alone from now on") == 1
    for metrics in read_records(run / "metrics.jsonl"):
        assert metrics["logp_difference/max"] < 1e-3
        assert metrics["grad_norm/0"] > 0
