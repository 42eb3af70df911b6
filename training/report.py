"""Report what will be trained, a batch of it with its memory (--dry-run), and what came of it."""

import shlex
import sys
from pathlib import Path

import torch

from policies.loading import device
from policies.memory import halving
from policies.model_names import located
from tasks import Task
from training.held_out import sample_record, shown
from training.metrics import group_measures, memory_gib, problem_returns, warn_of_zeros
from training.run_folder import read_json

CARD = """\
---
library_name: {library}
tags: [magrpo]
{hub}---
# Agent {agent} of {num_agents}, task {task}

MAGRPO (arXiv 2508.04652) trained this agent's team, with reward `{reward}` for all of them.
(--freeze, if it stands below, names agents that did not learn.) The base model: {about}.
The return on held-out problems, sampled, as a share of the maximum: {before} before, {after} after.
The code was of commit {commit}. The commands:

    {commands}
"""
NEXT = """
curves:    tensorboard --logdir {run}  (with --logger tensorboard, the default)
ask:       python eval.py ask "a problem in your words, or an item as JSON" --run {run}
show:      python eval.py show --method naive trained --run {run}
table:     python eval.py --run {run}
page:      python eval.py page {run}
doctor:    python eval.py doctor {run}  (20 steps or more)
compare:   python eval.py compare {run} ANOTHER_RUN
continue:  python train.py --resume {run} --max-steps {steps}
           (the schedules of the learning rate and of optimism are then twice as long)"""


def describe(module) -> str:
    """Return what is trained, on what and where. Warn of a chat model that gets raw text."""
    options = module.algorithm
    task = module.rollout.task
    reward = task.reward or "of its play"
    lines = [
        f"task {type(task).__name__}, reward {reward}; problems: {len(module.problems)}",
        f"lr {options.lr}; device {device()}; torch threads: {torch.get_num_threads()}",
    ]
    if type(task).play is not Task.play and module.team.size > 1:
        line = "the task has a `play` of its own: agents may see partners' texts"
        lines.append(f"{line} (the embedded models were not taught to read them)")
    for number, base in enumerate(module.team.bases):
        name = module.team.options.model[base.agents[0]]
        lines.append(f"base {number}: {base.about}; agents {base.agents}")
        if base.codec.tokenizer.chat_template and base.codec.raw:
            print(
                f"warning: {name} has a chat template and prompts go to it as raw text: "
                "if it is instruction-tuned, add --chat-template",
                file=sys.stderr,
            )
    for agent in range(module.team.size):
        trained = sum(p.numel() for p in module.team.parameters_of(agent))
        line = f"agent {agent}: {trained:,} trainable parameters"
        if agent in options.freeze:
            line = f"agent {agent}: frozen, it acts and does not learn"
        lines.append(line)
    return "\n".join(lines)


def dry_run(module) -> None:
    """Roll out a batch, run its backward passes, and print an example, the rewards and memory."""
    module.turns = module.play(module.algorithm.batch_size)
    module.set_advantages()
    for turn, nodes in enumerate(module.turns):
        rewards = torch.cat([node.team_rewards for node in nodes])
        print(
            f"\nturn {turn}: {len(rewards)} joint responses, mean reward {rewards.mean():.3f} "
            f"of {module.rollout.reward.maximum:g}. One of them:"
        )
        record = sample_record(nodes[0], 0, module.rollout.reward.maximum)
        for agent, prompt in enumerate(nodes[0].prompts):
            codec = module.team.base_of[agent].codec
            if not codec.raw:  # the model reads what its chat template made
                record["prompts"][agent] = codec.tokenizer.decode(prompt)
        print(shown(record))
    warn_of_zeros(module.turns)
    returns = problem_returns(module.turns, module.rollout)
    print(f"\nreturn: {sum(returns) / len(returns):.3f} of 1")
    trained = sum(p.nbytes for p in module.parameters() if p.requires_grad)
    rows = module.rows()

    def add_gradients(rows, logps, mask) -> None:  # also where the advantage is 0
        (logps * mask).sum().backward()

    halving(module.team.bases, lambda: module.team.score(rows, module.sampling, add_gradients))
    expected = memory_gib() + 2 * trained / 2**30  # Adam's moments
    flat = 1 - group_measures(module)["groups_with_gradient"]
    print(f"\ngroups without an advantage, so that they teach nothing: {flat:.0%}")
    print(
        f"memory expected, by this and its backward passes: {expected * 2**10:.0f} MiB "
        "(of the GPU; on a CPU of the process, with Python and its libraries)"
    )


def model_card(record: dict, agent: int, about: str, reward: str, summary: dict) -> str:
    """Return the README.md of a trained agent, for the hub.

    `record` is that of args.json, and `about` describes its base.
    """
    flags = record["args"]
    base = flags["model"][agent]
    values = flags | {
        "library": "peft" if flags["lora_rank"] else "transformers",
        "hub": "" if Path(located(base)).exists() else f"base_model: {base}\n",
        "agent": agent,
        "about": about,
        "reward": reward,
        "commit": ", then ".join(record["code"]),
        "commands": "\n    ".join(record["commands"]),
    }
    for when in ("before", "after"):
        measured = summary[when]
        values[when] = f"{measured['return']:.3f}" if measured else "not measured"
    return CARD.format(**values)


def report(directory: Path) -> str:
    """Return the short report at the end of a run."""
    summary = read_json(directory, "summary.json")
    before = summary["before"]
    after = summary["after"]
    minutes = summary["seconds"] / 60
    lines = [f"\nfinished at step {summary['steps']}, in {minutes:.1f} minutes: {directory}"]
    if after:
        lines.append("held-out problems, share of the maximum          before   after   error")
        for name in ("return", "greedy/return"):
            line = f"{name:>46} {before[name]:8.3f}{after[name]:8.3f}"
            if error := after.get(f"{name}_se"):
                line += f"{error:8.3f}"
            lines.append(line)
    for when, turns in summary["example"].items():
        lines += [f"\none greedy episode {when} training:", "\n\n".join(map(shown, turns))]
    lines.append(NEXT.format(run=shlex.quote(str(directory)), steps=2 * summary["steps"]))
    return "\n".join(lines)
