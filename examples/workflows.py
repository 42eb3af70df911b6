"""Teams that see each other's texts: what decentralised training is compared with.

    python train.py --task examples/workflows.py:Sequential --turns 2 --branching chain
    python train.py --task examples/workflows.py:Discussion --turns 2 --branching chain
    python train.py --task examples/workflows.py:Critic --turns 3 --branching chain

Sequential   agent k answers at turn k and sees what those before it wrote; --turns N for N agents
Discussion   all answer, each sees the others' answers, all answer again
Critic       agent 0 writes every function, agent 1 comments on it, agent 0 writes it again

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
    """The common part of the three below. `schedule` returns the speakers of each turn."""

    reward = f"{__file__}:paid_last"
    model = Coop.model
    task = Coop

    def __init__(self, data=None, num_agents=2, feedback=None):
        self.num_agents = num_agents
        self.of = self.task(data, num_agents, feedback)
        self.stop = self.of.stop
        self.writers = list(range(num_agents))  # whose last texts make the program

    def items(self, split):
        start = {"turn": 0, "texts": [""] * self.num_agents, "schedule": self.schedule()}
        start["writers"] = self.writers
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
        return self.of.scheme(item, program(item, responses)) if is_last(item) else None


class Sequential(Workflow):
    def schedule(self):
        return [[agent] for agent in self.writers]

    def observe(self, agent, item, history):
        return wrote(item, range(agent)) + self.of.observe(agent, item, [])


class Discussion(Workflow):
    def schedule(self):
        return [self.writers] * 2

    def observe(self, agent, item, history):
        partners = [i for i in self.writers if i != agent]
        feedback = wrote(item, partners).rstrip()
        return self.of.observe(agent, item, [(response, feedback) for response, _ in history])


class Critic(Workflow):
    def __init__(self, data=None, num_agents=2, feedback=None):
        if num_agents != 2:
            raise ValueError("one agent writes and one comments: --num-agents 2")
        super().__init__(data, num_agents, feedback)
        self.of = self.task(data, 1, feedback)
        self.writers = [0]

    def schedule(self):
        return [[0], [1], [0]]

    def observe(self, agent, item, history):
        if agent:
            return f"{item['prompt']}{wrote(item, [0])}# a comment on it: "
        comment = f"# {item['texts'][1].strip()}"
        return self.of.observe(0, item, [(response, comment) for response, _ in history[::2]])


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


def program(item, responses):
    """Return the texts that make the program."""
    texts = latest(item, responses)
    return [texts[writer] for writer in item["writers"]]


def paid_last(item, responses):
    return code(item, program(item, responses)) if is_last(item) else {}


paid_last.maximum = code.maximum
