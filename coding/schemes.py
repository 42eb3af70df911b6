"""How a coding team divides its work: the cooperation schemes that arXiv 2508.04652 saw.

`classify` decides from the syntax tree of the main function, by what becomes of a helper's value.
A value is followed through assignments, loops, comprehensions and method calls (out.append(value)),
without regard to the order of statements, and is used as data, or as a test (in a condition).

| scheme          | main function                                                                  |
|-----------------|--------------------------------------------------------------------------------|
| unused          | calls no helper, or does nothing with the value                                |
| wrapper         | returns the value of its one call as it is                                     |
| fallback        | has an implementation of its own, for a helper that raises or returns nothing  |
|                 | of use                                                                         |
| strategy filter | uses values in conditions only: the helper decides, main does the work         |
| coordinator     | hands out sub-tasks: calls helpers for each element, or at several places      |
| decorator       | calls once and works on the value, or handles the cases around it              |
| other           | none of these, or no main function that parses                                 |

The first of these that applies is it. Whether the helper does what it should is for the tests to
say. What a tree cannot show: a helper that changes its argument in place (looks unused), and values
without effect (0 * aux(xs) looks used). tests/data/scheme_pairs.py holds what
people say of 80 pairs.
"""

import ast
import functools
from collections.abc import Iterator
from dataclasses import dataclass

from coding.extraction import extract

NAMES = (
    "fallback",
    "decorator",
    "coordinator",
    "strategy filter",
    "wrapper",
    "unused",
    "other",
)

_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_COMPUTED = (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)
_COMPUTED += (ast.Call, ast.BinOp, ast.Compare)
_ENDS = (ast.Return, ast.Raise, ast.Break, ast.Continue)
_NOTHING = ("None", "[]", "''", "{}", "()", "-1")  # values that a helper may give up with


def classify(responses: list[str], entry_point: str) -> str:
    """The scheme of a joint response, the main function's author last; one of NAMES."""
    helpers = ["aux", *(f"aux{i}" for i in range(2, len(responses)))]
    return _classify(responses[-1], entry_point, frozenset(helpers))


@functools.lru_cache(maxsize=8192)
def _classify(text: str, entry_point: str, helpers: frozenset[str]) -> str:
    part = extract(text, entry_point, helpers)
    if part.node is None:
        return "other"
    functions = [n for n in ast.walk(ast.parse(part.source)) if isinstance(n, ast.FunctionDef)]
    own = [function for function in functions if function.name != entry_point]
    return _scheme(_Main(part.node, entry_point, set(helpers), own))


def _scheme(main: "_Main") -> str:
    if not main.returned and not main.conditions:
        return "other" if main.asserted else "unused"
    if main.returned and all(map(main.passes_on, main.results)):
        return "wrapper"
    asked = [condition for condition in main.conditions if main.asks_for_use(condition)]
    unsure = main.caught or asked or main.alternative
    if main.rescued or (main.returned and unsure and main.has_own_way()):
        return "fallback"
    if not main.returned:
        return "strategy filter"
    if main.looped or len(main.calls) > 1:
        return "coordinator"
    return "strategy filter" if len(asked) < len(main.conditions) else "decorator"


@dataclass(frozen=True)
class _Use:
    """One place where a helper's value is used: a call, or a name that holds it."""

    node: ast.expr
    condition: ast.expr | None  # that it is part of; None: it is used as data
    call: bool
    loop: bool  # evaluated perhaps many times


class _Main:
    """What the main function does with the values of its helpers."""

    def __init__(self, function, name: str, helpers: set[str], own: list[ast.FunctionDef]):
        body = function.body
        body = [ast.Return(body)] if isinstance(body, ast.expr) else body
        self.name, self.helpers, self.own = name, helpers, own
        self.holds: set[str] = set()  # names that hold a helper's value, or a part of one
        self.statements = dict(_live(body))  # with: is it in a loop?
        nodes = [node for statement in self.statements for node in _shallow(statement)]
        self.bindings = [pair for node in nodes for pair in _bindings(node)]
        self.helpers -= {arg.arg for arg in ast.walk(function.args) if isinstance(arg, ast.arg)}
        self.helpers -= {target for target, _ in self.bindings}  # main's own, of the same name
        self.loads = {
            n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)
        }
        while self.learn():
            pass
        self.calls: set[ast.expr] = set()  # whose value is not thrown away
        self.conditions: set[ast.expr] = set()  # on a helper's value
        self.returned = self.looped = self.asserted = False
        self.caught = self.rescued = self.alternative = False
        for statement, loop in self.statements.items():
            self.read(statement, loop)
        returns = [s for s in self.statements if isinstance(s, ast.Return)]
        self.results = [statement.value for statement in returns if statement.value]

    # -- where a value is

    def learn(self) -> bool:
        """One pass over all bindings; True if there was anything new."""
        before = len(self.holds) + len(self.helpers)
        for function in self.own:  # main's own function that calls a helper counts as a helper
            if self.mentions(function):
                self.helpers.add(function.name)
        for target, value in self.bindings:
            if isinstance(value, ast.Lambda | ast.Name) and self.mentions(value):
                self.helpers.add(target)  # f = aux, f = lambda x: aux(x)
            elif any(use.condition is None for use in self.uses(value)):
                self.holds.add(target)
        return len(self.holds) + len(self.helpers) > before

    def mentions(self, node: ast.AST) -> bool:
        return any(isinstance(n, ast.Name) and n.id in self.helpers for n in ast.walk(node))

    def uses(self, node, condition=None, loop=False, holds=None) -> Iterator[_Use]:
        """Every use of a helper's value in an expression. holds: names that hold one there."""
        holds = self.holds if holds is None else holds

        def inside(children, condition=condition, loop=loop):
            for child in children:
                yield from self.uses(child, condition, loop, holds)

        match node:
            case ast.Name(id=name) if name in self.helpers:  # handed over: map(aux, xs)
                yield _Use(node, condition, True, True)
            case ast.Name(id=name) if name in holds and isinstance(node.ctx, ast.Load):
                yield _Use(node, condition, False, loop)
            case ast.Call(func=ast.Name(id=name)) if name in self.helpers:
                yield _Use(node, condition, True, loop)
                yield from inside([*node.args, *node.keywords])
            case ast.Call(func=ast.Name(id="filter"), args=[decides, *rest]):
                yield from inside([decides], decides, True)
                yield from inside(rest)
            case ast.IfExp():
                yield from inside([node.test], node.test)
                yield from inside([node.body, node.orelse])
            case ast.BoolOp(op=ast.And(), values=[*first, last]):
                for operand in first:
                    yield from inside([operand], operand)
                yield from inside([last])
            case ast.Lambda():
                yield from inside([node.body], loop=True)
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
                yield from self.comprehension_uses(node, condition, loop, holds)
            case _:
                yield from inside(ast.iter_child_nodes(node))

    def comprehension_uses(self, node, condition, loop, holds) -> Iterator[_Use]:
        for number, generator in enumerate(node.generators):
            found = list(self.uses(generator.iter, condition, loop or number > 0, holds))
            yield from found
            names = {n.id for n in ast.walk(generator.target) if isinstance(n, ast.Name)}
            held = names if any(use.condition is None for use in found) else set()
            holds = (holds - names) | held
            for test in generator.ifs:
                yield from self.uses(test, test, True, holds)
        elements = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
        for element in elements:
            yield from self.uses(element, condition, True, holds)

    # -- what is done with it

    def read(self, statement: ast.stmt, loop: bool) -> None:
        """Takes down what one statement does; those inside it are read on their own."""
        match statement:
            case ast.If(test=test, body=body, orelse=orelse):
                if orelse or not all(map(_idle, body)):
                    self.take(test, loop, test)
            case ast.While(test=test):
                self.take(test, True, test)
            case ast.Match(subject=subject):
                self.take(subject, loop, subject)
            case ast.Assert(test=test):
                self.asserted |= any(self.uses(test))
            case ast.Try(body=body, handlers=handlers) if any(map(self.mentions, body)):
                inside = [pair for handler in handlers for pair in _live(handler.body)]
                values = [getattr(inner, "value", None) for inner, _ in inside]
                self.caught = True
                self.rescued |= any(value and self.is_own(value) for value in values)
            case ast.For(iter=source):
                self.take(source, loop)
            case ast.Return(value=ast.expr() as value):
                self.returned |= self.take(value, loop)
            case ast.Expr(value=ast.Yield() | ast.YieldFrom() as value):
                self.returned |= self.take(value, loop)
            case ast.Expr(value=ast.Call(func=ast.Attribute()) as call):
                self.take(call, loop)  # out.append(aux(x))
            case ast.Assign() | ast.AugAssign() | ast.AnnAssign() if statement.value:
                alias = {name for name, _ in _bindings(statement)} & self.helpers
                if not alias and {name for name, _ in _bindings(statement)} & self.loads:
                    self.take(statement.value, loop)

    def take(self, expression: ast.expr, loop: bool, condition: ast.expr | None = None) -> bool:
        """Takes down what an expression does; True if it carries a helper's value as data."""
        found = list(self.uses(expression, condition, loop))
        self.conditions |= {use.condition for use in found if use.condition}
        self.calls |= {use.node for use in found if use.call}
        self.looped |= any(use.call and use.loop for use in found)
        for node in ast.walk(expression):
            match node:
                case ast.Call(func=ast.Name(id=self.name)):
                    self.looped = True  # main calls itself
                case ast.BoolOp(op=ast.Or(), values=[first, *_]):
                    self.alternative |= any(self.uses(first))  # aux(x) or ...
        return any(use.condition is None for use in found)

    def asks_for_use(self, test: ast.expr) -> bool:
        """Does this condition ask whether a helper's value is there, and of the right kind?"""
        match test:
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return self.asks_for_use(operand)
            case ast.BoolOp(values=values):
                return any(map(self.asks_for_use, values))
            case ast.Compare(left=ast.Call() as left) if not self.is_value(left):
                return self.asks_for_use(left)  # type(value) is not list
            case ast.Compare(left=left, comparators=[right]):
                return self.is_value(left) and ast.unparse(right) in _NOTHING
            case ast.Call(func=ast.Name(id="isinstance" | "type" | "len"), args=[first, *_]):
                return self.is_value(first)
        return self.is_value(test)

    def is_value(self, node: ast.expr) -> bool:
        return any(use.node is node for use in self.uses(node))

    def passes_on(self, result: ast.expr, copies: int = 9) -> bool:
        """Is it the value of main's only call, as it is? Followed through a few copies."""
        if isinstance(result, ast.Name) and result.id in self.holds and copies:
            sources = [value for name, value in self.bindings if name == result.id]
            return all(self.passes_on(source, copies - 1) for source in sources)
        return self.calls == {result} and not self.looped

    def has_own_way(self) -> bool:
        """Does main compute, without a helper, what could stand for a helper's value?"""
        kept = [value for name, value in self.bindings if name in self.holds]
        computed = {name for name, value in self.bindings if self.is_own(value)} - self.holds
        values = [v for value in [*self.results, *kept] for v in _alternatives(value)]
        names = {value.id for value in values if isinstance(value, ast.Name)}
        return bool(names & computed) or any(map(self.is_own, values))

    def is_own(self, value: ast.expr) -> bool:
        """Is it computed from something, and not from a helper's value?"""
        nodes = list(ast.walk(value))
        computed = any(isinstance(node, _COMPUTED) for node in nodes)
        return (
            computed and any(isinstance(n, ast.Name) for n in nodes) and not any(self.uses(value))
        )


def _alternatives(value: ast.expr) -> list[ast.expr]:
    """The values that an expression may have: a if c else b, a or b."""
    match value:
        case ast.IfExp(body=body, orelse=orelse):
            return [*_alternatives(body), *_alternatives(orelse)]
        case ast.BoolOp(op=ast.Or(), values=values):
            return [branch for part in values for branch in _alternatives(part)]
    return [value]


def _live(statements: list[ast.stmt], loop: bool = False) -> Iterator[tuple[ast.stmt, bool]]:
    """(statement, is it in a loop?) of all statements that can run, those inside others too."""
    for statement in statements:
        yield statement, loop
        if isinstance(statement, _SCOPES):
            continue
        blocks = [getattr(statement, name, []) for name in ("body", "orelse", "finalbody")]
        if isinstance(statement, ast.If):
            always = _constant(statement.test)
            blocks = [blocks[0] if always is not False else [], blocks[1] if not always else []]
        inner = [*getattr(statement, "handlers", []), *getattr(statement, "cases", [])]
        again = loop or isinstance(statement, ast.For | ast.While)
        for block in [*blocks, *(part.body for part in inner)]:
            yield from _live(block, again)
        if isinstance(statement, _ENDS):
            return


def _constant(test: ast.expr) -> bool | None:
    """The value of a condition that is a constant, else None."""
    match test:
        case ast.Constant(value=value):
            return bool(value)
        case ast.UnaryOp(op=ast.Not(), operand=ast.Constant(value=value)):
            return not value
    return None


def _idle(statement: ast.stmt) -> bool:
    constant = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    return constant or isinstance(statement, ast.Pass)


def _shallow(statement: ast.stmt) -> Iterator[ast.AST]:
    """The nodes of a statement, without the statements inside it."""
    stack = [statement]
    while stack:
        node = stack.pop()
        yield node
        stack += [child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.stmt)]


def _bindings(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """(name, value) of everything that a node binds or fills."""
    match node:
        case ast.Assign(targets=targets, value=value):
            pairs = [(target, value) for target in targets]
        case ast.AugAssign(target=target, value=value) | ast.NamedExpr(target=target, value=value):
            pairs = [(target, value)]
        case ast.AnnAssign(target=target, value=ast.expr() as value):
            pairs = [(target, value)]
        case ast.For(target=target, iter=value):
            pairs = [(target, value)]
        case ast.withitem(optional_vars=ast.expr() as target, context_expr=value):
            pairs = [(target, value)]
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=target)) as value):
            pairs = [(target, value)]  # out.append(value)
        case _:
            return
    for target, value in pairs:
        for name in ast.walk(target):
            if isinstance(name, ast.Name):
                yield name.id, value
