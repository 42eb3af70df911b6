"""Peak memory of a training process, beside what --dry-run expects of it.

    python -m bench.memory [--card] [--only bits agents ...]

Each line is two processes: train.py with a Qwen2 of random weights (8 layers), once with --dry-run
and once for two steps. On a CPU it is the resident set, with Python and its libraries; --card runs
on the pretend card of tests/pretend, where it is what tensors take at most at a time.
"""

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
import zlib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CARD = ROOT / "tests" / "pretend" / "card.py"
FEEDBACK = 32  # tokens between two turns
BASE = {"agents": 2, "rank": 16, "bits": 32, "vocab": 8192, "prompt": 64, "response": 64}
BASE |= {"group": 4, "batch": 4, "turns": 1, "top_p": 1.0, "hidden": 512}
TABLES = {
    "bits": [{"bits": bits, "turns": turns} for bits in (32, 16, 8, 4) for turns in (1, 2)],
    "agents": [{"agents": n, "rank": rank} for rank in (16, 0) for n in (1, 2, 4, 8)],
    "vocabulary": [{"vocab": 65536, "top_p": p, "group": 16} for p in (1.0, 0.9)],
    "prompt": [{"prompt": tokens} for tokens in (256, 1024, 4096)],
    "response": [{"response": tokens} for tokens in (256, 1024)],
    "samples": [{"group": group} for group in (8, 16)],
}


class Text:
    """A task whose prompts, no two of them alike, have the length of the file's text, and grow by
    as much each turn."""

    reward = "memory.pay"

    def __init__(self, data=None, num_agents=2):
        self.first, self.then = json.loads(Path(data).read_text())
        self.num_agents = num_agents

    def items(self, split):
        return [{"task_id": str(n)} for n in range(40)]

    def observe(self, agent, item, history):
        number = zlib.crc32(repr((agent, item, history)).encode())
        own = format(number, "032b").replace("0", " x").replace("1", " a")
        return own + self.first[len(own) :] + self.then * len(history)

    def feedback(self, item, responses):
        return [""] * self.num_agents


def pay(item, responses):
    return 1.0


pay.maximum = 1.0


def make_model(folder: Path, vocab: int, hidden: int) -> None:
    """A Qwen2 of random weights under the tokenizer of tiny/, of whose tokens it ends with none."""
    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM

    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=vocab,
        hidden_size=hidden,
        num_hidden_layers=8,
        intermediate_size=3 * hidden,
        num_attention_heads=hidden // 32,
        num_key_value_heads=hidden // 64,
        max_position_embeddings=16384,
        initializer_range=0.1,
        tie_word_embeddings=True,
    )
    Qwen2ForCausalLM(config).save_pretrained(folder)
    for file in (ROOT / "tiny").glob("tokenizer*.json"):
        shutil.copy(file, folder)


def measured(folder: str, on_card: bool, setting: dict) -> dict:
    """MiB at the peak of a run, and what --dry-run expects: each a process of its own."""
    setting, said = BASE | setting, ""
    with tempfile.TemporaryDirectory() as here:
        data = Path(here) / "text.json"
        texts = [" x" * setting["prompt"], " x" * (setting["response"] + FEEDBACK)]
        data.write_text(json.dumps(texts))
        flags = f"""--model {folder} --task {__file__}:Text --reward {__file__}:pay --data {data}
            --num-agents {setting["agents"]} --lora-rank {setting["rank"]} --bits {setting["bits"]}
            --num-generations {setting["group"]} --batch-size {setting["batch"]} --joint aligned
            --advantage none --eval-limit none
            --turns {setting["turns"]} --max-new-tokens {setting["response"]} --max-steps 2
            --max-prompt-tokens 100000 --top-p {setting["top_p"]} --lr 1e-4 --run {here}/run"""
        start = [sys.executable, *([str(CARD)] if on_card else []), "train.py", *flags.split()]
        for more in (["--dry-run"], []):
            done = subprocess.run([*start, *more], capture_output=True, text=True, cwd=ROOT)
            if done.returncode:
                raise SystemExit(f"{setting}: {done.stderr[-3000:]}")
            said += done.stdout
        rows = (Path(here) / "run" / "metrics.jsonl").read_text().splitlines()
    expected = int(re.search(r"memory expected.* (\d+) MiB", said).group(1))
    return {"expected": expected, "peak": json.loads(rows[-1])["memory_gib"] * 2**10}


def main() -> None:
    top = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    top.add_argument("--only", nargs="*", choices=TABLES, default=list(TABLES))
    top.add_argument("--card", action="store_true")
    flags = top.parse_args()
    with tempfile.TemporaryDirectory() as root:
        for table in flags.only:
            print(f"\n{table}; otherwise " + ", ".join(f"{k} {v}" for k, v in BASE.items()))
            print(f"{'':40} peak MiB  expected  expected/peak")
            for change in TABLES[table]:
                setting = BASE | change
                folder = Path(root) / str(setting["vocab"])
                if not folder.exists():
                    make_model(folder, setting["vocab"], setting["hidden"])
                found = measured(str(folder), flags.card, change)
                name = ", ".join(f"{k} {v}" for k, v in change.items())
                ratio = found["expected"] / found["peak"]
                print(
                    f"{name:40} {found['peak']:8.0f}  {found['expected']:8.0f} {ratio:14.2f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
