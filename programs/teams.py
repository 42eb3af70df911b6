"""Put a coding team's functions together, run them, and measure what each function adds.

responses[-1] has the main function, and the others have the helpers. A single agent writes a helper
and main in one text. All parts form one program, helpers first. An author cannot
define a partner's function: a statement that binds its name is dropped. Other names are shared, and
the later definition wins.

A part is measured by what the team passes without it. Three things take its place.

1. A stand-in, a function that knows nothing of any problem. Add an expression to HELPER_STAND_INS
   or MAIN_STAND_INS to catch one more family of tricks. A stand-in returns what it was given, or a
   constant. It must not do real work: with a stand-in that sorts, no helper that sorts would add
   anything.
2. A replay. The helper gives what it gave in another test, without running. (This is permutation
   importance, Breiman 2001.)
3. An observed value. Main's answer is the helper's value for arguments that take no work.

The last two are tried on a program that passes all tests. programs/sandbox/observer.py does it.
"""

import atexit
import dataclasses
import itertools
from collections.abc import Iterable

from policies import Mistake
from programs.extraction import Part, extract, part_names
from programs.sandbox.box import Program, Sandbox, Verdict, is_inward

# Results that a helper could return. `args` is the list of its arguments, and `x` the first one.
# Constants come early, because they end a loop that others keep up.
HELPER_STAND_INS = (
    "x",
    "None",
    "True",
    "0",
    "''",
    "[]",
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
)
# Results that main could return. `value` is what a helper returns.
LAST_ATTRIBUTE = "list(vars(value).values())[-1]"
MAIN_STAND_INS = (
    "value",
    "next(iter(value))",
    "value[-1]",
    "value[::-1]",
    "value()",
    "int(value)",
    "list(value if iter(value) is value else value[:])",  # a list of a set may sort it
    "list(value.values())[-1]",
    LAST_ATTRIBUTE,
)
STAND_IN = """
def {name}(*args, **kwargs):
    args = [*args, *kwargs.values()]
    {first}
    return {expression}
"""
HELPER = "args = args or [None]; x = args[0]"
MAIN = "value = {helper}(*args)"
OBSERVE = '__import__("observer").Observer(globals(), {!r}, {!r}, {!r}, {!r}, {!r})'
TEST = "{main}.number = {number}\n{test}"
REPORT = "raise ValueError({main}.report())"

# No other stand-in for a part is tried after so many seconds, which five take that do not end.
MOST_SECONDS = 10.0

Team = dict[str, Part]  # by the name of the function, the main function last
box = Sandbox()  # one per process; its workers start with the first program
atexit.register(box.close)


def judged(programs: Iterable[Program]) -> list[Verdict]:
    """Return the sandbox's verdicts. Raise Mistake for a `setup` or a machine that does not run."""
    try:
        return box.run(programs)
    except (ValueError, RuntimeError) as error:
        raise Mistake(error) from error


def team_parts(item: dict, responses: list[str]) -> Team:
    """Return the parts of a team's responses."""
    names = part_names(item, len(responses))
    if len(responses) == 1:
        responses = responses * len(names)
    if len(responses) != len(names):
        raise Mistake(f"an item with {', '.join(names)} is not for {len(responses)} responses")
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


def run(item: dict, team: Team, may_fail: int | None = None) -> Verdict:
    """Return the verdict of the team's program. `Program` explains `may_fail`."""
    [verdict] = judged([program(item, team, may_fail)])
    return verdict


def program(item: dict, team: Team, may_fail: int | None = None) -> Program:
    """Return the team's program.

    It leaves out helpers that main does not use. So it is the same for all
    partners, and the sandbox runs it once.
    """
    if not isinstance(item["tests"], list | tuple):
        raise Mistake(f"the tests of an item have to be a list of texts, not {item['tests']!r:.60}")
    *_, main = team
    parts = [team[name] for name in [*used_helpers(team), main]]
    statements = [statement for part in parts for statement in part.statements]
    return Program(
        code="",
        tests=tuple(item["tests"]),
        entry_point=main,
        setup=item.get("setup", ""),
        statements=tuple(statements),
        may_fail=may_fail,
    )


def share_passed(verdict: Verdict) -> float:
    return sum(verdict.passed) / max(len(verdict.passed), 1)


def contribution(p: float, q: float) -> float:
    """Return `(p - q) / (1 - q)`, the fraction of the failing tests that a part makes pass.

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
    given = []  # the helpers that main calls, and whether it adds anything to what they give
    for name in used:
        stand_ins = [*_versions(name, team, responses), *helper_stand_ins(name, team)]
        adds[name] = _added(name, item, team, stand_ins, p)
        if adds[name] and p == 1:
            needed, is_answer = _observed(name, item, team)
            adds[name] *= needed
            if needed and name in team[main].reads:
                given.append(is_answer)
    # To put the values of several helpers together is work of main.
    if any(adds.values()) and given != [True]:
        stand_ins = _versions(main, team, responses)
        for helper in used:
            stand_ins += main_stand_ins(helper, item, team)
        adds[main] = _added(main, item, team, stand_ins, p)
    return adds


def _observed(helper: str, item: dict, team: Team) -> tuple[bool, bool]:
    """Return whether a team that passes all tests needs a helper, and whether it gives the answer.

    A program that notices that its helper is observed looks inside it, rather than calling it. So
    it may know a stand-in, and the helper adds nothing.
    """
    *_, main = team
    trivial = (*HELPER_STAND_INS, "tuple(args)")
    parts = ([], [])  # statements up to the helper's, and the others
    place = 0
    for name in [*used_helpers(team), main]:
        parts[place].extend(team[name].statements)
        if name == helper:
            place = 1
    observe = OBSERVE.format(helper, main, parts, trivial, MAIN_STAND_INS)
    count = len(item["tests"])
    tests = [
        TEST.format(main=main, number=number, test=test)
        for number, test in enumerate(item["tests"])
    ]
    observing = dataclasses.replace(
        program(item, team),
        statements=(observe,),
        tests=(*tests, REPORT.format(main=main), *tests),
        may_fail=1,  # the report
    )
    [verdict] = box.run([observing])
    report = verdict.errors[count] or ""
    is_same = all(verdict.passed[:count]) and report.startswith("ValueError")
    is_slow = verdict.seconds >= MOST_SECONDS  # there was no time for all of the replay
    needed = is_same and not is_slow and not all(verdict.passed[count + 1 :])
    return needed, "main" in report


def _added(name: str, item: dict, team: Team, stand_ins: list[Part], p: float) -> float:
    """Return the contribution of a part to a team that passes a fraction p of its tests.

    The program with a stand-in for the helper depends on main alone, and the other way round. So
    the sandbox reuses these verdicts for all partners.
    """
    q = 0.0
    seconds = 0.0
    may_fail = 0 if p == 1 else None  # with p = 1, only q = 1 makes a difference
    for stand_in in stand_ins:
        verdict = run(item, team | {name: stand_in}, may_fail)
        q = max(q, share_passed(verdict))
        seconds += verdict.seconds
        if q >= p or seconds > MOST_SECONDS:
            break  # the part adds nothing, or nothing more can be said about it
    return contribution(p, q)


def helper_stand_ins(name: str, team: Team) -> list[Part]:
    """Return the stand-ins for a helper. The last ones ask another helper."""
    *helpers, _ = team
    stand_ins = [_stand_in(name, team, HELPER, expression) for expression in HELPER_STAND_INS]
    for other in helpers:
        if other != name and team[other].statements:
            stand_ins.append(_stand_in(name, team, HELPER, f"{other}(*args)", other))
    return stand_ins


def main_stand_ins(helper: str, item: dict, team: Team) -> list[Part]:
    """Return the stand-ins for main that use a helper's value.

    An object has attributes of its own by a class or an import. Where there is neither, no stand-in
    reads one: it would need a process of its own, which takes as long as five others.
    """
    *_, main = team
    first = MAIN.format(helper=helper)
    sources = itertools.chain([item.get("setup", "")], *(part.statements for part in team.values()))
    is_plain = all(map(is_inward, sources))
    return [
        _stand_in(main, team, first, expression, helper)
        for expression in MAIN_STAND_INS
        if not (is_plain and expression == LAST_ATTRIBUTE)
    ]


def _stand_in(name: str, team: Team, first: str, expression: str, *helpers: str) -> Part:
    """Return a function in the place of a part's own, after the part's other statements.

    It calls the helpers.
    """
    source = STAND_IN.format(name=name, first=first, expression=expression)
    part = team[name]
    if len(part.statements) == 1:  # its own function
        part = Part()
    return dataclasses.replace(
        part, statements=(*part.statements, source), reads=part.reads.union(helpers)
    )


def _versions(name: str, team: Team, responses: list[str]) -> list[Part]:
    """Return the functions of that name that its author's partners wrote."""
    if len(responses) == 1:
        return []
    versions = [
        extract(text, name, frozenset(team) - {name, author})
        for author, text in zip(team, responses, strict=True)
        if author != name
    ]
    return [part for part in versions if part.statements]
