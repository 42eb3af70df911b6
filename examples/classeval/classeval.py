"""ClassEval (Du et al. 2023, arXiv 2308.01861): a class that several agents write together."""

import functools
import itertools
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor
from typing import ClassVar

from examples.classeval import classes
from examples.classeval.classes import (
    Method,
    class_item,
    class_source,
    methods_of,
    writers,
    written,
)
from programs.items import read_items
from programs.sandbox.box import Program
from programs.teams import box, contribution
from rewards import COMPONENTS, COOPERATION, TESTS, cooperation
from tasks import CodeTask, Task, fenced

STRUCTURE, SYNTAX = 1.0, 0.5
METRICS = ("pass", "coop", "coverage", "overlap")


def classeval(item: dict, responses: list[str]) -> dict[str, float]:
    """How a class of several agents is scored, 0 to 4:

    | structure   | 1.0 x share of the agents of whom a method of the skeleton is in the class |
    | syntax      | 0.5 x share of the responses' text that the class is made of               |
    | tests       | 1.0 x p, the share of tests that pass, where the empty skeleton is at 0    |
    | cooperation | 1.5 c if p = 1, else (1 - p) c                                             |

    c is the smallest contribution of an agent, (p - q) / (1 - q) as in `code`: q is the p of the
    class without the agent's methods, where a partner's version of a method takes its place. So a
    method that no test needs adds nothing, nor does one that a partner wrote as well.

    Not paid: metric/pass; metric/coop, p = 1 and every agent is needed; metric/coverage, the share
    of the methods that somebody wrote; metric/overlap, the share of these that several wrote.
    """
    agents, count = [written(item, text) for text in responses], len(responses)
    scores = dict.fromkeys([*COMPONENTS, *(f"metric/{name}" for name in METRICS)], 0.0)
    by = writers(item, agents)
    if not by:
        return scores
    scores["structure"] = STRUCTURE * len({some[-1] for some in by}) / count
    scores["syntax"] = SYNTAX * sum(classes.text_used(item, agents, responses)) / count
    scores["metric/coverage"] = len(by) / len(item["methods"])
    scores["metric/overlap"] = sum(len(some) > 1 for some in by) / len(by)
    scores["tests"] = p = TESTS * passed(item, agents)
    if p:
        q = max(passed(item, agents[:a] + agents[a + 1 :]) for a in range(count))
        scores["cooperation"] = cooperation(p, contribution(p, q))
        scores["metric/pass"], scores["metric/coop"] = float(p == 1), float(p == 1 > q)
    return scores


classeval.maximum = STRUCTURE + SYNTAX + TESTS + COOPERATION


def passed(item: dict, agents: list[dict[str, Method]]) -> float:
    """The share of tests that the agents' class passes, where the empty skeleton is at 0."""
    team, nobody = (sum(verdict(item, some)) / len(item["tests"]) for some in (agents, []))
    return contribution(team, nobody)


def verdict(item: dict, agents: list[dict[str, Method]]) -> list[bool]:
    """Which tests the class of these agents passes."""
    source = class_source(item, agents)
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
_EXAMPLE = '''\
class Harbour:
    """This class keeps the levels of the water in a harbour."""

    def __init__(self):
        self.levels = {}

    def add_level(self, hour, level):
        """Keep the level of an hour."""

    def highest(self):
        """Return the hour of the highest level, None without levels."""

    def is_rising(self, hour):
        """Return whether the level is higher an hour later. An unknown level counts as 0."""

    def clear(self):
        """Forget all levels."""'''
_METHODS = (
    "    def add_level(self, hour, level):\n        self.levels[hour] = level",
    "    def highest(self):\n        return max(self.levels, key=self.levels.get, default=None)",
    "    def is_rising(self, hour):\n"
    "        return self.levels.get(hour + 1, 0) > self.levels.get(hour, 0)",
    "    def clear(self):\n        self.levels = {}",
)


class ClassEval(Task):
    """FudanSELab/ClassEval: 100 classes with tests of each method.

    A class is kept if its own solution, cut into as many runs of methods as there are agents, earns
    the reward's maximum on this machine; one line says which are not. The first half of the rows is
    train, the next tenth dev, the rest test, whether or not a row is kept.
    """

    reward, stop = "classeval", "``"
    hub = ("FudanSELab/ClassEval", None, "test")
    most = 1000  # methods of a class
    measures: ClassVar = CodeTask.measures | {"coverage@k": "metric/coverage"}
    bonuses = CodeTask.bonuses
    scheme = staticmethod(classes.scheme)

    @functools.cached_property
    def problems(self) -> list[dict | None]:
        """The item of every row, None where it is left out."""
        items = read_items(self.data, self.hub, class_item)
        with ThreadPoolExecutor(8) as pool:
            reasons = list(pool.map(self.refusal, items))
        message = f"task classeval: {reasons.count('')} of {len(items)} classes are kept"
        for why in sorted(filter(None, {*reasons})):
            left_out = [i["task_id"] for i, r in zip(items, reasons, strict=True) if r == why]
            message += f"; {why}: {', '.join(left_out)}"
        if all(reasons):
            raise ValueError(message)
        print(message, file=sys.stderr)
        return [None if why else item for item, why in zip(items, reasons, strict=True)]

    def refusal(self, item: dict) -> str:
        """Why a class is left out, or ""."""
        if not self.num_agents <= len(item["methods"]) <= self.most:
            return "too few or too many methods"
        try:
            parts = classeval(item, solution_of(item, self.num_agents))
        except ValueError as error:  # of its imports: it says which is missing
            return str(error).rpartition(": ")[2]
        if sum(parts[name] for name in COMPONENTS) == classeval.maximum:
            return ""
        return "a part no test needs" if parts["metric/pass"] else "fails its tests in the sandbox"

    def items(self, split: str) -> list[dict]:
        half, tenth = len(self.problems) // 2, max(len(self.problems) // 10, 1)
        ends = {"train": (0, half), "dev": (half, half + tenth), "test": (half + tenth, None)}
        return list(filter(None, self.problems[slice(*ends[split])]))

    def observe(self, agent: int, item: dict, history: list[tuple[str, str]]) -> str:
        """The skeleton, and the beginning of the agent's file. At later turns its own responses
        follow, each with what it was told, and its file once more."""
        intro, shown, example, own = _ALONE, _METHODS, "whole", "whole"
        if self.num_agents > 1:
            files = ", ".join(f"part{number + 1}.py" for number in range(self.num_agents))
            intro = _TOGETHER.format(count=self.num_agents, files=files)
            shown, example, own = _METHODS[1:3], "part", f"part{agent + 1}"
        answer = "class Harbour:\n" + "\n\n".join(shown)
        files = [("skeleton", _EXAMPLE), (example, answer), ("skeleton", item["skeleton"])]
        first, second, asked = (fenced(name, text.strip("\n"), "```") for name, text in files)
        begun = fenced(own, f"class {item['entry_point']}:", "")
        prompt = "\n\n".join([intro, "### Class 1", first, second, "### Class 2", asked, ""])
        for response, feedback in history:
            prompt += begun + response.strip("\n") + f"\n```\n\n{feedback}\n\nRevised: "
        return prompt + begun

    def feedback(self, item: dict, responses: list[str]) -> list[str]:
        """For every agent how many tests pass."""
        found = verdict(item, [written(item, text) for text in responses])
        return [f"{sum(found)} of {len(found)} tests pass."] * len(responses)


class Small(ClassEval):
    most = 4


def solution_of(item: dict, agents: int) -> list[str]:
    """The solution as the responses of a team, each a run of its methods."""
    methods = [one.decorators + one.source for one in methods_of(item["solution"])]
    cuts = [len(methods) * agent // agents for agent in range(agents + 1)]
    runs = (methods[start:end] for start, end in itertools.pairwise(cuts))
    return [textwrap.indent("\n\n".join(run), "    ") for run in runs]
