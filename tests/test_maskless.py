"""What is sampled is what is scored, whatever the kind of attention, in every dtype.

Texts run side by side in a tree or with padding. Where a window or a chunk would differ, and where
a model takes no masks, each runs alone. python -m pytest tests/test_maskless.py
"""

import json
import math

import pytest
import torch
from helpers import (
    EPS,
    EPS16,
    assert_close,
    rounding,
    score_alone,
    small_base,
    table,
    watch,
)
from test_magrpo import team_of
from test_policies import KINDS, PLAIN, WARPED, gradients, rows_of, sampled, small_kind

from policies import Mistake, logprobs
from policies.loading import check
from policies.logprobs import Row, score

KIND_NAMES = [*KINDS]
REFUSED = KIND_NAMES[-3:]
AT_LOADING = KIND_NAMES[-6:-3]
# Kind, what its configuration says, the longest text that runs beside others
WINDOWS = """
mistral      {"sliding_window": 8}  8
mistral      {"sliding_window": 8, "layer_types": ["full_attention", "full_attention"]}  inf
qwen2        {"sliding_window": 8, "use_sliding_window": false}  inf
qwen2        {"sliding_window": 8, "use_sliding_window": true, "max_window_layers": 1}  8
qwen3        {"sliding_window": 8, "use_sliding_window": true, "max_window_layers": 1}  8
phi3         {"sliding_window": 8}  8
gpt_neo      {}  8
llama4_text  {}  8
gemma3_text  {}  8
llama        {"rope_parameters": {"rope_type": "dynamic", "factor": 4, "rope_theta": 1e4}}  inf
"""
WINDOWS = [(kind, json.loads(said), float(reach)) for kind, said, reach in table(WINDOWS)]
CASES = [(kind, 4, {}) for kind in KIND_NAMES if kind not in REFUSED]
CASES += [(kind, 0, {}) for kind in ("llama", "gemma2", "mixtral")]  # full copies
CASES += [(kind, 4, changes) for kind, changes, reach in WINDOWS if changes and reach < math.inf]
CASES += [(kind, 4, {"dtype": "bfloat16"}) for kind in ("llama", "gemma3_text", "llama4_text")]
CASES += [("mistral", 4, {"dtype": "bfloat16", "sliding_window": 8})]
CASES += [("gpt_neo", 4, {"window_size": 20})]  # a row fits, and no tree does
PROMPTS = [tuple(range(3, 13)), (*range(3, 20), *range(3, 16)), (5, 6)]


@pytest.mark.parametrize("kind, rank, changes", CASES)
def test_what_is_sampled_is_what_is_scored(kind, rank, changes, capsys):
    """Log-probabilities and gradients are those of a loop over tokens."""
    base = small_base([0, 1] if rank else [0], rank, model=small_kind(kind, **changes))
    base.checkpointing = base.net.supports_gradient_checkpointing
    check(base)
    assert base.takes_masks == (kind not in AT_LOADING)
    assert capsys.readouterr().err.count("warning") == (kind in AT_LOADING)
    eps = EPS16 if "dtype" in changes else EPS
    agents = [0, 0, 1] if rank else [0, 0, 0]
    rows = rows_of(PROMPTS, agents, sampled(base, PROMPTS, agents, 3, WARPED))
    got = gradients(base, rows, sampling=WARPED)
    team_of([base]).compare(rows)
    assert len(got) == len([*base.parameters()]) or rank
    scores = [row.scored for row in rows]
    base.recomputing = False
    want = gradients(base, rows, score_alone, WARPED)
    for row, own in zip(rows, scores, strict=True):
        assert_close(own, row.logps, eps)
        assert_close(own, row.scored, eps)
    assert got.keys() == want.keys()
    off = sum((got[name] - want[name]).norm() ** 2 for name in want)
    assert off < rounding(eps) ** 2 * sum(gradient.norm() ** 2 for gradient in want.values())


@pytest.mark.parametrize("kind, changes, reach", WINDOWS)
def test_what_is_longer_than_a_window_runs_alone(kind, changes, reach, monkeypatch):
    base = small_base(model=small_kind(kind, **changes))
    assert base.reach == reach
    passes = watch(monkeypatch, logprobs, "lay_out")
    short = [Row(0, (3,), [number, 5], 0.1) for number in range(3)]
    long = [Row(1, (3, *[4] * 16), [number, 5, 6], 0.2) for number in range(3)]
    score(base, [*long, *short], PLAIN)
    sizes = [len(tree.rows) for _, trees in passes for tree in trees]
    assert sizes == ([3, 1, 1, 1] if reach < math.inf else [3, 3])


@pytest.mark.parametrize("kind", REFUSED)
def test_a_model_is_refused_whose_decode_is_not_its_forward_pass_or_that_bears_no_adapter(kind):
    with pytest.raises(Mistake, match="cannot be trained here: "):
        check(small_base(model=small_kind(kind)))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "mixed"])
def test_where_the_update_differs_from_the_decode_the_run_ends(dtype, monkeypatch):
    """As with a window that a configuration does not tell."""
    kind = {"sliding_window": 20} | ({} if dtype == "mixed" else {"dtype": dtype})
    base = small_base(model=small_kind("mistral", **kind))
    check(base)
    with torch.autocast("cpu", torch.bfloat16, enabled=dtype == "mixed"):
        rows = rows_of(PROMPTS, [0, 0, 1], sampled(base, PROMPTS, [0, 0, 1], 3, PLAIN))
        score(base, rows, PLAIN)
        team_of([base]).compare(rows)
        base.reach = math.inf
        score(base, rows, PLAIN)
        with pytest.raises(ValueError, match=r"nats off those of the update, and rounding explai"):
            team_of([base]).compare(rows)
    team_of([base]).compare([])  # no group had an advantage


def test_a_few_tokens_may_round_further_than_many():
    """In 16 bits a batch of one short response, written often, ended a run after 23 steps."""
    base = small_base(model=small_kind("llama", dtype="bfloat16"))

    def rows(texts):
        off = torch.tensor([0.0, 4 * base.tolerance])
        return [Row(0, (5,), [text, 2], logps=[-1.0, -1.0], scored=off - 1) for text in texts]

    team_of([base]).compare(rows([7] * 64))
    with pytest.raises(ValueError, match="rounding explains"):
        team_of([base]).compare(rows(range(64)))
