"""A coding team: its parts, its program, and what the program loses without a part.

responses[-1] is by the main function's author. The others wrote the helpers aux, aux2, ... A single
agent wrote aux and main in one text. All parts are one program, helpers first. Neither author can
define the other's function: what a response binds to a partner's name is dropped. Other names are
shared, and the later definition wins.

Stand-ins are functions that know nothing of any problem. To catch one more family of tricks, add an
expression to HELPER_STAND_INS or MAIN_STAND_INS. What belongs here hands on what it was given or
says nothing. Work does not: a stand-in that sorts would say of every helper that sorts that it adds
nothing.
"""

import atexit
import functools

from programs.extraction import Part, extract, helper_names
from programs.sandbox.box import Program, Sandbox, Verdict

# What a helper could return. args: the list of its arguments; x: the first.
HELPER_STAND_INS = (
    "x",
    "args[-1]",
    "args",
    "[x, x]",
    "(None, x)",
    "[x[:1], x[1:]]",
    "tuple(x)",
    "len(x)",
    "x.pop()",
    "x(*args[1:])",
    "lambda *_: x",
    "None",
    "True",
    "0",
    "''",
    "[]",
)
# What a main function could return. args: the list of its arguments; helper: a helper's function.
MAIN_STAND_INS = (
    "helper(*args)",
    "helper(*args, 0)",
    "helper(*args)[0]",
    "helper(*args)[-1]",
    "helper(*args)[::-1]",
    "helper(*args)()",
    "int(helper(*args))",
    "list(helper(*args).values())[-1]",
    "list(vars(helper(*args)).values())[-1]",
)
HELPER = """
def {name}(*args, **kwargs):
    args = [*args, *kwargs.values()] or [None]
    x = args[0]
    return {expression}
"""
MAIN = """
def {name}(*args, **kwargs):
    args = [*args, *kwargs.values()]
    helper = {helper}
    return {expression}
"""

box = Sandbox()  # of this process; its workers start when they are first needed
atexit.register(box.close)


def team_parts(item: dict, responses: list[str]) -> dict[str, Part]:
    """Return the parts by the name of their function, the main function last."""
    names = [*helper_names(len(responses)), item["entry_point"]]
    texts = responses * 2 if len(responses) == 1 else responses
    return {
        name: extract(text, name, frozenset(names) - {name})
        for name, text in zip(names, texts, strict=True)
    }


def used_helpers(team: dict[str, Part]) -> list[str]:
    """Return the helpers that main mentions, or that a helper mentions which main does, etc."""
    *helpers, main = team
    used = [main]
    for name in used:  # which grows
        used += [helper for helper in helpers if helper in team[name].reads and helper not in used]
    return [name for name in helpers if name in used]


def verdict(item: dict, responses: list[str]) -> Verdict:
    """Return what the tests say about a team, whatever is missing or broken in its responses."""
    return run(item, team_parts(item, responses))


def run(item: dict, team: dict[str, Part], once: bool = False) -> Verdict:
    """Return what the tests say about the team's program; once: see Program.

    The program is without the helpers that nobody mentions. Whatever they hold, it is the same
    program, and the sandbox runs it once for all partners.
    """
    *_, main = team
    parts = [team[name] for name in [*used_helpers(team), main]]
    code = "\n".join(part.source for part in parts if part.source)
    apart = not all(part.shareable for part in parts)
    program = Program(code, item["tests"], main, item.get("setup", ""), apart, once)
    return box.run([program])[0]


def share_passed(verdict: Verdict) -> float:
    return sum(verdict.passed) / max(len(verdict.passed), 1)


def contribution(p: float, q: float) -> float:
    """Return the share that is passed with a part of what is left to pass without it, 0 to 1."""
    return (p - q) / (1 - q) if q < p else 0.0


def contributions(item: dict, responses: list[str], team: dict, p: float) -> dict[str, float]:
    """Return what each part adds to a team that passes a share p > 0 of its tests.

    A helper that main does not use adds 0. If no helper adds anything, main adds 0.
    """
    *_, main = team
    used = [name for name in used_helpers(team) if team[name].source]
    adds = dict.fromkeys(team, 0.0)
    for name in used:
        stand_ins = [*_versions(name, team, responses), *helper_stand_ins(name)]
        adds[name] = _added(name, item, team, stand_ins, p)
    if any(adds.values()):
        stand_ins = _versions(main, team, responses)
        for helper in used:
            stand_ins += main_stand_ins(main, helper)
        adds[main] = _added(main, item, team, stand_ins, p)
    return adds


def _added(name: str, item: dict, team: dict[str, Part], stand_ins: list[Part], p: float) -> float:
    """Return what a part adds to the share p of the tests that the team passes with it.

    What stands in for a helper depends on main alone, and the other way round. So the sandbox
    remembers these verdicts over partners.
    """
    q = 0.0
    for stand_in in stand_ins:
        verdict = run(item, team | {name: stand_in}, once=True)
        q = max(q, share_passed(verdict))
        if q >= p:
            break  # it adds nothing, whatever the others pass
    return contribution(p, q)


@functools.cache
def helper_stand_ins(name: str) -> list[Part]:
    sources = [HELPER.format(name=name, expression=text) for text in HELPER_STAND_INS]
    return [Part(source, shareable=True) for source in sources]


@functools.cache
def main_stand_ins(name: str, helper: str) -> list[Part]:
    sources = [MAIN.format(name=name, helper=helper, expression=text) for text in MAIN_STAND_INS]
    return [Part(source, reads=frozenset([helper]), shareable=True) for source in sources]


def _versions(name: str, team: dict[str, Part], responses: list[str]) -> list[Part]:
    """Return the functions of that name that partners of its author wrote too."""
    if len(responses) == 1:
        return []
    versions = []
    for author, text in zip(team, responses, strict=True):
        if author != name:
            versions.append(extract(text, name, frozenset(team) - {name, author}))
    return [part for part in versions if part.source]
