"""Teams that see each other's texts, trained on the same path: what decentralised training is
compared with. Each takes the turns that it says, and is paid on the last one.

    python train.py --task examples/workflows.py:Sequential --turns 2 --branching chain
    python train.py --task examples/workflows.py:Discussion --turns 2 --branching chain
    python train.py --task examples/workflows.py:Critic --turns 3 --branching chain

Sequential   agent k answers at turn k and sees what those before it wrote; --turns N for N agents
Discussion   all answer, each sees the others' answers, all answer again
Critic       agent 0 writes every function, agent 1 comments on it, agent 0 writes it again

They work on problems of functions, coop's by default; for others, subclass and say which:

    class Mine(Sequential):
        task = CoopHumanEval

An item keeps what each agent wrote last (`advance`), and `speakers` says whose turn it is. With
--branching chain every agent is sampled as often as in a run without a workflow.
"""

from rewards import code
from tasks import CodeTask, Coop


class Workflow(CodeTask):
    """What the three below share. `schedule` says who speaks at each turn."""

    reward, model, task = f"{__file__}:paid_last", Coop.model, Coop

    def __init__(self, data=None, num_agents=2, feedback=None):
        self.num_agents, self.of = num_agents, self.task(data, num_agents, feedback)
        self.stop = self.of.stop

    def items(self, split):
        start = {"turn": 0, "texts": [""] * self.num_agents, "schedule": self.schedule()}
        return [item | start for item in self.of.items(split)]

    def speakers(self, item, turn):
        if turn >= len(item["schedule"]):
            raise ValueError(f"this workflow ends after --turns {len(item['schedule'])}")
        return item["schedule"][turn]

    def advance(self, item, responses):
        return item | {"turn": item["turn"] + 1, "texts": latest(item, responses)}

    def scheme(self, item, responses):
        last = item["turn"] + 1 == len(item["schedule"])
        return self.of.scheme(item, program(item, responses)) if last else None


class Sequential(Workflow):
    def schedule(self):
        return [[agent] for agent in range(self.num_agents)]

    def observe(self, agent, item, history):
        return wrote(item, range(agent)) + self.of.observe(agent, item, [])


class Discussion(Workflow):
    def schedule(self):
        return [list(range(self.num_agents))] * 2

    def observe(self, agent, item, history):
        others = [other for other in range(self.num_agents) if other != agent]
        seen = [(own, wrote(item, others).rstrip()) for own, _ in history]
        return self.of.observe(agent, item, seen)


class Critic(Workflow):
    def __init__(self, data=None, num_agents=2, feedback=None):
        if num_agents != 2:
            raise ValueError(f"one agent writes and one comments: 2, not {num_agents}")
        super().__init__(data, num_agents, feedback)
        self.of = self.task(data, 1, feedback)

    def items(self, split):
        return [item | {"author": 0} for item in super().items(split)]

    def schedule(self):
        return [[0], [1], [0]]

    def observe(self, agent, item, history):
        if agent:
            return f"{item['prompt']}{wrote(item, [0])}# a comment on it: "
        told = [(own, f"# {item['texts'][1].strip()}") for own, _ in history[::2]]
        return self.of.observe(0, item, told)


def wrote(item, agents) -> str:
    return "".join(f"# agent {agent} wrote\n{item['texts'][agent].rstrip()}\n" for agent in agents)


def latest(item, responses) -> list[str]:
    """What each agent wrote last: now, if it spoke at this turn."""
    speak = item["schedule"][item["turn"]]
    return [now if i in speak else item["texts"][i] for i, now in enumerate(responses)]


def program(item, responses) -> list[str]:
    """The texts that make the program: of a critic's team those of its author alone."""
    texts = latest(item, responses)
    return [texts[item["author"]]] if "author" in item else texts


def paid_last(item, responses):
    if item["turn"] + 1 < len(item["schedule"]):
        return {}
    return code(item, program(item, responses))


paid_last.maximum = code.maximum
