"""Record a run: what it writes, its evaluations, its checkpoints and its end by a signal.

Lightning's logger shows the numbers. Recorder writes metrics.jsonl and samples.jsonl, which a
resumed run cuts back.
"""

import contextlib
import itertools
import json
import os
import re
import shlex
import shutil
import signal
import textwrap
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import lightning as L
import torch
from lightning.pytorch.loggers import TensorBoardLogger, WandbLogger
from lightning.pytorch.plugins.io import TorchCheckpointIO

from magrpo import MAGRPO
from policies import Mistake, processes
from policies.loading import save_agent
from training.held_out import episode, evaluate, sample_record, shown
from training.metrics import measure, memory_gib
from training.report import model_card
from training.run_folder import CHECKPOINT, json_lines, json_text, write_whole

PARTS = "(greedy/)?(reward|metric|agent|scheme)/"  # how their names begin


class Stopped(BaseException):
    """Raised where a signal ends the run, which may be anywhere in a rollout.

    It is not an Exception, so that `except Exception` does not take it for an error.
    """


class Signals:
    """Lets the first signal end the run in a rollout, and a second one of its kind anywhere.

    While a rollout plays, no parameter changes, so the run ends at once. Otherwise it ends where
    the next rollout begins. Signals are caught from the moment that this is made, which has to be
    after Lightning has set its own handlers.
    """

    def __init__(self) -> None:
        self.playing = False
        self.stopped: Stopped | None = None  # that of the first signal
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1):  # the last is Slurm's
            signal.signal(number, self.receive)

    def receive(self, number, frame) -> None:
        signal.signal(number, signal.SIG_DFL)
        self.stopped = Stopped(signal.Signals(number).name)
        if self.playing:
            raise self.stopped

    @contextlib.contextmanager
    def end_rollouts(self):
        """Let a signal end what runs in this context."""
        if self.stopped:
            raise self.stopped
        self.playing = True
        try:
            yield
        finally:
            self.playing = False


def make_logger(record: dict, directory: Path, kept: int):
    """Return Lightning's logger of --logger, False for none.

    `record` is that of args.json, and `kept` the steps of a resumed run.
    """
    flags = record["args"]
    if flags["logger"] == "tensorboard":
        logger = TensorBoardLogger(directory, "", "", default_hp_metric=False, purge_step=kept)
        logger.log_hyperparams(flags)  # its hparams.yaml
        return logger
    if flags["logger"] == "wandb":  # a resumed run goes on with the run of its name and date
        number = f"{directory.name}-{record['date']}".replace(":", "-")
        return WandbLogger(directory.name, directory, number, project="magrpo", config=flags)
    return False


class CheckpointFile(TorchCheckpointIO):
    """Writes a checkpoint whole or not at all, and waits until it is on the disk.

    Lightning's own would hold a copy of it in memory, and another one in TMPDIR.
    """

    def save_checkpoint(self, checkpoint, path, storage_options=None):
        path.parent.mkdir(exist_ok=True)
        draft = path.with_name(f"{path.name}.tmp")
        try:
            with draft.open("wb") as file:
                torch.save(checkpoint, file)
                file.flush()
                os.fsync(file.fileno())
            draft.replace(path)
        except (OSError, RuntimeError) as error:  # torch has a RuntimeError for a full disk
            draft.unlink(missing_ok=True)
            raise OSError(f"cannot save {path} ({error}): is the disk full?") from error


@dataclass(eq=False)
class Recorder(L.Callback):
    """Writes everything a run writes, evaluates before, during and after, and saves checkpoints.

    All processes evaluate, each its share. The first one writes.
    """

    directory: Path
    held_out: dict  # split -> items
    record: dict  # of args.json
    saved: int = 0  # step of the checkpoint on disk

    def __post_init__(self):
        self.flags = self.record["args"]
        # The measures before and after, and the turns of an episode of each.
        self.summary = {name: {} for name in ("before", "after", "example")}
        self.start = time.perf_counter()  # as if earlier processes of this run had ended just then
        self.recorded = 0  # steps whose metrics and samples an error or a signal saves
        self.line = {}  # the latest step's metrics, until they are written
        # 0 for each part of the reward, and each scheme, that was met in steps and held out.
        self.zeros = {"step": {}, "held out": {}}

    def state_dict(self):
        return {
            "summary": json.loads(json_text(self.summary)),  # plain values, safe to load
            "line": self.line,
            "zeros": self.zeros,
            "seconds": time.perf_counter() - self.start,
        }

    def load_state_dict(self, state):
        self.start -= state.pop("seconds")
        vars(self).update(state)

    def on_train_start(self, trainer, module):
        module.rollout.interruptible = Signals().end_rollouts
        alike = (
            self.flags | {"resume": None},  # the first process may have made the folder
            self.record["items"],
            [torch.hash_tensor(p).item() for p in module.parameters()],
        )
        everyone = processes.gather((self.directory, self.record, alike))
        processes.all_come()  # the first time, that they can do so where they fail
        # The first process named the folder.
        self.directory, self.record, first = everyone[0]
        if any(others != first for *_, others in everyone):
            error = Mistake("the processes of this run differ in flags, problems or weights")
            error.everywhere = True
            raise error
        module.team.set_date(self.record["date"])
        trainer.should_stop = module.global_step >= self.flags["max_steps"]
        self.saved = self.recorded = module.global_step
        self.zeros["step"] |= {f"scheme/{name}": 0.0 for name in module.rollout.task.schemes}
        if self.line:  # the evaluation on dev was stopped
            self.end_step(trainer, module)
        if not self.summary["before"]:
            self.test(trainer, module, "before")
            log_text(trainer, "flags", json.dumps(self.flags, indent=1))
            self.save(trainer, module)

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        done = module.global_step
        step = done - 1
        if step != self.recorded:
            raise Mistake(
                f"a rollout took {done - self.recorded} steps of Lightning's optimizer, and they "
                "number the rollouts: examples/ablations/clipped.diff shows how to take several"
            )
        metrics = measure(module) | self.shares(module)
        metrics["memory_gib"] = memory_gib()
        self.fill("step", metrics)
        self.line = metrics
        trainer.should_stop = done >= self.flags["max_steps"]
        if trainer.is_global_zero:
            if step % self.flags["sample_every"] == 0:
                self.show_samples(trainer, module, step)
            self.tell(done, metrics)
        self.recorded = done  # from here on, an error or a signal saves the step
        self.end_step(trainer, module)
        if done % self.flags["save_every"] == 0 or trainer.should_stop:
            self.save(trainer, module)

    def end_step(self, trainer, module) -> None:
        """Evaluate on dev, where that is due, and write the line of the latest step."""
        done = module.global_step
        every = self.flags["eval_every"]
        if every and done % every == 0:
            measures, _ = self.evaluate(trainer, module, "dev", "dev")
            self.line |= {f"dev/{name}": value for name, value in measures.items()}
        line = self.line
        self.line = {}
        if trainer.is_global_zero:
            self.append("metrics.jsonl", [{"step": done - 1} | line])
        log(trainer, line, done - 1)

    def fill(self, kind: str, measures: dict) -> None:
        """Add 0 to measures for each part of the reward, and scheme, that was met and is not here.

        So a reader need not know whether what a line lacks is 0 or was never measured.
        """
        known = self.zeros[kind]
        known |= {name: 0.0 for name in measures if re.match(PARTS, name)}
        for name in known:
            measures.setdefault(name, 0.0)

    def tell(self, done: int, metrics: dict) -> None:
        """Print a step as a line, with the first parts of the reward in the reward's own unit.

        What single agents are paid follows. It says so if no response had an advantage. The time
        left is that of the latest step.
        """
        said = f"return {metrics['return']:.3f} of 1"
        parts = [name for name in metrics if name.startswith("reward/")]
        own = [name for name in metrics if name.startswith("agent/")]
        for name in parts[:4] + own:
            said += f", {name.removeprefix('reward/')} {metrics[name]:.2f}"
        if not metrics["groups_with_gradient"]:
            said += ", nothing to learn from: no response had an advantage (docs/metrics.md)"
        planned = self.flags["max_steps"]
        left = (planned - done) * metrics["seconds/step"] / 60
        said += f" ({metrics['seconds/step']:.1f} s, {left:.1f} minutes left)"
        print(f"step {done} of {planned}: {said}", flush=True)

    def on_train_end(self, trainer, module):
        self.test(trainer, module, "after")
        self.fill("held out", self.summary["before"])  # 0 for parts that nobody earned then
        if not trainer.is_global_zero:
            return
        for agent in module.team.policies():
            about = module.team.base_of[agent].about
            task = module.rollout.task
            card = model_card(self.record, agent, about, task.reward, self.summary)
            write_whole(self.directory / f"agents/{agent}/README.md", card)
        head = {"steps": module.global_step, "seconds": time.perf_counter() - self.start}
        (self.directory / "eval.json").unlink(missing_ok=True)  # it was of the agents before
        write_whole(self.directory / "summary.json", json_text(head | self.summary))

    def test(self, trainer, module, when: str) -> None:
        """Evaluate on the test problems before or after training, unless --eval-limit is none."""
        if not self.held_out:
            return
        step = module.global_step
        measures, nodes = self.evaluate(trainer, module, "test", f"{when} training")
        log(trainer, {f"test/{name}": value for name, value in measures.items()}, step)
        turns = [self.sample(module, step, *turn) for turn in episode(nodes[0], 0)]
        self.summary[when] = measures
        self.summary["example"][when] = turns

    def evaluate(self, trainer, module: MAGRPO, split: str, name: str) -> tuple[dict, list]:
        """Return the measures of a split's problems, and the first greedy nodes."""
        with trainer.precision_plugin.forward_context():  # the precision of training
            measures, nodes = evaluate(module, self.held_out[split], name)
        self.fill("held out", measures)
        return measures, nodes

    def shares(self, module) -> dict[str, float]:
        """Return the share of each scheme among the step's scored, aligned joint responses."""
        names = []
        for node in itertools.chain(*module.turns):
            for sample in range(node.samples):
                scored = node.steps[node.aligned(sample)].scored
                if scored:
                    names.append(module.rollout.task.scheme(*scored))
        counts = Counter(filter(None, names))  # None: without a scheme
        total = counts.total()
        return {f"scheme/{name}": count / total for name, count in sorted(counts.items())}

    def on_exception(self, trainer, module, exception):
        """Save what was computed, if every step is recorded.

        Otherwise the run goes on from its last checkpoint and makes the same step again. All
        processes have to fail alike: if only one does, the others do not come here to save with it.
        """
        if self.saved < self.recorded == module.global_step and processes.all_come():
            exception.everywhere = True  # the first process says it
            self.save(trainer, module)

    def save(self, trainer, module) -> None:
        """Write agents/, and then checkpoints/last.ckpt, whose steps have agents in any case.

        Lightning's ModelCheckpoint saves neither before the first step nor after an exception in
        all processes.
        """
        if trainer.is_global_zero:
            draft = self.directory / "agents.tmp"
            agents = self.directory / "agents"
            for agent in module.team.policies():
                save_agent(module.team.base_of[agent], agent, draft / str(agent))
            for file in sorted(draft.rglob("*")):  # a folder comes before what is in it
                target = agents / file.relative_to(draft)
                if file.is_dir():  # of an agent, or of its chat templates
                    target.mkdir(parents=True, exist_ok=True)
                    continue
                # safetensors lets nobody else read its files
                shutil.copymode(self.directory / "args.json", file)
                file.replace(target)
            shutil.rmtree(draft)
        # The first process writes (CheckpointFile). The others wait for it: when one of them ends
        # with an error, Lightning kills the first.
        trainer.save_checkpoint(self.directory / CHECKPOINT)
        self.saved = trainer.global_step

    def last_save(self) -> str:
        """Return the command that goes on, and the step from which."""
        command = shlex.join(["python", "train.py", "--resume", str(self.directory)])
        return f"Go on from step {self.saved} with:\n  {command}"

    def append(self, name: str, records: list[dict]) -> None:
        path = self.directory / name
        with path.open("a", encoding="utf-8") as file:
            file.write(json_lines(records))

    def show_samples(self, trainer, module, step: int) -> None:
        """Write the joint responses of the step's first problem, at each of its nodes."""
        records = []
        for node in itertools.chain(*module.turns):
            if node.problem == 0:
                records += [self.sample(module, step, node, i) for i in range(node.samples)]
        self.append("samples.jsonl", records)
        log_text(trainer, "sample", shown(records[0]), step)

    def sample(self, module, step: int, node, number: int) -> dict:
        """Return a line of samples.jsonl."""
        return {"step": step} | sample_record(node, number, module.rollout.reward.maximum)


def log(trainer, metrics: dict, step: int) -> None:
    """Log numbers. The first process alone has a logger."""
    for logger in trainer.loggers:
        logger.log_metrics(metrics, step)
        logger.save()


def log_text(trainer, name: str, text: str, step: int = 0) -> None:
    """Log a text, which TensorBoard alone can show.

    It is an indented block of code, which Markdown or HTML in it cannot leave.
    """
    if isinstance(trainer.logger, TensorBoardLogger):
        block = textwrap.indent(text, "    ", lambda line: True)
        trainer.logger.experiment.add_text(name, block, step)
