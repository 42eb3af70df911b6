"""The expert and the judge, models behind a server: a stub of one answers here.

python -m pytest tests/examples/test_expert.py
"""

import json
import re

import pytest
from helpers import LocalServer
from test_feedback import AUX, FIVE, ITEM, MAIN

import train
from examples import expert, judge
from examples.endpoint import Endpoint
from policies import Mistake
from training.plugins import make_task
from training.reward_runner import Scorer

# --- the expert -----------------------------------------------------------------------------------


class Stub(LocalServer):
    """Answers with a text, or with what a function makes of a request. At first it may be busy."""

    def __init__(self, answer, busy=0):
        super().__init__()
        self.answer = answer
        self.busy = busy  # requests that it refuses
        self.requests = []  # (path, headers, body)
        self.url = f"{self.url}/v1"

    def respond(self, handler, body):
        with self.lock:
            self.requests.append((handler.path, handler.headers, body))
            is_busy = len(self.requests) <= self.busy
        if is_busy:
            handler.answer(503, {})
            return
        text = self.answer(body) if callable(self.answer) else self.answer
        handler.answer(200, {"choices": [{"message": {"role": "assistant", "content": text}}]})


EDITS = json.dumps({"aux": "sort it first", "solve": "return 7"})
AUX_EDIT = "An expert's edit of aux:\nsort it first"
KEY = "sk-very-secret"


@pytest.fixture(autouse=True)
def surroundings(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("no_proxy", "127.0.0.1")


def ask(stub, responses=(AUX, MAIN)):
    return expert.edits(Endpoint(stub.url, "big"), ITEM, list(responses))


def kept_answers(home):
    return list((home / ".cache/magrpo/expert").iterdir())


def test_a_request_holds_the_key_in_its_header_and_neither_tests_nor_reward(tmp_path):
    with Stub(EDITS) as endpoint:
        assert ask(endpoint) == [AUX_EDIT, "An expert's edit of solve:\nreturn 7"]
    [(path, headers, body)] = endpoint.requests
    assert path == "/v1/chat/completions"
    assert headers["authorization"] == f"Bearer {KEY}"
    sent = json.loads(body)
    text = "\n".join(message["content"] for message in sent.pop("messages"))
    assert sent == {"model": "big"}
    assert all(shown in text for shown in (ITEM["prompt"], AUX, MAIN))
    assert not any(hidden in text for hidden in ("solve([", "assert", "reward", "passed"))
    [kept] = kept_answers(tmp_path)
    assert KEY not in kept.read_text() + kept.name


@pytest.mark.parametrize(
    "answer, edit",
    [
        (f"Sure:\n```json\n{EDITS}\n```", AUX_EDIT),
        ('{"aux": "cut in the mid', "No edit of aux."),
        ('{"aux": 3}', "No edit of aux."),
        ('{"aux": " "}', "No edit of aux."),
        (json.dumps({"aux": "x" * 5000}), f"An expert's edit of aux:\n{'x' * 2000}\n(cut)"),
        # half a character, escaped in the JSON: prompts cannot hold it
        ('{"aux": "a \\ud83d b"}', "An expert's edit of aux:\na ? b"),
    ],
)
def test_each_question_is_asked_once(tmp_path, answer, edit):
    with Stub(answer) as endpoint:
        assert ask(endpoint)[0] == ask(endpoint)[0] == edit  # another Expert reads it from the disk
        assert len(endpoint.requests) == 1
        ask(endpoint, [AUX, FIVE])
    assert len(endpoint.requests) == len(kept_answers(tmp_path)) == 2


def test_an_empty_answer_is_not_kept():
    with Stub(None) as endpoint:
        assert ask(endpoint)[0] == ask(endpoint)[0] == "No edit of aux."
        assert len(endpoint.requests) == 2


def test_a_server_that_is_down_is_named():
    nobody = Endpoint("http://127.0.0.1:9/v1", "big", retries=0)
    with pytest.raises(Mistake, match="the server at http://127"):
        nobody.ask("system", "user")


def test_the_recipe_s_task_takes_other_feedback():
    recipe = f"--task {expert.__file__}:HumanEval --turns 2 --feedback tests"
    told = make_task(train.parse(recipe.split())).feedback(ITEM, [AUX, MAIN])
    assert all("tests passed: 1 of 1" in text for text in told)


# --- the judge ------------------------------------------------------------------------------------


def longer(body):
    """Prefer the longer answer, or rate it with its length."""
    *_, user = json.loads(body)["messages"]
    sizes = [len(text) for text in re.findall("Part 1:\n(x*)", user["content"])]
    if len(sizes) == 1:
        return f"I say {sizes[0]} of 10"
    if sizes[0] == sizes[1]:
        return "A tie."
    return "AB"[sizes[1] > sizes[0]]


@pytest.fixture
def requests(monkeypatch):
    """What a judge is sent that asks for patience at first."""
    judge.endpoint.cache_clear()
    with Stub(longer, busy=1) as stub:
        monkeypatch.setenv("JUDGE_URL", stub.url)
        monkeypatch.setenv("JUDGE_MODEL", "m")
        yield stub.requests
    judge.endpoint.cache_clear()


def judged(reward, joints):
    return [parts["reward"] for parts in Scorer(reward)(joints)]


def test_a_judge_compares_the_responses_to_a_problem(requests):
    one, other = {"prompt": "one"}, {"prompt": "other"}
    joints = [(one, ["x" * size]) for size in (1, 3, 2)]
    joints += [(other, ["xxx"]), (other, ["xxx."]), ({"prompt": "alone"}, ["xx"])]
    assert judged(judge.pairwise, joints) == [0.0, 1.0, 0.5, 0.5, 0.5, 0.5]
    assert len(requests) == 3 + 2 + 1  # a failed one is asked again
    assert judged(judge.pairwise, joints[:3]) == [0.0, 1.0, 0.5]
    assert len(requests) == 6  # from its file


@pytest.mark.parametrize(
    "answer, share",
    [
        ("A", 1.0),
        ("B is better.", 0.0),
        ("**Answer: B**", 0.0),
        ("<think>\nA or B?\n</think>\n\nA", 1.0),
        ("A tie", 0.5),
        ("A careful reader prefers B.", 0.5),
        ("T", 0.5),
    ],
)
def test_a_judge_decides_by_a_letter(requests, monkeypatch, answer, share):
    monkeypatch.setattr(judge.endpoint(), "ask_all", lambda _, questions: [answer, "T"])
    assert judge.pairwise([({"prompt": "one"}, ["x"]), ({"prompt": "one"}, ["y"])])[0] == (
        share / 2 + 0.25
    )


def test_a_judge_that_decides_nothing_is_named(requests, monkeypatch, capfd):
    monkeypatch.setattr(judge.endpoint(), "ask_all", lambda *_: ["Both", "have merits."])
    joints = [({"prompt": "one"}, ["x"]), ({"prompt": "one"}, ["y"])]
    for reward in (judge.pairwise, judge.rubric):
        reward(joints)
        assert "decides nothing: 'Both'" in capfd.readouterr().err
    with pytest.raises(Mistake, match="an item's field prompt"):
        judge.pairwise([({"room": 3}, ["x"])])


def test_a_judge_rates_by_a_rubric(requests):
    joints = [({"prompt": "one", "rubric": "Is it long?"}, ["x" * size]) for size in (0, 4, 12)]
    assert judged(judge.rubric, joints) == [0.0, 0.4, 1.0]
    assert all(b"Rubric: Is it long?" in body for *_, body in requests)


def test_a_judge_says_what_it_needs(monkeypatch):
    judge.endpoint.cache_clear()
    monkeypatch.delenv("JUDGE_URL", raising=False)
    with pytest.raises(ValueError, match="'JUDGE_URL' in the environment"):
        judge.rubric([({"prompt": "one"}, ["x", "y"])])
