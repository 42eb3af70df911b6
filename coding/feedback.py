"""What the agents of a coding team are told after a joint response: one function for every task.

| --feedback | what an agent is told                                       | which tests it shows |
|------------|-------------------------------------------------------------|----------------------|
| plain      | nothing: it is asked again                                  | none                 |
| passed     | whether the tests pass                                      | the first k, one bit |
| levels     | what is defined and parses, how main uses the helpers, how  | the first k, a count |
|            | many tests pass                                             |                      |
| tests      | levels, and each failed test with its error                 | the first k          |
| expert     | an edit of its own function by a larger model (expert.py)   | none                 |

k is --feedback-tests (0: all); the reward always uses every test. An agent is told whether a
partner's function is there and parses, and is never shown a word of it: where an error quotes a
name or a text of a partner's code, the quotation is left out. (What a program computes can still
reach a partner in an error, as in any feedback that shows errors.) The expert reads all functions,
and is asked to show no author another's. The modes are those of the authors' code for arXiv
2508.04652: tests is its level_feedback, levels its level_passed.
"""

import ast
import builtins
import functools
import keyword
import re
import textwrap
from collections.abc import Callable

from coding import rewards
from coding.expert import Expert
from coding.extraction import Part
from coding.schemes import classify

MODES = ("plain", "passed", "levels", "tests", "expert")
LIMITED = ("passed", "levels", "tests")  # those that may rest on the first tests only
SHOWN = 5  # failed tests of one text: an agent's context is small
LINE = 200  # characters of a test, or of an error
EDIT = 2_000  # characters of an expert's edit


def configured(
    mode: str, limit: int = 1, url: str | None = None, model: str | None = None
) -> Callable[[dict, list[str]], list[str]]:
    """`tell` with a run's flags: what a task takes as `feedback`. ValueError where one is missing.

    url and model are the expert's, and do nothing in other modes: a flag file may hold them.
    """
    if limit != 1 and mode not in LIMITED:
        raise ValueError(f"--feedback-tests goes with --feedback {', '.join(LIMITED)}")
    if mode != "expert":
        return functools.partial(tell, mode=mode, limit=limit)
    if not (url and model):
        raise ValueError("--feedback expert needs --expert-url and --expert-model")
    return functools.partial(tell, mode=mode, expert=Expert(url, model))


def tell(
    item: dict, responses: list[str], mode: str, limit: int = 1, expert: Expert | None = None
) -> list[str]:
    """One text per agent on a joint response, "" where there is nothing to say. Thread-safe.

    limit: how many of the item's tests, from the first, the texts may rest on (0: all).
    """
    if mode == "plain":
        return [""] * len(responses)
    team = rewards.team_parts(item, responses)
    single = len(responses) == 1
    texts = dict(zip(team, responses * 2 if single else responses, strict=True))
    own = [list(team)] if single else [[name] for name in team]
    if mode == "expert":
        written = {name: team[name].source or texts[name] for name in team}
        edits = expert.edits(item["prompt"], written)
        return [_edits(edits, names) for names in own]
    verdict = rewards.verdict(item, responses)
    results = list(zip(item["tests"], verdict.passed, verdict.errors, strict=True))[: limit or None]
    if mode == "passed":
        right = all(passed for _, passed, _ in results)
        return ["The tests pass." if right else "The tests do not all pass."] * len(responses)
    counted = [f"tests passed: {sum(passed for _, passed, _ in results)} of {len(results)}"]
    failed = [(test, error) for test, passed, error in results if not passed]
    told = []
    for names in own:
        lines = _levels(team, names, texts) + counted
        if mode == "tests":
            lines += _failures(failed, _foreign(item, team, names, texts))
        told.append("\n- ".join(["Feedback on the team's program:", *lines]))
    return told


def _edits(edits: dict[str, str], names: list[str]) -> str:
    parts = []
    for name in names:
        text = edits.get(name, "").strip()
        text = text if len(text) <= EDIT else f"{text[:EDIT]}\n(cut)"
        parts.append(f"An expert's edit of {name}:\n{text}" if text else f"No edit of {name}.")
    return "\n\n".join(parts)


# --- levels and tests ---------------------------------------------------------------------------


def _levels(team: dict[str, Part], names: list[str], texts: dict[str, str]) -> list[str]:
    """The state of every function, an agent's own ones first, and how main uses the helpers."""
    *helpers, main = team
    lines = [f"{name}: {_state(name, team[name], texts[name])}" for name in names]
    lines += [
        f"{name}, a partner's: {_state(name, team[name])}" for name in team if name not in names
    ]
    if main in names and team[main].node:
        lines += [_usage(team[main], main, helper) for helper in helpers]
    return lines


def _state(name: str, part: Part, text: str | None = None) -> str:
    """What became of a function, with the error if its text is given."""
    if part.broken:
        return "does not parse" + (f", {_syntax_error(name, text)}" if text is not None else "")
    if part.node is None:
        return "missing"
    return "defined" if part.returns else "defined, but returns no value"


def _syntax_error(name: str, text: str) -> str:
    """Python's words on the last definition of a function in a response."""
    head = rf"^(?=[^\S\n]*(?:async\s+)?def\s+{name}\b)"
    *_, code = re.split(head, text.expandtabs(), flags=re.MULTILINE)
    try:
        compile(textwrap.dedent(code.partition("```")[0]), "<response>", "exec")
    except SyntaxError as error:
        line = (error.text or "").strip()[:LINE]
        return f"{error.msg}" + (f" at: {line}" if line else "")
    except (ValueError, RecursionError, MemoryError) as error:
        return f"{error}"[:LINE]
    return "or needs something that does not"


def _usage(main: Part, name: str, helper: str) -> str:
    """How the main function uses a helper, as far as its text shows."""
    if helper not in main.reads:
        return f"{name} never calls {helper}"
    helpers = [""] * int(helper[3:] or 1)  # aux, aux2, ...
    scheme = classify([*helpers, main.source], name)
    if scheme == "unused":
        return f"{name} calls {helper}, but does not use what it returns"
    if scheme == "wrapper":
        return f"{name} only passes on what {helper} returns"
    return f"{name} uses what {helper} returns"


def _failures(failed: list[tuple[str, str | None]], foreign: re.Pattern) -> list[str]:
    lines = []
    for test, error in failed[:SHOWN]:
        kind, _, message = (error or "").partition(":")
        message = foreign.sub("...", message.strip())[:LINE]
        raised = f"{kind}: {message}" if message else kind
        test = test if len(test) <= LINE else f"{test[:LINE]} (cut)"
        what = "" if raised in ("", "AssertionError") else f" raised {raised}"
        lines.append(f"failed: {textwrap.indent(test, '  ').strip()}{what}")
    more = len(failed) - SHOWN
    return [*lines, f"and {more} more"] if more > 0 else lines


def _foreign(item: dict, team: dict, names: list[str], texts: dict) -> re.Pattern:
    """Matches names and texts that stand in a partner's code, and not in what this agent knows."""
    known = "\n".join([item["prompt"], *team, *(texts[name] for name in names)])
    words = {*re.findall(r"\w+", known), *dir(builtins), *keyword.kwlist}
    pieces = set()
    for name in team.keys() - set(names):
        for node in ast.walk(ast.parse(team[name].source)):
            values = [value for _, value in ast.iter_fields(node) if isinstance(value, str)]
            pieces |= {value.strip() for value in values if re.search(r"\w", value)}
    hidden = [p for p in pieces if p not in words and (p.isidentifier() or p not in known)]
    hidden.sort(key=len, reverse=True)
    return re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, hidden))})(?!\w)" if hidden else "(?!)")
