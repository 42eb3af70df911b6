"""Load the tasks and rewards that flags name, and check that they are what they have to be.

A flag has a known name, a dotted path or file.py:Name.
"""

import contextlib
import functools
import importlib
import importlib.util
import inspect
import itertools
import math
import sys
import traceback
import typing
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType, UnionType

from rewards import REWARDS
from tasks import TASKS, Task
from training.contract import called, check_signature, guard
from training.flags import meant, named

# How a --task-arg is read, by the type of the constructor's parameter.
READ: dict = {int: int, float: float, str: str, bool: {"true": True, "false": False}.__getitem__}
FILES: set[str] = set()  # paths of the user's files that were loaded, for `user_line`
MOVED = {  # modules that plug-ins may still name as they were called before
    "policies.base": "policies.shared_model",
    "policies.finding": "policies.model_names",
    "policies.parallel": "policies.processes",
    "policies.threads": "training.threads",
    "policies.scoring": "policies.logprobs",
    "training.folder": "training.run_folder",
    "training.scoring": "training.reward_runner",
}


def resolve(name: str, known: dict[str, str], noun: str):
    """Return what a flag names. noun: the word for it in an error."""
    if not isinstance(name, str):  # a task's `reward`
        raise ValueError(f"a {noun} is given by its name, as file.py:Name, not as {name!r:.60}")
    full = known.get(name, name)
    if full.endswith((".py", ".py:")):
        raise ValueError(
            f"{noun} {name!r} names only a file: add the name of the {noun} in it, "
            f"as in {full.rstrip(':')}:Name"
        )
    path, _, attribute = full.rpartition(":" if ":" in full else ".")
    if not path:
        raise ValueError(f"unknown {noun} {name!r}{meant(name, known)}; known: {named(known)}")
    try:
        if path.endswith(".py"):
            file = Path(path).resolve()
            module = load_file(file, file.read_bytes())
        else:
            module = importlib.import_module(path)
            if name not in known:
                FILES.add(getattr(module, "__file__", ""))  # a folder has none
    except (Exception, SystemExit) as error:  # a plug-in is the user's code: anything may come
        new_name = MOVED.get(getattr(error, "name", None))
        hint = f" ({error.name} is {new_name} now)" if new_name else ""
        raise ValueError(
            f"cannot load the {noun} {name!r}: {type(error).__name__}: {error}{hint}"
        ) from error
    if not hasattr(module, attribute):
        raise ValueError(f"{path} has no {noun} {attribute}{meant(attribute, vars(module))}")
    return getattr(module, attribute)


@functools.cache
def load_file(file: Path, source: bytes) -> ModuleType:
    """Load a user's file as a module, once for each version of its source."""
    FILES.add(str(file))
    folder = str(file.parent)
    if folder not in sys.path:
        sys.path.append(folder)  # last: a json.py beside the file hides no other module
    spec = importlib.util.spec_from_file_location(module_name(file), file)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    exec(compile(source, file, "exec"), vars(module))
    return module


def module_name(file: Path) -> str:
    """Return the name that `import` has for a file in sys.path.

    It is the file's path if another module has that name.
    """
    module = sys.modules.get(file.stem)
    spec = module.__spec__ if module else PathFinder.find_spec(file.stem)
    return file.stem if spec and Path(spec.origin or "").resolve() == file else str(file)


def user_line(error: BaseException | None) -> str:
    """Return where an exception left a user's file, as "file.py, line 3: ", or ""."""
    while error:
        if isinstance(error, SyntaxError) and error.filename in FILES:
            return f"{error.filename}, line {error.lineno}: "
        for frame in reversed(traceback.extract_tb(error.__traceback__)):
            if frame.filename in FILES:
                return f"{frame.filename}, line {frame.lineno}: "
        error = error.__cause__
    return ""


def task_class(name: str) -> type[Task]:
    """Return the class of --task. A plain class gets the defaults of Task."""
    cls = resolve(name, TASKS, "task")
    if not isinstance(cls, type):
        raise ValueError(f"task {name!r} has to be a class, not {cls!r:.60}")
    return cls if issubclass(cls, Task) else type(cls.__name__, (cls, Task), {})


@dataclass(frozen=True)
class TaskOptions:
    """The task and its reward: train.py's flags of the same names."""

    task: str
    num_agents: int
    reward: str | None
    data: str | None
    feedback: str | None
    task_arg: dict[str, str]


def make_task(args: TaskOptions) -> Task:
    """Return the task of --task, made with the flags that concern it."""
    if args.data and not Path(args.data).exists():  # a task may never open it
        raise ValueError(f"--data: cannot read {args.data}: No such file")
    cls = task_class(args.task)
    name = f"task {args.task!r}"
    options = {"data": args.data, "num_agents": args.num_agents}
    if args.feedback:
        if args.feedback not in cls.modes:
            hint = meant(args.feedback, cls.modes)
            listed = ", ".join(cls.modes) or "none"
            raise ValueError(f"unknown --feedback {args.feedback!r}{hint}; {name} has: {listed}")
        options["feedback"] = args.feedback
    options |= task_arguments(name, cls, args.task_arg)
    check_signature(name, cls, **options)
    task = called(name, cls, **options)
    task.reward = args.reward or task.reward
    guard(task, args.num_agents)
    return task


def task_arguments(name: str, cls: type, words: dict[str, str]) -> dict:
    """Return --task-arg as arguments of a task's constructor, of the types in its signature."""
    parameters = dict(inspect.signature(cls).parameters)
    for given in ("data", "num_agents", "feedback"):  # they have flags of their own
        parameters.pop(given, None)
    values = {}
    for word, text in words.items():
        if word not in parameters:
            listed = ", ".join(parameters) or "none"
            raise ValueError(
                f"unknown --task-arg {word!r}{meant(word, parameters)}; {name} has: {listed}"
            )
        wanted = type_of(cls, parameters[word])
        for read in readings(wanted):
            with contextlib.suppress(KeyError, ValueError):
                values[word] = read(text)
                break
        else:
            raise ValueError(
                f"--task-arg {word}={text}: it is not {inspect.formatannotation(wanted)}; a word "
                "may be an int, a float, a bool (true, false), a str or one of a Literal"
            )
    return values


def type_of(cls: type, parameter: inspect.Parameter):
    """Return the type of a constructor's parameter: in words if they mean nothing at run time."""
    annotation = parameter.annotation
    if annotation is parameter.empty:
        no_default = parameter.default in (None, parameter.empty)
        return str if no_default else type(parameter.default)
    if isinstance(annotation, str):
        with contextlib.suppress(NameError):  # of an import for TYPE_CHECKING alone
            return eval(annotation, inspect.unwrap(cls.__init__).__globals__)  # type: ignore[misc]
    return annotation


def readings(wanted) -> list[Callable]:
    """Return the functions that may turn a word into a value of a type, by preference."""
    if typing.get_origin(wanted) in (typing.Union, UnionType):
        functions = map(readings, typing.get_args(wanted))
        return list(itertools.chain(*functions))
    if typing.get_origin(wanted) is typing.Literal:
        return [{str(value): value for value in typing.get_args(wanted)}.__getitem__]
    return [READ[wanted]] if wanted in READ else []


def find_reward(task: Task):
    """Return the reward of the task, or of --reward if given."""
    if not task.reward:
        raise ValueError(
            f"{type(task).__name__} names no reward of its own: give one with --reward"
        )
    reward = resolve(task.reward, REWARDS, "reward")
    if not 0 < getattr(reward, "maximum", 0) < math.inf:
        raise ValueError(
            f"reward {task.reward!r} needs the attribute maximum, its largest value: a number "
            "above 0"
        )
    return reward


def check_prompts(rollout, items: Iterable[dict]) -> None:
    """Raise if a prompt of the first turn cannot be used. Warn if one of the last may not fit."""
    longest = Counter()  # by agent, in tokens
    for item in items:
        for agent in rollout.speakers(item, 0):
            try:
                prompt = rollout.task.observe(agent, item, [])
            except Exception as error:
                error.add_note(f"(agent {agent}'s prompt for item {item!r:.300})")
                raise
            longest[agent] = max(longest[agent], len(rollout.encode(agent, item, prompt)))
    episode = rollout.episode
    answers = (episode.turns - 1) * episode.max_new_tokens
    for agent, size in longest.items():
        room = rollout.team.base_of[agent].codec.context - episode.max_new_tokens
        limit = min(episode.max_prompt_tokens, room)
        if size + answers > limit:
            print(
                f"warning: agent {agent}'s prompt of the last turn may have {size + answers} "
                f"tokens and more: {size} of the longest prompt now, {answers} of its own answers "
                f"and the feedback. {limit} fit (--max-prompt-tokens, or the model's context "
                "without --max-new-tokens). An episode ends before a prompt that does not fit",
                file=sys.stderr,
            )
