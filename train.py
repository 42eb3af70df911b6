"""Trains a team: python train.py [flags]. Without flags: two agents of the embedded model."""

import argparse
import contextlib
import itertools
import json
import os
import sys
from pathlib import Path

from rewards import REWARDS
from running import learners
from running.bits import settle
from running.flags import Parser, at_least, conflict, joint, named, or_none
from running.folder import (
    alone,
    checkpoint,
    has_ended,
    new_directory,
    refuse_name,
    run_folder,
    steps,
    write_args,
)
from running.plugins import TINY, check_prompts, is_embedded, own_model, prepare
from running.terminal import is_first, opening, quiet, quit_on_signals, told
from tasks import TASKS

COUNT, SIZE = at_least(int, 1), at_least(int, 0)
SHARE, POSITIVE = at_least(float, 0, 1), at_least(float, 0)
ON_OFF = {"action": argparse.BooleanOptionalAction, "default": False}  # --no-... undoes a file's
# --lr where it is not given, by (embedded model, adapters): a pretrained one bears far less
LR = {(True, True): 3e-3, (True, False): 5e-4, (False, True): 1e-4, (False, False): 1e-5}
LR_BUILD = 1.5e-3  # adapters on tiny/build: at twice that, lines that nobody is paid for drift


def parser() -> Parser:
    top = Parser("train.py", description=__doc__)
    groups = (problem_flags, team_flags, sampling_flags, algorithm_flags, run_flags)
    for add_flags in groups:
        name = add_flags.__name__.removesuffix("_flags")
        add_flags(top.add_argument_group(name).add_argument)
    return top


def problem_flags(add) -> None:
    add("--task", default="coop", help=f"{named(TASKS)}, dotted.path or file.py:Class")
    add("--reward", help=f"{named(REWARDS)}, dotted.path or file.py:function (the task's own)")
    add(
        "--data",
        metavar="FILE",
        help="local JSON, JSONL(.gz), CSV or Parquet file instead of the task's source",
    )
    add("--turns", type=COUNT, default=1, help="turns per problem, with feedback between them")
    add("--feedback", help="told between turns: plain, passed, levels, tests, static, expert ...")
    add("--feedback-tests", type=SIZE, help="how many tests it may show, 0: all (1)")
    add(
        "--expert-url",
        metavar="URL",
        help="an OpenAI-compatible endpoint, such as http://localhost:8000/v1",
    )
    add("--expert-model", help="its model; the key is MAGRPO_EXPERT_KEY or OPENAI_API_KEY")


def team_flags(add) -> None:
    kinds = "folder (an adapter's too), hub name or .gguf; one, or one per agent"
    add("--model", nargs="+", metavar="NAME", help=f"{kinds} (the task's own, tiny)")
    add("--judge", help="model that a reward asks, which needs one (the team's frozen base)")
    add("--num-agents", type=COUNT, default=2, help="1 is single-agent GRPO on the same path")
    add(
        "--init",
        nargs="+",
        metavar="RUN",
        help="start from a run's agents, or one agent's folder; one, or one per agent",
    )
    add("--freeze", type=SIZE, nargs="+", metavar="I", help="agents that act and do not learn")
    add("--alternate", type=COUNT, metavar="K", help="one agent learns at a time, K steps each")
    add("--lora-rank", type=SIZE, default=16, help="0: full copies, one per agent")
    add("--lora-alpha", type=COUNT, default=32, help="scale of the adapters: alpha / rank")
    own = "a card 16, a CPU the faster; tiny/ and full copies 32"
    add("--bits", type=int, choices=(32, 16, 8, 4), help=f"of the frozen base ({own})")
    add("--chat-template", **ON_OFF, help="wrap prompts in the model's chat template")
    add("--trust-remote-code", **ON_OFF, help="run model code from the hub")
    add("--memory", type=at_least(float, 1e-3), metavar="GIB", help="of the device to plan with")


def sampling_flags(add) -> None:
    add("--num-generations", type=COUNT, default=8, help="G, samples per agent and prompt")
    add("--temperature", type=POSITIVE, default=1.0, help="of the sampled distribution")
    add("--top-p", type=SHARE, default=1.0, help="likeliest tokens of this mass together, 1: all")
    add("--top-k", type=SIZE, default=0, help="so many likeliest tokens, 0: all")
    add("--max-new-tokens", type=COUNT, default=96, help="of one response")
    add("--max-prompt-tokens", type=COUNT, default=2048, help="longer prompts are an error")


def algorithm_flags(add) -> None:
    scored = "joint responses that score each response: aligned (one), cross (all), or a number"
    add("--joint", type=joint, metavar="K", help=f"{scored} (cross; from three agents on 4)")
    add("--branching", choices=("tree", "chain"), default="tree", help="of turns after the first")
    add("--gamma", type=SHARE, default=1.0, help="discount of the next turn's return")
    baselines = ("mean", "rloo", "std", "max", "none")
    add("--advantage", choices=baselines, default="mean", help="baseline")
    add("--normalize", choices=("sum", "token", "sequence"), default="sum", help="of the loss")
    add("--kl-coef", type=POSITIVE, default=0.0, help="weight of KL to the frozen base")
    add("--batch-size", type=COUNT, default=12, help="problems per step")
    add(
        "--lr",
        type=POSITIVE,
        help="learning rate of Adam (1e-4, full copies 1e-5; embedded 3e-3 and 5e-4; build 1.5e-3)",
    )
    schedules = ("constant", "linear", "cosine")
    add("--lr-schedule", choices=schedules, default="linear", help="down to a tenth of --lr")
    add("--warmup-steps", type=SIZE, default=0, help="in which the rate rises to --lr")
    add("--max-steps", type=COUNT, help="steps, one rollout each (130, or what --epochs says)")
    passes = at_least(float, 1e-6)
    add("--epochs", type=passes, help="passes over the problems, instead of --max-steps")


def run_flags(add) -> None:
    add("--run", help="a name in runs/, or a path with a / (the task's name and a number)")
    add("--resume", metavar="DIR", help="go on with a run; only --max-steps may change")
    seeds = at_least(int, 0, 2**63 - 1)
    add("--seed", type=seeds, default=0, help="of every random draw")
    add("--eval-every", type=SIZE, default=0, help="steps between evaluations on dev, 0: none")
    add("--eval-limit", type=or_none(SIZE), default=100, help="held-out problems, 0: all, none")
    add("--save-every", type=COUNT, default=10, help="steps between checkpoints")
    add(
        "--keep-every",
        type=SIZE,
        default=0,
        help="steps between copies of the agents in the run's kept/, 0: none but the best on dev",
    )
    add("--sample-every", type=COUNT, default=10, help="steps between lines of samples.jsonl")
    add("--logger", choices=("wandb", "csv"), help="of Lightning's, besides TensorBoard")
    add("--devices", type=COUNT, default=1, help="processes per node: GPUs, or on the CPU")
    add("--num-nodes", type=COUNT, default=1, help="machines; --batch-size is of one process")
    add("--strategy", choices=("auto", "ddp"), default="auto", help="auto: ddp if several devices")
    kinds = ("32-true", "bf16-mixed")  # 16-mixed scales the loss, and clipping would see it
    add(
        "--precision",
        choices=kinds,
        default="32-true",
        help="Lightning's; the base's own is --bits",
    )
    add("--dry-run", action="store_true", help="load, roll out one batch, print, write nothing")
    add("--debug", action="store_true", help="show the traceback of an error")


def parse(argv: list[str] | None = None) -> argparse.Namespace:
    """Flags as resolved. A resumed run has the flags it was started with, but for --max-steps."""
    top = parser()
    args = top.parse_args(argv)
    if args.resume:
        for action in top._actions:
            action.default = argparse.SUPPRESS
        given = vars(top.parse_args(argv))
        changed = set(given) - {"resume", "max_steps", "debug"}
        if changed:
            flags = ", ".join("--" + name.replace("_", "-") for name in sorted(changed))
            top.error(
                f"--resume takes the run's own flags; only --max-steps may change, not {flags}"
            )
        args = argparse.Namespace(**recorded(top, run_folder(args.resume)) | given)
        if wrong := conflict(args):  # of a run that an earlier version began
            top.error(f"--resume {args.resume}: {wrong}")
        return args
    if args.max_steps and args.epochs:
        top.error("--max-steps and --epochs: give one of them")
    try:
        models = args.model or [own_model(args.task, args.num_agents) or TINY]
    except ValueError as error:
        top.error(str(error))
    models = [TINY if name == "tiny" else name for name in models]
    if len(models) > 1 and len(models) != args.num_agents:
        top.error(f"--model names {len(models)} for {args.num_agents} agents: give one, or each")
    args.model = models * (args.num_agents if len(models) == 1 else 1)
    if args.lr is None:
        adapters = args.lora_rank > 0
        build = adapters and {Path(name).resolve() for name in models} == {Path(TINY, "build")}
        args.lr = LR_BUILD if build else LR[all(map(is_embedded, models)), adapters]
    args.freeze = sorted(set(args.freeze or ()))
    if wrong := learners.mistake(args):
        top.error(wrong)
    if args.feedback_tests is not None and args.feedback not in ("passed", "levels", "tests"):
        top.error("--feedback-tests goes with --feedback passed, levels or tests")
    args.feedback_tests = 1 if args.feedback_tests is None else args.feedback_tests
    if wrong := conflict(args):
        top.error(wrong)
    return args


def recorded(top: Parser, directory: Path) -> dict:
    """The flags in a run's args.json, each of them checked as if it had been given."""
    path = directory / "args.json"
    if not path.is_file():
        top.error(f"--resume {directory}: there is no run (no {path}); give a folder in runs/")
    try:
        values = json.loads(path.read_text())["args"]
        defaults = vars(parser().parse_args([]))
        for action in [action for action in top._actions if action.dest != "help"]:
            flag = action.dest  # one that is newer than the run has its default
            value = values.setdefault(flag, defaults[flag])
            if value is not None and action.nargs != 0:  # 0: a switch
                for one in value if isinstance(value, list) else [value]:
                    top._check_value(action, top._get_value(action, str(one)))
        return values
    except (ValueError, TypeError, KeyError, argparse.ArgumentError, OSError) as error:
        top.error(f"{path} is not what a run writes ({error}): restore it, or start a new run")


def build(args, prepared: tuple | None = None):
    """Everything a run needs, loaded and checked: (module, held-out items by split)."""
    import torch

    from magrpo import MAGRPO, Team
    from policies.judging import make_judge
    from policies.loading import device

    task, reward, problems, held_out = prepared or prepare(args)

    settle(args)
    torch.manual_seed(args.seed)  # the adapters' first weights
    load = {"bits": args.bits, "memory": args.memory, "trust_remote_code": args.trust_remote_code}
    team = Team(args.model, args.lora_rank, args.lora_alpha, **load)
    if args.init and not checkpoint(args):
        learners.load(team, args)
    module = MAGRPO(team, task, reward, problems, args)
    if reward.needs_model:
        reward.judge = make_judge(args, team)
        module.judge = reward.judge.base  # so that it moves with the module; it is not trained
    module.to(device())
    check_prompts(module.rollout, itertools.chain(problems, *held_out.values()))
    return module, held_out


def train(args) -> None:
    first, directory = is_first(args), args.resume and run_folder(args.resume)
    if directory and has_ended(directory, args):
        told = f"{directory} has all its {args.max_steps} steps: give a larger --max-steps to go on"
        return print(told) if first else None
    if first and args.run and not args.resume:
        refuse_name(args.run)
    if args.init and not args.resume:
        args.init = learners.agent_folders(args)
    prepared = prepare(args)
    if args.init and not args.resume:
        learners.check_bases(args)
    if first:
        print(opening(args, *prepared), flush=True)
    quiet()
    from running.preview import describe, dry_run
    from running.recorder import Recorder, loggers
    from running.report import report

    module, held_out = build(args, prepared)
    if first:
        print(describe(module, args), flush=True)
    if args.dry_run:
        return dry_run(module, args)
    with contextlib.ExitStack() as held:
        if first:
            directory = directory or new_directory(args)
            held.enter_context(alone(directory))
            done = steps(directory, module) if args.resume else 0
            if args.max_steps < done:
                raise ValueError(
                    f"{directory} has {done} steps: --max-steps {args.max_steps} is behind it"
                )
            write_args(directory, args)
            print(f"writes:  {directory}", flush=True)
        writers = loggers(directory, args, done) if first else False
        fit(module, Recorder(directory, held_out, args), writers, args)
    if first:
        print(report(directory))


def fit(module, recorder, loggers, args) -> None:
    import lightning as L

    from policies.parallel import Processes
    from running.recorder import Stopped
    from running.report import Bar

    several = args.strategy == "ddp" or args.devices * args.num_nodes > 1
    trainer = L.Trainer(
        max_steps=args.max_steps + 1,  # the recorder stops it one step before: Lightning would
        limit_train_batches=args.max_steps + 1,  # not even start on what has all its steps
        max_epochs=1,
        accelerator=module.device.type,  # never Apple's MPS
        devices=args.devices,
        num_nodes=args.num_nodes,
        strategy=Processes() if several else "auto",
        precision=args.precision,
        logger=loggers,
        log_every_n_steps=1,
        callbacks=[recorder, Bar()],
        enable_checkpointing=False,
        enable_model_summary=False,
    )
    try:
        trainer.fit(module, ckpt_path=checkpoint(args), weights_only=True)
    except Stopped as signalled:
        if is_first(args):
            print(
                f"\nstopped by {signalled} at step {trainer.global_step}; nothing is lost. "
                f"Go on with:\n  python train.py --resume {recorder.directory}"
            )
        sys.exit(130)
    except Exception as error:
        error.add_note(f"(mend it and go on: python train.py --resume {recorder.directory})")
        raise


def main(argv: list[str] | None = None) -> None:
    args = parse(argv)
    try:
        train(args)
    except Exception as error:
        if args.debug:
            raise
        if getattr(error, "shared", False) and not is_first(args):
            sys.exit(2)  # the first process says it
        if error.args[1:2] == (False,):  # a reward hangs: its thread would keep this process alive
            print(f"train.py: error: {' '.join(told(error).split())}", file=sys.stderr, flush=True)
            os._exit(2)
        parser().error(told(error))


if __name__ == "__main__":
    quit_on_signals("train.py")
    main()
