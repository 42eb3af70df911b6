"""Responses sampled by servers with vLLM's API, one for each base of the team (--engine URL).

A server holds a frozen base and is given the agents' adapters; scoring and the update stay here.

- Prompts and responses travel as token ids: neither the server's tokenizer, its chat template nor
  the generation defaults of its checkpoint count.
- A request is one prompt with its samples: many prompts in a request would share its seed.
- An adapter gets a new name and folder whenever its weights have changed: vLLM keeps what it has
  cached of prompts by these two, so one replaced in place would be half of the old one.
- The server's policy differs from the update's, by rounding at least: the loss corrects for it
  (scoring.importance), and `Engine.probe` refuses a server that differs by more.
"""

import asyncio
import hashlib
import os
import secrets
import shutil
import tempfile
import threading
from pathlib import Path

import torch
from openai import APIStatusError, AsyncOpenAI, OpenAIError, Timeout
from torch import Tensor

from policies.base import Base
from policies.decoding import Response, response_of
from policies.loading import save_adapter
from policies.sampling import Sampling
from policies.scoring import Row
from policies.team import score

KEY = "MAGRPO_ENGINE_KEY"  # environment variable with the key of a server that wants one
TIMEOUT = Timeout(600.0, connect=10.0)  # seconds for one prompt's samples, of three tries at most
# A server is compared with its base here by 8 tokens; at temperature 2, where raw log-probabilities
# are nats away from those of what is sampled.
PROBE = Sampling(2.0, 0, 1.0, 8)
APART = 0.5  # mean difference of their log-probabilities, in nats, that is refused
NEEDS = "--enable-lora, --max-lora-rank R, VLLM_ALLOW_RUNTIME_LORA_UPDATING=True, --engine-folder"


class EngineError(RuntimeError):
    """A server is not there, refuses, or samples otherwise. The run saves a checkpoint and ends."""


class Server:
    """One server. Its methods raise EngineError, in one line."""

    def __init__(self, url: str):
        self.url, self.model = url, ""
        base_url = url.rstrip("/").removesuffix("/v1") + "/v1"
        key = os.environ.get(KEY) or "none"  # the client insists on one
        self.client = AsyncOpenAI(base_url=base_url, api_key=key, timeout=TIMEOUT)

    def error(self, why: str) -> EngineError:
        return EngineError(f"the engine at {self.url} {' '.join(why.split())[:300]}")

    async def ask(self, what: str, path: str, body: dict | None = None):
        """The answer to a request; what the server is to do, for an error's words."""
        try:
            if body:
                return await self.client.post(path, cast_to=object, body=body)
            return await self.client.get(path, cast_to=object)
        except APIStatusError as error:
            message = error.body.get("message") if isinstance(error.body, dict) else None
            raise self.error(
                f"cannot {what}: HTTP {error.status_code}, {message or error.response.text}"
            ) from error
        except OpenAIError as error:
            message = f"{error} {error.__cause__ or ''}"
            raise self.error(f"cannot be reached to {what}: {message}") from error
        except ValueError as error:
            raise self.error(f"cannot {what}: its answer is no JSON") from error

    async def find(self) -> float | None:
        """Finds the name of the server's model; its context, in tokens."""
        try:
            cards = (await self.ask("list its models", "/models"))["data"]
            card = next(card for card in cards if not card.get("parent"))  # no adapter
            self.model = card["id"]
        except (AttributeError, KeyError, StopIteration, TypeError) as error:
            raise self.error("names no model: is it one of vLLM's?") from error
        return card.get("max_model_len")

    async def complete(
        self, model: str, prompt: tuple, seed: int, samples: int, sampling: Sampling, ends: list
    ) -> list[tuple[list[int], list[float]]]:
        """Token ids and log-probabilities of each sample, the token that ends it included."""
        body = {"model": model, "prompt": list(prompt), "n": samples, "seed": seed}
        body |= {"max_tokens": sampling.max_new_tokens, "temperature": sampling.temperature}
        body |= {"top_k": sampling.top_k, "top_p": sampling.top_p}
        body |= {"min_p": 0.0, "repetition_penalty": 1.0}  # a checkpoint may ship others
        body |= {"stop_token_ids": ends, "ignore_eos": True}  # which the ends have, too
        body |= {"logprobs": 0, "return_token_ids": True}  # of the sampled tokens alone
        answer = await self.ask("sample", "/completions", body)
        try:
            found = {c["index"]: c for c in answer["choices"]}
            rows = [found[sample] for sample in range(samples)]
            rows = [(row["token_ids"], row["logprobs"]["token_logprobs"]) for row in rows]
            for tokens, logps in rows:  # vLLM writes -9999 for a log-probability of -inf or NaN
                right = 0 < len(tokens) == len(logps) and min(tokens) >= 0
                if not (right and all(-1000 < logp < 0.01 for logp in logps)):
                    raise ValueError("of different lengths, or none")
            return rows
        except (KeyError, TypeError, ValueError) as error:
            raise self.error("gives no token ids with log-probabilities") from error


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
        """Sample as Team.sample does, but uniforms decide the seeds. A server does not tell the
        entropy: its estimate is that of the sampled tokens, -log pi."""
        answers = self.wait(self._sample(prompts, uniforms, sampling))
        responses = []
        for (agent, _), rows in zip(prompts, answers, strict=True):
            base = self.base_of[agent]
            entropies = [[-logp for logp in logps] for _, logps in rows]
            pairs = zip(rows, entropies, strict=True)
            responses.append([response_of(base, *row, entropy) for row, entropy in pairs])
        return responses

    async def _sample(self, prompts, uniforms: Tensor, sampling: Sampling, stop=True) -> list:
        """Return S pairs of tokens and log-probabilities for each prompt. stop: where they end."""
        bases = [self.base_of[agent] for agent, _ in prompts]
        policies = [base.policy_of[a] for base, (a, _) in zip(bases, prompts, strict=True)]
        await asyncio.gather(*map(self.load, {*policies}))
        seeds = (uniforms[:, 0, 0].double() * 2**53).long().tolist()
        requests = []
        for base, policy, seed, (_, prompt) in zip(bases, policies, seeds, prompts, strict=True):
            ends = sorted(t for t in base.ends if t < len(base.head.weight)) if stop else []
            how = (self.names[policy], prompt, seed, uniforms.shape[1], sampling, ends)
            requests.append(self.servers[base].complete(*how))
        found = await asyncio.gather(*requests)
        for base, rows in zip(bases, found, strict=True):
            known = len(base.head.weight)
            if (token := max(max(tokens) for tokens, _ in rows)) >= known:
                raise self.other(base, f"samples token {token}, and this one knows {known}")
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
            new = {"lora_name": name, "lora_path": str(path)}
            await server.ask(f"load an adapter ({NEEDS})", "/load_lora_adapter", new)
            self.names[agent] = name
            if old:
                await server.ask("unload one", "/unload_lora_adapter", {"lora_name": old})
                shutil.rmtree(path.parent / old)

    def probe(self) -> None:
        """Raises EngineError where a server and its base here are not the same model, or its
        log-probabilities not those of what it samples: a few tokens of each agent, scored here."""
        for base in self.servers:
            prompt = tuple(n % len(base.head.weight) for n in (5, 3, 9, 4))
            pairs = [(agent, prompt) for agent in base.agents]
            found = self.wait(self._sample(pairs, torch.zeros(len(pairs), 1, 1), PROBE, False))
            rows = [Row(*pair, t, logps=v) for pair, ((t, v),) in zip(pairs, found, strict=True)]
            score(base, rows, PROBE)
            gaps = [(row.scored.cpu() - torch.tensor(row.logps)).abs().mean() for row in rows]
            if not (gap := float(sum(gaps)) / len(gaps)) <= APART:
                why = f"gives tokens log-probabilities {gap:.2g} nats off on average"
                raise self.other(base, f"{why}; or is it without processed_logprobs?")

    def other(self, base: Base, why: str) -> EngineError:
        server, name = self.servers[base], base.net.name_or_path
        return server.error(f"holds {server.model}, another model than {name}: it {why}")


def connect(team, urls: list[str], folder: str | None) -> None:
    """Let servers sample for a team. Raises EngineError where a server cannot."""
    team.engine = Engine(team, urls, folder)
    team.engine.probe()
