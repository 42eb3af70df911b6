"""From what a model wrote to what its function needs.

`extract` finds one function in a response and keeps what it takes to run it: helper functions,
classes, imports, constants, and the statements that fill them, transitively. It drops what was said
around the code. Fences may be missing, unclosed or many, and so may definitions: the last one wins,
as in Python. Everything is decided on syntax trees and symbol tables, never by patterns over code.

A function that was cut short, or that Python refuses, is `broken`. Code after it that is cut short
is dropped like prose. Any text at all is answered, in bounded time. Results are remembered by text,
because a response is paired with many partners.
"""

import ast
import codeop
import functools
import itertools
import math
import re
import symtable
import textwrap
import warnings
from collections import Counter, defaultdict, deque
from collections.abc import Iterator
from dataclasses import dataclass, replace

MAX_CHARACTERS = 20_000  # of a response; a longer one counts as no code

# Responses are compiled by the thousand: Python's remarks on their style ("invalid escape
# sequence") are no news. Only for this file name, since catch_warnings is not thread-safe.
warnings.filterwarnings("ignore", module="<response>")

_PARSE = ast.PyCF_ONLY_AST | codeop.PyCF_ALLOW_INCOMPLETE_INPUT
_INCOMPLETE = object()  # source that more lines could complete
REFUSED = (SyntaxError, ValueError, RecursionError, MemoryError)  # by the parser, for any text
_DEFINITION = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_SCOPE = (*_DEFINITION, ast.Lambda)
_PLACE = (ast.Name, ast.Attribute, ast.Subscript)
_FENCE = re.compile(r"^[^\S\n]*(?:```|~~~).*$", re.MULTILINE)
_MARGIN = re.compile(r"\n(?=[^ \t#\n])")  # a comment may stand anywhere
_HEADER = re.compile(r"\A(?:async )?def ([^(\n]*)")


@dataclass(frozen=True, eq=False)
class Part:
    """What one response contributes to the program: a function, and all that it needs."""

    source: str  # in Python's own spelling; "" if there is nothing
    raw: str = ""  # the function as it was written, comments included
    node: ast.FunctionDef | ast.Lambda | None = None  # None if it is not defined
    broken: bool = False  # its definition is there but does not parse, or does not compile
    returns: bool = False  # it is defined and returns a value, as far as a function's text shows
    reads: frozenset[str] = frozenset()  # names that the source takes from the module's scope
    tame: bool = False  # nothing it does outlasts its module: see _tame
    kept: frozenset[int] = frozenset()  # the statements of the response that the source is made of


@functools.lru_cache(maxsize=512)  # syntax trees are large: what a step needs
def extract(text: str, name: str, foreign: frozenset[str] = frozenset()) -> Part:
    """The function `name` of a response with all that it needs, none bound to `foreign` names."""
    try:
        return _extract(text, name, foreign)
    except REFUSED:  # it parses, and is still too much or not right for the compiler
        return Part("", broken=True)


def _extract(text: str, name: str, foreign: frozenset[str]) -> Part:
    statements, unparsed = top_level(text)
    binders, modules = defaultdict(list), set()
    for index, (node, _) in enumerate(statements):
        bound = _binds(node)
        if isinstance(node, ast.Import | ast.ImportFrom):
            modules |= bound
        if isinstance(node, ast.Expr):  # sys.exit() is no part of a function that needs sys
            bound -= modules
        for key in () if bound & foreign else bound:
            binders[key].append(index)
    kept, reads, queue = {}, set(), [name, "sys.setrecursionlimit"]
    while queue:
        for index in binders.pop(queue.pop(), ()):
            if index not in kept:
                kept[index] = ast.unparse(statements[index][0])
                new = _reads(symtable.symtable(kept[index], "<response>", "exec"))
                queue += new - reads
                reads |= new
    source = "\n".join(kept[index] for index in sorted(kept))
    compile(source, "<response>", "exec")

    nodes = [statements[index][0] for index in sorted(kept)]
    part = Part(source, reads=frozenset(reads), tame=all(map(_tame, nodes)), kept=frozenset(kept))
    definitions = [index for index in sorted(kept) if name in _binds(statements[index][0])]
    if not definitions:
        return replace(part, broken=name in unparsed)
    node, written = statements[definitions[-1]]
    function = node.value if isinstance(node, ast.Assign) else node
    if not isinstance(function, ast.FunctionDef | ast.Lambda):
        # a class, a partial, an alias, a def inside an if; or a constant, which is none
        bound = not isinstance(function, ast.Constant)
        return replace(part, returns=bound, broken=not bound and name in unparsed)
    own = list(_own(function))
    values = [node.value for node in own if isinstance(node, ast.Return) and node.value]
    constants = [node.value for node in values if isinstance(node, ast.Constant)]
    return replace(
        part,
        raw="\n".join(written.split("\n")[node.lineno - node.end_lineno - 1 :]),  # no decorators
        node=function,
        returns=isinstance(function, ast.Lambda)
        or any(isinstance(node, ast.Yield | ast.YieldFrom) for node in own)
        or len(values) > constants.count(None),
    )


@functools.lru_cache(maxsize=512)
def share_of(text: str, kept: frozenset[int]) -> float:
    """The share of a response's characters that stand in the lines of the statements kept, with the
    comments in them."""
    statements, _ = top_level(text)
    used = characters("\n".join(statements[index][1] for index in kept))
    return min(used / characters(text), 1.0) if characters(text) else 1.0


def characters(text: str) -> int:
    """Without white space and code fences."""
    return len("".join(_FENCE.sub("", text).split()))


def helper_names(agents: int) -> list[str]:
    """The helpers of a team of so many agents: aux, aux2, ... One agent alone writes aux, too."""
    return ["aux", *(f"aux{i}" for i in range(2, agents))]


@functools.lru_cache(maxsize=512)  # syntax trees are large: what a step needs
def top_level(text: str) -> tuple[list[tuple[ast.stmt, str]], set[str]]:
    """All top-level statements in a text, each with its lines, and the functions cut or wrong.

    A text that parses is taken as it is. Otherwise the lines between code fences are taken in
    pieces, each from one line without indentation to the next, or further for as long as the
    parser says that more could complete it. What does not parse is prose, or a broken function.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if len(text) > MAX_CHARACTERS:
        return [], set()
    if isinstance(found := _parse(text), list):
        return found, set()
    statements, unparsed = [], set()
    for segment in _FENCE.split(text):
        segment = textwrap.dedent(segment).strip(" ")
        if isinstance(found := _parse(segment), list):
            statements += found
            continue
        pieces, start, patience = _MARGIN.split(segment), 0, 100
        while start < len(pieces):
            end, source = start + 1, pieces[start]
            while (found := _parse(source)) is _INCOMPLETE and end < len(pieces) and patience:
                source += "\n" + pieces[end]
                end, patience = end + 1, patience - 1
            if isinstance(found, list):
                statements += found
                start = end
            else:
                unparsed |= {name.strip() for name in _HEADER.findall(pieces[start])}
                start += 1
    return statements, unparsed


def _parse(source: str):
    """A list of statements, each with its lines, _INCOMPLETE if more could make it one, or None."""
    try:
        body = compile(source, "<response>", "exec", _PARSE).body
    except REFUSED as error:
        return _INCOMPLETE if "incomplete input" in str(error) else None
    lines, found = source.split("\n"), []
    for node in body:
        first = min(part.lineno for part in (node, *getattr(node, "decorator_list", ())))
        found.append((node, "\n".join(lines[first - 1 : node.end_lineno])))
    return found


def _binds(node: ast.stmt) -> set[str]:
    """The module's names that a top-level statement binds, or whose values it fills."""
    if isinstance(node, _DEFINITION):
        return {node.name}
    if isinstance(node, ast.Expr):  # TABLE.update(...)
        called = node.value.func if isinstance(node.value, ast.Call) else None
        if not isinstance(called, ast.Attribute):
            return set()
        return {"sys.setrecursionlimit"} if called.attr == "setrecursionlimit" else {_root(called)}
    names = set()
    for part in ast.walk(node):
        if isinstance(part, ast.alias):
            names.add((part.asname or part.name).partition(".")[0])
        elif isinstance(part, _DEFINITION):
            names.add(part.name)
        elif isinstance(part, _PLACE) and isinstance(part.ctx, ast.Store):  # x = 1, TABLE[x] = 1
            names.add(_root(part))
    bare = isinstance(node, ast.AnnAssign) and node.value is None  # "Note: this" binds nothing
    return set() if bare else names


def _root(node: ast.expr) -> str:
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Call):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""


def _reads(table: symtable.SymbolTable) -> set[str]:
    module = table.get_type() == "module"
    names = {
        symbol.get_name()
        for symbol in table.get_symbols()
        if symbol.is_referenced() and (module or symbol.is_global())
    }
    return names.union(*map(_reads, table.get_children()))


def _own(function: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a function, without those of the functions and classes inside it."""
    for child in ast.iter_child_nodes(function):
        yield child
        if not isinstance(child, _SCOPE):
            yield from _own(child)


# What a tame part may import, and the attributes that it may ask for: pure functions, and methods
# of plain data. None of them leads to an object that two modules share and that can be changed.
_PURE = {
    "math": set(dir(math)),
    "itertools": set(dir(itertools)),
    "collections": {"Counter", "OrderedDict", "defaultdict", "deque"},
    "functools": {"cache", "cmp_to_key", "lru_cache", "partial", "reduce"},
    "re": {"findall", "finditer", "fullmatch", "match", "search", "split", "sub"},
    "typing": {"Any", "Dict", "List", "Optional", "Set", "Tuple", "Union"},
}
_DATA = (str, bytes, list, tuple, dict, set, int, float, complex, Counter, deque, re.Match)
_ATTRIBUTES = set().union(*map(dir, _DATA), *_PURE.values())  # but for those with a leading _
_OUTWARD = """eval exec compile open input globals locals vars dir type getattr setattr delattr
object super breakpoint help memoryview"""
_LEADS_OUT = set(_OUTWARD.split())


def _tame(statement: ast.stmt) -> bool:
    """Can this be run twice in one process, and the second run not notice?

    An allow-list, which does not have to be complete: what is not tame runs in a process of its
    own, and costs more.
    """
    for node in ast.walk(statement):
        match node:
            case ast.ClassDef() | ast.AsyncFunctionDef() | ast.Await():
                return False  # instances may outlive a module, and act as they die
            case ast.Attribute(attr=name, ctx=ast.Load()) if name in _ATTRIBUTES and name[0] != "_":
                pass
            case ast.Attribute() | ast.MatchClass(kwd_attrs=[_, *_]):
                return False
            case ast.Import(names=names) if not {alias.name for alias in names} <= _PURE.keys():
                return False
            case ast.ImportFrom(module=module, names=names) if not {
                alias.name for alias in names
            } <= _PURE.get(module, set()):
                return False
            case ast.Name(id=name) | ast.FunctionDef(name=name) | ast.arg(arg=name) if (
                name in _LEADS_OUT or name.startswith("__")
            ):
                return False
    return True
