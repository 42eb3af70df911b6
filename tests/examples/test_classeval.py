"""ClassEval: how methods of several agents become one class, what it earns, which rows are kept.

python -m pytest tests/test_classeval.py
"""

import itertools
import json
import random
import textwrap
import unittest

import pytest

import eval as evaluation
from examples.classeval.classes import class_item, class_source, methods_of, scheme, written
from examples.classeval.classeval import ClassEval, Small, classeval, solution_of, verdict

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


def response(*names: str) -> str:
    return textwrap.indent("\n\n".join(METHODS[name] for name in names), "    ")


def source(*responses: str) -> str:
    return class_source(ITEM, [written(ITEM, text) for text in responses])


@pytest.mark.parametrize(
    "text",
    [
        response("add", "note"),
        response("add", "note") + "\n\n    def summary(self):\n        if self.",
        response("add", "note") + "\n\ntill = Till()\ndef test():\n    pass\nprint(till",
        f"Here is it:\n```python\n{HEAD}{response('add', 'note')}\n```\nIt adds.",
        response("add", "note") + "\n\n    def idle(self):\n        '''Later.'''\n        ...",
        response("add", "note") + "\n\n    def idle(self):\n        break",
    ],
)
def test_methods_are_found_wherever_they_stand_and_what_is_cut_off_or_empty_is_not(text):
    assert [one.name for one in methods_of(text) if one.name not in ("__init__", "test")] == [
        "add",
        "note",
    ]
    assert [one.source for one in written(ITEM, text).values() if one.name != "test"] == [
        one.source for one in methods_of(response("add", "note"))
    ]


def made(text: str) -> type:
    exec(text, space := {})
    return space["Till"]


def test_a_later_agent_wins_and_what_is_missing_stays_empty():
    other = "    def note(self, word):\n        self.log.append(word.upper())"
    till = made(source(response("add", "note"), other))()
    assert (till.add(2), till.log, till.summary(), till.in_cents(1)) == (2, ["ADD"], None, None)
    assert source(response("add"), other) == source(other, response("add"))


@pytest.mark.parametrize(
    ("responses", "name"),
    [
        ([("add", "note"), ("in_cents", "summary", "idle")], "halves"),
        ([("add", "in_cents", "idle"), ("note", "summary")], "alternation"),
        ([("add", "note", "idle"), ("in_cents", "summary")], "mixed"),
        ([("add", "note"), ()], "all by one"),
        ([("add", "note"), ("note", "summary")], "overlap"),
    ],
)
def test_schemes(responses, name):
    assert scheme(ITEM, [response(*names) for names in responses]) == name


def share(names: set[str]) -> float:
    """The share of tests that pass with these methods: unittest on a class made by hand."""
    till = made(ROW["solution_code"])
    for name in METHODS.keys() - names:
        setattr(till, name, staticmethod(lambda *_: None))
    exec(ROW["test"], space := {"Till": till})
    cases = [kind for kind in space.values() if isinstance(kind, type) and kind is not till]
    found, suite = unittest.TestResult(), unittest.TestSuite()
    suite.addTests(map(unittest.defaultTestLoader.loadTestsFromTestCase, cases))
    suite.run(found)
    return 1 - len(found.failures + found.errors) / found.testsRun


def test_the_reward_of_every_division_by_brute_force():
    """Who writes each method: nobody, one of two agents, both."""
    least = share(set())
    assert 0 < least < share(set(METHODS)) == 1
    divisions = [*itertools.product(((), (0,), (1,), (0, 1)), repeat=len(METHODS))]
    for by in random.Random(0).sample(divisions, 150):
        has = [{n for n, some in zip(METHODS, by, strict=True) if a in some} for a in (0, 1)]
        found = classeval(ITEM, [response(*filter(names.__contains__, METHODS)) for names in has])
        union = has[0] | has[1]
        p, *q = ((share(names) - least) / (1 - least) for names in (union, has[1], has[0]))
        assert found["tests"] == pytest.approx(p)
        adds = [(p - without) / (1 - without) if without < p else 0 for without in q]
        pay = min(adds) * (1.5 if p == 1 else 1 - p)
        assert found["cooperation"] == pytest.approx(pay), by
        assert found["metric/pass"] == (p == 1)
        assert found["metric/coop"] == (p == 1 and min(adds) > 0)
        assert found["metric/coverage"] == len(union) / len(METHODS)
        assert found["metric/overlap"] == pytest.approx(
            len(has[0] & has[1]) / len(union) if union else 0
        )
        taken = [bool(has[0] - has[1]), bool(has[1])]
        assert found["structure"] == sum(taken) / 2


def test_what_is_thrown_away_costs_syntax():
    halves = [response("add", "note"), response("in_cents", "summary", "idle")]
    assert classeval(ITEM, halves)["syntax"] == 0.5
    twice = classeval(ITEM, [response("add", "note"), response("note", *METHODS)])
    assert twice["syntax"] < 0.3  # what a partner wrote again
    assert classeval(ITEM, [response(*METHODS)] * 2)["syntax"] == 0.25
    extra = "\n\n    def of_the_example(self):\n        return self.note"
    assert classeval(ITEM, [halves[0] + extra, halves[1]])["syntax"] < 0.5
    calls = "\n\n    def idle(self):\n        return self.of_the_example()"
    used = classeval(ITEM, [halves[0] + extra, response("in_cents", "summary") + calls])
    assert used["syntax"] == 0.5
    talk = classeval(ITEM, [halves[0] + "\n\n# " + "and so on " * 20, halves[1]])
    assert 0.25 < talk["syntax"] < 0.5
    assert sum(classeval(ITEM, ["I think", ""]).values()) == 0


def test_a_class_that_attacks_the_tests_earns_none_of_them():
    attack = (
        "    def add(self, amount):\n        import unittest\n"
        "        unittest.TestCase.assertEqual = lambda *_: None\n        return self\n\n"
        "    def __eq__(self, other):\n        return True\n\n"
        "    def __setattr__(self, name, value):\n        raise SystemExit\n"
    )
    assert verdict(ITEM, [written(ITEM, attack)]) == [False] * 6


def write(path, *changes: dict) -> str:
    rows = [ROW | {"task_id": f"own/{n}"} | change for n, change in enumerate(changes)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def test_a_class_is_kept_where_its_solution_has_full_marks_in_any_team(tmp_path, capsys):
    bad = {"solution_code": ROW["solution_code"].replace("100", "10")}
    away = {"import_statement": ["import nowhere"]}
    data = write(tmp_path / "a.jsonl", *[{}] * 10, away, *[{}] * 7, bad, {})
    for agents in (1, 2, 3, 4):
        task = ClassEval(data, agents)
        assert sum(len(task.items(split)) for split in ("train", "dev", "test")) == 18
        said = capsys.readouterr().err.splitlines()
        assert len(said) == 1
        assert "No module named 'nowhere': own/10" in said[0]
        assert "fails its tests in the sandbox: own/18" in said[0]
        for item in task.items("test"):
            parts = classeval(item, solution_of(item, agents))
            paid = sum(value for name, value in parts.items() if "/" not in name)
            assert paid == classeval.maximum == 4
    ids = [[item["task_id"] for item in ClassEval(data).items(split)] for split in ("dev", "test")]
    assert ids == [["own/11"], [f"own/{n}" for n in (12, 13, 14, 15, 16, 17, 19)]]
    with pytest.raises(ValueError, match=r"0 of 20 .* a part no test needs: own/0, own/1,"):
        ClassEval(data, 5).items("train")
    with pytest.raises(ValueError, match=r"0 of 20 .* too few or too many methods: own/0, own/1,"):
        Small(data).items("train")


def test_the_reference_of_the_table_has_full_marks(tmp_path, capsys):
    data = write(tmp_path / "a.jsonl", *[{}] * 4)
    evaluation.main(["--task", "classeval", "--data", data, "--method", "reference"])
    said = capsys.readouterr()
    (returns, *_) = [row.split() for row in said.out.splitlines() if row.startswith("reference ")]
    assert returns[1] == "1.000"
    assert "all by one" in said.out
    assert "task classeval: 4 of 4 classes are kept\n" in said.err


def test_all_see_the_skeleton_and_nobody_is_told_who_writes_what():
    first, second, third = (ClassEval(num_agents=3).observe(agent, ITEM, []) for agent in range(3))
    assert first.endswith("\n\npart1.py:\n```python\nclass Till:\n")
    assert first.replace("\npart1.py:\n", "\npart2.py:\n") == second
    assert second.replace("\npart2.py:\n", "\npart3.py:\n") == third
    assert ITEM["skeleton"] in first
    alone = ClassEval(num_agents=1).observe(0, ITEM, [])
    assert "programmers" not in alone
    assert "round(" not in first + alone
    task, written = ClassEval(), response("in_cents")
    again = "\n```\n\nRevised: part1.py:\n```python\nclass Till:\n"
    assert task.observe(0, ITEM, [(written, "")]) == task.observe(0, ITEM, []) + written + again
