"""Workflows are episodes in which agents see what others wrote. They are generators (`Task.play`).

    python train.py --task examples/workflows.py:Sequential --branching chain
    python train.py --task examples/workflows.py:Debate
    python train.py --task examples/workflows.py:Router --num-agents 3

    `Sequential`  Agent k answers at turn k, below what those before it wrote.
    `Debate`      All answer, read all answers, and answer again.
    `Router`      Agent 0 says whether agent 1 or agent 2 answers.

They train on the same path as a decentralised team, which they are compared with. The problems are
coop's. The embedded model was not taught to read a partner's text. It learns to read a pipeline's
helpers, and it cannot read a debate. For other problems of functions, combine the workflow with
another task:

    class Mine(Pipeline, CoopHumanEval):
        pass

With --branching chain every agent of a pipeline is sampled as often as in a run without one.
"""

from programs.extraction import closed
from rewards import code
from tasks import Coop, below, observations, quoted


class Pipeline:
    per_episode = True

    @staticmethod
    def turns(agents):
        return agents

    def play(self, item):
        texts = []
        above = ""
        for agent in range(self.num_agents):
            answers = yield {agent: above + self.observe(agent, item, [])}
            texts.append(answers[agent])
            above += f"# agent {agent} wrote\n{closed(answers[agent])}\n"
        return texts


class Sequential(Pipeline, Coop):
    """Coop's problems, one agent after the other."""


class Debate(Coop):
    turns = 2
    per_episode = True

    def play(self, item):
        prompts = observations(self, item, [[]] * self.num_agents)
        first = yield prompts
        answers = quoted(first, prompts)
        final = yield {agent: below(answers, prompt) for agent, prompt in prompts.items()}
        return final


class Router(Coop):
    turns = 2
    per_episode = True
    reward = None  # `play` pays by itself
    maximum = code.maximum

    def play(self, item):
        answers = yield {0: f"{item['prompt']}# who solves this, agent 1 or agent 2?\n"}
        solver = 2 if "2" in answers[0] else 1
        answers = yield {solver: f"{item['prompt']}# write solve\n"}
        return code(item, [answers[solver]])

    def scheme(self, item, responses):
        return super().scheme(item, [responses[1] or responses[2]])
