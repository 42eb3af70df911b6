"""Responses sampled by servers with vLLM's API, one for each base of the team (--engine URL).

A server holds a frozen base and gets the agents' adapters. Scoring and the update stay here.

- Prompts and responses travel as token ids. The server's tokenizer, its chat template and the
  generation defaults of its checkpoint do not count.
- A request is one prompt with its samples. Many prompts in a request would share its seed.
- An adapter gets a new name and folder whenever its weights have changed. vLLM caches prompts by
  these two, so a replaced adapter would answer with the old one's prompt cache.
- The server's policy differs from the update's, by rounding at least. The loss corrects for it
  (logprobs.importance). `Engine.probe` refuses a server that differs by more.
"""

import asyncio
import hashlib
import os
import secrets
import shutil
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path

import torch
from openai import AsyncOpenAI, OpenAIError, Timeout
from torch import Tensor

from policies.codec import Codec
from policies.decoding import Response, response_of
from policies.loading import save_adapter
from policies.logprobs import Row, gaps, score
from policies.sampling import Sampling

KEY = "MAGRPO_ENGINE_KEY"  # environment variable with the key of a server that wants one
TIMEOUT = Timeout(600.0, connect=10.0)  # seconds for one prompt's samples, of three tries at most
# A server is compared with its base here by 8 tokens. At temperature 2, log-probabilities of the
# sampled distribution are nats away from raw ones.
PROBE = Sampling(2.0, 0, 1.0, 8)
PROMPT = (5, 3, 9, 4)  # any tokens
APART = 0.5  # largest mean difference of log-probabilities, in nats, that is not refused
NEEDS = "--enable-lora, --max-lora-rank R, VLLM_ALLOW_RUNTIME_LORA_UPDATING=True, the same TMPDIR"


class EngineError(RuntimeError):
    """Say that a server is not there, refuses, or samples something else.

    The run saves a checkpoint and ends.
    """


class Server:
    """Speak with one server. The methods raise EngineError, in one line."""

    def __init__(self, url: str):
        self.url = url
        self.model = ""  # its base's name
        base_url = url.rstrip("/").removesuffix("/v1") + "/v1"
        key = os.environ.get(KEY) or "none"  # the client insists on one
        self.client = AsyncOpenAI(base_url=base_url, api_key=key, timeout=TIMEOUT)

    def error(self, why: str) -> EngineError:
        return EngineError(f"the engine at {self.url} {why:.300}")

    async def ask(self, task: str, path: str, body: dict | None = None):
        """Return the answer to a request. task: what the server is to do, in an error's words."""
        try:
            if body:
                return await self.client.post(path, cast_to=object, body=body)
            return await self.client.get(path, cast_to=object)
        except (OpenAIError, ValueError) as error:  # the second: the answer is not JSON
            raise self.error(f"cannot {task}: {error} {error.__cause__ or ''}") from error

    async def find(self) -> float | None:
        """Find the name of the server's model. Return the model's context in tokens, if known."""
        answer = await self.ask("list its models", "/models")
        models = [card for card in answer["data"] if not card.get("parent")]  # no adapters
        self.model = models[0]["id"]
        return models[0].get("max_model_len")

    async def complete(
        self, model: str, codec: Codec, prompt: tuple, seed: int, samples: int, sampling: Sampling
    ) -> list[tuple]:
        """Return token ids and log-probabilities of each sample, with the token that ends it."""
        body = {
            "model": model,
            "prompt": list(prompt),
            "n": samples,
            "seed": seed,
            "max_tokens": sampling.max_new_tokens,
            "temperature": sampling.temperature,
            "top_k": sampling.top_k,
            "top_p": sampling.top_p,
            "min_p": 0.0,  # a checkpoint may ship another, and another penalty
            "repetition_penalty": 1.0,
            "stop_token_ids": sorted(codec.eos),
            "stop": codec.stops,
            "skip_special_tokens": False,  # a stop may be one
            "spaces_between_special_tokens": False,
            "ignore_eos": True,  # stop_token_ids have it
            "logprobs": 0,  # of the sampled tokens alone
            "return_token_ids": True,
        }
        answer = await self.ask("sample", "/completions", body)
        rows = {}
        for choice in answer["choices"]:
            reason = choice["finish_reason"]
            if reason not in ("stop", "length"):
                raise self.error(f"gives no whole response: {reason}")
            logps = choice["logprobs"]["token_logprobs"]
            rows[choice["index"]] = (choice["token_ids"], logps)
        return [rows[sample] for sample in range(samples)]


class Engine:
    """Sample with the servers of a team.

    `urls` has one for each of the team's bases, in their order. A server on another machine finds
    the adapters where TMPDIR is a folder that both machines share.
    """

    def __init__(self, team, urls: list[str]):
        self.base_of = team.base_of
        self.run = f"magrpo-{secrets.token_hex(4)}"
        servers = [Server(url) for url in urls]
        self.servers = dict(zip(team.bases, servers, strict=True))
        self.names: dict[int, str] = {}  # of the policies' adapters, as the servers have them
        self.folder = tempfile.TemporaryDirectory(prefix=f"{self.run}-")
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever, name="engine", daemon=True).start()
        for base, server in self.servers.items():
            context = self.wait(server.find())
            base.codec.context = min(base.codec.context, context or base.codec.context)

    def wait(self, work):
        """Return a coroutine's result. A signal that ends the rollout ends its requests, too."""
        future = asyncio.run_coroutine_threadsafe(work, self.loop)
        try:
            return future.result()
        finally:
            future.cancel()

    def sample(
        self,
        prompts: list[tuple[int, tuple]],
        uniforms: Tensor,
        sampling: Sampling,
        begun: Sequence[str],
    ) -> list[list[Response]]:
        """Sample as Team.sample does. Here the uniforms decide the seeds.

        A server does not give the entropy. Its estimate is that of the sampled tokens, -log pi.
        """
        answers = self.wait(self._sample(prompts, uniforms, sampling))
        groups = []
        for (agent, _), rows, text in zip(prompts, answers, begun, strict=True):
            codec = self.base_of[agent].codec
            responses = []
            for tokens, logps in rows:
                entropy = [-logp for logp in logps]
                responses.append(response_of(codec, tokens, logps, entropy, text))
            groups.append(responses)
        return groups

    async def _sample(self, prompts, uniforms: Tensor, sampling: Sampling) -> list:
        """Return S pairs of tokens and log-probabilities for each prompt."""
        policies = [self.base_of[agent].policy_of[agent] for agent, _ in prompts]
        await asyncio.gather(*map(self.load, {*policies}))
        seeds = uniforms[:, 0, 0].double() * 2**53
        samples = uniforms.shape[1]
        requests = []
        for (agent, prompt), policy, seed in zip(
            prompts, policies, seeds.long().tolist(), strict=True
        ):
            base = self.base_of[agent]
            name = self.names[policy]
            server = self.servers[base]
            requests.append(server.complete(name, base.codec, prompt, seed, samples, sampling))
        return await asyncio.gather(*requests)

    async def load(self, agent: int) -> None:
        """Load the adapter of the policy of this agent into its server, where it has changed.

        A full copy has no adapter: it plays as its base.
        """
        base = self.base_of[agent]
        server = self.servers[base]
        if not base.lora:
            self.names[agent] = server.model
            return
        weights = hashlib.sha256()
        for parameter in base.parameters_of(agent):
            weights.update(parameter.detach().float().cpu().numpy())
        name = f"{self.run}-agent{agent}-{weights.hexdigest()[:12]}"
        old = self.names.get(agent)
        if name == old:
            return
        path = Path(self.folder.name).resolve() / name
        save_adapter(base, agent, path)
        new = {"lora_name": name, "lora_path": str(path)}
        await server.ask(f"load an adapter ({NEEDS})", "/load_lora_adapter", new)
        self.names[agent] = name
        if old:
            await server.ask("unload one", "/unload_lora_adapter", {"lora_name": old})
            shutil.rmtree(path.parent / old)

    def probe(self) -> None:
        """Raise EngineError where a server and its base here are not the same model.

        A few tokens of each agent are scored here. The server's log-probabilities also have to be
        those of the sampled distribution.
        """
        for base, server in self.servers.items():
            prompts = [(agent, PROMPT) for agent in base.agents]
            uniforms = torch.zeros(len(prompts), 1, 1)
            answers = self.sample(prompts, uniforms, PROBE, [""] * len(prompts))
            rows = []
            for agent, [response] in zip(base.agents, answers, strict=True):
                rows.append(Row(agent, PROMPT, response.tokens, logps=response.logps))
            score(base, rows, PROBE)
            gap = float(gaps(rows).abs().mean())
            if not gap <= APART:
                raise server.error(
                    f"holds {server.model}, another model than {base.net.name_or_path}: it gives "
                    f"tokens log-probabilities {gap:.2g} nats off on average; or is it without "
                    "processed_logprobs?"
                )


def connect(team, urls: list[str]) -> None:
    """Let servers sample for a team. Raise EngineError where a server cannot."""
    team.engine = Engine(team, urls)
    team.engine.probe()
