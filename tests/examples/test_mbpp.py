"""Rows of MBPP: python -m pytest tests/examples/test_mbpp.py"""

import pytest
from helpers import write_lines

from examples.mbpp import MBPP, mbpp_item
from programs import teams
from programs.items import signature

MBPP_ROW = {
    "task_id": 7,
    "prompt": "Write a function to scale a number.",
    "code": "import math\nUNIT = 2\ndef half(x):\n    return x / UNIT\ndef other(): pass\n"
    "def scale(p, k=1.5, *rest):\n    return half(2 * p) * k\n",
    "test_imports": ["import math"],
    "test_list": ["assert math.isclose(scale(half(4)), 3)", "assert scale(1, 2) == 2"],
}


def test_an_mbpp_row_becomes_an_item_with_its_signature():
    item = mbpp_item(MBPP_ROW)
    assert (item["task_id"], item["entry_point"]) == ("7", "scale")
    assert signature(item["prompt"], "scale") == "def scale(p, k=1.5, *rest):"
    assert '"""Write a function to scale a number."""' in item["prompt"]
    assert "def half" in item["setup"]  # a test calls it
    assert "other" not in item["setup"]
    assert len(item["tests"]) == 2
    assert all(teams.verdict(item, [item["solution"]]).passed)


def test_splits_are_the_authors_rows(tmp_path):
    write_lines(tmp_path / "a.jsonl", [MBPP_ROW | {"task_id": number} for number in range(427)])
    task = MBPP(str(tmp_path / "a.jsonl"))
    for split, first, end in (("train", 15, 65), ("dev", 0, 15), ("test", 65, 257)):
        ids = [item["task_id"] for item in task.items(split)]
        assert ids == [str(number) for number in range(first, end)]


@pytest.mark.parametrize(
    ("field", "value", "told"),
    [
        ("test_list", "assert 1", "a list of texts"),
        ("code", "def f(", "have to be Python"),
        ("test_list", ["assert 1"], "the tests call no function"),
    ],
)
def test_a_bad_row_says_what_is_wrong(field, value, told):
    with pytest.raises(ValueError, match=told):
        mbpp_item(MBPP_ROW | {field: value})
