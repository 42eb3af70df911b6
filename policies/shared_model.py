"""One model and the agents that share it: the subject of policies/.

loading.py loads and saves it, decoding.py samples responses, logprobs.py scores them.

The sampled distribution is the scored one (sampling.py). No module is ever in training mode, so
there is never dropout. A prompt is run once for its G responses, in decoding and in the update.
Agents that share a base share every forward pass. Each row has its own adapter.

Shapes: R rows of T tokens. V vocabulary.
"""

import bisect
import contextlib
import functools
import inspect
import math
import re
import sys
from collections.abc import Sequence

import torch
from jinja2 import TemplateError
from peft import LoraConfig, get_peft_model
from peft.tuners.lora import LoraLayer
from torch import Tensor, nn
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.pytorch_utils import Conv1D

from policies import decoding, logprobs
from policies.model_names import TeamOptions

# Kinds whose kernels read the weight of out_proj past its adapter: peft refuses to adapt it.
STATE_SPACE = ("falcon_h1", "falcon_mamba", "mamba", "mamba2", "nemotron_h")
Prompt = str | list[dict]  # a text, or the messages of a chat


class TooLong(ValueError):
    """Say that a prompt does not fit."""


class SharedModel(nn.Module):
    """Hold one model and the agents that share it.

    The model is frozen, with a LoRA adapter for each policy. With lora_rank 0 the model itself is
    trained, as the copy of one policy. Each agent is a policy, or (share) all agents are one. The
    rows of a batch are always ordered by agent.
    """

    def __init__(self, model, tokenizer, agents: list[int], options: TeamOptions):
        super().__init__()
        self.tokenizer = tokenizer
        self.agents = agents
        self.policy_of = {agent: agents[0] if options.share else agent for agent in agents}
        self.template_args: dict = {}  # what the chat template is given beside the messages
        self.halved = 0  # how often memory ran out (policies/memory.py)
        self.stops: list[str] = []  # texts that end a response, too
        self.warned = False  # that a prompt spells special tokens
        self.raw = False  # whether a prompt came without the chat template
        # Whether it takes padding, positions and a mask. Without, it runs one prompt at a time.
        self.takes_masks = True
        self.checkpointing = False  # whether the update always uses gradient checkpointing
        self.recomputing = False  # whether it does now
        self.fast_tokens: float = 0  # tokens of the longest text that policies/fast/ runs
        self.row_adapters: list[str] = []  # of the rows that run now; see `acting`
        # what the model is, without adapters
        config = model.config.get_text_config()
        self.eos = eos_tokens(model, tokenizer)
        self.context = context(config)  # in tokens
        self.window = window(config)  # in tokens
        self.vocabulary = config.vocab_size
        self.keeps_logits = "logits_to_keep" in inspect.signature(model.forward).parameters
        # Whether its weights have 8 bits.
        self.int8 = any(weight.dtype == torch.int8 for weight in model.parameters())
        # adapters, then what every layer needs, those of the adapters included
        self.lora = options.lora_rank > 0
        self.model = model
        if self.lora:
            lora = LoraConfig(
                r=options.lora_rank,
                lora_alpha=options.lora_alpha,
                target_modules=adapted(model, options.lora_targets == "attention"),
            )
            first, *others = dict.fromkeys(self.adapters_of(agents))
            self.model = get_peft_model(model, lora, adapter_name=first)
            for name in others:
                self.model.add_adapter(name, lora)
        self.model.eval()  # no dropout: the sampled policy is the scored one
        self.mark_trained()
        for layer in self.model.modules():
            self.prepare(layer)

    # Functions of other files, whose first argument is this model
    sample = decoding.decode
    prefill = decoding.prefill
    score = logprobs.score
    token_logps = logprobs.token_logps

    def prepare(self, layer: nn.Module) -> None:
        """Let gradients pass through 4 bits, and a LoRA layer take an adapter for each row."""
        if type(layer).__name__ == "Linear4bit":
            # On a CPU, the first forward pass in evaluation mode repacks the weights for good
            # into a faster form, through which no gradient passes.
            layer.training = True
        if isinstance(layer, LoraLayer):
            layer.register_forward_pre_hook(self.name_adapters, with_kwargs=True)
            if type(layer.base_layer).__name__ in ("Linear4bit", "Linear8bitLt"):
                # peft adds to the output in place, which bitsandbytes' own does not bear
                layer.base_layer.register_forward_hook(lambda _, inputs, output: output.clone())

    def set_checkpointing(self) -> None:
        """Let the update always use gradient checkpointing. ValueError where the model cannot."""
        if not self.net.supports_gradient_checkpointing:
            raise ValueError(f"--checkpointing: {type(self.net).__name__} does not support it")
        self.checkpointing = True

    def mark_trained(self) -> None:
        """Let gradients be taken of the adapters alone, or of a full copy's every weight."""
        for name, parameter in self.model.named_parameters():
            learns = not self.lora or ".agent" in name
            parameter.requires_grad_(learns and parameter.is_floating_point())

    def train(self, mode: bool = True):
        """Do nothing: neither Lightning nor anyone else may switch dropout on."""
        return self

    @property
    def net(self):
        return self.model.get_base_model() if self.lora else self.model

    @property
    def head(self) -> nn.Linear:
        return self.net.get_output_embeddings()

    @property
    def device(self) -> torch.device:
        return self.net.device

    def parameters_of(self, agent: int) -> list[nn.Parameter]:
        mark = f".agent{self.policy_of[agent]}." if self.lora else ""
        return [p for name, p in self.model.named_parameters() if mark in name]

    def adapters_of(self, agents: Sequence[int] | None) -> list[str]:
        """Return the adapter of each agent's row. The frozen base (None) has none."""
        if agents is None or not self.lora:
            return []
        return [f"agent{self.policy_of[agent]}" for agent in agents]

    @contextlib.contextmanager
    def acting(self, agents: Sequence[int] | None):
        """Run rows as these agents, one each, or (None) all as the frozen base, the KL reference.

        Gradient checkpointing runs layers again in the backward pass, which has to be within, too.
        """
        self.row_adapters = self.adapters_of(agents)
        try:
            yield
        finally:
            self.row_adapters = []

    @contextlib.contextmanager
    def recompute(self, recomputing: bool):
        """Let each layer keep its input alone, and run again in the backward pass within."""
        layers = []
        if recomputing:
            self.net.activation_checkpointing_enable({"use_reentrant": False})
            layers = [m for m in self.net.modules() if isinstance(m, GradientCheckpointingLayer)]
        self.recomputing = recomputing
        for layer in layers:
            layer.training = True  # its own switch alone: no dropout listens to it
        try:
            yield
        finally:
            self.recomputing = False
            for layer in layers:
                layer.training = False

    def name_adapters(self, layer: nn.Module, inputs: tuple, options: dict) -> tuple[tuple, dict]:
        """Tell a LoRA layer the adapter of each row, before it runs: peft's mixed batches."""
        adapters = self.row_adapters or ["__base__"]  # peft's word for none
        repeats = len(inputs[0]) // len(adapters)  # some layers get all tokens in a row
        names = [name for name in adapters for _ in range(repeats)]
        return inputs, options | {"adapter_names": names}

    def run(self, ids: Tensor, count: int, **inputs):
        """Run tokens ids (R, T). Return transformers' output.

        It has the logits (R, t, V) of the last `count` places, or of more.
        """
        if self.keeps_logits:
            inputs["logits_to_keep"] = count
        return self.net(input_ids=ids, **inputs)

    def end_at(self, stop: str | Sequence[str]) -> None:
        """Let responses end with the first token that completes one of these texts, too."""
        texts = [stop] if isinstance(stop, str) else stop
        self.stops = [text for text in texts if text]

    def is_stopped(self, tokens: list[int]) -> bool:
        """Return whether the text of these tokens holds one that ends a response."""
        text = self.text_of(tokens) if self.stops else ""
        return any(stop in text for stop in self.stops)

    def end_of(self, tokens: list[int]) -> int | None:
        """Return how many tokens a response has: up to the first that ends it. None: none does."""
        places = (place for place, token in enumerate(tokens, 1) if token in self.eos)
        end = next(places, None)
        tokens = tokens[:end]
        if not self.is_stopped(tokens):
            return end
        counts = range(len(tokens) + 1)
        return bisect.bisect_left(counts, True, key=lambda count: self.is_stopped(tokens[:count]))

    def encode(
        self, prompt: Prompt, chat: bool, limit: int, room: int = 0, begun: str = ""
    ) -> tuple[int, ...]:
        """Return a prompt's token ids. Raise ValueError where the prompt cannot be used whole.

        The error is TooLong if the prompt does not fit into `limit`, or with `room` new tokens into
        the model's context. `begun` is the beginning of the answer. It ends the prompt.
        """
        ids = self.ids(prompt, chat, begun)
        if len(ids) > limit:
            raise TooLong(
                f"a prompt has {len(ids)} tokens and --max-prompt-tokens is {limit}; prompts are "
                f"never cut: raise the limit or drop the item ({prompt!r:.60}...)"
            )
        if len(ids) + room > self.context:
            raise TooLong(
                f"a prompt of {len(ids)} tokens and --max-new-tokens {room} are more than "
                f"the model's context of {self.context} ({prompt!r:.60}...)"
            )
        if len(ids) < 2:
            raise ValueError(f"a prompt needs at least two tokens, this one is {prompt!r}")
        if max(ids) >= self.vocabulary:
            raise ValueError(
                f"the tokenizer is of another model: token {max(ids)}, and the model knows "
                f"{self.vocabulary}"
            )
        return tuple(ids)

    def ids(self, prompt: Prompt, chat: bool, begun: str = "") -> list[int]:
        """Return a prompt's token ids. They end with EOS only where the template does.

        The chat template renders messages, and with `chat` also a text, as the user's message. Only
        the template makes control tokens. A text that spells one is ordinary text, so that nobody
        can write into another's role. A prompt after which the tokenizer adds EOS (add_eos_token)
        would already be answered.
        """
        messages = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt
        if isinstance(prompt, str) and not chat:
            self.raw = True
            text = f"{prompt}\n\n{begun}" if begun else prompt
            ids = self.literal(text)
            if not self.warned and ids != self.tokenizer(text)["input_ids"]:
                self.warned = True
                print(
                    "warning: a prompt spells special tokens, which are read as ordinary text. "
                    f"Only a chat template makes special tokens ({prompt!r:.60}...)",
                    file=sys.stderr,
                )
            return ids[: len(ids) - self.ends_added]
        if not self.tokenizer.chat_template:
            raise ValueError(
                "--chat-template, or a prompt of chat messages: the model has no chat template: "
                "give --no-chat-template, or take the instruction-tuned model"
            )
        try:
            ids = self.tokenizer.apply_chat_template(
                messages,
                add_generation_prompt=True,
                return_dict=False,
                sanitize_control_tokens=bool(self.added_tokens.search(str(messages))),
                **self.template_args,
            )
        except TemplateError as error:  # of roles that the model does not know, for example
            raise ValueError(
                f"the model's chat template refuses a prompt: {error} ({messages!r:.200})"
            ) from error
        return ids + self.literal(begun, add_special_tokens=False)

    def literal(self, text: str, **options) -> list[int]:
        """Return a text's token ids. Special tokens that it spells are ordinary text."""
        return self.tokenizer(text, split_special_tokens=True, **options)["input_ids"]

    @functools.cached_property
    def added_tokens(self) -> re.Pattern:
        """Return a pattern of what may be a control token. To look for each in detail is slow."""
        return re.compile("|".join(map(re.escape, self.tokenizer.get_added_vocab())))

    @functools.cached_property
    def ends_added(self) -> int:
        """Return how many end-of-sequence tokens the tokenizer adds to every text."""
        count = 0
        for token in reversed(self.tokenizer("x")["input_ids"]):
            if token not in self.eos:
                break
            count += 1
        return count

    def text_of(self, response: list[int]) -> str:
        """Return a response's text, a text that ends it included.

        Special tokens are part of it, except end-of-sequence tokens and padding. Decoders like
        Llama 2's strip the first space of a text, and a response follows a prompt. So it is decoded
        after a letter, which is then cut off.
        """
        letter, size = self.letter
        silent = {*self.eos, self.tokenizer.pad_token_id}
        tokens = [token for token in response if token not in silent]
        return self.tokenizer.decode([*letter, *tokens])[size:]

    @functools.cached_property
    def letter(self) -> tuple[list[int], int]:
        """Return the token ids of a letter, and the length of their text."""
        letter = self.tokenizer("x", add_special_tokens=False)["input_ids"]
        return letter, len(self.tokenizer.decode(letter))


def as_text(prompt: Prompt) -> str:
    """Return what an agent was asked, with the roles of a chat's messages."""
    if isinstance(prompt, str):
        return prompt
    return "\n".join(f"[{message['role']}] {message.get('content')}" for message in prompt)


def context(config) -> float:
    """Return how many tokens a prompt and its response may have together.

    The model's positions limit them. "longrope" turns all keys by other angles once the longest row
    of a batch has more tokens than the original context: decoding and the update would differ.
    """
    limits = [getattr(config, "max_position_embeddings", None)]
    rotations = getattr(config, "rope_parameters", None) or {}
    for rotation in (rotations, *rotations.values()):  # of the model, or by kind of layer
        if isinstance(rotation, dict) and rotation.get("rope_type") == "longrope":
            limits.append(rotation["original_max_position_embeddings"])
    limits = [limit for limit in limits if limit]
    return min(limits, default=math.inf)


def window(config) -> float:
    """Return how many tokens back the attention of every layer reaches."""
    kinds = getattr(config, "layer_types", None)
    if kinds is None or "sliding_attention" in kinds:
        return getattr(config, "sliding_window", None) or math.inf
    return math.inf


def adapted(model, attention_only: bool) -> list[str] | str:
    """Return which linear layers carry adapters, as peft takes it.

    These are all that peft can adapt. With `attention_only`, they are those of the mixers alone. A
    mixer is attention, or what takes its place. A mixture of experts has adapters in its mixers
    alone, too, because its experts are stacked weights and not linear layers.
    """
    modules = [module for module in model.modules() if not isinstance(module, nn.Conv1d)]
    stacked = False
    for module in modules:
        for weight in module.parameters(recurse=False):
            stacked |= weight.dim() > 2
    refused = []
    if model.config.model_type in STATE_SPACE:
        refused = ["out_proj"]
    mixers_only = stacked or attention_only
    if not mixers_only and not refused:
        return "all-linear"
    head = model.get_output_embeddings()
    names = []
    for place, module in model.named_modules():
        if mixers_only and not is_mixer(module):
            continue
        for name, layer in module.named_children():
            linear = isinstance(layer, (nn.Linear, Conv1D)) and layer is not head
            if linear and name not in refused:
                names.append(f"{place}.{name}")
    if not names:
        raise ValueError(f"{type(model).__name__} takes no adapters")
    return names


def is_mixer(module: nn.Module) -> bool:
    """Return whether a module mixes tokens: by attention, or (state-space) after a convolution."""
    convolves = any(isinstance(child, nn.Conv1d) for child in module.children())
    return convolves or "Attention" in type(module).__name__


def eos_tokens(model, tokenizer) -> frozenset[int]:
    """Return every token that ends a response: the checkpoint's, the tokenizer's, the template's.

    It leaves out those that the output layer does not know.
    """
    ids = model.generation_config.eos_token_id
    if not isinstance(ids, list):
        ids = [ids]
    ids = frozenset([*ids, tokenizer.eos_token_id, turn_end(tokenizer)]) - {None}
    if not ids:
        raise ValueError("the model has no end-of-sequence token: set eos_token in its tokenizer")
    return ids.intersection(range(len(model.get_output_embeddings().weight)))


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
