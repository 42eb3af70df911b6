"""Peak memory of a training process, beside the peak that --dry-run expects.

    python -m bench.memory [--card] [--only bits agents ...]

Each line is two processes: train.py with a Qwen2 of random weights (8 layers), once with --dry-run
and once for two steps. On a CPU, memory is the resident set, with Python and its libraries. With
--card it runs on the pretend card of tests/pretend, where memory is the most that tensors take at a
time.
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
BASE |= {"group": 4, "batch": 4, "turns": 1, "top_p": 1.0, "hidden": 512, "checkpointing": False}
TABLES = {
    "bits": [{"bits": bits, "turns": turns} for bits in (32, 16, 8, 4) for turns in (1, 2)],
    "agents": [{"agents": n, "rank": rank} for rank in (16, 0) for n in (1, 2, 4, 8)],
    "vocabulary": [{"vocab": 65536, "top_p": p, "group": 16} for p in (1.0, 0.9)],
    "prompt": [{"prompt": tokens} for tokens in (256, 1024, 4096)],
    "checkpointing": [{"prompt": 1024, "checkpointing": on} for on in (False, True)],
    "response": [{"response": tokens} for tokens in (256, 1024)],
    "samples": [{"group": group} for group in (8, 16)],
}


class Text:
    """A task whose prompts all differ. They start with one length and grow by another each turn."""

    takes_data = True

    def __init__(self, data=None, num_agents=2):
        self.first, self.later = json.loads(Path(data).read_text(encoding="utf-8"))
        self.num_agents = num_agents

    def items(self, split):
        return [{"task_id": str(n)} for n in range(40)]

    def observe(self, agent, item, history):
        number = zlib.crc32(repr((agent, item, history)).encode())
        bits = format(number, "032b").replace("0", " x").replace("1", " a")
        return bits + self.first[len(bits) :] + self.later * len(history)

    def feedback(self, item, responses):
        return [""] * self.num_agents


def constant(item, responses):
    return 1.0


constant.maximum = 1.0


def make_model(folder: Path | str, vocab: int, hidden: int, **changes) -> None:
    """Write a Qwen2 of random weights with the tokenizer of tiny/. No token ends a response.

    changes: other values of its configuration.
    """
    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM

    torch.manual_seed(0)
    shape = {
        "num_hidden_layers": 8,
        "intermediate_size": 3 * hidden,
        "num_attention_heads": hidden // 32,
        "num_key_value_heads": hidden // 64,
        "max_position_embeddings": 16384,
        "initializer_range": 0.1,
        "tie_word_embeddings": True,
    }
    config = Qwen2Config(vocab_size=vocab, hidden_size=hidden, **shape | changes)
    Qwen2ForCausalLM._from_config(config).save_pretrained(folder)
    for file in (ROOT / "tiny").glob("tokenizer*.json"):
        shutil.copy(file, folder)


def measured(folder: str, on_card: bool, change: dict) -> dict:
    """Return the MiB at the peak of a run, and the MiB that --dry-run expects of it."""
    setting = BASE | change
    command = [sys.executable, "train.py"]
    if on_card:
        command.insert(1, str(CARD))
    with tempfile.TemporaryDirectory() as root:
        data = Path(root) / "text.json"
        first = " x" * setting["prompt"]
        later = " x" * (setting["response"] + FEEDBACK)
        data.write_text(json.dumps([first, later]))
        flags = f"""--model {folder} --task {__file__}:Text --reward {__file__}:constant
            --data {data} --num-agents {setting["agents"]} --lora-rank {setting["rank"]}
            --bits {setting["bits"]} --num-generations {setting["group"]}
            --batch-size {setting["batch"]} --turns {setting["turns"]} --top-p {setting["top_p"]}
            --max-new-tokens {setting["response"]} --max-prompt-tokens 100000 --max-steps 2
            --joint aligned --advantage none --eval-limit none --lr 1e-4 --run {root}/run"""
        command += flags.split()
        if setting["checkpointing"]:
            command.append("--checkpointing")
        text = output(*command, "--dry-run")
        output(*command)
        lines = (Path(root) / "run" / "metrics.jsonl").read_text().splitlines()
    expected = int(re.search(r"memory expected.* (\d+) MiB", text).group(1))
    return {"expected": expected, "peak": json.loads(lines[-1])["memory_gib"] * 2**10}


def output(*command: str) -> str:
    """Run a command and return its output. End with its errors where it fails."""
    result = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    if result.returncode:
        raise SystemExit(f"{' '.join(command)}: {result.stderr[-3000:]}")
    return result.stdout


def in_words(setting: dict) -> str:
    return ", ".join(f"{name} {value}" for name, value in setting.items())


def main() -> None:
    top = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    top.add_argument("--only", nargs="*", choices=TABLES, default=list(TABLES))
    top.add_argument("--card", action="store_true")
    flags = top.parse_args()
    with tempfile.TemporaryDirectory() as root:
        for table in flags.only:
            print(f"\n{table}; otherwise {in_words(BASE)}")
            print(f"{'':40} peak MiB  expected  expected/peak")
            for change in TABLES[table]:
                setting = BASE | change
                folder = Path(root) / str(setting["vocab"])
                if not folder.exists():
                    make_model(folder, setting["vocab"], setting["hidden"])
                memory = measured(str(folder), flags.card, change)
                expected = memory["expected"]
                peak = memory["peak"]
                cells = f"{peak:8.0f}  {expected:8.0f} {expected / peak:14.2f}"
                print(f"{in_words(change):40} {cells}", flush=True)


if __name__ == "__main__":
    main()
