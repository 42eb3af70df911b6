"""One model and the agents that share it, the subject of policies/.

`codec.py` makes tokens of prompts and texts of responses. `decoding.py` samples responses, and
`logprobs.py` scores them. `loading.py` loads and saves models and agents.

The sampled distribution is the scored one (sampling.py). No module is ever in training mode, so
there is never dropout. A prompt is run once for its G responses, in decoding and in the update.
Agents that share a base share every forward pass. Each row has its own adapter.

Shapes: R rows of T tokens. V vocabulary.
"""

import contextlib
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from peft import LoraConfig, get_peft_model
from peft.tuners.lora import LoraLayer
from torch import nn
from torch.utils.checkpoint import checkpoint
from transformers import DynamicCache
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.pytorch_utils import Conv1D

from policies import Mistake
from policies.codec import Codec
from policies.model_names import TeamOptions, located

# Rounding moves log-probabilities between two ways to compute them. These are the least means over
# several tokens, in nats, that a model is taken to have; loading.py measures the model's own. In 32
# and 4 bits the largest difference of one token was 2e-6. In 16 bits a logit of 16 to 32 is itself
# rounded by up to 0.06. Models of two layers and Qwen2.5-Coder-1.5B had 0.01 in training,
# SmolLM2-135M 0.035 on an H200 and 0.037 on a CPU. In 8 bits activations are rounded, too. A mask
# or a position that is wrong had 0.03 to 1.8.
NOISE = 3e-4  # in 32 and 4 bits
NOISE_16 = 0.01  # in 16 and 8 bits
PROBED = 64  # tokens over which a base's own noise is measured, at most

# Calls a function that keeps its inputs alone, and runs again in the backward pass. Without dropout
# this needs no random numbers.
recomputed = functools.partial(checkpoint, use_reentrant=False, preserve_rng_state=False)


class SharedModel(nn.Module):
    """Hold one model and the agents that share it.

    The model is frozen, with a LoRA adapter for each policy. With lora_rank 0 the model itself is
    trained, as the copy of one policy. Each agent is a policy, or (share) all agents are one. The
    rows of a batch are always ordered by agent.
    """

    def __init__(self, model, tokenizer, agents: list[int], options: TeamOptions):
        super().__init__()
        self.codec = Codec(model, tokenizer, options.template_arg)
        self.about = f"{model.name_or_path}, {model.num_parameters():,} parameters"
        if located(model.name_or_path) != model.name_or_path:
            self.about += ", made for this project's tasks (tiny/README.md)"
        self.agents = agents
        self.policy_of = {agent: agent for agent in agents}
        if options.share:
            self.policy_of = dict.fromkeys(agents, agents[0])
        self.lora = options.lora_rank > 0
        config = model.config.get_text_config()
        # Tokens of the longest tree: GPT-Neo's window is of places in the tree.
        self.longest_tree = getattr(config, "window_size", None) or math.inf
        # Tokens of the longest text that is scored beside others. 0: the model takes no masks, so
        # texts are decoded one by one, too.
        self.reach = min([self.longest_tree, *windows(config)])
        # Another way to decode (`rows`) and to compute `token_logps`; policies/fast/ sets it.
        self.fast: Any = None
        self.engine: Any = None  # the server that samples, with --engine; engine.py sets it
        self.int8 = any(weight.dtype == torch.int8 for weight in model.parameters())
        exact = model.dtype == torch.float32 and not self.int8
        self.noise = NOISE if exact else NOISE_16
        self.checkpointing = False  # whether the update always uses gradient checkpointing
        self.recomputing = False  # whether it does now
        self.halved = 0  # how often memory ran out (policies/memory.py)
        self.row_adapters: list[str] = []  # of the rows that run now; see `acting`
        self.model = model
        if self.lora:
            lora = LoraConfig(
                r=options.lora_rank,
                lora_alpha=options.lora_alpha,
                target_modules=linear_layers(model),
            )
            first, *others = dict.fromkeys(self.adapters_of(agents))
            try:
                self.model = get_peft_model(model, lora, adapter_name=first)
            except ValueError as error:  # peft knows layers that bear no adapter
                raise Mistake(f"{config.model_type} cannot be trained here: {error}") from error
            for name in others:
                self.model.add_adapter(name, lora)
        self.model.eval()  # no dropout: the sampled policy is the scored one
        for name, parameter in self.model.named_parameters():
            learns = not self.lora or ".agent" in name
            parameter.requires_grad_(learns and parameter.is_floating_point())
        for layer in self.model.modules():
            self.prepare(layer)

    def prepare(self, layer: nn.Module) -> None:
        """Let a layer be run again in the backward pass, pass gradients, take rows' adapters."""
        if isinstance(layer, GradientCheckpointingLayer):
            layer.forward = functools.partial(self.run_layer, layer.forward)
        if type(layer).__name__ == "Linear4bit":
            # On a CPU, the first forward pass in evaluation mode repacks the weights for good
            # into a faster form, through which no gradient passes.
            layer.training = True
        if isinstance(layer, LoraLayer):
            layer.register_forward_pre_hook(self.name_adapters, with_kwargs=True)
            if type(layer.base_layer).__name__ in ("Linear4bit", "Linear8bitLt"):
                # peft adds to the output in place, which bitsandbytes' own does not bear
                layer.base_layer.register_forward_hook(lambda _, inputs, output: output.clone())

    def run_layer(self, forward: Callable, *inputs, **options):
        """Run a layer. While `recomputing` it keeps its input alone: gradient checkpointing.

        (transformers' own would set the layer's training mode, which some read for dropout.)
        """
        if self.recomputing and torch.is_grad_enabled():
            return recomputed(forward, *inputs, **options)
        return forward(*inputs, **options)

    def set_checkpointing(self) -> None:
        """Let the update always use gradient checkpointing. ValueError where the model cannot."""
        if not self.net.supports_gradient_checkpointing:
            raise Mistake(f"--checkpointing: {type(self.net).__name__} does not support it")
        self.checkpointing = True

    def run_one_by_one(self) -> None:
        """Decode one text after the other from now on, and score each as a row of its own.

        Both by transformers' own forward pass, without its masks.
        """
        self.reach = 0
        self.fast = None

    @property
    def tolerance(self) -> float:
        """Return a mean difference of log-probabilities, in nats, that rounding does not reach."""
        return 3 * self.noise

    @property
    def takes_masks(self) -> bool:
        """Return whether texts run side by side, with padding, positions and a mask."""
        return self.reach > 0

    def train(self, mode: bool = True):
        """Do nothing: neither Lightning nor anyone else may switch dropout on."""
        return self

    @property
    def net(self):
        if self.lora:
            return self.model.get_base_model()
        return self.model

    @property
    def head(self) -> nn.Linear:
        return self.net.get_output_embeddings()

    @property
    def device(self) -> torch.device:
        return self.net.device

    def parameters_of(self, agent: int) -> list[nn.Parameter]:
        mark = ""  # in the names of its weights
        if self.lora:
            mark = f".agent{self.policy_of[agent]}."
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

    def name_adapters(self, layer: nn.Module, inputs: tuple, options: dict) -> tuple[tuple, dict]:
        """Tell a LoRA layer the adapter of each row, before it runs: peft's mixed batches."""
        adapters = self.row_adapters or ["__base__"]  # peft's word for none
        repeats = len(inputs[0]) // len(adapters)  # some layers get all tokens in a row
        return inputs, options | {"adapter_names": repeat_each(adapters, repeats)}


def repeat_each(values: Sequence, times: int) -> list:
    """Return each value so many times in a row: a a b b."""
    return [value for value in values for _ in range(times)]


def windows(config) -> list[int]:
    """Return the tokens of the layers' sliding windows and chunks.

    A layer sees the whole of a text that fits. In a longer one it hides tokens, which a mask of a
    tree would show.
    """
    cache = DynamicCache(config=config)  # it reads the types of the layers
    sizes = [getattr(layer, "sliding_window", None) for layer in cache.layers]
    return [size for size in sizes if size]


def linear_layers(model) -> list[str]:
    """Return the names of the layers that carry adapters: all linear ones but the output layer.

    The block of a mixture's experts is left out, because peft runs no mixed batches there.
    """
    head = model.get_output_embeddings()
    mixtures = []  # prefixes of names
    for name, weight in model.named_parameters():
        if weight.dim() > 2 and "conv" not in name:  # the experts' weights are stacked
            mixtures.append(name.rsplit(".", 2)[0] + ".")
    names = []
    for name, layer in model.named_modules():
        linear = isinstance(layer, (nn.Linear, Conv1D)) and layer is not head
        if linear and not name.startswith(tuple(mixtures)):
            names.append(name)
    return names
