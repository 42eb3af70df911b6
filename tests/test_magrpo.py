"""The module on a small model, in Lightning's own loop: python -m pytest tests/test_magrpo.py"""

import itertools
from collections import Counter, defaultdict

import lightning as L
import numpy as np
import pytest
import torch
from helpers import assert_close, assert_same_gradients, flags, rounding, small_base

import magrpo
from magrpo import MAGRPO, Episode, Rollout
from policies import plain, scoring
from policies.finding import TeamOptions
from policies.sampling import Sampling
from policies.scoring import Row
from policies.team import Team
from tasks import Task
from train import module_of
from training.flags import part_of
from training.heldout import played
from training.metrics import measure
from training.scoring import Scorer


class Echo(Task):
    """A task with four problems; the prompt tells the agent and the turn."""

    reward = "none"

    def items(self, split):
        return [{"task_id": f"echo/{i}", "word": "ABCD"[i]} for i in range(4)]

    def observe(self, agent, item, history):
        return f"{item['word']}:{agent}:" + "".join(r + f for r, f in history)

    def feedback(self, item, responses):
        return [f"!{i}" for i in range(len(responses))]


def small_team(agents: int = 2, rank: int = 4, bases=None, share: bool = False) -> Team:
    """A Team of small random models; `bases` splits the agents over several of them."""
    team = Team.__new__(Team)
    torch.nn.Module.__init__(team)
    one = [list(range(agents))] if rank or share else [[i] for i in range(agents)]
    team.bases = torch.nn.ModuleList(
        small_base(those, rank, seed, share) for seed, those in enumerate(bases or one)
    )
    team.base_of = {agent: base for base in team.bases for agent in base.agents}
    team.size = agents
    team.options = TeamOptions(["small"] * agents, share, rank)
    return team


def rewarding(function, maximum: float = 1e4):
    function.maximum = maximum
    return function


def long_answers(item, texts):
    return float(sum(map(len, texts)))


def train(reward, *argv, team=None, steps: int = 1):
    """A module after `steps` steps of Lightning's loop."""
    args = flags(*argv, "--max-steps", str(steps))
    task = Echo()
    team = team or small_team(args.num_agents, args.lora_rank)
    module = module_of(team, task, Scorer(rewarding(reward)), task.items("train"), args)
    trainer = L.Trainer(
        max_steps=steps,
        limit_train_batches=steps,
        max_epochs=1,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        accelerator="cpu",
    )
    trainer.fit(module)
    return module


def snapshot(team):
    return {name: p.detach().clone() for name, p in team.named_parameters()}


def moved(team, before):
    return {name for name, p in team.named_parameters() if not torch.equal(p, before[name])}


@pytest.mark.parametrize("joint", ["aligned", "cross"])
def test_equal_rewards_move_nothing(joint):
    """tests/test_equations.py has all kinds of advantages."""
    team = small_team()
    before = snapshot(team)
    module = train(lambda item, texts: 0.1, "--joint", joint, team=team, steps=2)
    assert moved(team, before) == set()
    assert measure(module)["frac_reward_zero_std"] == 1
    assert measure(module)["grad_norm/0"] == 0
    assert measure(module)["logp_difference/max"] == 0  # nothing was scored


@pytest.mark.parametrize(
    "argv",
    [
        ["--num-agents", "1"],
        ["--num-agents", "3"],
        ["--num-agents", "3", "--joint", "aligned", "--turns", "2", "--branching", "chain"],
        ["--num-agents", "4", "--joint", "3", "--turns", "2", "--branching", "chain"],
        ["--turns", "2", "--branching", "tree", "--gamma", "0.5"],
        ["--turns", "3", "--branching", "chain", "--joint", "cross"],
        ["--turns", "2", "--joint", "aligned", "--num-generations", "2"],
    ],
)
def test_counts_of_agents_turns_and_branches(argv):
    module = train(long_answers, *argv)
    args = flags(*argv)
    agents = args.num_agents
    group = args.num_generations
    for turn, nodes in enumerate(module.turns):
        wide = group**turn if args.branching == "tree" else group ** min(turn, 1)
        assert len(nodes) == args.batch_size * wide
        samples = 1 if turn and args.branching == "chain" else group
        for node in nodes:
            assert [len(r) for r in node.responses] == [samples] * agents
            most = samples ** (agents - 1)
            each = {"aligned": 1, "cross": most}.get(args.joint) or min(args.joint, most)
            assert len(node.parts) == samples * each
            assert [len(history) for history in node.histories] == [turn] * agents
            assert node.advantages.shape == (agents, samples)
    assert len(module.turns) == args.turns
    assert set(measure(module)) >= {f"turn_{t}/reward" for t in range(args.turns)}


def test_a_response_ends_at_the_tasks_stop():
    team, task, args = small_team(), Echo(), flags("--max-new-tokens", "24")

    def responses(stop):
        task.stop = stop
        rollout = Rollout(team, task, Scorer(rewarding(long_answers)), part_of(args, Episode))
        [nodes] = rollout(task.items("train"), (0, 1, 0, 0), 4, Sampling(1.0, 0, 1.0, 24), 1, False)
        return [response for node in nodes for own in node.responses for response in own]

    free = responses("")
    [(stop, count)] = Counter("".join(response.text for response in free)).most_common(1)
    assert count > 9
    for long, short in zip(free, responses(stop), strict=True):
        text, *after = long.text.split(stop)
        assert short.text == text
        assert short.ended if after else short.tokens == long.tokens
        assert short.tokens == long.tokens[: len(short.tokens)], "the token that ended it counts"
        assert len(short.logps) == len(short.tokens)
    assert [response.tokens for response in responses("")] == [r.tokens for r in free]


@pytest.mark.parametrize(("joint", "each"), [("aligned", 1), ("cross", 4), ("3", 3)])
def test_a_response_is_rewarded_with_its_own_partners(joint, each):
    seen = []

    def reward(item, texts):
        seen.append((item["word"], *texts))
        return float(hash((item["word"], *texts)) % 97)

    module = train(reward, "--joint", joint)
    for node in module.turns[0]:
        worth = defaultdict(list)
        for chosen, found in zip(node.joints.tolist(), node.team_rewards.tolist(), strict=True):
            texts = [node.responses[i][s].text for i, s in enumerate(chosen)]
            assert found == float(hash((node.item["word"], *texts)) % 97)
            for agent, s in enumerate(chosen):
                worth[agent, s].append(found)
        for agent, s in itertools.product(range(2), range(4)):
            assert float(node.returns[agent, s]) == pytest.approx(sum(worth[agent, s]) / each)
            texts, parts = played(node, s)
            assert texts == [responses[s].text for responses in node.responses]
            assert parts["reward"] == float(hash((node.item["word"], *texts)) % 97)
    assert len(seen) == 2 * 4 * each


def test_one_problems_rewards_do_not_leak_into_another():
    def shifted(item, texts):
        return long_answers(item, texts) + (100.0 if item["word"] == "A" else 0.0)

    plain, moved_up = (train(r, "--batch-size", "4") for r in (long_answers, shifted))
    for a, b in zip(plain.turns[0], moved_up.turns[0], strict=True):
        torch.testing.assert_close(a.advantages, b.advantages)
    assert len({node.item["word"] for node in plain.turns[0]}) == 4


@pytest.mark.parametrize("normalize", ["sum", "token", "sequence"])
def test_normalisers(normalize):
    module = train(long_answers, "--normalize", normalize)
    rows = module.rows()
    for agent in range(2):
        mine = [row for row in rows if row.agent == agent]
        mean = sum(len(row.tokens) for row in mine) / len(mine)
        assert len({len(row.tokens) for row in mine}) > 1
        for row in mine:
            size = {"sum": 1, "token": mean, "sequence": len(row.tokens)}[normalize]
            assert row.weight == pytest.approx(1 / 2 / 4 / size)
    values = [
        float(value)
        for node in module.turns[0]
        for agent in range(2)
        for value in node.advantages[agent]
    ]
    assert [row.coef for row in rows] == pytest.approx(
        [value * row.weight for value, row in zip(values, rows, strict=True)]
    )


@pytest.mark.parametrize(("share", "rank"), [(False, 4), (True, 4), (True, 0)])
def test_the_update_is_the_gradient_of_the_written_loss(share, rank):
    """Eq. 2 again, row by row, against what the optimizer was given. With --share the agents'
    losses add up in one policy, which is clipped once."""
    team = small_team(rank=rank, share=share)
    args = flags("--lr", "0", "--lora-rank", str(rank))
    task = Echo()
    scorer = Scorer(rewarding(long_answers))
    module = module_of(team, task, scorer, task.items("train"), args)
    given = {}
    update = module.update

    def probe(rows):
        norms = update(rows)
        for name, parameter in team.named_parameters():
            if parameter.grad is not None:
                given[name] = parameter.grad.clone()
        return norms

    module.update = probe
    optimizer = torch.optim.SGD(
        [{"params": team.parameters_of(agent)} for agent in range(1 if share else 2)], lr=0.0
    )
    module.optimizers = lambda: optimizer
    module.manual_backward = lambda loss: loss.backward()
    module.training_step(0, 0)
    team.zero_grad()
    base = team.bases[0]
    for node in module.turns[0]:
        for agent, responses in enumerate(node.responses):
            for response, value in zip(responses, node.advantages[agent], strict=True):
                row = Row(agent, node.prompts[agent], response.tokens, float(value))
                plain.score(
                    base,
                    [row],
                    module.sampling,
                    lambda rows, logps, mask: (-rows[0].advantage / 4 / 2 * logps.sum()).backward(),
                )
    norms = [
        float(torch.nn.utils.clip_grad_norm_(team.parameters_of(agent), 1.0))
        for agent in range(1 if share else 2)
    ]
    named = team.named_parameters()
    assert_same_gradients(given, {n: p.grad for n, p in named if p.requires_grad})
    assert_close(module.norms, norms * 2 if share else norms)


@pytest.mark.parametrize("agents", [1, 2])
def test_several_updates_are_the_written_ones(agents, monkeypatch):
    """--updates 3, row by row: the first with Eq. 2, the others with the clipped ratio against what
    the rows were before the first one. It is one step, and a reward is asked once."""
    team, asked = small_team(agents), []

    def reward(item, texts):
        asked.append(texts)
        return long_answers(item, texts)

    start = snapshot(team)
    groups = [{"params": team.parameters_of(agent)} for agent in range(agents)]
    # Adam would make much of rounding where a gradient is hardly more than that
    monkeypatch.setattr(MAGRPO, "configure_optimizers", lambda _: torch.optim.SGD(groups, 0.2))
    argv = ("--num-agents", str(agents), "--joint", "aligned", "--lr", "0.2")
    argv += ("--updates", "3", "--clip", "0.05", "0.1")
    module = train(reward, *argv, team=team)
    assert module.trainer.global_step == 1
    assert len(asked) == len({tuple(texts) for texts in asked})
    got, base = snapshot(team), team.bases[0]
    for name, parameter in team.named_parameters():
        parameter.data.copy_(start[name])
    optimizer, old, beyond = torch.optim.SGD(groups, 0.2), {}, []

    def backward(rows, logps, mask):
        loss, (row,) = 0.0, rows
        update = row.old is not None
        for now, then in zip(logps[0], row.old if update else logps[0].detach(), strict=True):
            ratio, weight = (now - then).exp(), row.advantage / 4 / 2
            within = ratio.clamp(0.95, 1.1)
            beyond.append(update and bool(within != ratio))
            worse = update and bool(within * weight < ratio * weight)
            loss = loss - weight * (within if worse else ratio if update else now)
        loss.backward()

    for _ in range(3):
        optimizer.zero_grad()
        for b, node in enumerate(module.turns[0]):
            for agent, responses in enumerate(node.responses):
                for g, (response, value) in enumerate(
                    zip(responses, node.advantages[agent], strict=True)
                ):
                    row = Row(agent, node.prompts[agent], response.tokens, float(value))
                    row.old = old.get((b, agent, g))
                    plain.score(base, [row], module.sampling, backward)
                    old.setdefault((b, agent, g), row.scored)
        for group in groups:
            torch.nn.utils.clip_grad_norm_(group["params"], 1.0)
        optimizer.step()
    for name, parameter in team.named_parameters():
        assert_close(got[name], parameter.detach())
    assert 0.05 < np.mean(beyond) < 0.95
    assert 0 < measure(module)["clip_fraction"] < 1
    assert measure(module)["logp_difference/max"] < 1e-4  # of the first update


def test_metrics_do_not_depend_on_padding():
    """Lengths, entropy and KL are over real tokens: recomputed here from the responses."""
    module = train(long_answers)
    nodes = module.turns[0]
    for agent in range(2):
        mine = [r for node in nodes for r in node.responses[agent]]
        length = sum(len(r.tokens) for r in mine)
        metrics = measure(module)
        assert metrics[f"completions/{agent}/mean_length"] == pytest.approx(length / len(mine))
        assert metrics[f"entropy/{agent}"] == pytest.approx(sum(r.entropy for r in mine) / length)
        assert metrics[f"completions/{agent}/clipped_ratio"] == np.mean([not r.ended for r in mine])
        total, tokens, base = 0.0, 0, module.team.base_of[agent]
        for node in nodes[:2]:
            response = node.responses[agent][0]
            row = Row(agent, node.prompts[agent], response.tokens)
            plain.score(base, [row], module.sampling, frozen=True)
            ratio = row.scored - torch.tensor(response.logps)
            total, tokens = total + float((ratio.exp() - 1 - ratio).sum()), tokens + len(ratio)
        assert_close(metrics[f"kl/{agent}"], total / tokens)
        assert metrics[f"kl/{agent}"] > 0.01


def test_every_sample_has_its_own_random_numbers():
    """Same item, same prompt: another problem of the batch, turn or step samples anew."""

    class Same(Echo):
        def items(self, split):
            return [{"task_id": "same", "word": "A"}] * 4

        def observe(self, agent, item, history):
            return "the same prompt"

    args, task = flags("--turns", "2", "--max-new-tokens", "16"), Same()
    scorer = Scorer(rewarding(long_answers))
    module = module_of(small_team(), task, scorer, task.items("train"), args)
    steps = []
    for step in range(2):
        type(module).global_step = step
        steps.append(module.play(2))
    del type(module).global_step
    nodes = [node for turns in steps for here in turns for node in here]
    assert len({node.key for node in nodes}) == len(nodes)
    seen = {tuple(r.tokens for r in node.responses[0]).__repr__() for node in nodes}
    assert len(seen) == len(nodes)


def test_the_learning_rate_follows_its_schedule():
    module = train(long_answers, "--lr", "0.01", "--warmup-steps", "1", steps=3)
    assert measure(module)["lr"] == pytest.approx(0.01 * (1 - 0.9 * 1 / 2))
    assert module.optimizers().param_groups[1]["lr"] == measure(module)["lr"]


def test_a_gradient_that_is_not_finite_changes_nothing(monkeypatch):
    team = small_team()
    before = snapshot(team)
    real = magrpo.policy_loss
    monkeypatch.setattr(magrpo, "policy_loss", lambda *args: real(*args) * float("nan"))
    with pytest.raises(FloatingPointError, match="at step 0"):
        train(long_answers, team=team)
    assert moved(team, before) == set()


@pytest.mark.parametrize("argv", [(), ("--kl-coef", "0.1"), ("--lora-rank", "0")])
def test_the_difference_between_decode_and_update_is_logged(argv, monkeypatch):
    """Rounding, where they are the same policy; the move, where it moved in between."""
    team = small_team(rank=0 if "--lora-rank" in argv else 4)
    exact = measure(train(long_answers, *argv, team=team))
    assert 0 < exact["logp_difference/mean"] < exact["logp_difference/max"] < rounding()
    real = MAGRPO.update

    def update(module, rows):
        for base in module.team.bases:
            base.head.weight.data *= 1.1
        return real(module, rows)

    monkeypatch.setattr(MAGRPO, "update", update)
    team = small_team(rank=team.bases[0].lora * 4)
    module = train(long_answers, *argv, team=team)
    found = measure(module)
    gaps = [
        abs(a - float(b))
        for row in module.learned
        for a, b in zip(row.logps, row.scored, strict=True)
    ]
    assert len(gaps) > 20
    assert sum(gaps) / len(gaps) > 1e-3
    assert found["logp_difference/mean"] == pytest.approx(sum(gaps) / len(gaps), rel=1e-4)
    assert found["logp_difference/max"] == pytest.approx(max(gaps), rel=1e-4)


def test_kl_to_the_base_pulls_back():
    """With no reward to follow, the KL term alone brings the adapters back towards the base."""
    argv = ("--kl-coef", "1", "--lr", "0.02", "--num-generations", "8", "--lr-schedule", "constant")
    team = small_team()
    module = train(lambda item, texts: 0.0, *argv, team=team)
    first = sum(measure(module)[f"kl/{agent}"] for agent in range(2))
    module = train(lambda item, texts: 0.0, *argv, team=team, steps=30)
    assert sum(measure(module)[f"kl/{agent}"] for agent in range(2)) < 0.5 * first


def test_the_kl_term_does_not_depend_on_micro_batches(monkeypatch):
    """The frozen base's log-probabilities come in other micro-batches than the team's."""
    norms = []
    for few in (False, True):
        if few:
            monkeypatch.setattr(scoring, "update_tokens", lambda base: 20)
        module = train(long_answers, "--kl-coef", "1", "--num-generations", "8")
        norms.append(module.norms)
    assert norms[0] == pytest.approx(norms[1], rel=rounding())


def test_a_team_learns_to_match():
    """Reward only where both agents write the same letter: no agent can earn it alone."""

    def match(item, texts):
        both = zip(texts[0], texts[1], strict=False)
        return sum(a == b for a, b in both) / 8

    argv = ("--lr", "0.05", "--lr-schedule", "constant", "--batch-size", "4")
    argv += ("--num-generations", "16")
    start = measure(train(match, *argv, steps=1))["return"]
    assert measure(train(match, *argv, steps=60))["return"] > 2 * start
