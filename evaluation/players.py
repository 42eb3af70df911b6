"""The players of an evaluation: a run's agents, trained or untrained, and the paper's baselines.

A method is a rollout, that of training or one of the classes below, which differ in who sees what.
Prompts, sampling and rewards are those of training, because the same objects make them here.
`flags` are those of train.py, resolved (train.Args).
"""

import dataclasses
import itertools
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas
import torch

from magrpo import EVAL, Episode, Node, Play, Rollout, arrangement, generator
from policies.codec import Prompt, as_text
from policies.decoding import SILENCE
from policies.loading import device, load_agent
from policies.model_names import TeamOptions
from policies.sampling import Sampling
from policies.team import Team
from rewards import largest_return, total
from training import run_folder
from training.acceleration import accelerate
from training.flags import part_of
from training.held_out import episode, play, played, progress
from training.metrics import sampled_tokens
from training.plugins import TaskOptions, find_reward, make_task
from training.reward_runner import Scorer

TIMED = 5  # problems whose decoding is timed, one at a time


# --- the paper's baselines ------------------------------------------------------------------------


def shown(node: Node, sample: int, authors: Iterable[int]) -> str:
    """Return how a baseline shows an agent what others wrote in a joint response, if they spoke."""
    texts = []
    for author in authors:
        if node.prompts[author]:
            texts.append(f"Agent {author} wrote:\n{node.responses[author][sample].text.rstrip()}")
    return "\n\n".join(texts)


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
        for node in nodes:
            if not node.prompts:  # it is of the first turn
                self.observe(node)
            node.responses = [[SILENCE] * node.samples] * self.team.size
        for agent in range(self.team.size):
            speaking = [node for node in nodes if node.prompts[agent]]
            asked = []
            begun = []
            uniforms = []
            for node in speaking:
                shape = (self.team.size, node.samples, sampling.max_new_tokens)
                uniforms.append(generator(*node.key).random(shape)[agent])
                for sample in range(node.samples):
                    prompt = below(shown(node, sample, range(agent)), node.observations[agent])
                    asked.append((agent, self.encode(agent, node.item, prompt)))
                    begun.append(self.task.begin(agent, node.item))
            if asked:
                numbers = torch.from_numpy(np.concatenate(uniforms))[:, None]
                answers = iter(self.team.sample(asked, numbers, sampling, begun))
                for node in speaking:
                    node.responses[agent] = [next(answers)[0] for _ in range(node.samples)]


class Discussion(Rollout):
    """At each turn each agent answers, sees the others' answers as feedback, and answers again.

    So a turn has two rounds, and the second answer counts. An agent's history has both.
    """

    def __init__(self, team, task, reward, episode):
        super().__init__(team, task, reward, dataclasses.replace(episode, turns=2 * episode.turns))

    def turn(self, node):
        return super().turn(node) // 2

    def score_joints(self, nodes, joints):
        if len(nodes[0].histories[0]) % 2:  # the second round
            super().score_joints(nodes, joints)
            return
        for node in nodes:
            node.joints = arrangement(self.team.size, node.samples, 1)
            node.rewards = torch.zeros(self.team.size, node.samples, dtype=torch.float64)

    def move_on(self, nodes):
        if len(nodes[0].histories[0]) % 2:  # the second round
            super().move_on(nodes)
            return
        for node in nodes:  # the feedback of each agent is what the others wrote
            node.next_items = [node.item] * node.samples
            for sample, agent in itertools.product(range(node.samples), range(self.team.size)):
                partners = [other for other in range(self.team.size) if other != agent]
                node.feedback.setdefault(sample, []).append(shown(node, sample, partners))


# --- methods --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Method:
    """Who plays: the agents that are trained, or one model alone, in the place of the team."""

    rollout: type[Rollout] = Rollout
    trained: Iterable[int] = ()
    alone: bool = False


def methods(flags, is_trained: bool) -> dict[str, Method]:
    """Return the methods that apply, by name. The one of another model comes last."""
    agents = range(flags.num_agents)
    table = {}
    if is_trained:
        table["trained"] = Method(trained=agents)
    table["naive"] = Method()
    if len(agents) > 1:
        table["sequential"] = Method(Sequential)
        table["discussion"] = Method(Discussion)
        if is_trained and not flags.share:
            for agent in agents:
                table[f"only-{agent}"] = Method(trained=[agent])
        table["single"] = Method(alone=True)
    return table


def alone(flags, model: str | None):
    """Return the flags of one model that does the whole team's task, with the team's tokens."""
    model = model or flags.model[-1]
    return dataclasses.replace(
        flags,
        num_agents=1,
        model=[model],
        engine=flags.engine if {model} == {*flags.model} else None,
        lora_rank=0,
        max_new_tokens=flags.num_agents * flags.max_new_tokens,
    )


class Player:
    """A team with its task, whose agents play trained or untrained."""

    def __init__(self, flags, directory: Path | None = None, scorer: Scorer | None = None):
        """Load the agents. `directory` is the run whose trained agents play."""
        self.flags = flags
        self.task = make_task(part_of(flags, TaskOptions))
        self.sampling = part_of(flags, Sampling)
        self.team = team = Team(part_of(flags, TeamOptions))
        self.weights = {False: self.copies()}  # by trained or not
        if directory:
            run_folder.check_bases(directory, flags.model)
            run_folder.warn_of_other_code(directory)
            load_agents(team, directory)
        self.weights[True] = self.copies()
        self.scorer = scorer or Scorer(find_reward(self.task), team.bases[0], flags.chat_template)
        self.largest = largest_return(self.scorer, flags.turns, flags.gamma)
        accelerate(team.bases)
        team.to(device())
        if flags.engine:
            from policies.engine import connect

            connect(team, flags.engine)

    def copies(self) -> list[list]:
        """Return a copy of each agent's trained weights."""
        copies = []
        for agent in range(self.team.size):
            weights = self.team.parameters_of(agent)
            copies.append([weight.detach().to("cpu", copy=True) for weight in weights])
        return copies

    def rollout(self, method: Method) -> Rollout:
        """Return the rollout in which the method's agents play the run's task."""
        agents = range(self.team.size)
        for agent in agents:
            values = self.weights[agent in method.trained][agent]
            for weight, value in zip(self.team.parameters_of(agent), values, strict=True):
                weight.data.copy_(value)
        options = part_of(self.flags, Episode)
        if method.rollout is not Rollout:  # its prompts hold partners' texts
            texts = 2 * len(agents) * options.turns * options.max_new_tokens
            limit = options.max_prompt_tokens + texts
            options = dataclasses.replace(options, max_prompt_tokens=limit)
        return method.rollout(self.team, self.task, self.scorer, options)

    def play(
        self, name: str, rollout: Rollout, items: list[dict], seed: int, samples: int
    ) -> list[dict]:
        """Return a record per problem and joint response. samples 0: one greedy response."""
        turns = play(rollout, items, seed, samples, self.sampling, name)
        records = []
        for number, root in enumerate(turns[0]):
            for sample in range(root.samples):
                head = {"method": name, "greedy": not samples, "item": number, "sample": sample}
                head["task_id"] = root.item.get("task_id")
                records.append(head | self.record(rollout, root, sample))
        return records

    def record(self, rollout: Rollout, root: Node, sample: int) -> dict:
        """Return a joint response's turns, its return, and the scheme of its last turn.

        The scheme is None where the task names none. A turn without parts was not scored.
        """
        turns = []
        earned = 0.0
        for node, number in episode(root, sample):
            texts, parts = played(node, number)
            earned += self.flags.gamma ** rollout.turn(node) * total(parts, len(texts))
            turn = {
                "prompts": list(map(as_text, node.observations)),
                "responses": texts,
                "tokens": [len(responses[number].tokens) for responses in node.responses],
                "parts": parts,
                "feedback": node.feedback.get(number, []),
            }
            turns.append(turn)
        scheme = self.task.scheme(node.item, texts)
        return {"return": earned / self.largest, "turns": turns, "scheme": scheme}

    def speed(self, name: str, rollout: Rollout, items: list[dict], seed: int) -> dict:
        """Return the latency as a user of one problem at a time meets it, and tokens a second."""
        line = Play(1, joints=1, chain=True)
        warm_up = dataclasses.replace(self.sampling, max_new_tokens=1)
        rollout(items[:1], (seed, EVAL, 0, 0), warm_up, line)
        seconds = []
        tokens = 0
        with progress(f"{name}, latency", len(items[:TIMED])) as bar:
            for number, item in enumerate(items[:TIMED]):
                rollout.seconds.clear()
                turns = rollout([item], (seed, EVAL, 0, number), self.sampling, line)
                seconds.append(rollout.seconds["rollout"])
                tokens += sampled_tokens(itertools.chain(*turns))
                bar.update()
        latency = pandas.Series(seconds)
        row = {"latency_s": latency.mean(), "latency_s_se": latency.sem()}
        row["tokens_per_s"] = tokens / latency.sum()
        return pandas.Series(row).dropna().to_dict()  # one problem has no standard error


def load_agents(team: Team, directory: Path) -> None:
    """Load the agents that a run saved last, and let them see its date."""
    record = run_folder.read_args(directory)
    if not run_folder.read_summary(directory):
        print(f"{directory} is not finished: its last saved agents play", file=sys.stderr)
    for agent in team.policies():
        load_agent(team.base_of[agent], agent, directory / "agents" / str(agent))
    team.set_date(record["date"])


def unscored(item: dict, responses: list[str]) -> dict:
    """Score nothing, where an answer alone is wanted."""
    return {}


unscored.maximum = 1.0  # type: ignore[attr-defined]
