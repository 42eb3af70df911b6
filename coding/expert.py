"""The expert of --feedback expert: a larger model that suggests an edit of each agent's function.

It speaks the chat completions of OpenAI's interface, which most servers offer. It is sent the
problem and the functions that the team wrote; never a test, a verdict or the reward. Every answer
is kept on disk, so that a run which is resumed or repeated asks nothing twice, and reads the same.
"""

import contextlib
import email.utils
import hashlib
import http.client
import json
import logging
import os
import random
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections import defaultdict
from pathlib import Path

KEYS = ("MAGRPO_EXPERT_KEY", "OPENAI_API_KEY")  # environment variables, the first that is set
TIMEOUT = 60.0  # seconds for one request
TRIES = 6  # requests until an endpoint counts as down
DELAY = 1.0  # seconds before the second try, doubled before each further one
MAX_DELAY = 120.0  # the longest wait, whatever Retry-After asks for
MAX_REPLY = 1 << 18  # bytes of an answer
MAX_CODE = 8_000  # characters of a function that are sent

_INSTRUCTIONS = """\
You are an expert reviewer of Python programs. The functions below are parts of one program. Each
was written by another author, and no author sees what the others wrote. Judge them together, then
suggest to each author an edit of that author's own function: corrected code, or what to change in
which line. Do not show an author another author's code. Answer with one JSON object and nothing
else. Its keys are {keys}; each value is a string, empty if that function is good as it is."""


class ExpertError(RuntimeError):
    """The expert's endpoint refused or stayed down. Ends the run, which saves its checkpoint."""


class Expert:
    """A model behind an endpoint. `edits` may be called from any number of threads.

    url: up to /v1, or the whole address that ends in /chat/completions. The key comes from the
    environment, and goes nowhere but into the request's header.
    """

    def __init__(self, url: str, model: str, *, timeout=TIMEOUT, tries=TRIES, delay=DELAY):
        self.url, self.model = _endpoint(url), model
        self.timeout, self.tries, self.delay = timeout, tries, delay
        self.key = next(filter(None, (os.environ.get(name, "").strip() for name in KEYS)), "")
        if not (self.key.isascii() and self.key.isprintable()):  # http.client would quote it
            raise ValueError(f"the expert's key in {' or '.join(KEYS)} holds unusable characters")
        home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        self.cache = Path(home) / "magrpo" / "expert"
        self.opener = urllib.request.build_opener(_NoRedirect)
        self.random = random.Random()  # not the run's: that one is seeded
        self.down = ""  # why the endpoint counts as down: the other threads need not find out
        self.lock, self.asking = threading.Lock(), defaultdict(threading.Lock)

    def edits(self, problem: str, functions: dict[str, str]) -> dict[str, str]:
        """An edit for each of the functions (code by name) that the expert would change.

        Raises ExpertError where the endpoint refuses, or stays down over all tries. An endpoint
        that works and a model that does not answer in JSON give no edits, and a warning.
        """
        parts = [f"Problem:\n{problem}"]
        parts += [f"Function {name}:\n{code[:MAX_CODE]}" for name, code in functions.items()]
        system = _INSTRUCTIONS.format(keys=", ".join(json.dumps(name) for name in functions))
        messages = [
            {"role": "system", "content": system},
            {"role": "user", "content": "\n\n".join(parts)},
        ]
        # Nothing else: some models refuse a temperature, others a limit by one name or the other.
        body = json.dumps({"model": self.model, "messages": messages}).encode()
        path = self.cache / f"{hashlib.sha256(self.url.encode() + body).hexdigest()}.json"
        with self.lock:
            asking = self.asking[path.name]
        with asking:  # the same question from two threads is asked once
            found, tries = _read_edits(_from_disk(path), functions), self.tries
            while found is None and tries:
                text, tries = self._ask(body), tries - 1
                if (found := _read_edits(text, functions)) is not None:
                    _to_disk(path, text)
        if found is None:
            logging.warning("the expert %s does not answer with the JSON asked for", self.model)
        return {name: text for name, text in (found or {}).items() if text.strip()}

    def _ask(self, body: bytes) -> str:
        """The text of one answer, after as many tries as it takes, or ExpertError."""
        why, wait = "", 0.0
        for number in range(self.tries):
            if number:
                jitter = self.random.uniform(0.75, 1.25)  # many threads would come back at once
                self._pause(max(wait, self.delay * 2 ** (number - 1) * jitter))
            self._go_on()
            wait = 0.0
            try:
                return self._post(body)
            except urllib.error.HTTPError as error:
                with error:
                    why = f"HTTP {error.code} {error.reason}: {self._excerpt(error)}"
                if error.code not in (408, 409, 425, 429) and error.code < 500:
                    self._give_up(f"refuses: {why}")
                wait = _retry_after(error.headers.get("Retry-After"))
            except (OSError, http.client.HTTPException) as error:
                why = f"{type(error).__name__}: {getattr(error, 'reason', error)}"
            except (ValueError, LookupError, TypeError, RecursionError) as error:
                why = f"no chat completion in its answer ({type(error).__name__})"
        self._give_up(f"does not answer after {self.tries} tries: {why}")

    def _post(self, body: bytes) -> str:
        headers = {"Content-Type": "application/json", "User-Agent": "magrpo"}
        if self.key:
            headers["Authorization"] = f"Bearer {self.key}"
        request = urllib.request.Request(self.url, body, headers)
        deadline, chunks, size = time.monotonic() + self.timeout, [], 0
        with self.opener.open(request, timeout=self.timeout) as response:
            while chunk := response.read1(1 << 16):
                chunks.append(chunk)
                size += len(chunk)
                if size > MAX_REPLY:
                    raise OSError(f"more than {MAX_REPLY} bytes")
                if time.monotonic() > deadline:
                    raise TimeoutError("timed out in the middle of an answer")
        text = json.loads(b"".join(chunks))["choices"][0]["message"]["content"]
        if not isinstance(text, str):
            raise TypeError("content is not text")
        return text.encode(errors="replace").decode()  # no half characters: prompts are UTF-8

    def _pause(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self._go_on()
            time.sleep(min(left, 0.2))

    def _go_on(self) -> None:
        """Raises ExpertError where another thread gave the endpoint up, or the run is over."""
        if self.down:
            raise ExpertError(self.down)
        if not threading.main_thread().is_alive():  # at exit, Python waits for all threads
            raise ExpertError("the run is over")

    def _give_up(self, why: str) -> None:
        self.down = f"the expert at {self.url} {self._scrub(why)}"
        raise ExpertError(self.down)

    def _excerpt(self, error: urllib.error.HTTPError) -> str:
        """The start of an error's body; a server may repeat the key there."""
        with contextlib.suppress(OSError, http.client.HTTPException):
            return " ".join(self._scrub(error.read(2000).decode(errors="replace")).split())[:200]
        return "(no text)"

    def _scrub(self, text: str) -> str:
        return text.replace(self.key, "[key]") if self.key else text


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """urllib would carry the key to wherever a redirect points."""

    def redirect_request(self, *_):
        return None


def _endpoint(url: str) -> str:
    parts = urllib.parse.urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("--expert-url has to look like https://host/v1")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise ValueError(  # flags are written to args.json
            f"--expert-url has to end after its path; a key belongs into the environment, {KEYS[0]}"
        )
    path = parts.path.rstrip("/").removesuffix("/chat/completions")
    return f"{parts.scheme}://{parts.netloc}{path}/chat/completions"


def _retry_after(value: str | None) -> float:
    """Seconds that a Retry-After header asks for: a number, or a date; 0 without one."""
    if not value:
        return 0.0
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = email.utils.parsedate_to_datetime(value).timestamp() - time.time()
        except ValueError:
            return 0.0
    return min(max(seconds, 0.0), MAX_DELAY)


def _read_edits(text: str, names) -> dict[str, str] | None:
    """The last JSON object in a text that has one of the names as a key; None without one."""
    decoder, found, start = json.JSONDecoder(), None, text.find("{")
    while start >= 0:
        end = start + 1
        with contextlib.suppress(ValueError, RecursionError):
            value, end = decoder.raw_decode(text, start)
            edits = {name: value[name] for name in names if isinstance(value.get(name), str)}
            found = edits or found
        start = text.find("{", end)
    return found


def _from_disk(path: Path) -> str:
    """A kept answer, or "": what is not there, or not whole, is asked for again."""
    with contextlib.suppress(OSError, ValueError, LookupError, TypeError):
        text = json.loads(path.read_text(encoding="utf-8"))["content"]
        return text if isinstance(text, str) else ""
    return ""


def _to_disk(path: Path, text: str) -> None:
    draft = path.with_name(f"{path.name}.{os.getpid()}.{threading.get_ident()}.tmp")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        draft.write_text(json.dumps({"content": text}), encoding="utf-8")
        os.replace(draft, path)
    except OSError as error:  # the answer is here all the same
        logging.warning("cannot keep the expert's answer in %s: %s", path.parent, error)
