"""Prompts as token ids, and responses as texts: the tokenizer, the chat template, what ends a text.

Only the chat template makes control tokens. A prompt is never cut.
"""

import functools
import itertools
import math
from collections.abc import Sequence
from datetime import datetime

from jinja2 import TemplateError
from transformers.utils.chat_template_utils import _compile_jinja_template

from policies import Mistake

Prompt = str | list[dict]  # a text, or the messages of a chat

START = ("",)  # what is before the beginning of a prompt
BEFORE = ("x", "\n", ".", "0", "")  # texts after one of which another is encoded
# Noncharacters, which no text has.
MARK = "\ufdd0"  # where a text is cut before it is encoded
END = "\ufdd1"  # the end of a message's text
BROKEN = "\ufffd"  # what decoders write for a part of a character


class TooLong(Mistake):
    """Say that a prompt does not fit."""


class Codec:
    """Encode the prompts of a model, and decode its responses."""

    def __init__(self, model, tokenizer, template_args: dict):
        config = model.config.get_text_config()
        self.tokenizer = tokenizer
        # Tokens that a prompt and its response may have together: the model's positions limit them,
        # and long-rope's original length. Beyond it all tokens are turned by other angles, also the
        # ones that were sampled before.
        self.context = getattr(config, "max_position_embeddings", None) or math.inf
        rotation = getattr(config, "rope_parameters", None) or {}
        if rotation.get("rope_type") == "longrope":
            self.context = rotation["original_max_position_embeddings"]
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
        if isinstance(prompt, str) and not chat:
            self.raw = True
            text = prompt
            if begun:
                text = f"{prompt}\n\n{begun}"
            return self.opening + self.literal(text, START)
        if isinstance(prompt, str):
            prompt = [{"role": "user", "content": prompt}]
        try:
            messages = [message | {"content": content_of(message)} for message in prompt]
        except (AttributeError, KeyError, TypeError) as error:
            raise Mistake(
                "a prompt has to be a text or a list of chat messages whose content is text, not "
                f"{prompt!r:.200}"
            ) from error
        if not self.template:
            raise Mistake(
                "--chat-template, or a prompt of chat messages: the model has no chat template, or "
                "several without a default: give --no-chat-template, or take the instruction-tuned "
                "model"
            )
        for message in messages:
            for name, text in message.items():
                message[name] = self.guarded(text)
        options = {"add_generation_prompt": True, **self.template_args}
        text = render(self.tokenizer, messages, self.date, **options)
        return self.pieces(text, False, START) + self.literal(begun)

    def literal(self, text: str, before: Sequence[str] = BEFORE) -> list[int]:
        """Return a text's token ids, none of them a control token. before: see BEFORE."""
        return self.pieces(self.guarded(text), True, before)

    def guarded(self, text: str) -> str:
        """Return a text with cuts in what it spells of control tokens.

        So a spelling is encoded by characters. Raise Mistake where a token has another spelling.
        """
        try:
            text.encode()  # no tokenizer takes half of a surrogate pair
        except (AttributeError, UnicodeError) as error:
            raise Mistake(f"a prompt has to hold texts in Unicode, not {text!r:.200}") from error
        while tokens := self.controls.keys() & self.plain(text, split=False):
            spelling = self.controls[min(tokens)]
            if spelling not in text:
                raise Mistake(f"a text becomes a control token of the model: {text!r:.200}")
            text = text.replace(spelling, MARK.join(spelling))
        return text

    def pieces(self, text: str, split: bool, before: Sequence[str]) -> list[int]:
        """Return the token ids of a text with cuts."""
        ids = []
        for piece in text.split(MARK):
            ids += self.continued(piece, split, before)
            before = BEFORE
        return ids

    def plain(self, text: str, split: bool) -> list[int]:
        """Return a text's token ids. split: special tokens that it spells are ordinary text."""
        batch = self.tokenizer(text, add_special_tokens=False, split_special_tokens=split)
        return batch["input_ids"]

    def continued(self, text: str, split: bool, texts_before: Sequence[str]) -> list[int]:
        """Return the token ids of a text before which something stands.

        Tokenizers like Llama 2's put a space before the beginning of a text. So it is encoded after
        another, whose tokens are cut off. These have to be the first tokens: then the others are of
        this text alone, and as they are without a beginning. Nothing ("") always is such a text.
        """
        for before in texts_before:
            first = self.plain(before, True)
            ids = self.plain(before + text, split)
            if before in self.decode(first) and ids[: len(first)] == first:
                break
        return ids[len(first) :]

    @property
    def template(self) -> str:
        """Return the chat template, of several the default one, or "" without one."""
        template = self.tokenizer.chat_template
        if isinstance(template, dict):
            template = template.get("default")
        return template or ""

    @functools.cached_property
    def controls(self) -> dict[int, str]:
        """Return the tokens that no text may become, with their spellings: added ones, and ends.

        White space and single characters are ordinary text, even where a tokenizer has added them.
        """
        added = {*self.tokenizer.added_tokens_decoder} - {self.tokenizer.unk_token_id}
        spellings = {token: self.decode([token]) for token in added | self.eos}
        return {token: text for token, text in spellings.items() if len(text.strip()) > 1}

    @functools.cached_property
    def opening(self) -> list[int]:
        """Return the tokens that the tokenizer puts before a text, such as BOS."""
        ids = self.tokenizer("x")["input_ids"]
        return ids[: ids.index(self.letter[0])]

    @functools.cached_property
    def letter(self) -> list[int]:
        return self.plain("x", True)

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

    def end_of(self, tokens: list[int], begun: str, seen: int = 0) -> int | None:
        """Return how many tokens a response has: up to the first that ends it. None: none does.

        None of the first `seen` tokens does. Tokens after an end may hide it, because more bytes
        can make a run of them invalid. So where the text shows an end or a broken character, the
        first half of the tokens is searched alone.
        """
        text = ""
        if self.stops:
            text = begun + self.text_of(tokens)
        is_stopped = self.before_stop(text, len(begun)) != text
        has_ended = is_stopped or not self.eos.isdisjoint(tokens[seen:])
        if not has_ended and BROKEN not in text:
            return None
        size = len(tokens)
        if size - seen < 2:
            return size if has_ended else None
        half = (seen + size) // 2
        return self.end_of(tokens[:half], begun, seen) or self.end_of(tokens, begun, half)

    def text_of(self, response: list[int]) -> str:
        """Return a response's text, a text that ends it included.

        Special tokens are part of it, except end-of-sequence tokens. Decoders like Llama 2's strip
        the first space of a text, and a response follows a prompt. So it is decoded after a letter,
        which is then cut off.
        """
        tokens = [token for token in response if token not in self.eos]
        text = self.decode([*self.letter, *tokens])
        return text[len(self.decode(self.letter)) :]

    def spans(self, response: list[int]) -> list[tuple[int, int]]:
        """Return the characters (start, end) of `text_of` that each token of a response wrote.

        A character that several tokens make belongs to the one that completes it. The spans follow
        each other from 0 to the text's end. Ends of a sequence write nothing.
        """
        text = self.text_of(response)
        ends = [0]
        for size in range(1, len(response) + 1):
            end = ends[-1]
            written = self.text_of(response[:size]).rstrip(BROKEN)
            if text.startswith(written):
                end = max(end, len(written))
            ends.append(end)
        ends[-1] = len(text)
        return list(itertools.pairwise(ends))

    def decode(self, tokens: list[int]) -> str:
        # A clean-up would take the space of "x != y".
        return self.tokenizer.decode(tokens, clean_up_tokenization_spaces=False)


def content_of(message: dict) -> str:
    """Return the text of a message, which may be given in parts."""
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    return "".join(part["text"] for part in content)


def in_parts(text: str) -> list[dict]:
    """Return the content of a message as templates of models that also see pictures take it."""
    return [{"type": "text", "text": text}]


def render(tokenizer, messages: list[dict], date: datetime, **options) -> str:
    """Return a chat as the tokenizer's template writes it, with the text of each message in it.

    A template takes a message's text, or a list of parts. Raise Mistake where it writes neither: a
    mark at the end of each text is then not in the prompt.
    """
    template = _compile_jinja_template(tokenizer.get_chat_template())  # it is cached
    template.globals["strftime_now"] = date.strftime
    write = functools.partial(tokenizer.apply_chat_template, tokenize=False, **options)
    faults = []
    for form in (str, in_parts):
        chat = [message | {"content": form(message["content"])} for message in messages]
        marked = [message | {"content": form(message["content"] + END)} for message in messages]
        try:
            text = write(chat)
            written = write(marked).count(END)
        except (TemplateError, TypeError, ValueError) as error:  # of an unknown role, for example
            faults.append(f"refuses a prompt: {error}")
            continue
        if written >= len(messages):
            return text
        faults.append("drops a message")
    raise Mistake(f"the model's chat template {faults[0]} ({messages!r:.200})")


def as_text(prompt: Prompt) -> str:
    """Return what an agent was asked, with the roles of a chat's messages."""
    if isinstance(prompt, str):
        return prompt
    return "\n".join(f"[{message.get('role')}] {content_of(message)}" for message in prompt)


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
    answer = "The answer is here."
    chat = [{"role": "user", "content": "Question?"}, {"role": "assistant", "content": answer}]
    try:
        text = render(tokenizer, chat, datetime.now())
    except Exception:  # of a model's own template, which may never be used: many kinds
        return None
    rest = text.partition(answer)[2]
    added = tokenizer.added_tokens_decoder
    for token in tokenizer(rest, add_special_tokens=False)["input_ids"]:
        if token in added and not added[token].content.isspace():
            return token
    return None
