"""ClassEval: how methods of several agents become one class, what it earns, which rows are kept.

python -m pytest tests/examples/test_classeval.py
"""

import textwrap

import pytest
from helpers import total, write_lines

from examples.classeval.classes import class_item, class_source, methods_of, scheme, written
from examples.classeval.classeval import ClassEval, classeval, solution_of

METHODS = {  # of a class that keeps what was sold; no test needs the last one
    "add": "def add(self, amount):\n    if amount < 0:\n        raise ValueError('negative')\n"
    "    self.total += amount\n    self.note('add')\n    return self.total",
    "note": "def note(self, word):\n    self.log.append(word)",
    "in_cents": "def in_cents(amount):\n    return round(amount * 100)",
    "summary": "def summary(self):\n    return f'{self.in_cents(self.total)} {len(self.log)}'",
    "idle": "def idle(self):\n    return 'idle'",
}
HEAD = "class Till:\n    def __init__(self, start=0):\n        self.total, self.log = start, []\n\n"
BODIES = METHODS | {"in_cents": "@staticmethod\n" + METHODS["in_cents"]}
ROW = {
    "task_id": "own/0",
    "class_name": "Till",
    "import_statement": ["import math"],
    "skeleton": HEAD + "    def add(self, amount):\n        '''Sell.'''\n",
    "solution_code": "import math\n" + HEAD + textwrap.indent("\n\n".join(BODIES.values()), "    "),
    "methods_info": [{"method_name": name} for name in METHODS],
    "test": """
import unittest

class TillTestAdd(unittest.TestCase):
    def setUp(self):
        self.till = Till(1)

    def test_add(self):
        self.assertEqual(self.till.add(2), 3)

    def test_add_negative(self):
        with self.assertRaises(ValueError):
            self.till.add(-1)

class TillTest(unittest.TestCase):
    def test_note(self):
        till = Till()
        till.note("a")
        self.assertEqual(till.log, ["a"])

    def test_note_says_nothing(self):
        self.assertIsNone(Till().note("a"))

    def test_cents(self):
        self.assertEqual(Till.in_cents(1.5), 150)

    def test_whole(self):
        till = Till()
        till.total, till.log = 7, ["b", "c"]
        till.note("d")
        self.assertEqual(till.summary(), "700 3")
""",
}
ITEM = class_item(ROW)


def response(names):
    """The methods of these names, as an agent writes them."""
    return textwrap.indent("\n\n".join(METHODS[name] for name in names.split()), "    ")


ADD_NOTE = response("add note")


@pytest.mark.parametrize(
    "text",
    [
        ADD_NOTE,
        ADD_NOTE + "\n\n    def summary(self):\n        if self.",
        f"```python\ndef twice(x):\n    return 2 * x\n\nclass Till:\n{ADD_NOTE}\n```",
        ADD_NOTE + "\n\ntill = Till()\ndef test():\n    pass\nprint(till",
        f"Here is it:\n```python\n{HEAD}{ADD_NOTE}\n```\nIt adds.",
        ADD_NOTE + "\n\n    def idle(self):\n        'Later.'\n        ...",
        ADD_NOTE + "\n\n    def idle(self):\n        break",
    ],
)
def test_methods_are_found_wherever_they_stand_and_what_is_cut_off_or_empty_is_not(text):
    methods = written(ITEM, text)
    sources = [method.source for name, method in methods.items() if name != "test"]
    assert sources == [method.source for method in methods_of(ADD_NOTE)]


def made(text):
    exec(text, space := {})
    return space["Till"]


def test_a_later_agent_wins_and_what_is_missing_stays_empty():
    other = "    def note(self, word):\n        self.log.append(word.upper())"
    till = made(class_source(ITEM, [written(ITEM, text) for text in (ADD_NOTE, other)]))()
    assert (till.add(2), till.log, till.summary(), till.in_cents(1)) == (2, ["ADD"], None, None)


PARTS = ("structure", "syntax", "tests", "cooperation")
# The methods of two agents, what the division is called, and the parts that it earns. In the fourth
# row, three of the five tests that the skeleton fails pass: "note" alone passes one and "add" two.
DIVISIONS = """
add note | in_cents summary idle | halves | 1 0.5 1 1.5
add in_cents idle | note summary | alternation | 1 0.5 1 1.5
add note idle | in_cents summary | mixed | 1 0.5 1 1.5
note summary idle | add | halves | 1 0.5 0.6 0.1333
add note |  | all by one | 0.5 0.25 0.6 0
add note | note summary | overlap | 1 0.4324 0.6 0
add note | note add note in_cents summary idle | overlap | 0.5 0.2192 1 0
add note in_cents summary idle | add note in_cents summary idle | overlap | 0.5 0.25 1 0
"""


@pytest.mark.parametrize("row", DIVISIONS.strip().split("\n"))
def test_what_a_division_is_called_and_earns(row):
    """The later author of a method is paid for it. A partner's own version makes it needless."""
    first, second, name, parts = row.split(" | ")
    responses = [response(first), response(second)]
    scores = classeval(ITEM, responses)
    assert scheme(ITEM, responses) == name
    assert " ".join(f"{scores[part]:.4g}" for part in PARTS) == parts
    assert scores["metric/coop"] == (scores["cooperation"] == 1.5)


def write(path, *changes):
    write_lines(path, [ROW | {"task_id": f"own/{n}"} | change for n, change in enumerate(changes)])
    return str(path)


@pytest.mark.parametrize("agents", [1, 2, 4])
def test_a_class_is_kept_where_its_solution_has_full_marks(agents, tmp_path, capsys):
    bad = {"solution_code": ROW["solution_code"].replace("100", "10")}
    away = {"import_statement": ["import nowhere"]}
    task = ClassEval(write(tmp_path / "a.jsonl", *[{}] * 10, away, *[{}] * 7, bad, {}), agents)
    for split, numbers in (("train", range(10)), ("dev", [11]), ("test", [*range(12, 18), 19])):
        assert [item["task_id"] for item in task.items(split)] == [f"own/{n}" for n in numbers]
    (said,) = capsys.readouterr().err.splitlines()
    assert "No module named 'nowhere': own/10" in said
    assert "fails its tests in the sandbox: own/18" in said
    assert total(classeval(ITEM, solution_of(ITEM, agents))) == classeval.maximum == 4


@pytest.mark.parametrize(
    "agents, reason", [(5, "a part no test needs"), (6, "fewer methods than agents")]
)
def test_classes_that_do_not_suit_the_team_are_named(tmp_path, agents, reason):
    data = write(tmp_path / "a.jsonl", {}, {})
    with pytest.raises(ValueError, match=f"0 of 2 .* {reason}: own/0, own/1"):
        ClassEval(data, agents).items("train")


def test_all_see_the_skeleton_and_nobody_is_told_who_writes_what():
    task = ClassEval()
    prompt = task.observe(0, ITEM, [])
    assert prompt == task.observe(1, ITEM, [])
    assert ITEM["skeleton"] in prompt
    assert "round(" not in prompt
    assert "programmers" not in ClassEval(num_agents=1).observe(0, ITEM, [])
    answer = task.begin(1, ITEM) + response("in_cents")
    assert answer.startswith("part2.py:\n```python\nclass Till:\n")
    assert task.observe(0, ITEM, [(answer, "")]).startswith(f"{prompt}\n\n{answer}\n```")
    scores = [classeval(ITEM, [text, ADD_NOTE]) for text in (answer, response("in_cents"))]
    assert scores[0] == scores[1]
