"""Resolve the flags of train.py that were not given.

`resolve` needs the flags alone, `resolve_steps` the number of problems, `resolve_bits` torch.
"""

import json
import math
import time
from pathlib import Path

from policies import finding
from policies.finding import bases, located
from training.contract import called
from training.flags import conflict, each, trusts
from training.plugins import task_class

STEPS = 130  # --max-steps
JOINTS = 4  # --joint from three agents on (docs/results/teams.md)
CLIP = [0.2, 0.2]  # --clip with several updates
RATES = {"adapters": 1e-4, "full": 1e-5}  # --lr where the model's folder does not say it
TURNS = 10  # of the probe for --bits


def resolve(args) -> None:
    """Fill in what the flags alone decide. Raise ValueError if they do not go together."""
    if not args.model:
        model = task_class(args.task).model
        if callable(model):
            model = called("the task's model", model, args.num_agents)
        args.model = [located(str(model or "tiny"))]
    args.model = each(args.model, args.num_agents)
    rates = args.lr or [min(learning_rate(name, args.lora_rank > 0) for name in args.model)]
    args.lr = each(rates, args.num_agents)
    args.template_arg = args.template_arg or {}
    args.task_arg = args.task_arg or {}
    args.freeze = sorted(set(args.freeze or ()))
    if args.clip is None and args.updates > 1:
        args.clip = CLIP
    if args.joint is None:
        args.joint = "cross"
        if args.num_agents > 2:
            args.joint = min(JOINTS, args.num_generations ** (args.num_agents - 1))
    if args.optimism is None:
        args.optimism = 1.0 if trusts(args) else 0.0
    if wrong := conflict(args):
        raise ValueError(wrong)


def learning_rate(name: str, adapters: bool) -> float:
    """Return --lr for a model's adapters or full copies. The model's folder may say it.

    A pretrained model bears a much smaller rate than an embedded one.
    """
    file = Path(bases(name)[-1], "learning_rate.json")
    rates = json.loads(file.read_text("utf-8-sig")) if file.is_file() else RATES
    return rates["adapters" if adapters else "full"]


def resolve_steps(args, problems: int) -> None:
    """Fill in --max-steps: the steps of --epochs, 1 or more, or STEPS."""
    if args.epochs and not args.max_steps:
        per_step = args.batch_size * args.processes
        args.max_steps = max(math.ceil(int(args.epochs * problems) / per_step), 1)
    args.max_steps = args.max_steps or STEPS


def resolve_bits(args) -> None:
    """Fill in --bits, and print what a probe found.

    Trained weights need 32, and the embedded models are too small to gain. A GPU that computes in
    bf16 takes 16, an older one 32. A CPU takes the faster of 16 and 32. Several processes take 32,
    because each might find another one.
    """
    if args.bits is not None:
        return
    args.bits = 32
    if args.lora_rank == 0 or all(map(is_embedded, args.model)):
        return
    from policies.loading import device, has_bf16

    place = device()
    if place.type != "cpu":
        args.bits = 16 if has_bf16(place) else 32
    elif args.processes == 1:
        seconds = seconds_of_a_token()
        args.bits, slower = sorted(seconds, key=seconds.get)
        ratio = seconds[slower] / seconds[args.bits]
        print(
            f"bits:    {args.bits}, {slower} bits take {ratio:.1f} times as long on this CPU "
            "(--bits: another number)",
            flush=True,
        )


def is_embedded(name: str) -> bool:
    """Return whether a model is one of those in tiny/, or an adapter on it."""
    return Path(bases(name)[-1]).resolve().is_relative_to(finding.EMBEDDED)


def seconds_of_a_token() -> dict[int, float]:
    """Return the CPU seconds that a token takes in the products with one frozen weight, by bits.

    Decoding multiplies few rows at a time. The update multiplies many, forwards and backwards. A
    CPU's instructions for 16 bits may speed up one and slow down the other. The weight is that of a
    feed-forward layer in a model of 135 million parameters. The probe uses one thread and takes
    turns, and the smallest time counts, so that other jobs on the machine do not decide.
    """
    import torch

    dtypes = {16: torch.bfloat16, 32: torch.float32}
    least = {(bits, rows): math.inf for bits in dtypes for rows in (24, 128)}
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    for _ in range(TURNS):  # the first turn warms up
        for bits, rows in least:
            weight = torch.ones(576, 1536, dtype=dtypes[bits])
            x = torch.ones(rows, 1536, dtype=dtypes[bits])
            start = time.thread_time()
            torch.nn.functional.linear(x, weight)
            least[bits, rows] = min(least[bits, rows], time.thread_time() - start)
    torch.set_num_threads(threads)
    return {bits: least[bits, 24] / 24 + 2 * least[bits, 128] / 128 for bits in dtypes}
