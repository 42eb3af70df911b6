"""A run on disk: what train.py writes into runs/<name>/ and what eval.py and --resume read from it.

args.json       every flag as resolved, package versions, the command, digests of code and bases
metrics.jsonl   one line per step            samples.jsonl  joint responses, every --sample-every
events.out...   TensorBoard: the same        checkpoints/last.ckpt  enough to go on exactly
agents/<i>/     the trained agents, in peft's format (or as full models)
summary.json    {"steps", "seconds", "before": {...}, "after": {...}}
lock            held by the process that writes here
"""

import ast
import contextlib
import fcntl
import hashlib
import html
import importlib
import importlib.util
import inspect
import json
import math
import modulefinder
import numbers
import os
import shlex
import signal
import sys
import time
from importlib.metadata import version
from pathlib import Path

import lightning as L
import torch
from lightning.pytorch.callbacks import TQDMProgressBar
from torch.utils.tensorboard import SummaryWriter

import parallel
from coding import feedback
from evaluation import doctor
from judging import total
from magrpo import EVAL, MAGRPO, Node
from metrics import mean_parts
from models import fingerprint
from names import meant
from sampling import Sampling

PACKAGES = ("torch", "lightning", "transformers", "peft", "bitsandbytes", "datasets")
TASKS = {
    "coop": "tasks.Coop",
    "humaneval": "code_tasks.HumanEval",
    "coophumaneval": "code_tasks.CoopHumanEval",
    "mbpp": "code_tasks.MBPP",
    "tldr": "writing_tasks.Tldr",
    "arxiv": "writing_tasks.Arxiv",
}
REWARDS = {
    "code": "rewards.code",
    "code_paper": "rewards.code_paper",
    "tldr": "writing.strict.tldr",
    "tldr_paper": "writing.paper.tldr_paper",
    "tldr_released": "writing.paper.tldr_released",
    "arxiv": "writing.strict.arxiv",
    "arxiv_paper": "writing.paper.arxiv_paper",
    "arxiv_released": "writing.paper.arxiv_released",
}
EVAL_SAMPLES = 4  # sampled joint responses per held-out problem, besides the greedy one


class Stopped(BaseException):
    """A signal asked the run to end; its checkpoint is saved. It may be raised anywhere in a
    rollout: no `except Exception` on the way must take it for an error of its own."""


def resolve(name: str, known: dict[str, str], what: str):
    """The task or reward that a flag names: a known name, a dotted path, or file.py:Name."""
    full = known.get(name, name)
    path, _, attribute = full.rpartition(":" if ":" in full else ".")
    if not path:
        listed = ", ".join(sorted(known))
        raise ValueError(f"unknown {what} {name!r}{meant(name, known)}; known: {listed}")
    if full.endswith(".py"):
        raise ValueError(f"{what} {name!r}: name what the file holds, as in file.py:Name")
    try:
        if path.endswith(".py"):
            spec = importlib.util.spec_from_file_location(Path(path).stem, path)
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
        else:
            module = importlib.import_module(path)
    except (Exception, SystemExit) as error:  # a plug-in is the user's code: anything may come
        raise ValueError(f"cannot load the {what} {name!r}: {error!r}") from error
    if not hasattr(module, attribute):
        raise ValueError(f"{path} has no {attribute}{meant(attribute, vars(module))}: no {what}")
    return getattr(module, attribute)


def check_signature(function, what: str, *args, **kwargs) -> None:
    """Raises ValueError where a function of the user's cannot be called like that."""
    try:
        inspect.signature(function).bind(*args, **kwargs)
    except TypeError as error:
        raise ValueError(f"{what}: {error}") from error


def make_task(args):
    """The task of --task, with the flags that are a task's."""
    options = {"data": args.data, "num_agents": args.num_agents}
    if args.feedback:
        flags = (args.feedback, args.feedback_tests, args.expert_url, args.expert_model)
        options["feedback"] = feedback.configured(*flags)
    kind = resolve(args.task, TASKS, "task")
    form = f"({', '.join(f'{name}=' for name in options)})"
    form += ", or leave --feedback out" if args.feedback else ""
    check_signature(kind, f"task {args.task!r} has to take {form}", **options)
    try:
        task = kind(**options)
    except (ValueError, OSError):  # in words already
        raise
    except Exception as error:
        raise ValueError(f"task {args.task!r} cannot be made: it raised {error!r}") from error
    wanted = {"items": ("split",), "observe": ("agent", "item", "history")}
    if args.turns > 1:
        wanted["feedback"] = ("item", "responses")
    for name, names in wanted.items():
        form = f"{name}({', '.join(names)})"
        if not callable(getattr(task, name, None)):
            raise ValueError(f"task {args.task!r} has no {form}: it needs one")
        check_signature(getattr(task, name), f"task {args.task!r} needs {form}", *names)
    return task


def make_reward(args, task):
    """The reward of --reward, or the task's own."""
    name = args.reward or getattr(task, "reward", None)
    if not name:
        raise ValueError(f"task {args.task!r} names no reward of its own: give one with --reward")
    reward = resolve(name, REWARDS, "reward")
    if not callable(reward):
        raise ValueError(f"reward {name!r} is no function but {reward!r:.60}: it has to be one")
    check_signature(reward, f"reward {name!r} has to take (item, responses)", {}, [])
    maximum = getattr(reward, "maximum", None)
    if not (isinstance(maximum, numbers.Real) and 0 < maximum < math.inf):
        raise ValueError(f"reward {name!r} needs its largest value, a number above 0, as .maximum")
    return reward


def items_of(task, name: str, split: str) -> list[dict]:
    """A split's items; ValueError where the task does not give a list of them."""
    try:
        items = task.items(split)
    except (ValueError, OSError):  # in words already
        raise
    except Exception as error:  # the task is the user's code
        raise ValueError(f"task {name!r}: items({split!r}) raised {error!r}") from error
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise ValueError(f"task {name!r}: items({split!r}) has to give a list of dicts")
    return items


def refuse_name(name: str) -> Path:
    """The folder of --run, which has to be a new one."""
    path = Path(name) if "/" in name else Path("runs") / name
    if path.exists():
        raise ValueError(f"{path} already holds a run: choose another --run or --resume {path}")
    return path


def new_directory(args) -> Path:
    """runs/<--run>, or the first free runs/<task>-<number>; made here, never one that exists."""
    if args.run:
        path = refuse_name(args.run)
        try:
            path.mkdir(parents=True)
        except OSError as error:
            told = f"cannot make the run's folder {path} ({error.strerror}): choose another --run"
            raise ValueError(told) from error
        return path
    stem = Path(args.task.replace(":", ".")).name
    for number in range(1, 10**6):
        path = Path("runs") / f"{stem}-{number}"
        try:
            path.mkdir(parents=True)
            return path
        except FileExistsError:
            continue
    raise ValueError("runs/ is full: name the run with --run")


@contextlib.contextmanager
def alone(directory: Path):
    """Holds a run's lock; ValueError where another process has it. The kernel releases it with the
    process, however that ends."""
    with (directory / "lock").open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            told = f"another process is at work on {directory}: wait for its end, or stop it"
            raise ValueError(told) from error
        except OSError:  # a file system without locks, as on some clusters
            pass
        yield


def write_json(path: Path, value) -> None:
    write_whole(path, json.dumps(value, indent=1, ensure_ascii=False) + "\n")


def write_whole(path: Path, text: str) -> None:
    """Writes a file whole or not at all."""
    draft = path.with_name(path.name + ".tmp")
    try:
        draft.write_text(text)
        os.replace(draft, path)
    except OSError:
        draft.unlink(missing_ok=True)
        raise


def write_args(directory: Path, args) -> None:
    versions = {"python": sys.version.split()[0], **{name: version(name) for name in PACKAGES}}
    path, command = directory / "args.json", shlex.join(["python", *sys.argv])
    record = {"args": vars(args), "versions": versions, "command": command, "resumed": []}
    record["bases"] = {name: fingerprint(name) for name in args.model}
    record["code"] = [code_digest(vars(args))]  # of every process that went on with it
    if path.exists():
        warn_of_other_code(directory)
        before = json.loads(path.read_text())
        record["code"] = list(dict.fromkeys([*before.get("code", []), *record["code"]]))
        record["command"], record["resumed"] = before["command"], [*before["resumed"], command]
    write_json(path, record)


def code_digest(args: dict) -> str:
    """Of the code that trains: what train.py and the sandbox's worker import of this project, every
    known task and reward, and the plug-in files that the flags name. Comments do not count."""
    finder, digest = modulefinder.ModuleFinder([str(Path(__file__).parent)]), hashlib.sha256()
    for name in ("train", "sandbox_worker", *TASKS.values(), *REWARDS.values()):
        finder.import_hook(name.rpartition(".")[0] or name)
    files = sorted(filter(None, (module.__file__ for module in finder.modules.values())))
    named = [(args[flag] or "").partition(":")[0] for flag in ("task", "reward")]
    for path in map(Path, [*files, *named]):
        if path.suffix == ".py" and path.is_file():
            digest.update(ast.dump(ast.parse(path.read_text())).encode())
    return digest.hexdigest()[:12]


def warn_of_other_code(directory: Path) -> None:
    record = json.loads((directory / "args.json").read_text())
    if "code" in record and code_digest(record["args"]) not in record["code"]:
        print(
            f"warning: {directory} was trained by other code than this (git diff, or a plug-in): "
            "what follows may differ for that alone",
            file=sys.stderr,
        )


def check_bases(directory: Path, models: list[str]) -> None:
    """Raises ValueError where a run's agents were trained on other models than these. An adapter
    on another base of the same shape would load, and be worth nothing."""
    record = json.loads((directory / "args.json").read_text())
    trained = record.get("bases", {})  # runs of the first version have none
    for was, name in zip(record["args"]["model"], models, strict=True):
        if was in trained and fingerprint(name) != trained[was]:
            raise ValueError(
                f"the model {name} is not what {directory} was trained on (other weights, config "
                "or tokenizer): bring that one back, or train anew"
            )


def steps(directory: Path, module: MAGRPO) -> int:
    """Steps in a run's checkpoint (0: none is there). ValueError where the run cannot go on."""
    check_bases(directory, module.args.model)
    for name in ("metrics.jsonl", "samples.jsonl"):
        read_lines(directory / name)
    path = directory / "checkpoints" / "last.ckpt"
    if not path.exists():
        return 0
    try:
        state = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
        shapes = {name: value.shape for name, value in state["state_dict"].items()}
        step = state["global_step"]
    except Exception as error:  # of torch, zip and pickle
        raise ValueError(
            f"{path} is damaged, or no checkpoint of a run ({type(error).__name__}): bring back a "
            f"copy, or delete it to begin {directory} again"
        ) from error
    if shapes != {name: value.shape for name, value in module.state_dict().items()}:
        raise ValueError(
            f"{path} is of another team than {directory / 'args.json'} says (agents, adapters or "
            "model): bring back the one that belongs to the other"
        )
    return step


def read_lines(path: Path) -> list[tuple[int, str]]:
    """(step, line) of a run's file, without a last line that was cut by a kill."""
    found = []
    text = path.read_text(errors="replace") if path.exists() else ""
    for number, line in enumerate(text.splitlines(keepends=True), 1):
        if line.endswith("\n"):
            try:
                found.append((int(json.loads(line)["step"]), line))
            except (ValueError, KeyError, TypeError) as error:
                told = f"{path}, line {number}: not what a run writes"
                raise ValueError(f"{told}; bring back a copy, or mend it") from error
    return found


def keep_until(path: Path, step: int) -> None:
    """Drops the lines of the steps after a killed run's last checkpoint, and a line cut in half."""
    if not path.exists():
        return
    write_whole(path, "".join(line for number, line in read_lines(path) if number < step))


def evaluate(module: MAGRPO, items: list[dict], args) -> tuple[dict, dict, list[Node]]:
    """Held-out evaluation: sampled (as in training, without the tree) and greedy.

    Returns the measures, the returns problem by problem, and the last turn's nodes of the greedy
    rollout. The random numbers are the same at every call, so before and after differ by the team
    alone.
    """
    greedy = Sampling(0.0, 0, 1.0, args.max_new_tokens)
    measures, per_problem = {}, {}
    for name, sampling, samples in (("", module.sampling, EVAL_SAMPLES), ("greedy/", greedy, 1)):
        how = (samples, sampling, "aligned", True)
        turns = parallel.play(module.rollout, items, (args.seed, EVAL, 0, 0), *how)
        returns = torch.DoubleTensor([node.value for node in turns[0]]) / module.maximum
        per_problem[f"{name}return"] = returns.tolist()
        spread = float(returns.std()) if len(items) > 1 else 0.0
        measures[f"{name}return"] = float(returns.mean())
        measures[f"{name}return_se"] = spread / math.sqrt(len(items))
        measures |= {name + key: value for key, value in mean_parts(turns[-1]).items()}
    return measures, per_problem, turns[-1]


def sample_record(step: int, node: Node, turn: int, number: int) -> dict:
    """Aligned joint response `number` of a node as a line of samples.jsonl."""
    texts, parts = node.aligned(number)
    return {
        "step": step,
        "task_id": node.item.get("task_id"),
        "turn": turn,
        "prompts": node.observations,
        "responses": texts,
        "reward": total(parts),
        "parts": parts,
    }


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

    def catch_signals(self, module) -> None:
        """The first SIGINT or SIGTERM ends the run at a safe place, a second one at once. Called
        after Lightning has set its own handlers."""

        def stop(number, frame):
            signal.signal(number, signal.SIG_DFL)
            module.stop(Stopped(signal.Signals(number).name))

        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, stop)

    def on_train_start(self, trainer, module):
        self.catch_signals(module)
        self.directory = trainer.strategy.broadcast(self.directory)  # the first process named it
        self.start = time.perf_counter()
        self.saved = module.global_step if module.global_step else -1
        if trainer.is_global_zero:
            self.board = SummaryWriter(self.directory, purge_step=module.global_step)
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
            self.board.add_text("flags", f"|flag|value|\n|-|-|\n{rows}")
            self.scalars("test", self.before, 0)
        self.save(trainer)

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        done, args, measures = module.global_step, self.args, None
        if args.eval_every and done % args.eval_every == 0:
            measures, _, _ = self.evaluate(trainer, module, "dev")
        if trainer.is_global_zero:
            self.record(module, done - 1, measures)
        if done % args.save_every == 0 or done == args.max_steps:
            self.save(trainer)
        trainer.should_stop = done == args.max_steps

    def record(self, module, step: int, dev: dict | None) -> None:
        """What a step writes; dev: the measures of an evaluation after it."""
        self.append("metrics.jsonl", [{"step": step, **module.metrics}])
        self.scalars("", module.metrics, step)
        if step % self.args.sample_every == 0:
            self.show_samples(module, step)
        if dev:
            self.append("metrics.jsonl", [{"step": step, **_under("dev", dev)}])
            self.scalars("dev", dev, step)
        if (step + 1) % max(self.args.max_steps // 10, doctor.STEPS) == 0:
            for line in doctor.warnings(self.directory, self.warned):
                print(f"\nwarning: {line}", file=sys.stderr)

    def on_train_end(self, trainer, module):
        if module.global_step < self.args.max_steps:
            return
        self.after, self.returns["after"], nodes = self.evaluate(trainer, module, "test")
        if not trainer.is_global_zero:
            return
        self.scalars("test", self.after, module.global_step)
        for agent in range(module.team.size):
            module.team.base_of[agent].save(agent, self.directory / "agents" / str(agent))
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
        self.board.close()

    def evaluate(self, trainer, module, split: str):
        with trainer.precision_plugin.forward_context():  # the precision of training
            return evaluate(module, self.held_out[split], self.args)

    def on_exception(self, trainer, module, exception):
        """What was computed is saved, whatever happened; before the first step, nothing was. Where
        only one of several processes fails, the others are not here to save with it."""
        here_alone = trainer.world_size > 1 and not getattr(exception, "shared", False)
        if self.before and self.saved < module.global_step and not here_alone:
            self.save(trainer)

    def save(self, trainer) -> None:
        """Writes checkpoints/last.ckpt whole or not at all."""
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

    def scalars(self, prefix: str, metrics: dict, step: int) -> None:
        for name, value in _under(prefix, metrics).items():
            self.board.add_scalar(name, value, step)

    def show_samples(self, module, step: int) -> None:
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
        self.board.add_text("sample", f"<pre>{text}</pre>", step)


def _under(prefix: str, metrics: dict) -> dict:
    return {f"{prefix}/{name}" if prefix else name: value for name, value in metrics.items()}


class Bar(TQDMProgressBar):
    """Lightning's progress bar, with return and learning rate; the rest is in TensorBoard."""

    def on_train_epoch_start(self, trainer, *args):
        super().on_train_epoch_start(trainer, *args)
        self.train_progress_bar.set_description("training")

    @property
    def total_train_batches(self):
        return self.trainer.max_steps - 1

    def get_metrics(self, trainer, module):
        keys = ("return", "lr")
        return {k: f"{module.metrics[k]:.3g}" for k in keys if k in module.metrics}


def report(directory: Path) -> str:
    """The short report at the end of a run."""
    summary = json.loads((directory / "summary.json").read_text())
    args = json.loads((directory / "args.json").read_text())["args"]
    before, after = summary["before"], summary["after"]
    lines = [f"\n{summary['steps']} steps in {summary['seconds'] / 60:.1f} minutes: {directory}"]
    lines.append("held-out test problems, share of the maximum return   before    after")
    for name, label in (("return", "sampled"), ("greedy/return", "greedy")):
        error = after[f"{name}_se"]
        lines.append(f"  {label:<50}{before[name]:8.3f} {after[name]:8.3f}  (se {error:.3f})")
    if args["turns"] > 1:
        lines.append(feedback.disclosed(args["feedback"], args["feedback_tests"]))
    for when in ("before", "after"):
        sample = summary["example"][when]
        lines.append(f"\none joint response {when} (reward {sample['reward']:.2f}):")
        for agent, text in enumerate(sample["responses"]):
            lines += [f"  agent {agent} | {line}" for line in text.splitlines() or [""]]
    lines.append(f"\ncurves:    tensorboard --logdir {directory}")
    lines.append(f"evaluate:  python eval.py --run {directory}")
    steps = 2 * summary["steps"]
    lines.append(f"continue:  python train.py --resume {directory} --max-steps {steps}")
    return "\n".join(lines)
