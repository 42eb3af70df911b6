"""The team: agents with the same model share one frozen base, each with its own adapter.

The policies sampled here are those scored here, so an ablation must leave this file as it is.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

import torch
from torch import Tensor, nn

from policies import Mistake, processes
from policies.decoding import Ask, Response, decode
from policies.loading import load_base, mean_gap
from policies.logprobs import Row, gaps, score
from policies.model_names import TeamOptions
from policies.sampling import Sampling
from policies.shared_model import NOISE_16, PROBED, SharedModel


class Team(nn.Module):
    """The n agents of a run, with new adapters.

    With `share` the agents of one base are one policy, with one adapter or as one full copy.
    """

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

    def set_date(self, date: str) -> None:
        """Set the date that chat templates see, in ISO's format."""
        for base in self.bases:
            base.codec.date = datetime.fromisoformat(date)

    def sample(
        self, asks: Sequence[tuple], uniforms: Tensor, sampling: Sampling
    ) -> list[list[Response]]:
        """Sample S responses to each of the (agent, prompt), decoded together base by base.

        Only the uniforms (len(asks), S, T) in [0, 1) decide the tokens. (agent, prompt, begun):
        the answer has a given beginning, with which its prompt ends and its text begins.
        """
        answers: dict[int, list[Response]] = {}
        for base in self.bases:
            numbers: list[int] = []  # of its prompts, by agent
            for agent in base.agents:
                numbers += [n for n, ask in enumerate(asks) if ask[0] == agent]
            base_asks = [Ask(*asks[number]) for number in numbers]
            responses = decode(base, base_asks, uniforms[numbers], sampling)
            answers |= zip(numbers, responses, strict=True)
        return [answers[number] for number in range(len(asks))]

    @property
    def engine(self):
        """Return a server that samples (policies/engine.py). All bases have one, or none has."""
        return self.bases[0].engine

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
            score(base, base_rows, sampling, backward, frozen)

    def compare(self, rows: list[Row]) -> None:
        """Raise Mistake if rows were scored with other log-probabilities than sampled with.

        Rounding explains a mean difference within the base's tolerance. The mean over a few tokens
        varies more. Equal responses round alike, so they are one.
        """
        for base in self.bases:
            distinct = {}
            for row in rows:
                if row.agent in base.agents:
                    distinct[row.agent, row.prompt, *row.tokens] = row
            shares = processes.gather(gaps([*distinct.values()]))  # so that all decide the same
            differences = torch.cat(shares).abs()
            # A mixed precision was not there yet when the noise was measured.
            if torch.is_autocast_enabled(base.device.type) and base.noise < NOISE_16:
                base.noise = max(NOISE_16, mean_gap(base))
            if not len(differences):
                continue
            gap = differences.mean()
            tolerance = base.tolerance * max(PROBED / len(differences), 1.0) ** 0.5
            if not gap <= tolerance:
                sampler = type(base.net).__name__
                if base.engine:
                    sampler = f"the engine at {base.engine.url}"
                raise Mistake(
                    f"{sampler} samples with log-probabilities that are {gap:.2g} nats off those "
                    f"of the update, and rounding explains {tolerance:.2g}"
                )
