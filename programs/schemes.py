"""Name how a coding team divides its work, with the cooperation schemes of arXiv 2508.04652.

`classify` reads the syntax tree of the main function. It follows the values of helpers through
assignments, loops and method calls (out.append(value)), whatever the order of the statements.

The first scheme that applies is the answer.

| scheme          | main function                                                               |
|-----------------|-----------------------------------------------------------------------------|
| other           | does not parse, or is not there                                             |
| unused          | calls no helper, or does nothing with the value                             |
| wrapper         | returns the value of its only call unchanged                                |
| fallback        | computes the result itself if a helper raises or its value is rejected      |
| strategy filter | uses values in conditions only: the helper decides, main does the work      |
| coordinator     | hands out sub-tasks: calls helpers in a loop, or at several places          |
| decorator       | calls once and works on the value, or handles the cases around it           |

A tree does not show everything. A helper that changes its argument in place looks unused. A value
looks used in code after a return, and in 0 * aux(xs).
"""

import ast
import functools
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from programs.extraction import extract, part_names, syntax_tree

_TESTS = {"If.test", "IfExp.test", "While.test", "Match.subject", "comprehension.ifs"}
_LOOPS = {
    "For.body",
    "While.test",
    "While.body",
    "Lambda.body",
    "comprehension.ifs",
    "ListComp.elt",
    "SetComp.elt",
    "GeneratorExp.elt",
    "DictComp.key",
    "DictComp.value",
}
_COMPUTED = (
    ast.ListComp,
    ast.SetComp,
    ast.GeneratorExp,
    ast.DictComp,
    ast.Call,
    ast.BinOp,
    ast.Compare,
)


def classify(responses: list[str], item: dict) -> str:
    """Return the scheme of a joint response, the main function's author last."""
    *helpers, main = part_names(item, len(responses))
    return scheme_of(responses[-1], main, frozenset(helpers))


@functools.lru_cache(maxsize=8192)
def scheme_of(text: str, entry_point: str, helpers: frozenset[str]) -> str:
    """Return the scheme of one main function."""
    part = extract(text, entry_point, helpers)
    if part.node is None:
        return "other"
    nodes = syntax_tree(part.source).body
    others = [n for n in nodes if isinstance(n, ast.FunctionDef) and n.name != entry_point]
    flow = _flow(part.node, helpers, others)
    returned = any(_data(value) & flow.holders for value in flow.results)
    if not returned and not flow.tested:
        return "unused"
    in_loops = _calls(flow, entry_point)
    called_once = in_loops == [False]
    if called_once and returned:
        origins = _origins(flow.results, flow.bindings)
        if all(_is_call(value, flow.functions) for value in origins):
            return "wrapper"
    if _has_fallback(flow):
        return "fallback"
    if not returned:
        return "strategy filter"
    return "decorator" if called_once else "coordinator"


Bindings = dict[str, list[ast.AST]]  # name: the values that it is bound to or filled with


class _Place(NamedTuple):
    node: ast.AST
    in_test: bool  # part of a condition
    in_loop: bool  # perhaps evaluated many times


class _Flow(NamedTuple):
    """The way of the helpers' values through a main function."""

    places: list[_Place]  # the nodes that main evaluates
    bindings: Bindings
    local: set[str]  # the names that main binds
    functions: set[str]  # the helpers, and the functions that call or rename one
    holders: set[str]  # `functions`, and the names that hold a value of theirs
    tested: set[str]  # the holders that conditions read
    results: list[ast.expr]  # the values that main returns


def _flow(function, helpers: frozenset[str], others: list[ast.FunctionDef]) -> _Flow:
    """Follow the helpers' values in `function`, and in the other functions of its text."""
    body = function.body
    if isinstance(body, ast.expr):  # solve = lambda xs: ...
        body = [ast.Return(body)]
    places = list(_places(ast.Module(body)))
    nodes = [place.node for place in places]
    bindings = _bindings([*others, *nodes])
    arguments = {node.arg for node in ast.walk(function.args) if isinstance(node, ast.arg)}
    local = arguments | bindings.keys()
    functions = _spread(helpers - local, bindings, _names_of_function)
    holders = _spread(functions, bindings, _data)
    tested = holders & _read(places, in_test=True)
    results = [
        node.value
        for node in nodes
        if isinstance(node, ast.Return | ast.Yield | ast.YieldFrom) and node.value
    ]
    return _Flow(places, bindings, local, functions, holders, tested, results)


def _calls(flow: _Flow, entry_point: str) -> list[bool]:
    """Return whether each call of a helper is in a loop.

    A helper that is handed over, as in map(aux, xs), counts as called in a loop. So does a helper
    of a main function that calls itself.
    """
    in_loops = []
    for place in flow.places:
        if isinstance(place.node, ast.Call):
            if _is_call(place.node, flow.functions):
                in_loops.append(place.in_loop)
            arguments = [node.id for node in place.node.args if isinstance(node, ast.Name)]
            if flow.functions.intersection(arguments) or _is_call(place.node, {entry_point}):
                in_loops.append(True)
    return in_loops


def _is_call(node: ast.AST, functions: set[str]) -> bool:
    match node:
        case ast.Call(func=ast.Name(id=name)):
            return name in functions
    return False


def _origins(values: list[ast.AST], bindings: Bindings) -> list[ast.AST]:
    """Return the expressions that values may equal, through names and alternatives."""
    origins = []
    queue = list(values)
    seen = set()
    while queue:
        match value := queue.pop():
            case ast.IfExp(body=body, orelse=orelse):
                queue += [body, orelse]
            case ast.BoolOp(op=ast.Or(), values=alternatives):
                queue += alternatives
            case ast.Name(id=name) if name in bindings:
                if name not in seen:
                    queue += bindings[name]
                seen.add(name)
            case _:
                origins.append(value)
    return origins


def _has_fallback(flow: _Flow) -> bool:
    """Return whether main tries a helper or checks its value, and has another value for it.

    Main computes the other value from its own names, without a helper's value.
    """
    tried = False
    checked = set(flow.tested)
    for place in flow.places:
        match place.node:
            case ast.Try(body=body):
                tried |= bool(_names(ast.Module(body)) & flow.functions)
            case ast.BoolOp(values=[first, *_]):  # aux(x) or ...
                checked |= _names(first) & flow.holders
    used = list(flow.results)
    for name in flow.bindings.keys() & flow.holders:
        used += flow.bindings[name]
    if not tried and not checked & set().union(*map(_data, used)):
        return False
    for value in _origins(used, flow.bindings):
        names = _names(value)
        computed = any(isinstance(node, _COMPUTED) for node in ast.walk(value))
        if computed and names & flow.local and not names & flow.holders:
            return True
    return False


def _places(node: ast.AST, in_test=False, in_loop=False) -> Iterator[_Place]:
    """Yield a node and all nodes below it that are evaluated and whose value is used.

    Nodes inside a function, a class, an assertion or a bare expression are left out.

    A node's place is in a test or in a loop if its field is one of _TESTS or _LOOPS. Two kinds of
    nodes have such places in no field of their own. So they are rewritten, as a node that has one:

        a and b and c       a and b in tests, then the tuple (c,): c is the value
        filter(test, xs)    a comprehension with `if test`, then the tuple (xs,)
    """
    yield _Place(node, in_test, in_loop)
    tests = []
    rest = node
    match node:
        case ast.Expr(value=ast.Call(func=ast.Attribute()) | ast.Yield() | ast.YieldFrom()):
            pass  # out.append(value)
        case ast.Expr() | ast.Assert() | ast.FunctionDef() | ast.ClassDef():
            return
        case ast.BoolOp(op=ast.And(), values=[*tests, last]):
            rest = ast.Tuple([last])
        case ast.Call(func=ast.Name(id="filter"), args=[test, *others]):
            tests = [ast.comprehension(ifs=[test])]
            rest = ast.Tuple(others)
    for child in tests:
        yield from _places(child, True, in_loop)
    for field, value in ast.iter_fields(rest):
        place = f"{type(rest).__name__}.{field}"
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from _places(child, in_test or place in _TESTS, in_loop or place in _LOOPS)


def _names_of_function(value: ast.AST) -> set[str]:
    if isinstance(value, ast.FunctionDef | ast.Lambda | ast.Name):
        return _names(value)
    return set()


def _data(node: ast.AST) -> set[str]:
    """Return the names that an expression reads outside of conditions."""
    return _read(_places(node), in_test=False)


def _read(places: Iterable[_Place], in_test: bool) -> set[str]:
    """Return the names that are read in conditions, or outside of them."""
    nodes = [place.node for place in places if place.in_test == in_test]
    return {node.id for node in nodes if isinstance(node, ast.Name)}


def _bindings(nodes: Iterable[ast.AST]) -> Bindings:
    """Return the names that are bound, or filled as out.append(value) does, with their values.

    A value is an expression or a function. A comprehension binds nothing here: its x is not the x
    of the next comprehension.
    """
    bindings = defaultdict(list)
    for node in nodes:
        values = []
        match node:
            case ast.FunctionDef(name=name):
                target = ast.Name(name)
                values = [node]
            case ast.Assign(targets=targets, value=value):
                target = ast.Tuple(targets)
                values = [value]
            case (
                ast.AugAssign(target=target, value=value)
                | ast.AnnAssign(target=target, value=ast.expr() as value)
                | ast.NamedExpr(target=target, value=value)
                | ast.For(target=target, iter=value)
            ):
                values = [value]
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=target), args=args) as call):
                values = [call, *args]
        if values:
            for name in _names(target):
                bindings[name] += values
    return bindings


def _spread(start: set[str], bindings: Bindings, reads: Callable) -> set[str]:
    """Return `start` and the names bound to a value that reads one of them, and so on."""
    read = {name: set().union(*map(reads, values)) for name, values in bindings.items()}
    reached = set(start)
    while new := {name for name, others in read.items() if others & reached} - reached:
        reached |= new
    return reached


def _names(node: ast.AST) -> set[str]:
    return {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
