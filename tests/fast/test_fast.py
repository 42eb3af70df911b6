"""policies/fast/ against the plain way: python -m pytest tests/fast"""

import itertools
import sys
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from helpers import (
    assert_close,
    assert_same_gradients,
    of_a_cpu,
    random_rows,
    small_base,
    watch,
)

sys.path.append(str(Path(__file__).parents[1]))
from test_policies import (
    AGENTS,
    PLAIN,
    PROMPTS,
    WARPED,
    assert_same_answers,
    assert_same_scores,
    gradients,
    rows_of,
    sampled,
    scored,
    small_kind,
    turns_of,
)

from policies import decoding, fast
from policies.fast import attention, layers
from policies.fast.model import TokenLogps
from policies.loading import load_base
from policies.model_names import TeamOptions
from policies.sampling import Sampling, target_logps, warp
from policies.shared_model import SharedModel

KINDS = ("llama", "mistral", "qwen2", "qwen3")


def accelerated(base: SharedModel) -> SharedModel:
    """Let a base run the fast way, and see that it does."""
    fast.accelerate([base])
    assert "prefill" in vars(base)
    return base


def in_turn(base: SharedModel):
    """Return the fast and the plain way of scoring."""

    def plain(base, rows, sampling, backward=None, frozen=False):
        quick = base.token_logps
        del base.token_logps
        base.score(rows, sampling, backward, frozen)
        base.token_logps = quick

    return SharedModel.score, plain


@pytest.mark.parametrize(
    ("kind", "rank", "look"),
    [
        *itertools.product(KINDS, [4], [1, 5]),
        ("llama", 0, 1),
    ],
)
def test_it_computes_what_the_plain_way_computes(kind, rank, look, monkeypatch):
    """Samples, scores and gradients. Full copies answer greedily. Rows that ended are looked for at
    every token, or at every fifth one, as on a GPU."""
    monkeypatch.setattr(decoding, "LOOK", {"cpu": look})
    monkeypatch.setattr(attention, "BLOCK", 7)
    base = small_base([0, 1, 2] if rank else [0], rank, model=small_kind(kind))
    agents = AGENTS if rank else [0] * len(PROMPTS)
    sampling = PLAIN if rank else Sampling(0.0, 0, 1.0, 8)
    slow = sampled(base, PROMPTS, agents, 3, sampling)
    frozen = sampled(base, PROMPTS, None, 3, sampling)
    accelerated(base)
    assert_same_answers(sampled(base, PROMPTS, agents, 3, sampling), slow)
    assert_same_answers(sampled(base, PROMPTS, None, 3, sampling), frozen)
    rows = turns_of(base.agents)
    quick, plain = in_turn(base)
    for freeze in (False, True):
        expected = scored(base, rows, WARPED, freeze, plain)
        assert_same_scores(scored(base, rows, WARPED, freeze, quick), expected)
    assert_same_gradients(gradients(base, rows, quick), gradients(base, rows, plain))


def test_models_of_other_kinds_stay_plain():
    base = small_base(model=small_kind("gpt2"))
    fast.accelerate([base])
    assert "prefill" not in vars(base)


@of_a_cpu
@pytest.mark.parametrize(("bits", "factor"), [(8, 1.0), (8, 0.8), (4, 0.8)])
def test_a_wrong_layer_shows_in_8_and_4_bits(bits, factor, monkeypatch, capsys):
    """The check compares with transformers' own forward pass of the same rounded weights."""

    def spoilt(self, layer, make=layers.Layer.__init__):
        make(self, layer)
        self.scaling *= factor

    monkeypatch.setattr(layers.Layer, "__init__", spoilt)
    base = load_base("tiny", [0], TeamOptions([], bits=bits))
    fast.accelerate([base])
    assert ("prefill" in vars(base)) == (factor == 1)
    assert ("runs the plain way, slower" in capsys.readouterr().err) == (factor != 1)


def test_beyond_a_window_it_is_the_plain_way():
    base = small_base(model=small_kind("mistral", sliding_window=24))
    prompts = [tuple(range(3, 13)), (*range(3, 20), *range(3, 16))]
    slow = sampled(base, prompts, [0, 0])
    rows = rows_of(prompts, [0, 0], slow)
    expected = scored(base, rows)
    accelerated(base)
    assert_same_answers(sampled(base, prompts, [0, 0]), slow)
    assert_same_scores(scored(base, rows), expected)


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


def test_attention_has_a_gradient_where_all_scores_are_far_below_zero():
    """cuDNN's attention has none with 192 keys and a mask. Only a Hopper GPU would take it."""
    assert not torch.backends.cuda.cudnn_sdp_enabled()
    place = "cuda" if torch.cuda.is_available() else "cpu"
    query, key, value = torch.randn(3, 1, 2, 192, 64).div(10).to(place, torch.bfloat16)
    query[..., 0] = 1
    key[..., 0] = -960  # scores of -120
    mask = torch.ones(1, 1, 192, 192, dtype=torch.bool, device=place).tril()
    query.requires_grad_()
    seen = attention.TreeMask(mask, 1, query.dtype)
    attention.attend(query, key, value, 1 / 8, seen).sum().backward()
    assert torch.isfinite(query.grad).all()


@pytest.mark.parametrize("rank", [4, 0])
def test_checkpointing_runs_each_layer_again_and_gives_the_same_gradients(rank, monkeypatch):
    """To the bit."""
    base = accelerated(small_base([0, 1] if rank else [0], rank))
    rows = random_rows(base, 12)
    calls = watch(monkeypatch, layers.Layers, "run")
    want = gradients(base, rows)
    once = len(calls)
    base.set_checkpointing()
    got = gradients(base, rows)
    assert len(calls) == 3 * once
    assert got.keys() == want.keys()
    for name, gradient in want.items():
        assert torch.equal(got[name], gradient)


def test_layers_keep_one_mask_for_the_backward_pass(monkeypatch):
    """Of bools, each layer would make and keep numbers of its own."""
    base = accelerated(small_base([0, 1]))
    calls = watch(monkeypatch, F, "scaled_dot_product_attention")
    gradients(base, random_rows(base, 4))
    masks = [call[3] for call in calls]
    assert {mask.dtype for mask in masks} == {torch.float32}
    assert len({mask.data_ptr() for mask in masks}) < len(masks)


@pytest.mark.parametrize("sampling", [PLAIN, WARPED])
def test_token_logps_have_the_gradient_of_the_plain_computation(sampling):
    """That of the hidden states, in five parts of the rows."""
    torch.manual_seed(0)
    hidden = torch.randn(9, 6, requires_grad=True)
    weight = torch.randn(30, 6)
    targets = torch.randint(30, (9,))
    grad = torch.randn(9)
    logits = warp(F.linear(hidden, weight), sampling, targets[:, None])
    logps = logits.log_softmax(-1).gather(-1, targets[:, None])[:, 0]
    [want] = torch.autograd.grad(logps, hidden, grad)

    def logps_of(states, tokens):
        return target_logps(F.linear(states, weight), tokens, sampling)

    values = TokenLogps.apply(hidden, targets, logps_of, 2)
    assert_close(values, logps)
    [got] = torch.autograd.grad(values, hidden, grad)
    assert_close(got, want)
