"""Peak memory of a training process, and what --dry-run expects of it.

    bench/.venv/bin/python -m bench.memory [--only agents bits vocabulary prompt response]

Each line is a process of its own that loads a team (Qwen2, hidden 512, 8 layers, random weights)
and makes three training steps; "peak" is its VmHWM, the largest resident set that the kernel saw.
"over imports" is that less the peak of a process that only imports the same libraries; beside it
stands what `train.py --dry-run` would print for these flags, and the ratio of the two.

The machine gives memory back late and rounds it up: a few per cent come and go between runs.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from bench import common

BASE = {"agents": 2, "rank": 16, "bits": 32, "vocab": 512, "prompt": 64, "response": 64}
BASE |= {"group": 4, "batch": 1}
TABLES = {
    "agents": [
        {"agents": n, "rank": rank} for rank in (16, 0) for n in (1, 2, 4, 8)
    ],  # rank 0: full copies
    "bits": [{"agents": n, "bits": bits} for bits in (32, 16, 8, 4) for n in (1, 8)],
    "vocabulary": [{"vocab": vocab} for vocab in (512, 8192, 32768)],
    "prompt": [{"prompt": tokens} for tokens in (64, 256, 1024, 4096)],
    "response": [{"response": tokens} for tokens in (64, 256, 1024)],
    "samples": [{"group": group, "batch": 4} for group in (4, 8, 16)],
}


def high_water() -> float:
    """Largest resident set of this process so far, in MiB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("VmHWM"))) / 1024


def child(folder: str, setting: dict) -> None:
    """What a measured process does; without a folder it only imports."""
    import lightning  # noqa: F401

    import magrpo  # noqa: F401

    if setting["bits"] < 16:
        import bitsandbytes  # noqa: F401
    expected = 0.0
    if folder:
        flags = (
            f"--num-generations {setting['group']} --batch-size {setting['batch']} "
            f"--lora-rank {setting['rank']} --bits {setting['bits']} "
            f"--max-new-tokens {setting['response']} --max-prompt-tokens 100000"
        ).split()
        texts = common.prompts(8, setting["prompt"], setting["vocab"])
        team = common.ours(folder, texts, setting["agents"], 1, flags)
        module = team.module
        expected = sum(common.train.memory(b, module, module.args) for b in module.team.bases)
        for _ in range(3):
            team.step()
    print(json.dumps({"peak": high_water(), "expected": expected / 2**20}))


def run(folder: str, setting: dict) -> dict:
    command = [sys.executable, "-m", "bench.memory", "--child", folder, json.dumps(setting)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{setting}: {done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    if sys.argv[1:2] == ["--child"]:
        return child(sys.argv[2], json.loads(sys.argv[3]))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="*", choices=TABLES, default=list(TABLES))
    parser.add_argument("--json", type=Path)
    flags = parser.parse_args()
    print(common.machine())
    results, folders, imports = [], {}, {}
    with tempfile.TemporaryDirectory() as root:
        for table in flags.only:
            print(f"\n{table}; otherwise " + ", ".join(f"{k} {v}" for k, v in BASE.items()))
            print(f"{'':32} peak MiB  over imports  dry-run  dry-run/measured  of the first")
            first = None
            for change in TABLES[table]:
                setting = BASE | change
                vocab, few = setting["vocab"], setting["bits"] < 16
                if vocab not in folders:
                    path = Path(root) / str(vocab)
                    folders[vocab] = common.make_model(path, vocab, hidden=512, layers=8)
                if few not in imports:
                    imports[few] = run("", setting)["peak"]
                found = run(folders[vocab], setting)
                first = first or found["peak"]
                over = found["peak"] - imports[few]
                results.append({"table": table} | setting | found | {"imports": imports[few]})
                name = ", ".join(f"{k} {v}" for k, v in change.items())
                print(
                    f"{name:32} {found['peak']:8.0f} {over:13.0f} {found['expected']:8.0f} "
                    f"{found['expected'] / over:17.2f} {found['peak'] / first:13.2f}",
                    flush=True,
                )
    if flags.json:
        flags.json.write_text(json.dumps({"machine": common.machine(), "results": results}))


if __name__ == "__main__":
    main()
