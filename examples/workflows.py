"""Teams that see each other's texts: what decentralised training is compared with.

    python train.py --task examples/workflows.py:Sequential --turns 2 --branching chain
    python train.py --task examples/workflows.py:Discussion --turns 2 --branching chain

Sequential   agent k answers at turn k and sees what those before it wrote; --turns N for N agents
Discussion   all answer, each sees the others' answers, all answer again

They train on the same path as other teams, and are paid on the last turn. The problems are coop's.
For other problems of functions, combine one with another task:

    class Mine(InTurn, CoopHumanEval):
        pass

An item keeps each agent's last text and the turns to come. With --branching chain every agent is
sampled as often as in a run without a workflow.
"""

from rewards import code
from tasks import Coop


class Workflow:
    """The part that all workflows share. `schedule` returns the speakers of each turn."""

    reward = f"{__file__}:paid_last"

    def items(self, split):
        start = {"texts": [""] * self.num_agents, "schedule": self.schedule()}
        return [item | start for item in super().items(split)]

    def speakers(self, item, turn):
        if not item["schedule"]:
            raise ValueError(f"this workflow ends after --turns {turn}")
        return item["schedule"][0]

    def advance(self, item, responses):
        return item | {"texts": latest(item, responses), "schedule": item["schedule"][1:]}

    def feedback(self, item, responses):
        return [""] * len(responses)  # the partners' texts take its place

    def scheme(self, item, responses):
        return super().scheme(item, latest(item, responses)) if is_last(item) else None


class InTurn(Workflow):
    def schedule(self):
        return [[agent] for agent in range(self.num_agents)]

    def observe(self, agent, item, history):
        return wrote(item, range(agent)) + super().observe(agent, item, [])


class Together(Workflow):
    def schedule(self):
        return [list(range(self.num_agents))] * 2

    def observe(self, agent, item, history):
        partners = [i for i in range(self.num_agents) if i != agent]
        feedback = wrote(item, partners).rstrip()
        return super().observe(agent, item, [(response, feedback) for response, _ in history])


class Sequential(InTurn, Coop):
    """Coop's problems, one agent after the other."""


class Discussion(Together, Coop):
    """Coop's problems, all agents at once, and all again."""


def wrote(item, agents):
    return "".join(f"# agent {agent} wrote\n{item['texts'][agent].rstrip()}\n" for agent in agents)


def is_last(item):
    return len(item["schedule"]) == 1


def latest(item, responses):
    """Return what each agent wrote last: its response, if it spoke at this turn."""
    texts = list(item["texts"])
    for agent in item["schedule"][0]:
        texts[agent] = responses[agent]
    return texts


def paid_last(item, responses):
    return code(item, latest(item, responses)) if is_last(item) else {}


paid_last.maximum = code.maximum
paid_last.per_episode = True
