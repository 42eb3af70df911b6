"""Parse the flags of both programs, and say which flags of train.py do not go together."""

import argparse
import contextlib
import dataclasses
import itertools
import json
import math
import shlex
import sys

from policies import Mistake


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


def part_of(args: object, options: type):
    """Return the fields of a smaller dataclass with the values that they have in `args`."""
    values = {field.name: getattr(args, field.name) for field in dataclasses.fields(options)}
    return options(**values)


class Parser(argparse.ArgumentParser):
    """argparse with one-line errors and flag files with comments. No flag takes an empty text.

    The program's docstring is its help: the first paragraph above the flags, the rest below them.
    """

    def __init__(self, prog: str, doc: str):
        description, _, epilog = doc.partition("\n\n")
        super().__init__(
            prog,
            f"python {prog} [@FILE] [flags]",
            description,
            epilog,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            fromfile_prefix_chars="@",
            allow_abbrev=False,
        )

    def add_fields(self, flags: type, headings: dict[str, str]) -> None:
        """Add a flag for every field of a dataclass, in order. headings: by their first flag."""
        for field in dataclasses.fields(flags):
            if field.name in headings:
                group = self.add_argument_group(headings[field.name])
            add_field(group, field, field.default)

    def convert_arg_line_to_args(self, line):
        try:
            return shlex.split(line, comments=True)
        except ValueError as error:  # an apostrophe
            self.error(f"{line}: {error}")

    def parse_known_args(self, args=None, namespace=None):
        """Refuse "", which a shell makes of an unset name, and parse."""
        words = sys.argv[1:] if args is None else args
        for before, word in itertools.pairwise(["", *words]):
            if not word or (word.startswith("--") and word.endswith("=")):
                self.error(f"{word or before}: the value is empty")
        try:
            return super().parse_known_args(words, namespace)
        except (UnicodeDecodeError, RecursionError) as error:  # of a file of flags
            self.error(f"@FILE: {error}")

    def error(self, message):
        self.exit(2, f"{self.prog}: error: {' '.join(message.split())}\n")


def add_field(group, field: dataclasses.Field, default) -> None:
    """Add the flag of a dataclass's field to a group of a parser. Its help names the default."""
    options = dict(field.metadata)
    if isinstance(field.default, bool):
        options["action"] = argparse.BooleanOptionalAction  # --no-... undoes a flag file's
    elif default is not None:
        options["help"] += " (%(default)s)"
    group.add_argument("--" + field.name.replace("_", "-"), default=default, **options)


def assignment(word: str) -> tuple:
    """Return name and value of a word NAME=VALUE. The value is JSON (3, false), or a text."""
    name, equals, text = word.partition("=")
    if not (name and equals):
        raise argparse.ArgumentTypeError(f"{word!r} is not NAME=VALUE")
    with contextlib.suppress(ValueError):
        return name, json.loads(text)
    return name, text


def at_least(number, low, high=math.inf, words=()):
    """Return an argparse type: an int or float from low (to high), or one of the words' values."""

    def parse(text: str):
        if text in words:
            return words[text]
        with contextlib.suppress(ValueError):
            value = number(text)
            if low <= value <= high and value < math.inf:
                return value
        allowed = ", ".join([f"{number.__name__} in [{low}, {high}]", *words])
        raise argparse.ArgumentTypeError(f"{text!r} is not: {allowed}")

    return parse


def each(name: str, values: list, agents: int) -> list:
    """Return the value of a flag for each agent. A single value is for all of them.

    Runs of 2026-11-28 and before have a number in place of the list.
    """
    if not isinstance(values, list):
        values = [values]
    if len(values) not in (1, agents):
        raise Mistake(f"{name} names {len(values)} for {agents} agents: give one, or each")
    return values * agents if len(values) == 1 else values


def conflict(args) -> str:
    """Return why these resolved flags of train.py do not go together, or ""."""
    agents = args.num_agents
    frozen = {*args.freeze}
    if not frozen < {*range(agents)}:
        return f"--freeze: the agents are 0 to {agents - 1}, and one has to learn"
    policies = {(args.model[i], args.lr[i], i in frozen) for i in range(agents)}
    bases = len({*args.model})
    if args.share and len(policies) > bases:
        return "--share: agents of a base are one policy: one --lr, and all or none in --freeze"
    if args.lora_rank == 0:
        if args.kl_coef or args.engine or args.bits not in (None, 32):
            return "--lora-rank 0 trains all weights: not with --kl-coef, --engine or other --bits"
    elif args.precision != "32-true":
        return "--precision is of trained weights: with adapters, give --bits 16"
    if args.eval_every and args.eval_limit is None:
        return "--eval-every evaluates --eval-limit problems, and that is none"
    if args.feedback and args.turns == 1:
        return "--feedback is told between turns: it needs --turns 2 or more"
    if args.num_generations == 1 and args.advantage != "none":
        return "--num-generations 1 trains nothing: give 2 or more, or --advantage none"
    if args.kl_coef and (args.top_p < 1 or args.top_k):
        return "--kl-coef is of whole distributions: not with --top-p or --top-k"
    if args.engine and len(args.engine) != bases:
        return f"--engine: give one URL for each of {bases} base(s)"
    return ""
