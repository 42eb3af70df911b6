"""Around the steps of a run: what it writes, its evaluations, its checkpoints, its end by a signal.

Numbers go through Lightning: a step's by log_dict, so that any of its loggers and callbacks has
them, an evaluation's to the loggers with the step that they belong to. metrics.jsonl and
samples.jsonl are ours, because a resumed run cuts them back to its checkpoint.
"""

import html
import json
import os
import signal
import sys
import time
from pathlib import Path

import lightning as L
from lightning.pytorch.loggers import CSVLogger, TensorBoardLogger, WandbLogger

from magrpo import MAGRPO
from policies.loading import save_agent
from running import doctor
from running.folder import keep_until, write_json
from running.heldout import evaluate, sample_record
from running.metrics import measure


class Stopped(BaseException):
    """A signal asked the run to end; its checkpoint is saved. It may be raised anywhere in a
    rollout: no `except Exception` on the way must take it for an error of its own."""


class Interruptible:
    """A rollout that a signal may end. While it plays no parameter changes, so the run ends there
    and then; otherwise where the next one would begin. All else is the rollout's own."""

    def __init__(self, rollout):
        self.rollout, self.playing, self.why = rollout, False, None

    def __getattr__(self, name: str):
        return getattr(self.rollout, name)

    def __call__(self, *what):
        if self.why:
            raise self.why
        self.playing = True
        try:
            return self.rollout(*what)
        finally:
            self.playing = False

    def catch_signals(self) -> None:
        """The first SIGINT or SIGTERM ends the run at a safe place, a second one at once. Called
        after Lightning has set its own handlers."""

        def stop(number, frame):
            signal.signal(number, signal.SIG_DFL)
            self.why = Stopped(signal.Signals(number).name)
            if self.playing:
                raise self.why

        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, stop)


def loggers(directory: Path, args, steps: int) -> list:
    """TensorBoard's, and --logger's; steps: those that a resumed run keeps."""
    board = TensorBoardLogger(
        directory, name="", version="", default_hp_metric=False, purge_step=steps
    )
    found = [board]
    if args.logger == "csv":
        found.append(CSVLogger(directory, name="csv"))
    if args.logger == "wandb":
        found.append(WandbLogger(name=directory.name, save_dir=directory))
    for logger in found:
        logger.log_hyperparams(vars(args))
    return found


class Recorder(L.Callback):
    """Writes everything a run writes; evaluates before, during and after; saves checkpoints.

    Of several processes all evaluate, each its share, and the first one writes.
    """

    def __init__(self, directory: Path, held_out: dict[str, list[dict]], args):
        self.directory, self.held_out, self.args = directory, held_out, args
        self.before: dict = {}
        self.after: dict = {}
        self.returns: dict = {}  # before and after, problem by problem
        self.example: dict = {}  # one held-out joint response of the untrained team
        self.warned: set[str] = set()  # signs of failure that were told
        self.seconds = 0.0  # spent by earlier processes of this run
        self.start = time.perf_counter()
        self.saved = -1  # step of the checkpoint on disk

    def state_dict(self):
        elapsed = self.seconds + time.perf_counter() - self.start
        kept = {"before": self.before, "returns": self.returns, "example": self.example}
        return kept | {"seconds": elapsed}

    def load_state_dict(self, state):
        self.before, self.returns = state["before"], state["returns"]
        self.example = state["example"]
        self.seconds = state["seconds"]

    def on_train_start(self, trainer, module):
        module.rollout = Interruptible(module.rollout)
        module.rollout.catch_signals()
        self.directory = trainer.strategy.broadcast(self.directory)  # the first process named it
        self.start = time.perf_counter()
        self.saved = module.global_step if module.global_step else -1
        if trainer.is_global_zero:
            for name in ("metrics.jsonl", "samples.jsonl"):
                keep_until(self.directory / name, module.global_step)
        trainer.should_stop = module.global_step >= self.args.max_steps
        if self.before:
            return
        self.before, self.returns["before"], nodes = self.evaluate(trainer, module, "test")
        self.example = sample_record(0, nodes[0], self.args.turns - 1, 0)
        if trainer.is_global_zero:
            cells = {k: html.escape(str(v)) for k, v in vars(self.args).items()}
            rows = "\n".join(f"|{k}|{cell.replace('|', '&#124;')}|" for k, cell in cells.items())
            trainer.logger.experiment.add_text("flags", f"|flag|value|\n|-|-|\n{rows}")
            self.log_measures(trainer, "test", self.before, 0)
        self.save(trainer)

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        done, args, dev = module.global_step, self.args, None
        with trainer.precision_plugin.forward_context():  # the precision of training
            metrics = measure(module)
        module.log_dict({"step": float(done - 1), **metrics})  # "step" is Lightning's word for it
        if args.eval_every and done % args.eval_every == 0:
            dev, _, _ = self.evaluate(trainer, module, "dev")
        if trainer.is_global_zero:
            self.record(trainer, module, done - 1, metrics, dev)
        if done % args.save_every == 0 or done == args.max_steps:
            self.save(trainer)
        trainer.should_stop = done == args.max_steps

    def record(self, trainer, module, step: int, metrics: dict, dev: dict | None) -> None:
        """What a step writes; dev: the measures of an evaluation after it."""
        self.append("metrics.jsonl", [{"step": step, **metrics}])
        if step % self.args.sample_every == 0:
            self.show_samples(trainer, module, step)
        if dev:
            self.append("metrics.jsonl", [{"step": step, **_under("dev", dev)}])
            self.log_measures(trainer, "dev", dev, step)
        if (step + 1) % max(self.args.max_steps // 10, doctor.STEPS) == 0:
            for line in doctor.warnings(self.directory, self.warned):
                print(f"\nwarning: {line}", file=sys.stderr)

    def on_train_end(self, trainer, module):
        if module.global_step < self.args.max_steps:
            return
        self.after, self.returns["after"], nodes = self.evaluate(trainer, module, "test")
        if not trainer.is_global_zero:
            return
        self.log_measures(trainer, "test", self.after, module.global_step)
        for agent in range(module.team.size):
            save_agent(module.team.base_of[agent], agent, self.directory / "agents" / str(agent))
        summary = {
            "steps": module.global_step,
            "seconds": self.state_dict()["seconds"],
            "before": self.before,
            "after": self.after,
            "returns": self.returns,
            "example": {
                "before": self.example,
                "after": sample_record(module.global_step, nodes[0], self.args.turns - 1, 0),
            },
        }
        write_json(self.directory / "summary.json", summary)

    def evaluate(self, trainer, module: MAGRPO, split: str):
        with trainer.precision_plugin.forward_context():  # the precision of training
            return evaluate(module, self.held_out[split], self.args)

    def on_exception(self, trainer, module, exception):
        """What was computed is saved, whatever happened; before the first step, nothing was. Where
        only one of several processes fails, the others are not here to save with it."""
        here_alone = trainer.world_size > 1 and not getattr(exception, "shared", False)
        if self.before and self.saved < module.global_step and not here_alone:
            self.save(trainer)

    def save(self, trainer) -> None:
        """Writes checkpoints/last.ckpt whole or not at all.

        Not by Lightning's ModelCheckpoint: that one neither saves before the first step, nor where
        an exception of several processes is shared, nor waits until the file is on the disk.
        """
        path = self.directory / "checkpoints" / "last.ckpt"
        draft = path.with_name("last.ckpt.tmp")
        try:
            trainer.save_checkpoint(draft)  # every process comes here, the first one writes
            if trainer.is_global_zero:
                with draft.open("rb+") as file:
                    os.fsync(file.fileno())
                os.replace(draft, path)
        except (OSError, RuntimeError) as error:  # torch has a RuntimeError for a full disk
            draft.unlink(missing_ok=True)
            raise OSError(f"cannot save {path} ({error}): is the disk full?") from error
        self.saved = trainer.global_step

    def append(self, name: str, records: list[dict]) -> None:
        with (self.directory / name).open("a") as file:
            file.writelines(json.dumps(r, ensure_ascii=False) + "\n" for r in records)

    def log_measures(self, trainer, prefix: str, measures: dict, step: int) -> None:
        """An evaluation, to every logger."""
        for logger in trainer.loggers:
            logger.log_metrics(_under(prefix, measures), step)

    def show_samples(self, trainer, module, step: int) -> None:
        """The joint responses of the step's first problem, at each of its nodes."""
        records = [
            sample_record(step, node, turn, number)
            for turn, nodes in enumerate(module.turns)
            for node in nodes
            if node.problem == 0
            for number in range(node.samples)
        ]
        self.append("samples.jsonl", records)
        text = json.dumps(records[0], indent=1, ensure_ascii=False)
        text = html.escape(text.replace("\\n", "\n"))
        trainer.logger.experiment.add_text("sample", f"<pre>{text}</pre>", step)


def _under(prefix: str, metrics: dict) -> dict:
    return {f"{prefix}/{name}": value for name, value in metrics.items()}
