"""How a joint response of a coding team is scored: the rewards `code` and `code_paper`.

| level; p = tests passed / tests | `code` (strict, the default)     | `code_paper`                |
|---------------------------------|----------------------------------|-----------------------------|
| structure: the helpers          | 0.4 x share that return a value  | 0.4, text with "return" [1] |
|                                 | or are needed                    |                             |
| structure: main, else stop      | 0.6, the same                    | 0.6, text with "return" [1] |
| syntax, else stop               | 0.35, all of it compiles         | 0.5                         |
|                                 | 0.15 x share of the text that    |                             |
|                                 | the functions are made of        |                             |
| tests                           | 1.0 p                            | 1.0 p [2]                   |
| cooperation, p = 1              | 1.5 c                            | 0.5 if p > 0 and "aux(" is  |
| cooperation, p < 1              | (1 - p) c                        | in main, comments included  |
|                                 |                                  | 1.0, and main is not one    |
|                                 |                                  | "return ..aux..", nor       |
|                                 |                                  | x = aux(..); return x       |
|                                 |                                  | -0.5, only bare calls [3]   |

`code_paper` is the reward of arXiv 2508.04652. Where the paper and its released code differ: [1]
extraction is ours, for theirs loses decorators, nested functions and whole reference solutions; [2]
all of the task's tests rather than one-line assertions, in the sandbox rather than in the trainer,
without the stop after three time-outs; [3] the paper's rule, which in the released code never
fires.
"""

import ast
import re

from programs.extraction import Part, share_of
from programs.teams import contributions, run, share_passed, team_parts, used_helpers

HELPERS, MAIN, SYNTAX, TESTS, COOPERATION = 0.4, 0.6, 0.5, 1.0, 1.5
TEXT = 0.15  # of SYNTAX: for responses of which nothing is thrown away
COMPONENTS = ("structure", "syntax", "tests", "cooperation")
METRICS = ("pass", "aux_called", "wrapper", "load_bearing", "coop")


def code(item: dict, responses: list[str]) -> dict[str, float]:
    """Return the levels of the strict reward, 0 to 4 in all.

    Cooperation pays for what the team loses without a part. p is the share of the tests that it
    passes, q the largest share that it passes with a stand-in for the part, and the part adds
    (p - q) / (1 - q). c is the smaller of what the helper adds and what main adds; with several
    helpers it is the mean over them. A stand-in is one of 25 functions that know nothing of any
    problem, or the function of that name that a partner wrote too. (This is a difference reward,
    Wolpert and Tumer 2002. COMA, Foerster et al. 2018, calls a stand-in a default action.)
    Not caught is a main that asserts that its helper agrees or undoes what it did, or a value that
    is not used or passed on in an object, in an exception or by a side effect. To catch a family
    of tricks, add a stand-in to HELPER_STAND_INS or MAIN_STAND_INS in programs/teams.py.
    """
    team = team_parts(item, responses)
    *helpers, main = team
    scores = _levels(item, team, {name: part.returns for name, part in team.items()})
    if scores["syntax"]:
        scores["syntax"] -= TEXT * (1 - _share_kept(team, responses))
        scores["metric/aux_called"] = len(used_helpers(team)) / len(helpers)
    p = scores["tests"]
    if not p:
        return scores
    adds = contributions(item, responses, team, p)
    needed = [name for name in helpers if adds[name]]
    in_place = [name for name in needed if not team[name].returns]  # it changes its argument
    scores["structure"] += HELPERS * len(in_place) / len(helpers)
    c = sum(min(adds[name], adds[main]) for name in helpers) / len(helpers)
    scores["cooperation"] = cooperation(p, c)
    if p == 1:
        scores["metric/load_bearing"] = len(needed) / len(helpers)
        scores["metric/wrapper"] = float(bool(needed) and not adds[main])
        scores["metric/coop"] = float(c == 1)
    return scores


code.maximum = 4.0


def cooperation(p: float, c: float) -> float:
    """Return what a team earns on top of p.

    With p < 1 it earns 1 - (1 - p) (1 - c) in all, less than the 1.0 of a right answer alone. With
    p = 1, c is the share of the helpers that are needed, or 0 if main is not.
    """
    return c * (COOPERATION if p == 1 else TESTS - p)


def code_paper(item: dict, responses: list[str]) -> dict[str, float]:
    """Return the paper's reward, with what fools it, such as "aux(" in a comment; 0 to 4."""
    team = team_parts(item, responses)
    defined = {name: bool(re.search(r"return\s", part.raw)) for name, part in team.items()}
    scores = _levels(item, team, defined)
    *helpers, main = team
    call = rf"\b({'|'.join(helpers)})\s*\("
    calls = len(re.findall(call, team[main].raw))
    if scores["tests"] and calls and any(team[name].raw for name in helpers):
        wrapper = _looks_like_wrapper(team[main].node)
        bare = len(re.findall(rf"^\s*{call}", team[main].raw, re.MULTILINE)) == calls
        scores["cooperation"] = 0.5 + 1.0 * (not wrapper) - 0.5 * bare
        scores["metric/aux_called"], scores["metric/wrapper"] = 1.0, float(wrapper)
    return scores


code_paper.maximum = 4.0


def _levels(item: dict, team: dict[str, Part], defined: dict[str, bool]) -> dict[str, float]:
    """Return structure, syntax and tests, each 0 if the one before does not hold."""
    scores = dict.fromkeys([*COMPONENTS, *(f"metric/{name}" for name in METRICS)], 0.0)
    *helpers, main = team
    share_defined = sum(defined[name] for name in helpers) / len(helpers)
    scores["structure"] = HELPERS * share_defined + MAIN * defined[main]
    if not defined[main] or any(part.broken for part in team.values()):
        return scores
    scores["syntax"] = SYNTAX
    scores["tests"] = TESTS * share_passed(run(item, team))
    scores["metric/pass"] = float(scores["tests"] == TESTS)
    return scores


def _share_kept(team: dict[str, Part], responses: list[str]) -> float:
    """Return the share of the text that the functions are made of, the mean over the agents."""
    kept = [part.kept for part in team.values()]
    if len(responses) == 1:  # one agent wrote both
        kept = [kept[0] | kept[1]]
    return sum(map(share_of, responses, kept)) / len(responses)


def _looks_like_wrapper(function: ast.FunctionDef) -> bool:
    """The paper's rule, by lines: nothing, "return ... aux ...", or x = aux(...) and return x."""
    documented = ast.get_docstring(function) is not None
    match [ast.unparse(statement) for statement in function.body[documented:]]:
        case []:
            return True
        case [line]:
            return line.startswith("return ") and "aux" in line
        case [first, last]:
            name, _, value = first.partition(" = ")
            return value.startswith("aux") and last == f"return {name}"
    return False
