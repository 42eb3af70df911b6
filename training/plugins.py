"""Tasks and rewards by flag: a known name, a dotted path or file.py:Name; what they have to be."""

import copy
import functools
import importlib
import importlib.util
import inspect
import json
import math
import numbers
import traceback
from pathlib import Path

from policies.finding import bases, find_model
from rewards import REWARDS, asks
from tasks import TASKS, Task
from training import learners
from training.flags import meant

TINY = str(Path(__file__).resolve().parent.parent / "tiny")
FILES: set[str] = set()  # the user's own that were loaded, for `user_line`


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
            FILES.add(spec.origin)
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
        else:
            module = importlib.import_module(path)
            if name not in known:
                FILES.add(module.__file__)
    except (Exception, SystemExit) as error:  # a plug-in is the user's code: anything may come
        message = f"cannot load the {what} {name!r}: {type(error).__name__}: {error}"
        raise ValueError(message) from error
    if not hasattr(module, attribute):
        raise ValueError(f"{path} has no {what} {attribute}{meant(attribute, vars(module))}")
    return getattr(module, attribute)


def user_line(error: BaseException | None) -> str:
    """Where an exception left a file of the user's, as "file.py, line 3: "; "" where none did."""
    while error:
        if isinstance(error, SyntaxError) and error.filename in FILES:
            return f"{error.filename}, line {error.lineno}: "
        for frame, line in reversed([*traceback.walk_tb(error.__traceback__)]):
            if frame.f_code.co_filename in FILES:
                return f"{frame.f_code.co_filename}, line {line}: "
        error = error.__cause__
    return ""


def task_class(name: str) -> type[Task]:
    """The class of --task; a plain one gets the defaults of Task."""
    kind = resolve(name, TASKS, "task")
    if not isinstance(kind, type):
        raise ValueError(f"task {name!r} has to be a class, not {kind!r:.60}")
    return kind if issubclass(kind, Task) else type(kind.__name__, (kind, Task), {})


def own_model(name: str, agents: int) -> str | None:
    """The model that a task names for itself, if any; it may depend on the number of agents."""
    model = task_class(name).model
    model = model(agents) if callable(model) else model
    return model and str(model)


def is_embedded(name: str) -> bool:
    """Whether a model is one of those in tiny/, or an adapter on it."""
    base = Path(bases(name)[-1]).resolve()
    return Path(TINY) in (base, base.parent)


def learning_rate(name: str, adapters: bool) -> float:
    """--lr where it is not given: a model's folder may say it, for its adapters and for full
    copies. A pretrained model bears far less than an embedded one."""
    file = Path(bases(name)[-1], "learning_rate.json")
    rates = json.loads(file.read_text()) if file.is_file() else {"adapters": 1e-4, "full": 1e-5}
    return rates["adapters" if adapters else "full"]


def make_task(args) -> Task:
    """The task of --task, with the flags that are a task's."""
    if args.data and not Path(args.data).exists():  # a task may never open it
        raise ValueError(f"--data: cannot read {args.data}: No such file")
    kind, options = task_class(args.task), {"data": args.data, "num_agents": args.num_agents}
    if args.feedback:
        if args.feedback not in kind.modes:
            known = ", ".join(kind.modes) or "none"
            hint = f"{meant(args.feedback, kind.modes)}; known to task {args.task!r}: {known}"
            raise ValueError(f"--feedback: {args.feedback!r} is not known{hint}")
        options["feedback"] = kind.teller(args)
    task = kind(**options)
    task.reward = args.reward or task.reward
    for name in ("items", "observe", "feedback", "advance", "scheme", "draw"):
        _, *wanted = inspect.signature(getattr(Task, name)).parameters
        check_signature(getattr(task, name), wanted, f"task {args.task!r} needs {name}")
    if type(task).advance is not Task.advance:
        task.advance = functools.partial(advanced, task.advance)
    return task


def check_signature(function, wanted: list[str], what: str) -> None:
    """Raises ValueError where a function of the user's does not take so many arguments."""
    try:
        inspect.signature(function).bind(*wanted)
    except TypeError as error:
        raise ValueError(f"{what}({', '.join(wanted)}): {error}") from error


def advanced(advance, item: dict, responses: list[str]) -> dict:
    """The next turn's item, by a task's advance, which may change the one it is given."""
    found = advance(copy.deepcopy(item), responses)
    if not isinstance(found, dict):
        raise ValueError(f"advance returned {found!r:.60}, which is no dict, for item {item!r}")
    return found


def find_reward(args, task):
    """The function of --reward, or of the task's own reward."""
    if not task.reward:
        raise ValueError(f"task {args.task!r} names no reward of its own: give one with --reward")
    reward, whose = resolve(task.reward, REWARDS, "reward"), f"reward {task.reward!r}"
    check_signature(reward, ["item", "responses", *["lm"] * asks(reward)], f"{whose} needs ")
    maximum = getattr(reward, "maximum", None)
    if not (isinstance(maximum, numbers.Real) and 0 < maximum < math.inf):
        raise ValueError(f"{whose} needs its largest value, a number above 0, as .maximum")
    return reward


def items_of(task, split: str) -> list[dict]:
    """A split's items; ValueError where the task does not give a list of them."""
    items = task.items(split)
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise ValueError(f"items({split!r}) has to give a list of dicts, not {items!r:.60}")
    return items


def check_prompts(rollout, items: list[dict]) -> None:
    """Raises where the prompt of an agent that speaks at the first turn could not be used."""
    for item in items:
        for agent in rollout.speakers(item, 0):
            try:
                text = rollout.task.observe(agent, item, [])
            except Exception as error:
                error.add_note(f"(agent {agent}'s prompt for item {item!r:.300})")
                raise
            rollout.encode(agent, text)


def prepare(args) -> tuple:
    """What the flags name, found and checked in a moment, before torch is imported: the task, the
    reward, the problems to train on and the held-out ones by split."""
    task = make_task(args)
    reward = find_reward(args, task)
    if args.judge and not asks(reward):
        raise ValueError(f"--judge {args.judge}: the reward asks no language model")
    for name in filter(None, [*args.model, args.judge]):
        find_model(name, args.bits or 32)
    problems = items_of(task, "train")
    splits = ("dev", "test") if args.eval_limit is not None else ()
    held_out = {split: items_of(task, split)[: args.eval_limit or None] for split in splits}
    if not problems or held_out.get("test") == []:
        raise ValueError(f"task {args.task!r} has no items to train or to test on")
    if args.max_steps is None:
        steps = args.epochs and -(-int(args.epochs * len(problems)) // args.batch_size)
        args.max_steps = max(steps or 130, 1)
    if args.init and not args.resume:
        args.init = learners.agent_folders(args)
    return task, reward, problems, held_out
