"""In how many bits the frozen base is loaded where --bits does not say."""

import functools
import time

from training.plugins import is_embedded
from training.terminal import is_first

LIMIT = 0.1  # CPU seconds of the probe


def settle(args) -> None:
    """Puts a number where --bits is None, and says what a probe found. Weights that are trained
    need 32, and the embedded models are too small to gain. A card takes 16. On a CPU it is the
    faster of 16 and 32; of several processes each would find its own, so that they take 32."""
    if args.bits is not None:
        return
    args.bits, why = 32, "as in all processes on a CPU"
    if args.lora_rank == 0 or all(map(is_embedded, args.model)):
        return
    from policies.loading import device

    if device().type == "cuda":
        args.bits, why = 16, "as on any card"
    elif args.devices * args.num_nodes == 1:
        (fast, args.bits), (slow, other) = sorted((s, b) for b, s in seconds_of_a_token().items())
        why = f"{other} bits take {slow / fast:.1f} times as long on this CPU"
    if is_first(args):
        print(f"bits:    {args.bits}, {why} (--bits: another number)", flush=True)


@functools.cache
def seconds_of_a_token() -> dict[int, float]:
    """CPU seconds that a token takes in the products with one frozen weight, {bits: seconds}.

    Decoding multiplies few rows at a time, the update many, forwards and backwards; a CPU's
    instructions for 16 bits may help the one and slow the other. The weight is that of a
    feed-forward layer in a model of 135 million parameters. One thread, and the least of some
    repetitions in which the kinds take turns: nothing else that runs on the machine decides.
    """
    import torch

    kinds = {16: torch.bfloat16, 32: torch.float32}
    weights = {bits: torch.ones(576, 1536, dtype=kind) for bits, kind in kinds.items()}
    least = {(bits, rows): float("inf") for rows in (24, 128) for bits in kinds}
    end, turns, threads = time.thread_time() + LIMIT, 0, torch.get_num_threads()
    torch.set_num_threads(1)
    while turns < 2 or time.thread_time() < end:  # the first one warms up
        for bits, rows in least:
            x, start = torch.ones(rows, 1536, dtype=kinds[bits]), time.thread_time()
            torch.nn.functional.linear(x, weights[bits])
            least[bits, rows] = min(least[bits, rows], time.thread_time() - start)
        turns += 1
    torch.set_num_threads(threads)
    return {bits: least[bits, 24] / 24 + 2 * least[bits, 128] / 128 for bits in kinds}
