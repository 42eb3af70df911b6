"""Tokens per second of decoding, and seconds and memory of an update, on a GPU.

    python -m bench.gpu [--shapes 0.5B 3B] [--rows 32 128] [--bits 16 4] [--json FILE]

Models have the shapes of Qwen2.5 and random weights. Decoding is that of bench.engine: two agents
with adapters, 8 rows a prompt, and transformers' generate by one model without adapters. An update
is the forward and backward pass of all rows, with and without --checkpointing. Memory is the most
that tensors took meanwhile, less what they took before.
"""

import argparse
import shutil
import statistics
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from time import perf_counter

import torch
from transformers import Qwen2Config, Qwen2ForCausalLM

import train
from bench.engine import AGENTS, make_generate, make_sampler, make_team, random_prompts
from magrpo import policy_loss
from policies.finding import EMBEDDED
from policies.loading import device
from policies.sampling import Sampling
from policies.scoring import Row
from policies.team import Team
from training.folder import write_json

COLUMNS = ("hidden_size", "num_hidden_layers", "intermediate_size", "num_attention_heads")
COLUMNS += ("vocab_size",)
SHAPES = {
    "tiny": (128, 2, 384, 4, 512),  # for a test
    "0.5B": (896, 24, 4864, 14, 151936),
    "1.5B": (1536, 28, 8960, 12, 151936),
    "3B": (2048, 36, 11008, 16, 151936),
}
SAMPLES = 8  # rows a prompt


def make_model(shape: str, folder: str) -> None:
    """Write a Qwen2 of random weights in 16 bits, with the tokenizer of tiny/."""
    torch.manual_seed(0)
    config = Qwen2Config(
        **dict(zip(COLUMNS, SHAPES[shape], strict=True)),
        num_key_value_heads=2,
        max_position_embeddings=8192,
        tie_word_embeddings=True,
        dtype=torch.bfloat16,
    )
    with torch.device(device()):
        model = Qwen2ForCausalLM._from_config(config)
    model.save_pretrained(folder)
    for file in EMBEDDED.glob("tokenizer*.json"):
        shutil.copy(file, folder)


def timed(rounds: int, work: Callable, *args) -> tuple[list[float], float]:
    """Return the seconds of each round after one that is not counted, and GiB at the peak."""
    seconds = []
    for number in range(rounds + 1):
        torch.cuda.synchronize()
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        start = perf_counter()
        work(*args)
        torch.cuda.synchronize()
        if number:
            seconds.append(perf_counter() - start)
    return seconds, (torch.cuda.max_memory_allocated() - before) / 2**30


def update(team: Team, rows: list[Row], sampling: Sampling) -> None:
    """Take the gradient of Eq. 2 over all rows."""

    def backward(rows: list[Row], logps, mask) -> None:
        coef = logps.new_tensor([row.coef for row in rows])
        policy_loss(logps, mask, coef).backward()

    team.zero_grad()
    team.score(rows, sampling, backward)


def measure(args) -> Iterator[dict]:
    """Yield the figures of each kind of work, for each number of rows."""
    team = make_team(args)
    for rows in args.rows:
        args.prompts = rows // SAMPLES
        prompts = random_prompts(args, 0)
        decode = make_sampler(args, team.sample)
        yield figures("decode", rows, *timed(args.rounds, decode, prompts, 0))
        batch = []
        for number, tokens in enumerate(decode(prompts, 0)):
            prompt = prompts[number // SAMPLES]
            advantage = number % SAMPLES - (SAMPLES - 1) / 2
            batch.append(Row(number * AGENTS // rows, prompt, tokens, advantage, 1 / rows))
        for checkpointing in (False, True):
            for base in team.bases:
                base.checkpointing = checkpointing
            sampling = Sampling(1.0, 0, 1.0, args.tokens)
            name = "update, --checkpointing" if checkpointing else "update"
            yield figures(name, rows, *timed(args.rounds, update, team, batch, sampling))
    del team, decode
    generate = make_generate(args)
    for rows in args.rows:
        args.prompts = rows // SAMPLES
        prompts = random_prompts(args, 0)
        yield figures("generate", rows, *timed(args.rounds, generate, prompts, 0))


def figures(name: str, rows: int, seconds: list[float], memory: float) -> dict:
    return {"name": name, "rows": rows, "seconds": seconds, "memory_gib": memory}


def main() -> None:
    parser = argparse.ArgumentParser("bench.gpu", description=__doc__.splitlines()[0])
    parser.add_argument("--shapes", nargs="*", choices=SHAPES, default=["0.5B", "3B"])
    parser.add_argument("--rows", type=int, nargs="*", default=[32, 128])
    parser.add_argument("--bits", type=int, nargs="*", choices=(32, 16, 8, 4), default=[16, 4])
    parser.add_argument("--length", type=int, default=450, help="tokens per prompt")
    parser.add_argument("--tokens", type=int, default=64, help="tokens per response")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--json", type=Path)
    flags = parser.parse_args()
    train.quiet()
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}")
    print(f"prompts of {flags.length} tokens, {SAMPLES} responses each, {flags.tokens} tokens")
    print("shape  bits  rows  what                      seconds   tokens/s   GiB more")
    table = []
    for shape in flags.shapes:
        with tempfile.TemporaryDirectory() as folder:
            make_model(shape, folder)
            for bits in flags.bits:
                setting = {"model": folder, "bits": bits, "samples": SAMPLES}
                args = argparse.Namespace(**vars(flags) | setting)
                for row in measure(args):
                    middle = statistics.median(row["seconds"])
                    rate = row["rows"] * flags.tokens / middle
                    cells = f"{shape:5} {bits:5} {row['rows']:5}  {row['name']:24}"
                    cells += f" {middle:8.3f} {rate:10.0f} {row['memory_gib']:10.2f}"
                    print(cells, flush=True)
                    table.append({"shape": shape, "bits": bits, **row})
                torch.cuda.empty_cache()
    if flags.json:
        write_json(flags.json, {"device": torch.cuda.get_device_name(), "rows": table})


if __name__ == "__main__":
    main()
