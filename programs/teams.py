"""Put a coding team's functions together, run them, and measure what each function adds.

responses[-1] has the main function, and the others have the helpers. A single agent writes a helper
and main in one text. All parts form one program, helpers first. An author cannot
define a partner's function: a statement that binds its name is dropped. Other names are shared, and
the later definition wins.

Stand-ins are functions that know nothing of any problem. Add an expression to HELPER_STAND_INS or
MAIN_STAND_INS to catch one more family of tricks. A stand-in returns what it was given, or a
constant. It must not do real work: with a stand-in that sorts, no helper that sorts would add
anything.
"""

import ast
import atexit
import functools
from collections.abc import Iterable

from policies import Mistake
from programs.extraction import Part, extract, names_in, part_names, syntax_tree
from programs.sandbox.box import Program, Sandbox, Verdict

# Results that a helper could return. `args` is the list of its arguments, and `x` the first one.
HELPER_STAND_INS = (
    "x",
    "args[-1]",
    "args",
    "None",  # so early, as it ends a loop that those above keep up
    "[x, x]",
    "(None, x)",
    "[x[:1], x[1:]]",
    "tuple(x)",
    "len(x)",
    "x.pop()",
    "x(*args[1:])",
    "lambda *_: x",
    "True",
    "0",
    "''",
    "[]",
)
# Results that main could return. `value` is what a helper returns for main's arguments, and perhaps
# for the literals that main passes to it.
MAIN_STAND_INS = (
    "value",
    "value[0]",
    "value[-1]",
    "value[::-1]",
    "value()",
    "int(value)",
    "list(value if iter(value) is value else value[:])",  # a list of a set may sort it
    "list(value.values())[-1]",
    "list(vars(value).values())[-1]",
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
    value = {call}
    return {expression}
"""

MOST_HANGS = 5  # stand-ins for a part that do not end, of some seconds each; then no other is tried

Team = dict[str, Part]  # by the name of the function, the main function last
box = Sandbox()  # one per process; its workers start with the first program
atexit.register(box.close)


def judged(programs: Iterable[Program]) -> list[Verdict]:
    """Return the sandbox's verdicts. Raise Mistake for a `setup` or a machine that does not run."""
    try:
        return box.run(programs)
    except (ValueError, RuntimeError) as error:
        raise Mistake(error) from error


@functools.cache
def can_import(module: str) -> bool:
    """Return whether the sandbox has a module, for tests and programs alike."""
    [verdict] = judged([Program(f"def f():\n    import {module}", ("f()",), "f")])
    [error] = verdict.errors
    return not (error or "").startswith(("ImportError", "ModuleNotFoundError", "SyntaxError"))


def team_parts(item: dict, responses: list[str]) -> Team:
    """Return the parts of a team's responses."""
    names = part_names(item, len(responses))
    if len(responses) == 1:
        responses = responses * len(names)
    team = {}
    for name, text in zip(names, responses, strict=True):
        team[name] = extract(text, name, frozenset(names) - {name})
    return team


def used_helpers(team: Team) -> list[str]:
    """Return the helpers that main mentions, directly or through other helpers."""
    *helpers, main = team
    used = [main]
    for name in used:  # grows while it is read
        for helper in helpers:
            if helper in team[name].reads and helper not in used:
                used.append(helper)
    return [name for name in helpers if name in used]


def verdict(item: dict, responses: list[str]) -> Verdict:
    """Return the verdict of a team, whatever is missing or broken in its responses."""
    return run(item, team_parts(item, responses))


def run(item: dict, team: Team, may_fail: int | None = None) -> Verdict:
    """Return the verdict of the team's program. `Program` explains `may_fail`."""
    [verdict] = judged([program(item, team, may_fail)])
    return verdict


def program(item: dict, team: Team, may_fail: int | None = None) -> Program:
    """Return the team's program.

    It leaves out helpers that main does not use. So it is the same for all
    partners, and the sandbox runs it once.
    """
    *_, main = team
    parts = [team[name] for name in [*used_helpers(team), main]]
    statements = [statement for part in parts for statement in part.statements]
    return Program(
        code="",
        tests=item["tests"],
        entry_point=main,
        setup=item.get("setup", ""),
        own_process=not all(part.shareable for part in parts),
        statements=tuple(statements),
        may_fail=may_fail,
    )


def share_passed(verdict: Verdict) -> float:
    return sum(verdict.passed) / max(len(verdict.passed), 1)


def contribution(p: float, q: float) -> float:
    """Return (p - q) / (1 - q), the fraction of the failing tests that a part makes pass.

    `p` is the fraction of tests that pass with the part, and `q` without it.
    """
    return (p - q) / (1 - q) if q < p else 0.0


def contributions(item: dict, responses: list[str], team: Team, p: float) -> dict[str, float]:
    """Return the contribution of each part to a team that passes a fraction p > 0 of its tests.

    A helper that main does not use adds 0. If no helper adds anything, main adds 0.
    """
    *_, main = team
    used = [name for name in used_helpers(team) if team[name].statements]
    adds = dict.fromkeys(team, 0.0)
    for name in used:
        stand_ins = [*_versions(name, team, responses), *helper_stand_ins(name)]
        adds[name] = _added(name, item, team, stand_ins, p)
    if any(adds.values()):
        stand_ins = _versions(main, team, responses)
        for helper in used:
            stand_ins += main_stand_ins(main, helper, f"{helper}(*args)")
            stand_ins += main_stand_ins(main, helper, f"{helper}(*args, 0)")[:1]
            for call in literal_calls(team[main], helper):
                stand_ins += main_stand_ins(main, helper, call)
        adds[main] = _added(main, item, team, stand_ins, p)
    for name, part in team.items():
        if part.looks_inside:  # it may know a stand-in, and fail with it on purpose
            adds[name] = 0.0
    return adds


def literal_calls(main: Part, helper: str) -> list[str]:
    """Return main's calls of a helper with literals, such as a password. *args is the rest."""
    calls = []
    for node in ast.walk(syntax_tree(main.source)):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == helper:
            arguments = []
            for argument in [*node.args, *node.keywords]:
                if not names_in(argument):
                    arguments.append(ast.unparse(argument))
                elif "*args" not in arguments:
                    arguments.append("*args")
            call = f"{helper}({', '.join(arguments)})"
            if call not in calls and arguments != ["*args"]:
                calls.append(call)
    return calls


def _added(name: str, item: dict, team: Team, stand_ins: list[Part], p: float) -> float:
    """Return the contribution of a part to a team that passes a fraction p of its tests.

    The program with a stand-in for the helper depends on main alone, and the other way round. So
    the sandbox reuses these verdicts for all partners.
    """
    q = 0.0
    hangs = 0
    may_fail = 0 if p == 1 else None  # with p = 1, only q = 1 makes a difference
    for stand_in in stand_ins:
        verdict = run(item, team | {name: stand_in}, may_fail)
        q = max(q, share_passed(verdict))
        if verdict.outcome == "timeout":
            hangs += 1
        if q >= p or hangs == MOST_HANGS:
            break  # the part adds nothing, or nothing more can be said about it
    return contribution(p, q)


def helper_stand_ins(name: str) -> list[Part]:
    return [
        Part((HELPER.format(name=name, expression=expression),), shareable=True)
        for expression in HELPER_STAND_INS
    ]


def main_stand_ins(name: str, helper: str, call: str) -> list[Part]:
    return [
        Part(
            (MAIN.format(name=name, call=call, expression=expression),),
            reads=frozenset([helper]),
            shareable=True,
        )
        for expression in MAIN_STAND_INS
    ]


def _versions(name: str, team: Team, responses: list[str]) -> list[Part]:
    """Return the functions of that name that its author's partners wrote."""
    if len(responses) == 1:
        return []
    versions = []
    for author, text in zip(team, responses, strict=True):
        if author != name:
            versions.append(extract(text, name, frozenset(team) - {name, author}))
    return [part for part in versions if part.statements]
