"""Responses sampled by servers with vLLM's API, one for each base of the team (--engine URL).

A server holds a frozen base and is given the agents' adapters; scoring and the update stay here.

- Prompts and responses travel as token ids: the server's tokenizer and chat template do not count,
  nor do the generation defaults that its checkpoint ships.
- A request is one prompt with its samples, and its seed a function of the prompt's uniforms. All
  are sent at once, and the server batches them. (A request of many prompts has one seed for all of
  them: equal prompts would get equal responses.)
- An adapter gets a new name and folder whenever its weights have changed. One replaced in place
  would be half of the old one: vLLM keeps what it has cached of prompts by an adapter's name.
- What the server computes differs from what the update computes, by rounding at least: the loss
  corrects for it (scoring.importance), and `Engine.probe` refuses a server that differs by more.
"""

import asyncio
import dataclasses
import hashlib
import os
import secrets
import shutil
import tempfile
import threading
from pathlib import Path

import torch
from openai import APIStatusError, APITimeoutError, AsyncOpenAI, OpenAIError, Timeout
from torch import Tensor

from policies.base import Base
from policies.decoding import Response, response_of
from policies.loading import save_adapter
from policies.sampling import Sampling, sampling_of
from policies.scoring import Row, score

KEY = "MAGRPO_ENGINE_KEY"  # environment variable with the key of a server that wants one
TIMEOUT = Timeout(600.0, connect=10.0)  # seconds for one prompt's samples, of three tries at most
PROBE = 8  # tokens by which a server is compared with its base here ...
APART = 0.5  # ... and the mean difference of their log-probabilities, in nats, that is refused
NEEDS = (  # of a server, to take adapters
    "it needs --enable-lora, --max-lora-rank R, VLLM_ALLOW_RUNTIME_LORA_UPDATING=True, and to read "
    "--engine-folder"
)


class EngineError(RuntimeError):
    """A server is not there, refuses, or samples from another distribution. Ends the run, which
    saves its checkpoint."""


class Server:
    """One server. Its methods raise EngineError, in one line."""

    def __init__(self, url: str):
        self.url, self.model = url, ""
        base_url = url.rstrip("/").removesuffix("/v1") + "/v1"
        key = os.environ.get(KEY) or "none"  # the client insists on one
        self.client = AsyncOpenAI(base_url=base_url, api_key=key, timeout=TIMEOUT)

    async def tell(self, what: str, request):
        """The answer to a request; what: the server does, for an error's words."""
        try:
            return await request
        except APITimeoutError:
            why = f"cannot {what}: no answer in {TIMEOUT.read:g} seconds"
        except APIStatusError as error:
            told = error.body.get("message") if isinstance(error.body, dict) else None
            why = f"cannot {what}: HTTP {error.status_code}, {told or error.response.text}"
        except OpenAIError as error:
            why = f"cannot be reached: {error} {error.__cause__ or ''}"
        raise EngineError(f"the engine at {self.url} {' '.join(why.split())[:300]}")

    async def find(self) -> float | None:
        """Finds the name of the server's model; its context, in tokens."""
        cards = (await self.tell("list its models", self.client.models.list())).data
        own = [card for card in cards or () if not getattr(card, "parent", None)]
        if not own:
            raise EngineError(f"the engine at {self.url} names no model: is it one of vLLM's?")
        self.model = own[0].id
        return getattr(own[0], "max_model_len", None)

    async def change(self, what: str, **body) -> None:
        """Adapters; what: load, unload."""
        request = self.client.post(f"/{what}_lora_adapter", cast_to=str, body=body)
        await self.tell(f"{what} an adapter ({NEEDS})", request)

    async def complete(
        self, model: str, prompt: tuple, seed: int, samples: int, sampling: Sampling, ends: list
    ) -> list[tuple[list[int], list[float]]]:
        """Token ids and log-probabilities of each sample, the token that ends it included."""
        plain = {"min_p": 0.0, "repetition_penalty": 1.0}  # a checkpoint may ship others
        request = self.client.completions.create(
            model=model,
            prompt=list(prompt),
            n=samples,
            seed=seed,
            max_tokens=sampling.max_new_tokens,
            temperature=sampling.temperature,
            top_p=sampling.top_p,
            logprobs=0,  # of the sampled token alone
            extra_body=plain
            | {"top_k": sampling.top_k, "ignore_eos": True, "stop_token_ids": ends}
            | {"return_token_ids": True},
        )
        answer = await self.tell("sample", request)
        try:
            found = {c.index: (c.token_ids, c.logprobs.token_logprobs) for c in answer.choices}
            rows = [found[sample] for sample in range(samples)]
            if all(0 < len(tokens) == len(logps) for tokens, logps in rows):
                return rows
        except (AttributeError, KeyError, TypeError):
            pass
        raise EngineError(f"the engine at {self.url} gives no token ids with log-probabilities")


class Engine:
    """The servers of a team. urls: one for each of its bases, in their order. folder: where their
    machines and this one find adapters; None: a temporary one of this machine."""

    def __init__(self, team, urls: list[str], folder: str | None):
        self.base_of, self.run = team.base_of, f"magrpo-{secrets.token_hex(4)}"
        self.servers = dict(zip(team.bases, map(Server, urls), strict=True))
        self.names: dict[int, str] = {}  # of the policies' adapters, as the servers have them
        self.folder = tempfile.TemporaryDirectory(prefix=f"{self.run}-", dir=folder)
        os.chmod(self.folder.name, 0o755)  # a server may be another user's
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever, name="engine", daemon=True).start()
        for base, server in self.servers.items():
            context = self.wait(server.find())
            base.context = min(base.context, context or base.context)

    def wait(self, work):
        """The result of a coroutine. A signal that ends the rollout ends its requests, too."""
        future = asyncio.run_coroutine_threadsafe(work, self.loop)
        try:
            return future.result()
        finally:
            future.cancel()

    def sample(
        self, prompts: list[tuple[int, tuple]], uniforms: Tensor, sampling: Sampling
    ) -> list[list[Response]]:
        """As Team.sample, but that uniforms decide the seeds. A server does not tell the entropy:
        its estimate is that of the sampled tokens, -log pi."""

        def cut(base: Base, row: tuple[list[int], list[float]]) -> Response:
            tokens, logps = row
            return response_of(base, tokens, logps, [-logp for logp in logps])

        found = self.wait(self._sample(prompts, uniforms, sampling, stop=True))
        bases = [self.base_of[agent] for agent, _ in prompts]
        return [[cut(b, row) for row in rows] for b, rows in zip(bases, found, strict=True)]

    async def _sample(self, prompts, uniforms: Tensor, sampling: Sampling, stop: bool) -> list:
        """Of each prompt, S pairs of tokens and log-probabilities."""
        policies = [self.base_of[agent].policy_of[agent] for agent, _ in prompts]
        await asyncio.gather(*map(self.load, {*policies}))
        seeds = (uniforms[:, 0, 0].double() * 2**53).long().tolist()
        requests = []
        for (agent, prompt), policy, seed in zip(prompts, policies, seeds, strict=True):
            base, how = self.base_of[agent], (seed, uniforms.shape[1], sampling)
            ends = sorted(t for t in base.ends if t < len(base.head.weight)) if stop else []
            requests.append(self.servers[base].complete(self.names[policy], prompt, *how, ends))
        found = await asyncio.gather(*requests)
        for (agent, _), rows in zip(prompts, found, strict=True):
            known = len((base := self.base_of[agent]).head.weight)
            if (token := max(max(tokens) for tokens, _ in rows)) >= known:
                self.refuse(base, f"samples token {token}, and that one knows {known}")
        return found

    async def load(self, agent: int) -> None:
        """Gives a policy's adapter to its server, where it has changed; agent: the policy's. A full
        copy has none: it plays as its base."""
        base = self.base_of[agent]
        server, old, weights = self.servers[base], self.names.get(agent), hashlib.sha256()
        if not base.lora:
            self.names[agent] = server.model
            return
        for parameter in base.parameters_of(agent):
            weights.update(parameter.detach().float().cpu().numpy())
        name = f"{self.run}-agent{agent}-{weights.hexdigest()[:12]}"
        if name != old:
            path = Path(self.folder.name).resolve() / name
            save_adapter(base, agent, path)
            await server.change("load", lora_name=name, lora_path=str(path))
            self.names[agent] = name
            if old:
                await server.change("unload", lora_name=old)
                shutil.rmtree(path.parent / old)

    def probe(self, sampling: Sampling) -> None:
        """Raises EngineError where a server and its base here are not the same model, sampled in
        the same way: a few tokens of each agent, scored here."""
        sampling = dataclasses.replace(sampling, max_new_tokens=PROBE)
        for base in self.servers:
            prompt = tuple(n % len(base.head.weight) for n in (5, 3, 9, 4))
            prompts = [(agent, prompt) for agent in base.agents]
            seeds = torch.zeros(len(prompts), 1, PROBE)
            found = self.wait(self._sample(prompts, seeds, sampling, stop=False))
            rows = [
                Row(agent, prompt, tokens, logps=logps)
                for agent, ((tokens, logps),) in zip(base.agents, found, strict=True)
            ]
            with torch.no_grad():
                list(score(base, rows, sampling))
            told = torch.tensor([row.logps for row in rows])
            gap = float((torch.stack([row.scored.cpu() for row in rows]) - told).abs().mean())
            if not gap <= APART:
                self.refuse(
                    base,
                    f"gives {PROBE} tokens log-probabilities that are {gap:.2g} nats off on "
                    "average (another model, or without --logprobs-mode processed_logprobs)",
                )

    def refuse(self, base: Base, why: str) -> None:
        server = self.servers[base]
        raise EngineError(
            f"the engine at {server.url} holds {server.model}, and the base here is "
            f"{base.net.name_or_path}: it {why}"
        )


def connect(team, args) -> None:
    """Lets --engine sample for a team. Raises EngineError where a server cannot."""
    team.engine = Engine(team, args.engine, args.engine_folder)
    team.engine.probe(sampling_of(args))
