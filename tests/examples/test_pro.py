"""Problems of two parts: their rows, prompts and splits, and what `code_pass` pays.

python -m pytest tests/examples/test_pro.py
"""

import itertools
import warnings

import pytest
from code_pairs import HACKS, SCHEMES
from helpers import total, write_lines

import rewards
from examples.pro import HumanEvalPro, MBPPPro, code_pass, pro_item
from programs import teams

PAIRS = SCHEMES | HACKS
PRO_ROW = {
    "id": 3,
    "raw_problem": "# Square a number.\nimport math\ndef square(x):\n",
    "raw_solution": "    return x * x\n",
    "new_problem": "# Sum of squares.\nfrom typing import List\ndef squares(xs: List):\n",
    "new_solution": "    return sum(square(x) for x in xs)\n",
    "test_code": "assert squares([2, 3]) == 13\nwant = 1\nassert squares([1]) == want\n",
}
PRO = {  # what a row has in place of that
    "two parts": {},
    "the def line stands in the solution": {
        "raw_problem": "def half(x):\n    return x / 2\n\ndef square(x):\n",
        "new_problem": "# Sum of\n",
        "new_solution": "# squares.\ndef squares(xs):\n    return sum(map(square, xs))\n",
    },
    "the base function is written again": {
        "new_problem": "# Sum of squares.\ndef square(x):\n",
        "new_solution": "    return x * x\n\ndef squares(xs):\n    return sum(map(square, xs))\n",
    },
    "both have one name": {
        "raw_problem": "# Square a number.\ndef f(x):\n",
        "new_problem": "# Sum of squares.\ndef f(xs):\n",
        "new_solution": "    return sum(x * x for x in xs)\n",
        "test_code": "assert f([2, 3]) == 13\n",
    },
}


@pytest.mark.parametrize("name", PRO)
def test_a_pro_problem_has_two_functions(name):
    helper, entry = ("base_f", "f") if name == "both have one name" else ("square", "squares")
    item = pro_item(PRO_ROW | PRO[name])
    assert (item["helpers"], item["entry_point"]) == ([helper], entry)
    base, harder = item["statements"]
    assert f"def {helper}(" in base
    assert f"def {entry}(" in harder
    assert f"def {helper}(" not in harder
    assert "# squares." in harder or "# Sum of squares." in harder
    task = MBPPPro(num_agents=2)
    for text in item["statements"]:
        assert "return x * x" not in text, "a solution"
        for agent in range(2):
            assert text in task.observe(agent, item, [])
    assert task.begin(0, item) == f"```python\ndef {helper}(x):\n"
    assert task.begin(1, item).startswith(
        f"```python\nfrom partner import {helper}\n\n\ndef {entry}"
    )
    assert all(teams.verdict(item, [item["solution"]]).passed)


def test_nothing_is_printed_of_the_style_of_a_row():
    """Python warns of such a solution, from 3.12 on aloud."""
    solution = '    assert "\\w"\n    return x * x\n'
    with warnings.catch_warnings():
        warnings.filterwarnings("error", module="<unknown>")  # the file, where none is named
        item = pro_item(PRO_ROW | {"raw_solution": solution})
    assert "w" in item["solution"]


def test_a_pro_task_has_its_splits(tmp_path):
    rows = [PRO_ROW | {"id": number} for number in range(378)]
    write_lines(tmp_path / "a.jsonl", rows)
    task = MBPPPro(str(tmp_path / "a.jsonl"))
    splits = [[item["task_id"] for item in task.items(s)] for s in ("train", "dev", "test")]
    assert [len(ids) for ids in splits] == [258, 40, 80]
    assert splits[1][:4] == ["112", "338", "138", "8"], "the permutation is fixed"
    assert len(set(itertools.chain(*splits))) == 378
    write_lines(tmp_path / "b.jsonl", rows[:164])
    task = HumanEvalPro(str(tmp_path / "b.jsonl"))
    assert len(task.items("test")) == 164
    with pytest.raises(ValueError, match="train on MBPPPro"):
        task.items("train")


@pytest.mark.parametrize("name", PAIRS)
def test_code_pass_pays_no_wrong_program_more_than_a_right_one(name):
    item, helper, main_function, *_ = PAIRS[name]
    strict = rewards.code(item, [helper, main_function])
    scores = code_pass(item, [helper, main_function])
    assert scores["metric/pass"] == scores["tests"] == strict["metric/pass"]
    assert scores["cooperation"] == (0.5 * strict["metric/coop"] if scores["tests"] else 0.0)
    assert total(scores) <= code_pass.maximum + 1e-9
    assert (total(scores) >= 1) == bool(scores["tests"])


def test_an_import_of_a_partner_is_part_of_the_program():
    """The task begins the answer of main with it."""
    item, helper, main_function, *_ = PAIRS["strategy filter"]
    begun = "```python\nfrom partner import aux\n\n\n" + main_function
    full = code_pass.maximum
    assert total(code_pass(item, [helper, begun])) == pytest.approx(full)
    assert total(code_pass(item, [helper, begun + "print(1)\n"])) < full
