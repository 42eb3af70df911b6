"""How a coding team divides its work: the cooperation schemes that arXiv 2508.04652 saw.

`classify` reads the syntax tree of the main function. It follows the values of helpers through
assignments, loops and method calls (out.append(value)), whatever the order of the statements, and
asks where they go. The scheme is the first of these that applies:

| scheme          | main function                                                               |
|-----------------|-----------------------------------------------------------------------------|
| other           | does not parse, or is not there                                             |
| unused          | calls no helper, or does nothing with the value                             |
| wrapper         | returns the value of its only call unchanged                                |
| fallback        | has a way of its own, for a helper that raises or whose value is of no use  |
| strategy filter | uses values in conditions only: the helper decides, main does the work      |
| coordinator     | hands out sub-tasks: calls helpers in a loop, or at several places          |
| decorator       | calls once and works on the value, or handles the cases around it           |

What a tree cannot show: a helper that changes its argument in place looks unused; code after a
return, and 0 * aux(xs), look used.
"""

import ast
import functools
import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from programs.extraction import extract, helper_names

_COMPUTED = (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)
_COMPUTED += (ast.Call, ast.BinOp, ast.Compare)


def classify(responses: list[str], entry_point: str) -> str:
    """Return the scheme of a joint response, the main function's author last."""
    return scheme_of(responses[-1], entry_point, frozenset(helper_names(len(responses))))


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
    calls = _calls(flow)
    names = [place for place in flow.places if isinstance(place.node, ast.Name)]
    recursive = any(place.node.id == entry_point for place in names)
    once = len(calls) == 1 and not calls[0].loop and not recursive
    returned = any(_data(value) & flow.holders for value in flow.results)
    tested = any(place.test and place.node.id in flow.holders for place in names)
    if not returned and not tested:
        return "unused"
    origins = _origins(flow.results, flow.bindings)
    if once and returned and all(_is_call(value, flow.functions) for value in origins):
        return "wrapper"
    if _computes_instead(flow) or (returned and _doubts(flow)):
        return "fallback"
    if not returned:
        return "strategy filter"
    return "decorator" if once else "coordinator"


class _Place(NamedTuple):
    node: ast.AST
    test: bool  # in a condition
    loop: bool  # perhaps evaluated many times


class _Flow(NamedTuple):
    """Where the values of helpers go in a main function."""

    places: list[_Place]  # what it evaluates
    bindings: dict[str, list[ast.AST]]  # name: the values that it is bound to, or filled with
    local: set[str]  # the names that main binds
    functions: set[str]  # the helpers, and the names of what calls or renames one
    holders: set[str]  # these, and the names of what holds a value of theirs
    results: list[ast.expr]  # what main returns


def _flow(function, helpers: frozenset[str], others: list[ast.FunctionDef]) -> _Flow:
    """Follow the helpers' values in `function`, and in the other functions of its text."""
    body = function.body
    if isinstance(body, ast.expr):  # solve = lambda xs: ...
        body = [ast.Return(body)]
    places = list(_places(ast.Module(body)))
    nodes = [place.node for place in places]
    # A comprehension's names are its own: x is another x in the next one.
    binding = [node for node in nodes if not isinstance(node, ast.comprehension)]
    bindings = _bindings([*others, *binding])
    arguments = {node.arg for node in ast.walk(function.args) if isinstance(node, ast.arg)}
    local = arguments | bindings.keys()
    functions = _spread(helpers - local, bindings, _names_of_function)
    holders = _spread(functions, bindings, _data)
    return _Flow(places, bindings, local, functions, holders, _returned(nodes))


def _calls(flow: _Flow) -> list[_Place]:
    """Return where helpers are called. One that is handed over, as in map(aux, xs), is called in a
    loop."""
    called = {place.node.func for place in flow.places if isinstance(place.node, ast.Call)}
    renamed = {value for values in flow.bindings.values() for value in values}
    calls = []
    for place in flow.places:
        node = place.node
        read = isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
        if read and node.id in flow.functions and node not in renamed:
            calls.append(place._replace(loop=place.loop or node not in called))
    return calls


def _is_call(node: ast.AST, functions: set[str]) -> bool:
    function = node.func if isinstance(node, ast.Call) else None
    return isinstance(function, ast.Name) and function.id in functions


def _origins(values: list[ast.AST], bindings: dict[str, list[ast.AST]]) -> list[ast.AST]:
    """Return what values may come from unchanged, through names and alternatives."""
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
    handlers = [handler for node in _tries(flow) for handler in node.handlers]
    nodes = [place.node for handler in handlers for place in _places(handler)]
    values = _returned(nodes) + [value for node in nodes for _, value in _bound(node)]
    return any(_is_own(value, flow) for value in values)


def _doubts(flow: _Flow) -> bool:
    """Return whether main asks about a value that it takes, and has computed another itself."""
    held = [v for name in flow.bindings.keys() & flow.holders for v in flow.bindings[name]]
    taken = _origins(flow.results + held, flow.bindings)
    asked = [place.node for place in flow.places if place.test]
    for place in flow.places:
        if isinstance(place.node, ast.BoolOp):  # aux(x) or ...
            asked.append(place.node.values[0])
    calls = [v for v in _origins(asked, flow.bindings) if _is_call(v, flow.functions)]
    questioned = {ast.dump(call) for call in calls}
    doubted = _tries(flow) or any(ast.dump(value) in questioned for value in taken)
    return bool(doubted) and any(_is_own(value, flow) for value in taken)


def _is_own(value: ast.AST, flow: _Flow) -> bool:
    """Return whether it is computed from what main has, and not from a helper's value."""
    read = _names(value)
    computed = any(isinstance(node, _COMPUTED) for node in ast.walk(value))
    return computed and bool(read & flow.local) and not read & flow.holders


def _places(node: ast.AST, test=False, loop=False) -> Iterator[_Place]:
    """A node and all below it, but not inside a function, an assertion, or a value that is lost."""
    yield _Place(node, test, loop)
    tests, repeated = [], []
    match node:
        case ast.Expr(value=ast.Call(func=ast.Attribute()) | ast.Yield() | ast.YieldFrom()):
            pass  # out.append(value)
        case ast.Expr() | ast.Assert() | ast.FunctionDef() | ast.ClassDef():
            return
        case ast.If(test=asked) | ast.IfExp(test=asked) | ast.Match(subject=asked):
            tests = [asked]
        case ast.While(test=asked, body=body):
            tests, repeated = [asked], [asked, *body]
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
            repeated = [
                child for child in ast.iter_child_nodes(node) if child != node.generators[0]
            ]
    for child in ast.iter_child_nodes(node):
        yield from _places(child, test or child in tests, loop or child in repeated)


def _returned(nodes: list[ast.AST]) -> list[ast.expr]:
    kinds = (ast.Return, ast.Yield, ast.YieldFrom)
    return [node.value for node in nodes if isinstance(node, kinds) and node.value]


def _names_of_function(value: ast.AST) -> set[str]:
    return _names(value) if isinstance(value, ast.FunctionDef | ast.Lambda | ast.Name) else set()


def _data(node: ast.AST) -> set[str]:
    """The names that an expression reads outside of conditions."""
    return {n.id for n, test, _ in _places(node) if isinstance(n, ast.Name) and not test}


def _bindings(nodes: Iterable[ast.AST]) -> dict[str, list[ast.AST]]:
    """Return for each name the values that it is bound to, or filled with."""
    bindings = {}
    for node in nodes:
        for name, value in _bound(node):
            bindings.setdefault(name, []).append(value)
    return bindings


def _bound(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """Yield (name, value) of what a node binds, or fills as out.append(value) does: an expression,
    or the function itself."""
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
    yield from itertools.product(set().union(*map(_names, targets)), values)


def _spread(start: set[str], bindings: dict[str, list], reads: Callable) -> set[str]:
    """Return `start` and the names bound to a value that reads one of them, and so on."""
    read = {name: set().union(*map(reads, values)) for name, values in bindings.items()}
    reached = set(start)
    while new := {name for name, others in read.items() if others & reached} - reached:
        reached |= new
    return reached


def _names(node: ast.AST) -> set[str]:
    return {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
