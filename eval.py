"""Compares a trained team with every baseline: python eval.py --run runs/NAME [--run runs/SOLO].

| method         | who answers                                                                    |
|----------------|--------------------------------------------------------------------------------|
| trained        | the run's agents, each from its own prompt                                     |
| naive          | the same team before any training, --init's too                                |
| sequential     | untrained; agent k sees what the agents before it wrote                        |
| discussion     | untrained; each revises its response after seeing the others', once            |
| single         | one untrained model does the whole task (--single-model: another, say a larger |
|                | one), with as many new tokens as the team together, or as a second --run       |
| single-trained | the agent of a second --run, which was trained with --num-agents 1             |
| frozen-<i>     | agent i trained, its partners untrained: who has learned what?                 |
| reference      | the data set's own solutions                                                   |

Task, prompts, sampling and reward are those of training: the same objects play here. Responses
depend on --seed and the problem alone, so methods meet the same random numbers, and two evaluations
with one seed are identical but for their timing.

Evaluate only runs that you trust. --run, --ask, --crossplay and --doctor execute the plug-ins that
a run names. All but --doctor also load its models with its --trust-remote-code.
"""

import argparse
import json
import sys
import time
from pathlib import Path

from evaluation import report
from rewards import REWARDS
from tasks import TASKS
from training import folder
from training.bits import settle
from training.flags import Parser, at_least, named
from training.terminal import fail, quiet, quit_on_signals

HOW_TIMED = """\
latency: seconds of decoding for one problem alone ({device}), all rounds of it, mean over
{count} problems, or fewer where that would be more than a tenth of a method's time"""
MODES = {  # what else may be given with the flag that chooses it
    "from_samples": {"method", "json", "csv", "samples", "show"},
    "score": {"task", "reward", "judge", "data", "model", "chat_template", "samples"},
    "compare": {"json"},
    "crossplay": {"limit", "num_samples", "greedy", "temperature", "top_p", "seed", "json"},
    "doctor": set(),
    "ask": {"run", "task", "data", "model", "chat_template", "temperature", "top_p", "seed"}
    | {"max_new_tokens", "engine", "engine_folder"},
}
FLAGS = ("task", "data", "turns", "temperature", "top_p")  # of what is played, for the header
CHOSEN = ("run", "task", "model", "from_samples")  # each says what plays


def parser() -> Parser:
    """Flags whose default is None take the run's value."""
    top = Parser("eval.py", description=__doc__)
    count, size = at_least(int, 1), at_least(int, 0)
    add = top.add_argument_group("what is compared").add_argument
    add("--run", action="append", metavar="DIR", help="a team's, a single agent's (the newest)")
    add("--method", nargs="+", help="see above (every one that applies)")
    add("--task", help=f"{named(TASKS)}, dotted.path or file.py:Class (the run's)")
    own = "(the run's; the task's own)"
    add("--reward", help=f"{named(REWARDS)}, dotted.path or file.py:function {own}")
    add("--data", metavar="FILE", help="local file instead of the task's source (the run's)")
    add("--model", nargs="+", help="base; one, or one per agent (the run's; the task's)")
    add("--single-model", help="model of method single (the team's)")
    add("--judge", help="model that a reward asks, which needs one (the run's; the frozen base)")
    add("--engine", nargs="+", metavar="URL", help="servers that sample, as train.py's")
    add("--engine-folder", metavar="DIR", help="where they find adapters")

    add = top.add_argument_group("how").add_argument
    add("--limit", type=size, default=100, help="test problems, 0: all")
    add("--num-samples", type=count, default=15, help="joint responses per problem")
    add("--greedy", action="store_true", help="greedy decoding only (sampled and greedy)")
    add("--temperature", type=at_least(float, 0), help="(the run's)")
    add("--top-p", type=at_least(float, 1e-6, 1), help="(the run's)")
    add("--max-new-tokens", type=count, help="of one agent (the run's)")
    add("--turns", type=count, help="(the run's)")
    add("--feedback", help="what agents are told between turns (the run's)")
    add("--chat-template", action=argparse.BooleanOptionalAction, help="(the run's)")
    add("--seed", type=size, default=0, help="of every random draw")

    add = top.add_argument_group("output").add_argument
    add("--json", metavar="FILE", help="the whole table")
    add("--csv", metavar="FILE", help="the same, a line per method")
    add("--samples", metavar="FILE", help="every response and score (JSONL)")
    add("--from-samples", metavar="FILE", help="make the table from such a file, without a model")
    shown = "instead of the table, how each method answers N problems"
    add("--show", type=count, metavar="N", help=shown)

    add = top.add_argument_group("other questions").add_argument
    add("--score", metavar="FILE", help="a reward's score of each line of a JSONL file (--samples)")
    add("--compare", nargs="+", metavar="DIR", help="runs; seeds are grouped; table and picture")
    add("--crossplay", nargs="+", metavar="DIR", help="runs whose agents change partners; a table")
    add("--doctor", metavar="DIR", help="look a run over for known signs of failure")
    add("--ask", metavar="TEXT", help="let the team answer your own problem, or an item in JSON")
    add("--debug", action="store_true", help="show the traceback of an error")
    return top


def parse(argv: list[str] | None = None) -> argparse.Namespace:
    top = parser()
    args = top.parse_args(argv)
    given = {name for name, value in vars(args).items() if value != top.get_default(name)}
    for mode in MODES.keys() & given:
        flag = "--" + mode.replace("_", "-")
        value = getattr(args, mode)
        if isinstance(value, str) and not value.strip():
            top.error(f"{flag} is empty")
        if extra := given - MODES[mode] - {mode, "debug"}:
            flags = ", ".join("--" + name.replace("_", "-") for name in sorted(extra))
            top.error(f"{flag} does not go with {flags}")
    for name in ("json", "csv", "samples"):
        file = getattr(args, name)
        if file and (not Path(file).absolute().parent.is_dir() or Path(file).is_dir()):
            top.error(f"--{name} {file}: no file can be written there")
    return args


def evaluate(args) -> tuple[dict, list[dict]]:
    """Plays every method: (header, records), as measures.summarize takes them."""
    from evaluation.players import Player, find_runs, settings, single_settings, solo_settings
    from training.plugins import check_prompts, find_reward, items_of, make_task

    team, solo = find_runs(args.run)
    main = settings(args, team or solo)
    task = make_task(main)
    reward = find_reward(main, task)
    items = items_of(task, "test")[: args.limit or None]
    if not items:
        raise ValueError(f"task {main.task!r} has no test items")
    quiet()  # names are checked: what follows imports torch
    settle(main)
    from evaluation.methods import latencies, plan, play_method, reference

    seats = {
        "team": lambda: Player(main, team, reward),
        "solo": lambda: Player(solo_settings(args, main, team, solo), solo, reward),
        "single": lambda: Player(single_settings(main, args.single_model), None, reward),
    }
    methods = plan(args, main, team, solo, items)
    header, records = describe(args, main, task, reward, items), []
    for name in ("single", "single-trained") if solo else ("single",):
        if name not in methods and not args.method:
            header["settings"]["title"] += f"\nno method {name}: this task is for teams alone"
    for seat in dict.fromkeys(seat for seat, _, _ in methods.values()):  # one at a time in memory
        player = seats[seat]() if seat else None
        if player:
            check_prompts(player.rollout(), items)
        for name in [name for name in methods if methods[name][0] == seat]:
            _, kind, trained = methods[name]
            rollout = player.rollout(kind, trained) if player else reference(main, task, reward)
            start = time.perf_counter()
            records += play_method(name, rollout, items, args)
            if player:
                spent = time.perf_counter() - start
                header["timing"][name] = latencies(name, rollout, items, args, spent)
            if args.samples:  # what is played is not lost, whatever comes
                folder.write_lines(Path(args.samples), [header, *records])
    return header, sorted(records, key=lambda record: list(methods).index(record["method"]))


def describe(args, main, task, reward, items: list[dict]) -> dict:
    """The header: what is evaluated and how, for the head and the foot of the table."""
    from evaluation.methods import TIMED
    from training.heldout import task_id
    from training.report import where

    how = f"{args.num_samples} samples at temperature {main.temperature:g}, top-p {main.top_p:g}"
    how = "greedy" if args.greedy else how
    name, count = task.reward, len(items)
    title = f"{main.task}: {count} test problems, {how}, turns {main.turns}, seed {args.seed}\n"
    title += f"return: share of the maximum of reward {name}, {reward.maximum:g}; ± standard error"
    device = " and ".join(main.engine or [where()])
    timed = HOW_TIMED.format(count=min(TIMED, count), device=device)
    flags = {"title": title, "timed": timed, "reward": name, "maximum": reward.maximum}
    flags |= {flag: getattr(main, flag) for flag in FLAGS}
    flags |= {"runs": args.run, "items": count, "num_samples": args.num_samples}
    flags |= {"greedy": args.greedy, "seed": args.seed}
    header = {"settings": flags, "timing": {}, "items": [], "measures": task.measures}
    for item in items:
        team = range(main.num_agents)
        speakers = task.speakers(item, 0) or team
        prompts = [task.observe(agent, item, []) if agent in speakers else "" for agent in team]
        header["items"].append({"task_id": task_id(item), "prompts": prompts})
    return header


def table(args) -> None:
    """Evaluates, or reads what was evaluated, and shows it."""
    from evaluation import measures

    if args.show and not args.from_samples:
        args.limit, args.num_samples = args.show, 1
    file = args.from_samples
    header, records = report.read_samples(file) if file else evaluate(args)
    known = list(dict.fromkeys(record["method"] for record in records))
    for name in args.method or ():
        if name not in known:
            raise ValueError(f"--method {name}: what {file} has is {', '.join(known)}")
    found = measures.summarize(header, records, args.method or known)
    if args.show:
        shown = [record for record in records if record["method"] in found["methods"]]
        print(report.show(header, shown, args.show))
    else:
        print(report.render(found, header["measures"]))
    if args.json:
        folder.write_json(Path(args.json), found)
    if args.csv:
        report.write_csv(args.csv, found["methods"])
    if args.samples:
        folder.write_lines(Path(args.samples), [header, *records])


def newest(args) -> list[str] | None:
    """What is evaluated where nothing is named: the run that was started last."""
    if any(getattr(args, name) for name in CHOSEN) or not (found := folder.newest_run()):
        return args.run
    print(f"the newest run: {found}", file=sys.stderr)
    return [str(found)]


def ask(args) -> None:
    """The team's greedy answer (sampled, with --temperature) to a problem of the user's."""
    from evaluation.players import Player, find_runs, settings
    from training.plugins import check_prompts, make_task

    team, solo = find_runs(args.run)
    flags = settings(args, team or solo)
    task = make_task(flags)
    if args.ask.lstrip().startswith("{"):  # a whole item
        try:
            item = json.loads(args.ask)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"--ask: not one JSON object ({error})") from error
        task.check(item)
    else:
        item = task.ask(args.ask)
    quiet()
    from magrpo import EVAL
    from policies.sampling import sampling_of

    settle(flags)
    player = Player(flags, team or solo)
    rollout = player.rollout(trained=range(flags.num_agents))
    check_prompts(rollout, [item])
    (node,) = rollout.roots([item], (args.seed, EVAL, 0, 0), 1)
    rollout.act([node], sampling_of(flags, greedy=args.temperature is None))
    who = f"trained by {team or solo}" if args.run else "untrained (--run: another team)"
    print(report.side_by_side(node.observations))
    print(f"\nthe team {who}:\n{report.side_by_side(node.texts((0,) * flags.num_agents))}")


def main(argv: list[str] | None = None) -> None:
    argv = sys.argv[1:] if argv is None else argv
    try:
        args = parse(argv)
        if args.compare:
            from evaluation import plots

            plots.compare(args.compare, args.json)
        elif args.crossplay or args.score:
            quiet()
            from evaluation import crossplay, scoring

            print(crossplay.crossplay(args) if args.crossplay else scoring.score(args))
        elif args.doctor:
            from training import doctor

            print(doctor.report(folder.run_folder(args.doctor)))
        else:
            args.run = newest(args)
            (table if args.ask is None else ask)(args)
        sys.stdout.flush()  # a reader that has gone is told here, and not at the exit
    except Exception as error:
        if "--debug" in argv:
            raise
        fail(parser(), error)


if __name__ == "__main__":
    quit_on_signals("eval.py")
    main()
