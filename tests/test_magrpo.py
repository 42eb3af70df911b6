"""The module on a small model, in Lightning's own loop: python -m pytest tests/test_magrpo.py"""

import contextlib
import itertools
import math

import numpy as np
import pytest
import torch
from helpers import (
    assert_close,
    assert_same_gradients,
    at_step,
    flags,
    rounding,
    score_alone,
    small_base,
)

import magrpo
from magrpo import MAGRPO
from policies import logprobs
from policies.logprobs import Row
from policies.model_names import TeamOptions
from policies.team import Team
from tasks import Task
from train import module_of
from training.held_out import played
from training.metrics import measure
from training.reward_runner import Scorer


class Echo(Task):
    """A task with four problems; the prompt tells the agent and the turn."""

    reward = "none"

    def items(self, split):
        return [{"task_id": f"echo/{i}", "word": "ABCD"[i]} for i in range(4)]

    def observe(self, agent, item, history):
        return f"{item['word']}:{agent}:" + "".join(r + f for r, f in history)

    def feedback(self, item, responses):
        return [f"!{i}" for i in range(len(responses))]


def team_of(bases):
    team = Team.__new__(Team)
    torch.nn.Module.__init__(team)
    team.bases = torch.nn.ModuleList(bases)
    team.base_of = {agent: base for base in team.bases for agent in base.agents}
    team.size = len(team.base_of)
    return team


def small_team(agents=2, rank=4, bases=None, share=False):
    """A Team of small random models; `bases` splits the agents over several of them."""
    if not bases:
        bases = [list(range(agents))] if rank or share else [[agent] for agent in range(agents)]
    team = team_of(small_base(own, rank, seed, share) for seed, own in enumerate(bases))
    team.options = TeamOptions(["small"] * agents, share, rank)
    return team


def rewarding(function, maximum=1e4):
    function.maximum = maximum
    return function


def long_answers(item, texts):
    return float(sum(map(len, texts)))


def make(reward, *argv, team=None, task=None, maximum=1e4):
    """A module with an optimizer, outside Lightning's loop; `step` makes one step of it."""
    args = flags(*argv)
    task = task or Echo()
    task.num_agents = args.num_agents
    team = team or small_team(args.num_agents, args.lora_rank)
    module = module_of(team, task, Scorer(rewarding(reward, maximum)), task.items("train"), args)
    optimizer = module.configure_optimizers()
    module.optimizers = lambda: optimizer
    module.manual_backward = lambda loss: loss.backward()
    return module


def step(module, number=0):
    with at_step(number):
        module.training_step(0, 0)
    return module


def snapshot(team):
    return {name: p.detach().clone() for name, p in team.named_parameters()}


def moved(team, before):
    return {name for name, p in team.named_parameters() if not torch.equal(p, before[name])}


@pytest.mark.parametrize("turns, unscored", [(1, 1), (2, 1), (2, 4)])
def test_a_reward_scores_all_responses_to_the_same_prompts_or_none(turns, unscored, monkeypatch):
    """Where the others earn 1, an unscored response would have the advantage of a wrong one."""
    module = make(long_answers, f"--joint aligned --turns {turns}")
    batches = []

    def scores(scorer, asked):  # of two problems, 4 joint responses each
        batches.append(asked)
        count = unscored if len(batches) == turns else 0
        return [{}] * count + [{"reward": 1.0}] * (len(asked) - count)

    monkeypatch.setattr(Scorer, "__call__", scores)
    complaint = pytest.raises(ValueError, match=f"for another one, at turn {turns - 1} of item")
    with at_step(0), contextlib.nullcontext() if unscored == 4 else complaint:
        module.play(2)
    assert len(batches) == turns


def test_a_text_has_its_given_beginning_and_ends_before_a_stop():
    """The beginning belongs to the prompt, and is not trained on."""

    class Begun(Echo):
        stop = "0"

        def begin(self, agent, item):
            return f"<{agent}"

    scored = []

    def reward(item, texts):
        scored.extend(texts)
        return len(scored)

    module = make(reward, "--turns 2", task=Begun())
    module.turns = module.play(1)
    assert all(text[:2] in ("<0", "<1") for text in scored)
    stopped = 0
    for node in itertools.chain(*module.turns):
        for agent, responses in enumerate(node.responses):
            text = f"{node.asked[agent]}\n\n<{agent}"
            assert node.prompts[agent] == module.team.base_of[agent].codec.encode(text, False, 999)
            for response in responses:
                assert "0" not in response.text.removeprefix(f"<{agent}")
                assert len(response.tokens) == len(response.logps) <= 8
                stopped += response.ended and response.tokens[-1] == ord("0") - 40
    assert stopped
    assert "<0" in module.turns[1][0].asked[0], "its history"


@pytest.mark.parametrize("joint, each", [("aligned", 1), ("cross", 4), ("3", 3)])
def test_a_response_is_rewarded_with_its_own_partners(joint, each):
    """And compared with the agent's others to the problem."""
    asked = []

    def reward(item, texts):
        asked.append(texts)
        return float(hash((item["word"], *texts)) % 97)

    module = step(make(reward, f"--joint {joint}"))
    assert len(asked) == 2 * 4 * each
    for node in module.turns[0]:
        for chosen, value in zip(node.joints.tolist(), node.team_rewards.tolist(), strict=True):
            assert value == reward(node.item, node.texts(chosen))
        for sample in range(4):
            texts, parts = played(node, sample)
            assert texts == [own[sample].text for own in node.responses]
            assert parts["reward"] == reward(node.item, texts)
        assert_close(node.advantages, node.returns - node.returns.mean(1, keepdim=True))


@pytest.mark.parametrize(
    "agents, share, argv",
    [
        (2, False, ""),
        (2, True, ""),
        (2, True, "--lora-rank 0"),
        (2, False, "--kl-coef 0.5 --normalize token"),
        (1, False, "--normalize sequence"),
        (2, False, "--lr 0.2 0.1 --grad-clip 0"),
    ],
)
def test_an_update_is_the_written_one(agents, share, argv, monkeypatch):
    """Row by row, Eq. 2. The agents of a shared policy have one sum, which is clipped once. The
    frozen base's KL term comes in micro-batches. A reward is asked once."""
    argv = f"--num-agents {agents} --joint aligned {argv}"
    if "--lr" not in argv:
        argv += f" --lr {RATE}"
    args = flags(argv)
    team = small_team(agents, args.lora_rank, share=share)
    start = snapshot(team)
    policies = 1 if share else agents
    groups = []
    for agent in range(policies):
        rate = args.lr[agent]
        groups.append(
            {"params": team.parameters_of(agent), "agent": agent, "lr": rate, "rate": rate}
        )
    # Adam would make much of rounding where a gradient is hardly more than that.
    monkeypatch.setattr(MAGRPO, "configure_optimizers", lambda _: torch.optim.SGD(groups, RATE))
    monkeypatch.setitem(logprobs.TOGETHER, "cpu", 20 if args.kl_coef else 512)
    asked = []

    def reward(item, texts):
        asked.append(texts)
        return long_answers(item, texts)

    module = step(make(reward, argv, team=team))
    assert len(asked) == 2 * 4
    got = moves(team, start)
    assert {name for name in got if got[name].any()} == {
        name for name, p in team.named_parameters() if p.requires_grad
    }
    for name, parameter in team.named_parameters():
        parameter.data.copy_(start[name])
    rows = []
    for node, agent in itertools.product(module.turns[0], range(agents)):
        values = node.advantages[agent].tolist()
        for response, value in zip(node.responses[agent], values, strict=True):
            rows.append(Row(agent, node.prompts[agent], response.tokens, value))
    for row in rows:
        own = [len(other.tokens) for other in rows if other.agent == row.agent]
        size = {"sum": 1, "token": np.mean(own), "sequence": len(row.tokens)}[args.normalize]
        row.weight = 1 / 4 / 2 / size
        score_alone(team.base_of[row.agent], [row], module.sampling, frozen=True)
        row.reference = row.scored

    def backward(batch, logps, mask):
        [row] = batch
        loss = args.kl_coef * row.weight * 0.5 * (logps[0] - row.reference).square().sum()
        (loss - row.coef * logps.sum()).backward()

    optimizer = torch.optim.SGD(groups, RATE)
    optimizer.zero_grad()
    for row in rows:
        score_alone(team.base_of[row.agent], [row], module.sampling, backward)
    limit = args.grad_clip or math.inf
    norms = [float(torch.nn.utils.clip_grad_norm_(group["params"], limit)) for group in groups]
    optimizer.step()
    assert_same_gradients(got, moves(team, start))
    assert_close(list(module.norms.values()), norms * (agents // policies))
    assert max(norms) > 1


RATE = 0.2


def moves(team, start):
    """By what an optimizer of rate RATE has moved each parameter: the sum of its gradients."""
    return {name: (p.detach() - start[name]) / RATE for name, p in team.named_parameters()}


def test_what_trains_is_known_by_its_name(monkeypatch):
    """Wherever its group stands, it has a norm, a clip and a rate of its own. A policy moves as it
    does without the others."""
    alone = small_team()
    step(make(long_answers, "--lr 0.2 0.1", team=alone))
    weight = torch.nn.Parameter(torch.ones(2))
    policies = MAGRPO.configure_optimizers
    gradients = MAGRPO.set_gradients

    def with_critic(module):
        *groups, last = policies(module).param_groups
        critic = {"params": [weight], "name": "critic", "rate": 0.5}
        return torch.optim.Adam([last, critic, *groups], betas=(0.9, 0.99), fused=True)

    def fitted(module, rows):
        gradients(module, rows)
        weight.grad = torch.tensor([3.0, 4.0])
        module.scalars["critic/loss"] = 7.0

    monkeypatch.setattr(MAGRPO, "configure_optimizers", with_critic)
    monkeypatch.setattr(MAGRPO, "set_gradients", fitted)
    module = make(long_answers, "--lr 0.2 0.1", team=small_team())
    module.scalars["critic/seldom"] = 1.0  # of an earlier step
    step(module)
    assert module.scalars.keys() == {"critic/loss"}
    assert not moved(module.team, snapshot(alone))
    assert weight.tolist() == pytest.approx([0.5, 0.5])  # Adam's first step is the rate
    assert weight.grad.tolist() == pytest.approx([0.6, 0.8])
    metrics = measure(module)
    names = ["grad_norm/critic", "critic/loss", "lr/0", "lr/1", "lr/critic"]
    assert [metrics[name] for name in names] == pytest.approx([5, 7, 0.2, 0.1, 0.5])


def test_what_a_module_holds_beside_the_team_is_saved():
    """A baseline of one's own is no parameter. A run that resumes without it is another run."""
    module = make(long_answers)
    module.register_buffer("baselines", torch.ones(2))
    kept = module.state_dict()
    assert kept.pop("baselines").tolist() == [1.0, 1.0]
    assert kept.keys() == {name for name, p in module.named_parameters() if p.requires_grad}


def test_metrics_do_not_depend_on_padding():
    """Lengths, entropy and KL are over real tokens: recomputed here from the responses."""
    module = step(make(long_answers))
    metrics = measure(module)
    gaps = [(row.scored - torch.tensor(row.logps)).abs() for row in module.learned]
    gaps = torch.cat(gaps)  # of decode and update: rounding
    assert metrics["logp_difference/mean"] == pytest.approx(float(gaps.mean()), rel=1e-4)
    assert 0 < metrics["logp_difference/max"] < rounding()
    nodes = module.turns[0]
    for agent in range(2):
        responses = [r for node in nodes for r in node.responses[agent]]
        length = sum(len(r.tokens) for r in responses)
        entropy = sum(sum(r.entropies) for r in responses) / length
        clipped = np.mean([not r.ended for r in responses])
        assert metrics[f"completions/{agent}/mean_length"] == pytest.approx(length / len(responses))
        assert metrics[f"completions/{agent}/clipped_ratio"] == clipped
        assert metrics[f"entropy/{agent}"] == pytest.approx(entropy)
        divergences = []
        for node in nodes:
            for response in node.responses[agent][:1]:
                row = Row(agent, node.prompts[agent], response.tokens)
                score_alone(module.team.base_of[agent], [row], module.sampling, frozen=True)
                ratio = row.scored - torch.tensor(response.logps)
                divergences.append(ratio.exp() - 1 - ratio)
        assert_close(metrics[f"kl/{agent}"], torch.cat(divergences).mean())
        assert metrics[f"kl/{agent}"] > 0.01


def test_every_sample_has_its_own_random_numbers(monkeypatch):
    """Same item, same prompt: another problem of the batch, turn, step or seed samples anew."""

    class Same(Echo):
        def items(self, split):
            return [{"task_id": "same", "word": "A"}] * 4

        def observe(self, agent, item, history):
            return "the same prompt"

    nodes = []
    for seed, step in itertools.product(range(2), range(2)):
        flags = f"--turns 2 --max-new-tokens 16 --seed {seed}"
        module = make(long_answers, flags, task=Same())
        monkeypatch.setattr(MAGRPO, "global_step", step)
        nodes += itertools.chain(*module.play(2))
    assert len({node.key for node in nodes}) == len(nodes)
    assert len({str([r.tokens for r in node.responses[0]]) for node in nodes}) == len(nodes)


def test_a_gradient_that_is_not_finite_changes_nothing(monkeypatch, capsys):
    """The step counts and is skipped. The third in a row ends the run."""
    module = make(long_answers)
    before = snapshot(module.team)
    real = magrpo.policy_loss
    monkeypatch.setattr(magrpo, "policy_loss", lambda *args: real(*args) * float("nan"))
    for number in range(2):
        assert measure(step(module, number))["skipped"] == 1
    assert "gradient norms {0: nan, 1: nan}: the step is skipped" in capsys.readouterr().err
    with pytest.raises(ValueError, match="the third step in a row"):
        step(module, 2)
    assert moved(module.team, before) == set()
