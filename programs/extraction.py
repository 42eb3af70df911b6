"""Extract a function from a model's response, with everything that it needs.

`extract` keeps the helper functions, classes, imports and constants that the function uses, and the
statements that fill them, transitively. It drops what only shows the function: prints,
assertions, examples, and the text around the code. Code fences may be missing, unclosed or
repeated. If a name is defined twice, the last definition wins, as in Python. All decisions on code
rest on syntax trees and symbol tables, never on patterns. They do not see names in texts, as in
exec("TABLE[1] = 2") and globals().

A function is `broken` if it was cut short or if Python refuses it. Later code that is cut short is
dropped like prose. Any text gets an answer in bounded time. Results are cached by text, because
each response is paired with many partners.
"""

import ast
import builtins
import codeop
import functools
import itertools
import math
import re
import symtable
import sys
import textwrap
import threading
import warnings
from collections import Counter, defaultdict, deque
from collections.abc import Iterator
from dataclasses import dataclass, replace

MAX_CHARACTERS = 20_000  # a longer response counts as text without code

# Python warns about the style of many programs ("invalid escape sequence"). The filter goes by the
# file name that they are compiled under, because catch_warnings is not thread-safe.
SOURCE = "<response>"
warnings.filterwarnings("ignore", module=SOURCE)

# While Python builds a syntax tree, it counts the depth in one place for all threads. If a second
# thread builds one while the first one collects garbage, the first one gets a SystemError
# (python/cpython#106905). Rewards run in threads.
_BUILDING = threading.RLock()

Statements = list[tuple[ast.stmt, str]]  # each with its lines
_INCOMPLETE = object()  # source that more lines could complete
REFUSED = (SyntaxError, ValueError, RecursionError, MemoryError)  # what the parser may raise
_DEFINITION = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_SCOPE = (*_DEFINITION, ast.Lambda)
_FIXED = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef)
# Calls that change an object, while their value is used.
_TAKING = {"heappop", "heappushpop", "next", "pop", "popitem", "popleft", "setdefault"}
# Settings for all code: of the interpreter, and of decimal numbers.
_SETTINGS = ("setrecursionlimit", "set_int_max_str_digits", "getcontext")
# A fence, or a comment or a string, in which three backticks are text. A string may be cut short.
_FENCE = re.compile(
    r"""
    ^ [^\S\n]* (?P<fence> ``` | ~~~ ) .* $
    | \# .* | (\"{3} | '{3}) (?: \\ [\s\S] | [^\\] )*? (?: \2 | \Z )
    | " (?: \\ . | [^"\\\n] )*+ "? | ' (?: \\ . | [^'\\\n] )*+ '?
    """,
    re.MULTILINE | re.VERBOSE,
)
_MARGIN = re.compile(r"\n(?=[^ \t#\n])")  # a comment may stand anywhere
_HEADER = re.compile(r"\A(?:async )?def ([^(\n]*)")


@dataclass(frozen=True, eq=False)
class Part:
    """The function that one response contributes to the program, with everything that it needs."""

    source: str  # formatted by ast.unparse; "" if there is nothing
    raw: str = ""  # the function as it was written, comments included
    node: ast.FunctionDef | ast.Lambda | None = None  # None if it is not defined
    broken: bool = False  # its definition does not parse or does not compile
    returns: bool = False  # it is defined and returns a value, as far as its text shows
    reads: frozenset[str] = frozenset()  # names that the source takes from the module's scope
    shareable: bool = False  # its program may share a process with others: see _shareable
    kept: frozenset[int] = frozenset()  # indices of the response's statements in the source


def syntax_tree(source: str, flags: int = 0) -> ast.Module:
    """Return what ast.parse returns, in any thread. Raise one of REFUSED."""
    with _BUILDING:
        return compile(source, SOURCE, "exec", ast.PyCF_ONLY_AST | flags)


@functools.lru_cache(maxsize=512)  # enough for one step; syntax trees are large
def extract(text: str, name: str, foreign: frozenset[str]) -> Part:
    """Return the function `name` of a response. Statements that bind a `foreign` name are left out.

    Foreign names belong to the functions of other agents.
    """
    statements, unparsed = top_level(text)
    try:
        indices, source, reads = _needed(statements, name, foreign)
    except REFUSED:  # it parses, but the compiler refuses it or it is nested too deeply
        return Part("", broken=True)

    kept = set(indices)
    for index, (node, _) in enumerate(statements):  # a partner's function is there: nothing to run
        if isinstance(node, ast.ImportFrom) and _binds(node) <= foreign:
            kept.add(index)
    part = Part(
        source,
        reads=frozenset(reads),
        shareable=all(_shareable(statements[index][0]) for index in indices),
        kept=frozenset(kept),
    )
    definition = None
    for index in indices:  # the last one wins
        if name in _binds(statements[index][0]):
            definition, written = statements[index]
    match definition:
        case None | ast.Assign(value=ast.Constant()):
            return replace(part, broken=name in unparsed)
        case (ast.FunctionDef() as function) | ast.Assign(value=ast.Lambda() as function):
            lines = written.split("\n")
            without_decorators = lines[definition.lineno - definition.end_lineno - 1 :]
            raw = "\n".join(without_decorators)
            return replace(part, raw=raw, node=function, returns=_returns(function))
    return replace(part, returns=True)  # a class, a partial, an alias, or a def inside an if


def _needed(
    statements: Statements, name: str, foreign: frozenset[str]
) -> tuple[list[int], str, set[str]]:
    """Return the statements that `name` needs, as a static slice (Weiser 1981) of the text.

    They are indices, the statements' source, and the names that they read. An import from outside
    the standard library cannot run: it wins over no definition of the text. Raise one of REFUSED if
    Python does not compile the source.
    """
    changers = defaultdict(list)  # name: the statements that may change its value
    nodes = dict(enumerate(node for node, _ in statements))
    defined = {node.name for node in nodes.values() if isinstance(node, _DEFINITION)}
    for index, node in list(nodes.items()):
        bound = _binds(node)
        packages = set()
        if isinstance(node, ast.Import | ast.ImportFrom):
            packages = {module.partition(".")[0] for module in modules_in(node)}
        outside = not packages <= sys.stdlib_module_names
        if bound & foreign or (outside and bound & {*defined, "*"}):
            del nodes[index]
        else:
            for key in bound:
                changers[key].append(index)
    _, reads = _slice(nodes, changers, name)
    own_functions = {name, *(reads & defined)}
    touched = _touched(list(nodes.values()), own_functions, foreign)
    for index, names in zip(nodes, touched, strict=True):
        for key in names:
            changers[key].append(index)
    sources, reads = _slice(nodes, changers, name)
    indices = sorted(sources)
    lines = [sources[index] for index in indices]
    lines.sort(key=lambda line: not line.startswith("from __future__ "))  # they have to begin it
    source = "\n".join(lines)
    compile(source, SOURCE, "exec")
    return indices, source, reads


def _slice(
    nodes: dict[int, ast.stmt], changers: dict[str, list[int]], name: str
) -> tuple[dict[int, str], set[str]]:
    """Return the sources of the statements that `name` depends on, by index, and what they read."""
    sources = {}
    reads = set()
    queue = [name, "*"]
    while queue:
        for index in changers.get(queue.pop(), ()):
            if index in sources:
                continue
            sources[index] = ast.unparse(nodes[index])
            new = _reads(symtable.symtable(sources[index], SOURCE, "exec"))
            queue += new - reads
            reads |= new
    return sources, reads


def _touched(
    nodes: list[ast.stmt], own_functions: set[str], foreign: frozenset[str]
) -> Iterator[set[str]]:
    """Yield the names whose values each top-level statement may change, beside what it binds.

    These are the names in its effects, and in those of the functions that it mentions. From there
    they are also the names in the statements that bind a name, because row in row = T[0] may be a
    part of T. Own functions do not count. They do their work whenever a test calls them, so another
    call of theirs is an example. An assertion changes nothing.
    """
    fixed = {*dir(builtins), *foreign}  # modules and functions, which no call changes
    leads_to = defaultdict(set)
    helpers = {}
    for node in nodes:
        if isinstance(node, _FIXED):
            fixed |= _binds(node)
        if isinstance(node, _DEFINITION) and node.name not in own_functions:
            helpers[node.name] = _effects(node, own_functions, _TAKING)
            leads_to[node.name] |= names_in(node)
        for part in ast.walk(node):
            if isinstance(part, ast.Assign | ast.AnnAssign | ast.For):
                names = names_in(part)
                for name in _binds(part):
                    leads_to[name] |= names
    active = {*_TAKING, *filter(helpers.get, helpers)}
    for node in nodes:
        if isinstance(node, _DEFINITION):
            node = ast.Tuple([*node.decorator_list, *getattr(node, "bases", [])])
        touched = set()
        if not isinstance(node, ast.Assert):
            touched |= _effects(node, own_functions, active)
            for helper in _reachable(names_in(node), leads_to) & helpers.keys():
                touched |= helpers[helper]
        yield _reachable(touched - fixed, leads_to) - fixed


def _effects(code: ast.AST, own_functions: set[str], active: set[str]) -> set[str]:
    """Return the names in what code does beside binding names.

    It stores into objects, binds global names, calls active functions, and evaluates expressions
    whose values it drops: what is there for its effect. A print and a call of an own function have
    none.
    """
    idle = own_functions | {"print"}
    names = set()
    for node in ast.walk(code):
        match node:
            case ast.Global():
                names.update(node.names)
            case ast.Attribute() | ast.Subscript() if not isinstance(node.ctx, ast.Load):
                names.add(_root(node))
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)) if name in active:
                names |= names_in(node)
            case ast.Expr(value=ast.Call(func=ast.Name(id=name))) if name in idle:
                pass
            case ast.Expr() | ast.Assign(targets=[ast.Name(id="_")]):
                names |= names_in(node)
    return names


def _reachable(names: set[str], edges: dict[str, set[str]]) -> set[str]:
    """Return the names, and all names that the edges lead to from them."""
    reached = set(names)
    queue = list(names)
    while queue:
        new = edges.get(queue.pop(), set()) - reached
        reached |= new
        queue += new
    return reached


def names_in(node: ast.AST) -> set[str]:
    """Return all names in a node, whether it reads or binds them."""
    names = set()
    for part in ast.walk(node):
        match part:
            case ast.Name(id=name) | ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                names.add(name)
            case ast.alias():
                names.add((part.asname or part.name).partition(".")[0])
            case ast.Global():
                names.update(part.names)
    return names


def modules_in(code: ast.AST) -> set[str]:
    """Return the names of the modules that code imports."""
    modules = set()
    for node in ast.walk(code):
        match node:
            case ast.Import():
                modules.update(alias.name for alias in node.names)
            case ast.ImportFrom():
                modules.add(node.module or ".")
    return modules


def _returns(function: ast.FunctionDef | ast.Lambda) -> bool:
    """Return whether a function yields, or returns anything but a written None."""
    if isinstance(function, ast.Lambda):
        return True
    nodes: list[ast.AST] = list(function.body)
    for node in nodes:  # grows while it is read
        match node:
            case ast.Return(value=None | ast.Constant(value=None)):
                pass
            case ast.Return() | ast.Yield() | ast.YieldFrom():
                return True
        if not isinstance(node, _SCOPE):
            nodes += ast.iter_child_nodes(node)
    return False


@functools.lru_cache(maxsize=512)
def share_of(text: str, kept: frozenset[int]) -> float:
    """Return the fraction of a response's characters that the kept statements hold.

    Comments in the lines of those statements count as kept.
    """
    statements, _ = top_level(text)
    used = characters("\n".join(statements[index][1] for index in kept))
    size = characters(text)
    return min(used / size, 1.0) if size else 1.0


def characters(text: str) -> int:
    """Return the number of characters without white space and code fences."""
    return len("".join("".join(_between_fences(text)).split()))


def part_names(item: dict, agents: int) -> list[str]:
    """Return the functions of a team, the main function last.

    The helpers are aux, aux2, ..., unless the item names them. A single agent writes aux as well as
    main.
    """
    helpers = ["aux", *(f"aux{i}" for i in range(2, agents))]
    return [*item.get("helpers", helpers), item["entry_point"]]


@functools.lru_cache(maxsize=512)  # enough for one step; syntax trees are large
def top_level(text: str) -> tuple[Statements, set[str]]:
    """Return a text's top-level statements with their lines, and the names of broken functions.

    A text that parses is taken as a whole. Otherwise each text between code fences is tried, and
    then its pieces: see _pieces.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if len(text) > MAX_CHARACTERS:
        return [], set()
    parsed = _parse(text)
    if isinstance(parsed, list):
        return parsed, set()
    statements = []
    broken = set()
    for segment in _between_fences(text):
        segment_statements, segment_broken = _pieces(textwrap.dedent(segment).strip(" "))
        statements += segment_statements
        broken |= segment_broken
    return statements, broken


def _between_fences(text: str) -> list[str]:
    segments = []
    start = 0
    for match in _FENCE.finditer(text):
        if match["fence"]:
            segments.append(text[start : match.start()])
            start = match.end()
    return [*segments, text[start:]]


def _pieces(segment: str) -> tuple[Statements, set[str]]:
    """Return the statements and broken functions of a text, perhaps without its fences.

    A text that does not parse as a whole is read in pieces. A piece runs from one line without
    indentation to the next. It is extended for as long as the parser says that more lines could
    complete it. A piece that never parses is prose, or a broken function.
    """
    parsed = _parse(segment)
    if isinstance(parsed, list):
        return parsed, set()
    pieces = _MARGIN.split(segment)
    statements = []
    broken = set()
    extensions = 100  # in all: each one parses the piece again
    start = 0
    while start < len(pieces):
        source = pieces[start]
        end = start + 1
        parsed = _parse(source)
        while parsed is _INCOMPLETE and end < len(pieces) and extensions:
            source += "\n" + pieces[end]
            end += 1
            extensions -= 1
            parsed = _parse(source)
        if isinstance(parsed, list):
            statements += parsed
            start = end
        else:
            broken |= {name.strip() for name in _HEADER.findall(pieces[start])}
            start += 1
    return statements, broken


def _parse(source: str):
    """Return the statements with their lines, _INCOMPLETE if more could complete them, or None."""
    try:
        body = syntax_tree(source, codeop.PyCF_ALLOW_INCOMPLETE_INPUT).body
    except REFUSED as error:
        return _INCOMPLETE if "incomplete input" in str(error) else None
    lines = source.split("\n")
    statements = []
    for node in body:
        decorators = getattr(node, "decorator_list", [])
        first = min(part.lineno for part in [node, *decorators])
        statements.append((node, "\n".join(lines[first - 1 : node.end_lineno])))
    return statements


def _binds(node: ast.stmt) -> set[str]:
    """Return the module's names that a top-level statement binds: x = 1, TABLE[x] = 1, import x.

    "*" stands for what nobody lists: the names of `import *`, and what all code depends on.
    """
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return {node.name}
        case ast.AnnAssign(value=None):  # "Note: this" binds nothing
            return set()
        case ast.ImportFrom(module="__future__"):
            return {"*"}
    names = set()
    for part in ast.walk(node):
        match part:
            case ast.alias():
                names.add((part.asname or part.name).partition(".")[0])
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                names.add(name)
            case ast.Name(id=name) | ast.Attribute(attr=name) if name in _SETTINGS:
                names.add("*")
            case ast.Name() | ast.Attribute() | ast.Subscript():
                if isinstance(part.ctx, ast.Store):
                    names.add(_root(part))
    return names


def _root(node: ast.expr) -> str:
    """Return the name that an expression like TABLE[x].update starts with, or ""."""
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Call):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""


def _reads(table: symtable.SymbolTable) -> set[str]:
    """Return the module's names that a scope and the scopes inside it read, or change in place."""
    in_module = table.get_type() == "module"
    names = set()
    for symbol in table.get_symbols():
        if symbol.is_referenced() if in_module else symbol.is_global():
            names.add(symbol.get_name())
    return names.union(*map(_reads, table.get_children()))


# A shareable part may import these names and use these attributes: pure functions, and methods of
# plain data. None of them leads to a mutable object that two modules share.
_PURE = {
    "math": set(dir(math)),
    "itertools": set(dir(itertools)),
    "collections": {"Counter", "OrderedDict", "defaultdict", "deque"},
    "functools": {"cache", "cmp_to_key", "lru_cache", "partial", "reduce"},
    "re": {"findall", "finditer", "fullmatch", "match", "search", "split", "sub"},
    "__future__": {"annotations"},
    "typing": {"Any", "Dict", "List", "Optional", "Set", "Tuple", "Union"},
}
_DATA = (str, bytes, list, tuple, dict, set, int, float, complex, Counter, deque, re.Match)
_ATTRIBUTES = set().union(*map(dir, _DATA), *_PURE.values())
_OUTWARD = """eval exec compile open input globals locals vars dir type getattr setattr delattr
object super breakpoint help memoryview"""
_LEADS_OUT = set(_OUTWARD.split())


def _shareable(statement: ast.stmt) -> bool:
    """Return whether a statement can run twice in one process without the second run noticing.

    This is an allow-list and may be incomplete. A program with any other statement gets a process
    of its own, which costs more time.
    """
    for node in ast.walk(statement):
        match node:
            case ast.ClassDef() | ast.AsyncFunctionDef() | ast.Await():
                return False  # instances may outlive a module, and act as they die
            case ast.Attribute(attr=name, ctx=ast.Load()):
                if name.startswith("_") or name not in _ATTRIBUTES:
                    return False
            case ast.Attribute() | ast.MatchClass(kwd_attrs=[_, *_]):
                return False
            case ast.Import(names=aliases):
                if not {alias.name for alias in aliases} <= _PURE.keys():
                    return False
            case ast.ImportFrom(module=module, names=aliases):
                if not {alias.name for alias in aliases} <= _PURE.get(module, set()):
                    return False
            case ast.Name(id=name) | ast.FunctionDef(name=name) | ast.arg(arg=name):
                if name in _LEADS_OUT or name.startswith("__"):
                    return False
    return True
