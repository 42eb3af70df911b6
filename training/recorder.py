"""Around the steps of a run: what it writes, its evaluations, its checkpoints, its end by a signal.

Numbers go through Lightning: a step's by log_dict, an evaluation's to the logger with the step that
they belong to. metrics.jsonl and samples.jsonl are ours: a resumed run cuts them back.
"""

import html
import itertools
import json
import os
import signal
import sys
import time
from collections import Counter
from pathlib import Path

import lightning as L
from tqdm import tqdm

from magrpo import MAGRPO
from policies.loading import save_agent
from policies.sampling import sampling_of
from training import pictures
from training.folder import CHECKPOINT, write_json
from training.heldout import as_markdown, evaluate, play, played, sample_record
from training.metrics import largest_return, measure, memory_gib


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


class Recorder(L.Callback):
    """Writes everything a run writes; evaluates before, during and after; saves checkpoints. Of
    several processes all evaluate, each its share, and the first one writes."""

    def __init__(self, directory: Path, held_out: dict[str, list[dict]], args):
        self.directory, self.held_out, self.args = directory, held_out, args
        # Measures before and after, the returns problem by problem, a joint response of each.
        self.summary = {name: {} for name in ("before", "after", "returns", "example")}
        self.seconds = 0.0  # spent by earlier processes of this run
        self.start = time.perf_counter()
        self.saved = -1  # step of the checkpoint on disk
        self.recorded = 0  # steps whose metrics and samples are on disk
        self.begun = False  # what comes before the first step was done
        self.schemes: list[str] = []  # of dividing the work that were seen
        self.frames: list[dict] = []  # what was built so far, of a task that can draw it

    def state_dict(self):
        kept = {"summary": self.summary, "schemes": self.schemes, "frames": self.frames}
        return kept | {"seconds": self.seconds + time.perf_counter() - self.start}

    def load_state_dict(self, state):
        vars(self).update(state, begun=True)

    def on_train_start(self, trainer, module):
        module.rollout = Interruptible(module.rollout)
        module.rollout.catch_signals()
        self.directory = trainer.strategy.broadcast(self.directory)  # the first process named it
        self.start = time.perf_counter()
        self.saved = module.global_step or -1
        self.recorded = module.global_step
        trainer.should_stop = module.global_step >= self.args.max_steps
        if not self.begun:
            self.test(trainer, module, "before")
            if trainer.is_global_zero:
                flags = {name: html.escape(str(value)) for name, value in vars(self.args).items()}
                rows = "".join(f"|{k}|{v.replace('|', '&#124;')}|\n" for k, v in flags.items())
                trainer.logger.experiment.add_text("flags", f"|flag|value|\n|-|-|\n{rows}")
            self.draw(trainer, module)
            self.begun = True
            self.save(trainer)
        how = {"total": self.args.max_steps, "initial": module.global_step, "file": sys.stdout}
        self.bar = tqdm(desc="training", disable=not trainer.is_global_zero, **how)

    def on_train_batch_start(self, trainer, module, batch, batch_idx):
        self.began = time.perf_counter()

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        done, args, dev = module.global_step, self.args, None
        with trainer.precision_plugin.forward_context():  # the precision of training
            metrics = measure(module)
        metrics |= {"seconds/step": time.perf_counter() - self.began, "memory_gib": memory_gib()}
        metrics |= self.shares(module)
        module.log_dict({"step": float(done - 1), **metrics})  # "step" is Lightning's word for it
        trainer.should_stop = last = done >= args.max_steps
        if args.eval_every and done % args.eval_every == 0:
            dev, _, _ = self.evaluate(trainer, module, "dev")
        if done % max(args.max_steps // pictures.FRAMES, 1) == 0 or last:
            self.draw(trainer, module)
        if trainer.is_global_zero:
            self.record(trainer, module, done - 1, metrics, dev)
        self.recorded = done
        if done % args.save_every == 0 or last:
            self.save(trainer)

    def record(self, trainer, module, step: int, metrics: dict, dev: dict | None) -> None:
        """What a step writes; dev: the measures of an evaluation after it."""
        self.append("metrics.jsonl", [{"step": step, **metrics}])
        if step % self.args.sample_every == 0:
            self.show_samples(trainer, module, step)
        if dev:
            dev = {f"dev/{name}": value for name, value in dev.items()}
            self.append("metrics.jsonl", [{"step": step, **dev}])
            trainer.logger.log_metrics(dev, step)
        self.bar.set_postfix({"return": f"{metrics['return']:.3g}"}, refresh=False)
        self.bar.update()

    def on_train_end(self, trainer, module):
        if module.global_step < self.args.max_steps:
            return
        self.bar.close()
        self.test(trainer, module, "after")
        if not trainer.is_global_zero:
            return
        for agent in module.team.policies():
            save_agent(module.team.base_of[agent], agent, self.directory / "agents" / str(agent))
        if self.frames:
            task, colors = module.rollout.task, module.rollout.task.colors
            target = [task.draw(item, []) for item in self.pictured(module)]
            pictures.write(self.directory, target, self.frames, colors)
        head = {"steps": module.global_step, "seconds": self.state_dict()["seconds"]}
        write_json(self.directory / "summary.json", head | self.summary)

    def test(self, trainer, module, when: str) -> None:
        """Evaluates on the test problems before or after training; not with --eval-limit none."""
        if "test" not in self.held_out:
            return
        measures, returns, nodes = self.evaluate(trainer, module, "test", when)
        self.summary[when], self.summary["returns"][when] = measures, returns
        record = sample_record(module.global_step, nodes[0], self.args.turns - 1, 0)
        self.summary["example"][when] = record
        if trainer.is_global_zero:
            logged = {f"test/{name}": value for name, value in measures.items()}
            trainer.logger.log_metrics(logged, module.global_step)

    def evaluate(self, trainer, module: MAGRPO, split: str, when: str = "dev"):
        with trainer.precision_plugin.forward_context():  # the precision of training
            return evaluate(module, self.held_out[split], f"held out, {when}")

    def pictured(self, module) -> list[dict]:
        return (self.held_out.get("test") or module.problems)[: pictures.SHOWN]

    def draw(self, trainer, module) -> None:
        """A frame for pictures.py, where the task can draw: what the team builds now, greedily."""
        task, how = module.rollout.task, (self.args.seed, 1, sampling_of(self.args, greedy=True))
        if not task.colors:
            return
        with trainer.precision_plugin.forward_context():  # the precision of training
            turns = play(module.rollout, self.pictured(module), *how, tqdm(disable=True))
        drawn = [task.draw(node.item, played(node, 0)[0]) for node in turns[-1]]
        most = largest_return(turns, module.rollout)
        frame = {"name": f"step {module.global_step}", "drawn": drawn}
        self.frames.append(frame | {"returns": [node.value / most for node in turns[0]]})

    def shares(self, module) -> dict[str, float]:
        """Share of each scheme of dividing the work among the step's joint responses, the aligned
        ones; 0 for one that was seen before. {} where the task names none."""
        seen, scheme = Counter(), module.rollout.task.scheme
        for node in itertools.chain(*module.turns):
            seen.update(scheme(node.item, played(node, s)[0]) for s in range(node.samples))
        seen.pop(None, None)
        self.schemes = sorted({*self.schemes, *seen})
        return {f"scheme/{name}": seen[name] / seen.total() for name in self.schemes}

    def on_exception(self, trainer, module, exception):
        """Save what was computed, if it is whole: every step is recorded, and no update is at work.
        Otherwise the run goes on from its last checkpoint, and makes the same step again. Where
        only one of several processes fails, the others are not here to save with it."""
        here_alone = trainer.world_size > 1 and not getattr(exception, "everywhere", False)
        whole = self.recorded == module.global_step and not module.updating
        if self.begun and self.saved < module.global_step and whole and not here_alone:
            self.save(trainer)

    def save(self, trainer) -> None:
        """Writes checkpoints/last.ckpt whole or not at all.

        Not by Lightning's ModelCheckpoint: that one neither saves before the first step, nor where
        an exception is raised in all processes, nor waits until the file is on the disk.
        """
        path = self.directory / CHECKPOINT
        draft = path.with_name(f"{path.name}.tmp")
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
        trainer.logger.experiment.add_text("sample", as_markdown(records[0]), step)
