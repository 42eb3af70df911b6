"""Evaluate a trained team: a table of the team beside its baselines, or one of the modes below.

Examples:
  python eval.py --run runs/coop-1                       # the table
  python eval.py --ask "Return the largest even number"  # an answer of the newest run's team
  python eval.py --compare runs/*                        # means over seeds, and differences

The methods of the table:

| method         | who answers                                                                    |
|----------------|--------------------------------------------------------------------------------|
| trained        | the run's agents, each from its own prompt                                     |
| naive          | the same team before any training, --init's too                                |
| sequential     | untrained; agent k sees what the agents before it wrote                        |
| discussion     | untrained; each revises its response after seeing the others', once            |
| single         | one untrained model does the whole task (--single-model: another, say a larger |
|                | one), with as many new tokens as the team together, or as a second --run       |
| single-trained | the agent of a second --run, which was trained with --num-agents 1             |
| only-<i>       | only agent i trained, its partners untrained: who has learned what?            |
| reference      | the data set's own solutions                                                   |

Task, prompts, sampling and reward are those of training: the same objects play here. Responses
depend on --seed and the problem alone, so methods meet the same random numbers, and two evaluations
with one seed are identical but for their timing.

Evaluate only runs that you trust. --run, --ask, --crossplay and --doctor execute the plug-ins that
a run names. All but --doctor also load its models with its --trust-remote-code.
"""

import argparse
import contextlib
import dataclasses
import inspect
import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path

import train
from evaluation import report
from policies.model_names import DEVICE, DEVICES, located
from rewards import REWARDS, largest_return
from tasks import TASKS
from train import COUNT, POSITIVE, SIZE, TOP_P
from training import run_folder
from training.defaults import is_embedded, resolve_bits
from training.flags import (
    Parser,
    assignments,
    each,
    flag,
    named,
    optional,
    part_of,
    server_url,
)
from training.terminal import counted, drop_output, fail, printable, quiet, quit_on_signals

MODES = {  # what else may be given with the flag that chooses it
    "from_samples": {"method", "json", "csv", "samples", "show", "all", "recombine"},
    "score": {"task", "task_arg", "reward", "judge", "data", "model", "chat_template", "samples"},
    "compare": {
        "json",
        "csv",
        "metric",
        "group",
        "group_by",
        "out",
        "schemes",
        "markdown",
        "latex",
    },
    "runs": {"json", "csv"},
    "html": {"watch"},
    "crossplay": {"limit", "num_samples", "greedy", "temperature", "top_p", "seed", "json"},
    "doctor": set(),
    "ask": {
        "run",
        "checkpoint",
        "task",
        "task_arg",
        "data",
        "model",
        "chat_template",
        "engine",
        "engine_folder",
        "temperature",
        "top_p",
        "max_new_tokens",
        "seed",
    },
}
NOT_WITH = {  # flags that would change nothing beside a flag
    "greedy": {"num_samples", "temperature", "top_p"},
    "recombine": {"greedy", "show", "all"},
    "show": {"limit", "num_samples", "all"},
}
# The flags that replace a run's where they are given.
REPLACE = (
    "task",
    "reward",
    "judge",
    "data",
    "chat_template",
    "temperature",
    "top_p",
    "max_new_tokens",
    "turns",
    "feedback",
    "task_arg",
)
PROGRAM = ("entry_point", "helpers", "setup", "tests")  # what a program of an item is run with
HEADER = ("task", "data", "turns", "temperature", "top_p")  # flags in the header of a table
DEFAULTS = dataclasses.asdict(train.Args())  # of train.py's flags
CHOSEN = ("run", "task", "model", "from_samples")  # each says what plays
HEADINGS = {  # of --help, by their first flag
    "ask": "modes",
    "run": "what is compared",
    "metric": "how --compare does it",
    "limit": "how they play",
    "all": "output",
}


@dataclass
class Args:
    """Every flag of eval.py, with its default and its help. None: the run's value."""

    # --- other questions than the table
    ask: str | None = optional(
        "the team's answer to a problem of yours, in words or as JSON", metavar="TEXT"
    )
    show: int | None = optional("the answers of each method to the first N test problems", COUNT)
    compare: list[str] | None = optional(
        "runs: a table of the means over seeds, and of the differences to the first group",
        nargs="+",
    )
    runs: list[str] | None = optional(
        "a list of runs: their states, their returns, and the flags in which they differ (all in "
        "runs/)",
        nargs="*",
        metavar="RUN",
    )
    html: list[str] | None = optional(
        "runs: one page of their curves and samples, page.html", nargs="+"
    )
    watch: bool = flag(False, "with --html: the page again and again until its runs are finished")
    crossplay: list[str] | None = optional(
        "a table of runs whose agents change partners", nargs="+"
    )
    doctor: str | None = optional("a verdict on a run: which known signs of failure it shows")
    score: str | None = optional(
        "a reward's scores of the joint responses in a JSONL file (to --samples)",
        metavar="FILE",
    )
    recombine: bool = flag(False, "the programs that k answers of each agent make, of code tasks")
    from_samples: str | None = optional(
        "the table of an earlier evaluation, from its --samples, without a model",
        metavar="FILE",
    )

    # --- what is compared
    run: list[str] | None = optional(
        "runs to evaluate, the seeds of one experiment; also those of a single agent, as a control "
        "(the newest run)",
        nargs="*",
        action="extend",
    )
    checkpoint: str = flag(
        "last",
        "the run's agents: those of its last step, or of its best return on dev problems (best: a "
        "run with --eval-every)",
        choices=("last", "best"),
    )
    method: list[str] | None = optional(
        "methods of the table, listed below (all that apply)", nargs="+"
    )
    task: str | None = optional(
        f"task: {named(TASKS)}; or dotted.path or file.py:Class (the run's)"
    )
    reward: str | None = optional(
        f"reward: {named(REWARDS)}; or dotted.path or file.py:function (the run's; the task's own)",
    )
    data: str | None = optional(
        "file of problems, as in train.py (the run's)",
        metavar="FILE",
    )
    model: list[str] | None = optional(
        "language model; one for all agents or one each (the run's; the task's)",
        located,
        nargs="+",
        metavar="NAME",
    )
    single_model: str | None = optional(
        "language model of method single (the team's)", located, metavar="NAME"
    )
    judge: str | None = optional(
        "language model that the reward asks (the run's; the frozen model)", located, metavar="NAME"
    )
    engine: list[str] | None = optional(
        "vLLM servers that sample the responses; one for each model",
        server_url,
        nargs="+",
        metavar="URL",
    )
    engine_folder: str | None = optional("folder in which the servers find the adapters")
    device: str | None = optional("where the models run, as in train.py", choices=DEVICES)

    # --- how --compare does it
    metric: list[str] | None = optional(
        "held-out measures, as metric/pass (before/return return greedy/return)", nargs="+"
    )
    group: dict | None = assignments(
        "groups by their folders, as median=runs/median-* (runs that agree in the flags and the "
        "code that matter)"
    )
    group_by: list[str] | None = optional(
        "flags that tell groups apart, as advantage lr; code: the version of the code", nargs="+"
    )
    out: str | None = optional("file for a figure of the curves (.png, .pdf, .svg)", metavar="FILE")
    schemes: bool = flag(False, "how each group divided the work, in the figure")
    markdown: str | None = optional("file for the table in Markdown", metavar="FILE")
    latex: str | None = optional("file for the table in LaTeX (booktabs)", metavar="FILE")

    # --- how they play
    split: str = flag("test", "problems that are played", choices=("dev", "test"))
    limit: int = flag(100, "number of problems; 0: all", SIZE)
    num_samples: int = flag(15, "number of sampled joint responses per problem", COUNT)
    greedy: bool = flag(False, "the likeliest token each time, and no sampling (both)")
    temperature: float | None = optional(
        "randomness of sampling: the divisor of the logits (the run's)", POSITIVE
    )
    top_p: float | None = optional(
        "nucleus sampling: the likeliest tokens up to this probability (the run's)", TOP_P
    )
    max_new_tokens: int | None = optional(
        "largest number of tokens in a response (the run's)", COUNT
    )
    turns: int | None = optional(
        "number of answers that each agent gives to a problem (the run's)", COUNT
    )
    feedback: str | None = optional("kind of feedback between turns (the run's)")
    task_arg: dict | None = assignments("arguments of the task's constructor (the run's)")
    chat_template: bool | None = optional(
        "chat format for prompts (the run's)",
        action=argparse.BooleanOptionalAction,
    )
    seed: int = flag(0, "seed of every random draw", SIZE)

    # --- output
    all: bool = flag(False, "more columns in the table; --json and --csv have all")
    json: str | None = optional("file for the whole table", metavar="FILE")
    csv: str | None = optional("file for the table, a line per method", metavar="FILE")
    samples: str | None = optional("file for every response and its scores (JSONL)", metavar="FILE")
    debug: bool = flag(False, "traceback of an error")


def parser() -> Parser:
    return Parser("eval.py", __doc__, Args, HEADINGS)


def parse(argv: list[str]) -> Args:
    top = parser()
    args = Args(**vars(top.parse_args(argv)))
    default = Args()
    given = {name for name, value in vars(args).items() if value != getattr(default, name)}
    refused = {name: given & NOT_WITH[name] for name in NOT_WITH.keys() & given}
    for mode in MODES.keys() & given:
        value = getattr(args, mode)
        if isinstance(value, str) and not value.strip():
            top.error(f"--{mode.replace('_', '-')} is empty")
        refused[mode] = given - MODES[mode] - {mode, "debug", "device"}
    for name, others in refused.items():
        if others:
            first, *listed = [f"--{field.replace('_', '-')}" for field in (name, *sorted(others))]
            top.error(f"{first} does not go with {', '.join(listed)}")
    for name in given & MODES["compare"] - {"json", "csv"}:
        if not args.compare:
            top.error(f"--{name.replace('_', '-')} goes with --compare")
    if args.watch and not args.html:
        top.error("--watch goes with --html")
    if args.schemes and not args.out:
        top.error("--schemes are in the figure: it needs --out")
    for name in ("json", "csv", "samples", "out", "markdown", "latex"):
        file = getattr(args, name)
        if file and (not Path(file).absolute().parent.is_dir() or Path(file).is_dir()):
            top.error(f"--{name} {file}: no file can be written there")
    return args


def run_flags(args: Args, directory: Path | None) -> train.Args:
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
    flags.engine_folder = args.engine_folder
    return flags


def solo_flags(args: Args, flags: train.Args, team: Path | None, solo: Path) -> train.Args:
    """Return the flags of a single agent's own run. flags: those that the team plays with."""
    alone = run_flags(args, solo)
    if {*alone.model} != {*flags.model}:
        alone.engine = None  # no server has its base
        alone.engine_folder = None
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
    if alone.model[0] != flags.model[0]:
        alone.judge = flags.judge or flags.model[0]
    return alone


def evaluate(args: Args) -> tuple[dict, list[dict]]:
    """Play every method; return the header and the records, as measures.summarize takes them."""
    from evaluation import recombine
    from evaluation.groups import check_seeds
    from evaluation.load_team import Player, find_runs, problems, single_flags
    from training.plugins import TaskOptions, check_prompts, find_reward, make_task

    teams, solos = find_runs(args.run, args.checkpoint)
    for runs in (teams, solos):
        if len(runs) > 1:
            check_seeds(runs, DEFAULTS)
            if args.recombine:
                raise ValueError("--recombine is for one run of a team and one of an agent")
    team, solo = (runs[0] if runs else None for runs in (teams, solos))
    flags = run_flags(args, team or solo)
    task = make_task(part_of(flags, TaskOptions))
    reward = find_reward(task, args.judge)
    items = problems(task, args.split, args.limit)
    if args.recombine:
        recombine.check(items)
    quiet()  # names are checked: what follows imports torch
    resolve_bits(flags)
    from evaluation.baselines import choose, latencies, plan, play_method, reference

    seats = {"team": (flags, teams)}  # who plays: flags, and the runs of the trained agents
    if solo:
        seats["solo"] = (solo_flags(args, flags, team, solo), solos)
    if args.single_model or not solo:
        seats["single"] = (single_flags(flags, args.single_model), [])
    planned = plan(seats, items)
    if args.recombine:
        planned = {name: planned[name] for name in planned if name not in recombine.BOUND}
    methods = choose(planned, args.method)
    if args.single_model and "single" not in methods:
        raise ValueError("--single-model is of method single, which does not play here")
    header = describe(args, flags, task, reward, items)
    if max(len(teams), len(solos)) > 1:
        header["settings"]["title"] += " over a method's runs, or over problems if it has one"
    counts = [0] if args.greedy else [args.num_samples, 0]  # 0 is greedy
    if args.recombine:
        counts = [args.num_samples]
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
            player = Player(players, run, reward, args.checkpoint)
            check_prompts(player.rollout(), items)
            sampling = player.sampling.greedy() if args.greedy else player.sampling
            for name, method in seated.items():
                rollout = player.rollout(method.rollout, method.trained)
                with may_be_left_out(args, header, name):
                    played = []
                    for count in counts:
                        played += play_method(name, rollout, items, sampling, args.seed, count)
                    if not (number or args.show or args.recombine):
                        timing = latencies(name, rollout, items, sampling, args.seed)
                        header["timing"][name] = timing
                    records += [{"run": number} | record for record in played]
                if args.samples:  # what is played is not lost, whatever comes
                    run_folder.write_lines(Path(args.samples), [header, *records])
    return header, sorted(records, key=lambda record: list(methods).index(record["method"]))


@contextlib.contextmanager
def may_be_left_out(args: Args, header: dict, method: str):
    """Leave out `single` or `reference` where it fails, because the task may need a team.

    Leave out a baseline whose prompts, with partners' texts in them, do not fit. The title says so.
    Raise the error of any other method, and of one that --method names.
    """
    from policies.shared_model import TooLong

    try:
        yield
    except Exception as error:
        may_fail = method in ("single", "reference") or isinstance(error, TooLong)
        if args.method or not may_fail:
            raise
        reason = f"{type(error).__name__}: {error}"
        header["settings"]["title"] += f"\nno method {method}: {reason:.200}"


def describe(args: Args, flags: train.Args, task, reward, items: list[dict]) -> dict:
    """Return the header: what is evaluated and how, for the head and the foot of the table."""
    from evaluation.baselines import TIMED
    from policies.shared_model import as_text
    from training.report import where

    drawn = f"temperature {flags.temperature:g}, top-p {flags.top_p:g}"
    sampled = "greedy" if args.greedy else f"{counted(args.num_samples, 'sample')} at {drawn}"
    count = len(items)
    title = f"{flags.task}: {counted(count, f'{args.split} problem')}, {sampled}"
    title += f", turns {flags.turns}, seed {args.seed}"
    if args.checkpoint == "best":
        title += ", trained: the best on dev"
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
        "checkpoint": args.checkpoint,
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
        program = {name: item[name] for name in PROGRAM if name in item}
        asked.append({"task_id": item.get("task_id"), "prompts": prompts} | program)
    return {"settings": settings, "timing": {}, "items": asked, "measures": task.measures}


def table(args: Args) -> None:
    """Evaluate, or read what was evaluated, and show it."""
    from evaluation import measures, recombine

    if args.show and not args.from_samples:
        args.limit = args.show
        args.num_samples = 1
    if args.from_samples:
        header, records = report.read_samples(args.from_samples)
    else:
        header, records = evaluate(args)
    if args.recombine:
        records = recombine.usable(records, header["items"])
    known = dict.fromkeys(record["method"] for record in records)
    for name in args.method or ():
        if name not in known:
            listed = ", ".join(known)
            raise ValueError(f"--method {name}: what {args.from_samples} has is {listed}")
    if args.recombine:
        summary = recombine.recombine(header, records, args.method)
    else:
        summary = measures.over_runs(header, records, args.method)
    write_table(args, summary, "method", summary["methods"])
    if args.samples:
        run_folder.write_lines(Path(args.samples), [header, *records])
    if args.show:
        shown = []
        for record in records:
            if record["method"] in summary["methods"] and not record.get("run"):  # of the first
                shown.append(record)
        text = report.show(header, shown, args.show)
    elif args.recombine:
        text = report.block(summary["methods"], recombine.COLUMNS)
        text = f"{summary['settings']['title']}\n\n{text}"
    else:
        text = report.render(summary, header["measures"], args.all)
    print(printable(text))


def write_table(args: Args, content: dict, corner: str, rows: dict) -> None:
    """Write the content to --json, and its rows to --csv."""
    if args.json:
        run_folder.write_json(Path(args.json), content)
    if args.csv:
        report.write_csv(args.csv, corner, rows)


def newest(args: Args) -> list[str] | None:
    """Return what is evaluated where nothing is named: the run started or resumed last, if any."""
    files = list(Path("runs").glob("*/args.json"))
    if not files or any(getattr(args, name) for name in CHOSEN):
        return args.run
    run = max(files, key=os.path.getmtime).parent
    print(f"the newest run: {run}", file=sys.stderr)
    return [str(run)]


def ask(args: Args) -> None:
    """Print the team's greedy answer (sampled, with --temperature) to a problem of the user's."""
    from evaluation.load_team import Player, find_runs
    from training.plugins import TaskOptions, make_task

    teams, solos = find_runs(args.run, args.checkpoint)
    runs = [*teams, *solos]
    if len(runs) > 1:
        raise ValueError("--ask is for one run")
    run = runs[0] if runs else None
    flags = run_flags(args, run)
    flags.temperature = args.temperature or 0.0  # greedy
    task = make_task(part_of(flags, TaskOptions))
    if args.ask.lstrip().startswith("{"):  # a whole item
        try:
            item = json.loads(args.ask)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"--ask: not one JSON object ({error})") from error
        task.check(item)
    else:
        item = task.ask(args.ask)
    quiet(uses_lightning=False)
    resolve_bits(flags)
    if flags.bits >= 16:
        sys.modules.setdefault("bitsandbytes", None)  # peft would load it, which takes a second
    turns = Player(flags, run, checkpoint=args.checkpoint).ask(item, args.seed)
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


def crossplay(args: Args) -> None:
    """Print the table of the runs whose agents change partners."""
    from evaluation import crossplay
    from evaluation.load_team import find_runs

    teams, solos = find_runs(args.crossplay, args.checkpoint)
    runs = [*teams, *solos]
    flags = [run_flags(args, run) for run in runs]
    samples = 0 if args.greedy else args.num_samples
    returns, title = crossplay.crossplay(runs, flags, args.limit, samples, args.seed)
    print(f"{title}\n\n{crossplay.report(runs, returns, args.json)}")


def compare(args: Args) -> None:
    """Print the table of groups of runs, and write what the flags ask for."""
    from evaluation import comparison, groups

    folders = run_folder.run_folders(args.compare)
    runs = groups.read_runs(folders, DEFAULTS)
    grouped = groups.group_runs(runs, args.group_by, args.group)
    notes = groups.notes(grouped)
    metrics = args.metric or comparison.METRICS
    compared = comparison.compare(grouped, metrics)
    if args.out:
        from evaluation import plots

        plots.draw(grouped, metrics, Path(args.out), args.schemes)
    members = {name: [str(run.directory) for run in grouped[name]] for name in grouped}
    content = {"groups": compared, "runs": members, "notes": notes}
    write_table(args, content, "group", compared)
    for file, form, comment in (
        (args.markdown, report.markdown, ""),
        (args.latex, report.latex, "% "),
    ):
        if file:
            text = comparison.render(compared, metrics, notes, form, comment)
            run_folder.write_whole(Path(file), f"{text}\n")
    print(printable(comparison.render(compared, metrics, notes)))


def list_runs(args: Args) -> None:
    """Print the list of runs, and write what the flags ask for."""
    from evaluation import listing

    folders = run_folder.run_folders(args.runs or ["runs"])
    rows = listing.list_runs(folders, DEFAULTS)
    write_table(args, {"runs": rows}, "run", rows)
    print(printable(listing.render(rows)))


def main(argv: list[str]) -> None:
    try:
        args = parse(argv)
        os.environ[DEVICE] = args.device or ""
        if args.compare:
            compare(args)
        elif args.runs is not None:
            list_runs(args)
        elif args.html:
            from evaluation import page

            print(f"page: {page.write_page(args.html, args.watch)}", flush=True)
            if args.watch:
                page.keep_up(args.html)
        elif args.crossplay:
            quiet()
            crossplay(args)
        elif args.score:
            quiet()
            from evaluation import score_file

            print(score_file.score(run_flags(args, None), args.score, args.samples))
        elif args.doctor:
            from training import doctor

            print(doctor.report(run_folder.find_run(args.doctor)))
        else:
            args.run = newest(args)
            if args.ask is None:
                table(args)
            else:
                ask(args)
        sys.stdout.flush()  # a reader that has gone shows here, and not at the exit
    except BrokenPipeError:  # every file was written before the output
        drop_output()
    except Exception as error:
        if "--debug" in argv:
            raise
        fail(parser(), error)


if __name__ == "__main__":
    quit_on_signals("eval.py")
    main(sys.argv[1:])
