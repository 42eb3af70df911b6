"""The judge: a frozen language model that a reward asks for the likelihood of texts."""

from dataclasses import replace

import numpy as np
import torch

from policies.loading import device, load_base
from policies.logprobs import Row
from policies.memory import halving
from policies.model_names import TeamOptions
from policies.sampling import Sampling
from policies.shared_model import SharedModel
from policies.team import Team

PLAIN = Sampling(temperature=1.0, top_k=0, top_p=1.0, max_new_tokens=0)


class LikelihoodModel:
    """Answer questions (prompt, text) in batches, without gradients, by the scoring of the update.

    A prompt is run once for all of its texts. chat: prompts are wrapped in the chat template.
    """

    def __init__(self, base: SharedModel, chat: bool):
        self.base = base
        self.chat = chat

    def __call__(self, questions: list[tuple[str, str]]) -> list[np.ndarray]:
        """Return log-probabilities (T,) of each text's tokens, without an end-of-sequence token."""
        rows = [self.row(*question) for question in questions]
        for row in rows:
            size = len(row.prompt) + len(row.tokens)
            if size > self.base.context:
                raise ValueError(
                    f"a reward asks of {size} tokens, and the context of the model that it asks "
                    f"is {self.base.context}: take shorter items, or another --judge"
                )
        full_rows = [row for row in rows if row.tokens]
        halving([self.base], lambda: self.base.score(full_rows, PLAIN, frozen=True))
        return [row.scored.cpu().double().numpy() for row in rows]

    def row(self, prompt: str, text: str) -> Row:
        ids = self.base.ids(prompt, self.chat)
        tokens = self.base.literal(text, add_special_tokens=False)
        opening = [min(self.base.eos)] * (2 - len(ids))  # before a text without a prompt
        prompt_ids = (*opening, *ids)
        return Row(self.base.agents[0], prompt_ids, tokens, scored=torch.zeros(0))


def load_judge(name: str, team: TeamOptions, chat: bool) -> LikelihoodModel:
    """Load a model to ask, with the bits and the template arguments of a team."""
    base = load_base(name, [0], replace(team, lora_rank=0))
    base.requires_grad_(False)
    return LikelihoodModel(base.to(device()), chat)


def make_judge(name: str | None, team: Team, chat: bool) -> LikelihoodModel:
    """Return the model of --judge, or the frozen base of the team's first agent."""
    if name:
        return load_judge(name, team.options, chat)
    if team.options.lora_rank:
        return LikelihoodModel(team.bases[0], chat)
    raise ValueError(
        "this reward asks a language model, and --lora-rank 0 leaves no frozen one: "
        "name one with --judge"
    )
