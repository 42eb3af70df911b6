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
import functools
import hashlib
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
from transformers import (
    AttentionInterface,
    AutoModelForCausalLM,
    AutoTokenizer,
    BitsAndBytesConfig,
)
from transformers.cache_utils import Cache, DynamicLayer

# What one forward pass of the update may keep for the backward pass: more is no faster.
UPDATE_BYTES = {"cpu": 2**25, "cuda": 3 * 2**30}
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
    problem: int = 0  # its number in the batch


def warp(logits: Tensor, sampling: Sampling, keep: Tensor | None = None) -> Tensor:
    """Logits (..., V) of the sampled distribution: temperature, then top-k, then top-p.

    keep (..., 1) holds the tokens to score: one that rounding moves over the edge of the nucleus in
    the update was inside it when it was sampled.
    """
    logits = logits.float()
    if sampling.temperature not in (0, 1):
        logits = logits / sampling.temperature
    if not sampling.top_k and sampling.top_p == 1:
        return logits
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


def draw(mass: Tensor, uniforms: Tensor) -> Tensor:
    """Tokens (R,) from probabilities (R, V) by inverting the distribution at uniforms (R,).

    One number in [0, 1) decides one token, so a row's sample depends on nothing else in the batch:
    not on which rows are decoded beside it, nor on when finished ones leave. First a block of
    tokens, then one of the block: a running sum over a large vocabulary is slow.
    """
    return _draw(mass, uniforms.double()[:, None] * mass.sum(-1, True, dtype=torch.float64))


def _draw(mass: Tensor, points: Tensor) -> Tensor:
    """Where the running sum of each row passes its point (R, 1)."""
    below = 1 - 1e-12  # rounding must not lead past the last token that has a probability
    if mass.shape[-1] <= 4096:
        ends = mass.cumsum(-1, dtype=torch.float64)
        return torch.searchsorted(ends, points.minimum(below * ends[:, -1:]), right=True)[:, 0]
    blocks = F.pad(mass, (0, -mass.shape[-1] % 256)).unflatten(-1, (-1, 256))
    sums = blocks.sum(-1, dtype=torch.float64)
    block = _draw(sums, points)
    before = F.pad(sums.cumsum(-1), (1, 0)).gather(-1, block[:, None])
    return 256 * block + _draw(blocks[torch.arange(len(block)), block], points - before)


class TokenLogps(torch.autograd.Function):
    """log pi of target tokens (N,) from the last hidden states (N, D) and the output layer.

    Of N x V logits only a few rows exist at a time. d log pi / d hidden is a row of its own for
    every token, known once its logits are: it is made with them, and backward only scales it. A
    trained output layer (full copies) needs its logits once more, for its own gradient.
    """

    @staticmethod
    def forward(ctx, hidden: Tensor, weight: Tensor, bias, targets: Tensor, sampling: Sampling):
        logps = hidden.new_empty(len(hidden), dtype=torch.float32)
        slope = torch.empty_like(hidden) if ctx.needs_input_grad[0] else None
        for part in _parts(hidden, weight):
            logps[part], odds = _token_logps(hidden[part], weight, bias, targets[part], sampling)
            if slope is not None:
                slope[part] = odds @ weight
        ctx.save_for_backward(hidden, weight, bias, targets, slope)
        ctx.sampling = sampling
        return logps

    @staticmethod
    def backward(ctx, grad: Tensor):
        hidden, weight, bias, targets, slope = ctx.saved_tensors
        grads = [None if slope is None else slope * grad[:, None].to(slope.dtype), None, None]
        if ctx.needs_input_grad[1]:
            grads[1] = torch.zeros_like(weight)
            grads[2] = None if bias is None else torch.zeros_like(bias)
            for part in _parts(hidden, weight):
                x = hidden[part].to(weight.dtype)
                _, odds = _token_logps(x, weight, bias, targets[part], ctx.sampling)
                odds *= grad[part, None].to(odds.dtype)
                grads[1].addmm_(odds.T, x)
                if bias is not None:
                    grads[2] += odds.sum(0)
        return *grads, None, None


def _parts(hidden: Tensor, weight: Tensor) -> list[slice]:
    """A CPU is fastest where logits stay in its cache, a GPU where its cores are busy."""
    size = max(2 ** (21 if hidden.device.type == "cpu" else 26) // len(weight), 64)
    return [slice(start, start + size) for start in range(0, len(hidden), size)]


def _token_logps(hidden: Tensor, weight: Tensor, bias, targets: Tensor, sampling: Sampling):
    """log pi of the targets (N,), and d log pi / d logits (N, V)."""
    logits = warp(F.linear(hidden, weight, bias), sampling, targets[:, None])
    total = logits.logsumexp(-1, keepdim=True)
    chosen = logits.gather(-1, targets[:, None]) - total
    odds = (logits - total).exp_().neg_()
    odds.scatter_add_(-1, targets[:, None], torch.ones_like(chosen))
    if sampling.temperature not in (0, 1):
        odds /= sampling.temperature
    return chosen.squeeze(-1), odds.to(weight.dtype)


class Grid:
    """Which prompt each of R rows continues: rows are ordered by prompt and laid out P x S, so that
    a prompt's keys are read once for all of its rows. place: where each row stands in the layout,
    None where they fill it."""

    def __init__(self, owner: Tensor, lengths: Tensor, width: int, heads: int):
        self.owner, self.lengths, self.width, self.heads = owner, lengths, width, heads
        counts = torch.bincount(owner)
        self.prompts, self.samples = len(counts), int(counts.max())
        first = (counts.cumsum(0) - counts)[owner]
        self.place = owner * self.samples + torch.arange(len(owner), device=owner.device) - first
        if self.prompts * self.samples == len(owner):
            self.place = None
        self.hidden = None  # (P h, 1, W), added to the scores: -inf at a prompt's padding
        if int(lengths.min()) < width:
            padding = torch.arange(width, device=owner.device) >= lengths[:, None]
            self.hidden = torch.zeros(padding.shape, device=owner.device)
            self.hidden = self.hidden.masked_fill(padding, -math.inf)[:, None]
            self.hidden = self.hidden.repeat_interleave(heads, 0)

    def by_prompt(self, x: Tensor) -> Tensor:
        """(R h, g, X) -> (P h, S g, X)."""
        _, group, size = x.shape
        if self.place is not None:
            x = x.view(-1, self.heads * group * size)
            x = x.new_zeros(self.prompts * self.samples, x.shape[1]).index_copy(0, self.place, x)
        x = x.view(self.prompts, self.samples, self.heads, group, size).transpose(1, 2)
        return x.reshape(self.prompts * self.heads, self.samples * group, size)

    def by_row(self, x: Tensor) -> Tensor:
        """(P h, S g, X) -> (R h, g, X)."""
        _, group, size = x.shape
        group //= self.samples
        x = x.view(self.prompts, self.heads, self.samples, group, size).transpose(1, 2)
        if self.place is not None:
            x = x.reshape(self.prompts * self.samples, -1).index_select(0, self.place)
        return x.reshape(-1, group, size)


class RowCache(DynamicLayer):
    """Keys and values of one layer while decoding: a prompt's are held once for all of its rows, a
    row's own in a store with room for every token. (DynamicLayer grows by concatenation: copying
    the whole cache for every token took 3/4 of the decode's time on a CPU.)"""

    def __init__(self, keys: Tensor, values: Tensor, grid: Grid, room: int):
        super().__init__()
        self.lazy_initialization(keys, values)
        self.grid, size = grid, keys.shape[3]
        self.keys, self.values = keys.flatten(0, 1).transpose(1, 2), values.flatten(0, 1)
        rows = len(grid.owner) * grid.heads
        self.own_keys, self.own_values = keys.new_empty(2, rows, room, size)  # (R h, T, D)
        self.used = 0

    def get_seq_length(self) -> int:
        return self.grid.width + self.used

    def update(self, keys: Tensor, values: Tensor, *args, **kwargs):
        """Takes a token's keys and values (R, h, 1, D); `attend` is given the cache itself."""
        shape = (self.own_keys.shape[0], keys.shape[3])
        self.own_keys.select(1, self.used).copy_(keys.view(shape))
        self.own_values.select(1, self.used).copy_(values.view(shape))
        self.used += 1
        return self, self

    def attend(self, query: Tensor, scaling: float) -> Tensor:
        """(R, H, 1, D) -> (R, 1, H, D): attention over a row's prompt and its own tokens."""
        grid, (rows, heads, _, size) = self.grid, query.shape
        query = (query * scaling).view(rows * grid.heads, -1, size)  # (R h, H / h, D)
        prompt = _products(grid.by_prompt(query), self.keys)
        prompt = grid.by_row(prompt if grid.hidden is None else prompt + grid.hidden)
        own = _products(query, self.own_keys.narrow(1, 0, self.used).transpose(1, 2))
        weights = torch.cat([prompt, own], -1).softmax(-1).to(query.dtype)
        prompt, own = weights.split([grid.width, self.used], -1)
        mixed = grid.by_row(torch.bmm(grid.by_prompt(prompt.contiguous()), self.values))
        mixed = torch.baddbmm(mixed, own, self.own_values.narrow(1, 0, self.used))
        return mixed.view(rows, 1, heads, size)

    def select(self, rows: Tensor, prompts: Tensor, grid: Grid) -> None:
        """Keeps these rows and prompts, which `grid` lays out anew."""

        def kept(t: Tensor, which: Tensor) -> Tensor:
            return t.unflatten(0, (-1, grid.heads))[which].flatten(0, 1)

        self.own_keys, self.own_values = kept(self.own_keys, rows), kept(self.own_values, rows)
        if len(prompts) < self.grid.prompts:
            self.keys, self.values = kept(self.keys, prompts), kept(self.values, prompts)
        self.grid = grid


def _products(queries: Tensor, keys: Tensor) -> Tensor:
    """queries @ keys in single precision: rounded to 16 bits, scores would move log-probabilities
    by several hundredths."""
    if queries.dtype == torch.float32 and not torch.is_autocast_enabled(queries.device.type):
        return torch.bmm(queries, keys)
    if queries.is_cuda and queries.dtype != torch.float32:
        return torch.bmm(queries, keys, out_dtype=torch.float32)
    with torch.autocast(queries.device.type, enabled=False):
        return torch.bmm(queries.float(), keys.float())


def attend(module, query, key, value, attention_mask, scaling, sliding_window=None, **kwargs):
    """The attention of every model here, for transformers' AttentionInterface: causal over prompts,
    over a RowCache in decoding, and under `Base.mask` in the update."""
    unknown = [name for name in ("softcap", "s_aux") if kwargs.get(name) is not None]
    if sliding_window is not None or unknown:
        raise ValueError(
            "models with sliding-window, soft-capped or sink attention are not supported"
        )
    if isinstance(key, RowCache):
        return key.attend(query, scaling), None
    shape = query.shape
    if attention_mask is None:
        mixed = F.scaled_dot_product_attention(
            query, key, value, is_causal=True, scale=scaling, enable_gqa=True
        )
    else:  # the queries that share a head's keys go beside each other: keys are never repeated
        query = query.reshape(shape[0], key.shape[1], -1, shape[3])
        mixed = F.scaled_dot_product_attention(query, key, value, attention_mask, scale=scaling)
    return mixed.view(shape).transpose(1, 2).contiguous(), None


AttentionInterface.register("shared_prompts", attend)


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
        model.set_attn_implementation("shared_prompts")
        check_head(model)
        self.actors: list[int] = []  # agents of the batch in hand; none: the frozen base acts
        self.turn: Tensor | None = None  # (R T, actors r): 1 where a row is its actor's
        self.stacks: dict | None = None  # adapters side by side, kept while decoding
        if self.lora:
            config = LoraConfig(r=lora_rank, lora_alpha=lora_alpha, target_modules="all-linear")
            model = get_peft_model(model, config, adapter_name=f"agent{agents[0]}")
            for agent in agents[1:]:
                model.add_adapter(f"agent{agent}", config)
            model.base_model.disable_adapter_layers()  # `_adapt` applies them, all in one batch
            for layer in model.modules():
                if isinstance(layer, LoraLayer):
                    layer.forward = functools.partial(self._adapt, layer)
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
    def head(self) -> nn.Linear:
        return self.net.get_output_embeddings()

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

    def _adapt(self, layer: LoraLayer, x: Tensor) -> Tensor:
        """W x and, for each agent's rows, what its own adapter adds: s B A x. The adapters lie side
        by side as one of rank actors x r, of which a row keeps its actor's part."""
        if not self.actors:
            return type(layer).forward(layer, x)
        if self.stacks is None:
            down, up = self._stacked(layer)
        elif layer in self.stacks:
            down, up = self.stacks[layer]
        else:
            down, up = self.stacks[layer] = self._stacked(layer)
        flat = x.flatten(0, 1)
        base = layer.base_layer
        plain = type(base) is nn.Linear  # a module's call costs as much as a small product
        output = F.linear(flat, base.weight, base.bias) if plain else base(flat)
        inner = torch.mm(flat.to(down.dtype), down)
        if self.turn is not None:
            inner = inner * self.turn
        if output.dtype != inner.dtype:
            output = output + torch.mm(inner, up).to(output.dtype)
        else:
            output = torch.addmm(output, inner, up)
        return output.view(*x.shape[:2], -1)

    def _stacked(self, layer) -> tuple[Tensor, Tensor]:
        """(in, actors r) and (actors r, out)."""
        names = [f"agent{agent}" for agent in self.actors]
        down = torch.cat([layer.lora_A[name].weight for name in names])
        up = torch.cat([layer.lora_B[name].weight * layer.scaling[name] for name in names], 1)
        return down.T, up.T

    @contextlib.contextmanager
    def acting(self, agents: list[int] | None, tokens: int):
        """Rows of so many tokens are run as these agents; None: as the frozen base, which is the KL
        reference."""
        self.act(agents, tokens)
        try:
            yield
        finally:
            self.act(None)

    def act(self, agents: list[int] | None, tokens: int = 1) -> None:
        if not self.lora:
            return
        self.actors, self.turn = sorted(set(agents or [])), None
        if len(self.actors) > 1:
            rank = next(iter(self.model.peft_config.values())).r
            mine = torch.tensor([[agent == a for a in self.actors] for agent in agents])
            mine = mine.to(self.device, torch.float32).repeat_interleave(rank, 1)
            self.turn = mine.repeat_interleave(tokens, 0)

    def prefill(self, prompts: list[tuple[int, ...]], agents: list[int] | None) -> list:
        """Keys and values of all but the last token of each prompt: per layer (k, v), (R, H, W, D).

        Padding is on the right, after every real token, so it needs no mask here; `Context` hides
        it from what follows. The last token opens the response's row, so no logits are needed.
        """
        width = max(map(len, prompts)) - 1
        ids = torch.tensor([p[:-1] + (0,) * (width + 1 - len(p)) for p in prompts])
        with self.acting(agents, width):
            out = self.net.base_model(input_ids=ids.to(self.device), use_cache=True)
        return [(layer.keys, layer.values) for layer in out.past_key_values.layers]

    def hidden(self, tokens: Tensor, positions: Tensor, cache: Cache, mask=None) -> Tensor:
        """Last hidden states (R, T, D) of tokens (R, T) that follow what the cache holds."""
        return self.net.base_model(
            input_ids=tokens,
            position_ids=positions,
            past_key_values=cache,
            attention_mask=mask,
            use_cache=True,
        ).last_hidden_state

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
        greedy = sampling.temperature == 0
        self.stacks = {}
        config = self.net.config.get_text_config()
        lengths = torch.tensor([len(prompt) - 1 for prompt in prompts], device=self.device)
        owner = torch.arange(len(prompts), device=self.device).repeat_interleave(samples)
        grid = Grid(owner, lengths, max(map(len, prompts)) - 1, config.num_key_value_heads)
        cache = Cache([RowCache(k, v, grid, limit) for k, v in self.prefill(prompts, agents)])
        uniforms = uniforms.flatten(0, 1).to(self.device)  # (R, T)
        tokens = torch.tensor([prompt[-1:] for prompt in prompts], device=self.device)[owner]
        positions = lengths[owner][:, None]
        eos = torch.tensor(sorted(self.eos), device=self.device)
        alive = torch.arange(len(owner), device=self.device)  # the decoded rows' numbers
        done = torch.zeros_like(alive, dtype=torch.bool)
        self.act([agents[prompt] for prompt in owner.tolist()])
        steps = []  # of each token: rows, tokens, log-probabilities, entropies
        for step in range(limit):
            hidden = self.hidden(tokens, positions, cache)[:, -1]
            scores = warp(self.head(hidden), sampling).log_softmax(-1)
            mass = scores.exp()
            new = scores.argmax(-1) if greedy else draw(mass, uniforms[:, step])
            tokens = new[:, None]
            logps = scores.gather(-1, tokens).squeeze(-1)
            entropy = -torch.linalg.vecdot(mass, scores.clamp_(min=-1e30))
            steps.append((alive, new, logps, entropy))
            positions = positions + 1
            done = done | torch.isin(new, eos)
            finished = int(done.sum())
            if finished == len(alive):
                break
            if 4 * finished >= len(alive):  # copying the cache costs about one step
                keep = (~done).nonzero().squeeze(-1)
                left, owner = grid.owner[keep].unique(return_inverse=True)
                grid = Grid(owner, grid.lengths[left], grid.width, grid.heads)
                for layer in cache.layers:
                    layer.select(keep, left, grid)
                alive, tokens, positions = alive[keep], tokens[keep], positions[keep]
                uniforms, done = uniforms[keep], done[keep]
                self.act([agents[row // samples] for row in alive.tolist()])
                self.stacks = {}
        self.act(None)
        self.stacks = None
        rows: list[list[tuple]] = [[] for _ in range(len(prompts) * samples)]
        columns = [torch.cat(column).tolist() for column in zip(*steps, strict=True)]
        for row, *token in zip(*columns, strict=True):
            rows[row].append(token)
        found = [self._response(*map(list, zip(*row, strict=True))) for row in rows]
        return [found[i : i + samples] for i in range(0, len(found), samples)]

    def _response(self, tokens: list[int], logps: list, entropy: list) -> Response:
        """Cuts a decoded row after its first end-of-sequence token."""
        end = next((i for i, token in enumerate(tokens) if token in self.eos), None)
        size = len(tokens) if end is None else end + 1
        text = self.tokenizer.decode(tokens[:end], skip_special_tokens=True)
        return Response(tokens[:size], text, logps[:size], sum(entropy[:size]), end is not None)

    def activations(self, tokens: int) -> int:
        """Bytes that the backward pass keeps for so many tokens, about: 12 numbers per hidden unit
        and 4 per feed-forward unit of every layer, four bytes each. TokenLogps keeps no logits."""
        config = self.net.config.get_text_config()
        width = 12 * config.hidden_size + 4 * config.intermediate_size
        return 4 * tokens * config.num_hidden_layers * width

    def cache_bytes(self) -> int:
        """Bytes of one token's keys and values in all layers."""
        config = self.net.config.get_text_config()
        head = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        size = self.net.dtype.itemsize
        return 2 * config.num_hidden_layers * config.num_key_value_heads * head * size

    def cost(self, prompt: int, response: int) -> float:
        """Share of one forward pass of the update that a row takes up: its own tokens, and a copy
        of its prompt's keys and values."""
        kept = self.activations(response) + prompt * self.cache_bytes()
        return kept / self.update_bytes

    @property
    def update_bytes(self) -> int:
        return UPDATE_BYTES["cuda" if self.device.type == "cuda" else "cpu"]

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
        for chunk in pack([self.cost(0, len(prompt)) for _, prompt in prompts]):
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
        pad = [[0] * (limit - len(row.tokens)) for row in rows]
        targets = torch.tensor(
            [row.tokens + p for row, p in zip(rows, pad, strict=True)], device=device
        )
        opening = torch.tensor([[row.prompt[-1]] for row in rows], device=device)
        lengths = torch.tensor([[len(row.prompt) - 1] for row in rows], device=device)
        with self.acting(None if frozen else [row.agent for row in rows], limit):
            hidden = self.hidden(
                torch.cat([opening, targets[:, :-1]], 1),
                lengths + torch.arange(limit, device=device),
                Cache(layers=layers),
                self.mask(lengths, prefix[0][0].shape[2], limit),
            )
        sizes = torch.tensor([[len(row.tokens)] for row in rows], device=device)
        mask = torch.arange(limit, device=device) < sizes
        real = mask.flatten().nonzero().squeeze(-1)
        logps = TokenLogps.apply(
            hidden.flatten(0, 1).index_select(0, real),
            self.head.weight,
            getattr(self.head, "bias", None),
            targets.flatten()[real],
            sampling,
        )
        return logps.new_zeros(mask.numel()).index_copy(0, real, logps).view_as(mask), mask

    def mask(self, lengths: Tensor, width: int, limit: int) -> Tensor:
        """What tokens of responses may look at, (R or 1, 1, H / h T, W + T): the real part of their
        prompt, and themselves and what came before. Once for each query head of a key head."""
        config = self.net.config.get_text_config()
        repeat = config.num_attention_heads // config.num_key_value_heads
        if int(lengths.min()) == width:
            lengths = lengths[:1]
        places = torch.arange(width, device=self.device) < lengths
        prompt = places[:, None, None].expand(-1, 1, limit, width)
        causal = torch.ones(limit, limit, dtype=torch.bool, device=self.device).tril()
        both = torch.cat([prompt, causal.expand(len(lengths), 1, limit, limit)], -1)
        return both.repeat(1, 1, repeat, 1)

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


@torch.no_grad()
def check_head(model) -> None:
    """Raises ValueError where a model's logits are more than its output layer, or where its
    attention cannot be replaced: TokenLogps and RowCache would then compute another model."""
    if model.config._attn_implementation != "shared_prompts":
        raise ValueError(f"{type(model).__name__} does not let its attention be replaced")
    head = model.get_output_embeddings()
    ids = torch.zeros(1, 2, dtype=torch.long, device=model.device)
    logits, hidden = model(input_ids=ids).logits, model.base_model(input_ids=ids).last_hidden_state
    if not torch.allclose(F.linear(hidden, head.weight, head.bias), logits, 1e-2, 1e-2):
        raise ValueError(f"{type(model).__name__} does more than one linear layer for its logits")


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
