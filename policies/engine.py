"""Responses sampled by servers with vLLM's API, one for each base of the team (--engine URL).

A server holds a frozen base and gets the agents' adapters. Scoring and the update stay here.

- Prompts and responses travel as token ids. The server's tokenizer, its chat template and the
  generation defaults of its checkpoint do not count.
- A request is one prompt with its samples. Many prompts in a request would share its seed.
- An adapter gets a new name and folder whenever its weights have changed. vLLM caches prompts by
  these two, so a replaced adapter would answer with the old one's prompt cache.
- The server's policy differs from the update's, by rounding at least. The loss corrects for it
  (logprobs.importance). `connect` measures how much it is for a few tokens, and refuses a server
  that differs by more than rounding. `Team.compare` refuses one that does so in a step.
"""

import asyncio
import contextlib
import hashlib
import math
import operator
import os
import shutil
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path

from openai import AsyncOpenAI, OpenAIError, Timeout
from torch import Tensor

from policies import Mistake
from policies.decoding import Ask, Response, response_of
from policies.loading import mean_gap, save_adapter
from policies.sampling import Sampling
from policies.shared_model import SharedModel

KEY = "MAGRPO_ENGINE_KEY"  # environment variable with the key of a server that wants one
TIMEOUT = Timeout(600.0, connect=10.0)  # seconds for one prompt's samples, of three tries at most

# A server is compared with its base here at this temperature, where log-probabilities of the
# sampled distribution are nats away from raw ones.
HOT = 2.0
APART = 0.5  # largest mean difference of log-probabilities, in nats, that is not refused
ROUNDING = 0.1  # the largest that rounding explains, in 16 bits there and here, at temperature 1
NEEDS = "--enable-lora, --max-lora-rank R, VLLM_ALLOW_RUNTIME_LORA_UPDATING=True, the same TMPDIR"


class Engine:
    """Sample for one base of the team with a server that holds it.

    Mistake: it is not there, refuses, or samples something else. A run saves a checkpoint and ends.
    A server on another machine finds the adapters where TMPDIR is a folder that both machines
    share.
    """

    def __init__(self, base: SharedModel, url: str):
        self.base = base
        self.url = url
        self.folder = tempfile.TemporaryDirectory(prefix="magrpo-")
        self.names: dict[int, str] = {}  # of the policies' adapters, as the server has them
        base_url = url.rstrip("/").removesuffix("/v1") + "/v1"
        key = os.environ.get(KEY) or "none"  # the client insists on one
        self.client = AsyncOpenAI(base_url=base_url, api_key=key, timeout=TIMEOUT)
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever, name="engine", daemon=True).start()
        answer = self.wait(self.ask("list its models", "/models"))
        with self.reading(answer):
            card = next(card for card in answer["data"] if not card.get("parent"))  # no adapter
            self.model = card["id"]  # the base's name
            base.codec.context = min(base.codec.context, card["max_model_len"])

    def wait(self, work):
        """Return a coroutine's result. A signal that ends the rollout ends its requests, too."""
        future = asyncio.run_coroutine_threadsafe(work, self.loop)
        try:
            return future.result()
        finally:
            future.cancel()

    async def ask(self, task: str, path: str, body: dict | None = None):
        """Return the answer to a request. task: what the server is to do, in an error's words."""
        try:
            if body:
                return await self.client.post(path, cast_to=object, body=body)
            return await self.client.get(path, cast_to=object)
        except (OpenAIError, ValueError) as error:  # the second: the answer is not JSON
            reason = f"{error} {error.__cause__ or ''}"
            raise Mistake(f"the engine at {self.url} cannot {task}: {reason:.250}") from error

    @contextlib.contextmanager
    def reading(self, answer):
        """Raise Mistake for every error within: the answer is not what vLLM's would be."""
        try:
            yield
        except Exception as error:  # many types: a field that is missing, or null, or a text
            raise Mistake(
                f"the engine at {self.url} answers as vLLM never does ({error!r:.150}): "
                f"{answer!r:.250}"
            ) from error

    def sample(
        self, asks: Sequence[Ask], uniforms: Tensor, sampling: Sampling
    ) -> list[list[Response]]:
        """Sample as decoding.decode does. Here the uniforms decide the seeds.

        A server does not give the entropy. Its estimate is that of the sampled tokens, -log pi.
        """
        numbers = uniforms[:, 0, 0].double() * 2**53
        seeds = numbers.long().tolist()
        samples = uniforms.shape[1]

        async def answers() -> list[dict]:
            policies = {self.base.policy_of[ask.agent] for ask in asks}
            await asyncio.gather(*map(self.load, policies))
            requests = []
            for ask, seed in zip(asks, seeds, strict=True):
                requests.append(self.complete(ask, seed, samples, sampling))
            return await asyncio.gather(*requests)

        groups = []
        for answer, ask in zip(self.wait(answers()), asks, strict=True):
            groups.append(self.responses(answer, samples, sampling.max_new_tokens, ask.begun))
        return groups

    def responses(self, answer: dict, samples: int, most: int, begun: str) -> list[Response]:
        """Return an answer's samples in order. Mistake: one is not there, or not whole."""
        codec = self.base.codec
        ids = range(self.base.net.get_input_embeddings().num_embeddings)
        responses = {}
        with self.reading(answer):
            for choice in answer["choices"]:
                tokens = choice["token_ids"]
                logps = choice["logprobs"]["token_logprobs"]
                right = [0 < len(tokens) <= most, choice["finish_reason"] in ("stop", "length")]
                for token, logp in zip(tokens, logps, strict=True):
                    right.append(operator.index(token) in ids and math.isfinite(logp))
                if not all(right):
                    continue
                size = codec.end_of(tokens, begun)
                # vLLM cuts an answer short where the checkpoint's generation_config.json says so.
                if size or len(tokens) == most:
                    entropies = [-logp for logp in logps]
                    response = response_of(codec, tokens, logps, entropies, begun, size)
                    responses[choice["index"]] = response
            if responses.keys() != set(range(samples)):
                raise ValueError(f"not {samples} whole samples of {most} tokens at most")
        return [responses[number] for number in range(samples)]

    async def complete(self, ask: Ask, seed: int, samples: int, sampling: Sampling) -> dict:
        """Return samples. Each has its tokens' ids and log-probabilities, its end included."""
        body = {
            "model": self.names.get(self.base.policy_of[ask.agent], self.model),
            "prompt": list(ask.prompt),
            "n": samples,
            "seed": seed,
            "max_tokens": sampling.max_new_tokens,
            "temperature": sampling.of([ask.agent]).temperature,
            "top_k": sampling.top_k,
            "top_p": sampling.top_p,
            "min_p": 0.0,  # a checkpoint may ship another, and another penalty
            "repetition_penalty": 1.0,
            "stop_token_ids": sorted(self.base.codec.eos),
            "stop": self.base.codec.stops,
            "skip_special_tokens": False,  # a stop may be one
            "spaces_between_special_tokens": False,
            "ignore_eos": True,  # stop_token_ids have it
            "logprobs": 0,  # of the sampled tokens alone
            "return_token_ids": True,
        }
        return await self.ask("sample", "/completions", body)

    async def load(self, policy: int) -> None:
        """Load the adapter of this agent's policy into the server, where it has changed.

        A full copy has no adapter: it plays as its base.
        """
        if not self.base.lora:
            return
        weights = hashlib.sha256()
        for parameter in self.base.parameters_of(policy):
            values = parameter.detach().float().cpu()
            weights.update(values.numpy().tobytes())
        folder = Path(self.folder.name)
        name = f"{folder.name}-agent{policy}-{weights.hexdigest()[:12]}"
        old = self.names.get(policy)
        if name == old:
            return
        path = folder / name
        save_adapter(self.base, policy, path)
        new = {"lora_name": name, "lora_path": str(path)}
        await self.ask(f"load an adapter ({NEEDS})", "/load_lora_adapter", new)
        self.names[policy] = name
        if old:
            await self.ask("unload one", "/unload_lora_adapter", {"lora_name": old})
            shutil.rmtree(folder / old)


def connect(team, urls: list[str]) -> None:
    """Let a server sample for each base of a team, in their order.

    Mistake: one cannot, or it and the base here are not the same model. What the log-probabilities
    of a few tokens differ by is the base's noise from now on. They also have to be those of the
    sampled distribution.
    """
    for base, url in zip(team.bases, urls, strict=True):
        base.engine = Engine(base, url)
        gap = mean_gap(base, HOT)
        if not gap <= APART:
            raise Mistake(
                f"the engine at {url} holds {base.engine.model}, another model than "
                f"{base.net.name_or_path}: it gives tokens log-probabilities {gap:.2g} nats "
                "off on average; or is it without processed_logprobs?"
            )
        noise = gap * HOT  # of logits
        base.noise = max(base.noise, min(noise, ROUNDING))
