"""In how many bits the frozen base is loaded where --bits does not say."""

import functools
import time

from running.plugins import is_embedded
from running.terminal import is_first

LIMIT = 0.1  # CPU seconds of the probe


def settle(args) -> None:
    """Puts a number where --bits is None, and says what a probe found. Weights that are trained
    need 32, and the embedded models are too small to gain. A card takes 16. On a CPU it is the
    faster of 16 and 32; of several processes each would find its own, so that they take 32."""
    if args.bits is not None:
        return
    args.bits, alone = 32, args.devices * args.num_nodes == 1
    if args.lora_rank == 0 or all(map(is_embedded, args.model)):
        return
    from policies.loading import device

    if device().type == "cuda":
        args.bits, why = 16, "as on any card"
    elif alone:
        found = seconds_of_a_token()
        args.bits = min(found, key=found.get)
        slow, fast = max(found.values()), min(found.values())
        why = f"{48 - args.bits} bits take {slow / fast:.1f} times as long on this CPU"
    else:
        why = "as in all processes on a CPU"
    if is_first(args):
        print(f"bits:    {args.bits}, {why} (--bits: another number)", flush=True)


@functools.cache
def seconds_of_a_token() -> dict[int, float]:
    """Seconds that a token takes in the products with one frozen weight, {bits: seconds}.

    CPUs differ in two ways, so that both are measured. Decoding multiplies few rows at a time,
    about one for each response, and reads every weight anew; the update multiplies many tokens at
    once, and runs each forwards and backwards. Instructions for 16 bits may help the one and slow
    the other. The weight is that of a feed-forward layer in a model of 135 million parameters; the
    kinds take turns, so that neither finds its own in a core's cache.

    It is the CPU time of one thread, and the least of two or more: what else runs on the machine
    would decide otherwise, because threads wait for each other.
    """
    import torch

    start, threads = time.thread_time(), torch.get_num_threads()
    kinds = {16: torch.bfloat16, 32: torch.float32}
    weights = {bits: torch.ones(576, 1536, dtype=kind) for bits, kind in kinds.items()}
    least = {(bits, rows): float("inf") for rows in (24, 128) for bits in kinds}
    turn, last = 0, 0.0
    torch.set_num_threads(1)
    while turn < 2 or time.thread_time() + last < start + LIMIT:  # the first one warms up
        began = time.thread_time()
        for bits, rows in least:
            x, before = torch.ones(rows, 1536, dtype=kinds[bits]), time.thread_time()
            torch.nn.functional.linear(x, weights[bits])
            least[bits, rows] = min(least[bits, rows], time.thread_time() - before)
        turn, last = turn + 1, time.thread_time() - began
    torch.set_num_threads(threads)
    return {bits: least[bits, 24] / 24 + 2 * least[bits, 128] / 128 for bits in kinds}
