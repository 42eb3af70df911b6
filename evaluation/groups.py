"""Read runs, and group them. The runs of a group are its seeds.

They agree in the flags that change the algorithm or the task, and in the code that training
executes, unless --group or --group-by say otherwise.
"""

import itertools
import json
import sys
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import pandas

from training.flags import meant
from training.run_folder import experiment, read_args, read_records, read_summary, stem

# Traits of runs that are tested on other problems.
PROBLEMS = {"--task", "--task-arg", "--data-hash", "--eval-limit"}
UNIT = {"--reward", "--turns", "--gamma"}  # they make the unit of all measures but metric/...


@dataclass
class Run:
    """The contents of a run that a comparison reads."""

    directory: Path
    seed: int
    traits: dict  # run_folder.experiment: what tells it from other runs
    steps: pandas.DataFrame  # the metrics of each step
    summary: dict  # {} before its end


Groups = dict[str, list[Run]]  # by their names


def read_run(directory: Path, defaults: dict) -> Run:
    """Return a run. defaults: all flags of train.py."""
    seed = read_args(directory)["args"]["seed"]
    rows = read_records(directory / "metrics.jsonl")
    rows = [row for row in rows if "return" in row]  # others are evaluations
    steps = pandas.DataFrame(rows, [row["step"] for row in rows])
    parts = steps.filter(regex="^(reward|metric|agent)/").columns
    steps[parts] = steps[parts].fillna(0.0)  # no response of the step had the part
    traits = experiment(directory, defaults)
    return Run(directory, seed, traits, steps, read_summary(directory))


def read_runs(folders: list[Path], defaults: dict) -> list[Run]:
    """Return the runs that have made a step. defaults: as of `read_run`."""
    runs = []
    empty = []
    for directory in folders:
        run = read_run(directory, defaults)
        if run.steps.empty:
            empty.append(f"{directory}: no step was made")
        else:
            runs.append(run)
    if not runs:
        raise ValueError("; ".join(empty))
    for line in empty:
        print(line, file=sys.stderr)
    return runs


def variation(runs: list[Run]) -> list[str]:
    """Return the traits in which runs differ. A trait that a run lacks is not a difference."""
    values = defaultdict(set)
    for run in runs:
        for trait, value in run.traits.items():
            values[trait].add(json.dumps(value))
    return [trait for trait, different in values.items() if len(different) > 1]


def group_runs(
    runs: list[Run],
    flags: list[str] | None = None,
    globs: dict[str, str] | None = None,
) -> Groups:
    """Return the runs by the name of their group, in the order given.

    `flags` is --group-by. `globs` is --group, the folders of a group by its name.
    """
    traits = variation(runs)
    if flags:
        known = {trait.removeprefix("--"): [trait] for trait in runs[0].traits}
        known["code"] = [trait for trait in traits if trait.startswith("code/")]
        for flag in flags:
            if flag not in known:
                hint = meant(flag, known)
                raise ValueError(f"--by {flag}: no flag tells groups apart by that name{hint}")
        traits = list(itertools.chain(*(known[flag] for flag in flags)))
    globs = globs or {}
    groups = defaultdict(list)
    for run in runs:
        key = json.dumps([run.traits.get(trait) for trait in traits])
        named = [name for name, glob in globs.items() if run.directory.match(glob)]
        if len(named) > 1:
            raise ValueError(f"--group: {run.directory} would be in {' and '.join(named)}")
        groups[named[0] if named else key].append(run)
    for name in globs:
        if name not in groups:
            raise ValueError(f"--group {name}={globs[name]}: no run of --compare has such a folder")
    names = {}
    for key, members in groups.items():
        check(members)
        names[key] = key if key in globs else name_of(members, flags and traits)
    tell_apart(names, groups)
    return {names[key]: members for key, members in groups.items()}


def check(members: list[Run]) -> None:
    """Raise ValueError if runs are not the seeds of one task and one unit of return."""
    seeds = {}
    for run in members:
        first = seeds.setdefault(run.seed, run)
        if first is not run:
            raise ValueError(
                f"{first.directory} and {run.directory} are one group with one seed: leave one "
                "out, or tell them apart with --group-by or --group"
            )
    for traits, noun in ((PROBLEMS, "tasks"), (UNIT, "units of return")):
        if differing := traits.intersection(variation(members)):
            listed = ", ".join(sorted(differing))
            raise ValueError(
                f"the group of {members[0].directory} has runs of different {noun} ({listed})"
            )


def check_seeds(folders: list[Path], defaults: dict) -> None:
    """Raise ValueError if the runs in folders are not the seeds of one experiment.

    defaults: as of `read_run`.
    """
    members = [read_run(directory, defaults) for directory in folders]
    check(members)
    if flags := [trait for trait in variation(members) if trait.startswith("--")]:
        raise ValueError(
            f"--run takes the seeds of one experiment, and these differ in {', '.join(flags)}: "
            "--compare takes any runs"
        )


def name_of(members: list[Run], traits: list[str] | None) -> str:
    """Return the name of a group: these traits with their values, or the names of its runs.

    The names of several runs lose the endings that are their seeds.
    """
    if traits:
        return " ".join(in_words(trait, members[0].traits.get(trait)) for trait in traits)
    names = [run.directory.name for run in members]
    if len(names) > 1:
        names = map(stem, names)
    return ", ".join(dict.fromkeys(names))


def tell_apart(names: dict[str, str], groups: Groups) -> None:
    """Add the traits in which groups of one name differ to their names."""
    keys_by_name = defaultdict(list)
    for key, name in names.items():
        keys_by_name[name].append(key)
    for keys in keys_by_name.values():
        runs = [groups[key][0] for key in keys]
        for trait in variation(runs):
            for key, run in zip(keys, runs, strict=True):
                names[key] += f" {in_words(trait, run.traits.get(trait))}"


def in_words(trait: str, value) -> str:
    """Return a trait with its value. A list that repeats one value has it once."""
    values = dict.fromkeys(value) if isinstance(value, list) else [value]
    return f"{trait} {' '.join(map(str, values))}"


def notes(groups: Groups) -> list[str]:
    """Return in what groups and the runs of a group differ, and which runs are not finished."""
    lines = []
    first, *_ = groups
    for name, members in groups.items():
        if traits := variation([groups[first][0], members[0]]):
            lines.append(f"{name} and {first} differ in {', '.join(traits)}")
        if traits := variation(members):
            lines.append(f"the runs of {name} differ in {', '.join(traits)}")
        for run in members:
            if not run.summary:
                lines.append(
                    f"{run.directory} is not finished: no table has it, and the figure of --out "
                    "has its steps so far"
                )
    return lines
