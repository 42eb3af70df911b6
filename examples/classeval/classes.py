"""A class written by several agents: its item, how their methods become one class, who wrote what.

An agent writes any methods of the class. They are merged by name: of a method written twice the
later agent's counts, one that nobody wrote keeps the skeleton's empty body. The constructor, the
decorators and whatever else the skeleton has are given, and no agent can change them.
"""

import ast
import copy
import functools
import itertools
import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass

from programs.extraction import REFUSED, characters, top_level
from programs.items import check_texts


def class_item(row: dict) -> dict:
    """A row of ClassEval's fields as an item; ValueError says what is wrong.

    {"task_id", "skeleton", "entry_point": the class, "setup": imports, "tests": one for each test
    method, "base": the class with the methods asked for emptied, "methods": these and their
    decorators, "given": the other methods, "solution": the text of the methods asked for}
    """
    check_texts(row, "task_id class_name skeleton solution_code test")
    try:
        asked = [method["method_name"] for method in row["methods_info"]]
        imports = "\n".join(row.get("import_statement") or [])
        tree, tests = ast.parse(row["solution_code"]), unit_tests(ast.parse(row["test"]))
    except (KeyError, TypeError, *REFUSED) as error:
        message = "methods_info has to be a list with a method_name each, import_statement of texts"
        raise ValueError(f"{message}, solution_code and test Python: {error}") from None
    classes = [n for n in tree.body if getattr(n, "name", None) == row["class_name"]]
    own = {n.name: n for one in classes for n in one.body if isinstance(n, ast.FunctionDef)}
    if not asked or not tests or not own.keys() >= set(asked):
        raise ValueError("solution_code has to define what methods_info names, test to test it")
    solution = textwrap.indent("\n\n".join(ast.unparse(own[name]) for name in asked), "    ")
    for name in asked:
        own[name].body = [ast.Pass()]
    last = [node for node in tree.body if node is not classes[-1]] + classes[-1:]
    return {
        "task_id": row["task_id"],
        "skeleton": row["skeleton"],
        "entry_point": row["class_name"],
        "setup": imports,
        "tests": tests,
        "base": "\n".join(map(ast.unparse, last)),
        "methods": {name: decorators(own[name]) for name in asked},
        "given": [name for name in own if name not in asked],
        "solution": solution,
    }


def unit_tests(tree: ast.Module) -> list[str]:
    """Each test method of a module's TestCases as a program of its own."""
    tests, rest = [], [node for node in tree.body if not isinstance(node, ast.ClassDef)]
    for case in (node for node in tree.body if isinstance(node, ast.ClassDef)):
        named = {n.name: n for n in case.body if getattr(n, "name", "").startswith("test")}
        fixtures = [node for node in case.body if node not in named.values()]
        for name, method in named.items():
            case.body = [*fixtures, method]
            run = f"unittest.TestSuite([{case.name}({name!r})]).debug()"
            tests.append("\n".join(["import unittest", *map(ast.unparse, [*rest, case]), run]))
    return tests


def decorators(node: ast.FunctionDef) -> str:
    return "".join(f"@{ast.unparse(one)}\n" for one in node.decorator_list)


@dataclass(frozen=True, eq=False)
class Method:
    """A method that a response defines."""

    name: str
    decorators: str
    source: str  # without them
    reads: frozenset[str]  # attributes
    size: int  # characters in the response


@functools.lru_cache(maxsize=2048)
def methods_of(text: str) -> tuple[Method, ...]:
    """The methods with a body that a response defines, in a class or as its continuation. What is
    cut off or no Python is left out."""
    first, found = re.search(r"^([ \t]*)(?:@|def )", text, re.MULTILINE), []
    depth = len(first[1]) if first else 0
    # What stands further left than the first method is none: it ends one, as a code fence does.
    lines = (line[depth:] if not line[:depth].strip() else "```" for line in text.split("\n"))
    for node, written in top_level("\n".join(lines))[0]:
        if not isinstance(node, ast.FunctionDef):
            continue
        values = (part.value if isinstance(part, ast.Expr) else part for part in node.body)
        if all(isinstance(value, ast.Constant | ast.Pass) for value in values):
            continue  # the body of a skeleton: a docstring, pass or dots
        reads = frozenset(n.attr for n in ast.walk(node) if isinstance(n, ast.Attribute))
        bare = copy.copy(node)  # the tree is kept for the next to ask
        bare.decorator_list = []
        try:
            source = ast.unparse(bare)
            compile(source, "<response>", "exec")
            size = characters(written)
            found.append(Method(node.name, decorators(node), source, reads, size))
        except REFUSED:  # it parses, and is still too much or not right for the compiler
            continue
    return tuple(found)


def written(item: dict, text: str) -> dict[str, Method]:
    """What a response adds to the class, by name; the last definition counts."""
    return {one.name: one for one in methods_of(text) if one.name not in item["given"]}


def text_used(item: dict, agents: list[dict[str, Method]], responses: list[str]) -> Iterator[float]:
    """The share of each response's characters that the class is made of: the skeleton's methods,
    and others that a method reads."""
    needed = item["methods"].keys() | {n for one in merged(agents).values() for n in one.reads}
    for agent, (found, text) in enumerate(zip(agents, responses, strict=True), 1):
        own = found.keys() & needed - merged(agents[agent:]).keys()
        yield min(sum(found[name].size for name in own) / max(characters(text), 1), 1.0)


def merged(agents: list[dict[str, Method]]) -> dict[str, Method]:
    """The methods of all agents by name; a later agent's come before an earlier one's."""
    return {name: one for found in agents for name, one in found.items()}


def class_source(item: dict, agents: list[dict[str, Method]]) -> str:
    """The class with the methods of these agents. Its text does not depend on who wrote them."""
    parts = [item["base"]]
    for name, one in sorted(merged(agents).items()):  # later definitions win over empty ones
        source = item["methods"].get(name, one.decorators) + one.source
        parts.append(textwrap.indent(source, "    "))
    return "\n".join(parts)


def writers(item: dict, agents: list[dict[str, Method]]) -> list[list[int]]:
    """The agents that wrote a method, for each of the skeleton's that somebody wrote, in order."""
    by = ([a for a, found in enumerate(agents) if name in found] for name in item["methods"])
    return [some for some in by if some]


def scheme(item: dict, responses: list[str]) -> str:
    """Who wrote what: "nothing"; "overlap": several wrote one method; "all by one"; "halves": each
    a run of neighbouring methods; "alternation": neighbours by different agents; "mixed"."""
    by = writers(item, [written(item, text) for text in responses])
    runs, authors = len([*itertools.groupby(by)]), {some[0] for some in by}
    if not by or max(map(len, by)) > 1:
        return "overlap" if by else "nothing"
    if runs == len(authors):
        return "halves" if runs > 1 else "all by one"
    return "alternation" if runs == len(by) else "mixed"
