"""Take a function out of a model's response, with the statements that run before and after it.

The statements of the Python fences, or else of the text, run in their order, as at a prompt. A
statement that raises is passed over (programs/sandbox/candidate.py). Only two decisions rest on the
text, which statements are code, and whose function is whose. A statement that binds the name of a
partner's function is left out.

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
    def solve(xs):                                  -
        return [x for x in                          - (cut short)
    ```
    EVEN = {}                                       -

A function is `broken` if it was cut short or if Python refuses it. Any text gets an answer in
bounded time. Results are cached by text, because each response is paired with many partners.
"""

import ast
import functools
import itertools
import re
import symtable
import textwrap
from dataclasses import dataclass
from typing import NamedTuple

from programs.sandbox.parsing import REFUSED, SOURCE, syntax_tree

MAX_CHARACTERS = 50_000  # of a response; what follows is cut off

_SCOPE = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
# A fence stands at the margin, or ends the last line of code. In a docstring it is set in further.
_FENCE = re.compile(r"^ {0,3}(?:```|~~~).*$|(?<=\S)``` *$", re.MULTILINE)
_PYTHON = re.compile(
    rf"^ {{0,3}}(?:```|~~~) *(?:python3?|py) *\n((?s:.*?))(?={_FENCE.pattern}|\Z)",
    re.MULTILINE | re.IGNORECASE,
)
_MARGIN = re.compile(r"\n(?=[^\s#])")  # before a line that is not set in, and is no comment
_HEADER = re.compile(r"\A(?:async )?def (\w+) *(?:\(|\n|\Z)")


class Statement(NamedTuple):
    node: ast.stmt
    lines: str  # as they were written
    source: str  # formatted by ast.unparse
    binds: frozenset[str]  # names of the module
    reads: frozenset[str]  # names of the module, also those that its functions read


@dataclass(frozen=True, eq=False)
class Part:
    """The function that one response contributes to the program, with everything that it needs."""

    statements: tuple[str, ...] = ()  # the sources that run, in their order
    raw: str = ""  # the function as it was written, comments included
    node: ast.stmt | None = None  # the statement that defines it
    broken: bool = False  # its definition does not parse or does not compile
    returns: bool = False  # it is defined and returns a value, as far as its text shows
    reads: frozenset[str] = frozenset()  # names of the module that it needs
    kept: frozenset[int] = frozenset()  # indices of the response's statements that it needs

    @property
    def source(self) -> str:
        return "\n".join(self.statements)


@functools.lru_cache(maxsize=512)  # enough for one step; syntax trees are large
def extract(text: str, name: str, foreign: frozenset[str]) -> Part:
    """Return the function `name` of a response. Statements that bind a `foreign` name are left out.

    Foreign names belong to the functions of other agents.
    """
    statements, broken = top_level(text)
    running = {}
    imports = set()  # of partners' functions
    future = ""  # imports that change how the rest of the text compiles
    definition = None
    for index, statement in enumerate(statements):
        if statement.binds & foreign:
            if isinstance(statement.node, ast.ImportFrom):
                imports.add(index)
            continue
        if getattr(statement.node, "module", None) == "__future__":
            future += f"{statement.source}\n"
        if name in statement.binds:
            if not _may_define(statement):
                continue
            definition = statement
        running[index] = statement
    if not definition:
        return Part(broken=name in broken)

    kept, reads = _needed(running, name)
    raw = definition.lines
    if not isinstance(definition.node, _SCOPE):  # an alias, or a partial: the function is elsewhere
        raw = "\n".join(running[index].lines for index in sorted(kept))
    return Part(
        tuple(future + statement.source for statement in running.values()),
        raw=raw,
        node=definition.node,
        returns=_returns(definition.node),
        reads=frozenset(reads),
        kept=frozenset(kept | imports),
    )


def _may_define(statement: Statement) -> bool:
    """Return whether a statement can define a function. Imports and constants cannot."""
    parts = ast.walk(statement.node)
    return bool(statement.reads) or any(isinstance(part, _SCOPE) for part in parts)


def _needed(statements: dict[int, Statement], name: str) -> tuple[set[int], set[str]]:
    """Return the indices of the statements that `name` needs, and the names that they read.

    They are the statements that bind a needed name, and those that may change its value. Of the
    rest the text could do without: they show the function.
    """
    changeable = set()
    for statement in statements.values():
        if not isinstance(statement.node, ast.Import | ast.ImportFrom):
            changeable |= statement.binds - {name}
    touched = {}  # the names that a statement binds, or whose value it may change
    for index, statement in statements.items():
        touched[index] = statement.binds | (statement.reads & changeable)
        match statement.node:
            case ast.Assert() | ast.Expr(value=ast.Call(func=ast.Name(id="print"))):
                touched[index] = statement.binds  # it shows or checks a function
    kept: set[int] = set()
    names = {name}
    while added := {index for index in touched if touched[index] & names} - kept:
        kept |= added
        for index in added:
            names |= statements[index].binds | statements[index].reads
    return kept, names


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


def _returns(statement: ast.stmt) -> bool:
    """Return whether a function yields, or returns anything but a written None.

    True for what is not written as a function, such as an alias.
    """
    if not isinstance(statement, ast.FunctionDef):
        return True
    nodes: list[ast.AST] = [*statement.body]
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
    return len("".join(_FENCE.sub("", text).split()))


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
    """Return a text's top-level statements, and the names of broken functions."""
    statements = []
    broken = set()
    for segment in _code(text[:MAX_CHARACTERS]):
        parsed, headers = _runs(textwrap.dedent(segment).strip(" "))
        broken |= headers
        for node, lines in parsed:
            try:
                source = ast.unparse(node)
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
            statements.append(Statement(node, lines, source, binds, _reads(table)))
    return statements, broken


def _code(text: str) -> list[str]:
    """Return the texts in the fences of Python. Where there is none, return all but the fences."""
    text = re.sub("\r\n?", "\n", text)
    return _PYTHON.findall(text) or _FENCE.split(text)


TRIES = 100  # shorter runs of a text that are parsed


def _runs(segment: str) -> tuple[list[tuple[ast.stmt, str]], set[str]]:
    """Return the statements that parse with their lines, and the names of broken functions.

    A piece goes from one line at the margin to the next. The longest run of pieces that parses is
    taken, and then the next one. Where none does, the first piece is left out: it is prose, or a
    broken function. After TRIES shorter runs only single pieces are tried, since a model that
    repeats a line writes hundreds.
    """
    pieces = _MARGIN.split(segment)
    statements = []
    broken = set()
    size = len(pieces)  # of the run that is tried
    tries = TRIES
    while pieces:
        source = "\n".join(pieces[:size])
        try:
            body = syntax_tree(source).body
        except REFUSED as error:
            line = getattr(error, "lineno", None) or len(source)
            ends = itertools.accumulate(piece.count("\n") + 1 for piece in pieces[: size - 1])
            size = sum(end < line for end in ends)
            if size:  # the pieces before the one with the error
                tries -= 1
                size = size if tries else 1
                continue
            broken.update(_HEADER.findall(pieces[0]))
            if "triple-quoted" in str(error):
                break  # what looks like code in it is text
            size = 1
        else:
            lines = source.split("\n")
            for node in body:
                decorators = getattr(node, "decorator_list", [])
                start = min(part.lineno for part in [node, *decorators])
                statements.append((node, "\n".join(lines[start - 1 : node.end_lineno])))
        del pieces[:size]
        size = len(pieces) if tries else 1
    return statements, broken


def _reads(table: symtable.SymbolTable) -> frozenset[str]:
    """Return the module's names that a scope and the scopes inside it read, or change in place."""
    in_module = table.get_type() == "module"
    names = set()
    for symbol in table.get_symbols():
        if symbol.is_referenced() if in_module else symbol.is_global():
            names.add(symbol.get_name())
    return frozenset(names.union(*map(_reads, table.get_children())))
