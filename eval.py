"""Evaluate trained teams, and read runs.

Commands:
  python eval.py [table] --run RUN ...  # every method on the same held-out problems (newest run)
  python eval.py ask "TEXT"             # the team's answer to a problem of yours, in words or JSON
  python eval.py show 3                 # the answers of each method to the first 3 problems
  python eval.py list                   # runs: state, returns, the flags in which they differ
  python eval.py compare RUN ...        # means over seeds, and differences to the first group
  python eval.py page RUN ...           # one page for a browser: curves and samples
  python eval.py doctor RUN             # known signs of failure

`python eval.py COMMAND --help` lists a command's flags. The methods of the table:

| method       | who answers                                                                      |
|--------------|----------------------------------------------------------------------------------|
| trained      | the run's agents, each from its own prompt                                       |
| naive        | the same team before any training, --init's too                                  |
| sequential   | untrained; agent k sees what the agents before it wrote                          |
| discussion   | untrained; each revises its response after seeing the others', once              |
| only-<i>     | only agent i trained, its partners untrained: who has learned what?              |
| single       | one untrained model does the whole task, with as many new tokens as the team     |
|              | together (--single-model: another, say a larger one)                             |

The control of a team is another run, trained with --num-agents 1: --run TEAM CONTROL.

Task, prompts, sampling and reward are those of training: the same objects play here. Responses
depend on --seed and the problem alone, so methods meet the same random numbers, and two evaluations
with one seed are identical but for their timing.

Evaluate only runs that you trust: table, ask and show execute the plug-ins of a run.
"""

import dataclasses
import itertools
import json
import os
import sys
from argparse import ArgumentTypeError, Namespace
from collections.abc import Iterator, Sequence
from pathlib import Path

import train
from policies import Mistake
from policies.model_names import DEVICE, located
from rewards import largest_return
from train import COUNT, SIZE
from training import run_folder
from training.defaults import resolve
from training.flags import Parser, add_field, part_of
from training.items import check_items, digest
from training.plugins import find_reward, make_task
from training.terminal import drop_output, fail, printable, quiet, reset_process

# The flags of train.py that replace a run's where they are given.
REPLACE = (
    *("task", "reward", "data", "task_arg", "chat_template", "turns", "feedback"),
    *("temperature", "top_p", "max_new_tokens", "model"),
)
# The flags in which runs of one table agree, so that their returns have one meaning.
ALIKE = ("task", "data", "reward", "turns", "feedback", "gamma", "temperature", "top_p", "top_k")


def new_file(name: str) -> Path:
    """Return the path of a file to write, for argparse: before hours are spent."""
    path = Path(name)
    if path.is_dir() or not path.absolute().parent.is_dir():
        raise ArgumentTypeError(f"{name}: no file can be written there")
    return path


def parser(command: str = "table") -> Parser:
    """Return the parser of a command, which knows its own flags only."""
    top = Parser("eval.py", __doc__)
    add = top.add_argument
    file: dict = {"type": new_file, "metavar": "FILE"}
    several: dict = {"nargs": "+", "action": "extend", "default": []}
    match command:
        case "table":
            add("--limit", type=SIZE, default=100, help="problems, 0 for all (%(default)s)")
            samples = top.add_mutually_exclusive_group().add_argument
            text = "number of sampled joint responses per problem (%(default)s)"
            samples("--num-samples", type=COUNT, default=15, help=text)
            text = "the likeliest token each time, and no sampling (both)"
            samples("--greedy", action="store_const", const=0, dest="num_samples", help=text)
            top.set_defaults(timed=True)
            add("--json", help="file for the whole table", **file)
            add("--csv", help="file for the table, a line per method", **file)
            add("--samples", help="file for every joint response (JSONL)", **file)
        case "ask":
            add("text", help="problem in words, or an item of the task as JSON")
        case "show":
            add("limit", type=COUNT, nargs="?", default=3, help="number of problems (%(default)s)")
            top.set_defaults(num_samples=1, samples=None, timed=False)
        case "list":
            add("runs", nargs="*", default=["runs"], help="runs, or folders of runs (%(default)s)")
        case "compare":
            add("runs", nargs="+", help="runs: the seeds of the groups to compare")
            add("--by", help="flags that tell groups apart, or commit (their code)", **several)
            text = "measures, as eval/trained/pass@1 (before/return return greedy/return)"
            add("--metric", help=text, **several)
            add("--csv", help="file for the table", **file)
            add("--latex", help="file for the table in LaTeX (booktabs)", **file)
            add("--out", help="file for a figure of the curves (.png, .pdf, .svg)", **file)
        case "page":
            add("runs", nargs="+", help="runs to show; the page is page.html in the first's folder")
            add("--watch", action="store_true", help="the page again until its runs are finished")
        case "doctor":
            add("runs", nargs="+", help="runs to examine")
    if command in ("table", "show"):
        add("--method", help="methods of the table, listed below (all that apply)", **several)
        add("--split", default="test", choices=("dev", "test"), help="problems (%(default)s)")
        add("--single-model", type=located, help="language model of method single (the team's)")
    if command in ("table", "show", "ask"):
        add("--run", help="runs, or folders of runs (the newest run)", **several)
        add("--seed", type=SIZE, default=0, help="seed of every random draw (%(default)s)")
        group = top.add_argument_group("in place of the run's")
        for field in dataclasses.fields(train.Args):
            if field.name in (*REPLACE, "engine", "device"):
                add_field(group, field, None)
    return top


def parse(argv: list[str]) -> Namespace:
    """Return the flags of a command, and its name. The first word may leave `table` out."""
    command = "table"
    if argv and argv[0] in (*PLAYING, *READING):
        command, *argv = argv
    args = parser(command).parse_args(argv)
    args.command = command
    return args


def run_flags(args: Namespace, directory: Path | None) -> train.Args:
    """Return train.py's flags of a run with those given here; without a run, its defaults."""
    recorded = {"num_agents": max(train.Args.num_agents, len(args.model or ()))}
    if directory:
        recorded = train.recorded_flags(directory)
    if args.task and args.task != recorded.get("task"):
        for name in ("reward", "task_arg", "data", "feedback", "turns"):  # of the run's task
            recorded.pop(name, None)
    if args.turns == 1:
        recorded.pop("feedback", None)  # it is told between turns
    recorded.pop("kl_coef", None)  # it is of training
    for name in REPLACE:
        value = getattr(args, name)
        if value is not None:
            recorded[name] = value
    flags = train.Args(**recorded)
    flags.engine = args.engine  # not the run's
    resolve(flags)
    make_task(flags)  # it names its reward
    return flags


def agreed(flags_of: dict[Path | None, train.Args]) -> dict:
    """Return the flags that say what a return means. ValueError: the runs do not agree in them."""
    settings: dict = {}
    for run, flags in flags_of.items():
        for name in ALIKE:
            value = getattr(flags, name)
            if isinstance(value, list) and len({*value}) == 1:
                value = value[0]  # of each agent
            if settings.setdefault(name, value) != value:
                raise Mistake(f"{run} has another --{name.replace('_', '-')} than the runs before")
    return settings


def find_runs(args: Namespace) -> Sequence[Path | None]:
    """Return the folders of --run. Without it: the run that saved its agents last, or None.

    None stands for an untrained team.
    """
    if args.run:
        return run_folder.run_folders(args.run)
    agents = list(Path("runs").glob("*/agents/0"))
    if not agents or args.task or args.model:
        return [None]
    run = max(agents, key=os.path.getmtime).parents[1]
    print(f"the newest run: {run}", file=sys.stderr)
    return [run]


def problems(args: Namespace, flags_of: dict[Path | None, train.Args]) -> tuple:
    """Return the task of the first run and the problems, which have to be those of all runs."""
    task = make_task(flags_of[args.runs[0]])
    items = list(task.items(args.split) or ())
    if not items:
        raise Mistake(f"{type(task).__name__}.items({args.split!r}) has no problem to play")
    if not (args.task or args.data or args.task_arg):  # else others are played on purpose
        for run in filter(None, args.runs):
            check_items(run_folder.read_args(run), args.split, items)
    return task, items[: args.limit or None]


def evaluate(args: Namespace) -> Iterator[tuple]:
    """Play every method of every run. Yield the run, the settings, the task and all records."""
    flags_of = {run: run_flags(args, run) for run in args.runs}
    settings = agreed(flags_of)
    task, items = problems(args, flags_of)
    reward = find_reward(task)
    quiet()  # what follows imports torch
    from evaluation import players

    known = {}
    for run, flags in flags_of.items():
        known |= players.methods(flags, run is not None)
    chosen = args.method or known
    for name in chosen:
        if name not in known:
            raise Mistake(f"--method {name}: what applies here is {', '.join(known)}")
    if args.single_model and "single" not in chosen:
        raise Mistake("--single-model is of the method single, which does not play here")
    settings |= {
        "split": args.split,
        "num_samples": args.num_samples,  # 0: greedy alone
        "seed": args.seed,
        "reward": task.reward,
        "maximum": largest_return(
            reward.maximum, task.scored(settings["turns"]), settings["gamma"]
        ),
        "problems": len(items),
        "items": digest(items),
    }
    for name in (*REPLACE, "single_model"):
        value = getattr(args, name)
        if value is not None:
            settings.setdefault(name, value)
    match = part_of(args, players.Match)
    played = {}
    for run, flags in flags_of.items():
        for name, records in players.play_run(flags, run, items, match, prefix(args, run)):
            played[name] = records
            if args.samples:  # what is played is not lost, whatever comes
                text = run_folder.json_lines(itertools.chain(*played.values()))
                args.samples.write_text(text, "utf-8")
        if played:  # else --method names none of this run
            yield run, settings, task, played


def prefix(args: Namespace, run: Path | None) -> str:
    """Return what tells the methods of a run from those of other runs in a table."""
    return f"{run}/" if len(args.runs) > 1 else ""


def table(args: Namespace) -> str:
    """Evaluate, and return the table. Write what is known after each run, also into its folder."""
    for run, settings, task, played in evaluate(args):
        from evaluation import measures

        methods = measures.summarize(played, task.measures, task.schemes)
        whole = {"settings": settings, "methods": methods}
        own = measures.of_run(methods, prefix(args, run))
        if run and own:
            text = run_folder.json_text(whole | {"methods": own})
            run_folder.write_whole(run / "eval.json", text)
        if args.json:
            args.json.write_text(run_folder.json_text(whole), "utf-8")
        if args.csv:
            from pandas import DataFrame

            DataFrame(methods).T.to_csv(args.csv, index_label="method")
    from evaluation import report

    head = ", ".join(f"{name} {value}" for name, value in settings.items())
    head += "\nreturn: share of the maximum; ±: standard error over problems\n\n"
    return head + report.render(methods, task.measures)


def show(args: Namespace) -> str:
    """Return the answers of each method to the first problems."""
    from evaluation import report

    *_, (*_, played) = evaluate(args)
    return report.show(itertools.chain(*played.values()))


def ask(args: Namespace) -> str:
    """Return each team's greedy answer (sampled, with --temperature) to a problem of the user's."""
    from evaluation import report

    return report.show(record for run in args.runs for record in answer(args, run))


def answer(args: Namespace, run: Path | None) -> list[dict]:
    """Return the record of a team's answer."""
    flags = run_flags(args, run)
    task = make_task(flags)
    if args.text.lstrip().startswith("{"):  # a whole item
        try:
            item = json.loads(args.text)
        except ValueError as error:
            raise Mistake(f"ask: not one JSON object ({error})") from error
        task.check(item)
    else:
        item = task.ask(args.text)
    quiet()
    from evaluation.players import UNSCORED, Player

    player = Player(flags, run, UNSCORED if task.reward else None)  # or `play` pays by itself
    rollout = player.rollout(range(flags.num_agents))
    samples = 1 if any(args.temperature or ()) else 0
    name = f"{prefix(args, run)}the team"
    return player.play(name, rollout, [item], args.seed, samples)


PLAYING = {"table": table, "ask": ask, "show": show}
READING = ("list", "compare", "page", "doctor")


def read(args: Namespace) -> str:
    """Return what a command that plays nothing says of runs."""
    from evaluation import doctor, page, runs

    if args.command == "page":
        return f"page: {page.write_page(args.runs, args.watch)}"
    rows = runs.read_runs(args.runs, vars(train.parse([])))
    match args.command:
        case "list":
            return runs.list_runs(rows)
        case "compare":
            return runs.compare(rows, args.by, args.metric, args.csv, args.latex, args.out)
        case _:
            return doctor.report(rows)


def main(argv: list[str]) -> None:
    try:
        args = parse(argv)
        if args.command in PLAYING:
            os.environ[DEVICE] = args.device or ""
            args.runs = find_runs(args)
            text = PLAYING[args.command](args)
        else:
            text = read(args)
        print(printable(text), flush=True)  # a reader that has gone shows here
        if args.command == "page" and args.watch:
            from evaluation.page import keep_up

            keep_up(args.runs)
    except BrokenPipeError:  # every file was written before the output
        drop_output()
    except Exception as error:
        fail(parser(), error)


if __name__ == "__main__":
    reset_process(parser())
    main(sys.argv[1:])
