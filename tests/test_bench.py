"""What the bench scripts stand on: python -m pytest tests/test_bench.py"""

import sys

import pytest

from bench import engine
from bench.flops import count_tokens, model_flops
from policies.model_names import EMBEDDED


@pytest.mark.parametrize("trained, per_parameter", [("adapters", 6), ("full", 8)])
def test_model_flops_are_those_of_a_count_by_hand(trained, per_parameter):
    prompt_tokens = 3 + 2 * (3 + 5)  # the first turn's node, and one for each of its 2 samples
    response_tokens = 2 * 5 + 2 * 2 * 5
    tokens = count_tokens(prompt=3, group=2, response=5, turns=2)
    assert tokens == (prompt_tokens, response_tokens)
    by_hand = per_parameter * (19 * 100 + 30 * (100 + 10))
    assert model_flops(100, 10, *tokens, trained) == by_hand


def test_the_decoders_of_an_engine_bench_answer_in_full(monkeypatch, capsys):
    """It asserts that no response of the embedded model, which likes to end early, does."""
    argv = (
        f"bench.engine --model {EMBEDDED} --prompts 2 --samples 2 --length 20 --tokens 8 --rounds 1"
    )
    monkeypatch.setattr(sys, "argv", argv.split())
    engine.main()
    assert "\nours " in capsys.readouterr().out
