"""The expert and the judge, models behind a server: a stub of one answers here.

python -m pytest tests/examples/test_expert.py
"""

import json
import re
import sys
import time

import openai
import pytest
from helpers import LocalServer, refused
from test_feedback import AUX, FIVE, ITEM, MAIN

import train
from examples import expert, judge
from examples.endpoint import Endpoint
from training.plugins import make_task
from training.reward_runner import Scorer

# --- the expert -----------------------------------------------------------------------------------


class Stub(LocalServer):
    """Plays a script: one step a request, the last one for all that follow. A step is a text, or a
    function of the request handler and the body."""

    def __init__(self, *script):
        super().__init__()
        self.script = script
        self.requests = []  # (path, headers, body)
        self.url = f"{self.url}/v1"

    def respond(self, handler, body):
        with self.lock:
            self.requests.append((handler.path, handler.headers, body))
            step = self.script[min(len(self.requests), len(self.script)) - 1]
        if callable(step):
            step(handler, body)
        else:
            say(handler, step)


def say(handler, text):
    message = {"role": "assistant", "content": text}
    handler.answer(200, {"choices": [{"message": message}]})


def hang_up(handler, body):
    handler.connection.close()


def refuse(handler, body):
    handler.answer(401, {})


def busy(handler, body):
    handler.answer(503, {})


def slow(handler, body):
    time.sleep(2.5)
    handler.answer(200, {})


EDITS = json.dumps({"aux": "sort it first", "solve": "return 7"})
AUX_EDIT = "An expert's edit of aux:\nsort it first"
KEY = "sk-very-secret"


@pytest.fixture(autouse=True)
def surroundings(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("no_proxy", "127.0.0.1")


def ask(stub, responses=(AUX, MAIN)):
    return expert.edits(Endpoint(stub.url, "big", timeout=2, retries=1), ITEM, list(responses))


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
    for shown in (ITEM["prompt"], AUX, MAIN):
        assert shown in text
    for hidden in ("solve([", "assert", "reward", "passed"):
        assert hidden not in text
    [kept] = kept_answers(tmp_path)
    assert KEY not in kept.read_text() + kept.name


def test_a_slow_endpoint_is_asked_again():
    with Stub(slow, EDITS) as endpoint:
        assert ask(endpoint)[0] == AUX_EDIT
    assert len(endpoint.requests) == 2


@pytest.mark.parametrize(
    ("answer", "edit"),
    [
        (f"Sure:\n```json\n{EDITS}\n```", AUX_EDIT),
        ('{"aux": "cut in the mid', "No edit of aux."),
        ('{"aux": 3}', "No edit of aux."),
        ('{"aux": " "}', "No edit of aux."),
        (None, "No edit of aux."),
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


@pytest.mark.parametrize(
    ("bad", "error", "count"),
    [
        (hang_up, openai.APIConnectionError, 2),
        (refuse, openai.AuthenticationError, 1),
    ],
)
def test_an_endpoint_that_stays_down_or_refuses_raises(bad, error, count, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY")  # a server of one's own needs no key
    with Stub(bad, *[bad] * (count - 1), EDITS) as endpoint:
        with pytest.raises(error):
            ask(endpoint)
        assert len(endpoint.requests) == count
        assert ask(endpoint)[0] == AUX_EDIT


RECIPE = f"{expert.__file__}:HumanEval --turns 2 --feedback"


def test_the_recipes_task_needs_a_server_and_takes_other_feedback(capsys, monkeypatch):
    needs = "needs --task-arg expert_url=URL expert_model=NAME"
    assert needs in refused(capsys, "--task", RECIPE, "expert")
    server = "--task-arg expert_url=http://h/v1 expert_model=m"
    args = train.parse(f"--task {RECIPE} tests {server}".split())
    told = make_task(args).feedback(ITEM, [AUX, MAIN])
    assert all("tests passed: 1 of 1" in text for text in told)
    monkeypatch.setitem(sys.modules, "openai", None)
    assert "openai" in refused(capsys, "--task", RECIPE, "expert", server)


# --- the judge ------------------------------------------------------------------------------------


def longer(handler, body):
    """Prefer the longer answer, or rate it with its length."""
    *_, user = json.loads(body)["messages"]
    sizes = [len(text) for text in re.findall("Part 1:\n(x*)", user["content"])]
    if len(sizes) == 1:
        answer = f"I say {sizes[0]} of 10"
    elif sizes[0] == sizes[1]:
        answer = "T"
    else:
        answer = "AB"[sizes[1] > sizes[0]]
    say(handler, answer)


@pytest.fixture
def requests(monkeypatch):
    """What a judge is sent that asks for patience at first."""
    judge.endpoint.cache_clear()
    with Stub(busy, longer) as stub:
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


def test_a_judge_rates_by_a_rubric(requests):
    joints = [({"prompt": "one", "rubric": "Is it long?"}, ["x" * size]) for size in (0, 4, 12)]
    assert judged(judge.rubric, joints) == [0.0, 0.4, 1.0]
    assert all(b"Rubric: Is it long?" in body for *_, body in requests)


def test_a_judge_says_what_it_needs(monkeypatch):
    judge.endpoint.cache_clear()
    monkeypatch.delenv("JUDGE_URL", raising=False)
    with pytest.raises(ValueError, match="'JUDGE_URL' in the environment"):
        judge.rubric([({"prompt": "one"}, ["x", "y"])])
