"""Coop, the embedded team's task; its problems are made in tiny/problems.py."""

import functools
import itertools
from pathlib import Path

from programs.tasks import CodeTask
from programs.teams import verdict
from tiny.problems import problems


class Coop(CodeTask):
    """The embedded team's task: short Python problems that helpers and one main function solve.

    A problem asks for a reducer (the sum of ...) of a transform (the squares of ...) of the
    elements of a list of integers or words that satisfy a predicate (the even numbers). Which of
    these parts a helper does is nowhere written: the agents have to come to agree. For three agents
    no problem lacks a part, and from four on there is a second predicate.

    The compositions of "dev" and "test" occur nowhere in "train", while each of their parts does.
    Nothing depends on a seed: a split is always the same problems in the same order.
    """

    takes_data = False

    @staticmethod
    def model(agents: int) -> str | None:
        """Three agents and more start from an adapter on tiny/ that has read their problems."""
        return str(Path(__file__).resolve().parent.parent / "tiny" / "many") if agents > 2 else None

    def items(self, split: str) -> list[dict]:
        return list(_items(split, self.num_agents))

    def observe(self, agent: int, item: dict, history: list[tuple[str, str]]) -> str:
        """The problem, the agent's own earlier responses with their feedback, and its role."""
        role = f"# write solve, you can call {' and '.join(self.helpers)}\n"
        if self.num_agents == 1:
            role = "# write the helper aux, then solve\n"
        elif agent < self.num_agents - 1:
            role = f"# write the helper {self.helpers[agent]}\n"
        turns = [f"{role}{response.rstrip()}\n{feedback}\n" for response, feedback in history]
        return item["prompt"] + "".join(turns) + role

    def feedback(self, item: dict, responses: list[str]) -> list[str]:
        """How many tests passed, and the first exception if any; with --feedback the mode's text,
        as comments."""
        if self.tell:
            messages = self.tell(item, responses)
            return ["\n".join(f"# {line}" for line in text.splitlines()) for text in messages]
        found = verdict(item, responses)
        names = (error.partition(":")[0] for error in found.errors if error)
        raised = next((name for name in names if name != "AssertionError"), None)
        line = passed_line(sum(found.passed), len(found.passed), raised)
        return [line] * len(responses)


@functools.cache  # two seconds for a run's
def _items(split: str, agents: int) -> list[dict]:
    found = problems(split, distinct=True, agents=agents)
    items = itertools.islice(found, {"train": 2000, "dev": 100, "test": 100}[split])
    return [item | {"task_id": f"coop/{split}/{i}"} for i, item in enumerate(items)]


def passed_line(passed: int, total: int, error: str | None) -> str:
    return f"# passed {passed} of {total}" + (f", {error}" if error else "")
