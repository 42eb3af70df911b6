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
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from programs.extraction import extract, part_names

_COMPUTED = (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)
_COMPUTED += (ast.Call, ast.BinOp, ast.Compare)


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
    functions = [n for n in ast.parse(part.source).body if isinstance(n, ast.FunctionDef)]
    others = [function for function in functions if function.name != entry_point]
    return _scheme(_flow(part.node, helpers, others), entry_point)


def _scheme(flow: "_Flow", entry_point: str) -> str:
    recursive = False
    tested = False
    for place in flow.places:
        if isinstance(place.node, ast.Name):
            recursive |= place.node.id == entry_point
            tested |= place.in_test and place.node.id in flow.holders
    returned = any(_data(value) & flow.holders for value in flow.results)
    if not returned and not tested:
        return "unused"
    calls = _calls(flow)
    called_once = len(calls) == 1 and not calls[0].in_loop and not recursive
    if called_once and returned:
        origins = _origins(flow.results, flow.bindings)
        if all(_is_call(value, flow.functions) for value in origins):
            return "wrapper"
    if _computes_instead(flow) or (returned and _doubts(flow)):
        return "fallback"
    if not returned:
        return "strategy filter"
    return "decorator" if called_once else "coordinator"


class _Place(NamedTuple):
    node: ast.AST
    in_test: bool  # part of a condition
    in_loop: bool  # perhaps evaluated many times


class _Flow(NamedTuple):
    """The way of the helpers' values through a main function."""

    places: list[_Place]  # the nodes that main evaluates
    bindings: dict[str, list[ast.AST]]  # name: the values that it is bound to or filled with
    local: set[str]  # the names that main binds
    functions: set[str]  # the helpers, and the functions that call or rename one
    holders: set[str]  # `functions`, and the names that hold a value of theirs
    results: list[ast.expr]  # the values that main returns


def _flow(function, helpers: frozenset[str], others: list[ast.FunctionDef]) -> _Flow:
    """Follow the helpers' values in `function`, and in the other functions of its text."""
    body = function.body
    if isinstance(body, ast.expr):  # solve = lambda xs: ...
        body = [ast.Return(body)]
    places = list(_places(ast.Module(body)))
    nodes = [place.node for place in places]
    # A comprehension has names of its own: its x is not the x of the next comprehension.
    binding = [node for node in nodes if not isinstance(node, ast.comprehension)]
    bindings = _bindings([*others, *binding])
    arguments = {node.arg for node in ast.walk(function.args) if isinstance(node, ast.arg)}
    local = arguments | bindings.keys()
    functions = _spread(helpers - local, bindings, _names_of_function)
    holders = _spread(functions, bindings, _data)
    return _Flow(places, bindings, local, functions, holders, _returned(nodes))


def _calls(flow: _Flow) -> list[_Place]:
    """Return the places that call helpers.

    A helper that is handed over, as in map(aux, xs), counts as called in a loop.
    """
    called = {place.node.func for place in flow.places if isinstance(place.node, ast.Call)}
    renamed = set()
    for values in flow.bindings.values():
        renamed.update(values)
    calls = []
    for place in flow.places:
        match place.node:
            case ast.Name(id=name, ctx=ast.Load()) as node:
                if name in flow.functions and node not in renamed:
                    in_loop = place.in_loop or node not in called
                    calls.append(place._replace(in_loop=in_loop))
    return calls


def _is_call(node: ast.AST, functions: set[str]) -> bool:
    function = node.func if isinstance(node, ast.Call) else None
    return isinstance(function, ast.Name) and function.id in functions


def _origins(values: list[ast.AST], bindings: dict[str, list[ast.AST]]) -> list[ast.AST]:
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


def _tries(flow: _Flow) -> list[ast.Try]:
    """Return the try statements around a helper."""
    tries = [place.node for place in flow.places if isinstance(place.node, ast.Try)]
    return [node for node in tries if _names(ast.Module(node.body)) & flow.functions]


def _computes_instead(flow: _Flow) -> bool:
    """Return whether main computes something where a helper raises."""
    for node in _tries(flow):
        for handler in node.handlers:
            nodes = [place.node for place in _places(handler)]
            values = _returned(nodes)
            for part in nodes:
                values += [value for _, value in _bound(part)]
            if any(_is_own_work(value, flow) for value in values):
                return True
    return False


def _doubts(flow: _Flow) -> bool:
    """Return whether main checks a helper's value and has computed another value itself."""
    checked = []
    for place in flow.places:
        if place.in_test:
            checked.append(place.node)
        if isinstance(place.node, ast.BoolOp):  # aux(x) or ...
            checked.append(place.node.values[0])
    checked_calls = set()
    for value in _origins(checked, flow.bindings):
        if _is_call(value, flow.functions):
            checked_calls.add(ast.dump(value))

    used = list(flow.results)
    for name in flow.bindings.keys() & flow.holders:
        used += flow.bindings[name]
    used = _origins(used, flow.bindings)
    if not _tries(flow) and not any(ast.dump(value) in checked_calls for value in used):
        return False
    return any(_is_own_work(value, flow) for value in used)


def _is_own_work(value: ast.AST, flow: _Flow) -> bool:
    """Return whether main computes a value from its own names, without a helper's value."""
    read = _names(value)
    computed = any(isinstance(node, _COMPUTED) for node in ast.walk(value))
    return computed and bool(read & flow.local) and not read & flow.holders


def _places(node: ast.AST, in_test=False, in_loop=False) -> Iterator[_Place]:
    """Yield a node and all nodes below it that are evaluated and whose value is used.

    Nodes inside a function, a class, an assertion or a bare expression are left out.
    """
    yield _Place(node, in_test, in_loop)
    tests = []
    repeated = []
    match node:
        case ast.Expr(value=ast.Call(func=ast.Attribute()) | ast.Yield() | ast.YieldFrom()):
            pass  # out.append(value)
        case ast.Expr() | ast.Assert() | ast.FunctionDef() | ast.ClassDef():
            return
        case ast.If(test=asked) | ast.IfExp(test=asked) | ast.Match(subject=asked):
            tests = [asked]
        case ast.While(test=asked, body=body):
            tests = [asked]
            repeated = [asked, *body]
        case ast.comprehension(ifs=ifs):
            tests = repeated = ifs
        case ast.BoolOp(op=ast.And(), values=[*first, _]):
            tests = first
        case ast.Call(func=ast.Name(id="filter"), args=[asked, *_]):
            tests = repeated = [asked]
        case ast.For(body=body):
            repeated = body
        case ast.Lambda(body=body):
            repeated = [body]
        case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
            repeated = set(ast.iter_child_nodes(node)) - {node.generators[0]}
    for child in ast.iter_child_nodes(node):
        yield from _places(child, in_test or child in tests, in_loop or child in repeated)


def _returned(nodes: list[ast.AST]) -> list[ast.expr]:
    values = []
    for node in nodes:
        if isinstance(node, ast.Return | ast.Yield | ast.YieldFrom) and node.value:
            values.append(node.value)
    return values


def _names_of_function(value: ast.AST) -> set[str]:
    if isinstance(value, ast.FunctionDef | ast.Lambda | ast.Name):
        return _names(value)
    return set()


def _data(node: ast.AST) -> set[str]:
    """Return the names that an expression reads outside of conditions."""
    names = set()
    for place in _places(node):
        if isinstance(place.node, ast.Name) and not place.in_test:
            names.add(place.node.id)
    return names


def _bindings(nodes: Iterable[ast.AST]) -> dict[str, list[ast.AST]]:
    """Return the values that each name is bound to or filled with."""
    bindings = {}
    for node in nodes:
        for name, value in _bound(node):
            bindings.setdefault(name, []).append(value)
    return bindings


def _bound(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """Yield (name, value) for each name that a node binds, or fills as out.append(value) does.

    The value is an expression, or the function itself.
    """
    match node:
        case ast.FunctionDef(name=name):
            yield name, node
            return
        case ast.Assign(targets=targets, value=value):
            values = [value]
        case (
            ast.AugAssign(target=target, value=value)
            | ast.AnnAssign(target=target, value=ast.expr() as value)
            | ast.NamedExpr(target=target, value=value)
            | ast.For(target=target, iter=value)
            | ast.comprehension(target=target, iter=value)
            | ast.withitem(context_expr=value, optional_vars=ast.expr() as target)
        ):
            targets = [target]
            values = [value]
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=target), args=args) as call):
            targets = [target]
            values = [call, *args]
        case _:
            return
    for target in targets:
        for name in _names(target):
            for value in values:
                yield name, value


def _spread(start: set[str], bindings: dict[str, list], reads: Callable) -> set[str]:
    """Return `start` and the names bound to a value that reads one of them, and so on."""
    read = {name: set().union(*map(reads, values)) for name, values in bindings.items()}
    reached = set(start)
    while new := {name for name, others in read.items() if others & reached} - reached:
        reached |= new
    return reached


def _names(node: ast.AST) -> set[str]:
    return {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
