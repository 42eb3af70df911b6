"""The floor's step: bare tensor code, what bench/floor.py measures a real step against.

It holds what we know to be fast at these sizes, whether or not this project does it: the agents
stacked, so that theirs is one batched product; queries, keys and values, and gates, in one product;
adapters merged into the weights once a step, laid out as the product reads them; no autograd in
decoding, not even its bookkeeping; a prompt's keys read once for its G samples; a draw in
two levels; the head's gradient made with its loss, a few rows at a time.
"""

import math
import time

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import AutoModelForCausalLM

from bench.common import RESPONSE

LR, CLIP = 3e-3, 1.0
TOKENS = 4096  # of a backward pass, so that it keeps little; not much is known of the best number
FUSED = {  # one product for the linear layers that read the same input
    "qkv": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
    "out": ("self_attn.o_proj",),
    "gate_up": ("mlp.gate_proj", "mlp.up_proj"),
    "down": ("mlp.down_proj",),
}


class Floor:
    """n agents of one Qwen2, every tensor stacked over agents: x (n, tokens, width)."""

    def __init__(self, folder: str, agents: int, lora_rank: int):
        model = AutoModelForCausalLM.from_pretrained(folder)
        self.config, self.agents, self.rank = model.config, agents, lora_rank
        self.heads, self.kv = model.config.num_attention_heads, model.config.num_key_value_heads
        self.size = model.config.hidden_size // self.heads
        full = lora_rank == 0

        def stacked(tensor: Tensor, trained: bool) -> Tensor:
            return tensor.detach().repeat(agents, *[1] * tensor.dim()).requires_grad_(trained)

        self.embedding = stacked(model.model.embed_tokens.weight, full)
        self.final = stacked(model.model.norm.weight[None], full)
        self.layers = []
        for layer in model.model.layers:
            held = {
                "input": stacked(layer.input_layernorm.weight[None], full),
                "post": stacked(layer.post_attention_layernorm.weight[None], full),
            }
            for name, parts in FUSED.items():
                modules = [layer.get_submodule(part) for part in parts]
                held[name] = stacked(torch.cat([m.weight for m in modules]), full)
                if modules[0].bias is not None:
                    bias = torch.cat([m.bias for m in modules])[None]
                    held[name + ".bias"] = stacked(bias, full)
                if not full:
                    held[name + ".lora"] = [self._adapter(m.weight) for m in modules]
            self.layers.append(held)
        self.trained = [t for t in self._tensors() if t.requires_grad]
        self.optimizer = torch.optim.Adam(self.trained, lr=LR, betas=(0.9, 0.99), fused=True)
        steps = torch.arange(model.config.max_position_embeddings)[:, None]
        theta = model.config.rope_parameters["rope_theta"]
        rates = theta ** (-torch.arange(0, self.size, 2) / self.size)
        angles = torch.cat([steps * rates, steps * rates], -1)
        self.cos, self.sin = angles.cos(), angles.sin()
        self.sin[:, : self.size // 2] *= -1  # rotate_half's sign

    def _adapter(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        out, width = weight.shape
        down = torch.empty(self.agents, self.rank, width).uniform_(-1, 1) / math.sqrt(width)
        up = torch.zeros(self.agents, out, self.rank)
        return down.requires_grad_(), up.requires_grad_()

    def _tensors(self):
        yield from (self.embedding, self.final)
        for held in self.layers:
            for value in held.values():
                if isinstance(value, list):
                    for pair in value:
                        yield from pair
                else:
                    yield value

    def weights(self) -> list[dict[str, Tensor]]:
        """The layers with their adapters merged, differentiably: W + s B A, transposed views."""
        merged = []
        for held in self.layers:
            layer = {name: held[name] for name in ("input", "post")}
            for name in FUSED:
                weight = held[name]
                if self.rank:
                    deltas = [up @ down for down, up in held[name + ".lora"]]
                    delta = torch.cat(deltas, 1) if len(deltas) > 1 else deltas[0]
                    weight = torch.add(weight, delta, alpha=32 / self.rank)
                layer[name] = weight.transpose(1, 2)
            layer["qkv.bias"] = held["qkv.bias"]
            merged.append(layer)
        return merged

    def norm(self, x: Tensor, weight: Tensor) -> Tensor:
        return F.rms_norm(x, x.shape[-1:], eps=self.config.rms_norm_eps) * weight

    def rotate(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """x (rows, tokens, heads, size)."""
        return x * cos + x.roll(self.size // 2, -1) * sin

    def qkv(self, x: Tensor, layer: dict, cos: Tensor, sin: Tensor, rows: int):
        """x (n, rows x tokens, width) -> q (n rows, tokens, H, D), k, v (n rows, tokens, h, D)."""
        both = torch.baddbmm(layer["qkv.bias"], self.norm(x, layer["input"]), layer["qkv"])
        both = both.view(self.agents * rows, -1, self.heads + 2 * self.kv, self.size)
        turned, values = both.split([self.heads + self.kv, self.kv], 2)
        queries, keys = self.rotate(turned, cos, sin).split([self.heads, self.kv], 2)
        return queries, keys, values

    def rest(self, x: Tensor, mixed: Tensor, layer: dict) -> Tensor:
        """What follows attention; mixed (rows, tokens, H, D)."""
        x = x + torch.bmm(mixed.reshape(x.shape), layer["out"])
        gate, up = torch.bmm(self.norm(x, layer["post"]), layer["gate_up"]).chunk(2, -1)
        return x + torch.bmm(F.silu(gate) * up, layer["down"])

    def logits(self, x: Tensor) -> Tensor:
        """(n, tokens, V). Without full copies the embedding is one for all agents."""
        return torch.bmm(self.norm(x, self.final), self.embedding.transpose(1, 2))

    def embed(self, ids: Tensor) -> Tensor:
        """ids (n, tokens) -> (n, tokens, width)."""
        return torch.stack([F.embedding(i, e) for i, e in zip(ids, self.embedding, strict=True)])

    @torch.inference_mode()
    def decode(self, prompts: Tensor, group: int) -> Tensor:
        """prompts (n, B, P) -> tokens (n, B, G, T).

        A prompt's keys and values are held, and read, once for all of its G samples: those read
        it with one product, and their own responses with another.
        """
        agents, batch, length = prompts.shape
        width, nodes, repeat = length - 1, agents * batch, self.heads // self.kv
        layers = [{k: v.contiguous() for k, v in layer.items()} for layer in self.weights()]
        x = self.embed(prompts[..., :-1].flatten(1))
        cos, sin = self.cos[:width, None], self.sin[:width, None]
        caches = []
        for number, layer in enumerate(layers):
            queries, keys, values = self.qkv(x, layer, cos, sin, batch)
            own = torch.empty(2, nodes, self.kv, group, RESPONSE, self.size)
            caches.append((keys.permute(0, 2, 3, 1), values.transpose(1, 2), *own))
            if number + 1 < len(layers):
                x = self.rest(x, self.attend(queries, keys, values), layer)
        tokens = prompts[:, :, -1:].expand(-1, -1, group).flatten(1)  # (n, B G)
        found = torch.empty(agents, batch * group, RESPONSE, dtype=torch.long)
        for step in range(RESPONSE):
            at = width + step
            x = self.embed(tokens)
            for layer, (far_k, far_v, own_k, own_v) in zip(layers, caches, strict=True):
                q, k, v = self.qkv(x, layer, self.cos[at], self.sin[at], batch * group)
                own_k[:, :, :, step] = k.view(nodes, group, self.kv, -1).transpose(1, 2)
                own_v[:, :, :, step] = v.view(nodes, group, self.kv, -1).transpose(1, 2)
                q = q.view(nodes, group, self.kv, repeat, self.size).transpose(1, 2)
                q = (q * self.size**-0.5).reshape(nodes, self.kv, group * repeat, self.size)
                far = q @ far_k
                q = q.view(nodes, self.kv, group, repeat, self.size)
                near = q @ own_k[:, :, :, : step + 1].transpose(3, 4)
                both = torch.cat([far.view(*near.shape[:-1], width), near], -1).softmax(-1)
                far, near = both.split([width, step + 1], -1)
                far = far.reshape(nodes, self.kv, group * repeat, width) @ far_v
                mixed = (near @ own_v[:, :, :, : step + 1]) + far.view(q.shape)
                x = self.rest(x, mixed.transpose(1, 2), layer)
            tokens = draw(self.logits(x))
            found[:, :, step] = tokens
        return found.view(agents, batch, group, RESPONSE)

    def attend(self, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """Causal attention within a row, (rows, tokens, heads, D)."""
        parts = (t.transpose(1, 2) for t in (queries, keys, values))
        out = F.scaled_dot_product_attention(*parts, is_causal=True, enable_gqa=True)
        return out.transpose(1, 2)

    def step(self, prompts: Tensor, group: int, turns: int) -> dict[str, float]:
        """One training step from prompts (n, B, P); seconds of its parts."""
        start = time.perf_counter()
        played = []
        for _ in range(turns):
            tokens = self.decode(prompts, group)
            played.append((prompts, tokens))
            opened = prompts[:, :, None].expand(-1, -1, group, -1)
            prompts = torch.cat([opened, tokens], -1).flatten(1, 2)
        middle = time.perf_counter()
        self.optimizer.zero_grad()
        for prompts, tokens in played:
            coef = torch.randn(tokens.shape[:3])
            coef = coef - coef.mean(-1, keepdim=True)
            fit = TOKENS // (self.agents * (prompts.shape[-1] + group * RESPONSE)) or 1
            parts = (t.split(fit, 1) for t in (prompts, tokens, coef))
            for part in zip(*parts, strict=True):
                self.loss(*part).backward()
        for agent in range(self.agents):  # every agent's gradient is clipped on its own
            grads = [t.grad[agent] for t in self.trained]
            norm = torch.stack(torch._foreach_norm(grads)).norm()
            torch._foreach_mul_(grads, (CLIP / (norm + 1e-6)).clamp(max=1.0))
        self.optimizer.step()
        end = time.perf_counter()
        return {"total": end - start, "rollout": middle - start, "update": end - middle}

    def loss(self, prompts: Tensor, tokens: Tensor, coef: Tensor) -> Tensor:
        """-sum coef sum_tokens log pi; tokens (n, B, G, T), coef (n, B, G).

        Prompts and responses go through every layer side by side, so there is one graph and no
        second pass; in the last layer a prompt's own output is of no use and is not computed.
        """
        agents, batch, group, _ = tokens.shape
        width, rows, repeat = prompts.shape[-1] - 1, agents * batch * group, self.heads // self.kv
        opening = prompts[:, :, None, -1:].expand(-1, -1, group, -1)
        inputs = torch.cat([opening, tokens[..., :-1]], -1)
        x = self.embed(torch.cat([prompts[..., :-1].flatten(1), inputs.flatten(1)], 1))
        front = batch * width  # tokens of prompts, before those of the responses
        places = torch.cat(
            [
                torch.arange(width).repeat(batch),
                torch.arange(width, width + RESPONSE).repeat(batch * group),
            ]
        )
        cos, sin = self.cos[places][None, :, None], self.sin[places][None, :, None]
        past = torch.ones(RESPONSE, width + RESPONSE, dtype=torch.bool).tril(width)
        past = past.repeat(repeat, 1)
        layers = self.weights()
        for number, layer in enumerate(layers):
            both = torch.baddbmm(layer["qkv.bias"], self.norm(x, layer["input"]), layer["qkv"])
            both = both.view(agents, -1, self.heads + 2 * self.kv, self.size)
            turned, values = both.split([self.heads + self.kv, self.kv], 2)
            turned = self.rotate(turned, cos, sin)
            mine = [
                t[:, :front].reshape(agents * batch, width, -1, self.size).transpose(1, 2)
                for t in (turned, values)
            ]
            theirs = [
                t[:, front:].reshape(rows, RESPONSE, -1, self.size).transpose(1, 2)
                for t in (turned, values)
            ]
            first_q, first_k = mine[0].split([self.heads, self.kv], 1)
            q, k = theirs[0].split([self.heads, self.kv], 1)
            keys, values = (
                torch.cat([t.repeat_interleave(group, 0), new], 2)
                for t, new in ((first_k, k), (mine[1], theirs[1]))
            )
            q = q.reshape(rows, self.kv, repeat * RESPONSE, self.size)
            mixed = F.scaled_dot_product_attention(q, keys, values, attn_mask=past)
            mixed = mixed.view(rows, self.heads, RESPONSE, self.size).transpose(1, 2)
            mixed = mixed.reshape(agents, -1, self.heads * self.size)
            if number + 1 == len(layers):
                x = x[:, front:]
            else:
                first = F.scaled_dot_product_attention(
                    first_q, first_k, mine[1], is_causal=True, enable_gqa=True
                ).transpose(1, 2)
                mixed = torch.cat([first.reshape(agents, front, -1), mixed], 1)
            x = self.rest(x, mixed, layer)
        x, coef = self.norm(x, self.final), coef[..., None].expand(tokens.shape).flatten(1)
        heads = zip(x, self.embedding, tokens.flatten(1), coef, strict=True)
        return sum(HeadLoss.apply(*head) for head in heads)


class HeadLoss(torch.autograd.Function):
    """-sum coef log softmax(x E^T)[target], whose gradient is made along with it, a few rows at a
    time: logits of a whole batch never leave the processor's cache, and are not made twice."""

    @staticmethod
    def forward(ctx, x: Tensor, embedding: Tensor, targets: Tensor, coef: Tensor) -> Tensor:
        grad = torch.empty_like(x)
        tied = torch.zeros_like(embedding) if embedding.requires_grad else None
        loss, size = x.new_zeros(()), max(2**21 // len(embedding), 64)
        for some in torch.arange(len(x)).split(size):
            part = slice(int(some[0]), int(some[-1]) + 1)
            mass = (x[part] @ embedding.T).softmax(-1)
            target = targets[part, None]
            loss -= coef[part] @ mass.gather(1, target)[:, 0].log()
            mass.scatter_add_(1, target, torch.full_like(target, -1, dtype=mass.dtype))
            mass *= coef[part, None]
            torch.mm(mass, embedding, out=grad[part])
            if tied is not None:
                tied.addmm_(mass.T, x[part])
        ctx.save_for_backward(grad, tied)
        return loss

    @staticmethod
    def backward(ctx, scale: Tensor):
        grad, tied = ctx.saved_tensors
        return grad * scale, None if tied is None else tied * scale, None, None


def draw(logits: Tensor) -> Tensor:
    """A token for each row (..., V), by inverting its distribution: first to a block of 64 tokens,
    then within it, since a running sum over a whole vocabulary is slow."""
    mass = logits.softmax(-1).unflatten(-1, (-1, 64))
    blocks = mass.sum(-1).cumsum(-1)
    point = torch.rand(*blocks.shape[:-1], 1) * blocks[..., -1:]
    block = torch.searchsorted(blocks, point).clamp(max=blocks.shape[-1] - 1)
    inside = mass.gather(-2, block[..., None].expand(*block.shape, 64))[..., 0, :].cumsum(-1)
    point = point - blocks.gather(-1, block) + inside[..., -1:]
    return (block * 64 + torch.searchsorted(inside, point).clamp(max=63))[..., 0]
