"""The players of an evaluation: a run's agents, trained or untrained, and the paper's baselines.

A method is a choice of agents, trained or not, and perhaps a workflow around the task. Prompts,
sampling and rewards are those of training, because the same objects make them here.
`flags` are those of train.py, resolved (train.Args).
"""

import dataclasses
import gc
import itertools
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from magrpo import Episode, Node, Rollout, team_mean
from policies import Mistake
from policies.loading import load_agent
from policies.model_names import TeamOptions, find_model
from policies.sampling import Sampling
from policies.team import Team
from tasks import Discussion, InTurn
from training import run_folder
from training.acceleration import accelerate
from training.defaults import resolve_bits
from training.flags import part_of
from training.held_out import episode, play, sample_record
from training.items import check_prompts
from training.metrics import cut_off, highest_return, sampled_tokens, warn_of_zeros
from training.plugins import find_reward, make_task
from training.reward_runner import Scorer

TIMED = 5  # problems whose decoding is timed, one at a time


def methods(flags, is_trained: bool) -> dict[str, tuple[Iterable[int], type | None]]:
    """Return the methods that apply: the agents that are trained, and the workflow of tasks.py.

    The one of another model, which plays in the place of the team, comes last.
    """
    agents = range(flags.num_agents)
    table: dict = {}
    if is_trained:
        table["trained"] = (agents, None)
    table["naive"] = ((), None)
    if len(agents) > 1:
        table["sequential"] = ((), InTurn)
        table["discussion"] = ((), Discussion)
        if is_trained and not flags.share:
            for agent in agents:
                table[f"only-{agent}"] = ([agent], None)
        table["single"] = ((), None)
    return table


def alone(flags, model: str | None):
    """Return the flags of one model that does the whole team's task.

    It gets the team's tokens at each turn, and as many scored turns.
    """
    model = model or flags.model[-1]
    own = dataclasses.replace(
        flags,
        num_agents=1,
        model=[model],
        temperature=flags.temperature[-1:],
        engine=flags.engine if {model} == {*flags.model} else None,
        lora_rank=0,
        max_new_tokens=flags.num_agents * flags.max_new_tokens,
    )
    scored = max(flags.turns // make_task(flags).asks, 1)
    own.turns = scored * make_task(own).asks
    return own


@dataclasses.dataclass(frozen=True)
class Match:
    """The settings that every method plays with, eval.py's flags of the same names."""

    method: list[str] | None
    single_model: str | None
    num_samples: int  # 0: greedy alone
    seed: int
    timed: bool  # whether the speed is measured, too


def play_run(
    flags, run: Path | None, items: list[dict], match: Match, prefix: str
) -> Iterator[tuple[str, list[dict]]]:
    """Yield the methods of a run, or those of --method: the name after `prefix`, and the records.

    A baseline that fails is left out, unless --method names it.
    """
    if match.single_model:
        find_model(match.single_model)  # an error before any method plays
    player = Player(flags, run)
    scorer = player.scorer
    check_prompts(player.rollout(), items)
    for name, (trained, workflow) in methods(flags, run is not None).items():
        if match.method and name not in match.method:
            continue
        label = prefix + name
        try:
            if name == "single":
                player = None  # frees its memory
                player = Player(alone(flags, match.single_model), None, scorer)
                if run:
                    player.team.set_date(run_folder.read_args(run)["date"])
            records = player.evaluate(label, player.rollout(trained, workflow), items, match)
        except Exception as error:
            # A task may need a team, and a prompt with partners' texts may be too long.
            if match.method or trained or name == "naive":
                raise
            team = " (the task was made with one agent)" if name == "single" else ""
            reason = f"{type(error).__name__}: {error!s:.200}"
            print(f"no method {label}{team}: {reason}", file=sys.stderr)
        else:
            yield label, records


class Player:
    """A team with its task, whose agents play trained or untrained."""

    def __init__(self, flags, directory: Path | None = None, scorer: Scorer | None = None):
        """Load the agents. `directory` is the run whose trained agents play."""
        gc.collect()  # models of earlier players are cycles
        resolve_bits(flags)
        self.flags = flags
        self.task = make_task(flags)
        self.sampling = part_of(flags, Sampling)
        self.team = Team(part_of(flags, TeamOptions))
        self.versions = []  # each agent's weights, untrained and trained; [] without a run
        if directory:
            untrained = self.weights()
            load_agents(self.team, directory)
            self.versions = list(zip(untrained, self.weights(), strict=True))
        base = self.team.bases[0]
        self.scorer = scorer or Scorer(find_reward(self.task), base, flags.chat_template)
        accelerate(self.team.bases)
        if flags.engine:
            from policies.engine import connect

            connect(self.team, flags.engine)

    def weights(self) -> list[list]:
        """Return a copy of each agent's weights that are trained, on the CPU."""
        copies = []
        for agent in range(self.team.size):
            weights = self.team.parameters_of(agent)
            copies.append([weight.data.to("cpu", copy=True) for weight in weights])
        return copies

    def rollout(self, trained: Iterable[int] = (), workflow: type | None = None) -> Rollout:
        """Return the rollout in which these agents play trained, the others untrained."""
        for agent, versions in enumerate(self.versions):
            values = versions[agent in trained]
            weights = self.team.parameters_of(agent)
            for weight, value in zip(weights, values, strict=True):
                weight.data.copy_(value)
        options = part_of(self.flags, Episode)
        task = self.task
        if workflow:
            task = make_task(self.flags, workflow)
            # its prompts hold partners' texts: the model's context is the limit
            options = dataclasses.replace(options, turns=task.turns, max_prompt_tokens=sys.maxsize)
        return Rollout(self.team, task, self.scorer, options)

    def evaluate(
        self, method: str, rollout: Rollout, items: list[dict], match: Match
    ) -> list[dict]:
        """Return the records of a method, sampled and greedy."""
        records = self.play(method, rollout, items, match.seed, match.num_samples)
        if match.timed:
            self.time(records, rollout, items, match.seed)
        if match.num_samples:
            records += self.play(method, rollout, items, match.seed, 0)
        return records

    def play(
        self, method: str, rollout: Rollout, items: list[dict], seed: int, samples: int
    ) -> list[dict]:
        """Return a record per problem and joint response. samples 0: one greedy response.

        ValueError: a prompt of a workflow does not fit. The episode would earn 0.
        """
        turns = play(rollout, items, seed, samples, self.sampling, method)
        if self.scorer is not UNSCORED:
            warn_of_zeros(turns)
        nodes = itertools.chain(*turns)
        if rollout.task is not self.task and any(map(cut_off, nodes)):
            raise Mistake("a prompt with partners' texts does not fit")
        records = []
        for number, root in enumerate(turns[0]):
            for sample in range(root.samples):
                head = {
                    "method": method,
                    "greedy": not samples,
                    "item": number,
                    "sample": sample,
                }
                records.append(head | self.record(rollout, root, sample))
        return records

    def record(self, rollout: Rollout, root: Node, sample: int) -> dict:
        """Return a joint response's turns, its return, and the scheme of what was scored last.

        The scheme is None where the task names none. A turn without parts was not scored.
        """
        turns = []
        scheme = None
        for node, number in episode(root, sample):
            turn = sample_record(node, number, self.scorer.maximum)
            turn["tokens"] = [len(responses[number].tokens) for responses in node.responses]
            scored = node.steps[node.aligned(number)].scored
            if scored:
                _, turn["scored"] = scored
                scheme = rollout.task.scheme(*scored)
            turns.append(turn)
        earned = float(team_mean(root.returns)[sample])
        return {"return": earned / highest_return(rollout), "turns": turns, "scheme": scheme}

    def time(self, records: list[dict], rollout: Rollout, items: list[dict], seed: int) -> None:
        """Add the speed, as a user of one problem at a time meets it, to the first problems."""
        play(rollout, items[:1], seed, 1, self.sampling, "warming up")
        samples = len(records) // len(items)
        for item, record in zip(items[:TIMED], records[::samples], strict=False):
            rollout.seconds.clear()
            turns = play(rollout, [item], seed, 1, self.sampling, "timing")
            tokens = sampled_tokens(itertools.chain(*turns))
            seconds = rollout.seconds["rollout"]
            record["speed"] = {
                "latency_s": seconds,
                "tokens_per_s": tokens / seconds,
            }


def load_agents(team: Team, directory: Path) -> None:
    """Load the agents that a run saved last, and let them see its date."""
    record = run_folder.read_args(directory)
    if not run_folder.has_agents(directory):
        raise Mistake(f"{directory} has no agents: a run saves them before its first step")
    run_folder.check_run(directory, record, team.options.model)
    if not run_folder.read_json(directory, "summary.json"):
        print(f"{directory} is not finished: its last saved agents play", file=sys.stderr)
    for agent in team.policies():
        load_agent(team.base_of[agent], agent, directory / f"agents/{agent}")
    team.set_date(record["date"])


def unscored(item, responses):
    """Score nothing, where an answer alone is wanted."""
    return {}


unscored.maximum = 1.0  # type: ignore[attr-defined]
UNSCORED = Scorer(unscored)
