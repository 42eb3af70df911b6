"""What will be trained once it is loaded, what memory it takes; --dry-run: one batch of it."""

import sys

import torch

from policies.loading import device
from policies.memory import DECODE_TOKENS, cache_bytes, cost, update_bytes
from running.metrics import reward_spreads


def describe(module, args) -> str:
    """What is trained, and where; warns of what a user may not have meant."""
    lines = []
    for number, base in enumerate(module.team.bases):
        frozen = sum(p.numel() * p.element_size() for p in base.parameters() if not p.requires_grad)
        name = args.model[base.agents[0]]
        lines.append(
            f"base {number}: {name}, {frozen / 2**20:.1f} MiB frozen, agents {base.agents}"
        )
    for agent in range(module.team.size):
        trained = sum(p.numel() for p in module.team.parameters_of(agent))
        frozen = agent in (args.freeze or ())
        kind = (
            "frozen, it acts and does not learn" if frozen else f"{trained:,} trainable parameters"
        )
        lines.append(f"agent {agent}: {kind}" + (f", from {args.init[agent]}" if args.init else ""))
    if args.alternate:
        lines.append(f"one agent learns at a time, {args.alternate} step(s) each")
    expected = sum(memory(base, module, args) for base in module.team.bases)
    lines.append(f"memory expected, besides Python and its libraries: {expected / 2**20:.0f} MiB")
    lines.append(f"device:  {where()}")
    for line in remarks(module, args):
        print(f"warning: {line}", file=sys.stderr)
    return "\n".join(lines)


def where() -> str:
    """The device of this process, in words."""
    if device().type == "cuda":
        return torch.cuda.get_device_name()
    return f"CPU, torch threads: {torch.get_num_threads()}"


def remarks(module, args) -> list[str]:
    """What a user may not have meant."""
    found = []
    for base in module.team.bases:
        name = args.model[base.agents[0]]
        if not args.chat_template and getattr(base.tokenizer, "chat_template", None):
            found.append(
                f"{name} has a chat template and prompts go to it as raw text: if it is "
                "instruction-tuned, add --chat-template"
            )
    if args.bits < 16 and device().type == "cpu":
        found.append(
            f"--bits {args.bits} on a CPU saves nothing: a Qwen2 of 358 million parameters took "
            "3.26 GB and made 10 tokens/s, with --bits 16 1.51 GB and 20 tokens/s"
        )
    return found


def memory(base, module, args) -> int:
    """Bytes that a step takes at its peak: weights, gradients and Adam's two moments of what is
    trained, then the larger of the decode's (cache, merged copies) and the update's activations."""
    weights = sum(p.numel() * p.element_size() for p in base.parameters())
    learners = [agent for agent in base.agents if agent not in (args.freeze or ())]
    trained = sum(p.numel() for agent in learners for p in module.team.parameters_of(agent))
    prompt = max(
        len(module.rollout.encode(agent, module.rollout.task.observe(agent, item, [])))
        for item in module.problems[:100]
        for agent in base.agents
    )
    prompts = args.batch_size * len(base.agents)
    rows = prompts * args.num_generations
    cached = min(prompts * prompt + rows * args.max_new_tokens, DECODE_TOKENS) * cache_bytes(base)
    decode = cached + base.adapters.merged_bytes(len(base.agents))
    units = ((prompts, cost(base, 0, prompt)), (rows, cost(base, prompt, args.max_new_tokens)))
    update = sum(max(one, min(count * one, 1.0)) for count, one in units) * update_bytes(base)
    return weights + 12 * trained + int(max(decode, update))


def dry_run(module, args) -> None:
    module.turns = module.play(args.batch_size)
    for turn, nodes in enumerate(module.turns):
        responses = sum(len(r) for node in nodes for r in node.responses)
        joints = sum(len(node.parts) for node in nodes)
        mean = sum(float(node.rewards.mean()) for node in nodes) / len(nodes)
        print(f"turn {turn}: {responses} responses, {joints} joint, mean reward {mean:.3f}")
    flat = float((reward_spreads(module) < 1e-9).double().mean())
    print(f"groups whose rewards are all equal, so that they teach nothing: {flat:.0%}")
