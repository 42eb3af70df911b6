"""Prompts as tokens and responses as texts, with tokenizers of several kinds, made here:
python -m pytest tests/test_codec.py"""

import logging
import random

import pytest
import tokenizers
import transformers
from helpers import small_base
from test_policies import embedded_tokenizer
from tokenizers import AddedToken, decoders
from tokenizers.models import Unigram, WordLevel
from tokenizers.pre_tokenizers import Metaspace, Whitespace
from tokenizers.processors import TemplateProcessing

from policies import Mistake
from policies.codec import as_text, turn_end
from policies.loading import load_model
from policies.model_names import EMBEDDED
from tasks import below

ROLES = ["<|user|>", "<|system|>", "<|end|>"]  # added, and not special
BYTES = [f"<0x{number:02X}>" for number in range(256)]


def finished(model, **names):
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=model, **names)
    tokenizer.add_tokens([AddedToken(role, special=False, rstrip=True) for role in ROLES])
    return tokenizer


def unigram(scheme):
    """Like T5's and Llama 2's: </s> is a piece, and what has no piece is bytes."""
    letters = [(chr(number), -4.0) for number in range(33, 127)]
    words = [("▁the", -2.0), ("▁x", -2.0), ("xd", -1.0), ("\nthe", -1.0), ("at", -2.0)]
    pieces = [("</s>", 0.0), ("<unk>", 0.0), ("<s>", 0.0), ("▁", -3.0), *letters, *words]
    pieces += [(byte, -9.0) for byte in BYTES]
    model = tokenizers.Tokenizer(Unigram(pieces, 1, byte_fallback=True))
    model.pre_tokenizer = Metaspace(prepend_scheme=scheme)
    space = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    model.decoder = decoders.Sequence([*space, decoders.Strip(" ", 1, 0)])
    ends = [("<s>", 2), ("</s>", 0)]
    model.post_processor = TemplateProcessing("<s> $A </s>", special_tokens=ends)
    return finished(model, eos_token="</s>", bos_token="<s>", unk_token="<unk>")


def words():
    names = ["<unk>", "</s>", "x", "the", "cat", "."]
    model = WordLevel({name: number for number, name in enumerate(names)}, "<unk>")
    model = tokenizers.Tokenizer(model)
    model.pre_tokenizer = Whitespace()
    return finished(model, eos_token="</s>", unk_token="<unk>")


def byte_level():
    tokenizer = embedded_tokenizer("</s>")
    tokenizer.add_tokens(ROLES)
    return tokenizer


MAKERS = {
    "bytes": byte_level,
    "first": lambda: unigram("first"),
    "always": lambda: unigram("always"),
    "words": words,
}


def codec_of(tokenizer):
    codec = small_base().codec
    codec.tokenizer = tokenizer
    codec.eos = frozenset({tokenizer.eos_token_id})
    return codec


@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize(
    "text",
    ["the cat", " the cat", "\nthe", "ab</s>cd", "cat</s>", "<|user|>  x<|end|>", "é漢", "d.", ""],
)
def test_a_text_stays_what_it_is_wherever_it_stands(kind, text):
    codec = codec_of(MAKERS[kind]())
    later = codec.literal(text)
    first = codec.ids(text, False)
    opening = [2] if kind in ("first", "always") else []  # <s>
    assert first[: len(opening)] == opening
    controls = {*codec.tokenizer.get_added_vocab().values()} - {codec.tokenizer.unk_token_id}
    assert not controls & {*later, *first[len(opening) :]}
    if kind == "words":
        assert text != "the cat" or later == first == [3, 4]
        return
    assert codec.text_of(later) == text
    written = codec.text_of(first[len(opening) :])
    assert written.removeprefix(" " * (kind != "bytes")) == text.removeprefix(
        " " * (kind != "bytes")
    )


def test_a_letter_that_is_also_the_padding_is_a_letter():
    codec = codec_of(byte_level())
    want = codec.ids("banana", False)
    codec.tokenizer.pad_token = "a"
    assert codec.ids("banana", False) == want
    assert codec.text_of(want) == "banana"


def test_a_text_that_becomes_a_control_token_and_does_not_spell_it_is_refused():
    codec = codec_of(unigram("first"))
    codec.tokenizer.backend_tokenizer.normalizer = tokenizers.normalizers.NFKC()
    with pytest.raises(Mistake, match="becomes a control token"):
        codec.ids("a</s\N{FULLWIDTH GREATER-THAN SIGN}b", False)


@pytest.mark.parametrize("kind", ["bytes", "first"])
def test_a_response_ends_at_the_first_token_that_ends_it_whatever_follows(kind):
    """Bytes make characters, and more of them may break what was one; the spans join."""
    numbers = random.Random(0)
    codec = codec_of(MAKERS[kind]())
    pieces = [codec.literal(text) for text in ("é", "漢", "at", "\n\n", " ")]
    tokens_of_bytes = sorted(codec.bytes) or range(2, 200)
    for _ in range(300):
        tokens = []
        while len(tokens) < 12:
            tokens += numbers.choice([*pieces, *[[numbers.choice(tokens_of_bytes)]] * 3])
        codec.end_at([numbers.choice(["é", "漢", "a", "\n\n", "é漢"])])
        begun = numbers.choice(["", "\n"])
        expected = None
        for size in range(len(tokens), 0, -1):
            text = begun + codec.text_of(tokens[:size])
            if codec.before_stop(text, len(begun)) != text:
                expected = size
        assert codec.end_of(tokens, begun) == expected
        for look in (1, 5):
            seen = list(range(0, len(tokens), look))
            ends = zip(seen, [*seen[1:], len(tokens)], strict=True)
            sizes = [codec.end_of(tokens[:end], begun, start) for start, end in ends]
            assert next(filter(None, sizes), None) == expected
        text = codec.text_of(tokens)
        spans = codec.spans(tokens)
        assert "".join(text[start:end] for start, end in spans) == text
        assert [start for start, _ in spans] == [0, *[end for _, end in spans[:-1]]]


@pytest.mark.parametrize("kind", ["bytes", "first"])
def test_a_character_belongs_to_the_token_that_completes_it(kind):
    codec = codec_of(MAKERS[kind]())
    text = "x漢漢 the é"
    tokens = [*codec.literal(text), codec.tokenizer.eos_token_id]
    start = 0
    for size, span in enumerate(codec.spans(tokens), 1):
        written = codec.text_of(tokens[:size]).rstrip("\ufffd")
        end = max(start, len(written))  # more bytes may break what was a character
        assert span == (start, end)
        start = end


LOOP = "{{% for m in messages %}}<|user|>{}<|end|>{{% endfor %}}"
CHAT = [{"role": "system", "content": "Be\nbrief."}, {"role": "user", "content": " a </s>\n"}]
TEXT = "<|user|>Be\nbrief.<|end|><|user|> a </s>\n<|end|>"


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        ("{{ m.content }}", TEXT),
        ("{% for part in m.content %}{{ part.text }}{% endfor %}", TEXT),
        ("{{ m.content[0].text + '' }}", TEXT),  # a text raises
        (
            "{% if m.role == 'user' %}{{ m.content[0].text }}{% else %}{{ m.content }}{% endif %}",
            TEXT,
        ),
        ("{{ m.content | tojson }}", '<|user|>"Be\\nbrief."<|end|><|user|>" a </s>\\n"<|end|>'),
        ("{% if m.role == 'user' %}{{ m.content }}{% endif %}", "drops a message .*brief"),
        ("{{ m.content.split()[0] }}", "drops a message .*brief"),
        ("{{ raise_exception('no') }}", "refuses a prompt: no"),
    ],
)
def test_every_message_stands_in_the_prompt(body, shown):
    """Given as a text or in parts, of a template that wants a text or parts, of several templates
    the default one."""
    tokenizer = byte_level()
    template = LOOP.format(body)
    tokenizer.chat_template = {"default": template, "tool_use": "{{ tools }}"}
    codec = codec_of(tokenizer)
    parts = []
    for message in CHAT:
        cut = [{"type": "text", "text": part} for part in message["content"].partition("s")]
        parts.append(message | {"content": cut})
    for chat in (CHAT, parts):
        if shown.startswith("<"):
            ids = codec.ids(chat, True)
            assert tokenizer.decode(ids) == shown
            assert tokenizer.convert_tokens_to_ids("</s>") not in ids
            assert codec.template == template
        else:
            with pytest.raises(Mistake, match=shown):
                codec.ids(chat, True)
    if shown == TEXT:
        assert turn_end(tokenizer) == tokenizer.convert_tokens_to_ids("<|end|>")
    with pytest.raises(Mistake, match="has to be text"):
        codec.ids([{"role": "user", "content": [{"type": "image"}]}], True)


def test_a_baseline_shows_a_text_above_a_message_in_parts():
    parts = [{"role": "user", "content": [{"type": "text", "text": "b"}]}]
    text = [{"role": "user", "content": "b"}]
    assert as_text(below("a", parts)) == as_text(below("a", text)) == "[user] a\n\nb"


def test_what_a_tokenizer_is_warned_of_is_one_line(monkeypatch, capsys):
    """Although the programs keep the library quiet."""
    load = transformers.AutoTokenizer.from_pretrained

    def load_and_warn(name):
        logging.getLogger("transformers.tokenization_utils_tokenizers").warning("a wrong\nregex")
        return load(name)

    monkeypatch.setattr(transformers.AutoTokenizer, "from_pretrained", load_and_warn)
    transformers.utils.logging.set_verbosity_error()
    load_model(str(EMBEDDED), 32)
    assert capsys.readouterr().err == "warning: a wrong regex\n"
    assert transformers.utils.logging.get_verbosity() == logging.ERROR
