"""From a row of HumanEval's or MBPP's fields to a code item.

The row's function check(candidate) becomes a list of tests, each of them scored on its own; what
the prompt defines around the entry point (imports, helper functions) becomes the item's setup. All
of it is decided on syntax trees.
"""

import ast
import copy
import re
from collections.abc import Callable

from programs.extraction import REFUSED
from programs.rows import file_rows, hub_rows


def read_items(data: str | None, hub: tuple, item_of: Callable[[dict], dict]) -> list[dict]:
    """The items of every row of a file, or of the hub, in order; ValueError names a bad row.

    hub: name, configuration and split of the data set. item_of: from a row to its item."""
    source, items, seen = data or hub[0], [], {}
    for number, row in file_rows(data) if data else hub_rows(*hub):
        try:
            item = item_of(row)
            first = seen.setdefault(item["task_id"], number)
            if first != number:
                raise ValueError(f"task_id {item['task_id']!r} is that of row {first}, too")
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{source}, row {number}: {error}") from error
        items.append(item)
    return items


def code_item(row: dict) -> dict:
    """A row of HumanEval's or MBPP's fields as a code item; ValueError says what is wrong.

    {"task_id", "prompt", "entry_point", "tests", "setup"}, and "solution" where the row has one.
    """
    if "test_list" in row:
        row = _from_mbpp(row)
    row = {name: str(v) if name == "task_id" and type(v) is int else v for name, v in row.items()}
    check_texts(row, "task_id prompt entry_point test")
    prompt, entry = row["prompt"], row["entry_point"]
    if re.fullmatch(r"aux\d*", entry):
        raise ValueError(f"entry_point {entry!r} is the name of a helper")
    if _parsed(prompt) is None:
        prompt = prompt.rstrip() + "\n    pass\n"  # a body of comments is no body
    signature(prompt, entry)
    setup = "\n".join(  # without docstrings, and examples, which would call what is not there
        ast.unparse(node)
        for node in _parsed(prompt).body
        if not isinstance(node, ast.Expr | ast.Assert) and getattr(node, "name", None) != entry
    )
    item = {
        "task_id": row["task_id"],
        "prompt": prompt,
        "entry_point": entry,
        "tests": split_tests(row["test"], entry),
        "setup": setup,
    }
    solution = row.get("canonical_solution")
    if isinstance(solution, str) and solution.strip():
        item["solution"] = solution if "test_list" in row else row["prompt"] + solution
    return item


def check_texts(row: dict, fields: str) -> None:
    for name in fields.split():
        if row.get(name) is None:
            raise ValueError(f"field {name!r} is missing")
        if not isinstance(row[name], str) or not row[name].strip():
            raise ValueError(f"field {name!r} has to be a text, not {row[name]!r:.60}")


def _parsed(source: str) -> ast.Module | None:
    try:
        return ast.parse(source)
    except REFUSED:
        return None


def signature(prompt: str, entry: str) -> str:
    """The line `def entry(...) -> ...:` of a prompt, read from its syntax tree."""
    tree = _parsed(prompt)
    if tree is None:
        raise ValueError("the prompt has to be Python: a signature and a docstring")
    found = [n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == entry]
    if not found:
        raise ValueError(f"the prompt does not define a function {entry!r}, the entry_point")
    function = copy.copy(found[-1])
    function.body, function.decorator_list = [ast.Pass()], []
    return ast.unparse(function).removesuffix("\n    pass")


def _from_mbpp(row: dict) -> dict:
    """A row of MBPP in HumanEval's fields; the entry point is the function that its tests call."""
    text, code, tests = row.get("prompt", row.get("text")), row.get("code"), row["test_list"]
    check_texts({"prompt": text, "code": code}, "prompt code")
    if not isinstance(tests, list) or not all(isinstance(test, str) for test in tests):
        raise ValueError("field 'test_list' has to be a list of texts")
    imports = row.get("test_imports") or [row.get("test_setup_code") or ""]
    tree, body = _parsed(code), _parsed("\n".join(tests))
    if tree is None or body is None:
        raise ValueError("fields 'code' and 'test_list' have to be Python")
    called = _names(body)
    functions = [n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name in called]
    if not functions:
        raise ValueError("field 'code' does not define the function that test_list calls")
    stub = copy.copy(functions[-1])
    rest = [n for n in tree.body if n is not functions[-1]]
    stub.body, stub.decorator_list = [ast.Expr(ast.Constant(text.strip()))], []
    given = _carried(rest, called, {stub.name})  # a class that the tests use, for example
    check = ast.parse("def check(candidate): pass").body[0]
    check.body = body.body
    return row | {
        "prompt": "\n".join(ast.unparse(node) for node in [*given, stub]) + "\n",
        "entry_point": stub.name,
        "test": "\n".join([*imports, ast.unparse(check)]),
        "canonical_solution": code,
    }


def split_tests(source: str, entry: str) -> list[str]:
    """The tests of a function check(candidate): self-contained statements that call `entry`.

    Every statement of its body that asserts something is a test, a loop or a block as a whole. It
    carries the plain statements before it, inside check and outside, that share a name with it or
    with what it carries. Messages of plain assertions are dropped. So is a test that never calls
    the candidate, such as `assert True`: it would pass with any program, one that raises too.
    """
    tree = _parsed(source)
    found = [n for n in tree.body if getattr(n, "name", None) == "check"] if tree else []
    if not found or not isinstance(found[-1], ast.FunctionDef) or len(found[-1].args.args) != 1:
        raise ValueError("field 'test' has to be Python that defines check(candidate)")
    check, candidate = found[-1], found[-1].args.args[0].arg
    outside = [n for n in tree.body if n is not check and "check" not in _names(n)]
    functions = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n is not check]
    asserting = {n.name for n in functions if _asserts(n)}
    tests, plain, given = [], [], {candidate, entry}
    for statement in check.body:
        names = _names(statement)
        defines = isinstance(statement, ast.FunctionDef | ast.ClassDef)
        if defines or not (_asserts(statement) or names & asserting):
            plain.append(statement)
            continue
        inside = _carried(plain, names, given)
        before = _carried(outside, names.union(*map(_names, inside)), given)
        if given & names.union(*map(_names, [*before, *inside])):
            tests.append(_test(candidate, entry, before, [*inside, statement]))
    if not tests:
        raise ValueError(f"no assertion of check({candidate}) calls {entry}")
    return tests


def _carried(plain: list[ast.stmt], names: set[str], given: set[str]) -> list[ast.stmt]:
    """The statements that share a name with `names` or with a later one that is carried, in their
    order. given: names that do not count."""
    kept, wanted = [], names - given
    for node in reversed(plain):
        if (own := _names(node)) & wanted:
            kept.append(node)
            wanted |= own - given
    return kept[::-1]


def _names(node: ast.AST) -> set[str]:
    """All names that stand in a node, whether it reads or binds them."""
    names = set()
    for part in ast.walk(node):
        match part:
            case ast.Name(id=name) | ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                names.add(name)
            case ast.alias():
                names.add((part.asname or part.name).partition(".")[0])
    return names


def _asserts(node: ast.AST) -> bool:
    """Whether a statement asserts something itself: assert, raise, or a call of assert_equal..."""
    calls = (part.func for part in ast.walk(node) if isinstance(part, ast.Call))
    return any(isinstance(part, ast.Assert | ast.Raise) for part in ast.walk(node)) or any(
        ast.unparse(call).rpartition(".")[2].startswith("assert") for call in calls
    )


def _test(candidate: str, entry: str, before: list[ast.stmt], body: list[ast.stmt]) -> str:
    """The text of one test: a plain assertion where that is all, else a function that is called."""
    if len(body) == 1 and not before and isinstance(body[0], ast.Assert):
        asserted = copy.deepcopy(body[0].test)
        names = [node for node in ast.walk(asserted) if isinstance(node, ast.Name)]
        own = {node.id for node in names if not isinstance(node.ctx, ast.Load)}
        own |= {node.arg for node in ast.walk(asserted) if isinstance(node, ast.arg)}
        if not own & {candidate, entry}:  # which a lambda or a comprehension may bind
            for node in names:
                node.id = entry if node.id == candidate else node.id
            return ast.unparse(ast.Assert(asserted, None))
    function = ast.parse(f"def _check({candidate}): pass").body[0]
    function.body = body
    return "\n".join(ast.unparse(node) for node in [*before, function]) + f"\n_check({entry})"
