"""A main function with the outcome of its checks settled in advance.

A main that works alone and compares what it found with its helper's (item by item, or a sum, a set,
a text of both) needs its helper for nothing: it does as well where the comparison is a constant.
"""

import ast
import functools
import itertools
from collections.abc import Callable, Iterable, Iterator


@functools.lru_cache(maxsize=512)
def settled(source: str, helpers: frozenset[str], main: str) -> tuple[str, ...]:
    """The source as it could read if it did not check its helpers; only what differs from it.

    First it asserts and raises nothing, and compares by == what it compared by `is`, so that any
    value can agree with it. Then its conditions on a helper's value are all true, or all false.
    """
    # the helpers, and the names whose values are made of theirs
    dependents = spread(helpers, bindings(ast.walk(ast.parse(source))) | {main: []}, names)
    settlers = (_Settler(dependents, helpers, truth) for truth in (None, True, False))
    found = [ast.unparse(settler.visit(ast.parse(source))) for settler in settlers]
    return tuple(text for text in dict.fromkeys(found) if text != source)


def bindings(nodes: Iterable[ast.AST]) -> dict[str, list[ast.AST]]:
    """name -> the values that it is bound to, or filled with."""
    found = {}
    for node in nodes:
        for name, value in bound(node):
            found.setdefault(name, []).append(value)
    return found


def spread(start: frozenset[str], bindings: dict[str, list], reads: Callable) -> set[str]:
    """The names of `start`, and those bound to a value that reads one of them, and so on."""
    read = {name: set().union(*map(reads, values)) for name, values in bindings.items()}
    found = set(start)
    while new := {name for name, others in read.items() if others & found} - found:
        found |= new
    return found


def bound(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """(name, value) of what a node binds, or fills as out.append(value) does: an expression, or the
    function itself."""
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
            targets, values = [target], [value]
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=target), args=args) as call):
            targets, values = [target], [call, *args]
        case _:
            return
    yield from itertools.product(set().union(*map(names, targets)), values)


def names(node: ast.AST) -> set[str]:
    return {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}


class _Settler(ast.NodeTransformer):
    """truth: what conditions on any of the names are, or None to leave them."""

    def __init__(self, names: set[str], helpers: frozenset[str], truth: bool | None):
        self.names, self.helpers, self.truth = names, helpers, truth

    def held(self, condition: ast.expr, truth: bool | None) -> ast.expr:
        if self.truth is None or not names(condition) & self.names:
            return condition
        if isinstance(condition, ast.Call) and names(condition.func) & self.helpers:
            return condition  # it is what the helper says: the bank has both
        return ast.Constant(truth)

    def visit_If(self, node):
        node.test = self.held(node.test, self.truth)
        return self.generic_visit(node)

    visit_IfExp = visit_If

    def visit_While(self, node):
        node.test = self.held(node.test, False)  # or it would not end
        return self.generic_visit(node)

    def visit_comprehension(self, node):
        node.ifs = [self.held(condition, self.truth) for condition in node.ifs]
        return self.generic_visit(node)

    def visit_Compare(self, node):
        return self.generic_visit(self.held(node, self.truth))

    def visit_Assert(self, node):
        return ast.Pass()

    visit_Raise = visit_Assert

    def visit_Is(self, node):
        return ast.Eq()

    def visit_IsNot(self, node):
        return ast.NotEq()
