"""Problems of two parts: their rows, prompts and splits, and what `code_pass` pays.

python -m pytest tests/examples/test_pro.py
"""

import itertools

import pytest
from code_pairs import SCHEMES
from helpers import total, write_lines

import rewards
from examples.pro import HumanEvalPro, MBPPPro, code_pass, pro_item
from programs import teams

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

pytestmark = pytest.mark.usefixtures("quick")


@pytest.mark.parametrize("name", PRO)
def test_a_pro_problem_has_two_functions(name):
    helper, entry = ("base_f", "f") if name == "both have one name" else ("square", "squares")
    item = pro_item(PRO_ROW | PRO[name])
    assert (item["helpers"], item["entry_point"]) == ([helper], entry)
    base, harder = item["statements"]
    assert f"def {helper}(" in base
    assert f"def {helper}(" not in harder
    assert f"squares.\ndef {entry}(" in harder
    task = MBPPPro(num_agents=2)
    for agent, text in itertools.product(range(2), item["statements"]):
        assert "return x * x" not in text, "a solution"
        assert text in task.observe(agent, item, [])
    assert task.begin(0, item) == f"```python\ndef {helper}(x):\n"
    begun = f"```python\nfrom partner import {helper}\n\n\ndef {entry}"
    assert task.begin(1, item).startswith(begun)
    assert all(teams.run(item, teams.team_parts(item, [item["solution"]])).passed)


def test_a_pro_task_has_its_splits(tmp_path):
    rows = [PRO_ROW | {"id": number} for number in range(378)]
    write_lines(tmp_path / "a.jsonl", rows)
    task = MBPPPro(str(tmp_path / "a.jsonl"))
    ids = [[item["task_id"] for item in task.items(split)] for split in ("train", "dev", "test")]
    assert list(map(len, ids)) == [258, 40, 80]
    assert ids[1][:4] == ["112", "338", "138", "8"], "the permutation is fixed"
    assert len(set().union(*ids)) == 378
    with pytest.raises(ValueError, match="train on MBPPPro"):
        HumanEvalPro().items("train")


@pytest.mark.parametrize("name", SCHEMES)
def test_code_pass_pays_no_wrong_program_more_than_a_right_one(name):
    item, *team = SCHEMES[name][:3]
    strict = rewards.code(item, team)
    scores = code_pass(item, team)
    passes = strict["metric/pass"]
    assert scores["metric/pass"] == scores["tests"] == passes
    assert scores["cooperation"] == 0.5 * strict["metric/coop"] * passes
    assert 0 <= total(scores) - scores["tests"] - scores["cooperation"] <= 0.1 + 1e-9
