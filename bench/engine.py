"""Tokens per second of transformers' generate, this project's decode, and a server.

    python -m bench.engine --model DIR --url http://127.0.0.1:8000 [--bits 16]

Two agents answer prompts of random tokens. No prompt comes twice, so a cache of prompts does not
help. Every response has exactly --tokens tokens. The samplers take turns in one process. Without
--url the server is left out. transformers' generate runs one model without adapters. The other two
run two agents with adapters of rank 16. OMP_NUM_THREADS=1 sets the threads, here and for the
server. docs/processes.md has the server's command line.
"""

import argparse
import statistics
import time
from collections.abc import Callable

import torch

import train
from policies.model_names import TeamOptions
from policies.sampling import Sampling
from training.flags import part_of

AGENTS = 2


def make_team(args):
    """Return two agents whose adapters change the base and whose responses never end early."""
    from policies.loading import device
    from policies.team import Team
    from training.acceleration import accelerate

    flags = f"--num-agents {AGENTS} --bits {args.bits} --lora-rank 16"
    flags = train.parse(["--model", args.model, *flags.split()])
    team = Team(part_of(flags, TeamOptions))
    accelerate(team.bases)
    team.to(device())
    for base in team.bases:
        base.codec.eos = frozenset()
    with torch.no_grad():
        for name, parameter in team.named_parameters():
            if "lora_B" in name:
                parameter.normal_(std=0.01)
    return team


def make_generate(args) -> Callable:
    """Return transformers' generate as a function of (prompts, step)."""
    from policies.loading import device, load_model

    model, _ = load_model(args.model, args.bits)
    model = model.to(device()).eval()

    @torch.inference_mode()
    def generate(prompts: list[tuple], step: int) -> list:
        torch.manual_seed(step)
        ids = torch.tensor(prompts, device=model.device)
        rows = model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            num_return_sequences=args.samples,
            do_sample=True,
            temperature=1.0,
            top_k=0,
            top_p=1.0,
            max_new_tokens=args.tokens,
            min_new_tokens=args.tokens,
            pad_token_id=0,  # of no use: every row has its full length
        )
        return rows[:, ids.shape[1] :].tolist()

    return generate


def make_sampler(args, sample: Callable) -> Callable:
    """Return a team's or a server's sample as a function of (prompts, step)."""
    sampling = Sampling(1.0, 0, 1.0, args.tokens)
    agents = [number * AGENTS // args.prompts for number in range(args.prompts)]

    def sampler(prompts: list[tuple], step: int) -> list[list[int]]:
        draw = torch.Generator().manual_seed(step)
        shape = (args.prompts, args.samples, args.tokens)
        uniforms = torch.rand(shape, generator=draw, dtype=torch.float64)
        groups = sample(list(zip(agents, prompts, strict=True)), uniforms, sampling)
        return [response.tokens for group in groups for response in group]

    return sampler


def random_prompts(args, step: int) -> list[tuple]:
    """Return the prompts of a step, as token ids."""
    draw = torch.Generator().manual_seed(step)
    ids = torch.randint(100, 500, (args.prompts, args.length), generator=draw)
    return [tuple(row) for row in ids.tolist()]


def make_samplers(args) -> dict[str, Callable]:
    """Return a function of (prompts, step) by name. Each returns the tokens of all responses."""
    team = make_team(args)
    samplers = {"transformers": make_generate(args), "ours": make_sampler(args, team.sample)}
    if args.url:
        from policies.engine import connect

        served = make_team(args)
        connect(served, [args.url])
        samplers["server"] = make_sampler(args, served.sample)
    return samplers


def measure(args) -> dict[str, list[float]]:
    """Return tokens per second by sampler and round, after one round that is not counted."""
    samplers = make_samplers(args)
    rates = {name: [] for name in samplers}
    for step in range(args.rounds + 1):
        prompts = random_prompts(args, step)
        names = list(samplers)
        if step % 2 == 0:
            names.reverse()
        for name in names:
            start = time.perf_counter()
            responses = samplers[name](prompts, step)
            seconds = time.perf_counter() - start
            lengths = [len(tokens) for tokens in responses]
            assert lengths == [args.tokens] * args.prompts * args.samples, (name, lengths)
            if step:
                rates[name].append(sum(lengths) / seconds)
                print(f"{name} {rates[name][-1]:.0f}", flush=True)
    return rates


def main() -> None:
    top = argparse.ArgumentParser("bench.engine", description=__doc__.splitlines()[0])
    top.add_argument("--model", required=True)
    top.add_argument("--url")
    top.add_argument("--bits", type=int, choices=(32, 16), default=32)
    top.add_argument("--prompts", type=int, default=6)
    top.add_argument("--samples", type=int, default=4, help="samples per prompt")
    top.add_argument("--length", type=int, default=300, help="tokens per prompt")
    top.add_argument("--tokens", type=int, default=96, help="tokens per sample")
    top.add_argument("--rounds", type=int, default=3)
    args = top.parse_args()
    train.quiet()
    rates = measure(args)
    print(f"\n{args.prompts} prompts of {args.length} tokens, {args.samples} samples of each,")
    print(f"{args.tokens} tokens a sample, {args.bits} bits: tokens per second, median of rounds")
    for name, values in rates.items():
        middle = statistics.median(values)
        print(f"{name:<14}{middle:8.0f}   ({min(values):.0f} to {max(values):.0f})")


if __name__ == "__main__":
    main()
