"""Show what a long run of the embedded team holds: nothing grows but the files that are written.

    python -m bench.long --steps 2000 --at 200 1000 2000

A step is one problem with two short samples per agent. Caches are those of functools, in entries.
Each cache that grows has a bound.
"""

import argparse
import functools
import gc
import tempfile
from collections import defaultdict
from pathlib import Path

import psutil

import train
from training.recorder import Recorder

FLAGS = """--batch-size 1 --num-generations 2 --joint aligned --max-new-tokens 16 --eval-limit none
    --save-every 100 --sample-every 100 --lr 1e-5"""


def held(directory: Path) -> dict[str, float]:
    """Return what this process holds now, and the KiB of the run's files, by name."""
    process = psutil.Process()
    objects = gc.get_objects()
    caches = [thing for thing in objects if isinstance(thing, functools._lru_cache_wrapper)]
    figures = {
        "memory, MiB": process.memory_info().rss / 2**20,
        "open files": process.num_fds(),
        "threads": process.num_threads(),
        "child processes": len(process.children(recursive=True)),
        "Python objects": len(objects),
        "entries in caches": sum(cache.cache_info().currsize for cache in caches),
    }
    sizes = defaultdict(float)
    for path in directory.rglob("*"):
        name = "events" if path.name.startswith("events") else path.name
        if path.is_file():
            sizes[f"{name}, KiB"] += path.stat().st_size / 2**10
    return figures | dict(sorted(sizes.items()))


def main() -> None:
    top = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    top.add_argument("--steps", type=int, default=2000)
    top.add_argument("--at", type=int, nargs="+", default=[200, 1000, 2000])
    flags = top.parse_args()
    columns = {}
    append = Recorder.append

    def watched(self, name: str, records: list[dict]) -> None:
        append(self, name, records)
        step = records[0]["step"] + 1
        if name == "metrics.jsonl" and step in flags.at:
            columns[step] = held(self.directory)

    Recorder.append = watched
    with tempfile.TemporaryDirectory() as root:
        train.main([*FLAGS.split(), "--max-steps", str(flags.steps), "--run", f"{root}/run"])
    print(f"{'step':24}" + "".join(f"{step:10}" for step in columns))
    for name in columns[max(columns)]:
        row = [figures.get(name, 0.0) for figures in columns.values()]
        print(f"{name:24}" + "".join(f"{value:10.0f}" for value in row))


if __name__ == "__main__":
    main()
