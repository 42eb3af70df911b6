"""Several processes train one team. Each plays its share of a step's problems.

A group is never split: all G samples of a problem, and the turns they open, live in one process.
The processes then gather all nodes, so that each has the whole step. It is measured and normalised
exactly as by one process. Each process runs the backward passes of its own share, and the gradients
are summed. So two processes train as one does with twice the --batch-size.
"""

import contextlib
import functools
import itertools
import os
import pickle
import traceback
from datetime import timedelta

import torch
import torch.distributed as dist
from lightning.fabric.plugins import environments
from lightning.pytorch.strategies import DDPStrategy
from torch import nn

from policies import Mistake

PATIENCE = timedelta(seconds=30)  # in which all processes that fail alike have failed


class Processes(DDPStrategy):
    """Lightning's DDP (launching, ranks, process group) without its wrapper around the module.

    The wrapper's hooks expect one backward pass a step that reaches every parameter. A step here
    has one for each micro-batch, of other rows in every process. sum_gradients follows them.
    """

    def configure_ddp(self):
        pass


def environment(count: int) -> environments.ClusterEnvironment:
    """Return what started the processes of a run: torchrun, Slurm's srun, or Lightning itself.

    A job's script has Slurm's variables too. Only srun names a step.
    """
    if count > 1 and environments.TorchElasticEnvironment.detect():
        return environments.TorchElasticEnvironment()
    if count > 1 and "SLURM_STEP_ID" in os.environ:
        return environments.SLURMEnvironment(auto_requeue=False)
    return environments.LightningEnvironment()


def place() -> tuple[int, int]:
    """Return the number of this process and the number of processes."""
    if not dist.is_initialized():
        return 0, 1
    return dist.get_rank(), dist.get_world_size()


def play(rollout, items: list[dict], key: tuple, sampling, play) -> list[list]:
    """Return the nodes of each turn of all items. Every process plays its share of them.

    An error in one process is raised in all, marked as `everywhere`. So they stop at the same place
    and save together.
    """
    if place()[1] == 1:
        return rollout(items, key, sampling, play)
    own = own_problems(len(items))
    turns = []
    error = None
    try:
        key = (*key[:3], key[3] + own.start)
        turns = rollout(items[own.start : own.stop], key, sampling, play)
        for node in itertools.chain(*turns):
            node.problem += own.start
    except BaseException as raised:  # also Stopped, which is not an Exception
        # Its copy has no traceback: the line says where it was raised.
        raised.add_note(traceback.format_exc(-1).splitlines()[1])
        error = _sendable(raised)
    played = []
    for share, failure in gather((turns, error)):
        if failure:
            failure.everywhere = True
            raise failure
        played.append(share)
    return joined(played)


def joined(shares: list[list[list]]) -> list[list]:
    """Return the nodes of each turn of all shares, some of which may have fewer turns."""
    turns = itertools.zip_longest(*shares, fillvalue=[])
    return [list(itertools.chain(*turn)) for turn in turns]


def gather(message) -> list:
    """Return the messages of all processes, in their order.

    The processes meet here before their GPUs do anything together. They meet over gloo: where a
    peer has died gloo raises, and NCCL would wait.
    """
    answers = [message] * place()[1]
    if len(answers) > 1:
        with _meeting():
            dist.all_gather_object(answers, message, group=_group("messages"))
    return answers


def all_come() -> bool:
    """Return whether all processes come here, as where all of them fail alike.

    A process that fails alone waits for the others, which wait for it in another meeting. So this
    one is over a group of its own, which all of them make by calling this once where none has
    failed.
    """
    if place()[1] > 1:
        try:
            dist.monitored_barrier(_group("failures"), PATIENCE)
        except RuntimeError:
            return False
    return True


@contextlib.contextmanager
def _meeting():
    try:
        yield
    except RuntimeError as error:  # torch has no kind of its own for a connection that broke
        raise Mistake(
            f"another process of this run has died or cannot be reached; --resume goes on ({error})"
        ) from error


@functools.cache
def _group(name: str):
    """Return a group of all processes, over gloo. They make it together, when it is first asked."""
    return dist.new_group(backend="gloo")


def own_problems(count: int) -> range:
    """Return the numbers of the problems, of `count`, that this process plays."""
    rank, size = place()
    return range(count * rank // size, count * (rank + 1) // size)


def sum_gradients(parameters: list[nn.Parameter]) -> None:
    """Give every process the sum of all processes' gradients, None where no process has one."""
    if place()[1] == 1:
        return
    answers = gather([parameter.grad is not None for parameter in parameters])
    for parameter, *present in zip(parameters, *answers, strict=True):
        if any(present):
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            with _meeting():
                dist.all_reduce(parameter.grad)


def _sendable(error: BaseException) -> BaseException:
    """Return the error itself, or its words where other processes could not rebuild it."""
    try:
        return pickle.loads(pickle.dumps(error))
    except Exception:  # the error's class may be a plug-in's: anything can go wrong
        return RuntimeError(f"{type(error).__name__}: {error}")
