"""Turn rows with the fields of HumanEval into code items.

The row's function check(candidate) becomes a list of tests, each of them scored on its own. The
prompt's imports and helper functions become the item's setup. All decisions rest on syntax trees.
"""

import ast
import copy
import re
import sys
from collections.abc import Callable

from policies import Mistake
from programs.extraction import names_in
from programs.rows import file_rows, hub_rows
from programs.sandbox.box import Program
from programs.sandbox.parsing import REFUSED, syntax_tree
from programs.teams import judged, program, team_parts


def read_items(data: str | None, hub: tuple, item_of: Callable[[dict], dict]) -> list[dict]:
    """Return the item of every row, in order. A ValueError names the bad row.

    `item_of` turns a row into its item. Without a file in `data`, the rows come from `hub`. It is
    the name, the configuration and the split of a data set.
    """
    if data:
        source = data
        rows = file_rows(data)
    else:
        source = hub[0]
        rows = hub_rows(*hub)
    items = []
    for number, row in rows:
        try:
            items.append(item_of(row))
        except (ValueError, RecursionError) as error:
            raise Mistake(f"{source}, row {number}: {error}") from error
    return items


def code_item(row: dict) -> dict:
    """Return the code item of a row. Raise ValueError, which says what is wrong.

    Its keys are task_id, prompt, entry_point, tests and setup, and solution where the row has one.
    """
    if type(row.get("task_id")) is int:
        row = row | {"task_id": str(row["task_id"])}
    check_texts(row, "task_id prompt entry_point test")
    prompt = with_body(row["prompt"])
    entry = row["entry_point"]
    if re.fullmatch(r"aux\d*", entry):
        raise Mistake(f"entry_point {entry!r} is the name of a helper")
    signature(prompt, entry)
    item = {
        "task_id": row["task_id"],
        "prompt": prompt,
        "entry_point": entry,
        "tests": split_tests(row["test"], entry),
        "setup": surroundings(prompt, entry),
    }
    solution = row.get("canonical_solution")
    if isinstance(solution, str) and solution.strip():
        item["solution"] = row["prompt"] + solution
    check_imports(item)
    return item


def passable(items: list[dict], split: str) -> list[dict]:
    """Return a split's items. Say which of them their own solution does not pass.

    A row of these would teach nothing, so "train" leaves it out. Its tests may ask for what does
    not reach them: a list sorted in place, a function, the program's own exception, what it prints.
    """
    solved = [item for item in items if "solution" in item]
    verdicts = judged(program(item, team_parts(item, [item["solution"]])) for item in solved)
    failing = []
    for item, verdict in zip(solved, verdicts, strict=True):
        if not all(verdict.passed):
            failing.append(item)
    if failing:
        left_out = ", and are left out" if split == "train" else ""
        print(
            f"{len(failing)} of {len(items)} {split} problems cannot be passed by their own "
            f"solution{left_out}: {', '.join(item['task_id'] for item in failing)}",
            file=sys.stderr,
        )
    if split != "train":
        return items
    return [item for item in items if item not in failing]


def check_imports(item: dict) -> None:
    """Raise ValueError for an import of the tests that the sandbox does not have.

    All programs would fail such tests.
    """
    source = "\n".join([item["setup"], *item["tests"]])
    nodes = ast.walk(syntax_tree(source))
    imports = [ast.unparse(node) for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)]
    [verdict] = judged([Program("def f(): ...", tuple(imports), "f")])
    for error in filter(None, verdict.errors):
        raise Mistake(
            f"its tests import what the sandbox does not have and cannot be given ({error}; "
            "docs/sandbox.md): write them without, or leave out the row"
        )


def with_body(statement: str) -> str:
    """Return a problem that parses, if it can. Comments alone are not a body: `...` is added."""
    return statement if parsed(statement) else f"{statement.rstrip()}\n    ..."


def surroundings(prompt: str, entry: str) -> str:
    """Return the code of a prompt around the entry point.

    Docstrings are left out. So are examples, which call functions that are not there yet.
    """
    statements = []
    for node in syntax_tree(prompt).body:
        if isinstance(node, ast.Expr | ast.Assert) or getattr(node, "name", None) == entry:
            continue
        statements.append(ast.unparse(node))
    return "\n".join(statements)


def check_texts(row: dict, fields: str) -> None:
    """Raise ValueError for a field that is missing, empty or not a text."""
    for name in fields.split():
        if row.get(name) is None:
            raise Mistake(f"field {name!r} is missing")
        if not isinstance(row[name], str) or not row[name].strip():
            raise Mistake(f"field {name!r} has to be a text, not {row[name]!r:.60}")


def parsed(source: str) -> ast.Module | None:
    try:
        return syntax_tree(source)
    except REFUSED:
        return None


def signature(prompt: str, entry: str) -> str:
    """Return the line `def entry(...) -> ...:` of a prompt, read from its syntax tree."""
    named = [node for node in functions(parsed(prompt)) if node.name == entry]
    if not named:
        raise Mistake(f"the prompt has to be Python that defines {entry!r}, the entry_point")
    return ast.unparse(stub(named[-1], ast.Pass())).removesuffix("\n    pass")


def functions(tree: ast.Module | None) -> list[ast.FunctionDef]:
    body = tree.body if tree else []
    return [node for node in body if isinstance(node, ast.FunctionDef)]


def stub(function: ast.FunctionDef, body: ast.stmt) -> ast.FunctionDef:
    """Return a copy of a function with another body and without decorators."""
    stub = copy.copy(function)
    stub.body = [body]
    stub.decorator_list = []
    return stub


def split_tests(source: str, entry: str) -> list[str]:
    """Return the tests of check(candidate) as self-contained statements that call `entry`.

    Every statement of its body that asserts something is a test. A loop or a block is one test. A
    test carries the earlier plain statements that share a name with it, from inside and outside of
    check. They may carry others in turn. A plain assertion loses its message.

    A test that never calls the candidate, such as `assert True`, is dropped. It would pass with any
    program, even one that raises.
    """
    tree = parsed(source)
    check = _check_function(tree)
    candidate = check.args.args[0].arg
    outside = [node for node in tree.body if node is not check and "check" not in names_in(node)]
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    asserting = {node.name for node in functions if node is not check and _asserts(node)}

    tests = []
    plain = []
    under_test = {candidate, entry}
    for statement in check.body:
        names = names_in(statement)
        defines = isinstance(statement, ast.FunctionDef | ast.ClassDef)
        if defines or not (_asserts(statement) or names & asserting):
            plain.append(statement)
            continue
        inside = carried(plain, names, under_test)
        names = names.union(*map(names_in, inside))
        before = carried(outside, names, under_test)
        names = names.union(*map(names_in, before))
        if names & under_test:
            tests.append(_test(candidate, entry, before, [*inside, statement]))
    if not tests:
        raise Mistake(f"no assertion of check({candidate}) calls {entry}")
    return tests


def _check_function(tree: ast.Module | None) -> ast.FunctionDef:
    """Return the last definition of check(candidate), or raise ValueError."""
    for node in reversed(functions(tree)):
        if node.name == "check" and len(node.args.args) == 1:
            return node
    raise Mistake("field 'test' has to be Python that defines check(candidate)")


def carried(plain: list[ast.stmt], names: set[str], ignored: set[str]) -> list[ast.stmt]:
    """Return the statements that share a name with `names` or with a later carried statement.

    `import *` is always carried: nobody lists the names that it binds.
    """
    statements = []
    wanted = {"*"} | (names - ignored)
    for node in reversed(plain):
        node_names = names_in(node)
        if node_names & wanted:
            statements.append(node)
            wanted |= node_names - ignored
    return statements[::-1]


def _asserts(node: ast.AST) -> bool:
    """Return whether a statement has an assert, a raise, or a call such as assert_equal(...)."""
    return bool(re.search(r"\b(assert|raise\b)", ast.unparse(node)))


def _test(candidate: str, entry: str, before: list[ast.stmt], body: list[ast.stmt]) -> str:
    """Return the text of one test: a plain assertion, or a function with its call."""
    match before, body:
        case [], [ast.Assert(test=asserted)]:
            nodes = list(ast.walk(asserted))
            # A lambda or a comprehension may bind the two names.
            if not any(isinstance(node, ast.arg | ast.Store) for node in nodes):
                for node in nodes:
                    if isinstance(node, ast.Name) and node.id == candidate:
                        node.id = entry
                return ast.unparse(ast.Assert(asserted, None))
    [function] = syntax_tree(f"def _check({candidate}): pass").body
    function.body = body
    definitions = "\n".join(ast.unparse(node) for node in [*before, function])
    return f"{definitions}\n_check({entry})"
