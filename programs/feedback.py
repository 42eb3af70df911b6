"""Write what the agents of a coding team read after a joint response.

With --feedback plain an agent reads nothing. With --feedback tests it reads which functions are
defined and parse, and how main uses the helpers. It also reads how many of the first k tests pass,
and each failed test with what it raised. --task-arg feedback_tests=k sets k, and 0 means all. An
agent never sees a word of a partner's function. It reads the nearest built-in type of an error,
because a partner's function chooses the message and the name. The authors' code for arXiv
2508.04652 calls tests level_feedback. Feedback of a larger model is in examples/expert.py.
"""

import functools
import textwrap
from collections.abc import Callable

from policies import Mistake
from programs import teams
from programs.extraction import Part
from programs.schemes import scheme_of

SHOWN = 5  # failed tests of one text: an agent's context is small
LINE = 200  # characters of a test

Feedback = Callable[[dict, list[str]], list[str]]  # item, responses -> one text per agent


def configured(mode: str | None, limit: int) -> Feedback | None:
    """Return the feedback of a mode, None where no mode is asked for.

    Mistake: the mode is unknown or takes no number of tests, or this is none.
    """
    if limit < 0:
        raise Mistake(f"--task-arg feedback_tests={limit}: a number of tests, or 0 for all")
    if limit != 1 and mode != "tests":
        raise Mistake("--task-arg feedback_tests goes with --feedback tests")
    match mode:
        case None:
            return None
        case "plain":
            return lambda item, responses: [""] * len(responses)
        case "tests":
            return functools.partial(tests, limit=limit)
        case _:
            raise Mistake(f"unknown --feedback {mode!r}: plain or tests")


def tests(item: dict, responses: list[str], limit: int) -> list[str]:
    """Return one text per agent on the first `limit` tests of the item (0: all)."""
    team = teams.team_parts(item, responses)
    verdict = teams.run(item, team)
    results = list(zip(item["tests"], verdict.passed, verdict.errors, strict=True))
    if limit:
        results = results[:limit]
    counted = _counted(results)
    messages = []
    for names in authored(team, responses):
        lines = ["Feedback on the team's program:", *_levels(team, names), *counted]
        messages.append("\n- ".join(lines))
    return messages


def authored(team: teams.Team, responses: list[str]) -> list[list[str]]:
    """Return the names of each agent's functions."""
    return [list(team)] if len(responses) == 1 else [[name] for name in team]


def _levels(team: teams.Team, names: list[str]) -> list[str]:
    """Return the state of every function, the agent's own first, and how main uses the helpers."""
    *helpers, main = team
    lines = [f"{name}: {_state(team[name])}" for name in names]
    for name in team:
        if name not in names:
            lines.append(f"{name}, a partner's: {_state(team[name])}")
    if main in names and team[main].statements:
        lines += [_usage(team[main], main, helper) for helper in helpers]
    return lines


def _state(part: Part) -> str:
    if part.broken:
        return "does not parse"
    if not part.statements:
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
