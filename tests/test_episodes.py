"""Episodes that are generators: what is shown, scored and remembered, and workflows around a task.
What a play may not do is in test_plugins.py. python -m pytest tests/test_episodes.py
"""

import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from types import SimpleNamespace

import pytest
from test_magrpo import Echo, long_answers, make, step

import tasks
import train
from policies.codec import as_text
from tasks import Discussion, InTurn, Task
from training.episodes import follow
from training.held_out import evaluate
from training.metrics import measure
from training.plugins import make_task
from training.report import describe
from training.run_folder import make_record

WORD = {"word": "A"}
AGENTS = (0, 1)


class Chat(Echo):
    """Two agents, then agent 1 alone, whatever they answer. Their prompts are chats."""

    per_episode = True

    def play(self, item):
        contents = ["0?", [{"type": "text", "text": "1?"}]]
        texts = yield {a: [{"role": "user", "content": contents[a]}] for a in AGENTS}
        yield texts
        texts = yield {1: [{"role": "system", "content": "s"}, {"role": "user", "content": "!"}]}
        return texts


def inside(workflow, task, turns=1):
    """Return the task inside a workflow, as `make_task` makes it."""
    wrapped = type("Wrapped", (workflow, task), {})()
    wrapped.turns = turns * wrapped.asks
    return wrapped


class Alone:
    """No workflow: an agent reads its own texts and the feedback."""


AB = ["a", "b"]
A, B = "Agent 0 wrote:\na", "Agent 1 wrote:\nb"


@pytest.mark.parametrize(
    "workflow, task, answers, prompts",  # the answers of each turn, and who is asked then
    [
        (Alone, Echo, [AB, ["c", "d"]], {0: "A:0:a!0c!0", 1: "A:1:b!1d!1"}),
        (InTurn, Echo, [["a", ""]], {1: f"{A}\n\nA:1:"}),
        (InTurn, Echo, [["a", ""], ["", "b"]], {0: "A:0:a!0"}),
        (Discussion, Echo, [AB], {0: f"A:0:a{B}", 1: f"A:1:b{A}"}),
        (Discussion, Echo, [AB, AB], {0: f"A:0:a{B}a!0", 1: f"A:1:b{A}b!1"}),
        (InTurn, Chat, [["a", ""]], {1: f"[user] {A}\n\n1?"}),
        (Discussion, Chat, [AB], {a: f"[user] {A}\n\n{B}\n\n{a}?" for a in AGENTS}),
    ],
)
def test_a_workflow_goes_around_any_task(workflow, task, answers, prompts):
    wrapped = inside(workflow, task, turns=2)
    history = []
    for texts in answers:
        history.append((follow(wrapped, WORD, history).asked, texts))
    step = follow(wrapped, WORD, history)
    assert {agent: as_text(prompt) for agent, prompt in step.asked.items()} == prompts
    is_whole = task is Echo and len(answers) % wrapped.asks == 0
    assert step.scored == ((WORD, AB if workflow is InTurn else answers[-1]) if is_whole else None)
    assert wrapped.scored(2 * wrapped.asks) == (1 if task is Chat else 2)


@pytest.mark.parametrize("workflow", [InTurn, Discussion])
@pytest.mark.parametrize("branching", ["tree", "chain"])
def test_a_workflow_is_trained_over_several_turns(workflow, branching):
    task = inside(workflow, Echo, turns=2)
    module = step(make(long_answers, f"--turns {task.turns} --branching {branching}", task=task))
    assert [any(map(any, (node.parts for node in nodes))) for nodes in module.turns] == [0, 1] * 2
    held_out, _ = evaluate(module, module.problems[:1])
    assert 0 < held_out["return"] < 1


@pytest.mark.parametrize("workflow, turns", [(None, 2), (InTurn, 2), (Discussion, 4)])
def test_a_task_in_turn_has_one_scored_turn_in_every_baseline(workflow, turns, tmp_path):
    (tmp_path / "mine.py").write_text("import tasks\nclass Mine(tasks.InTurn, tasks.Coop): pass\n")
    args = train.parse(["--task", f"{tmp_path}/mine.py:Mine"])
    task = make_task(args, workflow)
    item = task.items("test")[0]
    step = follow(task, item, [])
    while step.asked and not step.scored:
        step = follow(task, item, [*step.history, (step.asked, AB)])
    assert (len(step.history), task.scored(task.turns), task.turns) == (turns, 1, turns)
    episode = SimpleNamespace(turns=turns, gamma=1.0)
    rollout = SimpleNamespace(task=task, reward=SimpleNamespace(maximum=4.0), episode=episode)
    team = SimpleNamespace(bases=[])
    record = make_record({}, args, {}, SimpleNamespace(rollout=rollout, team=team))
    assert record["largest_return"] == 4.0


class Varying(Echo):
    """Agent 0 says by its length who answers next, and whether another answer follows."""

    per_episode = True

    def play(self, item):
        first, _ = yield {0: f"{item['word']}:"}
        more = 1 + len(first) % 2
        for number in range(more):
            texts = yield {len(first) % 2: f"{number}?"}
        return texts


@pytest.mark.parametrize("branching", ["tree", "chain"])
def test_a_router_decides_who_answers_and_how_often(branching):
    """gamma does not count the turns without a score, here nor in the held-out evaluation."""
    argv = f"--turns 3 --gamma 0.5 --branching {branching}"
    module = step(make(lambda item, texts: 1.0, argv, task=Varying(), maximum=1.0))
    roots, seconds, thirds = module.turns
    speakers = set()
    for node in seconds:
        first = node.history[0][1][0]
        speakers.update(node.asked)
        assert node.asked.keys() == {len(first) % 2}
        assert any(node.parts) == (len(first) % 2 == 0)
        assert any(node.children) == len(first) % 2
    assert speakers == {0, 1}
    assert {node.value for node in (*roots, *seconds, *thirds)} == {1.0}
    assert evaluate(module, module.problems)[0]["return"] == 1
    assert measure(module)["too_long"] == 0
    assert {len(row.tokens) > 0 for row in module.rows()} == {True}


class Short(Task):
    """Pays by itself."""

    maximum = 9.0

    def items(self, split):
        return [WORD]

    def play(self, item):
        texts = yield {0: "a", 1: "b"}
        yield {"part": float(len(texts[0])), "agent/1": 0.5}


def test_a_play_may_pay_by_itself(capsys):
    task = Short()
    module = make(long_answers, task=task)
    with pytest.raises(ValueError, match="pays by itself: its class has a maximum"):
        step(module)
    module.rollout.reward.reward = task
    metrics = measure(step(module))
    assert metrics["agent/1/reward"] == 0.5
    assert metrics["return"] == pytest.approx((metrics["reward/part"] + 0.25) / 1e4)
    assert "agents may see partners' texts" in describe(module)


def test_what_is_dear_is_called_once_and_the_latest_answers_are_kept(monkeypatch):
    monkeypatch.setattr(tasks, "REMEMBERED", 2)
    calls = []

    def dear(item, texts):
        calls.extend(texts)
        time.sleep(0.01)
        return len(calls)

    task = Echo()
    with ThreadPoolExecutor(8) as pool:
        answers = pool.map(lambda _: task.once(dear, dict(WORD), ["a"]), range(8))
    assert {*answers} == {1}
    assert [task.once(dear, WORD, [text]) for text in "abca"] == [1, 2, 3, 4]
    assert calls == [*"abca"]


def test_functions_of_one_name_are_two_functions():
    """A lambda that is made anew each time may know something else."""
    task = Echo()
    answers = [task.once(lambda text, word=word: (word, text), "a") for word in "xy"]
    answers += [task.once(partial(max, number), 4) for number in (3, 5)]
    assert answers == [("x", "a"), ("y", "a"), 4, 5]


@pytest.mark.parametrize(
    "prompt", [5, [{}, 1], [{"content": ["a"]}], [{"content": [{"type": "image"}]}]]
)
def test_a_prompt_is_a_text_or_a_chat(prompt):
    module = make(long_answers)
    with pytest.raises(ValueError, match="a text or a list of chat messages whose content is text"):
        module.rollout.encode(0, WORD, prompt)
