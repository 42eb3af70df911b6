"""CPU seconds and memory of a step of the embedded team, as the team and the group grow.

    python -m bench.growth

Each line is a process of its own that makes one step of few problems. Seconds are of the CPU, so a
busy machine changes little. The reward's include the sandbox's. Memory is this process's.
"""

import json
import os
import subprocess
import sys
import time

import train
from bench import common

PROBLEMS = 4
SETTINGS = [f"--num-agents {agents} --joint 4" for agents in (2, 4, 8)]
SETTINGS += ["--num-agents 4 --joint cross --num-generations 4"]
for group in (4, 8, 16, 32):
    SETTINGS += [f"--joint {joint} --num-generations {group}" for joint in ("4", "cross")]
PARTS = ("rollout", "reward", "update")


def one_step(argv: list[str]) -> None:
    """Print the figures of a step with these flags as a line of JSON."""
    from magrpo import MAGRPO
    from programs import teams
    from training.metrics import memory_gib
    from training.report import joint_responses

    flags = f"--batch-size {PROBLEMS} --eval-limit none --bits 32"
    module, _ = train.build(train.parse([*argv, *flags.split()]))
    optimizer = module.configure_optimizers()
    optimizer.optimizer = optimizer
    module.optimizers = lambda: optimizer
    module.manual_backward = lambda loss: loss.backward()
    MAGRPO.global_step = 0
    before = memory_gib()
    time.perf_counter = time.process_time  # the rollout's clock
    module.training_step(0, 0)
    teams.box.close()
    times = os.times()
    module.rollout.seconds["reward"] += times.children_user + times.children_system
    figures = {name: module.rollout.seconds[name] for name in PARTS}
    figures["memory"] = (memory_gib() - before) * 2**10
    figures["joints"] = joint_responses(module.algorithm, module.team.size, 1) / PROBLEMS
    print(json.dumps(figures))


def main() -> None:
    if sys.argv[1:]:
        return one_step(sys.argv[1:])
    print(common.machine())
    print(f"{'':45} joint" + "".join(f"{name:>9}" for name in PARTS) + "   MiB more")
    for setting in SETTINGS:
        command = [sys.executable, "-m", "bench.growth", *setting.split()]
        output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        figures = json.loads(output.splitlines()[-1])
        seconds = "".join(f"{figures[name]:9.2f}" for name in PARTS)
        joints = f"{figures['joints']:6.0f}"
        print(f"{setting:44} {joints}{seconds} {figures['memory']:10.0f}", flush=True)


if __name__ == "__main__":
    main()
