"""Several processes, one team: every process plays its share of a step's problems.

A group is never split: all G samples of a problem, and the turns they open, live in one process.
The processes then tell each other what they played, so that each has the whole step: it is measured
and normalised exactly as by one process. Each runs the backward passes of its own share, and the
gradients are summed. What two processes do with --batch-size B is what one does with 2B.
"""

import contextlib
import functools
import itertools
import pickle

import torch
import torch.distributed as dist
from lightning.pytorch.strategies import DDPStrategy
from torch import nn


class Processes(DDPStrategy):
    """Lightning's DDP (launching, ranks, process group) without its wrapper around the module:
    its hooks expect one backward pass a step that reaches every parameter, and a step here has as
    many as there are micro-batches, of other rows in every process; sum_gradients follows them."""

    def configure_ddp(self):
        pass


def place() -> tuple[int, int]:
    """(number of this process, number of processes)."""
    return (dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else (0, 1)


def play(rollout, items: list[dict], key: tuple, *options) -> list[list]:
    """Return the nodes of each turn of all items, of which every process plays its share. An error
    in one process is raised in all, marked as `everywhere`: they stop at the same place and save
    together."""
    if place()[1] == 1:
        return rollout(items, key, *options)
    numbers = [number for number in range(len(items)) if is_own(number, len(items))]
    turns = []
    error = None
    try:
        if numbers:
            key = (*key[:3], key[3] + numbers[0])
            turns = rollout([items[number] for number in numbers], key, *options)
        for node in itertools.chain(*turns):
            node.problem += numbers[0]
    except BaseException as raised:  # also Stopped, which is not an Exception
        error = _sendable(raised)
    answers = tell((turns, error))
    for _, error in answers:
        if error:
            error.everywhere = True
            raise error
    shares = itertools.zip_longest(*(turns for turns, _ in answers), fillvalue=[])
    return [list(itertools.chain(*turn)) for turn in shares]


def tell(message) -> list:
    """Return the messages of all processes, in their order. They meet here before their cards do
    anything together, and over gloo: where a peer has died gloo raises, and NCCL would wait."""
    answers = [message] * place()[1]
    if len(answers) > 1:
        with _meeting():
            dist.all_gather_object(answers, message, group=_control())
    return answers


@functools.cache
def _control():
    """A gloo group of all processes; None: the usual one is."""
    return None if dist.get_backend() == "gloo" else dist.new_group(backend="gloo")


def is_own(problem: int, count: int) -> bool:
    """Whether this process has played problem number `problem` of `count`."""
    rank, size = place()
    return count * rank // size <= problem < count * (rank + 1) // size


def sum_gradients(parameters: list[nn.Parameter]) -> None:
    """Gives every process the sum of all processes' gradients, None where no process has one."""
    if place()[1] == 1:
        return
    answers = tell([parameter.grad is not None for parameter in parameters])
    present = []
    for number, parameter in enumerate(parameters):
        if any(answer[number] for answer in answers):
            present.append(parameter)
    if not present:
        return
    grads = [torch.zeros_like(p) if p.grad is None else p.grad for p in present]
    flat = torch.cat([grad.flatten() for grad in grads])
    with _meeting():
        dist.all_reduce(flat)
    for parameter, part in zip(present, flat.split([p.numel() for p in present]), strict=True):
        parameter.grad = part.view_as(parameter)


@contextlib.contextmanager
def _meeting():
    try:
        yield
    except RuntimeError as error:  # torch has no kind of its own for a connection that broke
        raise RuntimeError(
            f"another process of this run has died or cannot be reached; --resume goes on ({error})"
        ) from error


def _sendable(error: BaseException) -> BaseException:
    """The error itself, or what it said where other processes could not rebuild it."""
    try:
        return pickle.loads(pickle.dumps(error))
    except Exception:  # the error's class may be a plug-in's: anything can go wrong
        return RuntimeError(f"{type(error).__name__}: {error}")
