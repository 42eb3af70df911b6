"""Tokens per second of sampling: transformers' generate, this project's decode, and a server.

    python -m bench.engine --model FILE.gguf --write DIR       # as a server can hold it
    python -m bench.engine --model DIR --url http://127.0.0.1:8000 [--bits 16] [--json FILE]

Two agents answer prompts of random tokens, never the same twice, so that no cache of prompts helps;
every response has exactly --tokens tokens. The three take turns in one process; without --url there
are two. transformers' generate samples for one model without adapters; the other two for two agents
with adapters of rank 16. Threads and cards are the environment's: OMP_NUM_THREADS=1 here, and the
same for the server. docs/processes.md has the server's command line.
"""

import argparse
import statistics
import time
from pathlib import Path

import torch

import train
from training.folder import write_json

AGENTS = 2


def write(name: str, folder: str) -> None:
    """Writes a model as plain safetensors in 16 bits, which servers and transformers load."""
    from policies.loading import load_model

    model, tokenizer = load_model(name, 32, False)
    vars(model.config).pop("quantization_config", None)  # of a .gguf, which is unpacked by now
    model.to(torch.bfloat16).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def contenders(args) -> dict:
    """By name: a function of (prompts, samples, step) that samples."""
    from transformers import AutoModelForCausalLM

    from policies.decoding import decode
    from policies.engine import Engine
    from policies.loading import device
    from policies.sampling import Sampling
    from policies.team import Team

    own = {"model": [args.model] * AGENTS, "bits": args.bits, "trust_remote_code": False}
    own |= {"lora_rank": 16, "lora_alpha": 32, "share": False, "template_arg": {}}
    team = Team(argparse.Namespace(**own)).to(device())
    (base,) = team.bases
    base.ends = frozenset()  # no response ends before its last token
    with torch.no_grad():
        for name, parameter in base.named_parameters():
            if "lora_B" in name:
                parameter.normal_(std=0.01)
    kind = torch.float32 if args.bits == 32 else torch.bfloat16
    plain = AutoModelForCausalLM.from_pretrained(args.model, dtype=kind).to(device()).eval()
    sampling = Sampling(1.0, 0, 1.0, args.tokens)
    owners = [prompt * AGENTS // args.prompts for prompt in range(args.prompts)]  # by agent

    def uniforms(step: int):
        shape = (args.prompts, args.samples, args.tokens)
        random = torch.Generator().manual_seed(step)
        return torch.rand(shape, generator=random, dtype=torch.float64)

    def ours(prompts, step):
        return decode(base, prompts, owners, uniforms(step), sampling)

    @torch.inference_mode()
    def generate(prompts, step):
        torch.manual_seed(step)
        ids = torch.tensor(prompts, device=plain.device)
        how = {"do_sample": True, "temperature": 1.0, "top_k": 0, "top_p": 1.0}
        size = {"max_new_tokens": args.tokens, "min_new_tokens": args.tokens}
        found = plain.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            num_return_sequences=args.samples,
            **how,
            **size,
        )
        return found[:, ids.shape[1] :].unflatten(0, (args.prompts, args.samples))

    def server(prompts, step):
        pairs = list(zip(owners, prompts, strict=True))
        return engine.sample(pairs, uniforms(step), sampling)

    found = {"transformers": generate, "ours": ours}
    if args.url:
        engine = Engine(team, [args.url], None)
        engine.probe(sampling)
        found["server"] = server
    return found


def measure(args) -> dict[str, list[float]]:
    """Tokens per second of each contender and round, after one that is not counted."""
    found = contenders(args)
    rates = {name: [] for name in found}
    rows = args.prompts * args.samples
    for step in range(args.rounds + 1):
        random = torch.Generator().manual_seed(step)
        ids = torch.randint(100, 500, (args.prompts, args.length), generator=random)
        prompts = list(map(tuple, ids.tolist()))
        for name in found if step % 2 else reversed(found):
            start = time.perf_counter()
            responses = found[name](prompts, step)
            seconds = time.perf_counter() - start
            sizes = [len(getattr(r, "tokens", r)) for group in responses for r in group]
            assert sizes == [args.tokens] * rows, (name, sizes)
            if step:
                rates[name].append(rows * args.tokens / seconds)
                print(f"{name} {rates[name][-1]:.0f}", flush=True)
    return rates


def main() -> None:
    top = argparse.ArgumentParser("bench.engine", description=__doc__.splitlines()[0])
    top.add_argument("--model", required=True)
    top.add_argument("--write", metavar="DIR")
    top.add_argument("--url")
    top.add_argument("--bits", type=int, choices=(32, 16), default=32)
    for name, default in (("prompts", 6), ("samples", 4), ("length", 300), ("tokens", 96)):
        top.add_argument(f"--{name}", type=int, default=default)
    top.add_argument("--rounds", type=int, default=3)
    top.add_argument("--json", metavar="FILE")
    args = top.parse_args()
    train.quiet()
    if args.write:
        return write(args.model, args.write)
    rates = measure(args)
    print(f"\n{args.prompts} prompts of {args.length} tokens, {args.samples} samples of each,")
    print(f"{args.tokens} tokens a sample, {args.bits} bits: tokens per second, median of rounds")
    for name, values in rates.items():
        low, high = min(values), max(values)
        print(f"{name:<14}{statistics.median(values):8.0f}   ({low:.0f} to {high:.0f})")
    if args.json:
        write_json(Path(args.json), {"flags": vars(args), "rates": rates})


if __name__ == "__main__":
    main()
