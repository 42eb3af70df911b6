"""Rewards that ask a language model: python -m pytest tests/test_judging.py"""

import itertools
from pathlib import Path

import numpy as np
import pytest
from helpers import (
    SMALL,
    assert_close,
    checkpoint_of,
    copied_model,
    read_json,
    refused,
    resume,
    rounding,
    run_eval,
    score_alone,
    small_base,
    train_run,
)
from test_memory import scarce

from policies import logprobs
from policies.judging import PLAIN, LikelihoodModel
from training.reward_runner import RewardError, Scorer
from training.run_folder import read_records

PLUGIN = """
import math
def likely(item, responses, lm):
    found = [lm(str(next(iter(item.values()))), text) for text in responses]
    return {f"text_{i}": float(math.exp(x.mean())) if len(x) else 0.0 for i, x in enumerate(found)}
likely.maximum, likely.needs_model = 2.0, True
"""


@pytest.fixture
def base():
    return small_base()


def test_answers_are_the_frozen_bases_log_probabilities(base, monkeypatch):
    """Where memory runs out, it asks less at once."""
    scarce(monkeypatch, logprobs, "lay_out", 1)
    monkeypatch.setattr(logprobs, "update_tokens", lambda base, *_: 400 / 2**base.halved)
    questions = [("HELLO", "WORLD"), ("HI", "ABCDEFG"), ("HELLO", "X"), ("HELLO", "")]
    judge = LikelihoodModel(base, chat=False)
    answers = judge(questions)
    assert len(answers.pop()) == 0
    assert base.halved
    for question, answer in zip(questions, answers, strict=False):
        row = judge.row(*question)
        score_alone(base, [row], PLAIN, frozen=True)
        assert_close(answer, row.scored.double())


def test_a_prompt_may_be_empty_and_a_text_too_long(base):
    judge = LikelihoodModel(base, chat=False)
    assert len(judge([("", "ABC")])[0]) == 3
    with pytest.raises(ValueError, match="a reward asks of 604 tokens"):
        judge([("AB", "C" * 602)])


def scorer(reward, judge, maximum=99.0):
    reward.maximum, reward.needs_model = maximum, True
    return Scorer(reward, judge)


def test_each_distinct_question_is_answered_once():
    """With G samples of two agents that is 2 G texts and not G^2 pairs, in a batch for each."""
    batches = []

    def judge(questions):
        batches.append(questions)
        return [np.full(3, float(len(text))) for _, text in questions]

    def reward(item, responses, lm):
        return sum(lm("p", text).sum() for text in responses)

    lengths = list(itertools.product(range(1, 6), repeat=2))
    parts = scorer(reward, judge)([({}, ["a" * i, "b" * j]) for i, j in lengths])
    assert [len(set(questions)) for questions in batches] == [5, 5]
    assert len(set(itertools.chain(*batches))) == 10
    assert [p["reward"] for p in parts] == [3.0 * (i + j) for i, j in lengths]


def test_a_call_ends_at_a_question_without_an_answer():
    """It is made again, even if the reward catches everything. No value is made up until then."""
    values = []

    def judge(questions):
        return [np.array([0.5 * len(prompt)]) for prompt, _ in questions]

    def reward(item, responses, lm):
        try:
            values.append(lm("four", "a")[0])
        except BaseException:
            return "nothing that counts"
        return float(lm("x" * int(8 / values[-1]), "b")[0])

    assert scorer(reward, judge)([({}, ["t"])]) == [{"reward": 2.0}]
    assert values == [2.0, 2.0]
    with pytest.raises(RewardError, match="the reward raised"):
        scorer(lambda item, responses, lm: lm("p", "t") + "x", judge)([({}, ["t"])])


@pytest.fixture
def plugin(tmp_path) -> str:
    (tmp_path / "likely.py").write_text(PLUGIN)
    return f"{tmp_path / 'likely.py'}:likely"


def first_step(path: Path) -> dict:
    return read_records(path / "metrics.jsonl")[0]


def test_the_judge_is_the_own_base_or_the_model_that_is_named(
    plugin, tmp_path, capsys, monkeypatch
):
    monkeypatch.chdir(tmp_path)  # tiny is found from every folder
    own = train_run(tmp_path / "own", SMALL, "--reward", plugin)
    named = train_run(tmp_path / "named", SMALL, "--reward", plugin, "--judge tiny")
    resume(named, "--max-steps 2 --judge tiny")
    run_eval("--run", named, "--judge tiny/half --method trained --limit 1 --greedy")
    values = first_step(own)
    assert values["reward/text_0"] > 0
    expected = pytest.approx(values["reward/text_0"], rel=rounding())
    assert first_step(named)["reward/text_0"] == expected
    state = checkpoint_of(named)
    assert not [name for name in state["state_dict"] if name.startswith("judge")]
    bases = read_json(named / "args.json")["bases"]
    assert set(bases) == {"tiny"}
    told = refused(capsys, SMALL, "--lora-rank 0 --reward", plugin)
    assert "--lora-rank 0 leaves no frozen one: name one" in told


TEMPLATE = """{% if think is not false or n != 3 or name != "a=b" %}
{{ raise_exception("it was not told") }}{% endif %}{{ messages[0].content }}"""


def test_chat_templates_are_given_the_runs_arguments(plugin, tmp_path):
    """The team's and the judge's, in training and in evaluation."""
    model = copied_model(tmp_path / "model")
    (model / "chat_template.jinja").write_text(TEMPLATE)
    argv = f"--model {model} --judge {model} --reward {plugin} --chat-template "
    argv += "--template-arg think=false n=3 name=a=b"
    run = train_run(tmp_path / "run", SMALL, argv)
    run_eval("--run", run, "--method trained --limit 1")
