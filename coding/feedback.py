"""What the agents of a coding team are told after a joint response: one function for every task.

| --feedback | what an agent is told                                       | which tests it shows |
|------------|-------------------------------------------------------------|----------------------|
| plain      | nothing: it is asked again                                  | none                 |
| tests      | what is defined and parses, how main uses the helpers, how  | the first k          |
|            | many tests pass, and each failed test with what it raised   |                      |
| expert     | an edit of its own function by a larger model (expert.py)   | none                 |

k is --feedback-tests (0: all); the reward always uses every test. An agent is told whether a
partner's function is there and parses, and is never shown a word of it: of an error it is told the
kind alone, since its message may quote a partner's code. The expert reads all functions, and is
asked to show no author another's. The modes are those of the authors' code for arXiv 2508.04652,
where tests is called level_feedback.
"""

import functools
import re
import textwrap
from collections.abc import Callable

from coding import rewards
from coding.expert import Expert
from coding.extraction import Part
from coding.schemes import classify

MODES = ("plain", "tests", "expert")
SHOWN = 5  # failed tests of one text: an agent's context is small
LINE = 200  # characters of a test, or of a line that does not parse
EDIT = 2_000  # characters of an expert's edit


def configured(
    mode: str, limit: int = 1, url: str | None = None, model: str | None = None
) -> Callable[[dict, list[str]], list[str]]:
    """`tell` with a run's flags: what a task takes as `feedback`. ValueError where one is missing.

    url and model are the expert's, and do nothing in other modes: a flag file may hold them.
    """
    if limit != 1 and mode != "tests":
        raise ValueError("--feedback-tests goes with --feedback tests")
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
    counted = f"tests passed: {sum(passed for _, passed, _ in results)} of {len(results)}"
    failed = _failures([(test, error) for test, passed, error in results if not passed])
    told = (["Feedback on the team's program:", *_levels(team, names, texts)] for names in own)
    return ["\n- ".join([*lines, counted, *failed]) for lines in told]


def _edits(edits: dict[str, str], names: list[str]) -> str:
    parts = []
    for name in names:
        text = edits.get(name, "").strip()
        text = text if len(text) <= EDIT else f"{text[:EDIT]}\n(cut)"
        parts.append(f"An expert's edit of {name}:\n{text}" if text else f"No edit of {name}.")
    return "\n\n".join(parts)


# --- tests ----------------------------------------------------------------------------------------


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


def _failures(failed: list[tuple[str, str]]) -> list[str]:
    lines = []
    for test, error in failed[:SHOWN]:
        kind = error.partition(":")[0]
        test = test if len(test) <= LINE else f"{test[:LINE]} (cut)"
        what = "" if kind == "AssertionError" else f" raised {kind}"
        lines.append(f"failed: {textwrap.indent(test, '  ').strip()}{what}")
    more = len(failed) - SHOWN
    return [*lines, f"and {more} more"] if more > 0 else lines
