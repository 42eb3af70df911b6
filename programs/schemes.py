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
from collections.abc import Iterator
from typing import NamedTuple

from programs.conditions import bindings, bound, names, spread
from programs.extraction import extract, helper_names

_COMPUTED = (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)
_COMPUTED += (ast.Call, ast.BinOp, ast.Compare)


def classify(responses: list[str], entry_point: str) -> str:
    """The scheme of a joint response, the main function's author last."""
    return scheme_of(responses[-1], entry_point, frozenset(helper_names(len(responses))))


@functools.lru_cache(maxsize=8192)
def scheme_of(text: str, entry_point: str, helpers: frozenset[str]) -> str:
    part = extract(text, entry_point, helpers)
    if part.node is None:
        return "other"
    functions = [n for n in ast.parse(part.source).body if isinstance(n, ast.FunctionDef)]
    main = _Main(part.node, helpers, [f for f in functions if f.name != entry_point])
    recursive = any(place.node.id == entry_point for place in main.names)
    once = len(main.calls) == 1 and not main.calls[0].loop and not recursive
    if not main.returned and not main.tested:
        return "unused"
    if once and main.returned and all(map(main.is_call, main.origins(main.results))):
        return "wrapper"
    if main.has_a_fallback():
        return "fallback"
    if not main.returned:
        return "strategy filter"
    return "decorator" if once else "coordinator"


class _Place(NamedTuple):
    node: ast.AST
    test: bool  # in a condition
    loop: bool  # perhaps evaluated many times


class _Main:
    """What a main function does with the values of its helpers."""

    def __init__(self, function, helpers: frozenset[str], others: list[ast.FunctionDef]):
        body = function.body
        body = [ast.Return(body)] if isinstance(body, ast.expr) else body  # solve = lambda xs: ...
        self.places = list(_places(ast.Module(body)))
        self.nodes = [place.node for place in self.places]
        self.names = [place for place in self.places if isinstance(place.node, ast.Name)]
        # A comprehension's names are its own: x is another x in the next one.
        own = [node for node in self.nodes if not isinstance(node, ast.comprehension)]
        self.bindings = bindings([*others, *own])
        self.locals = {arg.arg for arg in ast.walk(function.args) if isinstance(arg, ast.arg)}
        self.locals |= self.bindings.keys()
        # The helpers and what calls or renames one; then all that holds a value of theirs.
        self.functions = spread(helpers - self.locals, self.bindings, _names_of_function)
        self.holders = spread(self.functions, self.bindings, _data)

        self.results = _returned(self.nodes)
        self.returned = any(_data(value) & self.holders for value in self.results)
        self.tested = any(test and node.id in self.holders for node, test, _ in self.names)
        called = {node.func for node in self.nodes if isinstance(node, ast.Call)}
        renamed = {value for values in self.bindings.values() for value in values}
        self.calls = [  # a function that is handed over, as in map(aux, xs), is called in a loop
            place._replace(loop=place.loop or place.node not in called)
            for place in self.names
            if place.node.id in self.functions
            and isinstance(place.node.ctx, ast.Load)
            and place.node not in renamed
        ]

    def is_call(self, node: ast.AST) -> bool:
        function = node.func if isinstance(node, ast.Call) else None
        return isinstance(function, ast.Name) and function.id in self.functions

    def origins(self, values: list[ast.AST]) -> list[ast.AST]:
        """The expressions that values may come from unchanged, through names and alternatives."""
        found, queue, seen = [], list(values), set()
        while queue:
            match value := queue.pop():
                case ast.IfExp(body=body, orelse=orelse):
                    queue += [body, orelse]
                case ast.BoolOp(op=ast.Or(), values=alternatives):
                    queue += alternatives
                case ast.Name(id=name) if name in self.bindings:
                    queue += [] if name in seen else self.bindings[name]
                    seen.add(name)
                case _:
                    found.append(value)
        return found

    def has_a_fallback(self) -> bool:
        """Does main compute itself what it takes where a helper raises, or its value is refused?"""
        tries = [node for node in self.nodes if isinstance(node, ast.Try)]
        tries = [node for node in tries if names(ast.Module(node.body)) & self.functions]
        handlers = [p.node for node in tries for h in node.handlers for p in _places(h)]
        instead = _returned(handlers) + [v for node in handlers for _, v in bound(node)]
        if any(map(self.is_own, instead)):
            return True
        held = [v for name in self.bindings.keys() & self.holders for v in self.bindings[name]]
        taken = self.origins(self.results + held)
        asked = [place.node for place in self.places if place.test]
        asked += [n.values[0] for n in self.nodes if isinstance(n, ast.BoolOp)]  # aux(x) or ...
        questioned = {ast.dump(value) for value in self.origins(asked) if self.is_call(value)}
        doubted = tries or any(ast.dump(value) in questioned for value in taken)
        return self.returned and bool(doubted) and any(map(self.is_own, taken))

    def is_own(self, value: ast.AST) -> bool:
        """Is it computed from what main has, and not from a helper's value?"""
        read = names(value)
        computed = any(isinstance(node, _COMPUTED) for node in ast.walk(value))
        return computed and bool(read & self.locals) and not read & self.holders


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
    return names(value) if isinstance(value, ast.FunctionDef | ast.Lambda | ast.Name) else set()


def _data(node: ast.AST) -> set[str]:
    """The names that an expression reads outside of conditions."""
    return {n.id for n, test, _ in _places(node) if isinstance(n, ast.Name) and not test}
