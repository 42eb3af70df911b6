"""Name how a coding team divides its work, with the cooperation schemes of arXiv 2508.04652.

`classify` reads the syntax tree of the main function. It follows a helper's value from name to name
until main returns it or asks for it in a condition. The first scheme that applies is the answer.

    `other`            Main does not parse, or is not there.
    `unused`           It calls no helper, or does nothing with the value.
    `wrapper`          It returns the value of its only call unchanged.
    `fallback`         It tries a helper, or returns another result if it rejects its value.
    `strategy filter`  It uses values in conditions only. The helper decides, main does the work.
    `coordinator`      It hands out sub-tasks. It calls helpers in a loop, or at several places.
    `decorator`        It calls once and works on the value, or handles the cases around it.

A tree does not show everything. A helper that changes its argument in place looks unused. A value
looks used in code after a return, and in 0 * aux(xs). Functions of one text that share a name for
their variables share its value.
"""

import ast
import functools
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from programs.extraction import extract, part_names
from programs.sandbox.parsing import syntax_tree

# Parts of a path, such as "FunctionDef.body Return.value sum.args GeneratorExp.elt aux.func".
ASKED = re.compile(r"(If|IfExp|While)\.test|Match\.subject|comprehension\.ifs|filter\.args")
TRIED = re.compile(r"Try\.body|Or\.values")
PASSED = r"(\.args|keyword\.value)( Lambda\.body|$)"
REPEATED = re.compile(rf"For\.body|While\.|\.elt|DictComp\.(key|value)|{PASSED}")
RETURNED = re.compile(r"(Return|Yield|YieldFrom)\.value")
UNCHANGED = re.compile(r"(Return|Assign)\.value( \w+\.func)?$")


class Mention(NamedTuple):
    """A place that reads a name."""

    path: str  # fields of the syntax tree. A call is named by its function, `or` by Or
    statement: ast.AST
    function: str


def classify(responses: list[str], item: dict) -> str:
    """Return the scheme of a joint response, the main function's author last."""
    *helpers, main = part_names(item, len(responses))
    return scheme_of(responses[-1], main, frozenset(helpers))


@functools.lru_cache(maxsize=8192)
def scheme_of(text: str, entry_point: str, helpers: frozenset[str]) -> str:
    """Return the scheme of one main function."""
    part = extract(text, entry_point, helpers)
    if not part.statements:
        return "other"
    tree = syntax_tree(part.source)
    last = {getattr(node, "name", node): node for node in tree.body}  # of functions of one name
    tree.body = [*last.values()]
    bound: Counter[str] = Counter()  # how often a name is
    for node in ast.walk(tree):
        match node:
            case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()):
                bound[name] += 1
    mentions = defaultdict(list)
    others = set()  # statements of main that return another value than a helper's
    for name, mention in _mentions(tree, Mention("", tree, "")):
        mentions[name].append(mention)
        if mention.function == entry_point and RETURNED.search(mention.path):
            others.add(mention.statement)

    functions = helpers - bound.keys()  # those that give a helper's value
    calls = [mention for name in functions for mention in mentions[name]]
    is_single = len(calls) == 1 and not mentions[entry_point]
    is_unchanged = True
    is_asked = False
    is_tried = False
    names = sorted(functions)
    for name in names:  # grows while it is read
        for path, statement, function in mentions[name]:
            if name in functions:
                is_tried |= bool(TRIED.search(path))
                is_single &= not REPEATED.search(path)
            if ASKED.search(path):
                is_asked = True
                continue
            is_unchanged &= bool(UNCHANGED.search(path)) and bound[name] < 2
            others.discard(statement)
            targets = _targets(statement)
            if RETURNED.search(path):
                targets.add(function)
                functions |= {function}
            elif path.endswith("Assign.value"):  # another name for it
                functions |= targets
            names += sorted(targets.difference(names))
    is_returned = entry_point in names
    if not is_returned and not is_asked:
        return "unused"
    if is_single and is_unchanged and not is_asked and not others:
        return "wrapper"
    if is_tried or (is_asked and is_returned and others):
        return "fallback"
    if not is_returned:
        return "strategy filter"
    return "decorator" if is_single else "coordinator"


def _mentions(node: ast.AST, place: Mention) -> Iterator[tuple[str, Mention]]:
    """Yield each name that is read, where its value is used, and "" where a function returns."""
    label = type(node).__name__
    match node:
        case ast.Expr(value=ast.Call(func=ast.Attribute()) | ast.Yield() | ast.YieldFrom()):
            pass  # out.append(value)
        case ast.Expr() | ast.Assert():
            return
        case ast.Name(id=name, ctx=ast.Load()):
            yield name, place
        case ast.Call(func=ast.Name(id=name)):
            label = name
        case ast.BoolOp(op=operator):
            label = type(operator).__name__
        case ast.FunctionDef(name=name):
            place = place._replace(function=name)
    if isinstance(node, ast.stmt):
        place = place._replace(statement=node)
    if isinstance(node, ast.Return):  # also of a value without a name
        yield "", place._replace(path=f"{place.path} Return.value")
    for field, value in ast.iter_fields(node):
        inner = place._replace(path=f"{place.path} {label}.{field}")
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from _mentions(child, inner)


def _targets(statement: ast.AST) -> set[str]:
    """Return the names that a statement binds, or fills as out.append(value) does."""
    match statement:
        case (
            ast.Assign(targets=[target])
            | ast.AugAssign(target=target)
            | ast.AnnAssign(target=target)
            | ast.For(target=target)
            | ast.Expr(value=ast.Call(func=target))
        ):
            while isinstance(target, ast.Attribute | ast.Subscript):
                target = target.value
            return {node.id for node in ast.walk(target) if isinstance(node, ast.Name)}
    return set()
