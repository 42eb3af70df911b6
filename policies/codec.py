"""Prompts as token ids, and responses as texts: the tokenizer, the chat template, what ends a text.

Only the chat template makes control tokens. A prompt is never cut.
"""

import bisect
import functools
import math
import re
from collections.abc import Sequence
from datetime import datetime

from jinja2 import TemplateError
from transformers.utils.chat_template_utils import _compile_jinja_template

from policies import Mistake

Prompt = str | list[dict]  # a text, or the messages of a chat


class TooLong(Mistake):
    """Say that a prompt does not fit."""


class Codec:
    """Encode the prompts of a model, and decode its responses."""

    def __init__(self, model, tokenizer, template_args: dict):
        config = model.config.get_text_config()
        self.tokenizer = tokenizer
        # Tokens that a prompt and its response may have together: the model's positions limit them.
        self.context = getattr(config, "max_position_embeddings", None) or math.inf
        self.eos = eos_tokens(model, tokenizer)
        self.stops: list[str] = []  # texts that end a response, too
        self.template_args = template_args  # what the chat template gets beside the messages
        self.date = datetime.now()  # what the chat template sees as today
        self.raw = False  # whether a prompt came without the chat template

    def encode(
        self, prompt: Prompt, chat: bool, limit: int, room: int = 0, begun: str = ""
    ) -> tuple[int, ...]:
        """Return a prompt's token ids. Raise ValueError where the prompt cannot be used whole.

        The error is TooLong if the prompt does not fit into `limit`, or with `room` new tokens into
        the model's context. `begun` is the beginning of the answer. It ends the prompt.
        """
        ids = self.ids(prompt, chat, begun)
        if len(ids) > min(limit, self.context - room):
            raise TooLong(
                f"a prompt has {len(ids)} tokens and --max-prompt-tokens is {limit}, and with "
                f"--max-new-tokens {room} it has to fit the model's context of {self.context}; "
                f"prompts are never cut: raise the limit or drop the item ({prompt!r:.60}...)"
            )
        if not ids:
            raise Mistake(f"a prompt has no token: {prompt!r}")
        return tuple(ids)

    def ids(self, prompt: Prompt, chat: bool, begun: str = "") -> list[int]:
        """Return a prompt's token ids. They end with EOS only where the template does.

        The chat template renders messages, and with `chat` also a text, as the user's message. A
        text that spells a control token is ordinary text, so that nobody can write into another's
        role. A prompt after which the tokenizer adds EOS (add_eos_token) would already be answered.
        """
        messages = prompt
        if isinstance(prompt, str):
            if not chat:
                self.raw = True
                text = prompt
                if begun:
                    text = f"{prompt}\n\n{begun}"
                ids = self.literal(text)
                while ids and ids[-1] in self.eos:
                    ids.pop()
                return ids
            messages = [{"role": "user", "content": prompt}]
        elif not isinstance(prompt, list):
            raise Mistake(
                f"a prompt has to be a text or a list of chat messages, not {prompt!r:.60}"
            )
        if not self.tokenizer.chat_template:
            raise Mistake(
                "--chat-template, or a prompt of chat messages: the model has no chat template: "
                "give --no-chat-template, or take the instruction-tuned model"
            )
        try:
            template = _compile_jinja_template(self.tokenizer.chat_template)  # it is cached
            template.globals["strftime_now"] = self.date.strftime
            ids = self.tokenizer.apply_chat_template(
                messages,
                add_generation_prompt=True,
                return_dict=False,
                sanitize_control_tokens=bool(self.added_tokens.search(str(messages))),
                **self.template_args,
            )
        except TemplateError as error:  # of roles that the model does not know, for example
            raise Mistake(
                f"the model's chat template refuses a prompt: {error} ({messages!r:.200})"
            ) from error
        return ids + self.literal(begun, add_special_tokens=False)

    def literal(self, text: str, **options) -> list[int]:
        """Return a text's token ids. Special tokens that it spells are ordinary text."""
        return self.tokenizer(text, split_special_tokens=True, **options)["input_ids"]

    @functools.cached_property
    def added_tokens(self) -> re.Pattern:
        """Return a pattern of what may be a control token. To look for each in detail is slow."""
        texts = map(re.escape, self.tokenizer.get_added_vocab())
        return re.compile("|".join(texts))

    def end_at(self, stop: str | Sequence[str]) -> None:
        """Let responses end with the first token that completes one of these texts, too."""
        texts = stop
        if isinstance(stop, str):
            texts = [stop]
        self.stops = [text for text in texts if text]

    def before_stop(self, text: str, begun: int) -> str:
        """Return a text before a stop text, which may begin in the first `begun` characters."""
        for stop in self.stops:
            first = max(begun - len(stop) + 1, 0)
            place = text.find(stop, first)
            if place >= 0:
                text = text[:place]
        return text

    def is_stopped(self, tokens: list[int], begun: str) -> bool:
        """Return whether a stop text ends in a response's text, which goes on from `begun`."""
        if not self.stops:
            return False
        text = begun + self.text_of(tokens)
        return self.before_stop(text, len(begun)) != text

    def end_of(self, tokens: list[int], begun: str) -> int | None:
        """Return how many tokens a response has: up to the first that ends it. None: none does."""

        def is_over(count: int) -> bool:
            first = tokens[:count]
            return not self.eos.isdisjoint(first) or self.is_stopped(first, begun)

        size = bisect.bisect_left(range(len(tokens) + 1), True, key=is_over)
        if size > len(tokens):
            return None
        return size

    def text_of(self, response: list[int]) -> str:
        """Return a response's text, a text that ends it included.

        Special tokens are part of it, except end-of-sequence tokens and padding. Decoders like
        Llama 2's strip the first space of a text, and a response follows a prompt. So it is decoded
        after a letter, which is then cut off.
        """
        silent = {*self.eos, self.tokenizer.pad_token_id}
        tokens = [token for token in response if token not in silent]
        text = self.decode([*self.letter, *tokens])
        return text[len(self.decode(self.letter)) :]

    def decode(self, tokens: list[int]) -> str:
        # A clean-up would take the space of "x != y".
        return self.tokenizer.decode(tokens, clean_up_tokenization_spaces=False)

    @functools.cached_property
    def letter(self) -> list[int]:
        return self.tokenizer("x", add_special_tokens=False)["input_ids"]


def as_text(prompt: Prompt) -> str:
    """Return what an agent was asked, with the roles of a chat's messages."""
    if isinstance(prompt, str):
        return prompt
    return "\n".join(f"[{message['role']}] {message.get('content')}" for message in prompt)


def eos_tokens(model, tokenizer) -> frozenset[int]:
    """Return all tokens that end a response: the checkpoint's, tokenizer's and template's."""
    ids = model.generation_config.eos_token_id
    if not isinstance(ids, list):
        ids = [ids]
    ids = frozenset([*ids, tokenizer.eos_token_id, turn_end(tokenizer)]) - {None}
    if not ids:
        raise Mistake("the model has no end-of-sequence token: set eos_token in its tokenizer")
    return ids


def turn_end(tokenizer) -> int | None:
    """Return the token that ends the assistant's turn in the chat template, None without one.

    A checkpoint may not name it as an end. The model's text would then run on.
    """
    if not tokenizer.chat_template:
        return None
    answer = "The answer is here."
    chat = [{"role": "user", "content": "Question?"}, {"role": "assistant", "content": answer}]
    try:
        text = tokenizer.apply_chat_template(chat, tokenize=False)
    except Exception:  # of a model's own template, which may never be used: many kinds
        return None
    rest = text.partition(answer)[2]
    added = tokenizer.added_tokens_decoder
    for token in tokenizer(rest, add_special_tokens=False)["input_ids"]:
        if token in added and not added[token].content.isspace():
            return token
    return None
