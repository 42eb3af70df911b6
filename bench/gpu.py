"""Tokens per second of decoding, and seconds and memory of an update, on a GPU.

    python -m bench.gpu [--shapes 0.5B 3B] [--rows 32 128] [--bits 16 4]

Models have the shapes of Qwen2.5 and random weights. Decoding is that of bench.engine: two agents
with adapters and 8 rows a prompt, with and without the graph of policies/fast/. Beside it stands
transformers' generate, by one model without adapters. An update is the forward and backward pass of
all rows, with and without --checkpointing. Memory is the most that tensors took meanwhile, less
what they took before.
"""

import argparse
import tempfile
from collections.abc import Callable, Iterator
from time import perf_counter

import torch

import train
from bench.engine import AGENTS, make_generate, make_sampler, make_team, random_prompts
from bench.memory import make_model
from magrpo import policy_loss
from policies.fast import decoding
from policies.fast.graphs import Graph
from policies.loading import device
from policies.logprobs import Row
from policies.sampling import Sampling
from policies.team import Team

SHAPES = {  # layers, units of a layer and of its feed-forward part, heads, vocabulary
    "tiny": (2, 128, 384, 4, 512),  # for a test
    "0.5B": (24, 896, 4864, 14, 151936),
    "1.5B": (28, 1536, 8960, 12, 151936),
    "3B": (36, 2048, 11008, 16, 151936),
}
SAMPLES = 8  # rows a prompt


def write_model(shape: str, folder: str) -> None:
    """Write a model of random weights in 16 bits."""
    layers, hidden, inner, heads, vocab = SHAPES[shape]
    with torch.device(device()):
        make_model(
            folder,
            vocab,
            hidden,
            num_hidden_layers=layers,
            intermediate_size=inner,
            num_attention_heads=heads,
            num_key_value_heads=2,
            initializer_range=0.02,
            dtype=torch.bfloat16,
        )


def timed(work: Callable, *args) -> tuple:
    """Return what work(*args) returns, its seconds the second time, and GiB at the peak."""
    work(*args)
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    start = perf_counter()
    result = work(*args)
    torch.cuda.synchronize()
    seconds = perf_counter() - start
    return result, seconds, (torch.cuda.max_memory_allocated() - before) / 2**30


def update(team: Team, rows: list[Row], sampling: Sampling) -> None:
    """Take the gradient of Eq. 2 over all rows."""

    def backward(rows: list[Row], logps, mask) -> None:
        coef = logps.new_tensor([row.coef for row in rows])
        policy_loss(logps, mask, coef).backward()

    team.zero_grad()
    team.score(rows, sampling, backward)


class NoGraph:
    """Stand in for Graph, and launch the kernels of every call."""

    def __call__(self, step: Callable, *tensors):
        return step(*tensors)


def measure(args) -> Iterator[tuple]:
    """Yield (rows, name, seconds, GiB) of each kind of work, for each number of rows."""
    team = make_team(args)
    sampling = Sampling(1.0, 0, 1.0, args.tokens)
    for rows in args.rows:
        args.prompts = rows // SAMPLES
        prompts = random_prompts(args, 0)
        for name, graph in (("decode, no graph", NoGraph), ("decode", Graph)):
            decoding.Graph = graph
            responses, *figures = timed(make_sampler(args, team.sample), prompts, 0)
            yield rows, name, *figures
        batch = []
        for number, tokens in enumerate(responses):
            prompt = prompts[number // SAMPLES]
            advantage = number % SAMPLES - (SAMPLES - 1) / 2
            batch.append(Row(number * AGENTS // rows, prompt, tokens, advantage, 1 / rows))
        for name in ("update", "update, --checkpointing"):
            for base in team.bases:
                base.checkpointing = name != "update"
            _, *figures = timed(update, team, batch, sampling)
            yield rows, name, *figures
    del team
    generate = make_generate(args)
    for rows in args.rows:
        args.prompts = rows // SAMPLES
        _, *figures = timed(generate, random_prompts(args, 0), 0)
        yield rows, "generate", *figures


def main() -> None:
    parser = argparse.ArgumentParser("bench.gpu", description=__doc__.splitlines()[0])
    parser.add_argument("--shapes", nargs="*", choices=SHAPES, default=["0.5B", "3B"])
    parser.add_argument("--rows", type=int, nargs="*", default=[32, 128])
    parser.add_argument("--bits", type=int, nargs="*", choices=(32, 16, 8, 4), default=[16, 4])
    parser.add_argument("--length", type=int, default=450, help="tokens per prompt")
    parser.add_argument("--tokens", type=int, default=64, help="tokens per response")
    flags = parser.parse_args()
    train.quiet()
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}")
    print(f"prompts of {flags.length} tokens, {SAMPLES} responses each, {flags.tokens} tokens")
    print("shape  bits  rows  what                      seconds   tokens/s   GiB more")
    for shape in flags.shapes:
        with tempfile.TemporaryDirectory() as folder:
            write_model(shape, folder)
            for bits in flags.bits:
                setting = {"model": folder, "bits": bits, "samples": SAMPLES}
                args = argparse.Namespace(**vars(flags) | setting)
                for rows, name, seconds, memory in measure(args):
                    cells = f"{shape:5} {bits:5} {rows:5}  {name:24}"
                    rate = rows * flags.tokens / seconds
                    print(f"{cells} {seconds:8.3f} {rate:10.0f} {memory:10.2f}", flush=True)
                torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
