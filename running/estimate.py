"""What memory a run will take, from the shapes of its models and its flags alone."""

from policies import memory
from policies.sampling import Sampling
from policies.scoring import pack
from running.heldout import EVAL_SAMPLES, some

TOLD = 64  # tokens of feedback between two turns, about


def expected(module, args) -> tuple[float, float]:
    """Bytes at the peak of training, and of the held-out evaluations (0: there are none), where
    every response is as long as it may be.

    Weights are there always, of what is trained Adam's two moments, in the update the gradients
    too; then the largest decode, or the largest pass of the update.
    """
    team, held = module.team, 0 if args.eval_limit is None else args.eval_limit or some()
    judge = getattr(module, "judge", None)
    kept = sum(memory.weights(base) for base in {*team.bases, judge or team.bases[0]})
    trained = sum(p.nbytes for a in learners(args) for p in team.parameters_of(a))
    rollout = max(
        decode(base, module, args, args.batch_size, args.num_generations, args.branching == "chain")
        for base in team.bases
    )
    update = max(updated(base, module, args) for base in team.bases)
    training = kept + max(2 * trained + rollout, 3 * trained + update)
    count = min(held, some())
    held_out = max(decode(base, module, args, count, EVAL_SAMPLES, True) for base in team.bases)
    return training, kept + 3 * trained + held_out if held else 0


def learners(args) -> list[int]:
    """Who learns at some step."""
    return [agent for agent in range(args.num_agents) if agent not in (args.freeze or ())]


def turns(base, module, args, problems: int, samples: int, chain: bool) -> list[tuple]:
    """Of each turn: nodes, samples of each, tokens of the longest prompt of the base's agents."""
    first = max(
        len(module.rollout.encode(agent, module.rollout.task.observe(agent, item, [])))
        for item in module.problems[:100]
        for agent in base.agents
    )
    most = min(args.max_prompt_tokens, base.context - args.max_new_tokens)
    found = [(problems, samples, first)]
    for turn in range(1, args.turns):
        nodes, each = problems * samples ** (1 if chain else turn), 1 if chain else samples
        found.append((nodes, each, min(first + turn * (args.max_new_tokens + TOLD), most)))
    return found


def decode(base, module, args, problems: int, samples: int, chain: bool) -> float:
    """Bytes of the largest decode, and of what is made of the adapters for it."""
    sampling = Sampling(args.temperature, args.top_k, args.top_p, args.max_new_tokens)
    peak = 0
    for nodes, each, prompt in turns(base, module, args, problems, samples, chain):
        how = (base, prompt, each, args.max_new_tokens, sampling)
        count = min(nodes * len(base.agents), memory.prompts_at_once(*how))
        peak = max(peak, count * memory.decode_bytes(*how))
    return peak + memory.adapters_bytes(base)


def updated(base, module, args) -> float:
    """Bytes of the largest pass of the update: some prompts, and responses to them."""
    chain, limit = args.branching == "chain", args.max_new_tokens
    groups = turns(base, module, args, args.batch_size, args.num_generations, chain)
    agents = len(set(base.agents) & set(learners(args)))
    prompts = [(length, each) for nodes, each, length in groups for _ in range(nodes * agents)]
    costs, peak = [memory.cost(base, 0, length) for length, _ in prompts], 0.0
    for chunk in pack(costs):
        width, rows = prompts[chunk[0]][0], sum(prompts[c][1] for c in chunk)
        one = memory.cost(base, width, limit)
        largest = max(map(len, pack([one] * rows)))
        passes = (len(chunk) * costs[chunk[0]] + largest * one) * memory.update_bytes(base)
        peak = max(peak, passes + memory.beside_bytes(base, largest, width, limit))
    return peak
