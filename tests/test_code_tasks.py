"""Code tasks: reading rows, making items of them, what the agents are asked.

python -m pytest tests/test_code_tasks.py
"""

import textwrap
from pathlib import Path

import datasets
import pandas
import pytest
from blocks import blocks

import tasks
import train
from programs.items import code_item, signature, split_tests
from tasks import CoopHumanEval, HumanEval

RECIPES = sorted((Path(train.__file__).parent / "recipes").glob("*humaneval*.args"))

# Rows in the shapes that HumanEval has: a plain one; a helper and an import in the prompt, a loop
# with a local name that hides a built-in; a test in several lines beside one that says nothing.
ROWS = [
    {
        "task_id": "own/0",
        "prompt": 'def double(x):\n    """Twice x."""\n',
        "entry_point": "double",
        "canonical_solution": "    return 2 * x\n",
        "test": "META = {}\n\ndef check(candidate):\n    assert candidate(2) == 4\n"
        "    assert candidate(-1) == -2, 'wrong sign'\n",
    },
    {
        "task_id": "own/1",
        "prompt": "from typing import List\nimport math\n\n\ndef encode(s: str):\n"
        '    """Reversed."""\n    return s[::-1]\n\n\ndef decode(s: str) -> str:\n'
        '    """Undo encode."""\n',
        "entry_point": "decode",
        "canonical_solution": "    return encode(s)\n",
        "test": "def check(candidate):\n    import random\n    letters = 'abc'\n"
        "    for _ in range(3):\n        str = random.choice(letters) + 'x'\n"
        "        assert candidate(encode(str)) == str\n",
    },
    {
        "task_id": "own/2",
        "prompt": 'def groups(s):\n    """The words of s."""\n',
        "entry_point": "groups",
        "canonical_solution": "    return s.split()\n",
        "test": "def check(candidate):\n    assert candidate('a bc') == [\n        'a',\n"
        "        'bc',\n    ]\n    assert True, 'an easy one'\n",
    },
]


def write(path, rows):
    """The rows in the format that the file's name asks for; pandas compresses a .gz."""
    table = pandas.DataFrame(rows)
    match path.name.split(".")[1]:
        case "parquet":
            table.to_parquet(path)
        case "csv":
            table.to_csv(path, index=False)
        case kind:
            table.to_json(path, orient="records", lines=kind == "jsonl")
    return path


@pytest.mark.parametrize("name", ["a.json", "a.jsonl", "a.jsonl.gz", "a.csv.gz", "a.parquet"])
def test_every_format_gives_the_same_items(tmp_path, name):
    path = write(tmp_path / name, ROWS)
    assert HumanEval(str(path)).problems == [code_item(row) for row in ROWS]


def test_the_hub_is_read_through_datasets(tmp_path, monkeypatch):
    """A folder with the hub's layout stands in for the hub; so does a name that is not there."""
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    folder = tmp_path / "openai_humaneval"
    folder.mkdir()
    write(folder / "test.jsonl", ROWS)
    monkeypatch.setattr(HumanEval, "hub", (str(folder), None, "test"))
    assert HumanEval().problems == [code_item(row) for row in ROWS]
    monkeypatch.setattr(HumanEval, "hub", (str(tmp_path / "nowhere"), None, "test"))
    with pytest.raises(ValueError, match=r"nowhere from the hub .* --data FILE"):
        HumanEval().items("train")


@pytest.mark.parametrize(
    "task, count, borders",  # of train, dev and test
    [
        (HumanEval, 164, "33:133 0:32 133:164"),
        (CoopHumanEval, 82, "0:50 50:66 66:82"),
        (HumanEval, 83, "0:51 51:67 67:83"),  # by count: 16 is a fifth of 83
        (HumanEval, 3, "0:1 1:2 2:3"),
    ],
)
def test_splits_are_the_papers_rows_or_fifths(task, count, borders, monkeypatch):
    monkeypatch.setattr(tasks, "passable", lambda items, split: items)
    source = task()
    source.problems = [*range(count)]
    splits = [source.items(split) for split in ("train", "dev", "test")]
    assert " ".join(f"{rows[0]}:{rows[-1] + 1}" for rows in splits) == borders
    assert all(rows == [*range(rows[0], rows[-1] + 1)] for rows in splits)


# The body of check(candidate), and its tests; f is the entry point.
SPLIT = '''
=== what calls nothing is no test
assert True
assert abs(1) == 1, 'x'
assert candidate(1)
---
assert f(1)
=== what a test needs goes with it
x = 3
z = x + 1
assert candidate(z)
assert candidate(0)
---
x = 3
z = x + 1
assert candidate(z)
---
assert f(0)
=== a loop
n = 0
for i in range(3):
    n += candidate(i)
assert n == 3
assert candidate(1)
---
n = 0
for i in range(3):
    n += candidate(i)
assert n == 3
---
assert f(1)
=== a function of check
def same(a, b):
    assert a == b
same(candidate(1), 2)
same(candidate(2), 3)
---
def same(a, b):
    assert a == b
same(candidate(1), 2)
---
def same(a, b):
    assert a == b
same(candidate(2), 3)
=== a try
try:
    candidate(0)
    assert False
except ValueError:
    pass
---
try:
    candidate(0)
    assert False
except ValueError:
    pass
=== a name that two tests read
r = candidate(1)
assert r == 1
assert r < 2
---
r = candidate(1)
assert r == 1
---
r = candidate(1)
assert r < 2
=== a text and a name
"""About this."""
print
assert candidate(1)
---
assert f(1)
=== a local name that is the function's
assert [candidate(f) for f in [1]]
---
assert [candidate(f) for f in [1]]
=== a candidate of its own
assert f(lambda candidate: candidate)
---
assert f(lambda candidate: candidate)
'''


@pytest.mark.parametrize("name, programs", blocks(SPLIT))
def test_statements_that_assert_become_tests(name, programs):
    body, *wanted = programs.strip().split("\n---\n")
    tests = split_tests(f"def check(candidate):\n{textwrap.indent(body, '    ')}", "f")
    for number, test in enumerate(tests):
        if test.startswith("def _check(candidate):\n"):
            inner = test.removeprefix("def _check(candidate):\n").removesuffix("\n_check(f)")
            tests[number] = textwrap.dedent(inner).strip()
    assert tests == wanted, name


def test_what_stands_outside_check_rides_along_where_it_is_needed():
    source = (
        "from numpy import *\nimport numpy.testing\nCASES = [(1, 2)]\nOTHER = 3\n"
        "def close(a, b):\n    numpy.testing.assert_allclose(a, b)\n"
        "def check(candidate):\n    close(candidate(1), 2)\n"
        "    for a, b in CASES:\n        assert candidate(a) == b\n"
        "check(f)\n"
    )
    first, second = split_tests(source, "f")
    assert "from numpy import *\nimport numpy.testing" in first
    assert "def close" in first
    assert "CASES" not in first
    assert "CASES = [(1, 2)]" in second
    assert "OTHER" not in second
    assert "\ncheck(f)" not in first + second


def test_a_row_whose_imports_the_sandbox_lacks_is_refused():
    """Otherwise every program would fail it, in silence."""
    test = "import numpy, os.path\n" + ROWS[0]["test"]
    assert code_item(ROWS[0] | {"test": test})  # no test needs it
    test = test.replace("assert", "assert numpy.allclose(2, 2) and")
    with pytest.raises(ValueError, match=r"cannot be given .*: No module named 'numpy'"):
        code_item(ROWS[0] | {"test": test})


UNPASSABLE = {  # rows whose solutions are right, and whose tests nothing can pass
    "in place": ("    xs.sort()\n", "xs = [2, 1]\n    candidate(xs)\n    assert xs == [1, 2]"),
    "a function": ("    return len\n", "assert candidate([]) == len"),
    "stdout": ("    print(1)\n", "assert candidate([]) == '1'"),
    "a package": ("    import asyncio\n    return 1\n", "assert candidate([]) == 1"),
}


def test_rows_that_nothing_can_pass_are_named_and_not_trained_on(tmp_path, capsys):
    rows = []
    for solution, test in UNPASSABLE.values():
        row = {"canonical_solution": solution, "entry_point": "f", "prompt": "def f(xs):\n"}
        rows.append(row | {"test": f"def check(candidate):\n    {test}"})
    rows = [
        row | {"task_id": f"own/{i}"} for i, row in enumerate([*rows, *ROWS, *ROWS[:2], rows[0]])
    ]
    task = HumanEval(str(write(tmp_path / "a.jsonl", rows)))
    for split, ids, said in (
        ("train", ["own/4", "own/5"], "and are left out: own/0, own/1, own/2, own/3\n"),
        ("test", ["own/8", "own/9"], "own solution: own/9\n"),
    ):
        assert [item["task_id"] for item in task.items(split)] == ids
        assert capsys.readouterr().err.endswith(said)


def test_an_answer_begins_with_the_agents_own_def_line():
    item = code_item(ROWS[1])
    task = HumanEval(num_agents=3)
    prompts = [task.observe(agent, item, []) for agent in range(3)]
    for text in prompts:
        assert item["prompt"].strip() in text
        assert not any(test in text for test in item["tests"])
    line = signature(item["prompt"], item["entry_point"])
    begun = ["def aux(", "def aux2(", f"from partner import aux, aux2\n\n\n{line}\n"]
    assert [task.begin(agent, item) for agent in range(3)] == [f"```python\n{b}" for b in begun]
    assert HumanEval(num_agents=1).begin(0, item) == "```python\n"
    again = task.observe(0, item, [("def aux(x): ...", "1 of 3 tests")])
    assert again.startswith(prompts[0])
    assert "def aux(x): ...\n```\n\n1 of 3 tests\n\n" in again


def test_a_fence_in_a_docstring_does_not_end_an_answer():
    answer = 'x):\n    """So:\n    ```\n    aux(2)\n    ```\n    """\n    return x'
    text, _, rest = f"{answer}\n```\nDone.".partition(HumanEval.stop)
    assert (text, rest) == (answer, "\nDone.")


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_recipes_are_the_papers(path):
    args = train.parse([f"@{path}"])
    flags = (args.joint, args.num_generations, args.num_agents, args.gamma, args.reward, args.lr)
    assert " ".join(map(str, flags)) == "aligned 4 2 1.0 code_paper [1e-05, 1e-05]"
    assert (args.turns == 2) == ("2turns" in path.stem) == bool(args.feedback)


def test_ask_tells_a_question_from_a_signature():
    signature = 'import math\n\ndef drop(xs):\n    """Drop the undef values."""\n'
    question = "Drop the undef values of xs, then def ine the rest."
    for text, entry in ((question, "solve"), (signature, "drop")):
        item = HumanEval().ask(text)
        assert item["entry_point"] == entry
        assert text in item["prompt"]
