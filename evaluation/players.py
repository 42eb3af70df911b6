"""Who plays in an evaluation: the team of a run, or a single model, trained or untrained.

A run is read from runs/<name>/args.json and agents/<i>/. What its agents are asked, how they sample
and what they earn are those of training, because the same objects do it here.
"""

import argparse
import copy
import re
import sys
from collections.abc import Callable, Collection
from pathlib import Path

import train
from rewards import asks
from training import folder
from training.flags import each, engine_conflict
from training.scoring import Scorer

OWN = ("task", "reward", "judge", "data", "chat_template", "temperature", "top_p")
OWN += ("max_new_tokens", "turns", "feedback")


def find_runs(names: list[str] | None) -> tuple[Path | None, Path | None]:
    """The directories of the team's run and of the single agent's."""
    found: dict[bool, Path] = {}
    for name in names or []:
        directory = folder.run_folder(name)
        flags = folder.read_args(directory)["args"]
        if not (folder.has_agents(directory, flags) or (directory / folder.CHECKPOINT).is_file()):
            how = f"python train.py --resume {directory}"
            raise ValueError(f"{directory} is not finished, and has no checkpoint: {how}")
        alone = flags["num_agents"] == 1
        if found.setdefault(alone, directory) != directory:
            kind = "one agent" if alone else "a team"
            raise ValueError(f"two runs of {kind}: --compare is for that, --run takes one of each")
    return found.get(False), found.get(True)


def load_agents(team, directory: Path) -> None:
    """A run's agents as it saved them at its end, or those of its last checkpoint."""
    from policies.loading import load_agent

    flags = folder.read_args(directory)["args"]
    if folder.has_agents(directory, flags):
        trusted = flags.get("trust_remote_code", False)
        for agent in team.policies():
            path = folder.agent_folder(directory, agent, flags)
            load_agent(team.base_of[agent], agent, path, trusted)
        return
    trained = {name: p for name, p in team.named_parameters() if p.requires_grad}
    saved = {name: saved_name(name, team, flags) for name in trained}
    wanted = {saved[name]: parameter for name, parameter in trained.items()}
    # An example's module may have trained more than the team, as examples/critic.py does.
    step, weights = folder.read_checkpoint(directory, wanted, "team.")
    for name, parameter in trained.items():
        parameter.data.copy_(weights[saved[name]])
    print(f"{directory} is not finished: its checkpoint of step {step} plays", file=sys.stderr)


def saved_name(name: str, team, flags: dict) -> str:
    """The name in a run's checkpoint of what the agents here, who may be more policies than the
    run's (--share), have as `name`: bases.<number>. ... .agent<i>. ..., or a full copy's."""
    if not flags.get("share"):
        return f"team.{name}"
    _, number, rest = name.split(".", 2)
    first = folder.policy_of(team.bases[int(number)].agents[0], flags)
    base = list(dict.fromkeys(flags["model"])).index(flags["model"][first])
    return f"team.bases.{base}." + re.sub(r"\.agent\d+\.", f".agent{first}.", rest)


def settings(args, directory: Path | None) -> argparse.Namespace:
    """The run's flags with those given here; without a run, train.py's defaults."""
    own = folder.read_args(directory)["args"] if directory else {}
    task = args.task or own.get("task")
    values = vars(train.parse(["--task", task] if task else [])) | own
    values |= {name: getattr(args, name) for name in OWN if getattr(args, name) is not None}
    if args.model:
        models = [train.TINY if name == "tiny" else name for name in args.model]
        if not directory and len(models) > 1:
            values["num_agents"] = len(models)
        if len(models) not in (1, values["num_agents"]):
            raise ValueError(f"--model names {len(models)}: give one, or one per agent")
        values["model"] = each(models, values["num_agents"])
    if args.feedback and values["turns"] == 1:
        raise ValueError("--feedback is told between turns: it needs --turns 2 or more")
    values |= {"engine": args.engine, "engine_folder": args.engine_folder}  # not the run's
    return argparse.Namespace(**values)


def solo_settings(args, main: argparse.Namespace, team: Path | None, solo: Path):
    """The flags of a single agent's own run."""
    flags = settings(args, solo)
    if {*flags.model} != {*main.model}:
        flags.engine = flags.engine_folder = None  # its base is no server's
    if (flags.task, flags.data) != (main.task, main.data):
        raise ValueError(f"{solo} is a run of task {flags.task}, not of {main.task}")
    if team:  # the flag --max-new-tokens is then meant for the team's agents
        flags.max_new_tokens = folder.read_args(solo)["args"]["max_new_tokens"]
    if flags.model[0] != main.model[0]:
        flags.judge = main.judge or main.model[0]
    return flags


def single_settings(main: argparse.Namespace, model: str | None) -> argparse.Namespace:
    """The flags of one model that does the whole team's task, with the team's budget of tokens."""
    model = model or main.model[-1]
    changes = {
        "num_agents": 1,
        "model": [train.TINY if model == "tiny" else model],
        "engine": main.engine if {model} == {*main.model} else None,
        "lora_rank": 0,
        "judge": main.judge or main.model[0],
        "max_new_tokens": main.num_agents * main.max_new_tokens,
    }
    return argparse.Namespace(**vars(main) | changes)


class Player:
    """A team with its task, whose agents play trained or untrained. reward: none for --ask."""

    def __init__(self, args, directory: Path | None = None, reward: Callable | None = None):
        from policies.judging import Judge, make_judge
        from policies.loading import device
        from policies.team import Team
        from training.plugins import make_task

        if (directory or args.lora_rank) and (wrong := engine_conflict(args)):
            raise ValueError(wrong)
        self.args, self.task = args, make_task(args)
        self.team = team = Team(args)
        self.parameters = [team.parameters_of(agent) for agent in range(team.size)]
        self.weights = {}  # by trained or not; {} without a run: they play as loaded
        if directory:
            self.weights[False] = self.copies()
            folder.check_bases(directory, args)
            folder.warn_of_other_code(directory)
            load_agents(team, directory)
            self.weights[True] = self.copies()
        judge = None
        if asks(reward):
            # Without a run no agent is trained: the model to ask may be the one that plays.
            own = not directory and args.judge == args.model[0]
            judge = Judge(team.bases[0], args.chat_template) if own else make_judge(args, team)
        self.reward = reward and Scorer(reward, judge)
        team.to(device())
        if args.engine:
            from policies.engine import connect

            connect(team, args)

    def copies(self) -> list[list]:
        return [[p.detach().to("cpu", copy=True) for p in group] for group in self.parameters]

    def put(self, weights: list[list]) -> None:
        """Each agent plays with these weights, as `copies` gives them."""
        for group, values in zip(self.parameters, weights, strict=True):
            for parameter, value in zip(group, values, strict=True):
                parameter.data.copy_(value)

    def rollout(self, kind: type | None = None, trained: Collection[int] = ()):
        """How these agents, of whom some are trained, play the run's task: as in training, or as a
        baseline of that kind, which plays one turn and whose prompts may hold partners' texts."""
        from magrpo import Rollout

        if self.weights:
            self.put([self.weights[agent in trained][agent] for agent in range(self.team.size)])
        args = copy.copy(self.args)
        if kind not in (None, Rollout):
            args.turns = 1
            args.max_prompt_tokens += 2 * self.team.size * args.max_new_tokens
        return (kind or Rollout)(self.team, self.task, self.reward, args)
