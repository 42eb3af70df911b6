"""Language-model policies that share one frozen base: how responses are sampled and scored.

This is the machinery under magrpo.py; the algorithm is there. Three facts hold here, and
tests/test_policies.py checks each against a plain computation:

- What is sampled is what is scored (sampling.py), and no module is ever in training mode (dropout).
- A prompt is run once for its G samples, when decoding (attention.py) and in the update, where its
  keys and values carry the gradient of all its responses back through one backward pass.
- Agents that share a base share every forward pass (adapters.py), and the usual kinds of model run
  through as few kernels as they need (blocks.py).

Shapes: R rows (responses), T tokens of a response, W cached prompt positions, V vocabulary.
"""

import contextlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch
from peft import (
    LoraConfig,
    get_peft_model,
    get_peft_model_state_dict,
    set_peft_model_state_dict,
)
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn
from transformers import AutoModelForCausalLM
from transformers.cache_utils import Cache, DynamicCache, DynamicLayer

from adapters import Adapters, Crew
from attention import Grid, RowCache
from blocks import Blocks, is_known
from models import adapted, beyond_linear, context, eos_tokens, quantized
from sampling import Sampling, TokenLogps, capped, choose

# What one forward pass of the update may keep for the backward pass: more is no faster.
UPDATE_BYTES = {"cpu": 2**26, "cuda": 3 * 2**30}
DECODE_TOKENS = 2**18  # padded tokens whose keys and values one decode may hold


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
    advantage: float = 0.0
    weight: float = 1.0  # its share of the batch
    problem: int = 0  # its number in the batch
    logps: list[float] = field(default_factory=list)  # of its tokens, as they were sampled

    @property
    def coef(self) -> float:
        """Its coefficient in the loss."""
        return self.advantage * self.weight


class Base(nn.Module):
    """One model and the agents that share it: frozen, with a LoRA adapter each, or (lora_rank 0)
    trained itself, as one agent's own copy. The rows of a batch are always ordered by agent."""

    def __init__(self, model, tokenizer, agents: list[int], lora_rank: int, lora_alpha: int):
        super().__init__()
        self.tokenizer, self.agents, self.lora = tokenizer, agents, lora_rank > 0
        self.eos = eos_tokens(model, tokenizer)
        self.context = context(model.config.get_text_config())  # in tokens
        own = model.config._attn_implementation
        model.set_attn_implementation("shared_prompts")
        if self.lora:
            targets, kind = adapted(model), type(model).__name__
            config = LoraConfig(r=lora_rank, lora_alpha=lora_alpha, target_modules=targets)
            try:
                model = get_peft_model(model, config, adapter_name=f"agent{agents[0]}")
            except ValueError as error:
                raise ValueError(f"{kind} takes no adapters ({error!s:.200})") from error
            for agent in agents[1:]:
                model.add_adapter(f"agent{agent}", config)
            model.base_model.disable_adapter_layers()  # `adapters` applies them, all in one batch
        self.model = model.eval()  # no dropout: the sampled policy is the scored one
        for layer in model.modules():
            if type(layer).__name__ == "Linear4bit":
                layer.training = True  # else its first forward pass repacks it on a CPU, for good:
                # it is fast then, and passes no gradient on
        for name, parameter in model.named_parameters():
            learns = not self.lora or ".agent" in name
            parameter.requires_grad_(learns and parameter.is_floating_point())
        self.adapters = Adapters(model)
        known = is_known(self.net.config)
        self.blocks = Blocks(self.net.base_model, self.adapters) if known else None
        self.scale, self.softcap = beyond_linear(self.net.config)
        self.check(own)

    @torch.no_grad()
    def check(self, own: str) -> None:
        """Raises ValueError where a model, run as it is here, is not the model that transformers
        runs with its `own` attention: state-space layers, chunks, sinks, logits made otherwise, or
        whatever comes next. Two prompts, decoded and scored without adapters."""
        kind, vocab = type(self.net).__name__, len(self.head.weight)
        prompts = [tuple(n % vocab for n in ids) for ids in ((5, 3, 9, 4), (7, 2))]
        uniforms = torch.linspace(0.1, 0.9, 12, dtype=torch.float64).view(2, 2, 3)
        sampling = Sampling(1.0, 0, 1.0, 3)
        try:
            if self.net.config._attn_implementation != "shared_prompts":
                raise ValueError("its attention cannot be replaced")
            found = self.decode(prompts, None, uniforms, sampling)
            rows = [
                Row(self.agents[0], prompt, response.tokens, logps=response.logps)
                for prompt, responses in zip(prompts, found, strict=True)
                for response in responses
            ]
            scores = {}
            for numbers, logps, _ in self.score(rows, sampling, frozen=True):
                scores |= dict(zip(numbers, logps.cpu(), strict=True))
            self.net.set_attn_implementation(own)
            gaps = []
            for n, row in enumerate(rows):
                ids, size = torch.tensor([[*row.prompt, *row.tokens]]), len(row.tokens)
                logits = self.net(input_ids=ids.to(self.device)).logits[0, -size - 1 : -1].float()
                plain = logits.log_softmax(-1).cpu().gather(-1, ids[0, -size:, None])[:, 0]
                gaps += [torch.tensor(row.logps) - plain, scores[n][:size] - plain]
            far = float(torch.cat(gaps).abs().max())
        except Exception as error:  # of a model's own code: many kinds
            raise ValueError(
                f"{kind} cannot be trained here: its layers have to be attention that can be "
                f"replaced, and keep no other state ({error!s:.120})"
            ) from error
        finally:
            self.net.set_attn_implementation("shared_prompts")
        exact = self.net.dtype == torch.float32 and not quantized(self.net)
        if not far < (1e-2 if exact else 1.0):
            raise ValueError(
                f"{kind} cannot be trained here: it does more than attention over all tokens and "
                f"one linear layer for its logits (log-probabilities are {far:.2g} off)"
            )

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
            (path / "README.md").unlink(missing_ok=True)  # an empty form
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

    @contextlib.contextmanager
    def acting(self, agents: Sequence[int] | None, tokens: int):
        """Rows of so many tokens are run as these agents; None: as the frozen base, which is the KL
        reference."""
        self.act(agents, tokens)
        try:
            yield
        finally:
            self.act(None)

    def act(self, agents: Sequence[int] | None, tokens: int = 1) -> None:
        known = self.lora and agents
        self.adapters.crew = Crew(agents, tokens, self.device) if known else None

    def prefill(
        self, prompts: Sequence[tuple[int, ...]], agents: Sequence[int] | None
    ) -> list[tuple[Tensor, Tensor]]:
        """Keys and values of all but the last token of each prompt: per layer (k, v), (R, H, W, D).

        Padding is on the right, after every real token, so it needs no mask here; `Grid` and `mask`
        hide it from what follows. The last token opens the response's row, so no logits are needed.
        """
        width = max(map(len, prompts)) - 1
        ids = torch.tensor([p[:-1] + (0,) * (width + 1 - len(p)) for p in prompts])
        positions = torch.arange(width, device=self.device)[None]
        cache = DynamicCache()
        with self.acting(agents, width):
            self.hidden(ids.to(self.device), positions, cache, keys_only=True)
        return [(layer.keys, layer.values) for layer in cache.layers]

    def hidden(
        self, tokens: Tensor, positions: Tensor, cache: Cache, mask=None, keys_only: bool = False
    ) -> Tensor:
        """Last hidden states (R, T, hidden) of tokens (R, T) that follow what the cache holds.
        keys_only: only what the cache then holds is wanted."""
        if self.blocks:
            return self.blocks(tokens, positions, cache, mask, keys_only)
        states = self.net.base_model(
            input_ids=tokens,
            position_ids=positions,
            past_key_values=cache,
            attention_mask=mask,
            use_cache=True,
        ).last_hidden_state
        return states if self.scale == 1 else states * self.scale

    @torch.inference_mode()  # the many small kernels of a step cost an eighth less than in no_grad
    def decode(
        self,
        prompts: Sequence[tuple[int, ...]],
        agents: Sequence[int] | None,
        uniforms: Tensor,
        sampling: Sampling,
    ) -> list[list[Response]]:
        """S responses to each prompt. agents (sorted): who answers, None: the frozen base;
        uniforms (prompts, S, T)."""
        samples, limit = uniforms.shape[1:]
        lengths = torch.tensor([len(prompt) - 1 for prompt in prompts], device=self.device)
        owner = torch.arange(len(prompts), device=self.device).repeat_interleave(samples)
        prefix = self.prefill(prompts, agents)
        grid = Grid(owner, lengths, max(map(len, prompts)) - 1, prefix[0][0].shape[1])
        cache = Cache([RowCache(k, v, grid, limit) for k, v in prefix])
        uniforms = uniforms.flatten(0, 1).to(self.device)  # (R, T)
        tokens = torch.tensor([prompt[-1:] for prompt in prompts], device=self.device)[owner]
        positions = lengths[owner][:, None]
        vocab = len(self.head.weight)
        ends = torch.zeros(vocab, dtype=torch.bool, device=self.device)  # whether a token is one
        ends[[token for token in self.eos if token < vocab]] = True
        alive = torch.arange(len(owner), device=self.device)  # the decoded rows' numbers
        done = torch.zeros_like(alive, dtype=torch.bool)
        steps = []  # of each token: rows, tokens, log-probabilities, entropies
        acting = agents and [agents[prompt] for prompt in owner.tolist()]
        with self.acting(acting, 1), self.adapters.still():
            for step in range(limit):
                logits = self.logits(self.hidden(tokens, positions, cache)[:, -1])
                new, *measured = choose(logits, uniforms[:, step], sampling)
                steps.append((alive, new, *measured))
                tokens, positions = new[:, None], positions + 1
                done = done | ends.index_select(0, new)
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
                    self.act(agents and [agents[row // samples] for row in alive.tolist()])
        return self._responses(steps, len(prompts), samples)

    def _responses(self, steps: list[tuple], prompts: int, samples: int) -> list[list[Response]]:
        rows: list[list[tuple]] = [[] for _ in range(prompts * samples)]
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
        inner = getattr(config, "intermediate_size", None) or 4 * config.hidden_size
        width = 12 * config.hidden_size + 4 * inner
        return 4 * tokens * config.num_hidden_layers * width

    def cache_bytes(self) -> int:
        """Bytes of one token's keys and values in all layers."""
        config = self.net.config.get_text_config()
        head = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
        return 2 * config.num_hidden_layers * heads * head * self.net.dtype.itemsize

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
                owners = [owner[n] for n in numbers]
                kv = [[spread(t, owners) for t in pair] for pair in leaves]
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
            self.softcap,
        )
        return logps.new_zeros(mask.numel()).index_copy(0, real, logps).view_as(mask), mask

    def logits(self, hidden: Tensor) -> Tensor:
        """(R, hidden) -> (R, V)."""
        return capped(self.head(hidden), self.softcap)

    def mask(self, lengths: Tensor, width: int, limit: int) -> Tensor:
        """What tokens of responses may look at, (R or 1, 1, T, W + T): the real part of their
        prompt, and themselves and what came before."""
        if int(lengths.min()) == width:
            lengths = lengths[:1]
        places = torch.arange(width, device=self.device) < lengths
        prompt = places[:, None, None].expand(-1, 1, limit, width)
        causal = torch.ones(limit, limit, dtype=torch.bool, device=self.device).tril()
        return torch.cat([prompt, causal.expand(len(lengths), 1, limit, limit)], -1)

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


def spread(x: Tensor, owners: list[int]) -> Tensor:
    """x[owners], owners in order. The gradient of plain indexing is summed by threads in no fixed
    order, that of index_select row by row, and that of equal shares in one sum."""
    first, count = owners[0], owners.count(owners[0])
    prompts, rest = divmod(len(owners), count)
    if not rest and owners == [first + i // count for i in range(len(owners))]:
        return x.narrow(0, first, prompts).repeat_interleave(count, 0)
    return x.index_select(0, torch.tensor(owners, device=x.device))


def pack(costs: list[float]) -> Iterator[list[int]]:
    """Numbers of the items, the most costly first, cut so that count x largest cost stays within 1
    and into about equal parts.

    >>> list(pack([0.2, 0.5, 0.2, 0.5, 0.2, 0.2]))
    [[1, 3], [0, 2, 4, 5]]
    """
    order = sorted(range(len(costs)), key=lambda number: -costs[number])
    while order:
        batches = math.ceil(len(order) / max(1, int(1 / costs[order[0]])))
        count = math.ceil(len(order) / batches)
        yield order[:count]
        order = order[count:]
