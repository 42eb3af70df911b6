"""Rewards that ask a language model: python -m pytest tests/test_judging.py"""

import itertools

import pytest
import torch
from helpers import (
    SMALL,
    assert_close,
    copied_model,
    refused,
    run_eval,
    score_alone,
    small_base,
    train_run,
)
from test_memory import scarce
from test_policies import small_kind

from policies import judging, logprobs
from policies.judging import PLAIN, likelihoods
from policies.logprobs import Row
from training.reward_runner import Scorer
from training.run_folder import read_records

PLUGIN = """
import math
def likely(item, responses, answers):
    means = [math.exp(answer.mean()) if len(answer) else 0.0 for answer in answers]
    return dict(zip(["text_0", "text_1"], means))
def questions(item, responses):
    return [(item["prompt"], text) for text in responses]
likely.maximum, likely.questions = 2.0, questions
"""


@pytest.fixture
def base():
    return small_base()


@pytest.mark.parametrize("window", [None, 8])
def test_answers_are_the_frozen_bases_log_probabilities(window, monkeypatch):
    """Whatever is asked beside. Where memory runs out, it asks less at once."""
    base = small_base(model=small_kind("mistral", sliding_window=window))
    scarce(monkeypatch, logprobs, "lay_out", 1)
    monkeypatch.setattr(logprobs, "update_tokens", lambda base, *_: 400 / 2**base.halved)
    questions = [("HELLO", "WORLD"), ("HI", "ABCDEFG"), ("HELLO", "X"), ("", "ABC"), ("HELLO", "")]
    answers = likelihoods(base, questions)
    assert len(answers.pop(questions[-1])) == 0
    assert base.halved
    assert base.halved
    for (prompt, text), answer in answers.items():
        ids = tuple(base.codec.ids(prompt, False)) or (1, 1)
        row = Row(0, ids, base.codec.literal(text))
        score_alone(base, [row], PLAIN, frozen=True)
        assert_close(answer, row.scored.double())


def test_a_text_may_not_be_too_long(base):
    with pytest.raises(ValueError, match="a reward asks of 604 tokens"):
        likelihoods(base, [("AB", "C" * 602)])


def test_each_distinct_question_is_answered_once(base, monkeypatch):
    """With G samples of two agents that is 2 G texts and not G^2 pairs, in one batch."""
    batches = []

    def score(base, rows, sampling, frozen):
        batches.append(len(rows))
        for row in rows:
            row.scored = torch.full((3,), float(len(row.tokens)))

    def reward(item, responses, answers):
        return sum(answer.sum() for answer in answers)

    monkeypatch.setattr(judging, "score", score)
    reward.maximum = 99.0
    reward.questions = lambda item, responses: [("p", text) for text in responses]
    lengths = list(itertools.product(range(1, 6), repeat=2))
    parts = Scorer(reward, base)([({}, ["a" * i, "b" * j]) for i, j in lengths])
    assert batches == [10]
    assert [p["reward"] for p in parts] == [3.0 * (i + j) for i, j in lengths]


@pytest.fixture
def plugin(tmp_path):
    (tmp_path / "likely.py").write_text(PLUGIN)
    return f"{tmp_path / 'likely.py'}:likely"


TEMPLATE = """{% if think is not false or n != 3 or name != "a=b" %}
{{ raise_exception("it was not told") }}{% endif %}{{ messages[0].content }}"""


def test_a_run_asks_its_frozen_base_with_its_chat_template(plugin, tmp_path, capsys):
    """In training and in evaluation."""
    model = copied_model(tmp_path / "model")
    (model / "chat_template.jinja").write_text(TEMPLATE)
    argv = f"--model {model} --reward {plugin} --chat-template "
    argv += "--template-arg think=false n=3 name=a=b"
    run = train_run(tmp_path / "run", SMALL, argv)
    assert read_records(run / "metrics.jsonl")[0]["reward/text_0"] > 0
    run_eval("--run", run, "--method trained --limit 1")
    assert "--lora-rank 0 trains all weights" in refused(
        capsys, SMALL, "--lora-rank 0 --reward", plugin
    )
