"""A class written by several agents: its item, the methods they write, and how these are merged.

An agent writes any methods of the class. They are merged by name. If a method is written twice, the
later agent's counts. A method that nobody wrote keeps the skeleton's empty body. The constructor,
the decorators and whatever else the skeleton has are given, and no agent can change them.
"""

import ast
import functools
import itertools
import re
import textwrap
from dataclasses import dataclass

from programs.extraction import characters, top_level
from programs.items import check_texts
from programs.sandbox.parsing import REFUSED, SOURCE, syntax_tree


def class_item(row):
    """Return a row of ClassEval's fields as an item. Raise ValueError if a field is wrong.

    `entry_point` is the name of the class, and `setup` its imports. `tests` has a program for each
    test method. `base` is the class, in which the methods asked for are empty. `methods` has the
    methods asked for with their decorators, and `given` the other methods. `solution` is the text
    of the methods asked for.
    """
    check_texts(row, "task_id class_name skeleton solution_code test")
    try:
        asked = [method["method_name"] for method in row["methods_info"]]
        imports = "\n".join(row.get("import_statement") or [])
        tests = unit_tests(syntax_tree(row["test"]))
        tree = syntax_tree(row["solution_code"])
        by_name = {getattr(node, "name", ""): node for node in tree.body}
        class_node = by_name[row["class_name"]]
        defined = {node.name: node for node in class_node.body if isinstance(node, ast.FunctionDef)}
        solution = "\n\n".join(ast.unparse(defined[name]) for name in asked)
    except (KeyError, TypeError, *REFUSED) as error:
        message = "methods_info has to be a list with a method_name each, import_statement of texts"
        raise ValueError(
            f"{message}, test and solution_code Python that defines them: {error}"
        ) from None
    if not asked or not tests:
        raise ValueError("methods_info and test have to hold a method")
    for name in asked:
        defined[name].body = [ast.Pass()]
    tree.body.remove(class_node)  # the class ends its text, so that methods can be added
    return {
        "task_id": row["task_id"],
        "skeleton": row["skeleton"],
        "entry_point": row["class_name"],
        "setup": imports,
        "tests": tests,
        "base": "\n".join(map(ast.unparse, [*tree.body, class_node])),
        "methods": {name: decorators(defined[name]) for name in asked},
        "given": [name for name in defined if name not in asked],
        "solution": textwrap.indent(solution, "    "),
    }


def unit_tests(tree):
    """Return each test method of a module's TestCases as a program."""
    cases = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    shared = [ast.unparse(node) for node in tree.body if node not in cases]
    tests = []
    for case in cases:
        source = "\n".join(["import unittest", *shared, ast.unparse(case)])
        for node in case.body:
            name = getattr(node, "name", "")
            if name.startswith("test"):
                tests.append(f"{source}\nunittest.TestSuite([{case.name}({name!r})]).debug()")
    return tests


def decorators(node):
    return "".join(f"@{ast.unparse(decorator)}\n" for decorator in node.decorator_list)


@dataclass(frozen=True, eq=False)
class Method:
    """A method that a response defines."""

    name: str
    decorators: str
    source: str  # without decorators
    reads: frozenset[str]  # attributes
    size: int  # characters in the response


@functools.lru_cache(maxsize=2048)
def methods_of(text):
    """Return the methods that a response defines, in a class or as its continuation.

    Code that is cut off or is not Python is left out. So are empty bodies, and what stands before
    the class.
    """
    text = re.split(r"^class\b.*\n", text, maxsplit=1, flags=re.MULTILINE)[-1]
    first = re.search(r"^([ \t]*)(?:@|def )", text, re.MULTILINE)
    depth = len(first[1]) if first else 0
    lines = []
    for line in text.split("\n"):
        # Text further left than the first method ends a method, as a code fence does.
        lines.append("```" if line[:depth].strip() else line[depth:])
    statements, *_ = top_level("\n".join(lines))
    methods = [_method(statement.node, statement.lines) for statement in statements]
    return tuple(filter(None, methods))


def _method(node, text):
    """Return the method that a statement defines, None for any other and for an empty body."""
    if not isinstance(node, ast.FunctionDef):
        return None
    values = [part.value if isinstance(part, ast.Expr) else part for part in node.body]
    if all(isinstance(value, ast.Constant | ast.Pass) for value in values):
        return None  # the body of a skeleton: a docstring, pass or dots
    reads = frozenset(n.attr for n in ast.walk(node) if isinstance(n, ast.Attribute))
    try:
        source = ast.unparse(node).removeprefix(decorators(node))
        compile(source, SOURCE, "exec")
        return Method(node.name, decorators(node), source, reads, characters(text))
    except REFUSED:  # it parses, and is still too much or not right for the compiler
        return None


def written(item, text):
    """Return the methods that a response adds to the class, by name. The last definition counts."""
    methods = {}
    for method in methods_of(text):
        if method.name not in item["given"]:
            methods[method.name] = method
    return methods


def text_used(item, agents, responses):
    """Return the share of each response's characters that the class is made of.

    These are the skeleton's methods, and other methods that a method reads. `agents` has a dict of
    methods for each response.
    """
    needed = set(item["methods"])
    for method in merged(agents).values():
        needed |= method.reads
    shares = []
    for agent, text in enumerate(responses):
        replaced = merged(agents[agent + 1 :])
        used = 0
        for name, method in agents[agent].items():
            if name in needed and name not in replaced:
                used += method.size
        given, _, rest = text.partition(f"class {item['entry_point']}:\n")
        shares.append(min(used / max(characters(rest or given), 1), 1.0))
    return shares


def merged(agents):
    """Return the methods of all agents. A later agent's replace an earlier agent's."""
    methods = {}
    for agent in agents:
        methods |= agent
    return methods


def class_source(item, agents):
    """Return the class with these agents' methods. The text does not depend on their authors."""
    parts = [item["base"]]
    for name, method in sorted(merged(agents).items()):  # later definitions win over empty ones
        source = item["methods"].get(name, method.decorators) + method.source
        parts.append(textwrap.indent(source, "    "))
    return "\n".join(parts)


def writers(item, agents):
    """Return the authors of each of the skeleton's methods that has any, in order."""
    authors = []
    for name in item["methods"]:
        authors.append([agent for agent, methods in enumerate(agents) if name in methods])
    return list(filter(None, authors))


def scheme(item, responses):
    """Return how the team divided the methods.

    `overlap`      Several agents wrote the same method.
    `halves`       Each agent wrote a run of neighbouring methods.
    `alternation`  Neighbours are by different agents.
    """
    authors = writers(item, [written(item, text) for text in responses])
    if not authors:
        return "nothing"
    if max(map(len, authors)) > 1:
        return "overlap"
    runs = [agent for [agent], _ in itertools.groupby(authors)]
    if len(runs) == 1:
        return "all by one"
    if len(runs) == len(set(runs)):
        return "halves"
    return "alternation" if len(runs) == len(authors) else "mixed"
