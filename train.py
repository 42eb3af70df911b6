"""Train a team of language models by reinforcement learning, with one reward for the whole team.

Examples:
  python train.py                                    # two small agents, on any CPU, in minutes
  python train.py --task humaneval --model Qwen/Qwen2.5-Coder-0.5B-Instruct --chat-template
  python train.py --resume runs/coop-1               # a run that was stopped goes on
  python train.py --run mine --seed 1                # the same command goes on, too

A value in brackets is the default. --dry-run shows one batch of a new run and writes nothing.
"""

import contextlib
import itertools
import os
import re
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from policies import Mistake
from policies.model_names import DEVICE, TeamOptions, find_model, located
from rewards import REWARDS
from tasks import DEFAULT, TASKS
from training import run_folder
from training.defaults import agent_folders, resolve, resolve_bits
from training.flags import (
    Parser,
    assignment,
    at_least,
    flag,
    named,
    optional,
    part_of,
)
from training.items import check_items, check_prompts, repeated
from training.plugins import find_reward, make_task, plug_in
from training.terminal import drop_output, fail, is_first, quiet, reset_process

COUNT = at_least(int, 1)
SIZE = at_least(int, 0)
SHARE = at_least(float, 0, 1)
POSITIVE = at_least(float, 0)
TOP_P = at_least(float, 1e-6, 1)  # 0 leaves no token to sample
# With --resume these may change. The steps made so far keep the schedule of the --max-steps before,
# and the episodes that ended at --max-prompt-tokens.
MAY_CHANGE = {"max_steps", "max_prompt_tokens"}
ASIDE = {"resume", "device"}  # these say nothing of a run
HEADINGS = {  # of --help, by their first flag
    "task": "problem",
    "model": "team",
    "num_generations": "sampling",
    "advantage": "algorithm",
    "run": "run",
    "share": "advanced",
}


@dataclass
class Args:
    """Every flag of train.py, with its default and its help. None: `resolve` finds a value."""

    # --- the problem
    task: str = flag(
        DEFAULT,
        f"task: {named(TASKS)}; or a class of yours, as dotted.path or file.py:Class",
        plug_in,
        metavar="NAME",
    )
    reward: str | None = optional(
        f"reward: {named(REWARDS)}; or a function of yours, as dotted.path or file.py:function "
        "(the task's own)",
        plug_in,
        metavar="NAME",
    )
    data: str | None = optional(
        "file of problems: JSON, JSONL, CSV (also .gz) or Parquet (the task's own)",
        os.path.abspath,
        metavar="FILE",
    )
    turns: int | None = optional(
        "largest number of turns of an episode: times that agents are asked (the task's own, or 1)",
        COUNT,
    )
    feedback: str | None = optional("kind of feedback between turns, by the task's name for it")
    task_arg: dict | None = optional(
        "arguments of the task's constructor, such as feedback_tests=3 for --feedback tests",
        assignment,
        nargs="+",
        metavar="NAME=VALUE",
    )

    # --- the team
    model: list[str] | None = optional(
        "language model: folder or name on the Hugging Face hub; one for all agents or one each "
        "(the task's own, or tiny)",
        located,
        nargs="+",
        metavar="NAME",
    )
    num_agents: int = flag(2, "number of agents; 1: single-agent GRPO", COUNT)
    init: list[str] | None = optional(
        "trained agents to start from: a run, or the folder of one agent; one for all or one each",
        nargs="+",
    )
    lora_rank: int = flag(
        16,
        "rank of the LoRA adapters; 0: training of all weights, a copy per agent",
        SIZE,
    )
    bits: int | None = optional(
        "bits per weight of the frozen model (16 on a GPU with bf16, else 32; embedded models: 32)",
        int,
        choices=(32, 16, 8, 4),
    )
    chat_template: bool = flag(
        False, "chat format for prompts, which instruction-tuned models expect"
    )

    # --- sampling
    num_generations: int = flag(8, "G, the group: samples of each agent to a prompt", COUNT)
    temperature: list[float] | None = optional(
        "randomness of sampling, the divisor of the logits; one for all agents or one each (1)",
        POSITIVE,
        nargs="+",
    )
    top_p: float = flag(
        1.0,
        "nucleus sampling: the likeliest tokens up to this probability; 1: all",
        TOP_P,
    )
    top_k: int = flag(0, "number of likeliest tokens to sample from; 0: all", SIZE)
    max_new_tokens: int = flag(96, "largest number of tokens in a response", COUNT)

    # --- the algorithm
    advantage: str = flag(
        "mean",
        "advantage, a return minus: the group's mean (mean), the mean of the others (rloo, "
        "leave-one-out), the group's best (max), nothing (none); std: mean, then division by the "
        "group's standard deviation",
        choices=("mean", "rloo", "std", "max", "none"),
    )
    joint: int | str | None = optional(
        "number of joint responses in which each response is scored; aligned: one; cross: all "
        "combinations with the partners' responses (cross; from three agents on 4)",
        at_least(int, 1, words={"aligned": "aligned", "cross": "cross"}),
        metavar="K",
    )
    optimism: float | None = optional(
        "weight, at the start, of a response's best joint response against the mean of them (1; "
        "0 where each has one, or one agent learns)",
        SHARE,
    )
    branching: str = flag(
        "tree",
        "multi-turn: tree = G new samples per response, chain = one",
        choices=("tree", "chain"),
    )
    gamma: float = flag(1.0, "discount factor on the return of the next turn", SHARE)
    batch_size: int = flag(12, "number of problems per step (and per process)", COUNT)
    lr: list[float] | None = optional(
        "learning rate of Adam; one for all agents or one each (1e-4; all weights 1e-5; or what "
        "the model's folder says)",
        POSITIVE,
        nargs="+",
    )
    lr_schedule: str = flag(
        "linear",
        "course of the learning rate; linear and cosine fall to a tenth of --lr",
        choices=("constant", "linear", "cosine"),
    )
    max_steps: int = flag(130, "number of training steps", COUNT)

    # --- the run
    run: str | None = optional(
        "folder of the run: a name in runs/, or a path with a / (the task's name and a number)",
    )
    resume: str | None = optional("run to continue, with its own flags; runs its plug-in code")
    seed: int = flag(0, "seed of every random draw", at_least(int, 0, 2**64 - 1))
    eval_every: int = flag(0, "number of steps between evaluations on dev problems; 0: none", SIZE)
    eval_limit: int | None = flag(
        100,
        "number of held-out problems before and after training; 0: all; none: no evaluation",
        at_least(int, 0, words={"none": None}),
    )
    save_every: int = flag(10, "number of steps between checkpoints", COUNT)
    sample_every: int = flag(10, "number of steps between records in samples.jsonl", COUNT)
    logger: str = flag(
        "tensorboard",
        "where the curves go besides metrics.jsonl; wandb needs pip install wandb",
        choices=("tensorboard", "wandb", "none"),
    )
    dry_run: bool = flag(
        False, "test of the other flags on one batch: examples, memory; writes nothing"
    )

    # --- advanced
    share: bool = flag(False, "parameter sharing: one policy for all agents with the same model")
    freeze: list[int] | None = optional(
        "numbers of agents that act and do not learn", SIZE, nargs="+", metavar="I"
    )
    lora_alpha: int = flag(32, "scale of the adapters, times --lora-rank", COUNT)
    checkpointing: bool = flag(
        False,
        "gradient checkpointing: less memory for the update, which takes longer: docs/start.md "
        "(by itself where memory is short, and on a GPU where a batch is large)",
    )
    max_prompt_tokens: int = flag(
        2048,
        "largest number of tokens in a prompt; a longer one is an error, or ends a later turn's "
        "episode",
        COUNT,
    )
    template_arg: dict | None = optional(
        "arguments of the chat template, as enable_thinking=false (a JSON value, or text)",
        assignment,
        nargs="+",
        metavar="NAME=VALUE",
    )
    normalize: str = flag(
        "sum",
        "divisor of a response's loss: 1 (sum), the mean length (token), its own length (sequence)",
        choices=("sum", "token", "sequence"),
    )
    kl_coef: float = flag(
        0.0, "weight of a KL penalty that keeps agents near the frozen model", POSITIVE
    )
    grad_clip: float = flag(1.0, "largest norm of an agent's gradient; 0: any", POSITIVE)
    warmup_steps: int = flag(0, "number of steps in which the learning rate rises to --lr", SIZE)
    precision: str = flag(  # 16-mixed scales the loss, and clipping would see it
        "32-true",
        "number format of training with --lora-rank 0; --bits sets it for adapters",
        choices=("32-true", "bf16-mixed"),
    )
    engine: list[str] | None = optional(
        "vLLM server that samples the responses; one for each model",
        nargs="+",
        metavar="URL",
    )
    device: str | None = optional(
        "where the models run (cuda if there is one, or cpu)",
        choices=("cuda", "cpu"),
    )
    devices: int = flag(1, "number of GPUs per machine (on a CPU: of processes)", COUNT)
    num_nodes: int = flag(1, "number of machines", COUNT)

    @property
    def processes(self) -> int:
        return self.devices * self.num_nodes


def parser() -> Parser:
    top = Parser("train.py", __doc__)
    top.add_fields(Args, HEADINGS)
    return top


def parse(argv: list[str]) -> Args:
    """Return the flags with their defaults resolved; ValueError where they do not go together.

    A run that has begun goes on, whether --resume or the same command names it.
    """
    top = parser()
    args = top.parse_args(argv, Args())
    directory = None
    if args.resume:
        directory = run_folder.find_run(args.resume)
        args = top.parse_args(argv, Args(**recorded_flags(directory)))
        may_change = MAY_CHANGE
    elif args.run and run_folder.is_run(run_folder.run_path(args.run)):
        directory = run_folder.run_path(args.run)
        may_change = {"run"}  # its folder has several names
    resolve(args)
    if 0 in args.temperature:
        raise Mistake("--temperature 0 trains nothing: all samples of a group are the same")
    if directory:
        if args.init and not args.resume:
            args.init = agent_folders(args.init, part_of(args, TeamOptions))
        check_same(args, directory, may_change)
        args.resume = str(directory)
    return args


def check_same(args: Args, directory: Path, may_change: set[str]) -> None:
    """Raise ValueError if a flag is not that of the run that goes on.

    --bits that were not given are the run's.
    """
    recorded = recorded_flags(directory)
    if not isinstance(recorded["temperature"], list):  # as optimizer groups have a name since then
        raise Mistake(
            f"{directory} was trained by older code, whose checkpoints this code cannot continue: "
            "the run's own commit does"
        )
    run = Args(**recorded)
    resolve(run)
    make_task(run)  # they name their rewards
    make_task(args)
    if args.engine and run.engine:
        run.engine = args.engine  # a server may have moved
    if args.bits is None:
        args.bits = run.bits
    flags = run_folder.recorded(args)
    for name, value in run_folder.recorded(run).items():
        given = flags[name]
        if given != value and name not in ASIDE | may_change:
            raise Mistake(
                f"{directory} has another --{name.replace('_', '-')} ({value}, and not {given}): "
                "it goes on with its own flags, and --resume changes only --max-steps, "
                "--max-prompt-tokens, --device and the URL of --engine. For others choose "
                "another --run"
            )


def recorded_flags(directory: Path) -> dict:
    """Return a run's flags, with the embedded models' paths in this clone.

    Raise ValueError if this code lacks one of them.
    """
    record = run_folder.read_args(directory)
    recorded = record["args"]
    gone = sorted(recorded.keys() - vars(Args()).keys())
    if gone:
        raise Mistake(
            f"{directory} was trained with flags that are gone, {', '.join(gone)}: "
            f"the run's own commit has them ({', '.join(record['code'])})"
        )
    return recorded | {"model": list(map(located, recorded["model"]))}


def prepare(args: Args):
    """Find and check what the flags name, in a moment, before torch is imported.

    Returns the task, the reward, and the problems by split. Fills in the agents' folders of --init.
    """
    if args.logger == "wandb":
        import wandb  # noqa: F401  (an error before the models are loaded)
    task = make_task(args)
    reward = find_reward(task)
    for name in args.model:
        find_model(name)
    if args.init and not args.resume:
        args.init = agent_folders(args.init, part_of(args, TeamOptions))
    splits = {split: list(task.items(split) or ()) for split in ("train", "dev", "test")}
    needed = {"train": True, "test": args.eval_limit is not None, "dev": args.eval_every}
    for split, items in splits.items():
        if needed[split] and not items:
            raise Mistake(f"task {args.task!r} has no items of {split}")
    return task, reward, splits


def build(args: Args, prepared: tuple):
    """Load and check everything a run needs. Return the MAGRPO module and the held-out items.

    prepared: the answer of `prepare`.
    """
    import torch

    from policies.loading import device, load_agent
    from policies.team import Team
    from training.acceleration import accelerate
    from training.reward_runner import Scorer

    task, reward, splits = prepared
    problems = splits["train"]
    held_out = {}
    if args.eval_limit is not None:
        held_out = {split: splits[split][: args.eval_limit or None] for split in ("dev", "test")}
    resolve_bits(args)
    torch.manual_seed(args.seed)  # the adapters' first weights
    team = Team(part_of(args, TeamOptions))
    for name in args.template_arg:
        word = re.compile(rf"\b{re.escape(name)}\b")
        if not any(word.search(base.codec.template) for base in team.bases):
            raise Mistake(f"--template-arg {name}: the model's chat template does not read it")
    if args.checkpointing:
        for base in team.bases:
            base.set_checkpointing()
    if args.init and not run_folder.checkpoint(args.resume):
        for agent, folder in enumerate(args.init):
            load_agent(team.base_of[agent], agent, Path(folder))
    accelerate(team.bases)
    scorer = Scorer(reward, team.bases[0], args.chat_template)
    module = module_of(team, task, scorer, problems, args)
    module.to(device())
    if args.engine:
        from policies.engine import connect

        connect(team, args.engine)
    check_prompts(module.rollout, itertools.chain(problems, *held_out.values()))
    return module, held_out


def module_of(team, task, scorer, problems: list[dict], args: Args):
    """Return the MAGRPO module that trains a team with the options in `args`."""
    import magrpo
    from policies.sampling import Sampling

    return magrpo.MAGRPO(
        team,
        task,
        scorer,
        problems,
        part_of(args, magrpo.Algorithm),
        part_of(args, magrpo.Episode),
        part_of(args, Sampling),
    )


def train(args: Args) -> None:
    first = is_first(args.processes)
    if not first:
        drop_output()  # the first process says it
    started = int(os.environ.get("WORLD_SIZE") or args.processes)
    if started != args.processes:
        raise Mistake(
            f"{started} processes were started, and --devices times --num-nodes is {args.processes}"
        )
    directory = Path(args.resume) if args.resume else None
    if directory and run_folder.read_json(directory, "summary.json").get("steps") == args.max_steps:
        print(f"{directory} is finished: {args.max_steps} steps")
        return
    earlier = {}
    with contextlib.ExitStack() as held:
        if first and directory:
            held.enter_context(run_folder.lock_run_folder(directory))
            earlier = run_folder.read_args(directory)
        elif first and args.run:
            run_folder.check_place(args.run)
        prepared = prepare(args)
        print("loading libraries and models ...", flush=True)
        quiet()
        from training.recorder import Recorder
        from training.report import describe, dry_run, report

        module, held_out = build(args, prepared)
        task, _, splits = prepared
        print(describe(module), flush=True)
        if names := repeated(splits, task.field):
            said = ", ".join(names)
            print(f"held-out problems that stand in train, too: {len(names)} ({said:.300})")
        if args.dry_run:
            return dry_run(module)
        if earlier:
            run_folder.check_run(directory, earlier, args.model)
            for split, items in splits.items():
                check_items(earlier, split, items)
        record = run_folder.make_record(earlier, args, splits, module)
        done = 0
        if earlier:
            done = run_folder.cut_back(directory, args.max_steps)
        elif first:
            directory = run_folder.new_directory(args.run, args.task)
            held.enter_context(run_folder.lock_run_folder(directory))
        if first:
            run_folder.write_whole(directory / "args.json", run_folder.json_text(record))
            print(f"code:    {record['code'][-1]}\nwrites:  {directory}", flush=True)
        try:
            fit(module, Recorder(directory, held_out, record, done), args)
        except Exception as error:
            # A reward with a mistake would take the name of the run, for other flags to be refused.
            if first and not earlier and not run_folder.checkpoint(str(directory)):
                shutil.rmtree(directory, ignore_errors=True)
                error.add_note(f"(nothing was saved, and {directory} is removed)")
            raise
    if first:
        print(report(directory))


def fit(module, recorder, args: Args) -> None:
    import lightning as L

    from policies.processes import Processes, environment
    from training.recorder import CheckpointFile, Stopped, make_logger

    logger = False
    if is_first(args.processes):
        logger = make_logger(recorder.record, recorder.directory, recorder.saved)
    trainer = L.Trainer(
        # Lightning would not start on a run that has all its steps, so the recorder ends the run.
        max_steps=args.max_steps + 1,
        max_epochs=1,
        accelerator=module.device.type,
        devices=args.devices,
        num_nodes=args.num_nodes,
        strategy=Processes() if args.processes > 1 else "auto",
        precision=args.precision,  # type: ignore[arg-type]
        logger=logger,
        log_every_n_steps=1,
        callbacks=[recorder],
        enable_checkpointing=False,
        enable_model_summary=False,
        enable_progress_bar=False,
        plugins=[CheckpointFile(), environment(args.processes)],
        # On a cluster Lightning would go on from a checkpoint in this folder. It is a file.
        default_root_dir=Path(recorder.directory or "", run_folder.CHECKPOINT),
    )
    try:
        trainer.fit(module, ckpt_path=run_folder.checkpoint(args.resume), weights_only=True)
    except Stopped as signalled:
        print(f"\nstopped by {signalled} at step {trainer.global_step}. {recorder.last_save()}")
        sys.exit(130)
    except Exception as error:
        if getattr(error, "everywhere", False) and not trainer.is_global_zero:
            sys.exit(2)  # the first process says it
        if recorder.saved:  # else it begins anew, and may fail again
            error.add_note(recorder.last_save())
        raise


def main(argv: list[str]) -> None:
    try:
        args = parse(argv)
        os.environ[DEVICE] = args.device or ""
        train(args)
    except Exception as error:
        fail(parser(), error)


if __name__ == "__main__":
    reset_process(parser())
    main(sys.argv[1:])
