"""Take a function out of a model's response, with the statements that run before and after it.

The statements of the Python fence, or else of the text, run in their order, as at a prompt. A
statement that raises is passed over (programs/sandbox/candidate.py). So is one that takes too long.
Only two decisions rest on the text, which statements are code, and whose function is whose. A
statement that binds the name of a partner's function is left out.

    response                                        runs for aux, whose partner writes solve
    ----------------------------------------------  ----------------------------------------
    Here is the helper:                             -
    ```python
    from partner import solve                       -
    import numpy as np                              raises, and is passed over
    EVEN = {0, 2}                                   EVEN = {0, 2}
    for n in range(4, 9, 2): EVEN.add(n)            for n in range(4, 9, 2): ...
    def aux(x):                                     def aux(x): ...
        return x % 10 in EVEN
    print(aux(2))                                   print(aux(2))
    def aux(x): ...                                 - (a stub)
    def solve(xs):                                  -
        return [x for x in                          - (cut short)
    ```
    EVEN = {}                                       -

A function is `broken` if it was cut short or if Python refuses it. Any text gets an answer in
bounded time. Results are cached by text, because each response is paired with many partners.
"""

import ast
import codeop
import functools
import itertools
import math
import re
import symtable
import textwrap
import threading
import warnings
from collections import Counter, defaultdict, deque
from dataclasses import dataclass
from typing import NamedTuple

MAX_CHARACTERS = 50_000  # of a response; what follows is cut off

# Python warns about the style of many programs ("invalid escape sequence"). The filter goes by the
# file name that they are compiled under, because catch_warnings is not thread-safe.
SOURCE = "<response>"
warnings.filterwarnings("ignore", module=SOURCE)

# While Python builds a syntax tree, it counts the depth in one place for all threads. If a second
# thread builds one while the first one collects garbage, the first one gets a SystemError
# (python/cpython#106905). Rewards run in threads.
_BUILDING = threading.RLock()

_INCOMPLETE = object()  # source that more lines could complete
REFUSED = (SyntaxError, ValueError, RecursionError, MemoryError)  # what the parser may raise
Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
_SCOPE = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
_PYTHON = {"python", "py", "python3"}  # languages of a fence
# A fence, a closing fence at the end of a line, or a comment or a string, in which three backticks
# are text. A string may be cut short.
_FENCE = re.compile(
    r"""
    ^ [^\S\n]* (?P<fence> ``` | ~~~ ) (?P<info> .* ) $ | (?P<end> ``` ) [^\S\n]* $
    | \# .* | (\"{3} | '{3}) (?: \\ [\s\S] | [^\\] )*? (?: \4 | \Z )
    | " (?: \\ . | [^"\\\n] )*+ "? | ' (?: \\ . | [^'\\\n] )*+ '?
    """,
    re.MULTILINE | re.VERBOSE,
)
# A comment may stand anywhere. These clauses continue the statement above them.
_MARGIN = re.compile(r"\n(?=[^ \t#\n])(?!(?:else|finally)[ ]*:|(?:elif|except)\b.*:)", re.MULTILINE)
_HEADER = re.compile(r"\A(?:async )?def ([^(\n]*)")
# Prompts, block quotes and tags around the lines of code.
_AROUND = re.compile(
    r"^(?:>>>[ ]?|\.\.\.(?:[ ]|$)|>[ ]?)|^</?(?:answer|code)>|</?(?:answer|code)>$", re.MULTILINE
)
_SPACES = {0xA0: " ", 0x200B: None, 0x2060: None, 0xFEFF: None}  # no-break and zero-width ones


class Statement(NamedTuple):
    node: ast.stmt
    lines: str  # as they were written
    in_fence: bool  # of Python
    source: str = ""  # formatted by ast.unparse, after the text's __future__ imports
    binds: frozenset[str] = frozenset()  # names of the module
    reads: frozenset[str] = frozenset()  # names of the module, also those that its functions read


@dataclass(frozen=True, eq=False)
class Part:
    """The function that one response contributes to the program, with everything that it needs."""

    statements: tuple[str, ...] = ()  # the sources that run, in their order
    raw: str = ""  # the function as it was written, comments included
    node: Function | None = None  # the function that runs, None if the text does not show one
    broken: bool = False  # its definition does not parse or does not compile
    returns: bool = False  # it is defined and returns a value, as far as its text shows
    reads: frozenset[str] = frozenset()  # names of the module that it needs
    shareable: bool = False  # its program may share a process with others: see _shareable
    beside: bool = False  # its statements define other names, too
    kept: frozenset[int] = frozenset()  # indices of the response's statements that it needs

    @property
    def source(self) -> str:
        return "\n".join(self.statements)


def syntax_tree(source: str, flags: int = 0) -> ast.Module:
    """Return what ast.parse returns, in any thread. Raise one of REFUSED."""
    with _BUILDING:
        return compile(source, SOURCE, "exec", ast.PyCF_ONLY_AST | flags)


@functools.lru_cache(maxsize=512)  # enough for one step; syntax trees are large
def extract(text: str, name: str, foreign: frozenset[str]) -> Part:
    """Return the function `name` of a response. Statements that bind a `foreign` name are left out.

    Foreign names belong to the functions of other agents.
    """
    statements, broken = top_level(text)
    for in_fence in (True, False):  # the whole text where no Python fence defines the function
        running = {}
        bound = set()
        definition = None
        for index, statement in enumerate(statements):
            statement = _renamed(statement, foreign)
            is_stub = bound & statement.binds and _is_stub(statement.node)
            is_outside = in_fence and not statement.in_fence
            if is_outside or is_stub or statement.binds & foreign:
                continue
            if name in statement.binds:
                if _is_constant(statement):
                    continue
                definition = statement
            running[index] = statement
            bound |= statement.binds
        if definition:
            break
    else:
        return Part(broken=name in broken)

    kept, reads = _needed(running, name)
    needed = [running[index] for index in sorted(kept)]
    raw = definition.lines
    if not isinstance(definition.node, _SCOPE):  # an alias, or a partial: the function is elsewhere
        raw = "\n".join(statement.lines for statement in needed)
    for index, statement in enumerate(statements):  # an import of a partner's function: not run
        if isinstance(statement.node, ast.ImportFrom) and statement.binds <= foreign:
            kept.add(index)
    function = _function([definition, *reversed(needed)])
    return Part(
        tuple(statement.source for statement in running.values()),
        raw=raw,
        node=function,
        returns=function is None or _returns(function),
        reads=frozenset(reads),
        shareable=all(_shareable(statement.node) for statement in running.values()),
        beside=any(statement.binds - {name} for statement in running.values()),
        kept=frozenset(kept),
    )


def _renamed(statement: Statement, foreign: frozenset[str]) -> Statement:
    """Return `h = aux` for `from partner import aux as h`, where aux is foreign."""
    match statement.node:
        case ast.ImportFrom(names=aliases):
            names = {alias.asname: alias.name for alias in aliases if alias.name in foreign}
            names.pop(None, None)
            if names:
                source = f"{', '.join(names)} = {', '.join(names.values())}"
                [node] = syntax_tree(source).body
                return statement._replace(node=node, source=source, reads=frozenset(names.values()))
    return statement


def _is_constant(statement: Statement) -> bool:
    """Return whether a statement binds names to modules, or to a value that reads no name."""
    if isinstance(statement.node, ast.Import | ast.ImportFrom):
        return True
    if statement.reads or not isinstance(statement.node, ast.Assign | ast.AnnAssign):
        return False
    return not any(isinstance(part, ast.Lambda) for part in ast.walk(statement.node))


def _function(statements: list[Statement]) -> Function | None:
    """Return the function that runs for the name that the first statement binds.

    It may stand in another statement, such as `def even(x): ...` before `aux = even`.
    """
    for statement in statements:
        for node in ast.walk(statement.node):
            match node:
                case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                    if name in statement.binds or name == "__call__":
                        return node
                case ast.Lambda():
                    return node
    return None


def _is_stub(node: ast.stmt) -> bool:
    """Return whether a statement is a function without a body, such as a signature."""
    if not isinstance(node, ast.FunctionDef):
        return False
    bodies = [part.value if isinstance(part, ast.Expr) else part for part in node.body]
    return all(isinstance(part, ast.Constant | ast.Pass) for part in bodies)


def _needed(statements: dict[int, Statement], name: str) -> tuple[set[int], set[str]]:
    """Return the indices of the statements that `name` needs, and the names that they read.

    They are the statements that bind a needed name, and those that may change its value. Of the
    rest the text could do without: they show the function.
    """
    changeable = set()
    for statement in statements.values():
        if not isinstance(statement.node, ast.Import | ast.ImportFrom):
            changeable |= statement.binds - {name}
    users = defaultdict(set)  # name: the statements that bind it, or may change its value
    for index, statement in statements.items():
        names = statement.binds
        match statement.node:
            case ast.Assert() | ast.Expr(value=ast.Call(func=ast.Name(id="print"))):
                pass  # it shows or checks a function
            case ast.ImportFrom(module="__future__") | ast.ImportFrom(names=[ast.alias("*")]):
                names = {"*"}  # nobody lists what depends on it
            case _:
                names |= statement.reads & changeable
        for key in names:
            users[key].add(index)
    kept = set()
    needed = {name, "*"}
    queue = [name, "*"]
    while queue:
        for index in users[queue.pop()] - kept:
            kept.add(index)
            new = (statements[index].binds | statements[index].reads) - needed
            needed |= new
            queue += new
    return kept, needed


def names_in(node: ast.AST) -> set[str]:
    """Return all names in a node, whether it reads or binds them."""
    names = set()
    for part in ast.walk(node):
        match part:
            case ast.Name(id=name) | ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                names.add(name)
            case ast.alias():
                names.add((part.asname or part.name).partition(".")[0])
    return names


def modules_in(code: ast.AST) -> set[str]:
    """Return the names of the modules that code imports."""
    modules = set()
    for node in ast.walk(code):
        match node:
            case ast.Import(names=aliases):
                modules.update(alias.name for alias in aliases)
            case ast.ImportFrom(module=module):
                modules.add(module or ".")
    return modules


def _returns(function: Function) -> bool:
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
    lines = [statements[index].lines for index in sorted(kept)]
    # Statements of one line have it in common.
    used = characters("\n".join(text for text, _ in itertools.groupby(lines)))
    size = characters(text)
    return min(used / size, 1.0) if size else 1.0


def characters(text: str) -> int:
    """Return the number of characters without white space and code fences."""
    return len("".join("".join(segment for _, segment in _segments(text)).split()))


def closed(text: str) -> str:
    """Return a text with the fence that ends its code. A task's `stop` cuts this fence off."""
    text = text.rstrip()
    if text.count("```") % 2:
        text += "\n```"
    return text


def part_names(item: dict, agents: int) -> list[str]:
    """Return the functions of a team, the main function last.

    The helpers are aux, aux2, ..., unless the item names them. A single agent writes aux as well as
    main.
    """
    helpers = ["aux", *(f"aux{i}" for i in range(2, agents))]
    return [*item.get("helpers", helpers), item["entry_point"]]


@functools.lru_cache(maxsize=512)  # enough for one step; syntax trees are large
def top_level(text: str) -> tuple[list[Statement], set[str]]:
    """Return a text's top-level statements, and the names of broken functions.

    A text that parses is taken as a whole. Otherwise each text between code fences is tried, and
    then its pieces: see _pieces.
    """
    text = text[:MAX_CHARACTERS].replace("\r\n", "\n").replace("\r", "\n")
    segments = [(False, text)]
    if not isinstance(_parse(text), list):
        segments = _segments(_AROUND.sub("", text.translate(_SPACES)))
    statements = []
    broken = set()
    future = ""
    for in_fence, segment in segments:
        parsed, headers = _pieces(textwrap.dedent(segment).strip(" "))
        broken |= headers
        for node, lines in parsed:
            if isinstance(node, ast.AnnAssign) and not node.value:
                continue  # "Note: this" binds nothing
            try:
                source = ast.unparse(node)
                if isinstance(node, ast.ImportFrom) and node.module == "__future__":
                    future += f"{source}\n"
                else:
                    source = future + source
                compile(source, SOURCE, "exec")
                table = symtable.symtable(source, SOURCE, "exec")
            except REFUSED:  # the compiler refuses it, or it is nested too deeply
                broken.add(getattr(node, "name", ""))
                continue
            binds = frozenset(
                symbol.get_name()
                for symbol in table.get_symbols()
                if symbol.is_assigned() or symbol.is_imported()
            )
            statements.append(Statement(node, lines, in_fence, source, binds, _reads(table)))
    return statements, broken


def _segments(text: str) -> list[tuple[bool, str]]:
    """Return the texts inside and outside of code fences, and whether the fence is of Python."""
    segments = []
    language = None  # of the open fence
    start = 0
    for match in _FENCE.finditer(text):
        if not match["fence"] and (language is None or not match["end"]):
            continue
        segments.append((language in _PYTHON, text[start : match.start()]))
        start = match.end()
        info = (match["info"] or "").strip().lower()
        language = info if info or language is None else None
    return [*segments, (language in _PYTHON, text[start:])]


def _pieces(segment: str) -> tuple[list[tuple[ast.stmt, str]], set[str]]:
    """Return a segment's statements with their lines, and the names of its broken functions.

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
            continue
        broken |= {name.strip() for name in _HEADER.findall(pieces[start])}
        if parsed is _INCOMPLETE and _is_open_text("\n".join(pieces[start:])):
            break
        first, _, block = pieces[start].partition("\n")
        if block and _parse(first) is None:  # prose, and perhaps code that is set in
            inner, inner_broken = _pieces(textwrap.dedent(block))
            statements += inner
            broken |= inner_broken
        start += 1
    return statements, broken


def _is_open_text(source: str) -> bool:
    """Return whether a text in three quotes is cut short: what looks like code in it is text."""
    return any(isinstance(_parse(source + quotes), list) for quotes in ('"""', "'''"))


def _parse(source: str):
    """Return the statements with their lines, _INCOMPLETE if more could complete them, or None."""
    try:
        body = syntax_tree(source, codeop.PyCF_ALLOW_INCOMPLETE_INPUT).body
    except REFUSED as error:
        return _INCOMPLETE if "incomplete input" in str(error) else None
    lines = source.split("\n")
    statements = []
    for node in itertools.chain(*map(_unwrapped, body)):
        decorators = getattr(node, "decorator_list", [])
        first = min(part.lineno for part in [node, *decorators])
        statements.append((node, "\n".join(lines[first - 1 : node.end_lineno])))
    return statements


def _unwrapped(node: ast.stmt) -> list[ast.stmt]:
    """Return the statements of a `try` with several functions, which may be of several authors."""
    if isinstance(node, ast.Try) and sum(isinstance(part, _SCOPE) for part in node.body) > 1:
        return [*node.body, *node.orelse, *node.finalbody]
    return [node]


def _reads(table: symtable.SymbolTable) -> frozenset[str]:
    """Return the module's names that a scope and the scopes inside it read, or change in place."""
    in_module = table.get_type() == "module"
    names = set()
    for symbol in table.get_symbols():
        if symbol.is_referenced() if in_module else symbol.is_global():
            names.add(symbol.get_name())
    return frozenset(names.union(*map(_reads, table.get_children())))


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
_ATTRIBUTES -= {"format", "format_map"}  # "{0.__globals__}" reads any attribute
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
