"""Language-model policies that share one frozen base: how responses are sampled and scored.

This is the machinery under magrpo.py; the algorithm is there. Three facts hold here, and
tests/test_policies.py checks each against a plain computation:

- What is sampled is what is scored: one function, `warp`, makes the distribution for both, whatever
  generation defaults a checkpoint ships, and no module is ever in training mode (no dropout).
- A prompt is run once for its G samples, when decoding and in the update, where its keys and values
  carry the gradient of all its responses back through one backward pass.
- Agents that share a base share every forward pass: each LoRA adapter is applied to its own rows.

Shapes: R rows (responses), T tokens of a response, W cached prompt positions, V vocabulary.
"""

import contextlib
import hashlib
import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from huggingface_hub import model_info, try_to_load_from_cache
from peft import (
    LoraConfig,
    get_peft_model,
    get_peft_model_state_dict,
    set_peft_model_state_dict,
)
from peft.tuners.lora import LoraLayer
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn
from transformers import AutoModelForCausalLM, AutoTokenizer, BitsAndBytesConfig
from transformers.cache_utils import Cache, DynamicLayer

UPDATE_TOKENS = 8192  # padded tokens (prompt and response) of one forward pass in the update ...
UPDATE_BYTES = 6 * 2**30  # ... and what they may keep for the backward pass, logits included
MODEL_FILES = ("config.json", "tokenizer*.json", "model*.safetensors")  # what a fingerprint is of
DECODE_TOKENS = 2**18  # padded tokens whose keys and values one decode may hold


@dataclass(frozen=True)
class Sampling:
    """The distribution of responses. temperature 0: greedy. top_k 0, top_p 1: no truncation."""

    temperature: float
    top_k: int
    top_p: float
    max_new_tokens: int


@dataclass
class Response:
    """One action: the sampled tokens, the end-of-sequence token included where there is one."""

    tokens: list[int]
    text: str
    logps: list[float]  # log-probability of each token under the sampled distribution
    entropy: float  # of the sampled distribution, summed over the tokens, in nats
    ended: bool  # False: cut off at max_new_tokens


@dataclass
class Row:
    """One response in the update."""

    agent: int
    prompt: tuple[int, ...]
    tokens: list[int]
    coef: float = 0.0  # advantage times weight
    weight: float = 0.0  # its share of the batch


def warp(logits: Tensor, sampling: Sampling, keep: Tensor | None = None) -> Tensor:
    """Logits (..., V) of the sampled distribution: temperature, then top-k, then top-p.

    keep (..., 1) holds the tokens to score: one that rounding moves over the edge of the nucleus in
    the update was inside it when it was sampled.
    """
    logits = logits.float()
    if sampling.temperature not in (0, 1):
        logits = logits / sampling.temperature
    drop = torch.zeros((), dtype=torch.bool, device=logits.device)
    if 0 < sampling.top_k < logits.shape[-1]:
        drop = logits < logits.topk(sampling.top_k).values[..., -1:]
    if sampling.top_p < 1:
        ranked, order = logits.masked_fill(drop, -math.inf).sort(dim=-1, descending=True)
        likelier = ranked.softmax(-1).cumsum(-1) - ranked.softmax(
            -1
        )  # mass of the tokens before it
        drop = drop | torch.zeros_like(order, dtype=torch.bool).scatter(
            -1, order, likelier >= sampling.top_p
        )
    if keep is not None and drop.dim():
        drop = drop.scatter(-1, keep, False)
    return logits.masked_fill(drop, -math.inf) if drop.dim() else logits


def draw(logps: Tensor, uniforms: Tensor) -> Tensor:
    """Tokens (R,) from log-probabilities (R, V) by inverting the distribution at uniforms (R,).

    One number in [0, 1) decides one token, so a row's sample depends on nothing else in the batch:
    not on which rows are decoded beside it, nor on when finished ones leave.
    """
    mass = logps.double().exp().cumsum(-1)
    points = uniforms.to(mass).unsqueeze(-1) * mass[:, -1:]
    return torch.searchsorted(mass, points, right=True).squeeze(-1)


class Buffer(DynamicLayer):
    """Keys and values of one layer with room for more tokens. DynamicLayer grows by concatenation,
    which copies the whole cache for every token: it took 3/4 of the decode's time on a CPU."""

    def __init__(self, keys: Tensor, values: Tensor, room: int):
        super().__init__()
        self.lazy_initialization(keys, values)
        self.store = [F.pad(t, (0, 0, 0, room)) for t in (keys, values)]
        self.view(keys.shape[-2])

    def view(self, used: int) -> None:
        self.used = used
        self.keys, self.values = (store[:, :, :used] for store in self.store)

    def update(self, keys: Tensor, values: Tensor, *args, **kwargs) -> tuple[Tensor, Tensor]:
        start, end = self.used, self.used + keys.shape[-2]
        for store, new in zip(self.store, (keys, values), strict=True):
            store[:, :, start:end] = new
        self.view(end)
        return self.keys, self.values


class Context:
    """What R rows have seen: cached keys and values, of which the first W positions are prompts,
    padded on the right. lengths: real positions of each row's prompt; agents: who acts in it."""

    def __init__(
        self, layers: list[DynamicLayer], lengths: list[int], agents: list[int], room: int
    ):
        self.cache, self.agents = Cache(layers=layers), agents
        device, width = layers[0].keys.device, layers[0].keys.shape[-2]
        self.positions = torch.tensor(lengths, device=device)[:, None]  # (R, 1) of the next token
        self.mask = None  # no padding, nothing to hide
        if min(lengths) < width:
            self.mask = torch.ones(len(lengths), width + room, dtype=torch.long, device=device)
            self.mask[:, :width] = torch.arange(width, device=device) < self.positions

    def select(self, rows: Tensor) -> None:
        """Keeps these rows only."""
        for layer in self.cache.layers:
            layer.store = [store[rows] for store in layer.store]
            layer.view(layer.used)
        self.positions = self.positions[rows]
        self.mask = None if self.mask is None else self.mask[rows]
        self.agents = [self.agents[row] for row in rows.tolist()]


class Base(nn.Module):
    """One model and the agents that share it: frozen, with a LoRA adapter each, or (lora_rank 0)
    trained itself, as one agent's own copy. The rows of a batch are always ordered by agent."""

    def __init__(self, model, tokenizer, agents: list[int], lora_rank: int, lora_alpha: int):
        super().__init__()
        self.tokenizer, self.agents, self.lora = tokenizer, agents, lora_rank > 0
        self.eos = eos_tokens(model, tokenizer)
        config = model.config.get_text_config()
        self.context = getattr(config, "max_position_embeddings", None) or math.inf  # in tokens
        kinds = set(getattr(config, "layer_types", None) or ()) - {"full_attention"}
        if kinds:  # the caches here hold every position of every layer
            raise ValueError(f"models with {', '.join(sorted(kinds))} layers are not supported")
        self.rows: list[tuple[str, int]] = []  # (adapter, rows) of the batch in hand
        if self.lora:
            config = LoraConfig(r=lora_rank, lora_alpha=lora_alpha, target_modules="all-linear")
            model = get_peft_model(model, config, adapter_name=f"agent{agents[0]}")
            for agent in agents[1:]:
                model.add_adapter(f"agent{agent}", config)
            model.base_model.disable_adapter_layers()  # `_adapt` applies them, all in one batch
            for layer in model.modules():
                if isinstance(layer, LoraLayer):
                    layer.register_forward_hook(self._adapt)
        self.model = model.eval()  # no dropout: the sampled policy is the scored one
        for layer in model.modules():
            if type(layer).__name__ == "Linear4bit":
                layer.training = True  # else it repacks its weights on a CPU and has no gradient
        for name, parameter in model.named_parameters():
            parameter.requires_grad_(not self.lora or ".agent" in name)

    def train(self, mode: bool = True):
        """Stays as it was made: neither Lightning nor anyone else may switch dropout on."""
        return self

    @property
    def net(self):
        return self.model.get_base_model() if self.lora else self.model

    @property
    def device(self) -> torch.device:
        return self.net.device

    def parameters_of(self, agent: int) -> list[nn.Parameter]:
        mark = f".agent{agent}." if self.lora else ""
        return [p for name, p in self.model.named_parameters() if mark in name]

    def save(self, agent: int, path: Path) -> None:
        """Writes an agent as peft (transformers, without adapters) loads it, with its tokenizer."""
        path.mkdir(parents=True, exist_ok=True)
        if self.lora:
            name = f"agent{agent}"  # peft adds a folder of that name
            self.model.save_pretrained(path, selected_adapters=[name], save_embedding_layers=False)
            for file in (path / name).iterdir():
                file.replace(path / file.name)
            (path / name).rmdir()
        else:
            self.net.save_pretrained(path)
        self.tokenizer.save_pretrained(path)

    def load(self, agent: int, path: Path) -> None:
        """Reads what `save` wrote into this agent; ValueError where it was written by another."""
        name = f"agent{agent}"
        try:  # never a .bin, which is a pickle
            if self.lora:
                mine = get_peft_model_state_dict(
                    self.model, adapter_name=name, save_embedding_layers=False
                )
                weights = load_file(path / "adapter_model.safetensors")
            else:
                mine = self.net.state_dict()
                saved = AutoModelForCausalLM.from_pretrained(path, use_safetensors=True)
                weights = saved.state_dict()
        except (OSError, SafetensorError) as error:
            raise ValueError(f"cannot read agent {agent} from {path}: {error}") from error
        if {k: v.shape for k, v in weights.items()} != {k: v.shape for k, v in mine.items()}:
            raise ValueError(
                f"{path} is of another model or another --lora-rank than its run: bring back the "
                "run's own"
            )
        if self.lora:
            set_peft_model_state_dict(self.model, weights, name)
        else:
            self.net.load_state_dict(weights)

    def _adapt(self, layer, args, output: Tensor) -> Tensor:
        """Adds to each agent's rows what its own adapter says: y + s B A x."""
        if not self.rows:
            return output
        parts = args[0].split([count for _, count in self.rows])
        deltas = []
        for (name, _), x in zip(self.rows, parts, strict=True):
            down, up = layer.lora_A[name], layer.lora_B[name]
            deltas.append(up(down(x.to(down.weight.dtype)) * layer.scaling[name]))
        return output + torch.cat(deltas).to(output.dtype)

    @contextlib.contextmanager
    def acting(self, agents: list[int] | None):
        """Rows are run as these agents; None: as the frozen base, which is the KL reference."""
        if self.lora and agents is not None:
            self.rows = [(f"agent{a}", len(list(g))) for a, g in itertools.groupby(agents)]
        try:
            yield
        finally:
            self.rows = []

    def prefill(self, prompts: list[tuple[int, ...]], agents: list[int] | None) -> list:
        """Keys and values of all but the last token of each prompt: per layer (k, v), (R, H, W, D).

        Padding is on the right, after every real token, so it needs no mask here; `Context` hides
        it from what follows. The last token opens the response's row, so no logits are needed.
        """
        width = max(map(len, prompts)) - 1
        ids = torch.tensor([p[:-1] + (0,) * (width + 1 - len(p)) for p in prompts])
        with self.acting(agents):
            out = self.net.base_model(input_ids=ids.to(self.device), use_cache=True)
        return [(layer.keys, layer.values) for layer in out.past_key_values.layers]

    def logits(self, tokens: Tensor, context: Context, frozen: bool = False) -> Tensor:
        """Logits (R, T, V) after each of the tokens (R, T) that follow the context."""
        steps = torch.arange(tokens.shape[1], device=tokens.device)
        seen = context.cache.get_seq_length() + tokens.shape[1]
        with self.acting(None if frozen else context.agents):
            out = self.net(
                input_ids=tokens,
                attention_mask=None if context.mask is None else context.mask[:, :seen],
                position_ids=context.positions + steps,
                past_key_values=context.cache,
                use_cache=True,
            )
        context.positions = context.positions + tokens.shape[1]
        return out.logits

    @torch.no_grad()
    def decode(
        self,
        prompts: list[tuple[int, ...]],
        agents: list[int],
        uniforms: Tensor,
        sampling: Sampling,
    ) -> list[list[Response]]:
        """S responses to each prompt. agents (sorted): who answers; uniforms (prompts, S, T)."""
        samples, limit = uniforms.shape[1:]
        repeat = torch.arange(len(prompts), device=self.device).repeat_interleave(samples)
        layers = [Buffer(k[repeat], v[repeat], limit + 1) for k, v in self.prefill(prompts, agents)]
        rows = [row for row in range(len(prompts)) for _ in range(samples)]
        lengths = [len(prompts[row]) - 1 for row in rows]
        context = Context(layers, lengths, [agents[row] for row in rows], limit + 1)
        uniforms = uniforms.flatten(0, 1).to(self.device)  # (R, T)
        tokens = torch.tensor([[prompts[row][-1]] for row in rows], device=self.device)
        eos = torch.tensor(sorted(self.eos), device=self.device)
        chosen = torch.zeros(len(rows), limit, dtype=torch.long, device=self.device)
        logps, entropy = torch.zeros(2, len(rows), limit, device=self.device)
        alive = torch.arange(len(rows), device=self.device)  # row of `chosen` of each decoded row
        done = torch.zeros_like(alive, dtype=torch.bool)
        for step in range(limit):
            scores = warp(self.logits(tokens, context)[:, -1], sampling).log_softmax(-1)
            greedy = sampling.temperature == 0
            new = scores.argmax(-1) if greedy else draw(scores, uniforms[alive, step])
            chosen[alive, step] = new
            logps[alive, step] = scores.gather(-1, new[:, None]).squeeze(-1)
            entropy[alive, step] = -(scores.exp() * scores.clamp(min=-1e30)).sum(-1)
            done = done | torch.isin(new, eos)
            finished = int(done.sum())
            if finished == len(alive):
                break
            if 4 * finished >= len(alive):  # copying the cache costs about one step
                keep = (~done).nonzero().squeeze(-1)
                context.select(keep)
                alive, new, done = alive[keep], new[keep], done[keep]
            tokens = new[:, None]
        columns = (chosen.tolist(), logps.tolist(), entropy.tolist())
        found = [self._response(*row) for row in zip(*columns, strict=True)]
        return [found[i : i + samples] for i in range(0, len(found), samples)]

    def _response(self, tokens: list[int], logps: list, entropy: list) -> Response:
        """Cuts a decoded row after its first end-of-sequence token."""
        end = next((i for i, token in enumerate(tokens) if token in self.eos), None)
        size = len(tokens) if end is None else end + 1
        text = self.tokenizer.decode(tokens[:end], skip_special_tokens=True)
        return Response(tokens[:size], text, logps[:size], sum(entropy[:size]), end is not None)

    def activations(self, prompt: int, response: int) -> int:
        """Bytes that the backward pass keeps for a row, about: 16 numbers per hidden unit and 4 per
        feed-forward unit of every layer and token, 3 per logit; four bytes each."""
        config = self.net.config.get_text_config()
        width = 16 * config.hidden_size + 4 * config.intermediate_size
        hidden = (prompt + response) * config.num_hidden_layers * width
        return 4 * (hidden + 3 * response * config.vocab_size)

    def cache_bytes(self) -> int:
        """Bytes of one token's keys and values in all layers."""
        config = self.net.config.get_text_config()
        head = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        size = self.net.dtype.itemsize
        return 2 * config.num_hidden_layers * config.num_key_value_heads * head * size

    def cost(self, prompt: int, response: int) -> float:
        """Share of one forward pass of the update that a row of so many tokens takes up."""
        tokens = (prompt + response) / UPDATE_TOKENS
        return max(tokens, self.activations(prompt, response) / UPDATE_BYTES)

    def score(
        self, rows: list[Row], sampling: Sampling, frozen: bool = False
    ) -> Iterator[tuple[list[int], Tensor, Tensor]]:
        """Log-probabilities of responses in micro-batches: row numbers, logps (r, T), mask (r, T).

        Sorted by length, under a budget. The consumer calls backward on each micro-batch; what has
        then reached the prompts' keys and values goes back through the prompts once, at the end.
        """
        groups: dict[tuple, list[int]] = {}
        for number, row in enumerate(rows):
            groups.setdefault((row.agent, row.prompt), []).append(number)
        prompts = list(groups)
        for chunk in pack([self.cost(len(prompt), 0) for _, prompt in prompts]):
            mine = sorted(prompts[c] for c in chunk)  # by agent
            prefix = self.prefill([p for _, p in mine], None if frozen else [a for a, _ in mine])
            leaves = [[t.detach().requires_grad_(t.requires_grad) for t in kv] for kv in prefix]
            owner = {number: i for i, key in enumerate(mine) for number in groups[key]}
            width = max(len(prompt) for _, prompt in mine)
            for batch in pack([self.cost(width, len(rows[n].tokens)) for n in owner]):
                numbers = sorted((list(owner)[b] for b in batch), key=owner.get)
                some = [rows[n] for n in numbers]
                # index_select: the gradient of t[index] is summed in no fixed order by threads
                index = torch.tensor([owner[n] for n in numbers], device=self.device)
                kv = [[t.index_select(0, index) for t in pair] for pair in leaves]
                yield numbers, *self._score(some, kv, sampling, frozen)
            ends = [t for pair in prefix for t in pair if t.requires_grad]
            grads = [leaf.grad for pair in leaves for leaf in pair if leaf.requires_grad]
            if any(grad is None for grad in grads):
                raise RuntimeError("score: call backward on each micro-batch before the next one")
            if ends:
                torch.autograd.backward(ends, grads)

    def _score(self, rows: list[Row], prefix: list, sampling: Sampling, frozen: bool):
        """Log-probabilities and mask (r, T) of rows whose prompts' keys and values are `prefix`."""
        limit, device = max(len(row.tokens) for row in rows), self.device
        layers = []
        for keys, values in prefix:
            layer = DynamicLayer()
            layer.lazy_initialization(keys, values)
            layer.keys, layer.values = keys, values
            layers.append(layer)
        lengths = [len(row.prompt) - 1 for row in rows]
        context = Context(layers, lengths, [row.agent for row in rows], limit)
        pad = [[0] * (limit - len(row.tokens)) for row in rows]
        targets = torch.tensor(
            [row.tokens + p for row, p in zip(rows, pad, strict=True)], device=device
        )
        opening = torch.tensor([[row.prompt[-1]] for row in rows], device=device)
        logits = self.logits(torch.cat([opening, targets[:, :-1]], 1), context, frozen)
        logits = warp(logits, sampling, targets[..., None])
        logps = -F.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="none")
        sizes = torch.tensor([len(row.tokens) for row in rows], device=device)
        mask = torch.arange(limit, device=device) < sizes[:, None]
        return logps.view_as(targets), mask

    def encode(self, text: str, chat: bool, limit: int) -> tuple[int, ...]:
        """Token ids of a prompt. Raises ValueError where it would have to be cut to `limit`."""
        if not isinstance(text, str):
            raise ValueError(f"a prompt, which observe() gives, has to be a text, not {text!r:.60}")
        if chat:
            ids = self.tokenizer.apply_chat_template(
                [{"role": "user", "content": text}], add_generation_prompt=True, return_dict=False
            )
        else:
            ids = self.tokenizer(text)["input_ids"]
        if len(ids) > limit:
            raise ValueError(
                f"a prompt has {len(ids)} tokens and --max-prompt-tokens is {limit}; prompts are "
                f"never cut: raise the limit or drop the item ({text[:60]!r}...)"
            )
        if max(ids, default=0) >= (known := self.net.config.get_text_config().vocab_size):
            raise ValueError(
                f"the tokenizer is of another model: token {max(ids)}, and the model knows {known}"
            )
        if len(ids) < 2:
            raise ValueError(f"a prompt needs at least two tokens, this one is {text!r}")
        return tuple(ids)


def pack(costs: list[float]) -> Iterator[list[int]]:
    """Numbers of the items, sorted by cost and cut so that count x largest cost stays within 1.

    >>> list(pack([0.2, 0.5, 0.2, 0.5]))
    [[0, 2], [1, 3]]
    """
    batch: list[int] = []
    for number in sorted(range(len(costs)), key=costs.__getitem__):
        if batch and (len(batch) + 1) * costs[number] > 1:
            yield batch
            batch = []
        batch.append(number)
    if batch:
        yield batch


def eos_tokens(model, tokenizer) -> frozenset[int]:
    """Every token that ends a response: the checkpoint's (one or several) and the tokenizer's."""
    ids = model.generation_config.eos_token_id
    ids = set(ids if isinstance(ids, list) else [ids]) | {tokenizer.eos_token_id}
    ids.discard(None)
    if not ids:
        raise ValueError("the model has no end-of-sequence token: set eos_token in its tokenizer")
    return frozenset(ids)


def fingerprint(name: str) -> str:
    """Tells a model's files (config, tokenizer, weights) from another's; the name is not in it.

    Of each file its size and 64 blocks of 64 KiB, evenly spread, are hashed, so it takes a moment
    for any size. Training moves every weight, and so cannot hide between the blocks.
    """
    config = Path(name) / "config.json"
    found = config if config.is_file() else try_to_load_from_cache(name, "config.json")
    folder, digest = Path(found).parent, hashlib.sha256()
    for path in sorted({file for kind in MODEL_FILES for file in folder.glob(kind)}):
        size = path.stat().st_size
        digest.update(f"{path.name} {size}\n".encode())
        with path.open("rb") as file:
            for start in range(0, size, max(size // 64, 1 << 16)):
                file.seek(start)
                digest.update(file.read(1 << 16))
    return digest.hexdigest()


def load_model(name: str, bits: int, trust_remote_code: bool):
    """(model, tokenizer) of a local folder or a hub name, the weights in 32, 16, 8 or 4 bits.

    Raises ValueError where there is no such model, at once: transformers would retry for a minute.
    """
    if not Path(name).is_dir():
        try:
            if not try_to_load_from_cache(name, "config.json"):
                model_info(name, timeout=5)
        except Exception as error:  # many kinds: no such name, no network, no access
            raise ValueError(
                f"model {name!r} is no folder, not in the local cache, and the hub does not give "
                f"it ({type(error).__name__})"
            ) from error
    gpu = torch.cuda.is_available()
    half = bits == 16 or (bits < 16 and gpu)  # what 8 or 4 bits leave is slow in half on a CPU
    options = {"dtype": torch.bfloat16 if half else torch.float32}
    if bits < 16:
        options["quantization_config"] = BitsAndBytesConfig(
            load_in_8bit=bits == 8,
            load_in_4bit=bits == 4,
            bnb_4bit_quant_type="nf4",
            bnb_4bit_compute_dtype=options["dtype"],
        )
        options["device_map"] = "auto" if gpu else "cpu"
    if (Path(name) / "adapter_config.json").is_file():
        raise ValueError(f"{name} is an adapter: --model takes its base, --resume a whole run")
    try:
        tokenizer = AutoTokenizer.from_pretrained(name, trust_remote_code=trust_remote_code)
        model = AutoModelForCausalLM.from_pretrained(
            name, trust_remote_code=trust_remote_code, use_safetensors=True, **options
        )
    except Exception as error:  # many kinds, some of them long
        if "trust_remote_code" in str(error):
            told = "it brings code of its own: read it, and if you trust it, --trust-remote-code"
        else:
            told = f"it needs config.json, safetensors and a tokenizer ({error!s:.300})"
        raise ValueError(f"cannot load the model {name!r}: {told}") from error
    return model, tokenizer
