"""The expert of --feedback expert: a larger model that suggests an edit of each agent's function.

Any endpoint that speaks OpenAI's chat completions will do. It is sent the problem and the functions
that the team wrote; never a test, a verdict or the reward. Every answer is kept on disk, so that a
run which is resumed or repeated asks nothing twice, and reads the same.
"""

import hashlib
import json
import logging
import os
import re
import threading
from collections import defaultdict
from contextlib import suppress
from pathlib import Path

KEYS = ("MAGRPO_EXPERT_KEY", "OPENAI_API_KEY")  # environment variables, the first that is set
TIMEOUT = 60.0  # seconds for one request
TRIES = 6  # requests until an endpoint counts as down, with waits of 0.5 to 8 seconds between them
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

    def __init__(self, url: str, model: str, *, timeout: float = TIMEOUT, tries: int = TRIES):
        self.url, self.model, self.tries = _base_url(url), model, tries
        self.key = next(filter(None, (os.environ.get(name, "").strip() for name in KEYS)), "")
        if not (self.key.isascii() and self.key.isprintable()):  # no header can hold it
            raise ValueError(f"the expert's key in {' or '.join(KEYS)} holds unusable characters")
        from openai import OpenAI  # takes a second, which other kinds of feedback need not pay

        self.client = OpenAI(  # which insists on a key; a server of one's own may have none
            base_url=self.url, api_key=self.key or "none", timeout=timeout, max_retries=tries - 1
        )
        home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        self.cache = Path(home) / "magrpo" / "expert"
        self.down = ""  # why the endpoint counts as down: the other threads need not find out
        self.lock, self.asking = threading.Lock(), defaultdict(threading.Lock)

    def edits(self, problem: str, functions: dict[str, str]) -> dict[str, str]:
        """An edit for each of the functions (code by name) that the expert would change.

        Raises ExpertError where the endpoint refuses, or stays down over all tries. An endpoint
        that works and a model that does not answer in JSON give no edits, and a warning.
        """
        parts = [f"Problem:\n{problem}"]
        parts += [f"Function {name}:\n{code[:MAX_CODE]}" for name, code in functions.items()]
        system = _INSTRUCTIONS.format(keys=", ".join(map(json.dumps, functions)))
        messages = [
            {"role": "system", "content": system},
            {"role": "user", "content": "\n\n".join(parts)},
        ]
        question = json.dumps([self.url, self.model, messages])
        path = self.cache / f"{hashlib.sha256(question.encode()).hexdigest()}.txt"
        with self.lock:
            asking = self.asking[path.name]
        with asking:  # the same question from two threads is asked once
            kept = path.read_text("utf-8", "replace") if path.is_file() else ""
            found, tries = _read_edits(kept, functions), self.tries
            while found is None and tries:
                text, tries = self._ask(messages), tries - 1
                if (found := _read_edits(text, functions)) is not None:
                    _keep(path, text)
        if found is None:
            logging.warning("the expert %s does not answer with the JSON asked for", self.model)
        return found or {}

    def _ask(self, messages: list[dict]) -> str:
        """The text of one answer, or ExpertError. The client repeats what may work at a later try:
        a connection that fails, a server that is busy (it says for how long) or broken."""
        import openai

        if self.down:
            raise ExpertError(self.down)
        try:  # no other options: some models refuse a temperature, others a limit by some name
            answer = self.client.chat.completions.create(model=self.model, messages=messages)
            text = answer.choices[0].message.content or ""
            return text.encode(errors="replace").decode()  # no half characters: prompts are UTF-8
        except openai.APIStatusError as error:
            why = f"HTTP {error.status_code}: {error.response.text}"
        except openai.OpenAIError as error:
            why = f"{error} {error.__cause__ or ''}"
        except (AttributeError, LookupError, TypeError, ValueError, RecursionError) as error:
            why = f"no chat completion in its answer ({type(error).__name__})"
        if self.key:  # a server may repeat it
            why = why.replace(self.key, "[key]")
        self.down = f"the expert at {self.url} fails: {' '.join(why.split())[:300]}"
        raise ExpertError(self.down)


def _base_url(url: str) -> str:
    if not re.fullmatch(r"https?://[^\s/@?#]+(/[^\s?#]*)?", url):
        raise ValueError(  # flags are written to args.json
            "--expert-url has to look like https://host/v1, and has to end after its path; a key "
            f"belongs into the environment, {KEYS[0]}"
        )
    return url.rstrip("/").removesuffix("/chat/completions")


def _read_edits(text: str, names) -> dict[str, str] | None:
    """The last JSON object in a text that has one of the names as a key; None without one."""
    decoder, found, start = json.JSONDecoder(), None, text.find("{")
    while start >= 0:
        end = start + 1
        with suppress(ValueError, RecursionError):
            value, end = decoder.raw_decode(text, start)
            edits = {name: value[name] for name in names if isinstance(value.get(name), str)}
            found = edits or found
        start = text.find("{", end)
    return found


def _keep(path: Path, text: str) -> None:
    draft = path.with_suffix(f".{os.getpid()}")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        draft.write_text(text, encoding="utf-8")
        os.replace(draft, path)
    except OSError as error:  # the answer is here all the same
        logging.warning("cannot keep the expert's answer in %s: %s", path.parent, error)
