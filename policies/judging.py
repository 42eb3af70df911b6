"""The answers to a reward's questions: how likely the frozen base finds texts."""

import numpy as np

from policies.logprobs import Row, score
from policies.memory import halving
from policies.sampling import Sampling
from policies.shared_model import SharedModel

PLAIN = Sampling(temperature=1.0, top_k=0, top_p=1.0, max_new_tokens=0)


def likelihoods(
    base: SharedModel, questions: list[tuple[str, str]], chat: bool = False
) -> list[np.ndarray]:
    """Return log-probabilities (T,) of the tokens of each (prompt, text), without an EOS token.

    They are scored in batches, without gradients, by the scoring of the update. A prompt is run
    once for all of its texts. chat: prompts are wrapped in the chat template.
    """
    rows = []
    for prompt, text in questions:
        ids = base.codec.ids(prompt, chat)
        tokens = base.codec.literal(text, add_special_tokens=False)
        opening = [min(base.codec.eos)] * (2 - len(ids))  # before a text without a prompt
        size = len(opening) + len(ids) + len(tokens)
        if size > base.codec.context:
            raise ValueError(
                f"a reward asks of {size} tokens, and the context of the model that it asks is "
                f"{base.codec.context}: take shorter items"
            )
        whole_prompt = (*opening, *ids)
        rows.append(Row(base.agents[0], whole_prompt, tokens))
    halving([base], lambda: score(base, rows, PLAIN, frozen=True))
    return [row.scored.cpu().double().numpy() for row in rows]
