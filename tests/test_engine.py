"""Rollouts that a server samples (--engine): the protocol, the errors, the importance ratio, whole
runs. python -m pytest tests/test_engine.py

The server here is a small one of this process, with the part of vLLM's API that is used; what it
answers was compared with vLLM 0.32.
"""

import json
import math
import time
import types
from pathlib import Path

import pytest
import torch
from helpers import (
    EOS,
    LocalServer,
    assert_close,
    assert_same_gradients,
    at_step,
    refused,
    resume,
    run_eval,
    small_base,
    table,
    train_run,
    uniforms,
)
from peft import set_peft_model_state_dict
from safetensors.torch import load_file
from test_magrpo import long_answers, make, small_team
from test_policies import rows_of, turns_of
from test_train import SMALL, assert_same_run, lines

from policies import Mistake, engine
from policies.decoding import Ask, decode
from policies.engine import Engine, connect
from policies.loading import load_base
from policies.logprobs import Row, score
from policies.model_names import EMBEDDED, TeamOptions
from policies.sampling import Sampling

SAMPLING = Sampling([0.8, 1.5], 9, 0.95, 8)
PLAIN = Sampling(1.0, 0, 1.0, 8)


class Server(LocalServer):
    """Adapters and completions as vLLM has them, of a base with one adapter."""

    def __init__(self, base):
        super().__init__()
        self.base = base
        self.asked = []  # (path, body)
        self.adapters = {}
        self.context = 512
        self.offset = 0.0  # by how much the log-probabilities are wrong
        self.raw = False  # whether they are of the model's own distribution
        self.heat = 1.0  # how many times as large the temperature is
        self.left = math.inf  # completions until it dies

    def respond(self, handler, body):
        self.left -= handler.path.endswith("completions")
        if self.left < 0:
            return  # it hangs up, as a process that died
        path = handler.path.removeprefix("/v1/")
        body = json.loads(body or "{}")
        self.asked.append((path, body))
        code, answer = getattr(self, path)(body)
        handler.answer(code, answer)

    def models(self, body):
        cards = [{"id": name, "parent": "base"} for name in self.adapters]
        return 200, {"data": [*cards, {"id": "base", "max_model_len": self.context}]}

    def unload_lora_adapter(self, body):
        del self.adapters[body["lora_name"]]
        return 200, "Success"

    def load_lora_adapter(self, body):
        assert body["lora_name"] not in self.adapters
        weights = load_file(f"{body['lora_path']}/adapter_model.safetensors")
        own = self.base.parameters_of(0)
        if sorted(w.shape for w in weights.values()) != sorted(p.shape for p in own):
            return 500, {"error": {"message": "it is of another model"}}
        self.adapters[body["lora_name"]] = weights
        return 200, "Success"

    def completions(self, body):
        assert body["ignore_eos"]
        assert body["return_token_ids"]
        assert not body["skip_special_tokens"]
        assert (body["min_p"], body["repetition_penalty"], body["logprobs"]) == (0, 1, 0)
        numbers = [uniforms(body["max_tokens"], seed=body["seed"] + i) for i in range(body["n"])]
        options = [body[name] for name in ("temperature", "top_k", "top_p", "max_tokens")]
        prompt = tuple(body["prompt"])
        base = self.base
        with self.lock:
            base.codec.eos = frozenset(body.get("stop_token_ids", ()))
            base.codec.stops = body.get("stop", [])
            for name, parameter in base.named_parameters():
                if "lora_B" in name:
                    parameter.data.zero_()  # the base plays
            if body["model"] != "base":
                set_peft_model_state_dict(base.model, self.adapters[body["model"]], "agent0")
            samples = torch.stack(numbers)[None]
            options[0] *= self.heat
            [answers] = decode(base, [Ask(0, prompt)], samples, Sampling(*options))
            rows = [Row(0, prompt, answer.tokens, logps=answer.logps) for answer in answers]
            if self.raw:
                score(base, rows, PLAIN)
                for row in rows:
                    row.logps = row.scored.tolist()
        choices = []
        for index, row in enumerate(rows):
            logprobs = {"token_logprobs": [logp + self.offset for logp in row.logps]}
            choice = {"index": index, "token_ids": row.tokens, "finish_reason": "stop"}
            choices.append(choice | {"logprobs": logprobs})
        return 200, {"choices": choices[::-1]}


@pytest.fixture
def server():
    with Server(small_base([0])) as running:
        yield running


@pytest.fixture
def tiny():
    """A server of the embedded team's base."""
    with Server(load_base(str(EMBEDDED), [0], TeamOptions([]))) as running:
        yield running


def connected(server, **options):
    """A team whose agents sample there."""
    team = small_team(2, **options)
    for base in team.bases:
        base.engine = Engine(base, server.url)
    return team


def ask(team, *prompts, samples=3, seed=0):
    numbers = uniforms(len(prompts), samples, 8, seed=seed)
    return team.sample(prompts, numbers, SAMPLING)


def tokens_of(answers):
    return [[response.tokens for response in responses] for responses in answers]


# --- the protocol ---------------------------------------------------------------------------------


@pytest.mark.parametrize("team", [{}, {"bases": ([0], [1])}, {"share": True}])
def test_what_is_sampled_there_is_what_is_scored_here(server, team):
    server.context = 20
    team = connected(server, **team)
    frozen = {n: p.data for n, p in server.base.named_parameters() if "lora" not in n}
    for number, base in enumerate(team.bases):
        base.load_state_dict(frozen, strict=False)
        base.codec.eos |= {4 + number}
        base.codec.end_at("7")
        assert base.codec.context == 20
    prompts = [(0, (5, 9, 7)), (1, (5, 9, 7)), (0, (5, 9, 7)), (1, (3, 8))]
    answers = ask(team, *prompts)
    assert len(server.adapters) == len(team.policies())
    for (agent, prompt), responses in zip(prompts, answers, strict=True):
        base = team.base_of[agent]
        assert len(responses) == 3
        for response in responses:
            ends = base.codec.eos | {ord("7") - 40}  # its tokenizer has a token for each character
            assert response.ended == (response.tokens[-1] in ends)
            assert not ends & {*response.tokens[:-1]}
            assert len(response.tokens) == 8 or response.ended
            assert response.entropies == [-logp for logp in response.logps]
            row = Row(agent, prompt, response.tokens)
            team.score([row], SAMPLING)
            assert_close(row.scored, response.logps)
    tokens = tokens_of(answers)
    assert tokens[0] != tokens[2]  # one prompt twice: two draws
    assert tokens[0] != tokens[1]  # two agents
    assert tokens_of(ask(team, *prompts)) == tokens
    assert tokens_of(ask(team, prompts[0], seed=1))[0] != tokens[0]


def test_an_adapter_moves_when_it_has_changed_under_a_new_name(server):
    team = connected(server)
    folder = Path(team.engine.folder.name)
    prompts = [(0, (5, 9)), (1, (5, 9))]
    ask(team, *prompts)
    ask(team, *prompts)
    assert [path for path, _ in server.asked].count("load_lora_adapter") == 2
    first = {*server.adapters}
    with torch.no_grad():
        team.parameters_of(1)[-1].add_(1.0)
    ask(team, *prompts)
    assert len(server.adapters) == 2
    assert {path.name for path in folder.iterdir()} == server.adapters.keys()
    [new] = server.adapters.keys() - first
    assert "agent1" in new
    ask(connected(server), prompts[0])  # another run at the same server
    assert len(server.adapters) == 3


LOST = "not 3 whole samples of 8 tokens at most"
# What each sample of an answer is otherwise, how many of the three come, what the one line names
WRONG = """
{}                                              2  LOST
{"index": 0}                                    3  LOST
{"finish_reason": "abort"}                      3  LOST.*abort
{"token_ids": [24,5,5,5,5,5,5,5], "logprobs": {"token_logprobs": [0,0,0,0,0,0,0,0]}}  3  LOST
{"token_ids": [5, 5], "finish_reason": "length", "logprobs": {"token_logprobs": [-1, -1]}}  3  LOST
{"token_ids": null}                             3  TypeError
{"token_ids": [], "logprobs": {"token_logprobs": []}}  3  LOST
{"token_ids": [24]}                             3  LOST
{"token_ids": [5.0]}                            3  'float' object cannot be interpreted as an
{"token_ids": [5,5,5,5,5,5,5,5,5], "logprobs": {"token_logprobs": [0,0,0,0,0,0,0,0,0]}}  3  LOST
{"logprobs": {}}                                3  KeyError
{"logprobs": {"token_logprobs": [NaN]}}         3  LOST.*nan
{"token_ids": [5, 5]}                           3  zip.. argument 2 is shorter
"""


@pytest.mark.parametrize("change, count, named", table(WRONG))
def test_an_answer_that_is_not_whole_is_refused(change, count, named, server):
    choice = {"token_ids": [EOS], "finish_reason": "stop", "logprobs": {"token_logprobs": [-1.0]}}
    choices = [{"index": n} | choice | json.loads(change) for n in range(int(count))]
    server.completions = lambda body: (200, {"choices": choices})
    with pytest.raises(
        Mistake, match="answers as vLLM never does .*" + named.replace("LOST", LOST)
    ):
        ask(connected(server), (0, (5, 9, 7)))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_server_may_round_and_not_sample_from_another_distribution(server, dtype):
    server.base.to(dtype)
    team = small_team(2)
    connect(team, [server.url])
    prompts = [(0, (5, 9, 7)), (1, (3, 8, *range(3, 20)))]

    def compare():
        rows = rows_of([ids for _, ids in prompts], [0, 1], ask(team, *prompts))
        team.score(rows, SAMPLING)
        team.compare(rows)

    compare()
    server.heat = 1.25
    with pytest.raises(ValueError, match=f"the engine at {server.url} samples with log-probab"):
        compare()


# --- the importance ratio -------------------------------------------------------------------------


def test_the_ratio_of_an_agent_s_tokens_scales_its_gradient():
    module = make(long_answers)
    team = module.team
    rows = turns_of([0, 1])[::9]

    def gradients():
        with at_step(0):
            module.set_gradients(rows)
        named = team.named_parameters()
        return {name: p.grad.clone() for name, p in named if p.grad is not None}

    plain = gradients()
    for row in rows:
        row.logps = (row.scored - math.log([0.25, 4.0][row.agent])).tolist()
    assert_same_gradients(gradients(), plain)  # without an engine they do not count
    team.bases[0].engine = types.SimpleNamespace()
    weighted = {n: g * (2.0 if ".agent1." in n else 0.25) for n, g in plain.items()}  # cut at CAP
    assert_same_gradients(gradients(), weighted)


def other_base():
    """A model with other preferences, and strong ones."""
    base = small_base([0], seed=1)
    base.head.weight.data.mul_(6.0)
    return base


# --- errors ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "wrong, error",
    [
        ({"load_lora_adapter": lambda body: (404, "Not Found")}, "cannot load an adapter .* 404.*"),
        ({"models": lambda body: (200, {"data": [{"id": "a"}]})}, "KeyError\\('max_model_len"),
        ({"offset": -0.6}, "0.6 nats off"),
        ({"left": 0}, "cannot sample: Connection error"),
        ({"completions": lambda body: time.sleep(9)}, "cannot sample: Request timed out"),
        ({"base": other_base()}, "holds base, another model than .* nats off"),
    ],
)
def test_a_server_that_cannot_sample_for_the_team_is_refused(server, wrong, error, monkeypatch):
    if error.endswith("timed out"):  # the others have all the time that a busy machine takes
        monkeypatch.setattr(engine, "TIMEOUT", engine.Timeout(1))
    vars(server).update(wrong)
    with pytest.raises(Mistake, match=error) as refusal:
        connect(small_team(2), [server.url])
    assert server.url in str(refusal.value)


def test_a_server_of_another_distribution_leaves_nothing_written(tiny, capsys, tmp_path):
    tiny.raw = True
    argv = f"{SMALL} --temperature 0.8 --run {tmp_path}/run --engine {tiny.url}"
    assert "off on average; or is it without processed_logprobs" in refused(capsys, argv)
    assert list(tmp_path.iterdir()) == []


# --- whole runs -----------------------------------------------------------------------------------


def test_a_server_that_dies_loses_nothing(tiny, capsys, tmp_path):
    argv = f"{SMALL} --max-steps 3 --engine {tiny.url} --eval-limit 1 --max-new-tokens 16"
    broken = tmp_path / "broken"
    whole = train_run(tmp_path / "whole", argv)
    for row in lines(whole, "metrics.jsonl"):
        assert row["ratio/clipped"] == 0
        assert row["logp_difference/max"] < 1e-4
    # the probe, the held-out problem, a step, half a step
    tiny.left = 2 + 2 * 2 + 2 * 2 + 2
    error = refused(capsys, argv, "--run", broken)
    assert "Connection error" in error
    assert f"--resume {broken}" in error
    assert len(lines(broken, "metrics.jsonl")) == 1
    tiny.left = math.inf  # and is back at another address
    resume(broken, f"--engine {tiny.url}/v1")
    assert_same_run(whole, broken)


def test_eval_asks_the_server_too(tiny, tmp_path):
    path = train_run(tmp_path / "run", SMALL, "--max-steps 1 --eval-limit none")
    argv = f"--run {path} --limit 1 --greedy --max-new-tokens 16 "
    argv += "--method trained naive sequential discussion single"
    run_eval(argv, "--samples", tmp_path / "here")
    run_eval(argv, "--samples", tmp_path / "there", "--engine", tiny.url)
    here = lines(tmp_path, "here")
    there = lines(tmp_path, "there")
    assert len(here) == 5
    for answer, other in zip(here, there, strict=True):
        assert answer.pop("speed") != other.pop("speed")
        assert answer == other  # the likeliest tokens are the same
    models = {body["model"].partition("-agent")[2][:1] for _, body in tiny.asked if "model" in body}
    assert models == {"0", "1", ""}  # "" is the base, which plays single
