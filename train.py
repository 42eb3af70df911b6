"""Trains a team: python train.py [flags]. Without flags: two agents of the embedded model."""

import argparse
import contextlib
import json
import logging
import os
import shlex
import signal
import sys
import warnings
from pathlib import Path

from names import meant, run_folder

TINY = str(Path(__file__).resolve().parent / "tiny")


class FromFile(str):
    """A word of a flag file."""


class Models(argparse.Action):
    """Collects --model: once per agent, but one on the command line replaces a flag file's."""

    def __call__(self, parser, namespace, value, option_string=None):
        known = getattr(namespace, self.dest, None) or []
        same = [name for name in known if isinstance(name, FromFile) == isinstance(value, FromFile)]
        setattr(namespace, self.dest, [*same, value])


class Help(argparse.RawDescriptionHelpFormatter):
    """A line a flag: its value as N (a number), NAME or its choices; its default in brackets."""

    def __init__(self, prog):
        super().__init__(prog, max_help_position=34, width=110)

    def _get_default_metavar_for_optional(self, action):
        return "NAME" if action.type is None else "N"

    def _get_help_string(self, action):
        silent = any(action.default is none for none in (None, False, argparse.SUPPRESS))
        return action.help if silent else f"{action.help} (%(default)s)"


class Parser(argparse.ArgumentParser):
    """argparse with one-line errors that know what was meant, and commented flag files (@file)."""

    def __init__(self, prog, **kwargs):
        usage = f"python {prog} [@FILE] [flags]"
        super().__init__(
            prog,
            usage,
            allow_abbrev=False,
            fromfile_prefix_chars="@",
            formatter_class=Help,
            **kwargs,
        )

    def convert_arg_line_to_args(self, line):
        try:
            return [FromFile(word) for word in shlex.split(line, comments=True)]
        except ValueError as error:
            self.error(f"a flag file's line {line!r}: {error}")

    def parse_args(self, args=None, namespace=None):
        found, unknown = self.parse_known_args(args, namespace)
        if unknown:
            flag = unknown[0].partition("=")[0]
            hint = meant(flag, self._option_string_actions) or " (--help lists the flags)"
            self.error(f"unrecognized arguments: {' '.join(unknown)}{hint}")
        return found

    def _check_value(self, action, value):
        if action.choices is not None and value not in action.choices:
            known = list(map(str, action.choices))
            told = f"{str(value)!r} is not known{meant(str(value), known)}: {', '.join(known)}"
            raise argparse.ArgumentError(action, told)

    def error(self, message):
        print(f"{self.prog}: error: {' '.join(message.split())}", file=sys.stderr)
        sys.exit(2)


def at_least(kind, low, high=None):
    """An argparse type: a number from low (to high)."""
    what = "a whole number" if kind is int else "a number"
    wanted = f"{what} of at least {low}" if high is None else f"{what} in [{low}, {high}]"

    def number(text: str):
        with contextlib.suppress(ValueError):
            value = kind(text)
            if low <= value <= (sys.float_info.max if high is None else high):  # no inf, no nan
                return value
        raise argparse.ArgumentTypeError(f"{text!r} is not {wanted}")

    return number


def parser() -> Parser:
    count, size = at_least(int, 1), at_least(int, 0)
    share, positive = at_least(float, 0, 1), at_least(float, 0)
    top = Parser("train.py", description=__doc__)
    add = top.add_argument_group("problem").add_argument
    add("--task", default="coop", help="name, dotted.path or file.py:Class")
    add("--reward", help="name, dotted.path or file.py:function (the task's own)")
    add(
        "--data",
        metavar="FILE",
        help="local JSON, JSONL(.gz), CSV or Parquet file instead of the task's source",
    )
    add("--turns", type=count, default=1, help="turns per problem, with feedback between them")
    modes = ("plain", "passed", "levels", "tests", "static", "expert")
    add("--feedback", choices=modes, help="told between turns (what the task itself tells)")
    add("--feedback-tests", type=size, help="how many tests it may show, 0: all (1)")
    add(
        "--expert-url",
        metavar="URL",
        help="an OpenAI-compatible endpoint, such as http://localhost:8000/v1",
    )
    add("--expert-model", help="its model; the key is MAGRPO_EXPERT_KEY or OPENAI_API_KEY")

    add = top.add_argument_group("team").add_argument
    add("--model", action=Models, help="folder or hub name; once, or once per agent (tiny)")
    add("--num-agents", type=count, default=2, help="1 is single-agent GRPO on the same path")
    add("--lora-rank", type=size, default=16, help="0: full copies, one per agent")
    add("--lora-alpha", type=count, default=32, help="scale of the adapters: alpha / rank")
    add("--bits", type=int, choices=(32, 16, 8, 4), default=32, help="of the frozen base")
    add("--chat-template", action="store_true", help="wrap prompts in the model's chat template")
    add("--trust-remote-code", action="store_true", help="run model code from the hub")

    add = top.add_argument_group("sampling").add_argument
    add("--num-generations", type=count, default=8, help="G, samples per agent and prompt")
    add("--temperature", type=positive, default=1.0, help="of the sampled distribution")
    add(
        "--top-p",
        type=share,
        default=1.0,
        help="sample from the likeliest tokens with this mass together, 1: all",
    )
    add("--top-k", type=size, default=0, help="sample from so many likeliest tokens, 0: all")
    add("--max-new-tokens", type=count, default=96, help="of one response")
    add("--max-prompt-tokens", type=count, default=2048, help="longer prompts are an error")

    add = top.add_argument_group("algorithm").add_argument
    joints = ("aligned", "cross")
    add("--joint", choices=joints, default="cross", help="which joint responses are scored")
    add("--branching", choices=("tree", "chain"), default="tree", help="of turns after the first")
    add("--gamma", type=share, default=1.0, help="discount of the next turn's return")
    add("--advantage", choices=("mean", "rloo", "std", "none"), default="mean", help="baseline")
    add("--normalize", choices=("sum", "token", "sequence"), default="sum", help="of the loss")
    add("--kl-coef", type=positive, default=0.0, help="weight of KL to the frozen base")
    add("--batch-size", type=count, default=12, help="problems per step")
    add("--lr", type=positive, default=3e-3, help="learning rate of Adam")
    schedules = ("constant", "linear", "cosine")
    add("--lr-schedule", choices=schedules, default="linear", help="down to a tenth of --lr")
    add("--warmup-steps", type=size, default=0, help="in which the rate rises to --lr")
    add("--max-steps", type=count, help="steps, one rollout each (130, or what --epochs says)")
    add(
        "--epochs",
        type=at_least(float, 1e-6),
        help="passes over the problems, instead of --max-steps",
    )

    add = top.add_argument_group("run").add_argument
    add("--run", help="a name in runs/, or a path with a / (the task's name and a number)")
    add("--resume", metavar="DIR", help="go on with a run; only --max-steps may change")
    seeds = at_least(int, 0, 2**63 - 1)
    add("--seed", type=seeds, default=0, help="of every random draw")
    add("--eval-every", type=size, default=0, help="steps between evaluations on dev, 0: none")
    add("--eval-limit", type=size, default=100, help="held-out problems, 0: all")
    add("--save-every", type=count, default=10, help="steps between checkpoints")
    add("--sample-every", type=count, default=10, help="steps between lines of samples.jsonl")
    add("--devices", type=count, default=1, help="processes per node: GPUs, or on the CPU")
    add("--num-nodes", type=count, default=1, help="machines; --batch-size is of one process")
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
    return top


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
        return argparse.Namespace(**recorded(top, run_folder(args.resume)) | given)
    if args.max_steps and args.epochs:
        top.error("--max-steps and --epochs: give one of them")
    models = args.model or [TINY]
    models = [TINY if name == "tiny" else name for name in models]
    if len(models) > 1 and len(models) != args.num_agents:
        top.error(
            f"--model is given {len(models)} times for {args.num_agents} agents: once, or each"
        )
    args.model = models * (args.num_agents if len(models) == 1 else 1)
    if args.lora_rank == 0 and args.bits != 32:
        top.error(
            f"--lora-rank 0 trains the weights themselves: they need --bits 32, not {args.bits}"
        )
    if args.lora_rank == 0 and args.kl_coef:
        top.error("--kl-coef needs the frozen base that adapters leave: not with --lora-rank 0")
    if args.feedback and args.turns == 1:
        top.error("--feedback is told between turns: it needs --turns 2 or more")
    if args.feedback_tests is not None and args.feedback not in ("passed", "levels", "tests"):
        top.error("--feedback-tests goes with --feedback passed, levels or tests")
    args.feedback_tests = 1 if args.feedback_tests is None else args.feedback_tests
    expert = (args.expert_url, args.expert_model)  # a recipe's may stay where the mode is another
    if args.feedback != "expert" and any(e and not isinstance(e, FromFile) for e in expert):
        top.error("--expert-url and --expert-model go with --feedback expert: add it, or drop them")
    if args.num_generations == 1 and args.advantage != "none":
        top.error(
            "--num-generations 1 trains nothing: the baseline of one sample is that sample, so "
            "give 2 or more, or --advantage none"
        )
    if args.kl_coef and (args.top_p < 1 or args.top_k):
        top.error("--kl-coef is of whole distributions: not with --top-p or --top-k")
    if args.temperature == 0:
        top.error("--temperature 0 is greedy: all samples of a group would be the same")
    if args.top_p == 0:
        top.error("--top-p 0 leaves no token to sample")
    return args


def recorded(top: Parser, directory: Path) -> dict:
    """The flags in a run's args.json, each of them checked as if it had been given."""
    path = directory / "args.json"
    if not path.is_file():
        top.error(f"--resume {directory}: there is no run (no {path}); give a folder in runs/")
    try:
        values = json.loads(path.read_text())["args"]
        for action in [action for action in top._actions if action.dest != "help"]:
            value = values[action.dest]
            if value is not None and action.nargs != 0:  # 0: a switch
                for one in value if isinstance(value, list) else [value]:
                    top._check_value(action, top._get_value(action, str(one)))
        return values
    except KeyError as error:
        top.error(f"{path} is not what a run of this version writes: it has no {error}")
    except (ValueError, TypeError, argparse.ArgumentError, OSError) as error:
        top.error(f"{path} is not what a run writes ({error}): restore it, or start a new run")


def build(args):
    """Everything a run needs, loaded and checked: (module, held-out items by split)."""
    import torch

    from magrpo import MAGRPO, Team
    from run import items_of, make_reward, make_task

    task = make_task(args)
    reward = make_reward(args, task)
    splits = {split: items_of(task, args.task, split) for split in ("train", "dev", "test")}
    problems = splits.pop("train")
    held_out = {split: items[: args.eval_limit or None] for split, items in splits.items()}
    if not problems or not held_out["test"]:
        raise ValueError(f"task {args.task!r} has no items to train or to test on")
    if args.max_steps is None:
        steps = args.epochs and -(-int(args.epochs * len(problems)) // args.batch_size)
        args.max_steps = max(steps or 130, 1)
    torch.manual_seed(args.seed)  # the adapters' first weights
    load = {"bits": args.bits, "trust_remote_code": args.trust_remote_code}
    team = Team(args.model, args.lora_rank, args.lora_alpha, **load)
    module = MAGRPO(team, task, reward, problems, args)
    if args.turns > 1 and not hasattr(task, "feedback"):
        raise ValueError(f"task {args.task!r} has no feedback(item, responses): --turns needs it")
    for item in [*problems, *held_out["dev"], *held_out["test"]]:
        module.rollout.check(item)
    return module, held_out


def describe(module, args) -> str:
    """What would be trained, for --dry-run."""
    lines = [f"task {args.task}: {len(module.problems)} problems, {args.turns} turn(s)"]
    for number, base in enumerate(module.team.bases):
        frozen = sum(p.numel() * p.element_size() for p in base.parameters() if not p.requires_grad)
        name = args.model[base.agents[0]]
        lines.append(
            f"base {number}: {name}, {frozen / 2**20:.1f} MiB frozen, agents {base.agents}"
        )
    for agent in range(module.team.size):
        trained = sum(p.numel() for p in module.team.parameters_of(agent))
        lines.append(f"agent {agent}: {trained:,} trainable parameters")
    expected = sum(memory(base, module, args) for base in module.team.bases)
    lines.append(f"memory expected, besides Python and its libraries: {expected / 2**20:.0f} MiB")
    return "\n".join(lines)


def memory(base, module, args) -> int:
    """Bytes that a step takes at its peak: weights, gradients and Adam's two moments of what is
    trained, then the larger of the decode's (cache, merged copies) and the update's activations."""
    from policies import DECODE_TOKENS

    weights = sum(p.numel() * p.element_size() for p in base.parameters())
    trained = sum(p.numel() for p in base.parameters() if p.requires_grad)
    prompt = max(
        len(module.rollout.encode(agent, module.rollout.task.observe(agent, item, [])))
        for item in module.problems[:100]
        for agent in base.agents
    )
    prompts = args.batch_size * len(base.agents)
    rows = prompts * args.num_generations
    cached = min(prompts * prompt + rows * args.max_new_tokens, DECODE_TOKENS) * base.cache_bytes()
    decode = cached + base.adapters.merged_bytes(len(base.agents))
    units = ((prompts, base.cost(0, prompt)), (rows, base.cost(prompt, args.max_new_tokens)))
    update = sum(max(one, min(count * one, 1.0)) for count, one in units) * base.update_bytes
    return weights + 12 * trained + int(max(decode, update))


def dry_run(module, args) -> None:
    from metrics import reward_spreads

    print(describe(module, args))
    module.turns = module.play(args.batch_size)
    for turn, nodes in enumerate(module.turns):
        responses = sum(len(r) for node in nodes for r in node.responses)
        joints = sum(len(node.parts) for node in nodes)
        mean = sum(float(node.rewards.mean()) for node in nodes) / len(nodes)
        print(f"turn {turn}: {responses} responses, {joints} joint, mean reward {mean:.3f}")
    flat = float((reward_spreads(module) < 1e-9).double().mean())
    print(f"groups whose rewards are all equal, so that they teach nothing: {flat:.0%}")


def quiet() -> None:
    """Keeps libraries' remarks off the terminal: what a user must know comes from us."""
    warnings.filterwarnings("ignore", module="lightning|transformers|torch.jit|bitsandbytes|peft")
    logging.getLogger("bitsandbytes").setLevel(logging.ERROR)
    import lightning.pytorch  # noqa: F401  (it sets its own level when it is imported)
    import transformers

    for name in ("lightning.pytorch", "lightning.fabric"):
        logging.getLogger(name).setLevel(logging.ERROR)
    # Says which process died before it ends the others.
    logging.getLogger("lightning.fabric.strategies.launchers.subprocess_script").setLevel("INFO")
    transformers.utils.logging.disable_progress_bar()
    transformers.utils.logging.set_verbosity_error()


def train(args) -> None:
    quiet()
    from parallel import is_first
    from run import Recorder, alone, new_directory, refuse_name, report, steps, write_args

    first, directory = is_first(args), args.resume and run_folder(args.resume)
    if first and args.run and not args.resume:
        refuse_name(args.run)  # before a model is loaded
    module, held_out = build(args)
    if args.dry_run:
        return dry_run(module, args)
    with contextlib.ExitStack() as held:
        if first:
            directory = directory or new_directory(args)
            held.enter_context(alone(directory))
            if args.resume and args.max_steps < (done := steps(directory, module)):
                raise ValueError(
                    f"{directory} has {done} steps: --max-steps {args.max_steps} is behind it"
                )
            write_args(directory, args)
        fit(module, Recorder(directory, held_out, args), args)
    if first:
        print(report(directory))


def fit(module, recorder, args) -> None:
    import lightning as L

    from models import device
    from parallel import Processes, is_first
    from run import Bar, Stopped

    several = args.strategy == "ddp" or args.devices * args.num_nodes > 1
    trainer = L.Trainer(
        max_steps=args.max_steps + 1,  # the recorder stops it one step before: Lightning would
        limit_train_batches=args.max_steps + 1,  # not even start on what has all its steps
        max_epochs=1,
        accelerator=device().type,  # never Apple's MPS
        devices=args.devices,
        num_nodes=args.num_nodes,
        strategy=Processes() if several else "auto",
        precision=args.precision,
        logger=False,
        callbacks=[recorder, Bar()],
        enable_checkpointing=False,
        enable_model_summary=False,
    )
    checkpoint = args.resume and recorder.directory / "checkpoints" / "last.ckpt"
    try:
        there = checkpoint and checkpoint.exists()
        trainer.fit(module, ckpt_path=checkpoint if there else None, weights_only=True)
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


def quit_on_signals(prog: str) -> None:
    """SIGINT and SIGTERM end the process with one line while there is nothing to save: until
    training begins, which has handlers of its own (Recorder.catch_signals)."""

    def leave(number, frame):
        os.write(2, f"{prog}: stopped by {signal.Signals(number).name}\n".encode())
        os._exit(130)  # an exception could be swallowed anywhere in the imports

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, leave)


def told(error: Exception) -> str:
    """An error in words, for one line."""
    notes = " ".join(getattr(error, "__notes__", []))
    if isinstance(error, (ValueError, OSError, RuntimeError, FloatingPointError)):
        return f"{error} {notes}"
    return f"{type(error).__name__}: {error} (--debug shows where) {notes}"


def main(argv: list[str] | None = None) -> None:
    args = parse(argv)
    try:
        train(args)
    except Exception as error:
        if args.debug:
            raise
        from parallel import is_first

        if getattr(error, "shared", False) and not is_first(args):
            sys.exit(2)  # the first process says it
        if error.args[1:] == (False,):  # a reward hangs: its thread would keep this process alive
            print(f"train.py: error: {' '.join(told(error).split())}", file=sys.stderr, flush=True)
            os._exit(2)
        parser().error(told(error))


if __name__ == "__main__":
    quit_on_signals("train.py")
    main()
