"""policies/fast/ against the plain way: python -m pytest tests/fast"""

import gc
import sys
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from helpers import assert_same_gradients, of_a_cpu, small_base, watch

sys.path.append(str(Path(__file__).parents[1]))
from test_policies import (
    AGENTS,
    PLAIN,
    PROMPTS,
    WARPED,
    assert_same_answers,
    assert_same_scores,
    gradients,
    sampled,
    scored,
    small_kind,
    turns_of,
)

from policies import decoding, fast
from policies.fast import attention, layers, model
from policies.loading import load_base
from policies.logprobs import score
from policies.model_names import EMBEDDED, TeamOptions
from policies.sampling import Sampling


def accelerated(base):
    """Let a base run the fast way, and see that it does."""
    fast.accelerate([base])
    assert base.fast
    return base


def plain(base, rows, sampling, backward=None, frozen=False):
    """Score the plain way."""
    quick = base.fast
    base.fast = None
    score(base, rows, sampling, backward, frozen)
    base.fast = quick


@pytest.mark.parametrize(
    "kind, rank, look",
    [("llama", 4, 1), ("mistral", 4, 5), ("qwen2", 4, 5), ("qwen3", 4, 1), ("llama", 0, 1)],
)
def test_it_computes_what_the_plain_way_computes(kind, rank, look, monkeypatch):
    """Samples, scores and gradients. Full copies answer greedily. Rows that ended are looked for at
    every token, or at every fifth one, as on a GPU."""
    monkeypatch.setattr(decoding, "LOOK", {"cpu": look})
    monkeypatch.setattr(attention, "BLOCK", 7)
    monkeypatch.setattr(model, "CPU_LOGITS", 1)
    monkeypatch.setattr(model, "LEAST", 5)  # tokens whose logits are computed at a time
    base = small_base([0, 1, 2] if rank else [0], rank, model=small_kind(kind))
    agents = AGENTS if rank else [0] * len(PROMPTS)
    sampling = PLAIN if rank else Sampling(0.0, 0, 1.0, 8)
    slow = sampled(base, PROMPTS, agents, 3, sampling)
    accelerated(base)
    assert_same_answers(sampled(base, PROMPTS, agents, 3, sampling), slow)
    assert fast.decoding.FastRows not in map(type, gc.get_objects())  # its caches go at once
    rows = turns_of(base.agents)
    for freeze in (False, True):
        expected = scored(base, rows, WARPED, freeze, plain)
        assert_same_scores(scored(base, rows, WARPED, freeze), expected)
    for sampling in (PLAIN, WARPED):
        got = gradients(base, rows, sampling=sampling)
        assert_same_gradients(got, gradients(base, rows, plain, sampling))
    base.set_checkpointing()
    assert_same_gradients(gradients(base, rows, sampling=WARPED), got)


def test_models_of_other_kinds_stay_plain():
    """And those whose attention has a window."""
    for net in (small_kind("gpt2"), small_kind("mistral", sliding_window=24)):
        base = small_base(model=net)
        fast.accelerate([base])
        assert not base.fast


@of_a_cpu
@pytest.mark.parametrize("bits, factor", [(8, 1.0), (8, 0.5), (4, 0.8)])
def test_a_wrong_layer_shows_in_8_and_4_bits(bits, factor, monkeypatch, capsys):
    """The check compares with transformers' own forward pass of the same rounded weights."""

    def spoilt(norm, x, right=layers.rms_norm):
        return factor * right(norm, x)

    monkeypatch.setattr(layers, "rms_norm", spoilt)
    base = load_base(str(EMBEDDED), [0], TeamOptions([], bits=bits))
    fast.accelerate([base])
    assert bool(base.fast) == (factor == 1)
    assert ("runs the plain way, slower" in capsys.readouterr().err) == (factor != 1)


def test_attention_may_return_the_strides_of_a_gpu(monkeypatch):
    """Fused kernels keep a token's heads beside each other, the CPU's a head's tokens."""

    def fused(*args, compute=F.scaled_dot_product_attention, **options):
        mixed = compute(*args, **options)
        return mixed.transpose(1, 2).contiguous().transpose(1, 2)

    base = accelerated(small_base(model=small_kind("llama")))
    rows = turns_of([0, 1])
    expected = gradients(base, rows)
    monkeypatch.setattr(F, "scaled_dot_product_attention", fused)
    assert_same_gradients(gradients(base, rows), expected)


def test_cudnn_computes_no_attention():
    """On a Hopper GPU its gradient is NaN where all scores are far below zero."""
    assert not torch.backends.cuda.cudnn_sdp_enabled()


def test_layers_keep_one_mask_for_the_backward_pass(monkeypatch):
    """Of bools, each layer would make and keep numbers of its own."""
    base = accelerated(small_base([0, 1]))
    calls = watch(monkeypatch, F, "scaled_dot_product_attention")
    gradients(base, turns_of([0])[:4])
    masks = [call[3] for call in calls]
    assert {mask.dtype for mask in masks} == {torch.float32}
    assert len({mask.data_ptr() for mask in masks}) < len(masks)
