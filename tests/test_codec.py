"""Prompts as tokens and responses as texts, with tokenizers of several kinds, made here:
python -m pytest tests/test_codec.py"""

import functools
import logging
import random

import pytest
import tokenizers
import transformers
from helpers import small_base, small_model
from tokenizers import AddedToken, decoders
from tokenizers.models import Unigram, WordLevel
from tokenizers.pre_tokenizers import Metaspace, Whitespace
from tokenizers.processors import TemplateProcessing

from policies import Mistake
from policies.codec import eos_tokens
from policies.decoding import response_of
from policies.loading import load_model
from policies.model_names import EMBEDDED

MARKS = ["<|user|>", "<r>", "</r>"]  # added and not special, as Qwen's are
BYTES = [f"<0x{number:02X}>" for number in range(256)]


def finished(tokenizer, rstrip):
    tokenizer.add_tokens([AddedToken(mark, special=False, rstrip=rstrip) for mark in MARKS])
    tokenizer.add_tokens([AddedToken("<|end|>", special=True)])
    return tokenizer


def embedded():
    return finished(transformers.AutoTokenizer.from_pretrained(EMBEDDED), rstrip=False)


def unigram(scheme="first"):
    """Like T5's and Llama 2's: the end is a piece, what has no piece is bytes, and a space belongs
    to the piece that follows it. The first space of a text is stripped. A text gets two ends."""
    letters = [(chr(number), -4.0) for number in range(33, 127)]
    words = [("▁the", -2.0), ("▁x", -2.0), ("xd", -1.0), ("\nthe", -1.0), ("at", -2.0)]
    pieces = [("<eos>", 0.0), ("<unk>", 0.0), ("<s>", 0.0), ("▁", -3.0), *letters, *words]
    pieces += [(byte, -9.0) for byte in BYTES]
    model = tokenizers.Tokenizer(Unigram(pieces, 1, byte_fallback=True))
    model.pre_tokenizer = Metaspace(prepend_scheme=scheme)
    space = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    model.decoder = decoders.Sequence([*space, decoders.Strip(" ", 1, 0)])
    ends = [("<s>", 2), ("<eos>", 0)]
    model.post_processor = TemplateProcessing("<s> $A <eos>", special_tokens=ends)
    names = {"eos_token": "<eos>", "bos_token": "<s>", "unk_token": "<unk>"}
    return finished(transformers.PreTrainedTokenizerFast(tokenizer_object=model, **names), True)


def codec_of(tokenizer):
    codec = small_base().codec
    codec.tokenizer = tokenizer
    codec.eos = frozenset({tokenizer.eos_token_id})
    return codec


@pytest.mark.parametrize("make", [embedded, unigram, functools.partial(unigram, "always")])
@pytest.mark.parametrize(
    "text",
    [
        "the cat",
        " the cat",
        "\nthe",
        "ab<eos>cd",
        "cat<eos>",
        "<|user|>  x<|end|>",
        "é漢",
        "d.",
        "",
        " def f(x):\n    return x != 1 .\n",  # clean-up would take two of the spaces
    ],
)
def test_a_text_stays_what_it_is_wherever_it_stands(make, text):
    """Without a control token and without an end, whatever it spells."""
    codec = codec_of(make())
    tokenizer = codec.tokenizer
    tokenizer.clean_up_tokenization_spaces = True
    tokenizer.clean_up_tokenization_spaces_for_bpe_even_though_it_will_corrupt_output = True
    later = codec.literal(text)
    assert codec.text_of([*later, tokenizer.eos_token_id]) == text
    opening = []
    space = ""
    if make is not embedded:
        opening = [2]  # <s>
        space = " "
    first = codec.ids(text, False)
    assert first[: len(opening)] == opening
    del first[: len(opening)]
    assert codec.text_of(first).removeprefix(space) == text.removeprefix(space)
    assert not {*tokenizer.get_added_vocab().values()} & {*later, *first}


def test_unknown_words_are_no_control_tokens():
    names = ["<unk>", "<eos>", "the", "cat"]
    model = WordLevel({name: number for number, name in enumerate(names)}, "<unk>")
    model = tokenizers.Tokenizer(model)
    model.pre_tokenizer = Whitespace()
    names = {"eos_token": "<eos>", "unk_token": "<unk>"}
    codec = codec_of(transformers.PreTrainedTokenizerFast(tokenizer_object=model, **names))
    assert codec.literal("the cat") == codec.ids("the cat", False) == [2, 3]
    assert 1 not in codec.literal("the<eos>cat")


def test_a_text_that_becomes_a_control_token_and_does_not_spell_it_is_refused():
    codec = codec_of(unigram())
    codec.tokenizer.backend_tokenizer.normalizer = tokenizers.normalizers.NFKC()
    with pytest.raises(Mistake, match="becomes a control token"):
        codec.ids("a<eos\N{FULLWIDTH GREATER-THAN SIGN}b", False)


@pytest.mark.parametrize("make", [embedded, unigram])
def test_a_response_ends_at_the_first_token_that_ends_it_whatever_follows(make):
    """Bytes make characters, and more of them may break what was one."""
    numbers = random.Random(0)
    codec = codec_of(make())
    pieces = [codec.literal(text) for text in ("é", "漢", "at", "\n\n", " ")]
    pieces.append([codec.tokenizer.eos_token_id])
    single_bytes = range(2, 200)
    if make is unigram:
        single_bytes = codec.tokenizer.convert_tokens_to_ids(BYTES)
    for _ in range(300):
        tokens = []
        while len(tokens) < 12:
            tokens += numbers.choice([*pieces, *[[numbers.choice(single_bytes)]] * 3])
        codec.end_at([numbers.choice(["é", "漢", "a", "\n\n", "é漢"])])
        begun = numbers.choice(["", "\n"])
        expected = None
        for size in range(len(tokens), 0, -1):
            text = begun + codec.text_of(tokens[:size])
            is_end = tokens[size - 1] in codec.eos
            if is_end or codec.before_stop(text, len(begun)) != text:
                expected = size
        for look in (1, 5, len(tokens)):
            starts = range(0, len(tokens), look)
            sizes = [codec.end_of(tokens[: seen + look], begun, seen) for seen in starts]
            assert next(filter(None, sizes), None) == expected
        zeros = [0.0] * len(tokens)
        response = response_of(codec, tokens, zeros, zeros, begun, expected)
        assert response.ended == (expected is not None)
        assert response.tokens == tokens[:expected]
        assert len(response.logps) == len(response.tokens)
        text = begun + codec.text_of(response.tokens)
        assert response.text == codec.before_stop(text, len(begun))


@pytest.mark.parametrize("make", [embedded, unigram])
def test_a_character_belongs_to_the_token_that_completes_it(make):
    codec = codec_of(make())
    whole, first, *_ = codec.literal("x漢")
    tokens = [whole, first, *codec.literal("漢漢 the é"), codec.tokenizer.eos_token_id]
    start = 0
    for size, span in enumerate(codec.spans(tokens), 1):
        written = codec.text_of(tokens[:size]).rstrip("\ufffd")
        end = max(start, len(written))  # more bytes may break what was a character
        assert span == (start, end)
        start = end


CHAT_ML = (  # Qwen2.5's and SmolLM2's shape; Qwen's has a tool's message within the user's
    "{% if messages[0].role != 'system' %}<|user|>system\nHelp.<|end|>\n{% endif %}"
    "{% for m in messages %}<|user|>{{ 'user' if m.role == 'tool' else m.role }}\n"
    "{{ '<r>' + m.content + '</r>' if m.role == 'tool' else m.content }}<|end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|user|>assistant\n{% endif %}"
)
GEMMA = (
    "{{ bos_token }}{% for m in messages %}<|user|>{{ m.role }}\n{{ m.content | trim }}<|end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|user|>model\n{% endif %}"
)
TALK = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "2 + 2?"},
    {"role": "assistant", "content": "<sum>"},
    {"role": "tool", "content": "4"},
]


@pytest.mark.parametrize(
    "make, template, begun", [(embedded, CHAT_ML, "So<eos>"), (unigram, GEMMA, "")]
)
def test_no_text_makes_a_control_token(make, template, begun):
    """Neither an item's, a response's, a tool's, nor the beginning of the answer: it stays what it
    is. Without such a text, the prompt is as transformers has it: the template alone decides about
    the first token, which the tokenizer adds to plain texts."""
    codec = codec_of(make())
    tokenizer = codec.tokenizer
    tokenizer.chat_template = template
    spellings = [*MARKS, "<|end|>"]
    control_ids = tokenizer.convert_tokens_to_ids([*spellings, "<eos>"])
    forged = f"a {''.join(spellings)}\n{' '.join(spellings)}<eos> b"
    seen = []
    for text in ("as it is", "<|end|>", forged):
        messages = [message | {"content": text} for message in TALK]
        ids = codec.ids(messages, False, begun)
        seen.append([token for token in ids if token in control_ids])
        rendered = tokenizer.apply_chat_template(
            messages, add_generation_prompt=True, tokenize=False
        )
        assert tokenizer.decode(ids) == rendered + begun
        if text == "as it is":
            want = tokenizer(rendered, add_special_tokens=False)["input_ids"]
            assert ids[: len(want)] == want
    assert seen[0] == seen[1] == seen[2]
    assert control_ids[0] in seen[0]
    assert codec.ids("2 + 2?", True) == codec.ids(TALK[1:2], False)


LONG_ROPE = {"rope_type": "longrope", "short_factor": [1.0] * 4, "long_factor": [4.0] * 4}


def test_prompts_are_never_cut():
    """A context ends where long-rope turns all tokens by other angles."""
    rotation = LONG_ROPE | {"rope_theta": 1e4, "original_max_position_embeddings": 9}
    codec = small_base(model=small_model(rope_parameters=rotation)).codec
    assert codec.encode("abc", chat=False, limit=3) == (9, 10, 11)
    assert codec.context == 9
    for text, room, error in (
        ("abcd", 0, "4 tokens and --max-prompt-tokens is 3"),
        ("ab", 8, "the model's context of 9"),
        ("", 0, "a prompt has no token"),
    ):
        with pytest.raises(ValueError, match=error):
            codec.encode(text, chat=False, limit=3, room=room)


LOOP = "{{% for m in messages %}}<|user|>{}<|end|>{{% endfor %}}"
CHAT = [
    {"role": "system", "content": "Be\nbrief."},
    {"role": "user", "content": " <eos>Be\nbrief.\n"},
]
TEXT = "<|user|>Be\nbrief.<|end|><|user|> <eos>Be\nbrief.\n<|end|>"


@pytest.mark.parametrize(
    "body, shown",
    [
        ("{{ m.content }}", TEXT),
        ("{% for part in m.content %}{{ part.text }}{% endfor %}", TEXT),
        ("{{ m.content[0].text + '' }}", TEXT),  # a text raises
        (
            "{% if m.role == 'user' %}{{ m.content[0].text }}{% else %}{{ m.content }}{% endif %}",
            "drops a message .*brief",
        ),
        (
            "{{ m.content | tojson }}",
            '<|user|>"Be\\nbrief."<|end|><|user|>" <eos>Be\\nbrief.\\n"<|end|>',
        ),
        ("{% if m.role == 'user' %}{{ m.content }}{% endif %}", "drops a message .*brief"),
        ("{{ m.content.split()[0] }}", "drops a message .*brief"),
        ("{{ raise_exception('no') }}", "refuses a prompt: no"),
    ],
)
def test_every_message_stands_in_the_prompt(body, shown):
    """Given as a text or in parts, of a template that wants a text or parts, of several templates
    the default one."""
    tokenizer = embedded()
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
            assert tokenizer.convert_tokens_to_ids("<eos>") not in ids
            assert codec.template == template
        else:
            with pytest.raises(Mistake, match=shown):
                codec.ids(chat, True)
    model = small_model()
    model.generation_config.eos_token_id = [7, 8]
    ends = {7, 8, tokenizer.eos_token_id}
    if shown.startswith("<"):
        ends.add(tokenizer.convert_tokens_to_ids("<|end|>"))
    assert eos_tokens(model, tokenizer) == ends
    for fields in ({"tool_calls": [{"name": "<|end|>"}]}, {"content": "half: \ud83d"}):
        with pytest.raises(Mistake, match="has to hold texts in Unicode"):
            codec.ids([CHAT[0] | fields], True)
    tokenizer.chat_template = {"tool_use": template}
    with pytest.raises(Mistake, match="several without a default"):
        codec.ids(CHAT, True)


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
