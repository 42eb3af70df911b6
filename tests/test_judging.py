"""Rewards that ask a language model: python -m pytest tests/test_judging.py"""

import itertools
import re

import pytest
from helpers import (
    SMALL,
    assert_close,
    at_step,
    copied_model,
    refused,
    run_eval,
    score_alone,
    small_base,
    train_run,
    watch,
)
from test_magrpo import make, rewarding
from test_memory import UNITS, scarce
from test_policies import small_kind

from policies import judging, logprobs, memory
from policies.judging import PLAIN, likelihoods
from policies.logprobs import Row
from training.reward_runner import Scorer
from training.run_folder import read_records

PLUGIN = """
import math
def likely(calls, likelihoods):
    questions = [(item["prompt"], text) for item, responses in calls for text in responses]
    means = [math.exp(answer.mean()) if len(answer) else 0.0 for answer in likelihoods(questions)]
    return [dict(zip(["text_0", "text_1"], pair)) for pair in zip(means[::2], means[1::2])]
likely.maximum, likely.batch = 2.0, True
"""


@pytest.fixture
def base():
    return small_base()


@pytest.mark.parametrize("window", [None, 8])
def test_answers_are_the_frozen_bases_log_probabilities(window, monkeypatch):
    """Whatever is asked beside. Where memory runs out, it asks less at once. Each distinct question
    is answered once."""
    base = small_base(model=small_kind("mistral", sliding_window=window))
    scarce(monkeypatch, logprobs, "lay_out", 1)
    monkeypatch.setattr(memory, "PASS", {"cpu": 400 * UNITS})
    batches = watch(monkeypatch, judging, "score")
    questions = [("HELLO", "WORLD"), ("HI", "ABCDEFG"), ("H", "X"), ("", "ABC"), ("HELLO", "")]
    answers = likelihoods(base, [*questions[:3], *questions])[3:]
    assert {len(rows) for _, rows, *_ in batches} == {len(questions)}
    assert len(answers[-1]) == 0
    assert base.halved
    for (prompt, text), answer in zip(questions[:-1], answers, strict=False):
        ids = tuple(base.codec.ids(prompt, False)) or (1,)
        row = Row(0, ids, base.codec.literal(text))
        score_alone(base, [row], PLAIN, frozen=True)
        assert_close(answer, row.scored.double())


def test_a_text_may_not_be_too_long(base):
    with pytest.raises(ValueError, match="a reward asks of 604 tokens"):
        likelihoods(base, [("AB", "C" * 602)])


@pytest.mark.parametrize("processes", [1, 2])
def test_a_reward_has_all_responses_to_a_problem_at_once(processes, monkeypatch):
    """It is called once a turn, with the distinct ones, problem by problem. Two processes have
    whole problems."""
    turns = []

    def reward(calls):
        turns.append([(item["task_id"], *texts) for item, texts in calls])
        return [1.0] * len(calls)

    reward.batch = True
    module = make(reward, "--turns 2 --joint cross --batch-size 4", maximum=1.0)
    monkeypatch.setattr("policies.processes.gather", lambda message: [message])
    problems = []
    for rank in range(processes):
        monkeypatch.setattr("policies.processes.place", lambda rank=rank: (rank, processes))
        with at_step(0):
            module.play(4)
        for calls in turns:
            assert len({*calls}) == len(calls) > 4
            blocks = [name for name, _ in itertools.groupby(name for name, *_ in calls)]
            assert len(blocks) == len({*blocks}) == 4 // processes
        assert len(turns) == 2
        turns.clear()
        problems += blocks
    assert len({*problems}) == 4


def test_what_a_batch_reward_returns_is_checked():
    for returned, error in (
        ([1.0], "a list of 2, not [1.0]"),
        (None, "not None"),
        ([9.0, 0.0], "above"),
    ):
        reward = rewarding(lambda calls: returned, 1.0)  # noqa: B023
        reward.batch = True
        with pytest.raises(ValueError, match=re.escape(error)):
            Scorer(reward)([({}, ["a"]), ({}, ["b"])])


def test_an_argument_with_a_default_is_not_for_the_base():
    reward = rewarding(lambda calls, weight=0.5: [weight], 1.0)
    reward.batch = True
    assert Scorer(reward)([({}, ["a"])]) == [{"reward": 0.5}]


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
