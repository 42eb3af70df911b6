"""The floor: the same training step as bare tensor code, and how far a real one is above it.

    bench/.venv/bin/python -m bench.floor [--rounds 7] [--lora-rank 16 0] [--only 256/8/512]

The floor has no framework, tokenizer, text, reward, metric or check, and its lengths are constants.
It does the same mathematics on the same shapes: n agents (one base with an adapter each, or a copy
each), prompts run once for their G samples, in decoding and in the update, keys and values in a
buffer, one draw per token, the exact gradient of the same loss, clipped per agent, one Adam step.
What it does to be fast is in bench/fused.py.
"""

import argparse
import json
import statistics
import tempfile
from pathlib import Path

import torch

from bench import common
from bench.common import make_model, ours
from bench.fused import Floor
from bench.step import POINTS

PLAIN = [name for name, point in POINTS.items() if point.top_p == 1]  # the floor has no top-p


def measure(point: str, batch: int, rank: int, rounds: int, agents: int = 2) -> dict:
    """Seconds per problem of this project's step and of the floor's, in turn."""
    tokens, group, vocab, turns = POINTS[point][:4]
    texts = common.prompts(64, tokens, vocab)
    with tempfile.TemporaryDirectory() as folder:
        make_model(Path(folder), vocab)
        flags = f"--num-generations {group} --batch-size {batch} --lora-rank {rank}".split()
        mine = ours(folder, texts, agents, turns, flags)
        floor = Floor(folder, agents, rank)
    found: dict[str, list] = {"ours": [], "floor": []}
    for turn in range(rounds + 1):
        prompts = torch.randint(vocab, (agents, batch, tokens))
        rows = {"ours": mine.step(), "floor": floor.step(prompts, group, turns)}
        for name, parts in rows.items():
            if turn:  # the first is not counted
                found[name].append({key: value / batch for key, value in parts.items()})
    return {"point": point, "batch": batch, "agents": agents, "lora_rank": rank, "seconds": found}


def show(result: dict) -> str:
    mine, floor = result["seconds"]["ours"], result["seconds"]["floor"]
    keys = ("total", "rollout", "update")

    def ratios(key: str) -> list[float]:
        return [m[key] / f[key] for m, f in zip(mine, floor, strict=True)]

    cells = [
        " ".join(f"{statistics.median(row[key] for row in rows):7.3f}" for key in keys)
        for rows in (mine, floor)
    ]
    best = min(row["total"] for row in mine) / min(row["total"] for row in floor)
    parts = " ".join(f"{statistics.median(ratios(key)):7.2f}" for key in keys)
    return (
        f"{result['point']:13} {result['batch']:5} {result['lora_rank'] or 'full':>5} | "
        f"{cells[0]} | {cells[1]} | {parts} {best:9.2f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", nargs="*", choices=PLAIN, default=PLAIN)
    parser.add_argument("--batch", type=int, nargs="*", default=[1, 4])
    parser.add_argument("--lora-rank", type=int, nargs="*", default=[16, 0], help="0: full models")
    parser.add_argument("--json", type=Path)
    flags = parser.parse_args()
    print(common.machine())
    print(f"\nseconds per problem, medians of {flags.rounds} rounds; n = 2")
    parts = "  total rollout  update"
    print(f"{'P/G/V':13} batch  LoRA | {'ours':23} | {'floor':23} | ours / floor")
    print(f"{'':26} | {parts} | {parts} | {parts} best/best")
    results = []
    for rank in flags.lora_rank:
        for point in flags.only:
            for batch in flags.batch:
                results.append(measure(point, batch, rank, flags.rounds))
                print(show(results[-1]), flush=True)
    if flags.json:
        flags.json.write_text(json.dumps({"machine": common.machine(), "results": results}))


if __name__ == "__main__":
    main()
