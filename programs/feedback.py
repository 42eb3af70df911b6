"""What the agents of a coding team are told after a joint response: one function for every task.

--feedback plain    nothing: it is asked again
           tests    what is defined and parses, how main uses the helpers, how many of the first k
                    tests pass, and each of them that fails, with what it raised
           expert   an edit of its own function by a larger model, which sees no test

k is --feedback-tests (0: all). An agent is never shown a word of a partner's function: of an error
it is told the kind alone, since its message may quote that. The expert is asked to show no author
another's. In the authors' code for arXiv 2508.04652 tests is called level_feedback.
"""

import functools
import hashlib
import json
import logging
import os
import re
import textwrap
import threading
from collections.abc import Callable
from pathlib import Path

from programs import teams
from programs.extraction import Part
from programs.schemes import scheme_of

MODES = ("plain", "tests", "expert")
SHOWN = 5  # failed tests of one text: an agent's context is small
LINE = 200  # characters of a test
EDIT = 2_000  # characters of an expert's edit


def configured(
    mode: str, limit: int = 1, url: str | None = None, model: str | None = None
) -> Callable[[dict, list[str]], list[str]]:
    """`tell` with a run's flags. url and model, the expert's, do nothing in other modes: a flag
    file may hold them."""
    if limit != 1 and mode != "tests":
        raise ValueError("--feedback-tests goes with --feedback tests")
    if mode == "expert" and not (url and model):
        raise ValueError("--feedback expert needs --expert-url and --expert-model")
    expert = Expert(url, model) if mode == "expert" else None
    return functools.partial(tell, mode=mode, limit=limit, expert=expert)


def tell(
    item: dict, responses: list[str], mode: str, limit: int = 1, expert: "Expert | None" = None
) -> list[str]:
    """One text per agent on a joint response, "" where there is nothing to say. Thread-safe.

    limit: how many of the item's tests, from the first, the texts may rest on (0: all).
    """
    if mode == "plain":
        return [""] * len(responses)
    team = teams.team_parts(item, responses)
    own = [list(team)] if len(responses) == 1 else [[name] for name in team]
    if mode == "expert":
        texts = zip(team, responses * 2 if len(responses) == 1 else responses, strict=True)
        edits = expert.edits(item["prompt"], {n: team[n].source or text for n, text in texts})
        return [_edits(edits, names) for names in own]
    verdict = teams.verdict(item, responses)
    results = list(zip(item["tests"], verdict.passed, verdict.errors, strict=True))[: limit or None]
    messages = (["Feedback on the team's program:", *_levels(team, names)] for names in own)
    return ["\n- ".join([*lines, *_counted(results)]) for lines in messages]


def _edits(edits: dict[str, str], names: list[str]) -> str:
    parts = []
    for name in names:
        text = edits.get(name, "").strip()
        text = text if len(text) <= EDIT else f"{text[:EDIT]}\n(cut)"
        parts.append(f"An expert's edit of {name}:\n{text}" if text else f"No edit of {name}.")
    return "\n\n".join(parts)


def _levels(team: dict[str, Part], names: list[str]) -> list[str]:
    """The state of every function, an agent's own ones first, and how main uses the helpers."""
    *helpers, main = team
    lines = [f"{name}: {_state(team[name])}" for name in names]
    lines += [f"{name}, a partner's: {_state(team[name])}" for name in team if name not in names]
    if main in names and team[main].node:
        lines += [_usage(team[main], main, helper) for helper in helpers]
    return lines


def _state(part: Part) -> str:
    if part.broken:
        return "does not parse"
    if part.node is None:
        return "missing"
    return "defined" if part.returns else "defined, but returns no value"


def _usage(main: Part, name: str, helper: str) -> str:
    """How the main function uses a helper, as far as its text shows."""
    if helper not in main.reads:
        return f"{name} never calls {helper}"
    found = {
        "unused": f"calls {helper}, but does not use what it returns",
        "wrapper": f"only passes on what {helper} returns",
    }.get(scheme_of(main.source, name, frozenset({helper})), f"uses what {helper} returns")
    return f"{name} {found}"


def _counted(results: list[tuple[str, bool, str | None]]) -> list[str]:
    """How many tests passed, and each that did not with its error."""
    failed = [(test, error) for test, passed, error in results if not passed]
    lines = [f"tests passed: {len(results) - len(failed)} of {len(results)}"]
    for test, error in failed[:SHOWN]:
        kind = error.partition(":")[0]
        test = test if len(test) <= LINE else f"{test[:LINE]} (cut)"
        what = "" if kind == "AssertionError" else f" raised {kind}"
        lines.append(f"failed: {textwrap.indent(test, '  ').strip()}{what}")
    more = len(failed) - SHOWN
    return [*lines, f"and {more} more"] if more > 0 else lines


KEYS = ("MAGRPO_EXPERT_KEY", "OPENAI_API_KEY")  # environment variables, the first that is set

_INSTRUCTIONS = """\
You are an expert reviewer of Python programs. The functions below are parts of one program. Each
was written by another author, and no author sees what the others wrote. Judge them together, then
suggest to each author an edit of that author's own function: corrected code, or what to change in
which line. Do not show an author another author's code. Answer with one JSON object and nothing
else. Its keys are {keys}; each value is a string, empty if that function is good as it is."""


class ExpertError(RuntimeError):
    """The expert's endpoint refused or stayed down. Ends the run, which saves its checkpoint."""


class Expert:
    """A model behind an endpoint that speaks OpenAI's chat completions. It is sent the problem and
    the functions that the team wrote; never a test, a verdict or the reward. Every answer is kept
    on disk, so that a run which is resumed or repeated asks nothing twice, and reads the same.

    url: up to /v1, or the whole address that ends in /chat/completions. The key comes from the
    environment, and goes nowhere but into the request's header. After so many tries, with waits of
    0.5 to 8 seconds between them, the endpoint counts as down.
    """

    def __init__(self, url: str, model: str, timeout: float = 60.0, tries: int = 6):
        if not re.fullmatch(r"https?://[^\s/@?#]+(/[^\s?#]*)?", url):
            raise ValueError(  # flags are written to args.json
                "--expert-url has to look like https://host/v1, and has to end after its path; a "
                f"key belongs into the environment, {KEYS[0]}"
            )
        self.url = url.rstrip("/").removesuffix("/chat/completions")
        self.model, self.tries = model, tries
        self.key = next(filter(None, (os.environ.get(name, "").strip() for name in KEYS)), "")
        if not (self.key.isascii() and self.key.isprintable()):  # no header can hold it
            raise ValueError(f"the expert's key in {' or '.join(KEYS)} holds unusable characters")
        from openai import OpenAI  # takes a second, which other kinds of feedback need not pay

        self.client = OpenAI(  # which insists on a key; a server of one's own may have none
            base_url=self.url, api_key=self.key or "none", timeout=timeout, max_retries=tries - 1
        )
        home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        self.cache = Path(home) / "magrpo" / "expert"
        self.asking = {}  # a lock for each question

    def edits(self, problem: str, functions: dict[str, str]) -> dict[str, str]:
        """An edit for each of the functions (code by name) that the expert would change; none, and
        a warning, where it does not answer in JSON. ExpertError: the endpoint refuses or is down.
        """
        parts = [f"Problem:\n{problem}"]
        parts += [f"Function {name}:\n{code}" for name, code in functions.items()]
        system = _INSTRUCTIONS.format(keys=", ".join(map(json.dumps, functions)))
        messages = [
            {"role": "system", "content": system},
            {"role": "user", "content": "\n\n".join(parts)},
        ]
        question = json.dumps([self.url, self.model, messages])
        path = self.cache / f"{hashlib.sha256(question.encode()).hexdigest()}.txt"
        with self.asking.setdefault(path.name, threading.Lock()):  # asked once, not by two threads
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
        raise ExpertError(f"the expert at {self.url} fails: {' '.join(why.split())[:300]}")


def _read_edits(text: str, names) -> dict[str, str] | None:
    """What the JSON object in a text has under the names; None without any."""
    try:
        value = json.loads(text[text.find("{") : text.rfind("}") + 1])
    except (ValueError, RecursionError):
        return None
    return {name: value[name] for name in names if isinstance(value.get(name), str)} or None


def _keep(path: Path, text: str) -> None:
    try:  # half an answer, of a process that was killed, is asked for again
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:  # the answer is here all the same
        logging.warning("cannot keep the expert's answer in %s: %s", path.parent, error)
