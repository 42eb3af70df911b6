"""How a joint response of a coding team is scored. responses[-1] is the main function's author; the
others wrote the helpers aux, aux2, ... With one agent, its text holds both aux and main.

| level; p = tests passed / tests | `code` (strict, the default)     | `code_paper`                |
|---------------------------------|----------------------------------|-----------------------------|
| structure: the helpers          | 0.4 x share that are defined and | 0.4, text with "return" [1] |
|                                 | return a value                   |                             |
| structure: main, else stop      | 0.6, the same                    | 0.6, text with "return" [1] |
| syntax, else stop               | 0.5, all of it compiles          | 0.5                         |
| tests                           | 1.0 p                            | 1.0 p [2]                   |
| cooperation: aux is used        | 0.5 p, its value decides results | 0.5 if p > 0 and "aux(" is  |
|                                 |                                  | in main, comments included  |
| cooperation: work is divided    | 1.0 p, aux is load-bearing and   | 1.0, and main is not one    |
|                                 | main is not a wrapper            | "return ..aux..", nor       |
|                                 |                                  | x = aux(..); return x       |
| cooperation: result ignored     | -0.5 p                           | -0.5, only bare calls [3]   |

`code_paper` is the reward of arXiv 2508.04652, for comparison. With n > 2 agents the cooperation of
`code` is the mean over the helpers. It is scaled by p, the penalty too, so that passing one more
test never costs anything. Where the paper and its released code differ: [1] extraction is ours, for
theirs loses decorators, nested functions and whole reference solutions; [2] all of the task's tests
rather than one-line assertions, in the sandbox rather than in the trainer, without the stop after
three time-outs; [3] the paper's rule, which in the released code never fires.

Cooperation of `code` is decided by what programs do, so that spelling does not matter. "Breaks"
means that a test which the team passed now fails:

- load-bearing: the tests break under every stand-in for aux: one that returns None, or True, or
  its argument, and one frozen to the value that aux returned first (two or more passed tests are
  needed for that one); and, where main can catch an error, with no aux at all.
- used: the frozen stand-in breaks the tests, or all of the rest do.
- ignored: aux is called (the tests break without it), and no stand-in makes a difference.
- wrapper: the value of main's first helper call is already the answer in every test passed, where
  main answers without a helper aux does as well, or the syntax tree of main returns, through any
  copies, one helper's value as it is. What main does to the arguments does not count.

Of the schemes that the paper saw in trained teams, coordinator and strategy filter earn 4.0, and so
does a decorator where a test shows what it adds; otherwise it is a wrapper, 3.0. A fallback earns
3.0 if main alone passes: aux's value is used, but the team could do without it.

What this cannot see: main undoing what aux did (aux adds 1, main subtracts it), main doing all
the work and refusing to answer if aux disagrees, what no test shows, and a main that calls aux
100,000 times (which a stand-in takes for an endless loop).

Both agents' code is one program, helpers first. Neither can define the other's function: what a
response binds to a partner's name is dropped. Other names are shared, the later definition wins.
"""

import ast
import atexit
import contextlib
import re
import threading

from coding.extraction import Part, extract
from coding.sandbox.box import Program, Sandbox, Verdict

HELPERS, MAIN, SYNTAX, TESTS, USED, DIVIDED, IGNORED = 0.4, 0.6, 0.5, 1.0, 0.5, 1.0, -0.5
COMPONENTS = ("structure", "syntax", "tests", "cooperation")
METRICS = ("pass", "aux_called", "wrapper", "load_bearing", "coop")

# --- programs: the team's, and what they become without the helper's work ------------------------

_lock, _open, _box = threading.Lock(), contextlib.ExitStack(), None


def sandbox() -> Sandbox:
    """The one sandbox of this process, opened when it is first needed and closed at exit."""
    global _box
    with _lock:
        if _box is None:
            _box = _open.enter_context(Sandbox())
            atexit.register(_open.close)
        return _box


def verdict(item: dict, responses: list[str]) -> Verdict:
    """What the tests say about a team, whatever is missing or broken in its responses."""
    team = team_parts(item, responses)
    return sandbox().run([_program(item, team)])[0]


def team_parts(item: dict, responses: list[str]) -> dict[str, Part]:
    """The parts by the name of their function, the main function last."""
    helpers = ["aux", *(f"aux{i}" for i in range(2, len(responses)))]
    names = [*helpers, item["entry_point"]]
    texts = responses * 2 if len(responses) == 1 else responses
    return {
        name: extract(text, name, frozenset(names) - {name})
        for name, text in zip(names, texts, strict=True)
    }


def _used(team: dict[str, Part]) -> list[str]:
    """The helpers that main mentions, or that a helper mentions which main does, and so on."""
    *helpers, main = team
    used, queue = set(), [main]
    while queue:
        new = team[queue.pop()].reads & set(helpers) - used
        used |= new
        queue += new
    return [name for name in helpers if name in used]


def _program(item, team, tests=None, replaced: dict[str, str] | None = None, after="") -> Program:
    """The team's program, without the helpers that nobody mentions: whatever they hold, it is
    the same program, and runs once for all partners. `replaced` holds other texts of helpers."""
    *_, main = team
    sources = {name: team[name].source for name in _used(team)} | (replaced or {})
    code = "\n".join(filter(None, [*sources.values(), team[main].source, after]))
    tests = item["tests"] if tests is None else tests
    return Program(code=code, tests=tests, entry_point=main, setup=item.get("setup", ""))


# --- behaviour: what becomes of the tests without a helper's work --------------------------------

STAND_INS = ("None", "True", "[*args, *kwargs.values(), None][0]")
_STAND_IN = """
def {name}(*args, **kwargs):
    {name}.calls += 1
    if {name}.calls > 100_000:
        raise RuntimeError("a stand-in, called without end")
    return {value}
{name}.calls = 0
"""
# A helper's calls of itself and of other helpers stay what they were: only main is misled.
_OUTERMOST = """
class _team_First(BaseException):
    pass
def _team_outermost(function, after, inside=[]):
    def call(*args, **kwargs):
        if inside:
            return function(*args, **kwargs)
        inside.append(function)
        try:
            value = function(*args, **kwargs)
        finally:
            inside.clear()
        return after(value)
    return call
def _team_freeze(value, first=[], calls=[]):
    import copy
    calls.append(1)
    if len(calls) > 100_000:
        raise RuntimeError("a stand-in, called without end")
    first[:] = first or [copy.deepcopy(value)]
    return copy.deepcopy(first[0])
def _team_raise(value):
    raise _team_First(value)
"""
_FROZEN = "\n{name} = _team_outermost({name}, _team_freeze)"
_RAISING = "\n_team_{name}, {name} = {name}, _team_outermost({name}, _team_raise)"
_FIRST_VALUE = """
_team_main = {main}
def {main}(*args, **kwargs):
    try:
        _team_main(*args, **kwargs)
    except _team_First as first:
        return first.args[0]
    return _team_{name}(*args, **kwargs)
"""
_DEADLY = "def {name}(*args, **kwargs):\n    import os\n    os._exit(1)"  # nothing can catch it


def _behaviour(item: dict, team: dict[str, Part], passed: list[bool]) -> dict[str, float]:
    """The shares of the helpers that are called, used, load_bearing, ignored; wrapper is 0 or 1.

    All are 0 where no test passed or main mentions no helper. The stand-ins depend on main alone,
    so the sandbox remembers them over its partners.
    """
    *helpers, main = team
    shares = dict.fromkeys(("called", "used", "load_bearing", "ignored", "wrapper"), 0.0)
    names = [name for name in _used(team) if team[name].source]
    tests = [test for test, ok in zip(item["tests"], passed, strict=True) if ok]
    if not names or not tests:
        return shares

    def breaks(programs: list[Program]) -> list[bool]:
        return [not all(verdict.passed) for verdict in sandbox().run(programs)]

    plan = _plan(item, team, names, tests)
    broke = dict(zip(plan, breaks(list(plan.values())), strict=True))
    for name in names:
        stand_ins = [broke[name, value] for value in STAND_INS]
        needed = all(stand_ins) and broke.get((name, "absent"), True)
        frozen = broke.get((name, "frozen"), needed)
        matters = frozen or any(stand_ins)
        deadly = {name: _DEADLY.format(name=name)}
        called = matters or breaks([_program(item, team, tests, deadly)])[0]
        shares["called"] += called / len(helpers)
        shares["used"] += (frozen or needed) / len(helpers)
        shares["load_bearing"] += (frozen and needed) / len(helpers)
        shares["ignored"] += (called and not matters) / len(helpers)
    passes_on = not broke.get((main, "first value"), False)
    shares["wrapper"] = float(passes_on and shares["used"] > 0)
    return shares


def _plan(item, team, names: list[str], tests: list[str]) -> dict[tuple[str, str], Program]:
    """The programs that decide, by the helper (or main) and what is done to it."""
    *_, main = team
    catches = any(team[name].catches for name in [*names, main])
    plan = {}
    for name in names:
        texts = {value: _STAND_IN.format(name=name, value=value) for value in STAND_INS}
        if len(tests) > 1:  # for the first call, the first value is the right one
            texts["frozen"] = _OUTERMOST + team[name].source + _FROZEN.format(name=name)
        if catches:
            texts["absent"] = ""
        for kind, text in texts.items():
            plan[name, kind] = _program(item, team, tests, {name: text})
    if team[main].forwards not in names:
        texts = {name: team[name].source + _RAISING.format(name=name) for name in names}
        texts[names[0]] = _OUTERMOST + texts[names[0]]
        after = _FIRST_VALUE.format(main=main, name=names[0])
        plan[main, "first value"] = _program(item, team, tests, texts, after)
    return plan


# --- the rewards ----------------------------------------------------------------------------------


def code(item: dict, responses: list[str]) -> dict[str, float]:
    """The strict reward of the table above, 0 to 4."""
    team = team_parts(item, responses)
    scores, passed = _levels(item, team, lambda part: part.returns)
    share = _behaviour(item, team, passed)
    divided = 0.0 if share["wrapper"] else share["load_bearing"]
    bonus = USED * share["used"] + DIVIDED * divided + IGNORED * share["ignored"]
    scores["cooperation"] = bonus * scores["tests"] / TESTS
    scores["metric/aux_called"] = share["called"]
    scores["metric/wrapper"] = share["wrapper"]
    scores["metric/load_bearing"] = share["load_bearing"]
    scores["metric/coop"] = float(scores["metric/pass"] and divided == 1)
    return scores


code.maximum = 4.0


def code_paper(item: dict, responses: list[str]) -> dict[str, float]:
    """The paper's reward, with what is known to fool it, such as "aux(" in a comment; 0 to 4."""
    team = team_parts(item, responses)
    scores, passed = _levels(item, team, lambda part: bool(re.search(r"return\s", part.raw)))
    *helpers, main = team
    call = rf"\b({'|'.join(helpers)})\s*\("
    calls = len(re.findall(call, team[main].raw))
    if any(passed) and calls and any(team[name].raw for name in helpers):
        wrapper = _looks_like_wrapper(team[main].node)
        bare = len(re.findall(rf"^\s*{call}", team[main].raw, re.MULTILINE)) == calls
        scores["cooperation"] = USED + DIVIDED * (not wrapper) + IGNORED * bare
        scores["metric/aux_called"], scores["metric/wrapper"] = 1.0, float(wrapper)
    return scores


code_paper.maximum = 4.0


def _levels(item, team, is_defined) -> tuple[dict[str, float], list[bool]]:
    """Structure, syntax and tests, each only if the ones before hold, and which tests passed."""
    scores = dict.fromkeys([*COMPONENTS, *(f"metric/{name}" for name in METRICS)], 0.0)
    *helpers, main = team
    defined = sum(is_defined(team[name]) for name in helpers) / len(helpers)
    scores["structure"] = HELPERS * defined + MAIN * is_defined(team[main])
    if not is_defined(team[main]) or any(part.broken for part in team.values()):
        return scores, [False] * len(item["tests"])
    scores["syntax"] = SYNTAX
    passed = sandbox().run([_program(item, team)])[0].passed
    scores["tests"] = TESTS * sum(passed) / max(len(passed), 1)
    scores["metric/pass"] = float(scores["tests"] == TESTS)
    return scores, passed


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
