"""The team: agents with the same model share one frozen base, each with its own adapter.

The policies sampled here are those scored here, so an ablation must leave this file as it is.
"""

from collections import defaultdict
from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from policies.decoding import Response
from policies.loading import load_base
from policies.logprobs import Row
from policies.model_names import TeamOptions
from policies.sampling import Sampling
from policies.shared_model import SharedModel


class Team(nn.Module):
    """The n agents of a run, with new adapters.

    With `share` the agents of one base are one policy, with one adapter or as one full copy.
    """

    engine = None  # with --engine: the servers that sample (policies/engine.py)

    def __init__(self, options: TeamOptions):
        super().__init__()
        self.options = options
        self.size = len(options.model)
        self.bases: Any = nn.ModuleList()  # of SharedModel
        self.base_of: dict[int, SharedModel] = {}
        groups = defaultdict(list)  # the agents of each base
        for agent, name in enumerate(options.model):
            one_base = options.lora_rank or options.share
            groups[name if one_base else agent].append(agent)
        for agents in groups.values():
            base = load_base(options.model[agents[0]], agents, options)
            self.bases.append(base)
            for agent in agents:
                self.base_of[agent] = base

    def sample(
        self, prompts: list[tuple[int, tuple]], uniforms: Tensor, sampling: Sampling
    ) -> list[list[Response]]:
        """Sample S responses to each of the (agent, prompt) pairs, decoded together base by base.

        Only the uniforms (len(prompts), S, T) in [0, 1) decide the tokens.
        """
        if self.engine:
            return self.engine.sample(prompts, uniforms, sampling)
        answers: dict[int, list[Response]] = {}
        for base in self.bases:
            numbers = []
            agents = []
            base_prompts = []
            for agent in base.agents:
                for number, (asked, prompt) in enumerate(prompts):
                    if asked == agent:
                        numbers.append(number)
                        agents.append(agent)
                        base_prompts.append(prompt)
            base_uniforms = uniforms[numbers]
            responses = base.sample(base_prompts, agents, base_uniforms, sampling)
            answers |= zip(numbers, responses, strict=True)
        return [answers[number] for number in range(len(prompts))]

    def policies(self) -> list[int]:
        """Return the agent by which each policy is known: all agents, or the first of each base."""
        policies = {self.policy_of(agent) for agent in range(self.size)}
        return sorted(policies)

    def policy_of(self, agent: int) -> int:
        """Return the agent by which an agent's policy is known."""
        return self.base_of[agent].policy_of[agent]

    def parameters_of(self, agent: int) -> list[nn.Parameter]:
        return self.base_of[agent].parameters_of(agent)

    def score(
        self,
        rows: list[Row],
        sampling: Sampling,
        backward: Callable | None = None,
        frozen: bool = False,
    ) -> None:
        """Score responses base by base; see policies/logprobs.py."""
        for base in self.bases:
            base_rows = [row for row in rows if row.agent in base.agents]
            base.score(base_rows, sampling, backward, frozen)
