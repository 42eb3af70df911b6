"""Teams that see each other's texts: what decentralised training is compared with.

    python train.py --task examples/workflows.py:Sequential --turns 2 --branching chain
    python train.py --task examples/workflows.py:Discussion --turns 2 --branching chain

Sequential   agent k answers at turn k and sees what those before it wrote; --turns N for N agents
Discussion   all answer, each sees the others' answers, all answer again

They train on the same path as other teams, and are paid on the last turn. The problems are coop's.
For other problems of functions, subclass:

    class Mine(Sequential):
        task = CoopHumanEval

An item keeps what each agent wrote last (`advance`), and `speakers` says whose turn it is. With
--branching chain every agent is sampled as often as in a run without a workflow.
"""

from rewards import code
from tasks import CodeTask, Coop


class Workflow(CodeTask):
    """The common part of the two below. `schedule` returns the speakers of each turn."""

    reward = f"{__file__}:paid_last"
    model = Coop.model
    task = Coop

    def __init__(self, data=None, num_agents=2, feedback=None):
        self.num_agents = num_agents
        self.of = self.task(data, num_agents, feedback)
        self.stop = self.of.stop
        self.agents = list(range(num_agents))

    def items(self, split):
        start = {"turn": 0, "texts": [""] * self.num_agents, "schedule": self.schedule()}
        return [item | start for item in self.of.items(split)]

    def begin(self, agent, item):
        return self.of.begin(agent, item)

    def speakers(self, item, turn):
        if turn >= len(item["schedule"]):
            raise ValueError(f"this workflow ends after --turns {len(item['schedule'])}")
        return item["schedule"][turn]

    def advance(self, item, responses):
        return item | {"turn": item["turn"] + 1, "texts": latest(item, responses)}

    def scheme(self, item, responses):
        return self.of.scheme(item, latest(item, responses)) if is_last(item) else None


class Sequential(Workflow):
    def schedule(self):
        return [[agent] for agent in self.agents]

    def observe(self, agent, item, history):
        return wrote(item, range(agent)) + self.of.observe(agent, item, [])


class Discussion(Workflow):
    def schedule(self):
        return [self.agents] * 2

    def observe(self, agent, item, history):
        partners = [i for i in self.agents if i != agent]
        feedback = wrote(item, partners).rstrip()
        return self.of.observe(agent, item, [(response, feedback) for response, _ in history])


def wrote(item, agents):
    return "".join(f"# agent {agent} wrote\n{item['texts'][agent].rstrip()}\n" for agent in agents)


def is_last(item):
    return item["turn"] + 1 == len(item["schedule"])


def latest(item, responses):
    """Return what each agent wrote last: its response, if it spoke at this turn."""
    texts = list(item["texts"])
    for agent in item["schedule"][item["turn"]]:
        texts[agent] = responses[agent]
    return texts


def paid_last(item, responses):
    return code(item, latest(item, responses)) if is_last(item) else {}


paid_last.maximum = code.maximum
