"""The answers to a reward's questions: how likely the frozen base finds texts."""

from policies import Mistake
from policies.logprobs import Row, score
from policies.memory import halving
from policies.sampling import Sampling
from policies.shared_model import SharedModel

PLAIN = Sampling(temperature=1.0, top_k=0, top_p=1.0, max_new_tokens=0)


def likelihoods(base: SharedModel, questions: list[tuple], chat: bool = False) -> list:
    """Return the log-probabilities (T,) of the text's tokens of each (prompt, text), without EOS.

    They are scored in batches, without gradients, by the scoring of the update. An equal question
    is scored once, and a prompt is run once for all of its texts. chat: prompts are wrapped in the
    chat template.
    """
    codec = base.codec
    rows = {}
    for prompt, text in dict.fromkeys(questions):
        ids = codec.ids(prompt, chat) or [min(codec.eos)]  # before a text without a prompt
        row = Row(base.agents[0], tuple(ids), codec.literal(text))
        if row.size > codec.context:
            raise Mistake(
                f"a reward asks of {row.size} tokens, and the context of the model that it asks is "
                f"{codec.context}: take shorter items"
            )
        rows[prompt, text] = row
    halving([base], lambda: score(base, list(rows.values()), PLAIN, frozen=True))
    return [rows[question].scored.cpu().double().numpy() for question in questions]
