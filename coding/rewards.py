"""How a joint response of a coding team is scored. responses[-1] is the main function's author; the
others wrote the helpers aux, aux2, ... With one agent, its text holds both aux and main.

| level; p = tests passed / tests | `code` (strict, the default)     | `code_paper`                |
|---------------------------------|----------------------------------|-----------------------------|
| structure: the helpers          | 0.4 x share that return a value  | 0.4, text with "return" [1] |
|                                 | or are needed                    |                             |
| structure: main, else stop      | 0.6, the same                    | 0.6, text with "return" [1] |
| syntax, else stop               | 0.5, all of it compiles          | 0.5                         |
| tests                           | 1.0 p                            | 1.0 p [2]                   |
| cooperation                     | 1.5 x share of the helpers that  | 0.5 if p > 0 and "aux(" is  |
|                                 | are needed, if main is needed    | in main, comments included  |
|                                 | and p = 1                        | 1.0, and main is not one    |
|                                 |                                  | "return ..aux..", nor       |
|                                 |                                  | x = aux(..); return x       |
|                                 |                                  | -0.5, only bare calls [3]   |

Take `code` to train a team that divides its work, `code_paper` to compare with the paper's figures.

`code` pays cooperation for what each agent adds: what the team loses, in tests passed, when that
agent's part is replaced by the best of a bank of parts that know nothing of any problem
(sandbox/bank.py). It is the difference reward of Wolpert and Tumer (2002), which COMA (Foerster et
al., 2018) brought to policy gradients; the bank is its default action. A part is needed if with
each of the bank in its place the team loses a test. The smaller contribution of the two counts, and
only for a team that passes all tests: to divide the work of a wrong answer is worth less than to be
right alone, and to pass one more test never costs anything. A stand-in that fails, cannot be made
or does not end says nothing: only one that passes is evidence.

Of the schemes that the paper saw, coordinator, strategy filter and decorator earn 4.0 where a test
shows what each part adds. A fallback that passes alone earns 2.5, as without a helper; one that
does less well than the helper, 4.0. So does a helper that is a table: what it holds, the bank does
not.

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
import contextlib
import functools
import re
import threading
from dataclasses import replace

from coding.extraction import Part, extract
from coding.sandbox import bank
from coding.sandbox.box import Program, Sandbox, Verdict

HELPERS, MAIN, SYNTAX, TESTS, COOPERATION = 0.4, 0.6, 0.5, 1.0, 1.5
COMPONENTS = ("structure", "syntax", "tests", "cooperation")
METRICS = ("pass", "aux_called", "wrapper", "load_bearing", "coop")

# --- programs -------------------------------------------------------------------------------------

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


def _program(item, team, without: str = "", **bank_fields) -> Program:
    """The team's program, without the helpers that nobody mentions: whatever they hold, it is
    the same program, and runs once for all partners. `without`: a function that is left out."""
    *_, main = team
    names = [name for name in [*_used(team), main] if name != without]
    code = "\n".join(filter(None, (team[name].source for name in names)))
    apart = not all(team[name].tame for name in names)
    return Program(code, item["tests"], main, item.get("setup", ""), apart, **bank_fields)


# --- what an agent adds ---------------------------------------------------------------------------


def _needed(item: dict, team: dict[str, Part], seconds: float) -> dict[str, bool]:
    """Of the parts of a team that passes all tests: is there none in the bank that does as well?

    What stands in for a helper depends on main alone, and the other way round, so the sandbox
    remembers it over partners. seconds: what the team takes.
    """
    *_, main = team
    names = [name for name in _used(team) if team[name].source]
    limit = 0.25
    while limit < 2 * seconds:
        limit *= 2

    def needed(team, replaced: str, caller_of: str = "") -> bool:
        place = {"replaced": replaced, "caller_of": caller_of, "limit": limit}
        [verdict] = sandbox().run([_program(item, team, replaced, **place)])
        return len(verdict.passed) == bank.size(caller_of) and not any(verdict.passed)

    def is_a_number(name: str) -> bool:
        texts = (f"def {name}(*args, **kwargs):\n    return {n}" for n in team[name].numbers)
        plain = [replace(team[name], source=text, tame=True) for text in texts]
        verdicts = sandbox().run([_program(item, team | {name: part}) for part in plain])
        return any(all(verdict.passed) for verdict in verdicts)

    found = {name: needed(team, name) and not is_a_number(name) for name in names}
    if unarmed := _unarmed(team[main]):
        found |= {name: found[name] and needed(team | {main: unarmed}, name) for name in names}
    if any(found.values()):
        found[main] = all(needed(team, main, name) for name in names)
    return found


@functools.lru_cache(maxsize=512)
def _unarmed(part: Part) -> Part | None:
    """A main function that cannot refuse to work: whether a helper agrees is no part of the work.

    It asserts and raises nothing, and compares by == what it compared by `is`, so that a stand-in
    can agree with it. None if that is the same.
    """
    source = ast.unparse(_Unarm().visit(ast.parse(part.source)))
    return replace(part, source=source) if source != part.source else None


class _Unarm(ast.NodeTransformer):
    def visit_Assert(self, node):
        return ast.Pass()

    visit_Raise = visit_Assert

    def visit_Is(self, node):
        return ast.Eq()

    def visit_IsNot(self, node):
        return ast.NotEq()


# --- the rewards ----------------------------------------------------------------------------------


def code(item: dict, responses: list[str]) -> dict[str, float]:
    """The strict reward of the table above, 0 to 4."""
    team = team_parts(item, responses)
    scores, verdict = _levels(item, team, lambda part: part.returns)
    *helpers, main = team
    scores["metric/aux_called"] = len(_used(team)) / len(helpers) if any(verdict.passed) else 0.0
    if not scores["metric/pass"]:
        return scores
    needed = _needed(item, team, verdict.seconds)
    silent = [name for name in helpers if needed.get(name) and not team[name].returns]
    scores["structure"] += HELPERS * len(silent) / len(helpers)  # it works in place
    share = sum(needed.get(name, False) for name in helpers) / len(helpers)
    scores["metric/load_bearing"] = share
    scores["metric/wrapper"] = float(not needed.get(main, True))
    scores["cooperation"] = COOPERATION * share * needed.get(main, False)
    scores["metric/coop"] = float(scores["cooperation"] == COOPERATION)
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
    [verdict] = sandbox().run([_program(item, team)])
    scores["tests"] = TESTS * sum(verdict.passed) / max(len(verdict.passed), 1)
    scores["metric/pass"] = float(scores["tests"] == TESTS)
    return scores, verdict


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
