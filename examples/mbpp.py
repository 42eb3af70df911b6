"""MBPP, short problems with a text and three assertions each.

python train.py @recipes/humaneval.args --task examples/mbpp.py:MBPP
"""

import ast
import functools
from typing import ClassVar

from programs.extraction import names_in
from programs.items import carried, check_texts, code_item, functions, parsed, read_items, stub
from programs.sandbox.parsing import syntax_tree
from tasks import HumanEval


class MBPP(HumanEval):
    """The sanitized MBPP of google-research-datasets: 427 problems, with reference solutions.

    Its rows (prompt, code, test_list) are brought to HumanEval's form. The authors' own copy,
    OpenMLRL/MBPP, leaves out the parameters and has tests that nothing can pass. The hub's test
    split comes first, as in their copy. train and dev are the authors' rows, and test is the rest
    of that split.
    """

    rows = 427
    hub = ("google-research-datasets/mbpp", "sanitized", "test+train+validation+prompt")
    ranges: ClassVar = {"train": (15, 65), "dev": (0, 15), "test": (65, 257)}

    @functools.cached_property
    def problems(self) -> list[dict]:
        return read_items(self.data, self.hub, mbpp_item)


def mbpp_item(row: dict) -> dict:
    """Return the code item of a row of MBPP. Raise ValueError, which says what is wrong.

    The entry point is the function that the tests call. Its text becomes the stub's docstring.
    """
    row = {"prompt": row.get("text")} | row
    check_texts(row, "prompt code")
    tests = row.get("test_list")
    imports = row.get("test_imports") or [row.get("test_setup_code") or ""]
    for texts in (tests, imports):
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            raise ValueError("fields 'test_list' and 'test_imports' have to be lists of texts")
    code_tree = parsed(row["code"])
    tests_tree = parsed("\n".join(tests))
    if code_tree is None or tests_tree is None:
        raise ValueError("fields 'code' and 'test_list' have to be Python")
    function = called_function(code_tree, tests_tree)
    others = [node for node in code_tree.body if node is not function]
    # It may be a class that the tests use, for example.
    needed = carried(others, names_in(tests_tree), {function.name})
    described = stub(function, ast.Expr(ast.Constant(row["prompt"].strip())))
    prompt = "\n".join(ast.unparse(node) for node in [*needed, described])

    row |= {
        "prompt": prompt + "\n",
        "entry_point": function.name,
        "test": "\n".join([*imports, as_check(tests_tree)]),
    }
    return code_item(row) | {"solution": row["code"]}


def called_function(solution: ast.Module, tests: ast.Module) -> ast.FunctionDef:
    """Return the last function of the solution that the tests call."""
    called = names_in(tests)
    tested = [node for node in functions(solution) if node.name in called]
    if not tested:
        raise ValueError("the tests call no function of the solution")
    return tested[-1]


def as_check(tests: ast.Module) -> str:
    """Return the text of a function check(candidate) with these tests."""
    [check] = syntax_tree("def check(candidate): pass").body
    check.body = tests.body
    return ast.unparse(check)
