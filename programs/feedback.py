"""Write what the agents of a coding team read after a joint response.

--feedback plain    nothing: the agent is asked again
           tests    which functions are defined and parse, how main uses the helpers, how many of
                    the first k tests pass, and each failed test with what it raised
           expert   an edit of the agent's own function by a larger model, which sees no test

k is given as --task-arg feedback_tests=k (0: all). An agent never sees a word of a partner's
function. It reads the type of an error alone, because the message may quote that function. The
expert is asked to show no author another author's code. The authors' code for arXiv 2508.04652
calls tests level_feedback.
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

SHOWN = 5  # failed tests of one text: an agent's context is small
LINE = 200  # characters of a test
EDIT = 2_000  # characters of an expert's edit


def configured(
    mode: str | None, limit: int, url: str | None, model: str | None
) -> Callable[[dict, list[str]], list[str]] | None:
    """Return `tell` with a task's arguments, None where no mode is asked for.

    url and model are the expert's. Other modes ignore them, because a flag file may hold them.
    """
    if limit != 1 and mode != "tests":
        raise ValueError("--task-arg feedback_tests goes with --feedback tests")
    if not mode:
        return None
    if mode == "expert" and not (url and model):
        raise ValueError(
            "--feedback expert needs --task-arg expert_url=URL expert_model=NAME: a server with "
            "OpenAI's chat completions"
        )
    expert = Expert(url, model) if mode == "expert" else None
    return functools.partial(tell, mode=mode, limit=limit, expert=expert)


def tell(
    item: dict, responses: list[str], mode: str, limit: int = 1, expert: "Expert | None" = None
) -> list[str]:
    """Return one text per agent on a joint response, "" if there is nothing to say.

    Only the first `limit` tests of the item count (0: all). Threads may call this at once.
    """
    if mode == "plain":
        return [""] * len(responses)
    team = teams.team_parts(item, responses)
    authored = [[name] for name in team]  # the functions of each agent
    if len(responses) == 1:
        authored = [list(team)]
        responses = responses * len(team)
    if mode == "expert":
        sources = {}
        for name, response in zip(team, responses, strict=True):
            sources[name] = team[name].source or response  # all of it where no code was found
        edits = expert.edits(item["prompt"], sources)
        return [_edits(edits, names) for names in authored]
    verdict = teams.run(item, team)
    results = list(zip(item["tests"], verdict.passed, verdict.errors, strict=True))
    if limit:
        results = results[:limit]
    messages = []
    for names in authored:
        lines = ["Feedback on the team's program:", *_levels(team, names), *_counted(results)]
        messages.append("\n- ".join(lines))
    return messages


def _edits(edits: dict[str, str], names: list[str]) -> str:
    parts = []
    for name in names:
        text = edits.get(name, "").strip()
        if len(text) > EDIT:
            text = f"{text[:EDIT]}\n(cut)"
        parts.append(f"An expert's edit of {name}:\n{text}" if text else f"No edit of {name}.")
    return "\n\n".join(parts)


def _levels(team: teams.Team, names: list[str]) -> list[str]:
    """Return the state of every function, the agent's own first, and how main uses the helpers."""
    *helpers, main = team
    lines = [f"{name}: {_state(team[name])}" for name in names]
    for name in team:
        if name not in names:
            lines.append(f"{name}, a partner's: {_state(team[name])}")
    if main in names and team[main].node:
        lines += [_usage(team[main], main, helper) for helper in helpers]
    return lines


def _state(part: Part) -> str:
    if part.broken:
        return "does not parse"
    if part.node is None and not part.returns:
        return "missing"
    return "defined" if part.returns else "defined, but returns no value"


def _usage(main: Part, name: str, helper: str) -> str:
    """Return how the main function uses a helper, as far as its text shows."""
    if helper not in main.reads:
        return f"{name} never calls {helper}"
    match scheme_of(main.source, name, frozenset({helper})):
        case "unused":
            return f"{name} calls {helper}, but does not use what it returns"
        case "wrapper":
            return f"{name} only passes on what {helper} returns"
    return f"{name} uses what {helper} returns"


def _counted(results: list[tuple[str, bool, str | None]]) -> list[str]:
    """Return how many tests passed, and each failed test with the type of its error."""
    failed = [(test, error) for test, passed, error in results if not passed]
    lines = [f"tests passed: {len(results) - len(failed)} of {len(results)}"]
    for test, error in failed[:SHOWN]:
        if len(test) > LINE:
            test = f"{test[:LINE]} (cut)"
        line = f"failed: {textwrap.indent(test, '  ').strip()}"
        error_type = error.partition(":")[0]
        if error_type != "AssertionError":
            line += f" raised {error_type}"
        lines.append(line)
    if len(failed) > SHOWN:
        lines.append(f"and {len(failed) - SHOWN} more")
    return lines


KEYS = ("MAGRPO_EXPERT_KEY", "OPENAI_API_KEY")  # environment variables: the first one set counts

_INSTRUCTIONS = """\
You are an expert reviewer of Python programs. The functions below are parts of one program. Each
was written by another author, and no author sees what the others wrote. Judge them together, then
suggest to each author an edit of that author's own function: corrected code, or what to change in
which line. Do not show an author another author's code. Answer with one JSON object and nothing
else. Its keys are {keys}; each value is a string, empty if that function is good as it is."""


class ExpertError(RuntimeError):
    """The expert's endpoint refused or stayed down. Ends the run, which saves its checkpoint."""


class Expert:
    """A model behind an endpoint with OpenAI's chat completions.

    It reads the problem and the team's functions, never a test, a verdict or the reward. Every
    answer is kept on disk. A run that is resumed or repeated gets the same answers without asking.

    url: up to /v1, or the whole address that ends in /chat/completions. The key comes from the
    environment and goes into the request's header only. The endpoint counts as down after so many
    tries, with waits of 0.5 to 8 seconds between them.
    """

    def __init__(self, url: str, model: str, timeout: float = 60.0, tries: int = 6):
        if not re.fullmatch(r"https?://[^\s/@?#]+(/[^\s?#]*)?", url):
            raise ValueError(  # args.json stores the flags, so the URL may not hold a key
                "expert_url has to look like https://host/v1, and has to end after its path; a "
                f"key belongs into the environment, {KEYS[0]}"
            )
        self.url = url.rstrip("/").removesuffix("/chat/completions")
        self.model = model
        self.tries = tries
        self.key = ""
        for name in KEYS:
            self.key = self.key or os.environ.get(name, "").strip()
        if not (self.key.isascii() and self.key.isprintable()):  # a header cannot hold it
            raise ValueError(f"the expert's key in {' or '.join(KEYS)} holds unusable characters")
        from openai import OpenAI  # takes a second, and only this mode needs it

        self.client = OpenAI(  # requires a key, which a local server may not have
            base_url=self.url, api_key=self.key or "none", timeout=timeout, max_retries=tries - 1
        )
        caches = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        self.cache = Path(caches) / "magrpo" / "expert"
        self.locks = {}  # one per question

    def edits(self, problem: str, functions: dict[str, str]) -> dict[str, str]:
        """Return the expert's edits by function name; `functions` holds the code by name.

        Warn and return no edits if the expert does not answer in JSON. Raise ExpertError if the
        endpoint refuses or is down.
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
        with self.locks.setdefault(path.name, threading.Lock()):  # two threads ask only once
            if path.is_file():
                edits = _read_edits(path.read_text("utf-8", "replace"), functions)
                if edits:
                    return edits
            for _ in range(self.tries):
                text = self._ask(messages)
                edits = _read_edits(text, functions)
                if edits:
                    _keep(path, json.dumps(edits))
                    return edits
        logging.warning("the expert %s does not answer with the JSON asked for", self.model)
        return {}

    def _ask(self, messages: list) -> str:
        """Return the text of one answer, or raise ExpertError.

        The client itself retries a connection that fails and a server that is busy or broken.
        """
        import openai

        try:  # without a temperature or a limit, which some models refuse
            answer = self.client.chat.completions.create(model=self.model, messages=messages)
            return (answer.choices[0].message.content or "").strip()
        except openai.APIStatusError as error:
            why = f"{error} {error.response.text}"
        except openai.OpenAIError as error:
            why = f"{error} {error.__cause__ or ''}"
        except (AttributeError, LookupError, TypeError, ValueError, RecursionError) as error:
            why = f"no chat completion in its answer ({type(error).__name__})"
        if self.key:  # the server's message may repeat it
            why = why.replace(self.key, "[key]")
        raise ExpertError(f"the expert at {self.url} fails: {' '.join(why.split())[:300]}")


def _read_edits(text: str, names) -> dict[str, str]:
    """Return the texts that the JSON object in an answer holds under the names."""
    try:
        answer = json.loads(text[text.find("{") : text.rfind("}") + 1])
    except (ValueError, RecursionError):
        return {}
    edits = {}
    for name in names:
        if isinstance(answer.get(name), str):  # prompts are UTF-8: no half characters
            edits[name] = answer[name].encode(errors="replace").decode()
    return edits


def _keep(path: Path, text: str) -> None:
    try:  # a killed process may leave half an answer, which is then asked for again
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:  # the run goes on with the answer
        logging.warning("cannot keep the expert's answer in %s: %s", path.parent, error)
