"""How much is done at once, and what happens where memory runs out.

python -m pytest tests/test_memory.py; bench/memory.py measures what a run takes
"""

import math

import pytest
import torch
from helpers import VOCAB, assert_same_gradients, small_base, watch
from test_policies import gradients, sampled, turns_of

from policies import decoding, logprobs, memory
from policies.logprobs import Row
from policies.shared_model import SharedModel

PROMPTS = [tuple(range(3, 12 - number)) for number in range(6)]
AGENTS = [0, 0, 0, 1, 1, 1]


def tokens(base):
    answers = sampled(base, PROMPTS, AGENTS)
    return [[response.tokens for response in responses] for responses in answers]


UNITS = 64 + VOCAB / 4  # of a token in a pass


def budget(monkeypatch, count):
    """From now on a decode takes so many of these prompts."""
    tokens = 2 * 9 + 2 * 8  # of each
    units = 64 * tokens + 4 * 2 * VOCAB
    monkeypatch.setattr(memory, "DECODE", {"cpu": count * units})


@pytest.mark.parametrize("count", [1, 4])
def test_a_decode_takes_as_many_prompts_as_memory_bears(count, monkeypatch):
    base = small_base()
    want = tokens(base)
    passes = watch(monkeypatch, decoding, "Rows")
    budget(monkeypatch, count)
    assert tokens(base) == want
    sizes = [len(prompts) for _, prompts, *_ in passes]
    assert sizes[0] == count
    assert sum(sizes) == 6


SHORTAGES = [
    torch.OutOfMemoryError("CUDA out of memory"),
    RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
]


def scarce(monkeypatch, module, name, most, error=SHORTAGES[0]):
    """From now on memory runs out where more than so many rows are run at once."""
    whole = getattr(module, name)

    def run(base, rows, *rest):
        if len(rows) > most:
            raise error
        return whole(base, rows, *rest)

    monkeypatch.setattr(module, name, run)


@pytest.mark.parametrize("error", SHORTAGES)
def test_where_memory_runs_out_less_is_done_at_once(error, monkeypatch):
    base = small_base()
    budget(monkeypatch, 8)
    rows = turns_of([0, 1])[::7]
    answers = tokens(base)
    whole = gradients(base, rows)
    scarce(monkeypatch, decoding, "Rows", 2, error)
    assert tokens(base) == answers
    assert base.halved == 2  # 8, 4, 2 prompts
    scarce(monkeypatch, logprobs, "lay_out", 1, error)
    monkeypatch.setattr(memory, "PASS", {"cpu": 400 * UNITS})
    halved = memory.halving([base], lambda: gradients(base, rows))
    assert_same_gradients(halved, whole)
    assert base.halved > 2


@pytest.mark.parametrize(
    "most, error, start, halved",  # 21: a team's work halved it once more than its own
    [(0, SHORTAGES[0], 0, 20), (0, SHORTAGES[0], 21, 21), (2, RuntimeError("assert"), 0, 0)],
)
def test_what_less_at_once_does_not_mend_stands(most, error, start, halved, monkeypatch):
    scarce(monkeypatch, decoding, "Rows", most, error)
    base = small_base()
    base.halved = start
    with pytest.raises(RuntimeError, match=str(error)):
        tokens(base)
    assert base.halved == halved


@pytest.mark.parametrize("tokens", [math.inf, 16, 15])  # of a pass
def test_checkpointing_runs_each_layer_again_and_gives_the_same_gradients(tokens, monkeypatch):
    """It is used where it is asked for, and where a pass cannot hold a prompt and its response."""
    base = small_base()
    rows = [Row(0, tuple(range(2, 11)), [5, 6, 7, 8, 9, 10, 1], 0.5), Row(1, (3, 4), [9, 1], 0.3)]
    want = gradients(base, rows)
    if tokens == math.inf:
        base.set_checkpointing()
    else:
        monkeypatch.setattr(memory, "PASS", {"cpu": (tokens + 0.1) * UNITS})
    layer = base.net.model.layers[0].mlp
    calls = watch(monkeypatch, layer, "forward")
    got = gradients(base, rows)
    assert len(calls) == 2  # one pass that is run again, two passes, one that is run again
    assert base.recomputing == (tokens != 16)
    assert_same_gradients(got, want)


def test_on_a_gpu_a_pass_holds_a_third_of_the_batch(monkeypatch):
    """Else it uses checkpointing. A CPU does not mind many passes."""
    base = small_base()
    monkeypatch.setattr(memory, "PASS", dict.fromkeys(("cpu", "cuda"), 500 * UNITS))
    used = []
    for place in ("cuda", "cpu"):
        monkeypatch.setattr(SharedModel, "device", torch.device(place))
        used += [memory.checkpoints(base, 404, count * 404) for count in (3, 4)]
    assert used == [False, True, False, False]


def test_checkpointing_is_refused_where_a_model_has_none():
    base = small_base()
    base.net.supports_gradient_checkpointing = False
    with pytest.raises(ValueError, match="Qwen2ForCausalLM does not support it"):
        base.set_checkpointing()
