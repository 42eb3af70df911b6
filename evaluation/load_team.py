"""The players of an evaluation: the team of a run, or a single model, trained or untrained.

A run is read from runs/<name>/args.json and agents/<i>/. Prompts, sampling and rewards are those of
training, because the same objects make them here. `flags` are those of train.py, resolved
(train.Args).
"""

import dataclasses
import sys
from collections.abc import Callable, Collection
from pathlib import Path

from policies.model_names import TeamOptions
from training import run_folder
from training.flags import engine_conflict, part_of
from training.plugins import TaskOptions, items_of, make_task
from training.reward_runner import Scorer


def find_runs(names: list[str] | None) -> tuple[list[Path], list[Path]]:
    """Return the directories of the team's runs and of the single agent's."""
    teams: list[Path] = []
    solos: list[Path] = []
    if not names:
        return teams, solos
    for directory in run_folder.run_folders(names):
        flags = run_folder.read_args(directory)["args"]
        checkpoint = directory / run_folder.CHECKPOINT
        if not (run_folder.has_agents(directory, flags) or checkpoint.is_file()):
            raise ValueError(
                f"{directory} is not finished, and has no checkpoint: "
                f"{run_folder.resume_command(directory)}"
            )
        players = solos if flags["num_agents"] == 1 else teams
        players.append(directory)
    return teams, solos


def problems(task, split: str, limit: int) -> list[dict]:
    """Return the first `limit` problems of a split (0: all). ValueError: there are none."""
    items = items_of(task, split, limit)
    if not items:
        raise ValueError(f"{type(task).__name__}.items({split!r}) has no problem to play")
    return items


def single_flags(flags, model: str | None):
    """Return the flags of one model that does the whole team's task, with the team's budget of
    tokens. model: another than the team's."""
    model = model or flags.model[-1]
    return dataclasses.replace(
        flags,
        num_agents=1,
        model=[model],
        engine=flags.engine if {model} == {*flags.model} else None,
        lora_rank=0,
        max_new_tokens=flags.num_agents * flags.max_new_tokens,
    )


def load_agents(team, directory: Path) -> None:
    """Load a run's agents as it saved them at its end, or those of its last checkpoint."""
    from policies.loading import load_agent

    flags = run_folder.read_args(directory)["args"]
    if not run_folder.has_agents(directory, flags):
        load_checkpoint(team, directory, flags)
        return
    for agent in team.policies():
        path = run_folder.agent_folder(directory, agent, flags)
        load_agent(team.base_of[agent], agent, path)


def load_checkpoint(team, directory: Path, flags: dict) -> None:
    """Load the agents of the last checkpoint of a run that is not finished."""
    if flags.get("share") and not team.options.share:  # the checkpoint has fewer adapters
        raise ValueError(f"{directory} is not finished: {run_folder.resume_command(directory)}")
    trained = {}
    for name, parameter in team.named_parameters():
        if parameter.requires_grad:
            trained[f"team.{name}"] = parameter
    # A user's own module may have trained more than the team.
    step, weights = run_folder.read_checkpoint(directory, trained, "team.")
    for name, parameter in trained.items():
        parameter.data.copy_(weights[name])
    print(f"{directory} is not finished: its checkpoint of step {step} plays", file=sys.stderr)


class Player:
    """A team with its task, whose agents play trained or untrained."""

    def __init__(
        self,
        flags,
        directory: Path | None = None,
        reward: Callable | None = None,
    ):
        """Load the agents.

        `directory` is the run whose trained agents play. `ask` needs no `reward`.
        """
        from policies.loading import device
        from policies.sampling import Sampling
        from policies.team import Team
        from training.acceleration import accelerate

        self.flags = flags
        wrong = engine_conflict(flags)
        if wrong and (directory or flags.lora_rank):
            raise ValueError(wrong)
        self.task = make_task(part_of(flags, TaskOptions))
        self.sampling = part_of(flags, Sampling)
        self.team = team = Team(part_of(flags, TeamOptions))
        self.parameters = [team.parameters_of(agent) for agent in range(team.size)]
        self.weights = {}  # by trained or not. {} without a run, whose agents play as loaded
        if directory:
            self.weights[False] = self.copies()
            run_folder.check_bases(directory, flags.model)
            run_folder.warn_of_other_code(directory)
            load_agents(team, directory)
            self.weights[True] = self.copies()
        accelerate(team.bases)
        self.reward = None
        if reward:
            self.reward = Scorer(reward, team.bases[0], flags.chat_template)
        team.to(device())
        if flags.engine:
            from policies.engine import connect

            connect(team, flags.engine)

    def copies(self) -> list[list]:
        """Return a copy of each agent's trained weights."""
        copies = []
        for group in self.parameters:
            copies.append([p.detach().to("cpu", copy=True) for p in group])
        return copies

    def put(self, weights: list[list]) -> None:
        """Let each agent play with these weights, as `copies` returns them."""
        for group, values in zip(self.parameters, weights, strict=True):
            for parameter, value in zip(group, values, strict=True):
                parameter.data.copy_(value)

    def rollout(
        self,
        rollout_class: type | None = None,
        trained: Collection[int] = (),
    ):
        """Return the rollout in which these agents, some of them trained, play the run's task.

        Without a `rollout_class` it is that of training. The prompts of a baseline may hold
        partners' texts.
        """
        from magrpo import Episode, Rollout

        agents = range(self.team.size)
        if self.weights:
            self.put([self.weights[agent in trained][agent] for agent in agents])
        episode = part_of(self.flags, Episode)
        rollout_class = rollout_class or Rollout
        if rollout_class is not Rollout:
            shown = 2 * len(agents) * episode.turns * episode.max_new_tokens  # partners' texts
            limit = episode.max_prompt_tokens + shown
            episode = dataclasses.replace(episode, max_prompt_tokens=limit)
        return rollout_class(self.team, self.task, self.reward, episode)

    def ask(self, item: dict, seed: int) -> list[dict]:
        """Return the agents' prompts and responses at each turn of one item.

        This is a Rollout of one line, without the seconds that Lightning takes to load.
        """
        import torch

        from policies.codec import TooLong

        torch.manual_seed(seed)
        histories = [[] for _ in range(self.team.size)]
        turns = []
        while True:
            try:
                prompts, texts = self.answers(item, len(turns), histories)
            except TooLong:
                if not turns:
                    raise
                return turns
            turns.append({"prompts": prompts, "responses": texts})
            if len(turns) == self.flags.turns:
                return turns
            next_item = self.task.advance(item, texts)
            if next_item is None:
                return turns
            feedback = self.task.feedback(item, texts)
            for history, text, told in zip(histories, texts, feedback, strict=True):
                history.append((text, told))
            item = next_item

    def answers(self, item: dict, turn: int, histories: list) -> tuple[list[str], list[str]]:
        """Return the agents' prompts and responses at one turn."""
        import torch

        from policies.codec import as_text

        flags = self.flags
        limits = (flags.max_prompt_tokens, flags.max_new_tokens)
        prompts = [""] * self.team.size
        texts = [""] * self.team.size
        asked = []
        for agent in self.task.speakers(item, turn) or range(self.team.size):
            base = self.team.base_of[agent]
            base.codec.end_at(self.task.stop)
            prompt = self.task.observe(agent, item, histories[agent])
            prompts[agent] = as_text(prompt)
            texts[agent] = self.task.begin(agent, item)
            ids = base.codec.encode(prompt, flags.chat_template, *limits, texts[agent])
            asked.append((agent, ids))
        uniforms = torch.rand(len(asked), 1, flags.max_new_tokens, dtype=torch.float64)
        answers = self.team.sample(asked, uniforms, self.sampling)
        for (agent, _), [response] in zip(asked, answers, strict=True):
            texts[agent] += response.text
        return prompts, texts
