"""Parse the flags of both programs, and say which flags of train.py do not go together."""

import argparse
import contextlib
import dataclasses
import difflib
import importlib.util
import json
import re
import shlex
import sys
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from train import Args

Options = TypeVar("Options", bound=Any)


def meant(name: str, known) -> str:
    """Return a hint at the known name that is close to this one, or ""."""
    near = difflib.get_close_matches(name, known, 1)
    return f" (did you mean {near[0]}?)" if near else ""


def named(known) -> str:
    """Return the known names for a flag's help."""
    return ", ".join(sorted(known))


def flag(default, text: str, parse=None, **options):
    """Return a dataclass field that is a flag, with its help text.

    `parse` is argparse's `type`. `options` are others of argparse, such as choices or nargs.
    """
    options["help"] = text
    if parse:
        options["type"] = parse
    return dataclasses.field(default=default, metadata=options)


def optional(text: str, parse=None, **options):
    """Return a flag that has no value unless it is given."""
    return flag(None, text, parse, **options)


def assignments(text: str, metavar: str = "NAME=VALUE"):
    """Return a flag of words NAME=VALUE, whose value is a dict."""
    return optional(text, nargs="+", metavar=metavar, action=Assignments)


def part_of(args: object, options: type[Options]) -> Options:
    """Return the fields of a smaller dataclass with the values that they have in `args`."""
    values = {field.name: getattr(args, field.name) for field in dataclasses.fields(options)}
    return options(**values)


class Help(argparse.RawDescriptionHelpFormatter):
    """Help with a line for each flag: its value (N is a number) and its default in brackets."""

    def __init__(self, prog):
        super().__init__(prog, max_help_position=34, width=110)

    def _get_default_metavar_for_optional(self, action):
        return "NAME" if action.type is None else "N"

    def _get_help_string(self, action):
        if any(action.default is value for value in (None, False, argparse.SUPPRESS)):
            return action.help
        return f"{action.help} (%(default)s)"


class Parser(argparse.ArgumentParser):
    """argparse with one-line errors, hints at what was meant, and flag files with comments.

    The program's docstring is its help: the first paragraph above the flags, the rest below them.
    """

    def __init__(self, prog: str, doc: str):
        description, _, epilog = doc.partition("\n\n")
        super().__init__(
            prog,
            f"python {prog} [@FILE] [flags]",
            description,
            epilog,
            formatter_class=Help,
            fromfile_prefix_chars="@",
            allow_abbrev=False,
        )

    def add_fields(self, flags: type, headings: dict[str, str]) -> None:
        """Add a flag for every field of a dataclass, in order. headings: by their first flag."""
        for field in dataclasses.fields(flags):
            options = dict(field.metadata)
            if field.name in headings:
                group = self.add_argument_group(headings[field.name])
            if isinstance(field.default, bool):
                options["action"] = argparse.BooleanOptionalAction  # --no-... undoes a flag file's
            name = "--" + field.name.replace("_", "-")
            group.add_argument(name, default=field.default, **options)

    def convert_arg_line_to_args(self, line):
        line = line.removeprefix("\ufeff")  # some editors begin a file with this mark
        return shlex.split(line, comments=True)

    def parse_args(self, args=None, namespace=None):
        parsed, unknown = self.parse_known_args(args, namespace)
        if unknown:
            flag = unknown[0].partition("=")[0]
            hint = meant(flag, self._option_string_actions) + " (--help lists the flags)"
            self.error(f"unrecognized arguments: {' '.join(unknown)}{hint}")
        for action in self._actions:
            value = getattr(parsed, action.dest, None)
            # argparse checks what is given, and not what --resume has made a default.
            if action.choices and value not in (None, *action.choices):
                listed = ", ".join(map(str, action.choices))
                self.error(f"{action.option_strings[0]}: {value!r} is none of {listed}")
        return parsed

    def _read_args_from_files(self, strings):
        """Refuse a flag of several values that one place gives twice.

        argparse calls this for the command line and for each flag file. A flag of the command line
        may replace one of a file.
        """
        for action in self._actions:
            given = [s for s in strings if s.partition("=")[0] in action.option_strings]
            if action.nargs == "+" and len(given) > 1:
                self.error(f"{given[0]} is given twice: give its values at once, {given[0]} A B")
        return super()._read_args_from_files(strings)

    def error(self, message):
        self.exit(2, f"{self.prog}: error: {' '.join(message.split())}\n")


class Assignments(argparse.Action):
    """Collect words NAME=VALUE in a dict. A value is JSON (3, false), or the text that it is."""

    def __call__(self, parser, namespace, words, option_string=None):
        values = {}
        for word in words:
            name, equals, text = word.partition("=")
            if not (name and equals):
                parser.error(f"{option_string}: {word!r} is not {self.metavar}")
            values[name] = text
            with contextlib.suppress(ValueError):
                values[name] = json.loads(text)
        setattr(namespace, self.dest, values)


def at_least(number, low, high=None, words=()):
    """Return an argparse type: an int or float from low (to high), or one of the words' values."""
    wanted = "a whole number" if number is int else "a number"
    wanted += f" of at least {low}" if high is None else f" in [{low}, {high}]"
    if words:
        wanted += f", nor {' or '.join(words)}"
    largest = sys.float_info.max if high is None else high  # neither inf nor nan

    def parse(text: str):
        if text in words:
            return words[text]
        with contextlib.suppress(ValueError):
            value = number(text)
            if low <= value <= largest:
                return value
        raise argparse.ArgumentTypeError(f"{text!r} is not {wanted}")

    return parse


def server_url(text: str) -> str:
    """Return a server's URL, for argparse. A run's files show its flags, so it may hold no key."""
    if not re.fullmatch(r"https?://[^\s/@?#]+(/[^\s?#]*)?", text):
        raise argparse.ArgumentTypeError(
            "a URL has to look like http://host:8000, and has to end after its path; a key belongs "
            "into the environment, MAGRPO_ENGINE_KEY"
        )
    return text


def each(values: list, agents: int) -> list:
    """Return a value for each agent. A single value is for all of them."""
    return values * agents if len(values) == 1 else values


def trusts(args: "Args") -> bool:
    """Return whether --optimism has a meaning: partners who learn, and several joint responses."""
    return args.num_agents - len(args.freeze) >= 2 and args.joint not in (1, "aligned")


def conflict(args: "Args") -> str:
    """Return why these resolved flags of train.py do not go together, or ""."""
    agents = args.num_agents
    frozen = args.freeze
    for flag, values in (("model", args.model), ("init", args.init or []), ("lr", args.lr)):
        if len(values) not in (0, 1, agents):
            return f"--{flag} names {len(values)} for {agents} agents: give one, or each"
    crossed = args.num_generations ** (agents - 1)
    if isinstance(args.joint, int) and args.joint > crossed:
        return f"--joint {args.joint}: each response is part of {crossed} joint responses in all"
    if frozen and frozen[-1] >= agents:
        return f"--freeze {frozen[-1]}: the agents are 0 to {agents - 1}"
    if len(frozen) == agents:
        return "--freeze names every agent: leave one to learn"
    if args.optimism and not trusts(args):
        return "--optimism trusts partners who learn: it needs two who learn, and --joint 2 or more"
    learning = {args.model[agent] for agent in range(agents) if agent not in frozen}
    if args.share and learning & {args.model[agent] for agent in frozen}:
        return "--freeze with --share: name all agents of a base, or none; they are one policy"
    if args.share and len({*zip(args.model, args.lr, strict=True)}) > len({*args.model}):
        return "--lr with --share: give the agents of a base one rate; they are one policy"
    if args.template_arg and not args.chat_template:
        return "--template-arg is given to the chat template: it needs --chat-template"
    if args.lora_rank == 0 and args.bits not in (None, 32):
        return f"--lora-rank 0 trains the weights: they need --bits 32, not {args.bits}"
    if args.lora_rank and args.precision != "32-true":
        return "--precision bf16-mixed is of trained weights: with adapters, give --bits 16"
    if args.lora_rank == 0 and args.kl_coef:
        return "--kl-coef needs the frozen base that adapters leave: not with --lora-rank 0"
    if args.feedback and args.turns == 1:
        return "--feedback is told between turns: it needs --turns 2 or more"
    if args.num_generations == 1 and args.advantage != "none":
        return "--num-generations 1 trains nothing: give 2 or more, or --advantage none"
    if args.kl_coef and (args.top_p < 1 or args.top_k):
        return "--kl-coef is of whole distributions: not with --top-p or --top-k"
    if args.temperature == 0:
        return "--temperature 0 is greedy: all samples of a group would be the same"
    if args.eval_every and args.eval_limit is None:
        return "--eval-every needs held-out problems: not with --eval-limit none"
    if args.logger == "wandb" and not importlib.util.find_spec("wandb"):
        return "--logger wandb needs a package that is not here: pip install wandb"
    return engine_conflict(args)


def engine_conflict(args) -> str:
    """Return why servers cannot sample for a team with these resolved flags, or ""."""
    bases = len({*args.model})
    urls = args.engine or []
    if urls and args.lora_rank == 0:
        return "--engine is for adapters: with --lora-rank 0 there is none to give to a server"
    if len(urls) not in (0, bases):
        return f"--engine names {len(urls)} for {bases} base(s): give one URL for each base"
    return ""
