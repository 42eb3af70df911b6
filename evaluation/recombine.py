"""--recombine: k answers of each agent make k^n programs, at the cost of k.

The agents answer alone, so any of their answers make a program together. One agent's functions are
recombined, too, as the control. Then a program is chosen without knowing its verdict. There are two
ways.

The first test may choose. A program that passes it is scored on the other tests.

The majority may choose. The programs run on the inputs of all tests, and the output on which most
of them agree wins. No expected value is used. A program that returns nothing has no vote.

Only answers of the first turn are recombined. Later ones belong to one joint response.
"""

import ast
import itertools
import statistics
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from evaluation.measures import mean_and_error
from programs.extraction import syntax_tree
from programs.teams import Verdict, run, team_parts

BOUND = ("sequential", "discussion", "reference")  # methods whose answers see each other
MEASURES = ("pass@1", "any", "majority", "rest", "first test")
COLUMNS = ["tokens", *MEASURES]
KINDS = {"samples": zip, "recombined": itertools.product}  # which answers make a program

# A test that fails with what the call returns, and passes if the call raises. A width of 1 sorts
# every set and dict, and all workers hash a text alike.
ASK = """
try:
    import pprint
    output = pprint.pformat({call}, width=1)
except BaseException:
    output = None
assert output is None, hash(output)
"""


def check(items: list[dict]) -> None:
    """Raise ValueError where answers are not programs."""
    if not all(item.get("entry_point") and item.get("tests") for item in items):
        raise ValueError("--recombine needs a task whose answers are functions with tests")


def usable(records: list[dict], items: list[dict]) -> list[dict]:
    """Return the records that can be recombined. Raise ValueError if there are none."""
    check(items)
    if any(record.get("run") for record in records):
        raise ValueError("--recombine is for one run of a team and one of an agent")
    records = [line for line in records if not line["greedy"] and line["method"] not in BOUND]
    if not records:
        raise ValueError("--recombine needs sampled answers of agents that do not see each other")
    return records


def questions(item: dict) -> list[str]:
    """Return a test for each call of the entry point in the item's tests."""
    calls = {}
    for test in item["tests"]:
        for node in ast.walk(syntax_tree(test)):
            match node:
                case ast.Call(func=ast.Name(id=name)) if name == item["entry_point"]:
                    calls[ast.unparse(node)] = None
    return [ASK.format(call=call) for call in calls]


def play(item: dict, samples: list[list[str]]) -> dict[tuple[int, ...], Verdict]:
    """Return the verdicts of all programs, by the number of the sample of each function.

    samples: joint responses. A verdict has the item's tests, and then its questions.
    """
    asked = item | {"tests": [*item["tests"], *questions(item)]}
    authors = list(range(len(samples[0])))
    if len(authors) == 1:  # one agent wrote both functions
        authors *= 2

    def verdict(joint: tuple[int, ...]) -> Verdict:
        texts = []
        for author, number in zip(authors, joint, strict=True):
            texts.append(samples[number][author])
        return run(asked, team_parts(asked, texts))

    numbers = range(len(samples))
    joints = list(itertools.product(numbers, repeat=len(authors)))
    with ThreadPoolExecutor() as pool:
        verdicts = pool.map(verdict, joints)
        return dict(zip(joints, verdicts, strict=True))


def estimates(verdicts: list[Verdict], tests: int) -> list[float]:
    """Return the MEASURES of programs of one problem: chances that the chosen one passes."""
    passed = np.array([verdict.passed[:tests] for verdict in verdicts])  # (programs, tests)
    passed_all = passed.all(1)
    rest = np.full(len(passed), np.nan)
    if tests > 1:
        rest = passed[:, 1:].all(1)
    first = passed[:, 0]
    if not first.any():
        first = ~first
    outputs = [tuple(verdict.errors[tests:]) for verdict in verdicts]
    votes = Counter(output for output in outputs if "AssertionError" in str(output))
    largest = max(votes.values(), default=0)
    agree = [votes[output] == largest for output in outputs]
    return [
        passed_all.mean(),
        passed_all.max(),
        passed_all[agree].mean(),
        rest.mean(),
        rest[first].mean(),
    ]


def recombine(header: dict, records: list[dict], methods: list[str] | None) -> dict:
    """Return the table {"settings", "methods": {row: {measure: value}}} of usable records.

    A method that costs more than the cheapest is also shown with about as many tokens. It then has
    fewer samples. Its figures are means over all neighbours in the ring of its samples.
    """
    tokens = defaultdict(list)
    samples = defaultdict(lambda: defaultdict(list))  # [method][item]
    for record in records:
        method = record["method"]
        turn = record["turns"][0]
        tokens[method].append(sum(turn["tokens"]))
        samples[method][record["item"]].append(turn["responses"])
    costs = {}
    sizes = {}
    for method, problems in samples.items():
        costs[method] = statistics.fmean(tokens[method])
        sizes[method] = min(map(len, problems.values()))
    budget = min(costs[method] * sizes[method] for method in costs)
    table = {}
    for method in methods or samples:
        size = sizes[method]
        items = [header["items"][number] for number in samples[method]]
        grids = list(map(play, items, samples[method].values()))
        affordable = max(1, round(budget / costs[method]))
        for count in dict.fromkeys([size, affordable]):
            for label, combine in KINDS.items():
                values = np.zeros((len(items), size, len(MEASURES)))
                for place, start in np.ndindex(len(items), size):
                    ring = [(start + step) % size for step in range(count)]
                    grid = grids[place]
                    joints = combine(*[ring] * len(max(grid)))
                    verdicts = [grid[joint] for joint in joints]
                    values[place, start] = estimates(verdicts, len(items[place]["tests"]))
                row = {"tokens": count * costs[method]}
                for name, column in zip(MEASURES, values.mean(1).T, strict=True):
                    if known := column[~np.isnan(column)].tolist():
                        row[name], row[f"{name}_se"] = mean_and_error(known)
                table[f"{method}, {count} {label}"] = row
    return {"settings": header["settings"], "methods": table}
