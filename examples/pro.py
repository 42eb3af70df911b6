"""Problems that have two parts by themselves (arXiv 2412.21199), and the reward `code_pass`.

    python train.py @recipes/coder.args --model NAME
    python eval.py --run RUN --task examples/pro.py:HumanEvalPro

1. `MBPPPro` and `HumanEvalPro`, the tasks.
2. `pro_item` makes an item of a row.
3. `code_pass`, a reward that pays a wrong program at most 0.1.
"""

import ast
import functools
import random
import re
from typing import ClassVar

from examples.mbpp import as_check, called_function
from policies import Mistake
from programs.extraction import part_names
from programs.items import (
    check_imports,
    check_texts,
    functions,
    parsed,
    passable,
    read_items,
    split_tests,
    stub,
    surroundings,
    with_body,
)
from programs.teams import contributions, team_parts, used_helpers
from rewards import METRICS, Scores, division, levels_of, share_kept
from tasks import ANSWER, HumanEval

TEAM = "Two programmers write one Python module, one function each. Neither sees the other's code."
SINGLE = "Write a Python module with these two functions. The second one calls the first."


class MBPPPro(HumanEval):
    """CodeEval-Pro/mbpp-pro (arXiv 2412.21199): 378 problems that have two parts by themselves.

    A row has a base problem and a harder one, whose solution calls the base function. Agent 0
    writes the base function, agent 1 the harder one, and the tests call the harder one. A single
    agent writes both. A split is part of one fixed permutation: 258 problems for training, 40 for
    development and 80 for tests. The base problems are MBPP's.
    """

    reward = "examples.pro.code_pass"
    most_agents = 2
    rows = 378
    hub = ("CodeEval-Pro/mbpp-pro", None, "train")
    ranges: ClassVar = {"train": (0, 258), "dev": (258, 298), "test": (298, 378)}

    @functools.cached_property
    def problems(self) -> list[dict]:
        """Return all items, in the order of the splits."""
        items = read_items(self.data, self.hub, pro_item)
        if len(items) == self.rows:
            random.Random(0).shuffle(items)
        return items

    def question(self, agent: int, item: dict) -> str:
        """Return both problems, and which of them is the agent's."""
        helper, entry = part_names(item, self.num_agents)
        base, harder = item["statements"]
        if self.num_agents == 1:
            answer = ANSWER.format(names="both complete functions")
            return f"{SINGLE}\n\n{base}\n\n\n{harder}\n\n{answer}"
        if agent == 0:
            name = helper
            partner = f"Your partner's function, which calls yours:\n\n{harder}"
            statement = base
            call = ""
        else:
            name = entry
            partner = f"Your partner's function, which yours calls:\n\n{base}"
            statement = harder
            call = f" Call `{helper}` and do not define it."
        answer = ANSWER.format(names=f"the function `{name}` alone") + call
        return f"{TEAM}\n\n{partner}\n\nYour function:\n\n{statement}\n\n{answer}"

    def ask(self, text: str) -> dict:
        fields = "helpers, statements, entry_point, prompt and tests"
        raise Mistake(f"ask of this task takes an item as JSON, with {fields}")


class HumanEvalPro(MBPPPro):
    """CodeEval-Pro/humaneval-pro: 164 such problems, for tests only. Train on MBPPPro."""

    hub = ("CodeEval-Pro/humaneval-pro", None, "train")

    def items(self, split: str) -> list[dict]:
        if split != "test":
            raise Mistake("task HumanEvalPro has test problems only: train on MBPPPro")
        return passable(self.problems, split)


def pro_item(row: dict) -> dict:
    """Return the code item of a row of HumanEval Pro or MBPP Pro (arXiv 2412.21199).

    A row has a base problem and a harder one, whose solution calls the base function. `helpers`
    holds the name of the base function, and `statements` the text of both problems. A statement is
    a comment and the function's first lines. Raise ValueError, which says what is wrong.
    """
    if "id" in row:
        row = row | {"id": str(row["id"])}  # a number in MBPP Pro
    check_texts(row, "id raw_problem raw_solution new_problem new_solution test_code")
    base = row["raw_problem"] + row["raw_solution"]
    harder = row["new_problem"] + row["new_solution"]
    tests = parsed(row["test_code"])
    harder_tree = parsed(harder)
    statement = with_body(row["raw_problem"].strip("\n"))
    problem = parsed(statement)
    if not (parsed(base) and harder_tree and tests and functions(problem)):
        raise ValueError("the problems with their solutions, and the tests, have to be Python")
    entry = called_function(harder_tree, tests)
    helper = functions(problem)[-1].name
    if helper == entry.name:  # two functions of one program need two names
        helper = f"base_{helper}"
        statement = re.sub(rf"\b{entry.name}\b", helper, statement)
        base = re.sub(rf"\b{entry.name}\b", helper, base)
    statements = [statement, _harder_statement(harder, entry, row)]
    imports = [node for node in harder_tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    setup = [surroundings(statement, helper), *map(ast.unparse, imports)]
    item = {
        "task_id": row["id"],
        "prompt": "\n\n".join(statements),
        "statements": statements,
        "helpers": [helper],
        "entry_point": entry.name,
        "tests": split_tests(as_check(tests), entry.name),
        "setup": "\n".join(setup),
        "solution": f"{base}\n\n{harder}",
    }
    check_imports(item)
    return item


def _harder_statement(source: str, entry: ast.FunctionDef, row: dict) -> str:
    """Return the comments above a function, and its first line.

    Its docstring belongs to the statement if the problem has it, and else to the solution.
    """
    above = source.split("\n")[: entry.lineno - 1]
    comments = [line for line in above if line.startswith("#")]
    body = ast.Expr(ast.Constant(...))
    document = ast.get_docstring(entry, clean=False)
    if document and document[:40] in row["new_problem"]:
        body = entry.body[0]
    return "\n".join([*comments, ast.unparse(stub(entry, body))])


FORM = 0.05  # both functions are defined, and all of it compiles
TEXT_IS_CODE = 0.05  # the responses are code as a whole


def code_pass(item: dict, responses: list[str]) -> Scores:
    """Return `1 + c / 2` for a program that passes all tests, plus at most 0.1 for form and text.

    `c` is 1 if the team fails without the part of each agent, as in `code`. So a wrong program,
    which earns 0.1 at most, never earns more than a right one.
    """
    team = team_parts(item, responses)
    levels = levels_of(item, team, lambda part: part.returns)
    scores = {name: levels[name] for name in METRICS}
    scores |= {"form": 0.0, "text": 0.0, "tests": levels["metric/pass"], "cooperation": 0.0}
    if levels["syntax"]:
        scores["form"] = FORM * levels["structure"]
        scores["text"] = TEXT_IS_CODE * share_kept(team, responses)
        scores["metric/aux_called"] = len(used_helpers(team)) / (len(team) - 1)
    if scores["tests"]:
        c, metrics = division(contributions(item, responses, team, 1.0))
        scores |= metrics
        scores["cooperation"] = c / 2
    return scores


code_pass.maximum = FORM + TEXT_IS_CODE + 1.5
