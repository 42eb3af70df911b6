"""Worlds that move on, pay of one's own, who learns, and from where:
python -m pytest tests/test_learners.py
"""

import itertools
import shutil
import statistics

import pytest
from helpers import args_of, assert_close, edit_args, read_json, run_eval, watch
from test_magrpo import Echo, long_answers, make, moved, rewarding, small_team, snapshot, step
from test_train import MOVING, adapters, agents, run

from policies.team import Team
from tasks import longer, observations
from training.held_out import episode, evaluate, sample_record
from training.metrics import measure
from training.reward_runner import Scorer

# --- the world may change between turns -----------------------------------------------------------


class Diary(Echo):
    """The world keeps what agent 1 wrote; nobody but agent 0 is shown it."""

    def __init__(self):
        self.asked = []

    def observe(self, agent, item, history):
        seen = item.get("said", "") if agent == 0 else ""
        return super().observe(agent, item, history) + seen

    def feedback(self, item, responses):
        self.asked.append(item.get("day", 0))
        return ["!", "!"]

    def play(self, item):
        histories = [[], []]
        while True:
            texts = yield observations(self, item, histories)
            yield item, texts
            if self.is_over(item, texts):
                return
            histories = longer(histories, texts, self.once(self.feedback, item, texts))
            item = item | {"day": item.get("day", 0) + 1, "said": texts[1]}

    def is_over(self, item, texts):
        return False


class Ending(Diary):
    """Its episodes end when agent 1's response has an even length."""

    def is_over(self, item, texts):
        return len(texts[1]) % 2 == 0


@pytest.mark.parametrize("branching", ["tree", "chain"])
def test_a_turn_is_opened_where_the_episode_goes_on_in_the_world_that_the_agents_made(branching):
    task = Ending()
    module = step(make(lambda item, texts: 1.0, "--turns 3 --branching", branching, task=task))
    opened = [len(module.turns[0])]
    told_of = set()
    for nodes in module.turns:
        going_on = 0
        for node in nodes:
            for sample, child in enumerate(node.children):
                texts = node.aligned(sample)
                assert bool(child) == len(texts[1]) % 2
                if child:
                    going_on += 1
                    told_of.add(repr(node.steps[texts].scored))
                    assert node.steps[texts].scored[0].get("day", 0) == len(opened) - 1
                    assert child.history == [*node.history, (node.asked, list(texts))]
                    history = "".join(f"{own}!" for _, (own, _) in child.history)
                    assert child.asked[0] == f"{node.item['word']}:0:{history}{texts[1]}"
                    assert sample_record(child, 0, 1.0)["prompts"][0] == child.asked[0]
                assert float(node.returns[0, sample]) == 1 + (child.value if child else 0)
        opened.append(going_on)
    assert [len(nodes) for nodes in module.turns] == opened[: len(module.turns)]
    assert 0 < opened[1] < 4 * opened[0]
    assert len(task.asked) == len(told_of)  # once, and not where nobody reads it
    samples = 1 if branching == "chain" else 4
    later = opened[1] + sum(opened[2:3]) / samples
    metrics = measure(module)
    assert metrics["mean_turns"] == pytest.approx(1 + later / (4 * opened[0]))
    nodes = itertools.chain(*module.turns)
    answers = [response for node in nodes for own in node.responses for response in own]
    assert metrics["responses"] == len(answers)
    assert max(row.weight for row in module.rows()) == 1 / (4 * opened[0])


def test_an_episode_ends_where_the_next_prompt_does_not_fit(capsys):
    """That of either agent. The other episodes are played as they would be without the limit."""
    argv = "--turns 2 --batch-size 4"
    free = step(make(long_answers, argv))
    module = step(make(long_answers, argv, "--max-prompt-tokens 12"))
    ended = 0
    for node, free_node in zip(module.turns[0], free.turns[0], strict=True):
        for sample, free_child in enumerate(free_node.children):
            child = node.children[sample]
            if max(map(len, free_child.prompts)) > 12:
                assert child is None
                assert node.returns[0, sample] < free_node.returns[0, sample]
                ended += 1
            else:
                assert child.aligned(3) == free_child.aligned(3)
    assert 0 < ended < 4 * len(module.turns[0])
    assert measure(module)["too_long"] == ended
    assert measure(free)["too_long"] == 0
    assert capsys.readouterr().err.count("warning: an episode ends after turn 0: a prompt") == 1


@pytest.mark.parametrize("due", [0, 1])
@pytest.mark.parametrize("per_episode, largest", [(False, 1.75), (True, 1.0)])
def test_the_unit_of_returns_does_not_depend_on_the_batch(due, per_episode, largest):
    """It is paid when it is solved: at this turn, by everybody, and then the episode is over."""

    class Solved(Diary):
        def is_over(self, item, texts):
            return item.get("day", 0) == due

    def reward(item, texts):
        return float(item.get("day", 0) == due)

    Solved.per_episode = per_episode
    module = step(make(reward, "--turns 3 --gamma 0.5", task=Solved(), maximum=1.0))
    assert len(module.turns) == due + 1
    assert measure(module)["return"] == pytest.approx(0.5**due / largest)
    assert evaluate(module, module.problems[:2])[0]["return"] == pytest.approx(0.5**due / largest)


def test_held_out_problems_are_the_same_in_parts(monkeypatch, capsys):
    """The last part, of one problem, may have fewer turns. A terminal sees how far it is."""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    module = make(lambda item, texts: len(texts[0]) / 99, "--turns 3", task=Ending(), maximum=9.0)
    measures = []
    for first in (8, 1):
        monkeypatch.setattr("training.held_out.FIRST", first)
        measures.append(evaluate(module, module.problems[:3])[0])
    assert measures[0] == measures[1]
    shown = capsys.readouterr().err
    assert "held out, sampled:   0%" in shown  # at once: a part may take minutes
    assert "held out, greedy: 100%" in shown


# --- pay of one's own -----------------------------------------------------------------------------


def test_what_is_logged_is_the_team_s_sum_and_the_mean_of_the_agents_own():
    def reward(item, texts):
        own = {"agent/0": 0.5, "agent/1": float(len(texts[1]) > 3)}
        return {"rouge/l": 0.25, "metric/b": 7.0, **own}

    module = step(make(reward, maximum=1.0))
    metrics = measure(module)
    own = metrics["agent/1/reward"]
    assert 0 < own < 1
    assert metrics["agent/0/reward"] == 0.5
    assert metrics["reward/rouge/l"] == 0.25
    assert metrics["metric/b"] == 7
    assert metrics["return"] == metrics["turn_0/reward"] == pytest.approx(0.5 + own / 2)
    held_out, _ = evaluate(module, module.problems[:2])
    assert held_out["return"] == pytest.approx(0.5 + held_out["agent/1/reward"] / 2)


class Monologue(Diary):
    def play(self, item):
        texts = yield {0: self.observe(0, item, [])}
        return texts


def longest(item, texts):
    return float(len(texts[0]))


def steady(item, texts):
    return {"agent/0": 1.0, "agent/1": 0.0}


def opposed(item, texts):
    return {"agent/0": longest(item, texts), "agent/1": -longest(item, texts)}


@pytest.mark.parametrize(
    "reward, argv, task, equal, teaching",
    [
        (steady, "", Diary, 1, 0),  # unequal between the agents alone
        (opposed, "", Diary, 0, 1),  # the mean is always 0
        (longest, "--freeze 0", Diary, 0, 0),  # the one who learns earns the same
        (longest, "--freeze 0", Monologue, 0, 0),  # or says nothing
        (long_answers, "--num-generations 1 --advantage none", Diary, 1, 1),
    ],
)
def test_a_group_teaches_where_a_response_of_one_who_learns_has_an_advantage(
    reward, argv, task, equal, teaching
):
    metrics = measure(step(make(reward, argv, task=task())))
    assert metrics["frac_reward_zero_std"] == equal
    assert metrics["groups_with_gradient"] == teaching


def late(item, texts):
    """Scores the second turn alone."""
    return {"metric/pass": 1.0, "part": 0.5} if item.get("day") else {}


def test_an_episode_that_ends_before_a_turn_is_scored_returns_0():
    module = make(late, "--turns 2 --max-prompt-tokens 5", task=Diary())
    assert measure(step(module))["return"] == 0


def test_where_nothing_is_scored_all_return_0_and_no_reward_is_asked(capsys):
    """A debate may not agree in a batch. It is no reason to end the run."""

    class Never(Echo):
        def play(self, item):
            yield {0: "a", 1: "b"}

    reward = rewarding(pytest.fail)
    reward.batch = True
    module = make(reward, task=Never())
    assert measure(step(module))["return"] == 0
    assert evaluate(module, module.problems)[0]["return"] == 0
    assert "warning: no turn of 1 was scored, so all return 0" in capsys.readouterr().err


def test_an_episode_that_ends_unscored_counts_as_0_in_every_held_out_measure():
    task = Ending()
    task.per_episode = True
    module = make(late, "--turns 2", task=task, maximum=0.5)
    measures, roots = evaluate(module, module.problems)
    assert 0 < measures["return"] < 1
    assert measures["metric/pass"] == pytest.approx(measures["return"])
    assert measures["reward/part"] == pytest.approx(measures["return"] / 2)
    greedy = [len([*episode(root, 0)]) - 1 for root in roots]  # 1 where there is a second turn
    assert 0 < measures["greedy/return"] == statistics.fmean(greedy) < 1
    assert measures["greedy/return_se"] == pytest.approx(statistics.stdev(greedy) / 4**0.5)


def test_an_episode_that_earns_more_than_its_task_says_ends_the_evaluation():
    task = Diary()  # is scored at each turn
    task.per_episode = True
    module = make(lambda item, texts: 1.0, "--turns 2", task=task, maximum=1.0)
    with pytest.raises(ValueError, match="an episode returns 2 of at most 1"):
        evaluate(module, module.problems)


def test_equal_joint_responses_to_a_problem_are_scored_once():
    numbers = itertools.count()
    scorer = Scorer(rewarding(lambda item, texts: next(numbers), 9.0))
    first, second = {"day": 1}, {"day": 1}
    joints = [(first, ["a", "b"]), (first, ["ab", ""]), (second, ["a", "b"]), (first, ["a", "b"])]
    values = [parts["reward"] for parts in scorer(joints)]
    assert values[0] == values[3]
    assert len(set(values)) == 3


# --- partners that do not learn -------------------------------------------------------------------


@pytest.mark.parametrize(
    "bases, argv",
    [(None, "--kl-coef 0.1"), ([[0], [1]], "--turns 2 --branching chain"), (None, "--lora-rank 0")],
)
def test_a_frozen_agent_acts_and_costs_no_update(bases, argv, monkeypatch):
    """Whoever learns takes the step that it would take beside a partner that learns."""
    rank = 0 if "--lora-rank" in argv else 4
    free, team = (small_team(2, rank, bases) for _ in range(2))
    step(make(long_answers, argv, team=free))
    before = snapshot(team)
    calls = watch(monkeypatch, Team, "score")
    module = make(long_answers, "--freeze 1", argv, team=team)
    step(module)
    for got, want in zip(team.parameters_of(0), free.parameters_of(0), strict=True):
        assert_close(got, want)
    assert {row.agent for _, rows, *_ in calls for row in rows} == {0}
    own = {*map(id, team.parameters_of(0))}
    assert moved(team, before) == {name for name, p in team.named_parameters() if id(p) in own}
    assert all(p.grad is None for p in team.parameters_of(1))
    assert module.turns[0][0].responses[1]  # it acts
    assert measure(module)["grad_norm/1"] == 0


# --- from where: --init, on the real command line -------------------------------------------------


def summary(path):
    return read_json(path / "summary.json")


def test_a_run_begins_where_the_one_it_names_ended(trained, tmp_path, monkeypatch):
    """With any other flags, and a new optimizer."""
    monkeypatch.chdir(trained.parent)
    path = run(tmp_path / "next", "--init", trained.name, MOVING, "--freeze 1 --max-steps 1")
    assert summary(path)["before"] == summary(trained)["after"]
    assert agents(path)[1] == agents(trained)[1]  # the frozen one, by no bit
    assert agents(path)[0] != agents(trained)[0]
    assert args_of(path)["init"] == [str(trained / f"agents/{i}") for i in range(2)]
    steps = {n.rpartition(".")[0]: float(v) for n, v in adapters(path).items() if "step" in n}
    assert set(steps.values()) == {1.0}  # Adam's own count, of agent 0 alone
    assert len(steps) == sum("agent0" in name for name in adapters(path))


def test_a_shared_policy_is_one_agent_on_disk(trained, tmp_path):
    """It starts a team that does not share."""
    path = shutil.copytree(trained, tmp_path / "shared")
    edit_args(path, share=True)
    shutil.rmtree(path / "agents/1")
    apart = run(tmp_path / "apart", "--init", path, MOVING, "--freeze 0 --max-steps 1")
    assert agents(apart)[0] == agents(path)[0] != agents(apart)[1]
    run_eval("--run", path, "--limit 1 --greedy --method trained")
