"""The tasks by name, and what a task is.

--task takes a name of the table, a dotted path or file.py:Class. A class that does not inherit from
`Task` is given its defaults all the same, so `items` and `observe` are all that one has to write.
"""

from typing import Any, ClassVar

TASKS = {
    "coop": "programs.coop.Coop",
    "humaneval": "programs.tasks.HumanEval",
    "coophumaneval": "programs.tasks.CoopHumanEval",
    "mbpp": "programs.tasks.MBPP",
    "classeval": "examples.classeval.classeval.ClassEval",
    "tldr": "writing.tasks.Tldr",
    "arxiv": "writing.tasks.Arxiv",
    "build": "examples.building.tasks.Build",
    "strbuild": "examples.building.tasks.StrBuild",
    "housebuild": "examples.building.tasks.HouseBuild",
    "rendezvous": "examples.rendezvous.Rendezvous",
}
DEFAULT = next(iter(TASKS))  # --task where none is given


class Task:
    """A task, with what the core may ask of it. The defaults ask for nothing.

    What an agent observes is computed from the item and from its own history, so a partner's text
    cannot get in, unless `advance` puts it into the item and `observe` shows it.
    """

    reward: str | None = None  # name of its default reward; of the run's own, once it is made
    model: Any = None  # its default model, or a function of the number of agents that gives it
    field = "prompt"  # of an item, which has the problem's text
    stop = ""  # a token that begins with this text ends a response; in a chat none does
    modes: tuple[str, ...] = ()  # names that --feedback takes
    colors: ClassVar[dict[str, str]] = {}  # block -> "#rrggbb", in the legend's order, if it draws
    # Columns of eval.py's table, each of a part of the reward: "pass@k" is the expected best of k
    # joint responses, a name without @k the share of them in which the part is above 0.
    measures: ClassVar[dict[str, str]] = {}
    # For eval.py --doctor: parts that are a bonus, each beside the part that is the substance; and
    # the dotted name of a table of signs as in training/doctor.py.
    bonuses: ClassVar[dict[str, str]] = {}
    signs: str | None = None

    takes_data = True  # --data
    most_agents: int | None = None  # that it has roles for

    def __init__(self, data: str | None = None, num_agents: int = 2):
        """data: --data. Where --feedback is given, feedback= is what `teller` gives."""
        name = type(self).__name__
        if data is not None and not self.takes_data:
            raise ValueError(f"task {name} makes its own problems: it takes no --data")
        if self.most_agents and num_agents > self.most_agents:
            raise ValueError(f"task {name} is for {self.most_agents} agents, not {num_agents}")
        self.data, self.num_agents = data, num_agents

    @classmethod
    def teller(cls, args):
        """What the constructor gets as feedback=: here the name of the mode."""
        return args.feedback

    def items(self, split: str) -> list[dict]:
        """The problems of "train", "dev" or "test": plain dicts."""
        raise NotImplementedError(f"{type(self).__name__} has no items(split)")

    def speakers(self, item: dict, turn: int) -> list[int] | None:
        """Who answers at a turn, from 0; None: every agent. The others are not asked."""
        return None

    def observe(self, agent: int, item: dict, history: list[tuple[str, str]]) -> str:
        """One agent's prompt; history: its own earlier responses, each with what it was told."""
        raise NotImplementedError(f"{type(self).__name__} has no observe(agent, item, history)")

    def feedback(self, item: dict, responses: list[str]) -> list[str]:
        """What each agent is told after a turn."""
        return [""] * len(responses)

    def advance(self, item: dict, responses: list[str]) -> dict:
        """What becomes of the world: the next turn's item. It may change the item, a copy."""
        return item

    def scheme(self, item: dict, responses: list[str]) -> str | None:
        """How the work was divided: a name, which is counted in training and by eval.py."""
        return None

    def draw(self, item: dict, responses: list[str]) -> dict[str, list]:
        """What the team built, of no responses the target (training/pictures.py); with colors."""
        return {}

    def check(self, item: dict) -> None:
        """Raises ValueError for an item of eval.py --ask that is none of this task's."""

    def ask(self, text: str) -> dict:
        """The item of a problem in a user's words, for eval.py --ask."""
        item = self.items("test")[0]
        if self.field not in item:
            raise ValueError(f"--ask of this task takes an item as JSON, with {', '.join(item)}")
        return item | {self.field: text}
