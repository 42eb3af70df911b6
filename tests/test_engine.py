"""Rollouts that a server samples (--engine): the protocol, the errors, the importance ratio, whole
runs. python -m pytest tests/test_engine.py

The server here is a small one of this process, with the part of vLLM's API that is used; what it
answers was compared with vLLM 0.32. A real one: python -m pytest -m engine, with the Python that
has vLLM in MAGRPO_VLLM_PYTHON (docs/processes.md).
"""

import json
import math
import os
import subprocess
import time
import types
import urllib.request
from pathlib import Path

import pytest
import torch
from helpers import (
    LocalServer,
    assert_close,
    assert_same_gradients,
    random_rows,
    refused,
    small_base,
)
from peft import set_peft_model_state_dict
from safetensors.torch import load_file
from test_learners import at_step, make
from test_magrpo import long_answers, small_team
from test_train import SMALL, assert_same_run, lines

import eval as evaluation
import train
from magrpo import policy_loss
from policies import engine
from policies.decoding import decode
from policies.engine import Engine, EngineError
from policies.finding import EMBEDDED
from policies.loading import load_base
from policies.sampling import Sampling
from policies.scoring import CAP, Row, importance, score

SAMPLING = Sampling(0.8, 9, 0.95, 8)
PLAIN = Sampling(1.0, 0, 1.0, 8)


class Server(LocalServer):
    """Adapters and completions as vLLM has them, of a base with one adapter."""

    def __init__(self, base):
        super().__init__()
        self.base, self.asked, self.adapters = base, [], {}
        self.takes, self.rank, self.context = True, 64, 512  # whether adapters, and which
        self.off = 0.0  # by how much the log-probabilities are wrong
        self.raw = False  # whether they are of the model's own distribution
        self.spoilt = {}  # what else is wrong in each choice
        self.left = math.inf  # completions until it dies

    def respond(self, handler, body: bytes) -> None:
        self.left -= handler.path.endswith("completions")
        if self.left >= 0:  # else it hangs up, as a process that died
            code, answer = self.answer(handler.path, json.loads(body or "{}"))
            kind = "text/plain" if isinstance(answer, str) else "application/json"
            text = answer if isinstance(answer, str) else json.dumps(answer)
            handler.answer(code, text.encode(), Content_Type=kind)

    def answer(self, path: str, body: dict) -> tuple[int, object]:
        """Status and answer."""
        self.asked.append((path.removeprefix("/v1/"), body))
        if path == "/v1/models":
            cards = [{"id": name, "parent": "base"} for name in self.adapters]
            return 200, {"data": [*cards, {"id": "base", "max_model_len": self.context}]}
        if path == "/v1/completions":
            return self.complete(body)
        if not self.takes:
            return 404, {"detail": "Not Found"}
        name, folder = body["lora_name"], Path(body.get("lora_path", ""))
        if path == "/v1/unload_lora_adapter":
            del self.adapters[name]
            return 200, "Success"
        if not (folder / "adapter_config.json").is_file():
            return 404, {"error": {"message": f"No adapter found for {folder}"}}
        if (rank := json.loads((folder / "adapter_config.json").read_text())["r"]) > self.rank:
            told = f"LoRA rank {rank} is greater than max_lora_rank {self.rank}."
            return 500, {"error": {"message": told}}
        assert name not in self.adapters
        weights, own = load_file(folder / "adapter_model.safetensors"), self.base.parameters_of(0)
        if sorted(w.shape for w in weights.values()) != sorted(p.shape for p in own):
            return 500, {"error": {"message": "it is of another model"}}
        self.adapters[name] = weights
        return 200, "Success"

    def complete(self, body: dict) -> tuple[int, object]:
        vocab, prompt, count = len(self.base.head.weight), body["prompt"], body["n"]
        if max([*prompt, *body["stop_token_ids"]]) >= vocab:
            return 400, {"error": {"message": "Token id is out of vocabulary"}}
        assert body["ignore_eos"]
        assert body["return_token_ids"]
        assert (body["min_p"], body["repetition_penalty"], body["logprobs"]) == (0, 1, 0)
        seeds = [torch.Generator().manual_seed(body["seed"] + i) for i in range(count)]
        draws = [torch.rand(body["max_tokens"], generator=s, dtype=torch.float64) for s in seeds]
        how = Sampling(body["temperature"], body["top_k"], body["top_p"], body["max_tokens"])
        with self.lock:
            base, own = self.base, body["model"] != "base"
            if own:
                weights = self.adapters[body["model"]]
                set_peft_model_state_dict(base.model, weights, f"agent{base.agents[0]}")
            base.ends = frozenset(body["stop_token_ids"])
            agents = base.agents[:1] if own else None
            (rows,) = decode(base, [tuple(prompt)], agents, torch.stack(draws)[None], how)
            rows = [Row(base.agents[0], tuple(prompt), row.tokens, logps=row.logps) for row in rows]
            if self.raw:
                score(base, rows, PLAIN)
                for row in rows:
                    row.logps = row.scored.tolist()
        choices = [
            {
                "index": index,
                "token_ids": row.tokens,
                "logprobs": {"token_logprobs": [logp + self.off for logp in row.logps]},
            }
            | self.spoilt
            for index, row in enumerate(rows)
        ]
        return 200, {"choices": choices[::-1]}


@pytest.fixture
def server():
    with Server(small_base([0])) as found:
        yield found


@pytest.fixture
def tiny():
    """A server of the embedded team's base."""
    with Server(load_base(str(EMBEDDED), [0], 16, 32, 32, False)) as found:
        yield found


def connected(server, *bases):
    """A team whose agents sample there."""
    team = small_team(2, bases=bases or None)
    team.engine = Engine(team, [server.url] * len(team.bases), None)
    return team


def ask(team, *prompts, samples: int = 3, sampling=SAMPLING, seed: int = 0):
    random = torch.Generator().manual_seed(seed)
    uniforms = torch.rand(len(prompts), samples, 8, generator=random, dtype=torch.float64)
    return team.sample(prompts, uniforms, sampling)


# --- the protocol ---------------------------------------------------------------------------------


@pytest.mark.parametrize("bases", [(), ([0], [1])])
def test_what_is_sampled_there_is_what_is_scored_here(server, bases):
    team, one, two = connected(server, *bases), (5, 9, 7), (3, 8)
    frozen = {n: p.data for n, p in server.base.named_parameters() if "lora" not in n}
    for number, base in enumerate(team.bases):
        base.load_state_dict(frozen, strict=False)
        base.ends = base.eos | {4 + number}
    prompts = [(0, one), (1, one), (0, one), (1, two), (0, two)]
    found = ask(team, *prompts)
    for (agent, prompt), responses in zip(prompts, found, strict=True):
        assert len(responses) == 3
        ends = team.base_of[agent].ends
        for response in responses:
            assert response.ended == (response.tokens[-1] in ends)
            assert not ends & {*response.tokens[:-1]}
            assert len(response.tokens) == 8 or response.ended
            kept = [t for t in response.tokens if t not in ends]
            assert response.text == team.base_of[agent].tokenizer.decode(kept)
            assert response.entropy == -sum(response.logps)
            row = Row(agent, prompt, response.tokens)
            score(team.base_of[agent], [row], SAMPLING)
            assert_close(row.scored, response.logps)
    tokens = [[response.tokens for response in responses] for responses in found]
    assert tokens[0] != tokens[2]  # one prompt twice: two draws
    assert tokens[0] != tokens[1]  # two agents
    again = [[response.tokens for response in responses] for responses in ask(team, *prompts)]
    assert again == tokens
    assert [r.tokens for r in ask(team, prompts[0], seed=1)[0]] != tokens[0]


def test_an_adapter_moves_when_it_has_changed_under_a_new_name(server):
    team = connected(server)
    folder = Path(team.engine.folder.name)
    ask(team, (0, (5, 9)), (1, (5, 9)))
    first = dict(server.adapters)
    assert len(first) == 2
    assert {path.name for path in folder.iterdir()} == first.keys()
    ask(team, (0, (5, 9)), (1, (5, 9)))
    assert [path for path, _ in server.asked].count("load_lora_adapter") == 2
    with torch.no_grad():
        team.parameters_of(1)[-1].add_(1.0)
    ask(team, (0, (5, 9)), (1, (5, 9)))
    assert len(server.adapters) == len(first.keys() & server.adapters.keys()) + 1 == 2
    assert {path.name for path in folder.iterdir()} == server.adapters.keys()
    (new,) = server.adapters.keys() - first.keys()
    assert "agent1" in new
    other = connected(server)  # another run at the same server
    ask(other, (0, (5, 9)))
    assert len(server.adapters) == 3


def test_a_shared_policy_is_one_adapter_there(server):
    team = small_team(2, share=True)
    team.engine = Engine(team, [server.url], None)
    found = ask(team, (0, (5, 9)), (1, (3, 8)))
    assert len(server.adapters) == 1
    for agent, (prompt, responses) in enumerate(zip([(5, 9), (3, 8)], found, strict=True)):
        row = Row(agent, prompt, responses[0].tokens)
        team.score([row], SAMPLING)
        assert_close(row.scored, responses[0].logps)


def test_a_server_s_shorter_context_counts(server):
    server.context = 20
    assert {base.context for base in connected(server).bases} == {20}


# --- the importance ratio -------------------------------------------------------------------------


def test_the_weighted_gradient_is_that_of_the_update_s_own_policy():
    """Over all tokens, by what the server draws them with, it is the gradient of E_pi[A] where no
    weight is cut, and that of sum min(pi, 2 mu) A log pi where some are."""
    random = torch.Generator().manual_seed(0)
    logits = torch.randn(6, generator=random, dtype=torch.float64, requires_grad=True)
    worth = torch.randn(6, generator=random, dtype=torch.float64)
    for shift in (0.1, 2.0):
        mu = (logits.detach() + shift * torch.arange(6)).log_softmax(-1)
        logps = logits.log_softmax(-1)[:, None]  # a row for each token
        rows = [Row(0, (1, 2), [token], logps=[float(mu[token])]) for token in range(6)]
        weights = importance(logps, rows)
        assert bool((weights == CAP).any()) == (shift == 2.0)
        loss = policy_loss(logps, torch.ones(6, 1) * weights, mu.exp() * worth)
        (found,) = torch.autograd.grad(loss, logits)
        pi = logits.softmax(-1)
        mass = torch.minimum(pi, CAP * mu.exp()).detach()
        (want,) = torch.autograd.grad(-(mass * worth * logits.log_softmax(-1)).sum(), logits)
        torch.testing.assert_close(found, want)
        if shift < 1:
            (true,) = torch.autograd.grad(-(logits.softmax(-1) * worth).sum(), logits)
            torch.testing.assert_close(found, true)


@pytest.mark.parametrize(("ratio", "weight"), [(1.5, 1.5), (0.25, 0.25), (4.0, 2.0)])
def test_a_constant_ratio_scales_the_gradient(ratio, weight):
    module = make(long_answers)
    team, rows = module.team, random_rows(module.team.bases[0])
    rows.sort(key=lambda row: row.agent)

    def gradients() -> dict:
        with at_step(0):
            module.set_gradients(rows)
        named = team.named_parameters()
        return {name: p.grad.clone() for name, p in named if p.grad is not None}

    plain = gradients()
    for row in rows:
        row.logps = (row.scored - math.log(ratio)).tolist()
    assert_same_gradients(gradients(), plain)  # without an engine they do not count
    team.engine = types.SimpleNamespace()
    assert_same_gradients(gradients(), {name: weight * g for name, g in plain.items()})


def other_base():
    """A model with other preferences, and strong ones."""
    base = small_base([0], seed=1)
    base.head.weight.data.mul_(6.0)
    return base


# --- errors ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"takes": False}, "cannot load an adapter .* HTTP 404, .*Not Found"),
        ({"rank": 2}, "--max-lora-rank.* HTTP 500, LoRA rank 4 is greater than max_lora_rank 2"),
        ({"off": -0.6}, "0.6 nats off"),
        ({"spoilt": {"token_ids": [-1] * 8}}, "no token ids with log-probabilities"),
        ({"spoilt": {"logprobs": {"token_logprobs": [math.nan] * 8}}}, "no token ids with log"),
        ({"spoilt": {"logprobs": {"token_logprobs": [-9999.0] * 8}}}, "no token ids with log"),
        ({"spoilt": {"logprobs": {"token_logprobs": [None] * 8}}}, "no token ids with log"),
        ({"left": 0}, "cannot be reached"),
        ({"base": other_base()}, "holds base, another model than .* nats off"),
    ],
)
def test_a_server_that_cannot_sample_for_the_team_is_refused(server, wrong, said):
    vars(server).update(wrong)
    with pytest.raises(EngineError, match=said) as told:
        connected(server).engine.probe()
    assert server.url in str(told.value)
    assert "\n" not in str(told.value)


@pytest.mark.parametrize("off", [0.0, 0.4, -0.4])
def test_one_that_rounds_otherwise_is_taken(server, off):
    server.off = off
    connected(server).engine.probe()
    assert [body["max_tokens"] for _, body in server.asked if "prompt" in body] == [8, 8]


def test_a_server_that_hangs_is_waited_for_so_long(server, monkeypatch):
    monkeypatch.setattr(engine, "TIMEOUT", engine.Timeout(0.2))
    team = connected(server)
    monkeypatch.setattr(server, "complete", lambda body: time.sleep(2) or (500, {}))
    with pytest.raises(EngineError, match="cannot be reached to sample: Request timed out"):
        ask(team, (0, (5, 9)))


def test_an_answer_that_is_no_json(server, monkeypatch):
    bad = (200, b'{"data": [')
    json_type = {"Content_Type": "application/json"}
    monkeypatch.setattr(server, "respond", lambda handler, _: handler.answer(*bad, **json_type))
    with pytest.raises(EngineError, match="cannot list its models: its answer is no JSON"):
        connected(server)


def test_a_server_of_another_model_leaves_nothing_written(server, tiny, capsys, tmp_path):
    argv = [*SMALL, "--temperature", "0.8", "--run", tmp_path / "run", "--engine"]
    assert "HTTP 500, it is of another model" in refused(capsys, *argv, server.url)
    tiny.raw = True
    assert "off on average; or is it without processed_logprobs" in refused(capsys, *argv, tiny.url)
    assert list(tmp_path.iterdir()) == []


# --- whole runs -----------------------------------------------------------------------------------


def test_a_server_that_dies_loses_nothing(tiny, capsys, tmp_path):
    def run(name: str, *argv) -> list:
        return [*SMALL, "--max-steps", "3", "--engine", tiny.url, "--run", tmp_path / name, *argv]

    train.main(list(map(str, run("whole", "--engine-folder", tmp_path))))
    for row in lines(tmp_path / "whole", "metrics.jsonl"):
        assert row["ratio/clipped"] == 0
        assert row["logp_difference/max"] < 1e-4
    paths = [Path(body["lora_path"]) for _, body in tiny.asked if "lora_path" in body]
    assert {path.parent.parent for path in paths} == {tmp_path}
    tiny.left = 2 + 2 * 2 * 2 + 2 * 2 + 2  # the probe, the held-out problems, a step, half a step
    told = refused(capsys, *run("broken"))
    assert "cannot be reached" in told
    assert f"--resume {tmp_path / 'broken'}" in told
    assert len(lines(tmp_path / "broken", "metrics.jsonl")) == 1
    tiny.left = math.inf  # and is back at another address
    train.main(["--resume", str(tmp_path / "broken"), "--engine", f"{tiny.url}/v1"])
    assert_same_run(tmp_path / "whole", tmp_path / "broken")


def test_eval_asks_the_server_too(tiny, capsys, tmp_path):
    path = tmp_path / "run"
    train.main([*SMALL, "--max-steps", "1", "--eval-limit", "none", "--run", str(path)])
    tables = []
    for name, argv in (("here", []), ("there", ["--engine", tiny.url])):
        methods = ["--method", "trained", "naive", "sequential", "discussion", "single"]
        given = ["--run", path, "--limit", 2, "--greedy", *methods, "--samples", tmp_path / name]
        evaluation.main(list(map(str, [*given, *argv])))
        tables.append((tmp_path / name).read_text().splitlines()[1:])
    assert tables[0] == tables[1]  # the likeliest tokens are the same
    assert len(tables[0]) == 10
    models = {body["model"].partition("-agent")[2][:1] for p, body in tiny.asked if "model" in body}
    assert models == {"0", "1", ""}  # "" is the base, which plays single
    assert tiny.url in capsys.readouterr().out


# --- a real server --------------------------------------------------------------------------------


@pytest.mark.engine
def test_a_real_server(tmp_path):
    python, url = os.environ["MAGRPO_VLLM_PYTHON"], "http://127.0.0.1:8199"
    argv = "--host 127.0.0.1 --port 8199 --dtype float32 --enforce-eager --max-model-len 1024 "
    argv += "--max-num-seqs 64 --enable-lora --max-loras 2 --max-lora-rank 16 "
    argv += "--logprobs-mode processed_logprobs --no-enable-chunked-prefill "
    argv += "--max-num-batched-tokens 4096"
    command = [
        python,
        "-m",
        "vllm.entrypoints.openai.api_server",
        "--model",
        str(EMBEDDED),
        *argv.split(),
    ]
    own = {"VLLM_ALLOW_RUNTIME_LORA_UPDATING": "True", "VLLM_CPU_KVCACHE_SPACE": "1"}
    own |= {"VLLM_CPU_OMP_THREADS_BIND": "nobind"}
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen(command, env=os.environ | own, stdout=log, stderr=log)
    try:
        for _ in range(300):
            try:
                urllib.request.urlopen(f"{url}/v1/models", timeout=5)
                break
            except OSError:
                assert process.poll() is None, (tmp_path / "log").read_text()[-2000:]
                time.sleep(1)
        flags = ["--temperature", "0.8", "--top-p", "0.95", "--top-k", "50", "--engine", url]
        train.main([*SMALL, "--max-steps", "4", *flags, "--run", str(tmp_path / "run")])
        train.main([*SMALL, "--max-steps", "4", *flags, "--run", str(tmp_path / "again")])
    finally:
        process.terminate()
        process.wait(60)
    rows = lines(tmp_path / "run", "metrics.jsonl")
    assert max(row["logp_difference/max"] for row in rows) < 1e-4  # each step has new adapters
    again = lines(tmp_path / "again", "metrics.jsonl")
    assert len(rows) == len(again) == 4
    for name in ("return", "completions/0/mean_length", "completions/1/mean_length"):
        assert rows[0][name] == again[0][name]  # its seeds are the key's
