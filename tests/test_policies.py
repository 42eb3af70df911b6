"""Sampling and scoring against plain computations: python -m pytest tests/test_policies.py

The reference is each text by itself, token by token (`score_alone` in tests/helpers.py).
"""

import itertools
import math

import bitsandbytes.functional
import numpy as np
import pytest
import torch
import torch.nn.functional as F
import transformers
from helpers import (
    EOS,
    EPS,
    EPS16,
    VOCAB,
    assert_close,
    assert_same_gradients,
    move_adapters,
    of_a_cpu,
    rounding,
    score_alone,
    small_base,
    small_model,
    uniforms,
    watch,
)

from policies import Mistake, logprobs
from policies.decoding import Ask, decode
from policies.loading import load_base
from policies.logprobs import Row, score
from policies.model_names import EMBEDDED, TeamOptions
from policies.sampling import Sampling, choose, draw, nucleus, warp

PLAIN = Sampling(1.0, 0, 1.0, 8)
WARPED = Sampling([0.7, 1.3, 0.5], 9, 0.8, 8)  # each agent has its own temperature


def scored(base, rows, sampling=PLAIN, frozen=False, score=score):
    """Log-probabilities of each row's own tokens."""
    score(base, rows, sampling, frozen=frozen)
    return [row.scored for row in rows]


def sampled(base, prompts, agents, samples=2, sampling=PLAIN):
    """Responses to each prompt, sampled with the same numbers at every call."""
    numbers = uniforms(len(prompts), samples, sampling.max_new_tokens)
    return decode(base, list(map(Ask, agents, prompts)), numbers, sampling)


def assert_same_scores(got, want):
    for own, other in zip(got, want, strict=True):
        assert_close(own, other)


def assert_same_answers(fast, slow):
    for got, want in zip(itertools.chain(*fast), itertools.chain(*slow), strict=True):
        assert (got.tokens, got.text, got.ended) == (want.tokens, want.text, want.ended)
        assert_close(got.logps, want.logps)
        assert_close(got.entropies, want.entropies)


def rows_of(prompts, agents, answers):
    rows = []
    for prompt, agent, responses in zip(prompts, agents, answers, strict=True):
        for number, response in enumerate(responses):
            advantage = 0.3 - 0.2 * number
            rows.append(Row(agent, prompt, response.tokens, advantage, logps=response.logps))
    return rows


def gradients(base, rows, score=score, sampling=PLAIN):
    """Gradients of sum coef log pi over the rows, by parameter."""

    def backward(rows, logps, mask):
        assert mask.sum(1).tolist() == [len(row.tokens) for row in rows]
        coef = torch.tensor([row.coef for row in rows], device=logps.device)
        (coef * (logps * mask).sum(-1)).sum().backward()

    base.zero_grad()
    score(base, rows, sampling, backward)
    return {n: p.grad.clone() for n, p in base.named_parameters() if p.grad is not None}


SIZE = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
LLAMA = {"num_key_value_heads": 2, "intermediate_size": 48}
GEMMA = LLAMA | {"head_dim": 8}
GPT = {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64}
LINEAR = {f"linear_{name}": 2 for name in ("num_key_heads", "num_value_heads")}
LINEAR |= {f"linear_{name}_head_dim": 8 for name in ("key", "value")}
LINEAR |= {"moe_intermediate_size": 16, "num_experts": 4, "num_experts_per_tok": 2}
LINEAR |= {"layer_types": ["linear_attention", "full_attention"]}
NEO = {"attention_types": [[["local"], 2]], "window_size": 8, "num_layers": 2, "num_heads": 4}
LLAMA4 = LLAMA | {"attention_chunk_size": 8, "intermediate_size_mlp": 48, "num_local_experts": 2}
LLAMA4 |= {"head_dim": 8, "floor_scale": 4}
KINDS = {  # what differs from a real configuration of the kind is its size alone
    "llama": LLAMA | {"attention_bias": True, "mlp_bias": True, "head_dim": 16},
    "mistral": LLAMA | {"sliding_window": None},
    "qwen2": LLAMA,
    "qwen3": LLAMA | {"head_dim": 12},
    # from here on, not written out in policies/fast/
    "gpt2": GPT,
    "opt": {"ffn_dim": 48, "word_embed_proj_dim": 16, "dropout": 0.5},
    "gemma2": GEMMA | {"attn_logit_softcapping": 2.0, "final_logit_softcapping": 3.0},
    "cohere": LLAMA,  # its logits have a factor
    "gpt_oss": LLAMA | {"num_local_experts": 4, "head_dim": 8},  # sinks
    "mixtral": LLAMA | {"num_local_experts": 4},
    "phi3": LLAMA | {"sliding_window": None},
    # with windows or chunks
    "gpt_neo": NEO,
    "llama4_text": LLAMA4,
    "gemma3_text": GEMMA | {"sliding_window": 8},
    # run text by text: found at loading
    "bloom": {"n_head": 4, "n_layer": 2},  # it makes positions from the mask
    "mpt": {"d_model": 32, "n_heads": 4, "n_layers": 2, "max_seq_len": 64},
    "qwen3_next": LLAMA | LINEAR | {"head_dim": 8},
    # refused
    "bert": {"intermediate_size": 48},  # every token sees the ones after it
    "falcon_h1": LLAMA | {"mamba_d_ssm": 32, "mamba_n_heads": 4, "mamba_d_head": 8},  # by peft
    "recurrent_gemma": GEMMA | {"lru_width": 32, "num_hidden_layers": 3},  # its cache is its own
}


def small_kind(kind, **changes):
    """A small random model of a kind, from its own configuration class."""
    torch.manual_seed(0)
    ends = {"pad_token_id": 0, "bos_token_id": EOS, "eos_token_id": EOS}
    size = {} if KINDS[kind] is GPT else SIZE | {"max_position_embeddings": 64}
    options = size | {"vocab_size": VOCAB} | KINDS[kind] | ends | changes
    config = transformers.AutoConfig.for_model(kind, **options)
    model = transformers.AutoModelForCausalLM.from_config(config)
    model.generation_config.eos_token_id = EOS
    for parameter in model.parameters():  # norms and biases are not left at 1 and 0
        parameter.data += 0.2 * torch.randn_like(parameter)
    return model


PROMPTS = [(3, 4, 5), (9, 8, 7, 6, 5), (3, 4, 5), (7, 7)]
AGENTS = [0, 0, 1, 2]


def turns_of(agents):
    """Return rows of three turns. Each response begins with a token of its own.

    A later prompt goes on with an earlier response, or with its beginning, or with none. Problem 1
    has a long prompt and problem 0 long feedback: their lengths together exceed a context of 64.
    """
    rows = []
    for agent, problem in itertools.product(agents, range(3)):
        prompts = [(5, 6, 7, 8, agent, problem, *[problem] * (30 * (problem == 1)), 3)]
        for turn in range(3):
            later = []
            for number, prompt in enumerate(prompts):
                for sample in range(2):
                    more = range(9, 9 + (number + 3 * sample + 2 * turn) % 6)
                    tokens = [10 + 2 * number + sample, *more, EOS]
                    advantage = 0.4 - 0.3 * sample
                    rows.append(Row(agent, prompt, tokens, advantage, 1 / (1 + turn), problem))
                    seen = tokens[: 9 - 3 * problem]
                    told = [20 + sample, number, *[9] * (30 if problem + turn == 0 else 1)]
                    # of problem 2, the later prompts alike end unlike the first
                    begun = prompt[:-1] if problem == 2 else (*prompt, *seen)
                    later.append((*begun, *told))
            prompts = later[:3]
    return rows


@pytest.mark.parametrize(
    "kind, rank, checkpointing, limit",  # the last: tokens of a pass
    [
        ("llama", 4, False, 1000),
        ("llama", 4, True, 40),
        ("llama", 0, False, 3),
        ("llama", 0, True, 1000),
        ("opt", 4, True, 40),
    ],
)
def test_what_rows_begin_with_is_run_once(kind, rank, checkpointing, limit, monkeypatch):
    """Scores and gradients, against each response by itself. Each distinct token is run once."""
    base = small_base([0, 1] if rank else [0], rank, model=small_kind(kind))
    rows = turns_of(base.agents)
    want = gradients(base, rows, score_alone)
    expected = scored(base, rows, frozen=rank > 0, score=score_alone)
    if checkpointing:
        base.set_checkpointing()
    base.codec.context = 1000
    passes = watch(monkeypatch, logprobs, "lay_out")
    monkeypatch.setattr(logprobs, "pass_tokens", lambda *_: limit)
    monkeypatch.setitem(logprobs.TOGETHER, "cpu", limit)
    assert_same_gradients(gradients(base, rows), want)
    sizes = [len(tree.places) for _, trees in passes for tree in trees]
    if limit == 1000:
        distinct = set()  # of each agent and problem
        for row in rows:
            text = (*row.prompt, *row.tokens[:-1])
            for size in range(1, len(text) + 1):
                distinct.add((row.agent, row.prompt[5], text[:size]))
        assert sum(sizes) == len(distinct)
    else:
        longest = max(len(row.prompt) + len(row.tokens) for row in rows)
        assert max(sizes) < max(limit, longest)
    assert_same_scores(scored(base, rows, frozen=rank > 0), expected)


@pytest.mark.parametrize("impossible", [-math.inf, torch.finfo(torch.float32).min])
@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_the_entropy_leaves_out_what_a_model_rules_out(impossible, temperature):
    """And a mixed precision does not round it."""
    sampling = Sampling(temperature, 0, 1.0, 1)
    logits = torch.randn(4, 50) + 20
    uniforms = torch.rand(4, dtype=torch.float64)
    masked = F.pad(logits, (0, 9), value=impossible)
    expected = choose(logits, uniforms, sampling)[2]
    with torch.autocast("cpu", torch.bfloat16):
        assert_close(choose(masked, uniforms, sampling)[2], expected)


@pytest.mark.parametrize("scale", [0.0, 1.0, 8.0])  # of the logits: flat to peaked
@pytest.mark.parametrize("share", [1.0, 1e-4])  # of the tokens that are possible
def test_a_draw_is_the_exact_inverse_of_a_number_nearby(scale, share):
    """Among 150,000 tokens, whose sum errs by 150,000 roundings. No impossible one is drawn."""
    torch.manual_seed(0)
    mass = (scale * torch.randn(150_000)).softmax(0) * (torch.rand(150_000) < share)
    numbers = uniforms(100)
    numbers[0] = 0
    tokens = draw(mass.expand(100, -1), numbers)
    assert mass[tokens].all()
    ends = np.cumsum(mass.numpy(), dtype=np.longdouble)
    starts = np.append(0, ends[:-1])
    points = numbers.numpy() * ends[-1]
    near = 150_000 * torch.finfo(torch.float64).eps
    assert (starts[tokens] <= points + near).all()
    assert (ends[tokens] >= points - near).all()


def test_warp_against_literals():
    logits = torch.tensor([2.0, 1.0, 0.0, -1.0])  # softmax .644 .237 .087 .032
    low = -math.inf
    cases = [  # temperature, top-k, top-p
        ((1, 2, 1), [2, 1, low, low]),
        ((4, 0, 0.5), [0.5, 0.25, low, low]),  # temperature first: .35 .28 .21 .17
        ((1, 2, 0.7), [2, low, low, low]),  # of the two that top-k left: .73 .27
    ]
    for options, want in cases:
        assert warp(logits, Sampling(*options, 1)).tolist() == want, options
    kept = warp(logits, Sampling(1, 1, 1, 1), torch.tensor([3]))
    assert kept.tolist() == [2, low, low, -1]


def sorted_nucleus(logits, top_p):
    """What top-p keeps of one row, from the definition: tokens in order of their probability, until
    those before have the mass; and whatever is exactly as likely as the last of them."""
    order = logits.argsort(descending=True).tolist()
    mass = logits.double().softmax(-1)
    before = 0.0
    least = -math.inf
    for token in order:
        if before >= top_p:
            break
        before += float(mass[token])
        least = float(logits[token])
    return logits >= least


@pytest.mark.parametrize("count, top_p", [(1, 0.5), (4, 0.05), (64, 0.9), (256, 0.999)])
def test_top_p_without_a_sort_keeps_what_the_sort_keeps(count, top_p):
    """Peaked rows, flat ones whose nucleus is far longer than what is ranked first, and rows of
    ties, also at the edge; one batch."""
    torch.manual_seed(count)
    rows = torch.randn(12, 1000, dtype=torch.float64)
    rows[:4] *= 8  # a few tokens hold the mass
    rows[4:8] *= 0.1  # nearly all tokens are needed
    rows[8] = 0.0  # every token is as likely
    rows[9] = (torch.arange(1000) % 7).double()
    rows[10, count - 1 :] = rows[10].min() - 1  # ties from the last of the ranked on
    rows[11, 1:] = -math.inf  # one token is possible
    kept = rows >= nucleus(rows, top_p, count)
    for row, found in zip(rows, kept, strict=True):
        assert torch.equal(found, sorted_nucleus(row, top_p))


def test_top_p_of_nearly_1_adds_nothing_to_top_k():
    torch.manual_seed(0)
    kept = warp(torch.randn(100, 999), Sampling(1.0, 50, 1 - 1e-7, 1)).isfinite()
    assert kept.sum(1).max() <= 50


def test_decoding_ends_when_every_row_has_its_stop(monkeypatch):
    """A stop may begin in the given beginning of the answer."""
    base = small_base()
    base.codec.end_at([f"0{chr(40 + token)}" for token in range(VOCAB)])
    passes = watch(monkeypatch, base.net, "forward")
    sampling = Sampling(1.0, 0, 1.0, 24)
    [responses] = decode(base, [Ask(0, (3, 4), "0")], uniforms(1, 2, 24), sampling)
    assert len(passes) < 6  # of 25
    assert [len(response.tokens) for response in responses] == [1, 1]


def test_a_model_without_probabilities_draws_nothing():
    """As after a step at a rate of 1e30."""
    base = small_base()
    base.head.weight.data.fill_(math.nan)
    with pytest.raises(Mistake, match="Qwen2ForCausalLM draws tokens without a probab"):
        sampled(base, PROMPTS, AGENTS[:2] * 2)


def test_an_agent_samples_as_a_team_of_its_temperature():
    """Decoded beside agents of others: 0 is greedy."""
    base = small_base([0, 1, 2])
    agents = [0, 0, 1, 2]
    together = sampled(base, PROMPTS, agents, sampling=Sampling([0.0, 0.5, 2.0], 5, 1.0, 8))
    for number, temperature in enumerate([0.0, 0.0, 0.5, 2.0]):
        alike = sampled(base, PROMPTS, agents, sampling=Sampling(temperature, 5, 1.0, 8))[number]
        for got, want in zip(together[number], alike, strict=True):
            assert got.tokens == want.tokens
            if temperature:
                assert_close(got.logps, want.logps)


def test_training_mode_cannot_be_switched_on():
    base = small_base()
    base.train()
    assert not any(module.training for module in base.model.modules())


@of_a_cpu
@pytest.mark.parametrize("bits", [16, 8, 4])
def test_a_small_base_passes_the_gradient_of_its_weights(bits, tmp_path):
    """On the way to the layers below: the same as of plain layers that hold its rounded weights."""
    small_model().save_pretrained(tmp_path)  # its first products have a bias
    transformers.AutoTokenizer.from_pretrained(EMBEDDED).save_pretrained(tmp_path)
    bases = []
    for kind in (bits, 32):
        torch.manual_seed(0)
        bases.append(load_base(str(tmp_path), [0], TeamOptions([], bits=kind)))
    small, rounded = bases
    layers = dict(small.model.named_modules())
    for name, layer in rounded.model.named_modules():
        if name.endswith("base_layer"):
            layer.weight.data = weight_of(layers[name])
    for base in bases:
        torch.manual_seed(1)
        move_adapters(base, 0.1)  # else nothing reaches A
    # On a CPU only the weights have 4 bits, and activations have 32.
    eps = EPS if bits == 4 else EPS16
    answers = sampled(small, PROMPTS, [0] * 4)
    rows = rows_of(PROMPTS, [0] * 4, answers)
    for got, response in zip(scored(small, rows), itertools.chain(*answers), strict=True):
        assert_close(got, response.logps, eps)
    got, want = (gradients(base, rows) for base in bases)
    assert got.keys() == want.keys()
    for name in want:
        assert got[name].dtype == torch.float32
        assert (got[name] - want[name]).norm() < rounding(eps) * want[name].norm(), name


def weight_of(layer):
    """The weights of a layer of 16, 8 or 4 bits, in 32."""
    if hasattr(layer.weight, "quant_state"):
        return bitsandbytes.functional.dequantize_4bit(layer.weight.data, layer.weight.quant_state)
    if hasattr(layer, "state"):
        return layer.state.CB.float() * layer.state.SCB[:, None] / 127
    return layer.weight.data.float()
