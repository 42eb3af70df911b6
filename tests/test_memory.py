"""How much is done at once, and what a run says that it takes.

python -m pytest tests/test_memory.py; bench/memory.py measures what it really takes
"""

import pytest
import torch
from helpers import assert_close, small_base

import train
from policies import decoding, memory
from policies.decoding import decode
from policies.sampling import Sampling
from policies.scoring import pack
from running import estimate

PLAIN = Sampling(1.0, 0, 1.0, 8)


@pytest.mark.parametrize("count", [1, 2, 4, 6])
def test_a_decode_takes_as_many_prompts_as_memory_bears(count, monkeypatch):
    base, seen, whole = small_base(), [], decoding._decode
    prompts = [(3, 4, 5 + n) for n in range(6)]
    uniforms = torch.rand(6, 2, 8, dtype=torch.float64)
    want = decode(base, prompts, [0] * 6, uniforms, PLAIN)
    one = memory.decode_bytes(base, 3, 2, 8, PLAIN)
    base.memory = (count + 0.5) * one / memory.SHARE["cpu"] / 2**30
    monkeypatch.setattr(
        decoding, "_decode", lambda *what: seen.append(len(what[1])) or whole(*what)
    )
    got = decode(base, prompts, [0] * 6, uniforms, PLAIN)
    assert max(seen) == count
    assert sum(seen) == 6
    assert [[r.tokens for r in own] for own in got] == [[r.tokens for r in own] for own in want]


@pytest.mark.parametrize("count", [1, 2, 4])
def test_a_pass_over_prompts_takes_as_many_as_memory_bears(count, monkeypatch):
    """Parts of shorter prompts are padded to the longest of all."""
    base, seen = small_base(), []
    prompts = [tuple(range(3, 12 - n)) for n in range(6)]
    uniforms, agents = torch.rand(6, 2, 8, dtype=torch.float64), [0, 0, 0, 1, 1, 1]
    want = decode(base, prompts, agents, uniforms, PLAIN)
    with torch.no_grad():
        one = memory.activations(base, 9)
    monkeypatch.setattr(memory, "UPDATE_BYTES", {"cpu": int((count + 0.5) * one)})
    whole = base.prefill
    monkeypatch.setattr(base, "prefill", lambda *what: seen.append(len(what[0])) or whole(*what))
    got = decode(base, prompts, agents, uniforms, PLAIN)
    assert max(seen) == count
    assert sum(seen) == 6
    for mine, theirs in zip(got, want, strict=True):
        assert [r.tokens for r in mine] == [r.tokens for r in theirs]
        for one, other in zip(mine, theirs, strict=True):
            assert_close(one.logps, other.logps)


def test_a_prompt_takes_its_tokens_and_its_logits():
    """Two layers of two key heads of 8 units, four bytes each, keys and values; 24 tokens."""
    base, cut = small_base(), Sampling(1.0, 0, 0.9, 8)
    token, logit = 2 * 2 * 2 * 8 * 4, 24 * memory.LOGIT_BYTES[False]
    assert memory.decode_bytes(base, 10, 4, 50, PLAIN) == 210 * token + 4 * logit
    assert memory.decode_bytes(base, 10, 4, 50, cut) > 210 * token + 4 * logit
    base.to(torch.bfloat16)  # a CPU multiplies keys and values in single precision
    assert memory.decode_bytes(base, 10, 4, 50, PLAIN) == 210 * token + 4 * logit


def test_a_share_is_never_of_more_than_there_is(monkeypatch):
    base = small_base()
    whole = memory.share(base)
    assert 0 < whole < memory.host()
    base.memory = 10**6
    assert memory.share(base) == whole
    base.memory = 2.0
    assert memory.share(base) == 2**31 * memory.SHARE["cpu"]
    assert memory.update_bytes(base) == memory.UPDATE_BYTES["cpu"]  # more is no faster there
    base.memory = 2**-4
    assert memory.update_bytes(base) == 2**26 * memory.SHARE["cpu"] / 2


@pytest.fixture(scope="module")
def loaded():
    args = train.parse(["--eval-limit", "none", "--num-generations", "3", "--batch-size", "2"])
    return train.build(args)[0], args


def test_what_is_expected_grows_with_what_is_asked(loaded, monkeypatch):
    module, args = loaded
    monkeypatch.setattr(memory, "UPDATE_BYTES", {"cpu": 2**40})  # as on a card that has room

    def expected(**flags):
        return estimate.expected(module, type(args)(**vars(args) | flags))

    once, none = expected()
    assert none == 0
    assert expected(turns=2)[0] > 2.5 * once  # 3 more nodes of 3 for each of the first turn
    assert once < expected(turns=2, branching="chain")[0] < expected(turns=2)[0]
    assert expected(max_new_tokens=192)[0] > 1.5 * once
    assert expected(freeze=[0])[0] < once
    short, long = expected(eval_limit=1)[1], expected(eval_limit=10)[1]
    assert 0 < short < long
    assert expected(eval_limit=10, turns=2)[1] > long


def test_the_update_expects_the_passes_that_it_makes(loaded):
    """The largest of the micro-batches, not the whole budget: `pack` cuts into equal parts."""
    module, args = loaded
    (base,) = module.team.bases
    found = estimate.updated(base, args, [(2, 3, 64)])
    one = memory.cost(base, 64, args.max_new_tokens)
    largest = max(len(batch) for batch in pack([one] * 12))
    passes = (4 * memory.cost(base, 0, 64) + largest * one) * memory.update_bytes(base)
    assert found == passes + memory.beside_bytes(base, largest, 64, args.max_new_tokens, PLAIN)
    assert estimate.updated(base, type(args)(**vars(args) | {"freeze": [0, 1]}), [(2, 3, 64)]) == 0
