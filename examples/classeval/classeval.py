"""ClassEval (Du et al. 2023, arXiv 2308.01861), a class that several agents write together.

python train.py --task examples/classeval/classeval.py:ClassEval --data FILE --model MODEL
"""

import functools
import itertools
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor
from typing import ClassVar

from examples.classeval import classes
from policies import Mistake
from programs.items import read_items
from programs.sandbox.box import Program
from programs.teams import box, contribution
from rewards import COMPONENTS, COOPERATION, TESTS, cooperation, total
from tasks import CodeTask, Task

STRUCTURE = 1.0
SYNTAX = 0.5
METRICS = ("metric/pass", "metric/tests", "metric/coop", "metric/coverage", "metric/overlap")


def classeval(item, responses):
    """Score a class of several agents, 0 to 4.

    `structure`    1.0  Share of the agents of whom a method of the skeleton is in the class.
    `syntax`       0.5  Share of the responses' text that the class is made of.
    `tests`        1.0  The share p of tests that pass, where the empty skeleton is at 0.
    `cooperation`  1.5  `1.5 c` if p = 1, else `(1 - p) c`.

    Here c is the smallest contribution of an agent, `(p - q) / (1 - q)` as in `code`. q is the p of
    the class without the agent's methods. A partner's version of a method takes its place. So a
    method that nobody needs adds nothing. Neither does a method that a partner wrote as well. A
    password is not caught: methods that fail without a partner's method, which does nothing.

    These are logged and not paid. `metric/tests` is p, and `metric/pass` says whether p = 1.
    `metric/coop` says whether every agent is needed then. `metric/coverage` is the share of the
    methods that somebody wrote, and `metric/overlap` the share of these that several agents wrote.
    """
    agents = [classes.written(item, text) for text in responses]
    scores = dict.fromkeys([*COMPONENTS, *METRICS], 0.0)
    authors = classes.writers(item, agents)
    if not authors:
        return scores
    in_class = {by[-1] for by in authors}
    scores["structure"] = STRUCTURE * len(in_class) / len(agents)
    scores["syntax"] = SYNTAX * sum(classes.text_used(item, agents, responses)) / len(agents)
    scores["metric/coverage"] = len(authors) / len(item["methods"])
    scores["metric/overlap"] = sum(len(by) > 1 for by in authors) / len(authors)
    p = passed(item, agents)
    scores["tests"] = TESTS * p
    scores["metric/tests"] = p
    if p:
        q = max(passed(item, agents[:i] + agents[i + 1 :]) for i in range(len(agents)))
        scores["cooperation"] = cooperation(p, contribution(p, q))
        scores["metric/pass"] = float(p == 1)
        scores["metric/coop"] = float(p == 1 > q)
    return scores


classeval.maximum = STRUCTURE + SYNTAX + TESTS + COOPERATION


def passed(item, agents):
    """Return the share of tests that the agents' class passes, where the empty skeleton is at 0."""
    count = len(item["tests"])
    return contribution(sum(verdict(item, agents)) / count, sum(verdict(item, [])) / count)


def verdict(item, agents):
    """Return which tests the class of these agents passes."""
    source = classes.class_source(item, agents)
    program = Program(source, item["tests"], item["entry_point"], item["setup"])
    return box.run([program])[0].passed


# As in tasks.py, a response continues a file that the prompt begins. The example's methods
# are neither the first ones nor the last: it shows how a file looks, not who writes what.

_TOGETHER = (
    "{count} programmers complete each of these classes. Each of them writes some of its methods, "
    "without docstrings, in a file of its own: {files}. Nobody sees the file of another one. "
    "Together the files have every method once."
)
_ALONE = "Each of these classes is completed by writing its methods, without docstrings."
_PROMPT = '''\
{intro}

### Class 1

skeleton.py:
```python
class Harbour:
    """This class keeps the levels of the water in a harbour."""

    def __init__(self):
        self.levels = {{}}

    def add_level(self, hour, level):
        """Keep the level of an hour."""

    def highest(self):
        """Return the hour of the highest level, None without levels."""

    def is_rising(self, hour):
        """Return whether the level is higher an hour later. An unknown level counts as 0."""

    def clear(self):
        """Forget all levels."""
```

{name}.py:
```python
class Harbour:
{methods}
```

### Class 2

skeleton.py:
```python
{skeleton}
```'''
_PART = """\
    def highest(self):
        return max(self.levels, key=self.levels.get, default=None)

    def is_rising(self, hour):
        return self.levels.get(hour + 1, 0) > self.levels.get(hour, 0)"""
_WHOLE = f"""\
    def add_level(self, hour, level):
        self.levels[hour] = level

{_PART}

    def clear(self):
        self.levels = {{}}"""


class ClassEval(Task):
    """FudanSELab/ClassEval: 100 classes with tests of each method.

    A class is kept if its solution, cut into as many runs of methods as there are agents, earns the
    reward's maximum on this machine. One line says which are not. The first half of the rows is
    train, the next tenth dev, the rest test, whether or not a row is kept.
    """

    reward = "examples.classeval.classeval.classeval"
    stop = "\n```"
    hub = ("FudanSELab/ClassEval", None, "test")
    measures: ClassVar = CodeTask.measures | {"coverage@k": "metric/coverage"}
    takes_data = True
    scheme = staticmethod(classes.scheme)

    @functools.cached_property
    def problems(self):
        """The item of every row, None where it is left out."""
        items = read_items(self.data, self.hub, classes.class_item)
        with ThreadPoolExecutor(8) as pool:
            reasons = list(pool.map(self.refusal, items))
        message = f"task classeval: {reasons.count('')} of {len(items)} classes are kept"
        for reason in sorted(set(reasons) - {""}):
            ids = [i["task_id"] for i, r in zip(items, reasons, strict=True) if r == reason]
            message += f"; {reason}: {', '.join(ids)}"
        if all(reasons):
            raise Mistake(message)
        print(message, file=sys.stderr)
        return [None if reason else i for i, reason in zip(items, reasons, strict=True)]

    def refusal(self, item):
        """Return why a class is left out, or ""."""
        if len(item["methods"]) < self.num_agents:
            return "fewer methods than agents"
        try:
            parts = classeval(item, solution_of(item, self.num_agents))
        except ValueError as error:  # of its imports: it says which is missing
            return str(error).rpartition(": ")[2]
        if total(parts, self.num_agents) == classeval.maximum:
            return ""
        return "a part no test needs" if parts["metric/pass"] else "fails its tests in the sandbox"

    def items(self, split):
        rows = self.problems
        half = len(rows) // 2
        test = half + max(len(rows) // 10, 1)
        splits = {"train": rows[:half], "dev": rows[half:test], "test": rows[test:]}
        return list(filter(None, splits[split]))

    def observe(self, agent, item, history):
        """Return the skeleton, and at later turns the agent's own responses."""
        skeleton = item["skeleton"].strip("\n")
        if self.num_agents == 1:
            prompt = _PROMPT.format(intro=_ALONE, name="whole", methods=_WHOLE, skeleton=skeleton)
        else:
            files = ", ".join(f"part{i + 1}.py" for i in range(self.num_agents))
            intro = _TOGETHER.format(count=self.num_agents, files=files)
            prompt = _PROMPT.format(intro=intro, name="part", methods=_PART, skeleton=skeleton)
        for response, _ in history:
            prompt += "\n\n" + response.strip("\n") + "\n```\n\nRevised:"
        return prompt

    def begin(self, agent, item):
        """Return the first lines of the agent's file."""
        name = f"part{agent + 1}" if self.num_agents > 1 else "whole"
        return f"{name}.py:\n```python\nclass {item['entry_point']}:\n"


def solution_of(item, agents):
    """Return the solution as the responses of a team, each a run of its methods."""
    methods = classes.methods_of(item["solution"])
    sources = [method.decorators + method.source for method in methods]
    cuts = [len(sources) * agent // agents for agent in range(agents + 1)]
    runs = ["\n\n".join(sources[start:end]) for start, end in itertools.pairwise(cuts)]
    return [textwrap.indent(run, "    ") for run in runs]
