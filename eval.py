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
| reference    | the data set's own solutions                                                     |

The control of a team is another run, trained with --num-agents 1: --run TEAM CONTROL.

Task, prompts, sampling and reward are those of training: the same objects play here. Responses
depend on --seed and the problem alone, so methods meet the same random numbers, and two evaluations
with one seed are identical but for their timing.

Evaluate only runs that you trust: table, ask and show execute the plug-ins of a run.
"""

import argparse
import contextlib
import dataclasses
import inspect
import json
import os
import sys
from pathlib import Path

import train
from evaluation import report
from policies.model_names import DEVICE, located
from rewards import largest_return
from train import COUNT, SIZE
from training import run_folder
from training.defaults import is_embedded, resolve_bits
from training.flags import Parser, each, part_of
from training.terminal import counted, drop_output, fail, printable, quiet, quit_on_signals

# The flags of train.py that replace a run's where they are given.
REPLACE = (
    *("task", "reward", "data", "task_arg", "chat_template", "turns", "feedback"),
    *("temperature", "top_p", "max_new_tokens"),
)
HEADER = ("task", "data", "turns", "temperature", "top_p")  # flags in the header of a table
DEFAULTS = dataclasses.asdict(train.Args())  # of train.py's flags


def new_file(name: str) -> Path:
    """Return the path of a file to write, for argparse: before hours are spent."""
    path = Path(name)
    if path.is_dir() or not path.absolute().parent.is_dir():
        raise argparse.ArgumentTypeError(f"{name}: no file can be written there")
    return path


def parser(command: str = "table") -> Parser:
    """Return the parser of a command, which knows its own flags only."""
    top = Parser("eval.py", __doc__)
    top.usage = f"python eval.py {command} [flags]"
    add = top.add_argument
    file: dict = {"type": new_file, "metavar": "FILE"}
    match command:
        case "table":
            add("--run", nargs="+", help="runs to evaluate (the newest one)")
            add("--limit", type=SIZE, default=100, help="number of problems; 0: all")
            samples = top.add_mutually_exclusive_group()
            text = "number of sampled joint responses per problem"
            samples.add_argument("--num-samples", type=COUNT, default=15, help=text)
            text = "the likeliest token each time, and no sampling (both)"
            samples.add_argument("--greedy", action="store_true", help=text)
            add("--json", help="file for the whole table", **file)
            add("--csv", help="file for the table, a line per method", **file)
            add("--samples", help="file for every joint response (JSONL)", **file)
        case "ask":
            add("text", help="problem in words, or an item of the task as JSON")
            add("--run", nargs=1, help="run that answers (the newest one)")
        case "show":
            add("limit", type=COUNT, nargs="?", default=3, help="number of problems")
            add("--run", nargs=1, help="run to show (the newest one)")
        case "list":
            add("runs", nargs="*", default=["runs"], help="runs, or folders of runs")
        case "compare":
            add("runs", nargs="+", help="runs: the seeds of the groups to compare")
            add("--by", nargs="+", help="flags that tell groups apart; commit: their code")
            add(
                "--metric",
                nargs="+",
                help="measures, as eval/trained/pass@1 (before/return return greedy/return)",
            )
            add("--csv", help="file for the table", **file)
            add("--latex", help="file for the table in LaTeX (booktabs)", **file)
            add("--out", help="file for a figure of the curves (.png, .pdf, .svg)", **file)
        case "page":
            add("runs", nargs="+", help="runs to show; the page is page.html beside the first")
            add("--watch", action="store_true", help="the page again until its runs are finished")
        case "doctor":
            add("run", help="run to examine")
    if command in ("table", "show"):
        add("--method", nargs="+", help="methods of the table, listed below (all that apply)")
        add("--split", default="test", choices=("dev", "test"), help="problems that are played")
        add("--single-model", type=located, help="language model of method single (the team's)")
    if command in ("table", "show", "ask"):
        add("--seed", type=SIZE, default=0, help="seed of every random draw")
        group = top.add_argument_group("in place of the run's")
        fields = {field.name: field for field in dataclasses.fields(train.Args)}
        for name in (*REPLACE, "model", "engine", "device"):
            options = dict(fields[name].metadata)
            if name == "chat_template":
                options["action"] = argparse.BooleanOptionalAction
            group.add_argument(f"--{name.replace('_', '-')}", default=None, **options)
    return top


def parse(argv: list[str]) -> argparse.Namespace:
    """Return the flags of a command, and its name. The first word may leave `table` out."""
    command = "table"
    if argv and argv[0] in COMMANDS:
        command, *argv = argv
    args = parser(command).parse_args(argv)
    args.command = command
    return args


def run_flags(args: argparse.Namespace, directory: Path | None) -> train.Args:
    """Return train.py's flags of a run with those given here; without a run, its defaults."""
    recorded = train.recorded_flags(directory) if directory else {}
    task = args.task or recorded.get("task")
    if task != recorded.get("task"):
        for name in ("task_arg", "data", "feedback"):  # they are of the run's task
            recorded.pop(name, None)
    defaults = train.parse(["--task", task] if task else [])
    flags = dataclasses.replace(defaults, **recorded)
    for name in REPLACE:
        if getattr(args, name) is not None:
            setattr(flags, name, getattr(args, name))
    if directory and task == recorded.get("task"):
        run_folder.check_data(directory, flags.data, on_purpose=bool(args.data))
    if args.model:
        count = len(args.model)
        if not directory and count > 1:
            flags.num_agents = count
        if count not in (1, flags.num_agents):
            raise ValueError(f"--model names {count}: give one, or one per agent")
        flags.model = each(args.model, flags.num_agents)
    if args.feedback and flags.turns == 1:
        raise ValueError("--feedback is told between turns: it needs --turns 2 or more")
    flags.engine = args.engine  # not the run's
    return flags


def solo_flags(
    args: argparse.Namespace, flags: train.Args, team: Path | None, solo: Path
) -> train.Args:
    """Return the flags of a single agent's own run. flags: those that the team plays with."""
    alone = run_flags(args, solo)
    if {*alone.model} != {*flags.model}:
        alone.engine = None  # no server has its base
    for name in ("task", "data", "task_arg", "turns", "feedback", "temperature", "top_p", "top_k"):
        if getattr(alone, name) != getattr(flags, name):
            hint = ": give one for both" if name in REPLACE else ""
            raise ValueError(
                f"{solo} was trained with another --{name.replace('_', '-')} than the team plays "
                f"with{hint}"
            )
    alone.gamma = flags.gamma  # all methods have one unit of return
    if team:  # the flag --max-new-tokens is then meant for the team's agents
        alone.max_new_tokens = run_folder.read_args(solo)["args"]["max_new_tokens"]
    return alone


def evaluate(args: argparse.Namespace) -> tuple[dict, list[dict]]:
    """Play every method; return the header and the records, as measures.summarize takes them."""
    from evaluation.groups import check_seeds
    from evaluation.load_team import Player, find_runs, problems, single_flags
    from training.plugins import TaskOptions, check_prompts, find_reward, make_task

    teams, solos = find_runs(args.run)
    for runs in (teams, solos):
        if len(runs) > 1:
            check_seeds(runs, DEFAULTS)
    team, solo = (runs[0] if runs else None for runs in (teams, solos))
    flags = run_flags(args, team or solo)
    task = make_task(part_of(flags, TaskOptions))
    reward = find_reward(task)
    items = problems(task, args.split, args.limit)
    quiet()  # names are checked: what follows imports torch
    resolve_bits(flags)
    from evaluation.baselines import choose, latencies, plan, play_method, reference

    seats = {"team": (flags, teams)}  # who plays: flags, and the runs of the trained agents
    if solo:
        seats["solo"] = (solo_flags(args, flags, team, solo), solos)
    if args.single_model or not solo:
        seats["single"] = (single_flags(flags, args.single_model), [])
    planned = plan(seats, items)
    methods = choose(planned, args.method)
    if args.single_model and "single" not in methods:
        raise ValueError("--single-model is of method single, which does not play here")
    header = describe(args, flags, task, reward, items)
    if max(len(teams), len(solos)) > 1:
        header["settings"]["title"] += " over a method's runs, or over problems if it has one"
    counts = [0] if args.greedy else [args.num_samples, 0]  # 0 is greedy
    records = []
    if "reference" in methods:
        rollout = reference(flags, task, reward)
        with may_be_left_out(args, header, "reference"):
            records = play_method("reference", rollout, items, None, args.seed, 1)
    for seat, (players, runs) in seats.items():
        for number, run in enumerate(runs or [None]):
            seated = {}
            for name, method in methods.items():
                # Untrained agents are those of the first run.
                if method.seat == seat and (method.trained or number == 0):
                    seated[name] = method
            if not seated:
                continue
            player = None  # frees the memory of the one before
            player = Player(players, run, reward)
            check_prompts(player.rollout(), items)
            sampling = player.sampling.greedy() if args.greedy else player.sampling
            for name, method in seated.items():
                rollout = player.rollout(method.rollout, method.trained)
                with may_be_left_out(args, header, name):
                    played = []
                    for count in counts:
                        played += play_method(name, rollout, items, sampling, args.seed, count)
                    if not number and args.command == "table":
                        timing = latencies(name, rollout, items, sampling, args.seed)
                        header["timing"][name] = timing
                    records += [{"run": number} | record for record in played]
                if args.samples:  # what is played is not lost, whatever comes
                    run_folder.write_lines(args.samples, [header, *records])
    return header, sorted(records, key=lambda record: list(methods).index(record["method"]))


@contextlib.contextmanager
def may_be_left_out(args: argparse.Namespace, header: dict, method: str):
    """Leave out `single` or `reference` where it fails, because the task may need a team.

    Leave out a baseline whose prompts, with partners' texts in them, do not fit. The title says so.
    Raise the error of any other method, and of one that --method names.
    """
    from policies.codec import TooLong

    try:
        yield
    except Exception as error:
        may_fail = method in ("single", "reference") or isinstance(error, TooLong)
        if args.method or not may_fail:
            raise
        reason = f"{type(error).__name__}: {error}"
        header["settings"]["title"] += f"\nno method {method}: {reason:.200}"


def describe(args: argparse.Namespace, flags: train.Args, task, reward, items: list[dict]) -> dict:
    """Return the header: what is evaluated and how, for the head and the foot of the table."""
    from evaluation.baselines import TIMED
    from policies.codec import as_text
    from training.report import where

    drawn = f"temperature {flags.temperature:g}, top-p {flags.top_p:g}"
    sampled = "greedy" if args.greedy else f"{counted(args.num_samples, 'sample')} at {drawn}"
    count = len(items)
    title = f"{flags.task}: {counted(count, f'{args.split} problem')}, {sampled}"
    title += f", turns {flags.turns}, seed {args.seed}"
    largest = largest_return(reward, flags.turns, flags.gamma)
    title += f"\nreturn: share of the largest with reward {task.reward}, {largest:g}"
    if flags.turns > 1:
        title += f" in an episode of {flags.turns} turns, gamma {flags.gamma:g}"
    title += "; ± standard error"
    device = " and ".join(flags.engine or [where()])
    settings = {
        "title": title,
        "timed": f"latency: seconds of decoding for one problem alone ({device}), "
        f"mean over {counted(min(TIMED, count), 'problem')}",
        "reward": task.reward,
        "maximum": largest,
        **{name: getattr(flags, name) for name in HEADER},
        "runs": args.run,
        "items": count,
        "num_samples": args.num_samples,
        "greedy": args.greedy,
        "seed": args.seed,
    }
    asked = []
    for item in items:
        team = range(flags.num_agents)
        speakers = task.speakers(item, 0) or team
        prompts = []
        for agent in team:
            prompts.append(as_text(task.observe(agent, item, [])) if agent in speakers else "")
        asked.append({"task_id": item.get("task_id"), "prompts": prompts})
    return {"settings": settings, "timing": {}, "items": asked, "measures": task.measures}


def table(args: argparse.Namespace) -> None:
    """Evaluate, print the table, and write it."""
    from evaluation import measures

    header, records = evaluate(args)
    summary = measures.over_runs(header, records, args.method)
    write_table(args.json, args.csv, summary, "method", summary["methods"])
    print(printable(report.render(summary, header["measures"], True)))


def show(args: argparse.Namespace) -> None:
    """Print the answers of each method to the first problems."""
    args.num_samples = 1
    args.greedy = False
    args.samples = None
    header, records = evaluate(args)
    records = [record for record in records if not record.get("run")]  # of the first run
    print(printable(report.show(header, records, args.limit)))


def write_table(json, csv, content: dict, corner: str, rows: dict) -> None:
    """Write the content to the file of --json, and its rows to that of --csv."""
    if json:
        run_folder.write_json(json, content)
    if csv:
        report.write_csv(csv, corner, rows)


def newest(args: argparse.Namespace) -> list[str] | None:
    """Return what is evaluated where nothing is named: the run started or resumed last, if any."""
    files = list(Path("runs").glob("*/args.json"))
    if not files or args.run or args.task or args.model:
        return args.run
    run = max(files, key=os.path.getmtime).parent
    print(f"the newest run: {run}", file=sys.stderr)
    return [str(run)]


def ask(args: argparse.Namespace) -> None:
    """Print the team's greedy answer (sampled, with --temperature) to a problem of the user's."""
    from evaluation.load_team import Player, find_runs
    from training.plugins import TaskOptions, make_task

    teams, solos = find_runs(args.run)
    runs = [*teams, *solos]
    run = runs[0] if runs else None
    flags = run_flags(args, run)
    flags.temperature = args.temperature or 0.0  # greedy
    task = make_task(part_of(flags, TaskOptions))
    if args.text.lstrip().startswith("{"):  # a whole item
        try:
            item = json.loads(args.text)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"ask: not one JSON object ({error})") from error
        task.check(item)
    else:
        item = task.ask(args.text)
    quiet(uses_lightning=False)
    resolve_bits(flags)
    if flags.bits >= 16:
        sys.modules.setdefault("bitsandbytes", None)  # peft would load it, which takes a second
    turns = Player(flags, run).ask(item, args.seed)
    origin = f"trained by {run}" if run else "untrained (--run: another team)"
    for number, turn in enumerate(turns):
        if number > 0:
            print(f"\nturn {number}:")
        print(report.side_by_side(turn["prompts"]))
        print(f"\nthe team {origin}:\n{report.side_by_side(turn['responses'])}")
    text = inspect.cleandoc(type(task).__doc__ or "")
    if text and all(map(is_embedded, flags.model)):
        print(
            "\nThis model is tiny, and was trained for one task:", *text.split("\n\n")[:2], sep="\n"
        )


def compare(args: argparse.Namespace) -> None:
    """Print the table of groups of runs, and write what the flags ask for."""
    from evaluation import runs

    text = runs.compare(args.runs, args.by, args.metric, args.csv, args.latex, args.out)
    print(printable(text))


def list_runs(args: argparse.Namespace) -> None:
    """Print the list of runs."""
    from evaluation import runs

    print(printable(runs.list_runs(args.runs)))


def write_page(args: argparse.Namespace) -> None:
    """Write the page of runs, once or until they are finished."""
    from evaluation import page

    print(f"page: {page.write_page(args.runs, args.watch)}", flush=True)
    if args.watch:
        page.keep_up(args.runs)


def examine(args: argparse.Namespace) -> None:
    """Print the signs of failure that a run shows."""
    from evaluation import doctor

    print(doctor.report(args.run))


COMMANDS = {
    "table": table,
    "ask": ask,
    "show": show,
    "list": list_runs,
    "compare": compare,
    "page": write_page,
    "doctor": examine,
}


def main(argv: list[str]) -> None:
    try:
        args = parse(argv)
        if args.command in ("table", "ask", "show"):
            os.environ[DEVICE] = args.device or ""
            args.run = newest(args)
        COMMANDS[args.command](args)
        sys.stdout.flush()  # a reader that has gone shows here, and not at the exit
    except BrokenPipeError:  # every file was written before the output
        drop_output()
    except Exception as error:
        fail(parser(), error)


if __name__ == "__main__":
    quit_on_signals("eval.py")
    main(sys.argv[1:])
