"""What the terminal shows of a run: its bar, and the report at its end."""

import json
import math
import statistics
from pathlib import Path

from lightning.pytorch.callbacks import TQDMProgressBar


class Bar(TQDMProgressBar):
    """Lightning's progress bar, with return and learning rate; the rest is in TensorBoard."""

    def on_train_start(self, trainer, *args):
        super().on_train_start(trainer, *args)
        self.train_progress_bar.reset(self.total_train_batches)  # resumed, no epoch starts
        self.train_progress_bar.set_description("training")

    def on_train_epoch_start(self, trainer, *args):
        super().on_train_epoch_start(trainer, *args)
        self.train_progress_bar.set_description("training")

    @property
    def total_train_batches(self):
        return self.trainer.max_steps - 1

    def get_metrics(self, trainer, module):
        logged = trainer.callback_metrics
        return {key: f"{logged[key]:.3g}" for key in ("return", "lr") if key in logged}


def no_gain(returns: dict) -> str:
    """Says so where the sampled return on the held-out problems has not risen by two standard
    errors of its difference, problem by problem; "" where it has."""
    pairs = zip(returns["before"]["return"], returns["after"]["return"], strict=True)
    gaps = [after - before for before, after in pairs]
    mean = statistics.fmean(gaps)
    error = statistics.stdev(gaps) / math.sqrt(len(gaps)) if len(gaps) > 1 else 0.0
    if mean > 2 * error:
        return ""
    return f"nothing learnt that shows here: sampled {mean:+.3f} (se of the difference {error:.3f})"


def report(directory: Path, task, args) -> str:
    """The short report at the end of a run."""
    summary = json.loads((directory / "summary.json").read_text())
    before, after = summary["before"], summary["after"]
    lines = [f"\n{summary['steps']} steps in {summary['seconds'] / 60:.1f} minutes: {directory}"]
    if after:
        lines.append("held-out test problems, share of the maximum return   before    after")
    for name, label in (("return", "sampled"), ("greedy/return", "greedy")) if after else ():
        error = after[f"{name}_se"]
        lines.append(f"  {label:<50}{before[name]:8.3f} {after[name]:8.3f}  (se {error:.3f})")
    if after and (told := no_gain(summary["returns"])):
        lines.append(f"{told}; see samples.jsonl, and python eval.py --doctor {directory}")
    if args.turns > 1:
        lines.append(task.disclosed(args))
    for when in ("before", "after") if after else ():
        sample = summary["example"][when]
        lines.append(f"\none joint response {when} (reward {sample['reward']:.2f}):")
        for agent, text in enumerate(sample["responses"]):
            lines += [f"  agent {agent} | {line}" for line in text.splitlines() or [""]]
    if (directory / "build.png").exists():
        lines.append(f"\npictures:  {directory}/build.png, build.gif")
    lines.append(f"\ncurves:    tensorboard --logdir {directory}")
    lines.append(f"evaluate:  python eval.py --run {directory}")
    if best := summary["best"]:
        told = f"step {best['step']}, return {best['return']:.3f}"
        lines.append(f"best on dev ({told}): {directory}/kept/best")
    steps = 2 * summary["steps"]
    lines.append(f"continue:  python train.py --resume {directory} --max-steps {steps}")
    return "\n".join(lines)
