"""The tasks by name, what a task is, and coop, the embedded team's.

A task is a plain class, made with data= (--data), num_agents= and, where --feedback is given,
feedback= (a function of an item and the responses that gives one text per agent):

    items(split) -> [item]                 the problems of "train", "dev" and "test": plain dicts
    observe(agent, item, history) -> text  one agent's prompt; history: its own (response, feedback)
    feedback(item, responses) -> [text]    what each agent is told after a turn, with --turns 2
    advance(item, responses) -> item       what becomes of the world, for the next turn (optional)
    scheme(item, responses) -> name        how the work was divided, counted by eval.py (optional)
    draw(item, responses) -> picture       what it looks like (optional, running/pictures.py)
    check(item)                            ValueError for an item of --ask that is none (optional)
    ask(text) -> item                      the item of a text of --ask (optional), or
    field                                  the item's field that such a text replaces ("prompt")
    measures                               more columns of eval.py's table (optional): "name@k" ->
                                           part of the reward, whose best of k responses counts, or
                                           name -> part, which counts where it is above 0
    bonuses                                part of the reward -> the part that it is a bonus on
    signs                                  name of a table of signs of failure (running/doctor.py)
    modes                                  its own names for --feedback (optional): it is given one
    reward, model                          names of its default reward and (optional) model, which
                                           may be a function of the number of agents

What an agent observes is computed from the item and from its own history, so a partner's text
cannot get in, unless `advance` puts it into the item and `observe` shows it. --task takes a name of
the table, a dotted path or file.py:Class.
"""

import itertools
from pathlib import Path
from typing import ClassVar

from data.coop import problems

TASKS = {
    "coop": "tasks.Coop",
    "humaneval": "coding.tasks.HumanEval",
    "coophumaneval": "coding.tasks.CoopHumanEval",
    "mbpp": "coding.tasks.MBPP",
    "tldr": "writing.tasks.Tldr",
    "arxiv": "writing.tasks.Arxiv",
    "build": "building.embedded.Build",
    "strbuild": "building.tasks.StrBuild",
    "housebuild": "building.tasks.HouseBuild",
}


class Coop:
    """The embedded team's task: short Python problems that helpers and one main function solve.

    A problem asks for a reducer (the sum of ...) of a transform (the squares of ...) of the
    elements of a list of integers or words that satisfy a predicate (the even numbers). Agents
    0 to n-2 write the helpers (`aux`, `aux2`, ...), the last agent writes `solve`, and neither
    sees the other's text: which part of the work a helper does is nowhere written, they have to
    come to agree. With one agent, the same policy writes `aux` and then `solve`. For three agents
    no problem lacks a part, and from four on there is a second predicate.

    The splits hold different compositions (predicate, transform, reducer): those of "dev" and
    "test" occur nowhere in "train", while each of their parts does. Docstrings within a split
    differ. Nothing depends on a seed: a split is always the same problems in the same order.
    """

    reward, signs = "code", "coding.signs.SIGNS"
    bonuses: ClassVar = {"cooperation": "tests"}
    measures: ClassVar = {
        "pass@k": "metric/pass",
        "coop_rate": "cooperation",
        "metric/coop": "metric/coop",
        "accuracy@k": "tests",
    }

    @staticmethod
    def model(agents: int) -> str | None:
        """Three agents and more start from an adapter on tiny/ that has read their problems."""
        return str(Path(__file__).resolve().parent / "tiny" / "many") if agents > 2 else None

    def __init__(self, data: str | None = None, num_agents: int = 2, feedback=None):
        if data is not None:
            raise ValueError(
                "task coop makes its own problems: it takes no --data, as --task tldr does"
            )
        if num_agents < 1:
            raise ValueError(f"task coop needs at least 1 agent, not {num_agents}")
        self.num_agents, self.tell = num_agents, feedback

    def items(self, split: str) -> list[dict]:
        sizes = {"train": 2000, "dev": 100, "test": 100}
        if split not in sizes:
            raise ValueError(f"task coop has no split {split!r}: it has train, dev and test")
        found = problems(split, distinct=True, agents=self.num_agents)
        items = itertools.islice(found, sizes[split])
        return [item | {"task_id": f"coop/{split}/{i}"} for i, item in enumerate(items)]

    def observe(self, agent: int, item: dict, history: list[tuple[str, str]]) -> str:
        """The problem, the agent's own earlier responses with their feedback, and its role."""
        role = self._role(agent) + "\n"
        turns = [f"{role}{response.rstrip()}\n{feedback}\n" for response, feedback in history]
        return item["prompt"] + "".join(turns) + role

    def _role(self, agent: int) -> str:
        helpers = ["aux", *(f"aux{i}" for i in range(2, self.num_agents))]
        if self.num_agents == 1:
            return "# write the helper aux, then solve"
        if agent < self.num_agents - 1:
            return f"# write the helper {helpers[agent]}"
        return f"# write solve, you can call {' and '.join(helpers)}"

    def feedback(self, item: dict, responses: list[str]) -> list[str]:
        """The same line for every agent: how many tests passed, and the first exception if any.

        With --feedback it is that mode's text, as comments.
        """
        if self.tell:
            told = self.tell(item, responses)
            return ["\n".join(f"# {line}" for line in text.splitlines()) for text in told]
        from coding.rewards import verdict as judged  # the sandbox: only who needs it pays

        verdict = judged(item, responses)
        names = (error.partition(":")[0] for error in verdict.errors if error)
        raised = next((name for name in names if name != "AssertionError"), None)
        line = passed_line(sum(verdict.passed), len(verdict.passed), raised)
        return [line] * len(responses)

    def scheme(self, item: dict, responses: list[str]) -> str:
        from coding.schemes import classify

        return classify(responses, item["entry_point"])

    def ask(self, text: str) -> dict:
        from coding.items import asked

        return asked(text)


def passed_line(passed: int, total: int, error: str | None) -> str:
    return f"# passed {passed} of {total}" + (f", {error}" if error else "")
