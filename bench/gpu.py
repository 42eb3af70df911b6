"""Tokens per second of decoding, and seconds and memory of an update, on a GPU.

    python -m bench.gpu [--shapes 0.5B 3B] [--rows 32 128] [--bits 16 4] [--json FILE]

Models have the shapes of Qwen2.5 and random weights. Half of the rows are those of each of two
agents with adapters of rank 16, and 8 rows have one prompt. Every prompt and every response has its
full length. transformers' generate decodes as many rows by one model without adapters.

An update is the forward and backward pass of all rows. Its memory is the most that tensors took
meanwhile, less what they took before. It is measured with and without --checkpointing.
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
from magrpo import policy_loss
from policies.finding import EMBEDDED, TeamOptions
from policies.loading import device, load_model
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
AGENTS = 2
SAMPLES = 8  # of each prompt
SAMPLED = {"temperature": 1.0, "top_k": 0, "top_p": 0.95}


def make_model(shape: str, folder: Path) -> None:
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


def make_team(folder: Path, bits: int) -> Team:
    """Return two agents whose responses never end early, and whose adapters change the base."""
    team = Team(TeamOptions([str(folder)] * AGENTS, bits=bits)).to(device())
    for base in team.bases:
        base.ends = base.eos = frozenset()
    with torch.no_grad():
        for name, parameter in team.named_parameters():
            if "lora_B" in name:
                parameter.normal_(std=0.01)
    return team


def draw_prompts(rows: int, length: int) -> list[tuple[int, tuple]]:
    """Return (agent, prompt) pairs for so many rows, of random tokens."""
    count = rows // SAMPLES
    ids = torch.randint(100, 500, (count, length))  # tokens of every shape
    agents = [number * AGENTS // count for number in range(count)]
    return list(zip(agents, map(tuple, ids.tolist()), strict=True))


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


def measure_team(folder: Path, bits: int, flags) -> Iterator[dict]:
    """Yield the figures of this project's decode and update, for each number of rows."""
    team = make_team(folder, bits)
    sampling = Sampling(**SAMPLED, max_new_tokens=flags.tokens)
    for count in flags.rows:
        prompts = draw_prompts(count, flags.length)
        uniforms = torch.rand(len(prompts), SAMPLES, flags.tokens, dtype=torch.float64)
        answers = team.sample(prompts, uniforms, sampling)
        rows = []
        for (agent, prompt), responses in zip(prompts, answers, strict=True):
            for number, response in enumerate(responses):
                advantage = number - (SAMPLES - 1) / 2
                row = Row(agent, prompt, response.tokens, advantage, 1 / count)
                rows.append(row)
                assert len(response.tokens) == flags.tokens
        seconds, memory = timed(flags.rounds, team.sample, prompts, uniforms, sampling)
        yield figures("decode", count, seconds, memory, count * flags.tokens)
        for checkpointing in (False, True):
            for base in team.bases:
                base.checkpointing = checkpointing
            seconds, memory = timed(flags.rounds, update, team, rows, sampling)
            name = "update, --checkpointing" if checkpointing else "update"
            yield figures(name, count, seconds, memory, count * flags.tokens)


def update(team: Team, rows: list[Row], sampling: Sampling) -> None:
    """Take the gradient of Eq. 2 over all rows."""

    def backward(rows: list[Row], logps, mask) -> None:
        coef = logps.new_tensor([row.coef for row in rows])
        policy_loss(logps, mask, coef).backward()

    team.zero_grad()
    team.score(rows, sampling, backward)


def measure_generate(folder: Path, bits: int, flags) -> Iterator[dict]:
    """Yield the figures of transformers' generate, for each number of rows."""
    model, _ = load_model(str(folder), bits, False)
    model = model.to(device()).eval()
    for count in flags.rows:
        prompts = [prompt for _, prompt in draw_prompts(count, flags.length)]
        ids = torch.tensor(prompts, device=device())

        seconds, memory = timed(flags.rounds, generate, model, ids, flags.tokens)
        yield figures("generate", count, seconds, memory, count * flags.tokens)


@torch.inference_mode()
def generate(model, ids: torch.Tensor, tokens: int) -> None:
    """Let transformers sample so many tokens to each prompt (prompts, length), SAMPLES times."""
    model.generate(
        ids,
        attention_mask=torch.ones_like(ids),
        num_return_sequences=SAMPLES,
        do_sample=True,
        **SAMPLED,
        max_new_tokens=tokens,
        min_new_tokens=tokens,
        pad_token_id=0,
    )


def figures(name: str, rows: int, seconds: list[float], memory: float, tokens: int) -> dict:
    middle = statistics.median(seconds)
    return {
        "name": name,
        "rows": rows,
        "seconds": seconds,
        "tokens_per_second": tokens / middle,
        "memory_gib": memory,
    }


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
        with tempfile.TemporaryDirectory() as root:
            folder = Path(root)
            make_model(shape, folder)
            for bits in flags.bits:
                for measure in (measure_team, measure_generate):
                    for row in measure(folder, bits, flags):
                        middle = statistics.median(row["seconds"])
                        cells = f"{shape:5} {bits:5} {row['rows']:5}  {row['name']:24}"
                        cells += f" {middle:8.3f} {row['tokens_per_second']:10.0f}"
                        print(f"{cells} {row['memory_gib']:10.2f}", flush=True)
                        table.append({"shape": shape, "bits": bits, **row})
                    torch.cuda.empty_cache()
    if flags.json:
        write_json(flags.json, {"device": torch.cuda.get_device_name(), "rows": table})


if __name__ == "__main__":
    main()
