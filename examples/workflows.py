"""A pipeline: agents that answer one after the other, and see what those before them wrote.

    python train.py --task examples/workflows.py:Sequential --turns 2 --branching chain

Agent k answers at turn k, with --turns N for N agents. The team is paid on the last turn. It trains
on the same path as a decentralised team, which it is compared with. The problems are coop's. For
other problems of functions, combine it with another task:

    class Mine(InTurn, CoopHumanEval):
        pass

With --branching chain every agent is sampled as often as in a run without a pipeline.
"""

from programs.extraction import closed
from rewards import code
from tasks import Coop


class InTurn:
    """The part that all pipelines share. An item keeps the texts of the turns before."""

    reward = f"{__file__}:paid_last"

    def speakers(self, item, turn):
        if turn == self.num_agents:
            raise ValueError(f"this pipeline ends after --turns {turn}")
        return [turn]

    def observe(self, agent, item, history):
        prompt = super().observe(agent, item, [])
        for author, text in reversed(list(enumerate(item.get("texts", ())))):
            prompt = f"# agent {author} wrote\n{closed(text)}\n{prompt}"
        return prompt

    def advance(self, item, responses):
        return item | {"texts": written(item, responses)}

    def feedback(self, item, responses):
        return [""] * len(responses)  # the partners' texts take its place

    def scheme(self, item, responses):
        texts = written(item, responses)
        return super().scheme(item, texts) if len(texts) == len(responses) else None


class Sequential(InTurn, Coop):
    """Coop's problems, one agent after the other."""


def written(item, responses):
    """Return the texts of all turns so far. This turn's author is the next agent."""
    texts = item.get("texts", [])
    return [*texts, responses[len(texts)]]


def paid_last(item, responses):
    texts = written(item, responses)
    return code(item, texts) if len(texts) == len(responses) else {}


paid_last.maximum = code.maximum
paid_last.per_episode = True
