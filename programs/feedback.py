"""Write what the agents of a coding team read after a joint response.

--feedback plain    nothing: the agent is asked again
           tests    which functions are defined and parse, how main uses the helpers, how many of
                    the first k tests pass, and each failed test with what it raised
           expert   an edit of the agent's own function by a larger model, which sees no test

k is given as --task-arg feedback_tests=k (0: all). An agent never sees a word of a partner's
function. Of an error it reads the nearest built-in type, because a partner's function chooses the
message and the name. The expert is asked to show no author another author's code. The authors' code
for arXiv 2508.04652 calls tests level_feedback.
"""

import functools
import hashlib
import json
import os
import textwrap
import threading
from collections.abc import Callable
from pathlib import Path

from policies import Mistake
from programs import teams
from programs.extraction import Part
from programs.schemes import scheme_of

SHOWN = 5  # failed tests of one text: an agent's context is small
LINE = 200  # characters of a test
EDIT = 2_000  # characters of an expert's edit

Feedback = Callable[[dict, list[str]], list[str]]  # item, responses -> one text per agent


def configured(mode: str | None, limit: int, url: str | None, model: str | None) -> Feedback | None:
    """Return the feedback of a mode, None where no mode is asked for.

    url and model are the expert's. Other modes ignore them, because a flag file may hold them.
    ValueError: the mode is unknown, or lacks what it needs.
    """
    if limit != 1 and mode != "tests":
        raise Mistake("--task-arg feedback_tests goes with --feedback tests")
    match mode:
        case None:
            return None
        case "plain":
            return plain
        case "tests":
            return functools.partial(tests, limit=limit)
        case "expert" if url and model:
            return Expert(url, model)
        case "expert":
            raise Mistake(
                "--feedback expert needs --task-arg expert_url=URL expert_model=NAME: a server "
                "with OpenAI's chat completions"
            )
        case _:
            raise Mistake(f"unknown --feedback {mode!r}: plain, tests or expert")


def plain(item: dict, responses: list[str]) -> list[str]:
    return [""] * len(responses)


def tests(item: dict, responses: list[str], limit: int) -> list[str]:
    """Return one text per agent on the first `limit` tests of the item (0: all)."""
    team = teams.team_parts(item, responses)
    verdict = teams.run(item, team)
    results = list(zip(item["tests"], verdict.passed, verdict.errors, strict=True))
    if limit:
        results = results[:limit]
    counted = _counted(results)
    messages = []
    for names in _authored(team, responses):
        lines = ["Feedback on the team's program:", *_levels(team, names), *counted]
        messages.append("\n- ".join(lines))
    return messages


def _authored(team: teams.Team, responses: list[str]) -> list[list[str]]:
    """Return the names of each agent's functions."""
    return [list(team)] if len(responses) == 1 else [[name] for name in team]


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


_INSTRUCTIONS = """\
You are an expert reviewer of Python programs. The functions below are parts of one program. Each
was written by another author, and no author sees what the others wrote. Judge them together, then
suggest to each author an edit of that author's own function: corrected code, or what to change in
which line. Do not show an author another author's code. Answer with one JSON object and nothing
else. Its keys are {keys}; each value is a string, empty if that function is good as it is."""


class Expert:
    """A model behind an endpoint with OpenAI's chat completions; its key is in OPENAI_API_KEY.

    It reads the problem and the team's functions, never a test, a verdict or the reward. Every
    answer is kept in a file, so a run that is resumed or repeated gets the same answers. The client
    tries again where the endpoint is busy, broken or slow.
    """

    def __init__(self, url: str, model: str, timeout: float = 60.0, retries: int = 5):
        from openai import OpenAI  # takes a second, and only this mode needs it

        key = os.environ.get("OPENAI_API_KEY") or "none"  # a local server needs no key
        self.client = OpenAI(base_url=url, api_key=key, timeout=timeout, max_retries=retries)
        self.url = url
        self.model = model
        self.folder = Path.home() / ".cache/magrpo/expert"
        self.folder.mkdir(parents=True, exist_ok=True)
        self.locks: dict[str, threading.Lock] = {}  # two threads ask a question once

    def __call__(self, item: dict, responses: list[str]) -> list[str]:
        """Return the expert's edits of each agent's functions."""
        team = teams.team_parts(item, responses)
        texts = responses * len(team) if len(responses) == 1 else responses
        functions = {}
        for (name, part), text in zip(team.items(), texts, strict=True):
            functions[name] = part.source or text  # all of it where no code was found
        edits = self.edits(item["prompt"], functions)
        messages = []
        for names in _authored(team, responses):
            messages.append("\n\n".join(_edit(name, edits.get(name)) for name in names))
        return messages

    def edits(self, problem: str, functions: dict[str, str]) -> dict:
        """Return what the expert says of each function, {} if it does not answer in JSON."""
        parts = [f"Problem:\n{problem}"]
        parts += [f"Function {name}:\n{code}" for name, code in functions.items()]
        system = _INSTRUCTIONS.format(keys=", ".join(map(json.dumps, functions)))
        messages: list = [
            {"role": "system", "content": system},
            {"role": "user", "content": "\n\n".join(parts)},
        ]
        question = json.dumps([self.url, self.model, messages])
        name = hashlib.sha256(question.encode()).hexdigest()
        path = self.folder / f"{name}.txt"
        with self.locks.setdefault(name, threading.Lock()):
            if not path.exists():
                answer = self.client.chat.completions.create(model=self.model, messages=messages)
                text = answer.choices[0].message.content or ""
                half = path.with_suffix(f".{os.getpid()}")  # a killed process leaves no half answer
                half.write_text(text, "utf-8", errors="replace")
                half.replace(path)
            text = path.read_text("utf-8")
        try:
            return dict(json.loads(text[text.find("{") : text.rfind("}") + 1]))
        except (ValueError, RecursionError):
            return {}


def _edit(name: str, edit: object) -> str:
    if not isinstance(edit, str) or not edit.strip():
        return f"No edit of {name}."
    text = edit.strip().encode(errors="replace").decode()  # prompts hold no half characters
    if len(text) > EDIT:
        text = f"{text[:EDIT]}\n(cut)"
    return f"An expert's edit of {name}:\n{text}"
