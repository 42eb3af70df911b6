"""Rewards that ask a language model: python -m pytest tests/test_judging.py"""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers import assert_close, refused, rounding, small_base
from test_train import assert_same_run

import eval as evaluation
import train
from policies.judging import Judge
from training.scoring import RewardError, Scorer

ROOT = Path(train.__file__).parent
SMALL = ["--batch-size", "2", "--num-generations", "3", "--eval-limit", "2", "--max-steps", "2"]
SMALL += ["--max-new-tokens", "12"]
PLUGIN = """
import math
calls = []
def likely(item, responses, lm):
    found = [lm(str(next(iter(item.values()))), text) for text in responses]
    calls.append(responses)
    return {f"text_{i}": float(math.exp(x.mean())) if len(x) else 0.0 for i, x in enumerate(found)}
likely.maximum, likely.needs_model = 2.0, True
"""


@pytest.fixture
def base():
    return small_base((0, 1))


def plain(base, prompt: str, text: str) -> list[float]:
    """Per-token loop over the frozen base, through transformers' own forward pass."""
    base.net.set_attn_implementation("eager")
    base.model.base_model.disable_adapter_layers()
    ids, found = base.tokenizer(prompt)["input_ids"], []
    for token in base.tokenizer(text)["input_ids"]:
        for layer in base.adapters.layers:
            layer.__dict__.pop("forward", None)
        logits = base.model(input_ids=torch.tensor([ids])).logits[0, -1]
        found.append(float(logits.log_softmax(-1)[token]))
        ids = [*ids, token]
    return found


def test_answers_are_the_frozen_bases_log_probabilities(base):
    questions = [("HELLO", "WORLD"), ("HI", "ABCDEFG"), ("HELLO", "X"), ("HELLO", "")]
    answers = Judge(base, chat=False)(questions)
    for question, answer in zip(questions, answers, strict=True):
        assert_close(answer.tolist(), plain(base, *question))


def test_a_prompt_may_be_empty_and_a_text_too_long(base):
    judge = Judge(base, chat=False)
    assert len(judge([("", "ABC")])[0]) == 3
    with pytest.raises(ValueError, match="a reward asks of 604 tokens"):
        judge([("AB", "C" * 602)])


def scorer(reward, judge, maximum=99.0):
    reward.maximum, reward.needs_model = maximum, True
    return Scorer(reward, judge)


def test_each_distinct_question_is_answered_once():
    """With G samples of two agents that is 2 G texts and not G^2 pairs, in one batch."""
    asked = []

    def judge(questions):
        asked.append(questions)
        return [np.full(3, float(len(text))) for _, text in questions]

    def reward(item, responses, lm):
        return sum(lm(item["prompt"], text).sum() for text in responses)

    joints = [({"prompt": "p"}, ["a" * i, "b" * j]) for i in range(1, 6) for j in range(1, 6)]
    parts = scorer(reward, judge)(joints)
    assert len(asked) == 1
    assert len(asked[0]) == len(set(asked[0])) == 10
    assert [p["reward"] for p in parts] == [3.0 * (i + j) for i in range(1, 6) for j in range(1, 6)]


def test_a_question_may_depend_on_an_answer():
    def judge(questions):
        return [np.array([-1.0 * len(prompt)]) for prompt, _ in questions]

    def reward(item, responses, lm):
        first = lm("four", responses[0])
        second = lm("x" * int(-first[0]), responses[1])  # zeros while the first is not known
        return float(first[0] + second[0])

    assert scorer(reward, judge)([({}, ["a", "b"])]) == [{"reward": -8.0}]


def test_what_is_raised_before_an_answer_is_known_does_not_count():
    def reward(item, responses, lm):
        return 1 / float(lm("p", responses[0])[0])  # of a zero, at first

    found = scorer(reward, lambda questions: [np.array([2.0])])
    assert found([({}, ["a"])]) == [{"reward": 0.5}]
    broken = scorer(lambda item, responses, lm: lm("p", "t") + "x", lambda q: [np.array([2.0])])
    with pytest.raises(RewardError, match="the reward raised"):
        broken([({}, ["a"])])


@pytest.fixture
def plugin(tmp_path) -> str:
    (tmp_path / "likely.py").write_text(PLUGIN)
    return f"{tmp_path / 'likely.py'}:likely"


def metrics(path: Path) -> list[dict]:
    return [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]


def test_it_trains_is_logged_and_resumes_to_the_same_end(plugin, tmp_path):
    run = [*SMALL, "--reward", plugin, "--save-every", "1"]
    train.main([*run, "--run", str(tmp_path / "whole")])
    rows = metrics(tmp_path / "whole")
    assert all(row["seconds/judge"] > 0 and row["seconds/reward"] > 0 for row in rows)
    assert rows[0]["reward/text_0"] > 0
    train.main([*run, "--max-steps", "1", "--run", str(tmp_path / "half")])
    args = tmp_path / "half" / "args.json"
    args.write_text(args.read_text().replace('"max_steps": 1,', '"max_steps": 2,'))
    train.main(["--resume", str(tmp_path / "half")])
    assert_same_run(tmp_path / "half", tmp_path / "whole")


def test_the_judge_is_another_model_where_one_is_named(plugin, tmp_path, capsys):
    run = [*SMALL, "--max-steps", "1", "--reward", plugin]
    train.main([*run, "--run", str(tmp_path / "own")])
    train.main([*run, "--judge", str(ROOT / "tiny"), "--run", str(tmp_path / "named")])
    own, named = (metrics(tmp_path / name)[0] for name in ("own", "named"))
    assert own["reward/text_0"] == pytest.approx(named["reward/text_0"], rel=rounding())
    state = torch.load(tmp_path / "named" / "checkpoints" / "last.ckpt", weights_only=True)
    assert not [name for name in state["state_dict"] if name.startswith("judge")]
    bases = json.loads((tmp_path / "named" / "args.json").read_text())["bases"]
    assert set(bases) == {"tiny"}
    told = refused(capsys, *SMALL, "--lora-rank", "0", "--reward", plugin)
    assert "--lora-rank 0 leaves no frozen one: name one" in told


TEMPLATE = """{% if think is not false or n != 3 or name != "a=b" %}
{{ raise_exception("it was not told") }}{% endif %}{{ messages[0].content }}"""


def test_chat_templates_are_given_the_runs_arguments(plugin, tmp_path):
    """The team's and the judge's, in training and in evaluation."""
    model, run = tmp_path / "model", tmp_path / "run"
    shutil.copytree(ROOT / "tiny", model, ignore=shutil.ignore_patterns("*py*"))
    (model / "chat_template.jinja").write_text(TEMPLATE)
    argv = [*SMALL, "--max-steps", "1", "--model", str(model), "--judge", str(model)]
    argv += ["--reward", plugin, "--chat-template", "--run", str(run)]
    train.main([*argv, "--template-arg", "think=false", "n=3", "name=a=b"])
    flags = json.loads((run / "args.json").read_text())["args"]
    assert flags["template_arg"] == {"think": False, "n": 3, "name": "a=b"}
    evaluation.main(["--run", str(run), "--method", "trained", "--limit", "1"])


def score(capsys, *argv) -> str:
    evaluation.main(["--score", *map(str, argv)])
    return capsys.readouterr().out


def test_any_reward_scores_a_file(plugin, tmp_path, capsys):
    rows = [{"item": {"prompt": "def f():"}, "responses": [t, "b"], "mine": 7} for t in ("a", "ab")]
    file = tmp_path / "joint.jsonl"
    file.write_text("\n".join(map(json.dumps, rows)) + "\n\n")
    told = score(capsys, file, "--reward", plugin, "--samples", tmp_path / "out.jsonl")
    assert told.startswith("2 joint responses, of a maximum of 2")
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [line | {"reward": 0, "parts": 0} for line in lines] == [
        row | {"reward": 0, "parts": 0} for row in rows
    ]
    assert all(line["reward"] == pytest.approx(sum(line["parts"].values())) for line in lines)
    assert lines[0]["parts"]["text_1"] == pytest.approx(lines[1]["parts"]["text_1"], rel=rounding())
    pytest.importorskip("writing")
    paper = ["--task", "tldr", "--reward", "tldr_paper"]
    assert "structure" in score(capsys, file, *paper)
