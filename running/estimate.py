"""What memory a run will take, from the shapes of its models and its flags alone."""

import itertools

from policies import memory
from policies.sampling import sampling_of
from policies.scoring import pack
from running.heldout import EVAL_SAMPLES, some

TOLD = 32  # tokens of feedback between two turns, about


def expected(module, args) -> tuple[float, float]:
    """Bytes at the peak of training, and of the held-out evaluations (0: there are none), where
    every response is as long as it may be.

    Weights are there always, of what is trained Adam's two moments, in the update the gradients
    too; then the largest decode, or the largest pass of the update: on a CPU both, since its heap
    keeps what one of them gave back, in pieces that are of little use to the other.
    """
    team, held = module.team, 0 if args.eval_limit is None else args.eval_limit or some()
    judge = getattr(module, "judge", None)
    kept = sum(memory.weights(base) for base in {*team.bases, judge or team.bases[0]})
    trained = sum(p.nbytes for a in learners(args) for p in team.parameters_of(a))
    chain, rollout, update, held_out = args.branching == "chain", [], [], []
    for base in team.bases:
        first = longest_prompt(base, module)
        play = turns(base, args, first, args.batch_size, args.num_generations, chain)
        rollout.append(decoded(base, args, play))
        update.append(updated(base, args, play))
        play = turns(base, args, first, min(held, some()), EVAL_SAMPLES, True)
        held_out.append(decoded(base, args, play))
    if team.bases[0].device.type == "cpu":
        update = kept + 3 * trained + memory.HELD * max(update)
        training = update + memory.HELD * max(rollout)
        return training, update + memory.HELD * max(held_out) if held else 0
    training = kept + max(2 * trained + max(rollout), 3 * trained + max(update))
    return training, kept + 3 * trained + max(held_out) if held else 0


def longest_prompt(base, module) -> int:
    """Tokens of the longest first prompt of the base's agents, of 100 problems."""
    encode, observe = module.rollout.encode, module.rollout.task.observe
    found = itertools.product(base.agents, module.problems[:100])
    return max(len(encode(agent, observe(agent, item, []))) for agent, item in found)


def learners(args) -> list[int]:
    """Who learns at some step."""
    return [agent for agent in range(args.num_agents) if agent not in (args.freeze or ())]


def turns(base, args, first: int, problems: int, samples: int, chain: bool) -> list[tuple]:
    """Of each turn: nodes, samples of each, tokens of the longest prompt (at first: `first`)."""
    most = min(args.max_prompt_tokens, base.context - args.max_new_tokens)
    found = [(problems, samples, first)]
    for turn in range(1, args.turns):
        nodes, each = problems * samples ** (1 if chain else turn), 1 if chain else samples
        found.append((nodes, each, min(first + turn * (args.max_new_tokens + TOLD), most)))
    return found


def decoded(base, args, play: list[tuple]) -> float:
    """Bytes of the largest decode, and of what is made of the adapters for it."""
    peak = 0
    for nodes, each, prompt in play:
        how = (base, prompt, each, args.max_new_tokens, sampling_of(args))
        count = min(nodes * len(base.agents), memory.prompts_at_once(*how))
        peak = max(peak, count * memory.decode_bytes(*how))
    return peak + memory.adapters_bytes(base)


def updated(base, args, play: list[tuple]) -> float:
    """Bytes of the largest pass of the update: some prompts, and responses to them."""
    agents, limit = len(set(base.agents) & set(learners(args))), args.max_new_tokens
    prompts = [(length, each) for nodes, each, length in play for _ in range(nodes * agents)]
    costs, peak = [memory.cost(base, 0, length) for length, _ in prompts], 0.0
    for chunk in pack(costs):
        width, rows = prompts[chunk[0]][0], sum(prompts[c][1] for c in chunk)
        one = memory.cost(base, width, limit)
        largest = max(map(len, pack([one] * rows)))
        kept = min(len(chunk) * costs[chunk[0]], memory.cost(base, 0, memory.longest(base)))
        passes = (kept + largest * one) * memory.update_bytes(base)
        peak = max(
            peak, passes + memory.beside_bytes(base, largest, width, limit, sampling_of(args))
        )
    return peak
