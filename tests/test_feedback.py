"""Feedback between turns: what each mode tells, what it never tells, and the expert's endpoint.

python -m pytest tests/test_feedback.py
"""

import contextlib
import json
import logging
import re
import time
from pathlib import Path

import pytest
from helpers import LocalServer

from programs.feedback import Expert, ExpertError, tell

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


def both(mode: str, aux: str, main: str, limit: int = 0) -> tuple[str, str]:
    return tuple(tell(ITEM, [aux, main], mode, limit))


# --- modes ----------------------------------------------------------------------------------------


def test_plain_says_nothing():
    assert tell(ITEM, ["", "", ""], "plain") == ["", "", ""]


def test_tests_tell_state_use_and_count():
    assert both("tests", AUX, MAIN)[1].splitlines()[1:] == [
        "- solve: defined",
        "- aux, a partner's: defined",
        "- solve uses what aux returns",
        "- tests passed: 3 of 3",
    ]
    assert "tests passed: 1 of 3" in both("tests", AUX, FIVE)[0]
    assert "tests passed: 1 of 1" in both("tests", AUX, FIVE, limit=1)[0]
    main = MAIN.replace("    ", "    aux2(xs)\n    ")  # each helper is told of by itself
    main = tell(ITEM, [AUX, AUX.replace("aux", "aux2"), main], "tests", 0)[2]
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
    aux, main = both("tests", text, MAIN)
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
    assert f"- solve {says}" in both("tests", AUX, f"def solve(xs, k):\n    {body}")[1]


def test_tests_show_failed_assertions_with_their_error_up_to_the_limit():
    wrong = "def solve(xs, k):\n    return 1 if k > 1 else xs[0]"
    for text in both("tests", AUX, wrong):
        assert "- tests passed: 1 of 3" in text
        assert "- failed: assert solve([1, 2, 3], 2) == 5\n" in text  # a wrong value: no error
        assert "solve([], 1) == 0 raised IndexError" in text
        assert "solve([4], 1)" not in text  # it passed
    for text in both("tests", AUX, wrong, limit=1):
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
        told_aux, told_main = both("tests", aux, main)
        assert not of_helper & set(re.findall(r"\w+", told_main)), told_main
        assert not {"gibbon", "heron", "ibis"} & set(re.findall(r"\w+", told_aux)), told_aux
    assert "raised TypeError" in told_main


@pytest.mark.parametrize(
    "text", ["\x00", "\ud800", "(" * 5000, "def solve(xs, k):\n    return " + "-" * 400 + "1"]
)
def test_any_text_at_all_is_answered(text):
    for responses in ([text, MAIN], [AUX, text], [text], [text] * 3):
        told = tell(ITEM, responses, "tests", 0)
        assert len(told) == len(responses)
        assert all(isinstance(answer, str) for answer in told)


# --- the expert -----------------------------------------------------------------------------------


class Endpoint(LocalServer):
    """Plays a script: one step a request, the last one for all that follow. A step is text (the
    model's answer), or a function of the request handler."""

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
            handler.answer(200, completion(step))


def completion(text) -> bytes:
    return json.dumps({"choices": [{"message": {"role": "assistant", "content": text}}]}).encode()


def status(code: int, body: bytes = b"{}", **headers):
    return lambda handler: handler.answer(code, body, **headers)


def hang_up(handler):
    handler.connection.close()


def slow(handler):
    time.sleep(0.6)
    with contextlib.suppress(OSError):
        handler.answer(200, completion(EDITS))


EDITS = json.dumps({"aux": "sort it first", "solve": "return 7"})
KEY = "sk-very-secret"


@pytest.fixture(autouse=True)
def surroundings(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("MAGRPO_EXPERT_KEY", KEY)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-the-other")


def ask(endpoint, responses=(AUX, MAIN), **options):
    asked = Expert(endpoint.url, "big", **{"timeout": 0.4, "tries": 3} | options)
    return tell(ITEM, list(responses), "expert", expert=asked)


def cached(tmp_path) -> list[Path]:
    return [p for p in (tmp_path / "cache").rglob("*") if p.is_file()]


def test_a_request_holds_the_key_in_its_header_and_neither_tests_nor_reward(tmp_path):
    with Endpoint(EDITS) as endpoint:
        told = ask(endpoint)
        [(path, headers, body)] = endpoint.requests
    edits = ["An expert's edit of aux:\nsort it first", "An expert's edit of solve:\nreturn 7"]
    assert told == edits
    assert path == "/v1/chat/completions"
    assert headers["authorization"] == f"Bearer {KEY}"
    sent = json.loads(body)
    assert (sent.pop("model"), [*sent]) == ("big", ["messages"])
    text = "\n".join(message["content"] for message in sent["messages"])
    for shown in (ITEM["prompt"], AUX, MAIN):
        assert shown in text
    for hidden in (*ITEM["tests"], "solve([", "assert", "reward", "passed"):
        assert hidden not in text
    [kept] = cached(tmp_path)
    assert KEY not in kept.read_text() + kept.name


@pytest.mark.parametrize(
    "bad",
    [
        status(429, Retry_After=0.02),
        hang_up,
        slow,
        status(200, completion(None)),
        '{"aux": "cut in the mid',
        '{"aux": 3}',
    ],
)
def test_one_bad_answer_is_tried_again(bad):
    with Endpoint(bad, EDITS) as endpoint:
        assert ask(endpoint)[0] == "An expert's edit of aux:\nsort it first"
        assert len(endpoint.requests) == 2


def test_half_a_character_in_an_edit_reaches_no_prompt():
    half = '{"aux": "a \\ud83d b", "solve": "\ud83d"}'  # escaped in the JSON, and as it is
    with Endpoint(half) as endpoint:
        for _ in range(2):  # asked, and from the disk
            told = ask(endpoint)
            assert [text.encode() for text in told]
            assert "edit of aux:\na ? b" in told[0]
        assert len(endpoint.requests) == 1


def test_an_endpoint_that_stays_down_raises_one_clear_error():
    with Endpoint(hang_up) as endpoint:
        with pytest.raises(ExpertError, match=r"^the expert at http://.*/v1 fails: .*\Z"):
            ask(endpoint, tries=2)
        assert len(endpoint.requests) == 2
    with pytest.raises(ExpertError, match=r"Connection error.*refused"):  # nobody listens now
        ask(endpoint, tries=1)


def test_a_refusal_is_not_tried_again_and_shows_no_secret():
    body = json.dumps({"error": f"wrong key {KEY}\nfor big"}).encode()
    with Endpoint(status(401, body)) as endpoint:
        with pytest.raises(ExpertError, match=r"fails: .*401.*wrong key \[key\].*\Z") as raised:
            ask(endpoint)
        assert len(endpoint.requests) == 1
    assert KEY not in str(raised.value)


def test_a_redirect_to_another_host_does_not_get_the_key():
    with Endpoint(EDITS) as other, Endpoint(status(307, Location=f"{other.url}/x")) as endpoint:
        ask(endpoint)
        assert "authorization" in endpoint.requests[0][1]
        assert "authorization" not in other.requests[0][1]
        assert KEY not in str(other.requests)


def test_answers_are_kept_whole_or_not_at_all(tmp_path, monkeypatch, caplog):
    with Endpoint(EDITS) as endpoint:
        first = ask(endpoint)
        assert ask(endpoint) == first
        assert len(endpoint.requests) == 1  # another Expert, the same answer from the disk
        (kept,) = cached(tmp_path)
        for damaged in (b"", b"\xff"):
            kept.write_bytes(damaged)
            assert ask(endpoint) == first
        assert len(endpoint.requests) == 3
        assert ask(endpoint, [AUX, FIVE])
        assert len(endpoint.requests) == 4  # another program, another question
        assert len(cached(tmp_path)) == 2  # and no draft is left
        monkeypatch.setenv("XDG_CACHE_HOME", str(kept))  # no folder: that is no reason to stop
        with caplog.at_level(logging.WARNING):
            assert ask(endpoint) == first
    assert "cannot keep the expert's answer" in caplog.text


def test_urls_and_keys(monkeypatch):
    for url in ("http://h:1/v1", "http://h:1/v1/", "http://h:1/v1/chat/completions"):
        assert Expert(url, "m").url == "http://h:1/v1"
    for url in ("https://me:secret@host/v1", "https://host/v1?key=secret"):
        with pytest.raises(ValueError, match="a key belongs into the environment") as raised:
            Expert(url, "big")
        assert "secret" not in str(raised.value)
    monkeypatch.setenv("MAGRPO_EXPERT_KEY", f"{KEY}\nX: y")
    with pytest.raises(ValueError, match="holds unusable characters") as raised:
        Expert("http://h/v1", "m")
    assert KEY not in str(raised.value)
    monkeypatch.delenv("MAGRPO_EXPERT_KEY")
    assert Expert("http://h/v1", "m").key == "sk-the-other"
    monkeypatch.delenv("OPENAI_API_KEY")
    with Endpoint(EDITS) as endpoint:  # a server of one's own needs no key
        assert ask(endpoint)
