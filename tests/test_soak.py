"""A run goes on for as long as it is left alone: python -m pytest -m slow tests/test_soak.py

2,000 steps of the embedded team, small ones, in a process of their own; some minutes on one core.
"""

import itertools
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from test_sandbox import alive, family
from test_train import command

STEPS, WARM = 2000, 200
SMALL = ["--batch-size", "1", "--num-generations", "2", "--max-new-tokens", "32"]
SMALL += ["--eval-limit", "2", "--save-every", "50", "--sample-every", "10"]


def look(pid: int) -> dict[str, int]:
    """What a process holds now."""
    status = Path(f"/proc/{pid}/status").read_text()
    rss = int(status.split("VmRSS:")[1].split()[0])  # KiB
    threads = int(status.split("Threads:")[1].split()[0])
    family_of = family(pid)
    return {
        "rss": rss,
        "threads": threads,
        "files": len(os.listdir(f"/proc/{pid}/fd")),
        "children": len(family_of),
        "zombies": len(family_of - alive(family_of)),
    }


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_two_thousand_steps_leak_nothing_and_do_not_slow_down(tmp_path):
    run, temporary = tmp_path / "run", tmp_path / "temporary"
    temporary.mkdir()
    environment = os.environ | {"OMP_NUM_THREADS": "1", "TMPDIR": str(temporary)}
    argv = command(*SMALL, "--max-steps", STEPS, "--run", run)
    seen, last = {}, set()  # step: what the process held then; its children
    with (tmp_path / "out").open("w") as out:
        process = subprocess.Popen(argv, stdout=out, stderr=out, env=environment)
        while process.poll() is None:
            file = run / "metrics.jsonl"
            step = file.read_bytes().count(b"\n") if file.exists() else 0
            if WARM <= step < STEPS:
                seen[step] = look(process.pid)
            last = family(process.pid) or last
            time.sleep(0.2)
    said = (tmp_path / "out").read_text()
    assert process.returncode == 0, said
    steps = sorted(seen)
    first, end = ([seen[s] for s in some] for some in (steps[:10], steps[-10:]))
    print({key: (first[0][key], end[-1][key]) for key in first[0]})
    rss = [statistics.median(row["rss"] for row in rows) for rows in (first, end)]
    seconds = time_per_step(run)
    print("rss", rss, "seconds", seconds)
    assert rss[1] < 1.02 * rss[0]
    for key in ("threads", "files", "children"):
        # candidates come and go
        assert min(row[key] for row in end) <= min(row[key] for row in first), key
    assert not min(row["zombies"] for row in end)  # a candidate is one until it is waited for
    assert seconds[1] < 1.3 * seconds[0]
    assert not alive(last)
    assert not list(temporary.iterdir())
    assert not list(run.rglob("*.tmp"))


def time_per_step(run: Path) -> list[float]:
    """Median seconds of a step early and at the end, from what TensorBoard was told when."""
    events = EventAccumulator(str(run), size_guidance={"scalars": 0})
    events.Reload()
    times = [event.wall_time for event in events.Scalars("return")]
    gaps = [after - before for before, after in itertools.pairwise(times)]
    return [statistics.median(gaps[WARM : 2 * WARM]), statistics.median(gaps[-WARM:])]
