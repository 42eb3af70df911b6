"""How a joint response of a coding team is scored. responses[-1] is the main function's author; the
others wrote the helpers aux, aux2, ... With one agent, its text holds both aux and main.

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
| c: mean over the helpers of the |                                  | 1.0, and main is not one    |
| smaller contribution, helper's  |                                  | "return ..aux..", nor       |
| or main's: (p - q) / (1 - q)    |                                  | x = aux(..); return x       |
|                                 |                                  | -0.5, only bare calls [3]   |

`code` pays cooperation for what each agent adds: what the team loses, in tests passed, without that
agent's part. q is the largest share of tests that the team passes with a stand-in for the part:

- any of a bank of parts that know nothing of any problem (sandbox/bank.py);
- the function of that name that a partner wrote too: two who both wrote everything share no work;
- for a helper, a number that it returns; and, for a main that checks its helper, the first of the
  bank where the checks are settled in advance (conditions.py).

This is the difference reward of Wolpert and Tumer (2002), which COMA (Foerster et al., 2018)
brought to policy gradients; the stand-ins are its default action. A stand-in that fails, cannot be
made or does not end says nothing: only one that passes tests is evidence. Where more than five do
not end, the part earns nothing.

Tests and cooperation of a wrong answer are together 1 - (1 - p) (1 - c), which is less than the 1.0
of a right answer alone. For a right answer, c is the share of the helpers that are needed, if main
is.

`code_paper` is the reward of arXiv 2508.04652. Where the paper and its released code differ: [1]
extraction is ours, for theirs loses decorators, nested functions and whole reference solutions; [2]
all of the task's tests rather than one-line assertions, in the sandbox rather than in the trainer,
without the stop after three time-outs; [3] the paper's rule, which in the released code never
fires.

Both agents' code is one program, helpers first. Neither can define the other's function: what a
response binds to a partner's name is dropped. Other names are shared, the later definition wins.
"""

import ast
import atexit
import re
from collections.abc import Iterator
from dataclasses import replace

from programs.conditions import settled
from programs.extraction import Part, extract, helper_names, share_of
from programs.sandbox.box import Program, Sandbox, Verdict

HELPERS, MAIN, SYNTAX, TESTS, COOPERATION = 0.4, 0.6, 0.5, 1.0, 1.5
FEW = 16  # of the bank: they say nothing, or hand on what they were given, boxed or not
TEXT = 0.15  # of SYNTAX: for responses of which nothing is thrown away
COMPONENTS = ("structure", "syntax", "tests", "cooperation")
METRICS = ("pass", "aux_called", "wrapper", "load_bearing", "coop")

box = Sandbox()  # of this process; its workers start when they are first needed
atexit.register(box.close)


def verdict(item: dict, responses: list[str]) -> Verdict:
    """What the tests say about a team, whatever is missing or broken in its responses."""
    return box.run([_program(item, team_parts(item, responses))])[0]


def team_parts(item: dict, responses: list[str]) -> dict[str, Part]:
    """The parts by the name of their function, the main function last."""
    names = [*helper_names(len(responses)), item["entry_point"]]
    texts = responses * 2 if len(responses) == 1 else responses
    return {
        name: extract(text, name, frozenset(names) - {name})
        for name, text in zip(names, texts, strict=True)
    }


def _used(team: dict[str, Part]) -> list[str]:
    """The helpers that main mentions, or that a helper mentions which main does, and so on."""
    *helpers, main = team
    used = [main]
    for name in used:  # which grows
        used += [helper for helper in helpers if helper in team[name].reads and helper not in used]
    return [name for name in helpers if name in used]


def _program(item, team, replaced: str = "", **bank_fields) -> Program:
    """The team's program, without the helpers that nobody mentions: whatever they hold, it is
    the same program, and runs once for all partners."""
    *_, main = team
    names = [name for name in [*_used(team), main] if name != replaced]
    code = "\n".join(filter(None, (team[name].source for name in names)))
    apart = not all(team[name].tame for name in names)
    setup = item.get("setup", "")
    return Program(code, item["tests"], main, setup, apart, replaced, **bank_fields)


def _contributions(item: dict, responses: list[str], team, verdict: Verdict) -> dict[str, float]:
    """What each part adds to a team that passes any test; helpers that main does not use are left
    out, and so is main if no helper adds anything.

    What stands in for a helper depends on main alone, and the other way round, so the sandbox
    remembers it over partners.
    """
    *helpers, main = team
    p, enough = _share(verdict), sum(verdict.passed)

    def lost(programs) -> float:
        """The least of (p - q) / (1 - q): as soon as one is 0, the others need not run."""
        least = 1.0
        for program in programs:
            [found] = box.run([program])
            known = not program.replaced or found.outcome in ("ok", "error")  # or too much hangs
            least = min(least, contribution(p, _share(found) if known else p))
            if not least:
                break
        return least

    def for_helper(name: str) -> Iterator[Program]:
        yield from _by_partners(item, responses, team, name)
        yield _program(item, team, name, enough=enough)
        for number in team[name].numbers:
            text = f"def {name}(*args, **kwargs):\n    return {number}"
            yield _program(item, team | {name: replace(team[name], source=text, tame=True)})
        for source in settled(team[main].source, frozenset(helpers), main):
            unchecked = team | {main: replace(team[main], source=source)}
            parts = FEW if name in source else 1
            yield _program(item, unchecked, name, enough=enough, parts=parts)

    def for_main() -> Iterator[Program]:
        yield from _by_partners(item, responses, team, main)
        for name in found:
            yield _program(item, team, main, enough=enough, caller_of=name)

    found = {name: lost(for_helper(name)) for name in _used(team) if team[name].source}
    if any(found.values()):
        found[main] = lost(for_main())
    return found


def contribution(p: float, q: float) -> float:
    """Of what is left to pass without a part, the share that is passed with it, 0 to 1."""
    return (p - q) / (1 - q) if q < p else 0.0


def cooperation(p: float, c: float) -> float:
    """What a team earns on top of p. With c > 0 more than 0, and if p < 1 less than 1 - p."""
    return c * (COOPERATION if p == 1 else TESTS - p)


def _share(verdict: Verdict) -> float:
    return sum(verdict.passed) / max(len(verdict.passed), 1)


def _by_partners(item: dict, responses: list[str], team, name: str) -> Iterator[Program]:
    """The team with the function that a partner wrote under that name, where one did."""
    for partner, text in zip(team, responses, strict=True) if len(responses) > 1 else ():
        if partner != name:
            part = extract(text, name, frozenset(team) - {name, partner})
            if part.source:
                yield _program(item, team | {name: part})


def code(item: dict, responses: list[str]) -> dict[str, float]:
    """The strict reward of the table above, 0 to 4."""
    team = team_parts(item, responses)
    scores, verdict = _levels(item, team, lambda part: part.returns)
    *helpers, main = team
    if scores["syntax"]:
        kept = [part.kept for part in team.values()]
        kept = kept if len(responses) > 1 else [kept[0] | kept[1]]  # one agent wrote both
        scores["syntax"] -= TEXT * (1 - sum(map(share_of, responses, kept)) / len(responses))
        scores["metric/aux_called"] = len(_used(team)) / len(helpers)
    p = scores["tests"]
    if not p:
        return scores
    adds = _contributions(item, responses, team, verdict)
    needed = [name for name in helpers if adds.get(name)]
    silent = [name for name in needed if not team[name].returns]
    scores["structure"] += HELPERS * len(silent) / len(helpers)  # it works in place
    both = sum(min(adds[name], adds[main]) for name in needed) / len(helpers)
    scores["cooperation"] = cooperation(p, both)
    if p == 1:
        scores["metric/load_bearing"] = len(needed) / len(helpers)
        scores["metric/wrapper"] = float(not adds.get(main, True))
        scores["metric/coop"] = float(both == 1)
    return scores


code.maximum = 4.0


def code_paper(item: dict, responses: list[str]) -> dict[str, float]:
    """The paper's reward, with what is known to fool it, such as "aux(" in a comment; 0 to 4."""
    team = team_parts(item, responses)
    scores, verdict = _levels(item, team, lambda part: bool(re.search(r"return\s", part.raw)))
    *helpers, main = team
    call = rf"\b({'|'.join(helpers)})\s*\("
    calls = len(re.findall(call, team[main].raw))
    if any(verdict.passed) and calls and any(team[name].raw for name in helpers):
        wrapper = _looks_like_wrapper(team[main].node)
        bare = len(re.findall(rf"^\s*{call}", team[main].raw, re.MULTILINE)) == calls
        scores["cooperation"] = 0.5 + 1.0 * (not wrapper) - 0.5 * bare
        scores["metric/aux_called"], scores["metric/wrapper"] = 1.0, float(wrapper)
    return scores


code_paper.maximum = 4.0


def _levels(item, team, is_defined) -> tuple[dict[str, float], Verdict]:
    """Structure, syntax and tests, each only if the ones before hold, and what the tests said."""
    scores = dict.fromkeys([*COMPONENTS, *(f"metric/{name}" for name in METRICS)], 0.0)
    *helpers, main = team
    defined = sum(is_defined(team[name]) for name in helpers) / len(helpers)
    scores["structure"] = HELPERS * defined + MAIN * is_defined(team[main])
    if not is_defined(team[main]) or any(part.broken for part in team.values()):
        return scores, Verdict([], "error", [], 0.0)
    scores["syntax"] = SYNTAX
    [verdict] = box.run([_program(item, team)])
    scores["tests"] = TESTS * _share(verdict)
    scores["metric/pass"] = float(scores["tests"] == TESTS)
    return scores, verdict


def _looks_like_wrapper(function: ast.FunctionDef | ast.Lambda) -> bool:
    """Apply the paper's rule, by lines: nothing, "return ... aux ...", or x = aux(...); return x.

    A lambda is the one line that returns its body.
    """
    if isinstance(function, ast.Lambda):
        return "aux" in ast.unparse(function.body)
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
