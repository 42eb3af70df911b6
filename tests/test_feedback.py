"""Feedback between turns: what each mode tells, what it never tells, and the expert's endpoint.

python -m pytest tests/test_feedback.py
"""

import json
import re
import time

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


def told(responses, limit=0):
    return configured("tests", limit, None, None)(ITEM, responses)


# --- modes ----------------------------------------------------------------------------------------

AUX2 = AUX.replace("aux", "aux2")
STATES = [  # responses, the reader, the lines before the tests
    ((AUX, MAIN), 1, "solve: defined; aux, a partner's: defined; solve uses what aux returns"),
    (("I will not write it.", MAIN), 0, "aux: missing; solve, a partner's: defined"),
    (
        ("def aux(xs):\n    xs.sort()", MAIN),
        0,
        "aux: defined, but returns no value; solve, a partner's: defined",
    ),
    (("def aux(xs):\nreturn xs", FIVE), 0, "aux: does not parse; solve, a partner's: defined"),
    (
        ("import functools\naux = functools.partial(pow, 'text')", FIVE + "# aux(xs, k)"),
        1,
        "solve: defined; aux, a partner's: defined; solve never calls aux",
    ),
    (
        (AUX, "def solve(xs, k):\n    x = aux(xs, k)\n    return x"),
        1,
        "solve: defined; aux, a partner's: defined; solve only passes on what aux returns",
    ),
    (
        (AUX, AUX2, MAIN.replace("    ", "    aux2(xs)\n    ")),
        2,
        "solve: defined; aux, a partner's: defined; aux2, a partner's: defined; solve uses what "
        "aux returns; solve calls aux2, but does not use what it returns",
    ),
]


@pytest.mark.parametrize(("responses", "reader", "states"), STATES)
def test_the_state_of_each_function_and_the_use_of_helpers(responses, reader, states):
    head, *lines = told([*responses])[reader].split("\n- ")
    assert head == "Feedback on the team's program:"
    assert "; ".join(lines).partition("; tests passed: ")[0] == states


def test_failed_assertions_with_their_error_up_to_the_limit():
    number = "def solve(xs, k):\n    return 1 if k > 1 else xs[0]"
    first = "failed: assert solve([1, 2, 3], 2) == 5"
    for limit, lines in (
        (1, ["tests passed: 0 of 1", first]),
        (0, ["tests passed: 1 of 3", first, "failed: assert solve([], 1) == 0 raised IndexError"]),
    ):
        for text in told([AUX, number], limit):
            assert text.split("\n- ")[-len(lines) :] == lines


KEY_ERROR = (
    "# zebra comment\ndef aux(walrus, badger=1):\n    '''otter'''\n"
    "    ferret = {'stoat': walrus}\n    raise KeyError('weasel said ' + str(ferret['lynx']))"
)
NAMED = """
class zebra(KeyError): pass
class otter(Exception): __module__ = "builtins"
def aux(xs, k):
    raise otter("weasel: said") if xs else zebra("stoat")"""
ANIMALS = {"zebra", "walrus", "badger", "otter", "ferret", "stoat", "weasel", "lynx"}
BIRDS = {"gibbon", "heron", "ibis"}


@pytest.mark.parametrize(
    ("aux", "main", "raised"),
    [
        (KEY_ERROR, "def solve(xs, k):\n    return aux(xs).gibbon + heron(k)\n# ibis", "KeyError"),
        (KEY_ERROR, "def solve(xs, k):\n    return aux()", "TypeError"),
        (NAMED, MAIN, "KeyError"),  # a partner chooses no name of an exception
    ],
)
def test_a_partners_words_never_come_through(aux, main, raised):
    texts = [*told([aux, main]), *Coop().feedback(ITEM, [aux, main])]
    for text, partners in zip(texts, (BIRDS, ANIMALS, ANIMALS, ANIMALS), strict=True):
        assert not partners & set(re.findall(r"\w+", text)), text
    assert f" raised {raised}" in texts[1]


@pytest.mark.parametrize(
    "text", ["\x00", "\ud800", "(" * 5000, "def solve(xs, k):\n    return " + "-" * 400 + "1"]
)
def test_any_text_at_all_is_answered(text):
    for responses in ([text, MAIN], [AUX, text], [text], [text] * 3):
        assert [type(answer) for answer in told(responses)] == [str] * len(responses)
    assert configured("plain", 1, None, None)(ITEM, [text] * 3) == [""] * 3


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
            self.requests.append((handler.path, handler.headers, body))
            step = self.script[min(len(self.requests), len(self.script)) - 1]
        if callable(step):
            step(handler)
        else:
            message = {"role": "assistant", "content": step}
            handler.answer(200, {"choices": [{"message": message}]})


def hang_up(handler):
    handler.connection.close()


def slow(handler):
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


def ask(endpoint, responses=(AUX, MAIN)):
    return Expert(endpoint.url, "big", timeout=2, retries=1)(ITEM, list(responses))


def kept_answers(home):
    return list((home / ".cache/magrpo/expert").iterdir())


def test_a_request_holds_the_key_in_its_header_and_neither_tests_nor_reward(tmp_path):
    with Endpoint(EDITS) as endpoint:
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
    with Endpoint(slow, EDITS) as endpoint:
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
        assert ask(endpoint)[0] == ask(endpoint)[0] == edit  # another Expert reads it from the disk
        assert len(endpoint.requests) == 1
        ask(endpoint, [AUX, FIVE])
    assert len(endpoint.requests) == len(kept_answers(tmp_path)) == 2


@pytest.mark.parametrize(
    ("bad", "error", "count"),
    [
        (hang_up, openai.APIConnectionError, 2),
        (lambda handler: handler.answer(401, {}), openai.AuthenticationError, 1),
    ],
)
def test_an_endpoint_that_stays_down_or_refuses_raises(bad, error, count, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY")  # a server of one's own needs no key
    with Endpoint(bad, *[bad] * (count - 1), EDITS) as endpoint:
        with pytest.raises(error):
            ask(endpoint)
        assert len(endpoint.requests) == count
        assert ask(endpoint)[0] == AUX_EDIT
