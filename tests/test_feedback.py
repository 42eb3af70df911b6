"""Feedback between turns: what each mode tells, what it never tells, and the expert's endpoint.

python -m pytest tests/test_feedback.py
"""

import json
import re
import time
from pathlib import Path

import openai
import pytest
from helpers import LocalServer

from programs.feedback import Expert, configured
from tasks import Coop

ITEM = {
    "task_id": "largest",
    "prompt": 'def solve(xs, k):\n    """The sum of the k largest."""\n',
    "entry_point": "solve",
    "setup": "import math",
    "tests": [
        "assert solve([1, 2, 3], 2) == 5",
        "assert solve([], 1) == 0",
        "assert solve([4], 1) == 4",
    ],
}
AUX = "def aux(xs, k):\n    return sorted(xs)[-k:]"
MAIN = "def solve(xs, k):\n    return sum(aux(xs, k))"
FIVE = "def solve(xs, k):\n    return 5"


def told(responses: list[str], limit: int = 0) -> list[str]:
    return configured("tests", limit, None, None)(ITEM, responses)


# --- modes ----------------------------------------------------------------------------------------


def test_plain_says_nothing():
    assert configured("plain", 1, None, None)(ITEM, ["", "", ""]) == ["", "", ""]


def test_tests_tell_state_use_and_count():
    assert told([AUX, MAIN])[1].splitlines()[1:] == [
        "- solve: defined",
        "- aux, a partner's: defined",
        "- solve uses what aux returns",
        "- tests passed: 3 of 3",
    ]
    assert "tests passed: 1 of 3" in told([AUX, FIVE])[0]
    assert "tests passed: 1 of 1" in told([AUX, FIVE], limit=1)[0]
    main = MAIN.replace("    ", "    aux2(xs)\n    ")  # each helper is told of by itself
    main = told([AUX, AUX.replace("aux", "aux2"), main])[2]
    assert "solve uses what aux returns" in main
    assert "solve calls aux2, but does not use what it returns" in main


@pytest.mark.parametrize(
    ("text", "own"),
    [
        ("I will not write it.", "missing"),
        ("def aux(xs):\n    xs.sort()", "defined, but returns no value"),
        ("def aux(xs):\nreturn xs", "does not parse"),
        ("import functools\naux = functools.partial(pow, 'text')", "defined"),
    ],
)
def test_state_of_a_helper(text, own):
    aux, main = told([text, MAIN])
    assert f"- aux: {own}" in aux
    assert f"- aux, a partner's: {own}" in main
    assert "tests passed: 0 of 3" in main


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("# aux(xs, k)\n    return 'aux(xs)'", "never calls aux"),
        ("y = aux(xs, k)\n    return 1", "calls aux, but does not use what it returns"),
        ("aux(xs, k)\n    return aux(xs, k)[0]", "uses what aux returns"),
        ("x = aux(xs, k)\n    return x", "only passes on what aux returns"),
    ],
)
def test_use_of_the_helper(body, says):
    assert f"- solve {says}" in told([AUX, f"def solve(xs, k):\n    {body}"])[1]


def test_tests_show_failed_assertions_with_their_error_up_to_the_limit():
    wrong = "def solve(xs, k):\n    return 1 if k > 1 else xs[0]"
    for text in told([AUX, wrong]):
        assert "- tests passed: 1 of 3" in text
        assert "- failed: assert solve([1, 2, 3], 2) == 5\n" in text  # a wrong value: no error
        assert "solve([], 1) == 0 raised IndexError" in text
        assert "solve([4], 1)" not in text  # it passed
    for text in told([AUX, wrong], limit=1):
        assert "tests passed: 0 of 1" in text
        assert "solve([], 1)" not in text


def test_a_partners_words_never_come_through():
    aux = (
        "# zebra comment\ndef aux(walrus, badger=1):\n    '''otter'''\n"
        "    ferret = {'stoat': walrus}\n    raise KeyError('weasel said ' + str(ferret['lynx']))"
    )
    of_helper = {"zebra", "walrus", "badger", "otter", "ferret", "stoat", "weasel", "lynx"}
    no_arguments = "def solve(xs, k):\n    return aux()"
    for main in ("def solve(xs, k):\n    return aux(xs).gibbon + heron(k)\n# ibis", no_arguments):
        told_aux, told_main = told([aux, main])
        assert not of_helper & set(re.findall(r"\w+", told_main)), told_main
        assert not {"gibbon", "heron", "ibis"} & set(re.findall(r"\w+", told_aux)), told_aux
    assert "raised TypeError" in told_main


@pytest.mark.parametrize(
    "text", ["\x00", "\ud800", "(" * 5000, "def solve(xs, k):\n    return " + "-" * 400 + "1"]
)
def test_any_text_at_all_is_answered(text):
    for responses in ([text, MAIN], [AUX, text], [text], [text] * 3):
        answers = told(responses)
        assert len(answers) == len(responses)
        assert all(isinstance(answer, str) for answer in answers)


NAMED = """
class zebra(KeyError): pass
class otter(Exception): __module__ = "builtins"
def aux(xs, k):
    raise otter("weasel: said") if xs else zebra("stoat")"""


def test_a_partner_chooses_no_name_of_an_exception():
    texts = "\n".join(told([NAMED, MAIN]) + Coop().feedback(ITEM, [NAMED, MAIN]))
    assert not {"zebra", "otter", "weasel", "stoat"} & set(re.findall(r"\w+", texts)), texts
    assert "solve([], 1) == 0 raised KeyError" in texts
    assert "# passed 0 of 3, Exception" in texts


# --- the expert -----------------------------------------------------------------------------------


class Endpoint(LocalServer):
    """Plays a script: one step a request, the last one for all that follow. A step is a text, or a
    function of the request handler."""

    def __init__(self, *script):
        super().__init__()
        self.script = script
        self.requests = []  # (path, headers, body)
        self.url = f"{self.url}/v1"

    def respond(self, handler, body):
        with self.lock:
            headers = {name.lower(): value for name, value in handler.headers.items()}
            self.requests.append((handler.path, headers, body))
            step = self.script[min(len(self.requests), len(self.script)) - 1]
        if callable(step):
            step(handler)
        else:
            message = {"role": "assistant", "content": step}
            handler.answer(200, json.dumps({"choices": [{"message": message}]}).encode())


def busy(handler):
    handler.answer(429, b"{}", Retry_After=0.02)


def hang_up(handler):
    handler.connection.close()


def slow(handler):
    time.sleep(0.6)


EDITS = json.dumps({"aux": "sort it first", "solve": "return 7"})
AUX_EDIT = "An expert's edit of aux:\nsort it first"
KEY = "sk-very-secret"


@pytest.fixture(autouse=True)
def surroundings(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("no_proxy", "127.0.0.1")


def ask(endpoint, responses=(AUX, MAIN)):
    return Expert(endpoint.url, "big", timeout=0.4, retries=2)(ITEM, list(responses))


def kept_answers(home: Path) -> list[Path]:
    return list((home / ".cache/magrpo/expert").iterdir())


def test_a_request_holds_the_key_in_its_header_and_neither_tests_nor_reward(tmp_path):
    with Endpoint(EDITS) as endpoint:
        assert ask(endpoint) == [AUX_EDIT, "An expert's edit of solve:\nreturn 7"]
        [(path, headers, body)] = endpoint.requests
    assert path == "/v1/chat/completions"
    assert headers["authorization"] == f"Bearer {KEY}"
    sent = json.loads(body)
    assert (sent.pop("model"), [*sent]) == ("big", ["messages"])
    text = "\n".join(message["content"] for message in sent["messages"])
    for shown in (ITEM["prompt"], AUX, MAIN):
        assert shown in text
    for hidden in (*ITEM["tests"], "solve([", "assert", "reward", "passed"):
        assert hidden not in text
    [kept] = kept_answers(tmp_path)
    assert KEY not in kept.read_text() + kept.name


@pytest.mark.parametrize("bad", [busy, hang_up, slow])
def test_a_bad_endpoint_is_tried_again(bad):
    with Endpoint(bad, EDITS) as endpoint:
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
    with Endpoint(answer) as endpoint:
        for _ in range(2):  # another Expert, the same answer from the disk
            assert ask(endpoint)[0] == edit
        assert len(endpoint.requests) == 1
        ask(endpoint, [AUX, FIVE])
        assert len(endpoint.requests) == 2  # another program, another question
    assert len(kept_answers(tmp_path)) == 2


def test_an_endpoint_that_stays_down_or_refuses_raises(monkeypatch):
    with Endpoint(hang_up) as endpoint:
        with pytest.raises(openai.APIConnectionError):
            ask(endpoint)
        assert len(endpoint.requests) == 3
    refusal = Endpoint(lambda handler: handler.answer(401, b"{}"))
    with refusal as endpoint, pytest.raises(openai.AuthenticationError):
        ask(endpoint)
    assert len(refusal.requests) == 1
    monkeypatch.delenv("OPENAI_API_KEY")
    with Endpoint(EDITS) as endpoint:  # a server of one's own needs no key
        assert ask(endpoint)[0] == AUX_EDIT
