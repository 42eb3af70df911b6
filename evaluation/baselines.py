"""The methods that eval.py compares, and the records of their joint responses.

A method is a rollout: that of training, or one of the classes below, which differ in who sees what.
"""

import copy
import dataclasses
import itertools
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from evaluation.score_file import scorer_of
from magrpo import EVAL, Episode, Node, Play, Rollout, generator
from policies.codec import Prompt
from policies.decoding import Response
from policies.sampling import Sampling
from rewards import total
from training.flags import meant, part_of
from training.held_out import episode, play, played, progress
from training.metrics import normalised, sampled_tokens
from training.plugins import TaskOptions, make_task

TIMED = 5  # problems whose decoding is timed, one at a time


def shown(node: Node, sample: int, authors: list[int]) -> str:
    """Return how a baseline shows an agent what these others wrote in a joint response."""
    parts = []
    for author in authors:
        text = node.responses[author][sample].text
        parts.append(f"Agent {author} wrote:\n{text.rstrip()}")
    return "\n\n".join(parts)


def below(text: str, prompt: Prompt) -> Prompt:
    """Return a prompt with a text, if any, above it or above the last message of a chat."""
    if not text:
        return prompt
    if isinstance(prompt, str):
        return f"{text}\n\n{prompt}"
    *before, last = prompt
    return [*before, last | {"content": f"{text}\n\n{last['content']}"}]


class Sequential(Rollout):
    """Each agent that speaks at a turn sees the responses of the agents before it.

    They stand above its own prompt.
    """

    def act(self, nodes, sampling):
        size = self.team.size
        for node in nodes:
            silence = [Response([], "", [], 0.0, True)] * node.samples
            node.responses = [silence] * size
        for agent in range(size):
            speaking = []
            asked = []
            uniforms = []
            for node in nodes:
                speakers = self.speakers(node.item, self.turn(node))
                if agent not in speakers:
                    continue
                speaking.append(node)
                shape = (size, node.samples, sampling.max_new_tokens)
                uniforms.append(generator(*node.key).random(shape)[agent])
                prompt = self.task.observe(agent, node.item, node.histories[agent])
                before = speakers[: speakers.index(agent)]
                for sample in range(node.samples):
                    ids = self.encode(agent, node.item, below(shown(node, sample, before), prompt))
                    asked.append((agent, node.item, ids))
            if not asked:
                continue
            uniforms = torch.from_numpy(np.concatenate(uniforms))[:, None]
            answers = iter(self.answers(asked, uniforms, sampling))
            for node in speaking:
                node.responses[agent] = [next(answers)[0] for _ in range(node.samples)]


class Discussion(Rollout):
    """At each turn each agent answers, sees the others' answers as feedback, and answers again.

    The second answer counts. An agent's history has both.
    """

    def turn(self, node):
        return super().turn(node) // 2

    def __call__(self, items, key, samples, sampling, *_):
        turns = []
        nodes = self.roots(items, key, samples)
        while nodes:
            with self.timed("rollout"):
                self.act(nodes, sampling)
            turns.append(nodes)
            second = []
            for node in nodes:
                self.share(node)
                second += self.next_turn(node, 1)
            if not second:  # no prompt fits
                break
            with self.timed("rollout"):
                self.act(second, sampling)
            self.score_joints(second, 1)
            turns.append(second)
            nodes = []
            if len(turns) < 2 * self.episode.turns:
                self.move_on(second)
                for node in second:
                    nodes += self.next_turn(node, 1)
        return turns

    def share(self, node):
        """Let the feedback of each agent be what the others wrote."""
        speakers = self.speakers(node.item, self.turn(node))
        node.next_items = [node.item] * node.samples
        for sample in range(node.samples):
            texts = []
            for agent in range(self.team.size):
                partners = [speaker for speaker in speakers if speaker != agent]
                texts.append(shown(node, sample, partners))
            node.feedback[sample] = texts


class Reference(Rollout):
    """The items' own solutions at every turn, as one response of a single agent. No model plays."""

    def speakers(self, item, turn):
        return [0]

    def observe(self, node):
        """Ask nobody."""

    def act(self, nodes, sampling):
        for node in nodes:
            node.responses = [[Response([], node.item["solution"], [], 0.0, True)]]


def reference(flags, task, reward) -> Reference:
    """Return the rollout of method reference, without a team."""
    nobody: Any = SimpleNamespace(size=1, base_of={})
    task = copy.copy(task)
    task.feedback = lambda item, responses: [""]  # nobody reads it
    return Reference(nobody, task, scorer_of(flags, reward), part_of(flags, Episode))


@dataclass(frozen=True)
class Method:
    """The players of a method, their rollout, and which of them are trained."""

    seat: str | None  # "team", "solo" (a single agent's run), "single" (a model as it is), nobody
    rollout: type[Rollout] = Rollout
    trained: frozenset[int] = frozenset()


def plan(seats: dict[str, tuple], items: list[dict]) -> dict[str, Method]:
    """Return the methods that apply, by name. seats: the flags and the run of each seat in use.

    Without the seat "single", the agent of a single agent's run plays it untrained.
    """
    flags, team = seats["team"]
    agents = range(flags.num_agents)
    methods = {}
    if len(agents) > 1:
        if team:
            methods["trained"] = Method("team", trained=frozenset(agents))
        methods["naive"] = Method("team")
        methods["sequential"] = Method("team", Sequential)
        methods["discussion"] = Method("team", Discussion)
    if "single" not in seats:
        methods["single"] = Method("solo")
    elif plays_alone(seats["single"][0], items[0]):
        methods["single"] = Method("single")
    if "solo" in seats:
        methods["single-trained"] = Method("solo", trained=frozenset([0]))
    if len(agents) > 1 and team and not flags.share:
        for agent in agents:
            methods[f"only-{agent}"] = Method("team", trained=frozenset([agent]))
    if all(isinstance(item.get("solution"), str) for item in items):
        methods["reference"] = Method(None, Reference)
    return methods


def choose(methods: dict[str, Method], names: list[str] | None) -> dict[str, Method]:
    """Return the methods of --method, in its order; ValueError where one does not apply."""
    if names is None:
        return methods
    for name in names:
        if name not in methods:
            raise ValueError(
                f"--method {name}{meant(name, methods)}: what applies here is "
                f"{', '.join(methods)} (trained and only-<i> need a team's --run, "
                "single-trained that of one agent)"
            )
    return {name: methods[name] for name in names}


def plays_alone(flags, item: dict) -> bool:
    """Return whether one agent can play the team's items.

    Its task has to take one agent, to let agent 0 speak at every turn, and to go on from the
    response of one agent. No model plays: the responses are blank.
    """
    try:
        task = make_task(part_of(flags, TaskOptions))
        for turn in range(flags.turns):
            speakers = task.speakers(item, turn)
            if speakers and set(speakers) != {0}:
                return False
            item = task.advance(item, [""])
            if item is None:
                break
    except Exception:  # of a user's task: that of a team may read more responses than one
        return False
    return True


def play_method(
    name: str,
    rollout: Rollout,
    items: list[dict],
    sampling: Sampling,
    seed: int,
    samples: int,
) -> list[dict]:
    """Return a record per problem and joint response. samples 0: one greedy response."""
    records = []
    greedy = samples == 0
    if greedy:
        samples = 1
        sampling = sampling.greedy()
    with progress(f"{name}, {'greedy' if greedy else 'sampled'}", len(items)) as bar:
        turns = play(rollout, items, seed, samples, sampling, bar)
    for number, root in enumerate(turns[0]):
        for sample in range(samples):
            head = {
                "method": name,
                "greedy": greedy,
                "item": number,
                "sample": sample,
            }
            records.append(head | record(rollout, root, sample))
    return records


def record(rollout: Rollout, root: Node, sample: int) -> dict:
    """Return a joint response's turns, its return, and the scheme of its last turn.

    The scheme is left out where the task names none. A turn without parts was not scored.
    """
    turns = []
    earned = 0.0
    for node, number in episode(root, sample):
        texts, parts = played(node, number)
        tokens = [len(responses[number].tokens) for responses in node.responses]
        if parts:
            discount = rollout.episode.gamma ** rollout.turn(node)
            earned += discount * total(parts, len(texts))
        turn = {"responses": texts, "tokens": tokens, "parts": parts}
        if feedback := node.feedback.get(number):
            turn["feedback"] = feedback
        turns.append(turn)
    line = {"return": normalised(earned, rollout), "turns": turns}
    if scheme := rollout.task.scheme(node.item, texts):
        line["scheme"] = scheme
    return line


def latencies(
    name: str,
    rollout: Rollout,
    items: list[dict],
    sampling: Sampling,
    seed: int,
) -> dict[str, list[float]]:
    """Return the seconds and the tokens of TIMED problems, one joint response each, one by one."""
    seconds: list[float] = []
    tokens: list[float] = []
    items = items[:TIMED]
    with progress(f"{name}, latency", len(items)) as bar:
        warm_up = dataclasses.replace(sampling, max_new_tokens=1)
        key = (seed, EVAL, 0, 0)
        line = Play(1, joints=1, chain=True)
        rollout(items[:1], key, warm_up, line)
        for number, item in enumerate(items):
            rollout.seconds.clear()
            key = (seed, EVAL, 0, number)
            turns = rollout([item], key, sampling, line)
            seconds.append(rollout.seconds["rollout"])
            tokens.append(sampled_tokens(itertools.chain(*turns)))
            bar.update()
    return {"seconds": seconds, "tokens": tokens}
