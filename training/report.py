"""What a run tells: what will be trained, once it is loaded; --dry-run: one batch of it, and the
memory that it takes; and at its end, what came of it."""

import itertools
import json
import sys
from pathlib import Path

import torch

from policies.loading import device
from policies.memory import halving
from training.metrics import memory_gib, reward_spreads
from training.plugins import check_prompts


def describe(module, held_out: dict, args) -> str:
    """What is trained, on what and where; warns of what a user may not have meant."""
    bases, reward = module.team.bases, module.rollout.task.reward
    held = ", ".join(f"{len(items)} of {split}" for split, items in held_out.items()) or "none"
    lines = [
        f"task:    {args.task}, reward {reward}, {len(module.problems)} problems; held out: {held}",
        f"plan:    {args.max_steps} steps of {args.batch_size} problems, {args.num_generations} "
        f"samples an agent, lr {args.lr:g}",
    ]
    for number, base in enumerate(bases):
        frozen = sum(p.numel() * p.element_size() for p in base.parameters() if not p.requires_grad)
        name, size = args.model[base.agents[0]], f"{frozen / 2**20:.1f} MiB"
        lines.append(f"base {number}: {name}, {size} frozen, agents {base.agents}")
        goes_on = module.rollout.task.stop  # a prompt that is to be continued, not answered
        if not (args.chat_template or goes_on) and getattr(base.tokenizer, "chat_template", None):
            message = f"{name} has a chat template and prompts go to it as raw text: if it is "
            print(f"warning: {message}instruction-tuned, add --chat-template", file=sys.stderr)
    for agent in range(module.team.size):
        trained = sum(p.numel() for p in module.team.parameters_of(agent))
        kind = f"{trained:,} trainable parameters"
        kind = "frozen, it acts and does not learn" if agent in args.freeze else kind
        lines.append(f"agent {agent}: {kind}" + (f", from {args.init[agent]}" if args.init else ""))
    if args.share:
        lines.append(f"shared:  agents of one base are one policy ({len(bases)} in all)")
    if args.turns > 1:
        items = itertools.chain(module.problems, *held_out.values())
        lines.append(growth(check_prompts(module.rollout, items), bases, args))
    lines.append(f"device:  {where()}")
    return "\n".join(lines)


def growth(first: int, bases: list, args) -> str:
    """Tell how long the prompts of the last turn may be; warn where they may be too long.

    A later prompt may hold its agent's own responses, and what the task adds, such as feedback.
    """
    added = args.turns - 1
    last = first + added * args.max_new_tokens
    context = min(base.context for base in bases)
    warning = (
        f"warning: a prompt of turn {args.turns} may have {last} tokens and what the task adds"
    )
    if last > args.max_prompt_tokens:
        limit = f"--max-prompt-tokens {args.max_prompt_tokens}"
        print(f"{warning}, more than {limit}: raise it", file=sys.stderr)
    if last + args.max_new_tokens > context:
        room = f"the model's context of {context} has no room for --max-new-tokens then"
        print(f"{warning}: {room}", file=sys.stderr)
    later = f"{first} + {added} x {args.max_new_tokens} = {last}, and what the task adds"
    return f"prompts: up to {first} tokens at turn 1; at turn {args.turns} up to {later}"


def where() -> str:
    """The device of this process, in words."""
    if device().type == "cuda":
        return torch.cuda.get_device_name()
    return f"CPU, torch threads: {torch.get_num_threads()}"


def dry_run(module, args) -> None:
    module.turns = module.play(args.batch_size)
    module.set_advantages()
    for turn, nodes in enumerate(module.turns):
        responses = sum(len(r) for node in nodes for r in node.responses)
        joints = sum(len(node.parts) for node in nodes)
        mean = sum(float(node.rewards.mean()) for node in nodes) / len(nodes)
        print(f"turn {turn}: {responses} responses, {joints} joint, mean reward {mean:.3f}")
    trained = sum(p.nbytes for p in module.parameters() if p.requires_grad)
    halving(module.team.bases, lambda: backward(module))
    expected = memory_gib() + 2 * trained / 2**30  # Adam's moments
    kind = "on the card" if device().type == "cuda" else "resident, Python and its libraries too"
    print(f"memory expected, by this and its backward passes, {kind}: {expected * 2**10:.0f} MiB")
    flat = float((reward_spreads(module) < 1e-9).double().mean())
    print(f"groups whose rewards are all equal, so that they teach nothing: {flat:.0%}")


def backward(module) -> None:
    """A backward pass over every response, whether or not it has an advantage."""
    for _, logps, mask in module.team.score(module.rows(), module.sampling):
        (logps * mask).sum().backward()


def report(directory: Path) -> str:
    """The short report at the end of a run."""
    summary = json.loads((directory / "summary.json").read_text())
    before, after = summary["before"], summary["after"]
    lines = [f"\n{summary['steps']} steps in {summary['seconds'] / 60:.1f} minutes: {directory}"]
    if after:
        lines.append("held-out test problems, share of the maximum return   before    after")
        for name, label in (("return", "sampled"), ("greedy/return", "greedy")):
            error = after[f"{name}_se"]
            lines.append(f"  {label:<50}{before[name]:8.3f} {after[name]:8.3f}  (se {error:.3f})")
    for when, sample in summary["example"].items():
        lines.append(f"\none joint response {when} (reward {sample['reward']:.2f}):")
        for agent, text in enumerate(sample["responses"]):
            lines += [f"  agent {agent} | {line}" for line in text.splitlines() or [""]]
    if (directory / "build.png").exists():
        lines.append(f"\npictures:  {directory}/build.png, build.gif")
    lines.append(f"\ncurves:    tensorboard --logdir {directory}")
    lines.append(f"evaluate:  python eval.py --run {directory}  (--doctor {directory})")
    steps = 2 * summary["steps"]
    lines.append(f"continue:  python train.py --resume {directory} --max-steps {steps}")
    return "\n".join(lines)
