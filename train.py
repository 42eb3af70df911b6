"""Trains a team: python train.py [flags]. Without flags: two agents of the embedded model."""

import argparse
import contextlib
import itertools
import sys

from rewards import REWARDS, asks
from tasks import DEFAULT, TASKS
from training import folder, learners
from training.bits import settle
from training.flags import Parser, TemplateArgs, at_least, conflict, each, named
from training.plugins import TINY, check_prompts, learning_rate, own_model, prepare
from training.terminal import fail, is_first, quiet, quit_on_signals

COUNT, SIZE = at_least(int, 1), at_least(int, 0)
SHARE, POSITIVE = at_least(float, 0, 1), at_least(float, 0)
TOP_P = at_least(float, 1e-6, 1)  # 0 leaves no token to sample
ON_OFF = {"action": argparse.BooleanOptionalAction, "default": False}  # --no-... undoes a file's
MAY_CHANGE = {"max_steps", "max_prompt_tokens"}  # with --resume: no step made so far depends on it
JOINTS = 4  # --joint from three agents on: docs/teams.md has what it costs and gives


def parser() -> Parser:
    top = Parser("train.py", description=__doc__)
    add = top.add_argument_group("problem").add_argument
    add("--task", default=DEFAULT, help=f"{named(TASKS)}, dotted.path or file.py:Class")
    add("--reward", help=f"{named(REWARDS)}, dotted.path or file.py:function (the task's own)")
    add("--data", metavar="FILE", help="JSON, JSONL, CSV (also .gz) or Parquet (the task's own)")
    add("--turns", type=COUNT, default=1, help="turns per problem, with feedback between them")
    add("--feedback", help="what the task tells between turns: a name of its own modes")
    add("--feedback-tests", type=SIZE, default=1, help="how many tests it may show, 0: all")
    add("--expert-url", metavar="URL", help="OpenAI-compatible, as http://localhost:8000/v1")
    add("--expert-model", help="its model; the key is MAGRPO_EXPERT_KEY or OPENAI_API_KEY")

    add = top.add_argument_group("team").add_argument
    kinds = "folder (an adapter's too), hub name or .gguf; one, or one per agent"
    add("--model", nargs="+", metavar="NAME", help=f"{kinds} (the task's own, tiny)")
    add("--judge", help="model that a reward asks, which needs one (the team's frozen base)")
    add("--num-agents", type=COUNT, default=2, help="1 is single-agent GRPO on the same path")
    trained = "start from a run's agents, or one agent's folder; one, or one per agent"
    add("--init", nargs="+", metavar="RUN", help=trained)
    add("--freeze", type=SIZE, nargs="+", metavar="I", help="agents that act and do not learn")
    add("--share", action="store_true", help="all agents of one base are one policy")
    add("--lora-rank", type=SIZE, default=16, help="0: full copies, one per agent")
    add("--lora-alpha", type=COUNT, default=32, help="scale of the adapters: alpha / rank")
    own = "a card 16, a CPU the faster; tiny/ and full copies 32"
    add("--bits", type=int, choices=(32, 16, 8, 4), help=f"of the frozen base ({own})")
    add("--chat-template", **ON_OFF, help="wrap prompts in the model's chat template")
    arguments = "the template's own, such as enable_thinking=false; the value is JSON or text"
    add("--template-arg", nargs="+", metavar="NAME=VALUE", action=TemplateArgs, help=arguments)
    add("--trust-remote-code", **ON_OFF, help="run model code from the hub")

    add = top.add_argument_group("sampling").add_argument
    add("--num-generations", type=COUNT, default=8, help="G, samples per agent and prompt")
    add("--temperature", type=POSITIVE, default=1.0, help="of the sampled distribution")
    add("--top-p", type=TOP_P, default=1.0, help="likeliest tokens of this mass together, 1: all")
    add("--top-k", type=SIZE, default=0, help="so many likeliest tokens, 0: all")
    add("--max-new-tokens", type=COUNT, default=96, help="of one response")
    add("--max-prompt-tokens", type=COUNT, default=2048, help="longer prompts are an error")
    add("--engine", nargs="+", metavar="URL", help="vLLM server that samples; one for each base")
    add("--engine-folder", metavar="DIR", help="where it finds adapters (one of this machine's)")
    add_training(top)
    return top


def add_training(top: Parser) -> None:
    add = top.add_argument_group("algorithm").add_argument
    scored = "joint responses that score each response: aligned (one), cross (all), or a number"
    joint = at_least(int, 1, words={"aligned": "aligned", "cross": "cross"})
    add("--joint", type=joint, metavar="K", help=f"{scored} (cross; from three agents on 4)")
    add("--branching", choices=("tree", "chain"), default="tree", help="of turns after the first")
    add("--gamma", type=SHARE, default=1.0, help="discount of the next turn's return")
    add("--updates", type=COUNT, default=1, help="of one rollout, clipped from the 2nd")
    add("--clip", type=SHARE, nargs=2, metavar=("LOW", "HIGH"), help="of PPO's ratio (0.2 0.2)")
    baselines = ("mean", "rloo", "std", "max", "none")
    add("--advantage", choices=baselines, default="mean", help="baseline")
    add("--normalize", choices=("sum", "token", "sequence"), default="sum", help="of the loss")
    add("--kl-coef", type=POSITIVE, default=0.0, help="weight of KL to the frozen base")
    add("--batch-size", type=COUNT, default=12, help="problems per step")
    rates = "1e-4, full copies 1e-5, or what the model's folder says"
    add("--lr", type=POSITIVE, help=f"learning rate of Adam ({rates})")
    schedules = ("constant", "linear", "cosine")
    add("--lr-schedule", choices=schedules, default="linear", help="down to a tenth of --lr")
    add("--warmup-steps", type=SIZE, default=0, help="in which the rate rises to --lr")
    add("--max-steps", type=COUNT, help="steps, one rollout each (130, or what --epochs says)")
    add("--epochs", type=at_least(float, 1e-6), help="of the problems, instead of --max-steps")

    add = top.add_argument_group("run").add_argument
    add("--run", help="a name in runs/, or a path with a / (the task's name and a number)")
    may_change = "--max-steps and --max-prompt-tokens may change"
    add("--resume", metavar="DIR", help=f"go on with a run that you trust; only {may_change}")
    add("--seed", type=at_least(int, 0, 2**63 - 1), default=0, help="of every random draw")
    add("--eval-every", type=SIZE, default=0, help="steps between evaluations on dev, 0: none")
    limit = at_least(int, 0, words={"none": None})
    add("--eval-limit", type=limit, default=100, help="held-out problems, 0: all, none")
    add("--save-every", type=COUNT, default=10, help="steps between checkpoints")
    add("--sample-every", type=COUNT, default=10, help="steps between lines of samples.jsonl")
    add("--devices", type=COUNT, default=1, help="processes per node: GPUs, or on the CPU")
    add("--num-nodes", type=COUNT, default=1, help="machines; --batch-size is of one process")
    add("--strategy", choices=("auto", "ddp"), default="auto", help="auto: ddp if several devices")
    kinds = ("32-true", "bf16-mixed")  # 16-mixed scales the loss, and clipping would see it
    add("--precision", choices=kinds, default="32-true", help="Lightning's; a base's is --bits")
    add("--dry-run", action="store_true", help="load, roll out one batch, print, write nothing")
    add("--debug", action="store_true", help="show the traceback of an error")


def parse(argv: list[str] | None = None) -> argparse.Namespace:
    """Flags as resolved. A resumed run has the flags it was started with, but for MAY_CHANGE.
    ValueError where they do not go together."""
    top = parser()
    args = top.parse_args(argv)
    if args.resume:
        own = folder.read_args(folder.run_folder(args.resume))["args"]
        top.set_defaults(**own)
        args = top.parse_args(argv)
        moved = {"engine", "engine_folder"} if args.engine and own.get("engine") else set()
        for name in sorted(own.keys() - {"resume", "debug"} - MAY_CHANGE - moved):
            if getattr(args, name) != own[name]:
                allowed = "only --max-steps and --max-prompt-tokens may change"
                message = f"{allowed}, not --{name.replace('_', '-')}"
                raise ValueError(f"--resume takes the run's own flags; {message}")
    elif args.max_steps and args.epochs:
        raise ValueError("--max-steps and --epochs: give one of them")
    # what was left open
    models = args.model or [own_model(args.task, args.num_agents) or TINY]
    args.model = each([TINY if name == "tiny" else name for name in models], args.num_agents)
    if args.lr is None:
        args.lr = min(learning_rate(name, args.lora_rank > 0) for name in args.model)
    args.template_arg = args.template_arg or {}
    args.freeze = sorted(set(args.freeze or ()))
    args.clip = args.clip or ([0.2, 0.2] if args.updates > 1 else None)
    most = args.num_generations ** (args.num_agents - 1)
    args.joint = args.joint or (min(JOINTS, most) if args.num_agents > 2 else "cross")
    if wrong := conflict(args):
        raise ValueError(wrong)
    return args


def build(args, prepared: tuple | None = None):
    """Everything a run needs, loaded and checked: (module, held-out items by split)."""
    import torch

    from magrpo import MAGRPO
    from policies.judging import make_judge
    from policies.loading import device
    from policies.team import Team
    from training.scoring import Scorer

    task, reward, problems, held_out = prepared or prepare(args)
    settle(args)
    torch.manual_seed(args.seed)  # the adapters' first weights
    team = Team(args)
    if args.init and not folder.checkpoint(args.resume):
        learners.load(team, args)
    judge = make_judge(args, team) if asks(reward) else None
    module = MAGRPO(team, task, Scorer(reward, judge), problems, args)
    if judge:
        module.judge = judge.base  # so that it moves with the module; it is not trained
    module.to(device())
    if args.engine:
        from policies.engine import connect

        connect(team, args)
    check_prompts(module.rollout, itertools.chain(problems, *held_out.values()))
    return module, held_out


def train(args) -> None:
    first, directory = is_first(args), args.resume and folder.run_folder(args.resume)
    if first and args.run and not args.resume:
        folder.refuse_name(args.run)
    prepared = prepare(args)
    if first:
        print("loading libraries and models ...", flush=True)
    quiet()
    from training.recorder import Recorder
    from training.report import describe, dry_run, report

    module, held_out = build(args, prepared)
    if first:
        print(describe(module, held_out, args), flush=True)
    if args.dry_run:
        return dry_run(module, args)
    done = 0
    with contextlib.ExitStack() as held:
        if first:
            directory = directory or folder.new_directory(args)
            held.enter_context(folder.lock_run_folder(directory))
            if args.resume:
                done = folder.cut_back(directory, module)
            folder.write_args(directory, args)
            print(f"writes:  {directory}", flush=True)
        fit(module, Recorder(directory, held_out, args), done, args)
    if first:
        print(report(directory))


def fit(module, recorder, kept: int, args) -> None:
    """kept: steps of a resumed run, which TensorBoard keeps."""
    import lightning as L
    from lightning.pytorch.loggers import TensorBoardLogger

    from policies.parallel import Processes
    from training.recorder import Stopped

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
        logger=is_first(args) and TensorBoardLogger(recorder.directory, "", "", purge_step=kept),
        log_every_n_steps=1,
        callbacks=[recorder],
        enable_checkpointing=False,
        enable_model_summary=False,
        enable_progress_bar=False,
    )
    try:
        trainer.fit(module, ckpt_path=folder.checkpoint(args.resume), weights_only=True)
    except Stopped as signalled:
        if is_first(args):
            step = max(recorder.saved, kept)
            print(
                f"\nstopped by {signalled} at step {trainer.global_step}. Go on from step {step} "
                f"with:\n  python train.py --resume {recorder.directory}"
            )
        sys.exit(130)
    except Exception as error:
        command = f"python train.py --resume {recorder.directory}"
        step = max(recorder.saved, kept)
        error.add_note(f"(the last checkpoint is of step {step}; mend it and go on: {command})")
        raise


def main(argv: list[str] | None = None) -> None:
    argv = sys.argv[1:] if argv is None else argv
    try:
        args = parse(argv)
        train(args)
    except Exception as error:
        if "--debug" in argv:
            raise
        if getattr(error, "everywhere", False) and not is_first(args):
            sys.exit(2)  # the first process says it
        fail(parser(), error)


if __name__ == "__main__":
    quit_on_signals("train.py")
    main()
