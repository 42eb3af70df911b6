"""Tasks and rewards by flag: a known name, a dotted path or file.py:Name, checked here."""

import copy
import functools
import importlib
import importlib.util
import inspect
import itertools
import math
import numbers
from pathlib import Path

from policies.finding import bases, find_model, find_template
from rewards import REWARDS, Scorer
from running.flags import meant
from tasks import TASKS

TINY = str(Path(__file__).resolve().parent.parent / "tiny")


def resolve(name: str, known: dict[str, str], what: str):
    """The task or reward that a flag names: a known name, a dotted path, or file.py:Name."""
    full = known.get(name, name)
    path, _, attribute = full.rpartition(":" if ":" in full else ".")
    if not path:
        listed = ", ".join(sorted(known))
        raise ValueError(f"unknown {what} {name!r}{meant(name, known)}; known: {listed}")
    if full.endswith(".py"):
        raise ValueError(f"{what} {name!r}: name what the file holds, as in file.py:Name")
    try:
        if path.endswith(".py"):
            spec = importlib.util.spec_from_file_location(Path(path).stem, path)
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
        else:
            module = importlib.import_module(path)
    except (Exception, SystemExit) as error:  # a plug-in is the user's code: anything may come
        lost = path.endswith(".py") and not Path(path).is_file()
        why = f"there is no file {path}" if lost else repr(error)
        raise ValueError(f"cannot load the {what} {name!r}: {why}") from error
    if not hasattr(module, attribute):
        raise ValueError(f"{path} has no {what} {attribute}{meant(attribute, vars(module))}")
    return getattr(module, attribute)


def own_model(name: str, agents: int = 2) -> str | None:
    """The model that a task names for itself, if any, which may depend on the number of agents; of
    a task that cannot be found, `make_task` tells."""
    try:
        model = getattr(resolve(name, TASKS, "task"), "model", None)
    except ValueError:
        return None
    model = model(agents) if callable(model) else model
    return model and str(model)


def is_embedded(name: str) -> bool:
    """Whether a model is one of those in tiny/, or an adapter on it."""
    try:
        base = Path(bases(name)[-1]).resolve()
        return Path(TINY) in (base, base.parent)
    except ValueError:  # of no model: `prepare` tells
        return False


def check_signature(function, what: str, *args, **kwargs) -> None:
    """Raises ValueError where a function of the user's cannot be called like that."""
    try:
        inspect.signature(function).bind(*args, **kwargs)
    except TypeError as error:
        raise ValueError(f"{what}: {error}") from error


def make_task(args):
    """The task of --task, with the flags that are a task's."""
    options = {"data": args.data, "num_agents": args.num_agents}
    kind = resolve(args.task, TASKS, "task")
    own = getattr(kind, "modes", ())  # of feedback; other tasks have those of coding/feedback.py
    modes = args.feedback and (own or resolve("coding.feedback.MODES", {}, "feedback"))
    if args.feedback and args.feedback not in modes:
        known = f"{meant(args.feedback, modes)}; known to task {args.task!r}: {', '.join(modes)}"
        raise ValueError(f"--feedback: {args.feedback!r} is not known{known}")
    if args.feedback and own:
        options["feedback"] = args.feedback
    elif args.feedback:
        flags = (args.feedback, args.feedback_tests, args.expert_url, args.expert_model)
        options["feedback"] = resolve("coding.feedback.configured", {}, "feedback")(*flags)
    form = f"({', '.join(f'{name}=' for name in options)})"
    form += ", or leave --feedback out" if args.feedback else ""
    check_signature(kind, f"task {args.task!r} has to take {form}", **options)
    try:
        task = kind(**options)
    except (ValueError, OSError):  # in words already
        raise
    except Exception as error:
        raise ValueError(f"task {args.task!r} cannot be made: it raised {error!r}") from error
    if own and args.reward:  # its feedback may tell what the reward says
        task.reward = args.reward
    wanted = {"items": ("split",), "observe": ("agent", "item", "history")}
    moves = hasattr(task, "advance")
    if args.turns > 1:
        wanted |= dict.fromkeys(("feedback", *(["advance"] * moves)), ("item", "responses"))
    if hasattr(task, "draw"):
        wanted["draw"] = ("item", "responses")
        if not isinstance(getattr(task, "colors", None), dict):
            raise ValueError(f"task {args.task!r} draws: it needs colors, {{block: '#rrggbb'}}")
    for name, names in wanted.items():
        form = f"{name}({', '.join(names)})"
        if not callable(getattr(task, name, None)):
            raise ValueError(f"task {args.task!r} has no {form}: it needs one")
        check_signature(getattr(task, name), f"task {args.task!r} needs {form}", *names)
    if moves:
        task.advance = functools.partial(advanced, task.advance)
    return task


def advanced(advance, item: dict, responses: list[str]) -> dict:
    """The next turn's item, by a task's advance, which may change the one it is given: it has a
    copy. RuntimeError where it does what it must not."""
    try:
        found = advance(copy.deepcopy(item), responses)
        if isinstance(found, dict):
            return found
        problem = f"returned {found!r:.60}, which is no dict"
    except (Exception, SystemExit) as error:  # the task is the user's code: anything may come
        problem = f"raised {type(error).__name__}: {error}"
    told = f"the task's advance {problem}, for item {item!r} and responses {responses!r}"
    raise RuntimeError(told)


def check_prompts(rollout, items: list[dict]) -> None:
    """Raises ValueError where an agent's first prompt for an item could not be used."""
    for item, agent in itertools.product(items, range(rollout.team.size)):
        try:
            text = rollout.task.observe(agent, item, [])
        except Exception as error:  # the task is the user's code
            raise ValueError(f"observe({agent}, {item!r}, []) raised {error!r}") from error
        rollout.encode(agent, text)


def make_reward(args, task) -> Scorer:
    """The reward of --reward, or the task's own, as a rollout calls it."""
    name = args.reward or getattr(task, "reward", None)
    if not name:
        raise ValueError(f"task {args.task!r} names no reward of its own: give one with --reward")
    reward = resolve(name, REWARDS, "reward")
    if not callable(reward):
        raise ValueError(f"reward {name!r} is no function but {reward!r:.60}: it has to be one")
    wanted = ["item", "responses", *["lm"] * getattr(reward, "needs_model", False)]
    check_signature(reward, f"reward {name!r} has to take ({', '.join(wanted)})", *wanted)
    maximum = getattr(reward, "maximum", None)
    if not (isinstance(maximum, numbers.Real) and 0 < maximum < math.inf):
        raise ValueError(f"reward {name!r} needs its largest value, a number above 0, as .maximum")
    return Scorer(reward)


def items_of(task, name: str, split: str) -> list[dict]:
    """A split's items; ValueError where the task does not give a list of them."""
    try:
        items = task.items(split)
    except (ValueError, OSError):  # in words already
        raise
    except Exception as error:  # the task is the user's code
        raise ValueError(f"task {name!r}: items({split!r}) raised {error!r}") from error
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise ValueError(f"task {name!r}: items({split!r}) has to give a list of dicts")
    return items


def prepare(args) -> tuple:
    """What the flags name, found and checked in a moment, before torch is imported: the task, the
    reward, the problems to train on and the held-out ones by split."""
    task = make_task(args)
    reward = make_reward(args, task)
    if args.judge and not reward.needs_model:
        raise ValueError(f"--judge {args.judge}: the reward asks no language model")
    for name in filter(None, [*args.model, args.judge]):
        find_model(name, args.bits or 32)
    for name in args.model if args.chat_template else ():
        find_template(name)
    problems = items_of(task, args.task, "train")
    splits = ("dev", "test") if args.eval_limit is not None else ()
    limit = args.eval_limit or None
    held_out = {split: items_of(task, args.task, split)[:limit] for split in splits}
    if not problems or held_out.get("test") == []:
        raise ValueError(f"task {args.task!r} has no items to train or to test on")
    if args.max_steps is None:
        steps = args.epochs and -(-int(args.epochs * len(problems)) // args.batch_size)
        args.max_steps = max(steps or 130, 1)
    return task, reward, problems, held_out
