"""Load the tasks and rewards that flags name, and check what a run needs of them.

A flag has a known name, a dotted path or file.py:Name. Python imports the module of a path, and the
folder of a file is on Python's path.
"""

import functools
import importlib.util
import inspect
import math
import sys
from pathlib import Path

from policies import Mistake
from rewards import REWARDS
from tasks import TASKS, Task
from training.flags import named
from training.run_folder import ROOT

PLUGINS: set[str] = set()  # the names of the user's modules


def plug_in(name: str) -> str:
    """Return file.py:Name with the file's path, from this project's folder if it is inside it.

    So a run finds its plug-ins from every folder, also in another clone.
    """
    path, _, attribute = name.partition(":")
    file = Path(path).resolve()
    if file.suffix != ".py" or not file.is_file():
        return name
    recorded = str(file).removeprefix(f"{ROOT}/")
    return f"{recorded}:{attribute}"


def resolve(name: str, known: dict[str, str], noun: str, fits):
    """Return what a flag names, if it fits. noun: the word for it in an error."""
    full = plug_in(known.get(name, name))
    path, _, attribute = full.rpartition(":" if ":" in full else ".")
    try:
        if full.startswith("."):
            raise ModuleNotFoundError("a path with dots begins with a name")
        if path.endswith(".py"):
            module = load_file(ROOT / path)
        else:
            module = importlib.import_module(path or full)
    except (ModuleNotFoundError, FileNotFoundError) as error:
        raise Mistake(
            f"unknown {noun} {name!r} ({error}); known: {named(known)}; yours: file.py:Name or "
            "dotted.path"
        ) from error
    if name not in known:
        PLUGINS.add(module.__name__)
    value = getattr(module, attribute, None)
    if not fits(value):
        raise Mistake(
            f"{module.__name__} has no {noun} {attribute!r}: give the name of one, "
            f"{module.__name__}:Name"
        )
    return value


@functools.cache
def load_file(file: Path):
    """Import a file, once, under its path as the module's name. Two files may have one name."""
    sys.path.append(str(file.parent))  # last: a json.py beside the file hides no other module
    spec = importlib.util.spec_from_file_location(str(file), file)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def task_class(name: str) -> type[Task]:
    """Return the class of --task. A plain class gets the defaults of Task."""
    cls = resolve(name, TASKS, "task", inspect.isclass)
    if issubclass(cls, Task):
        return cls
    return type(cls.__name__, (cls, Task), {})


def make_task(args, workflow: type | None = None) -> Task:
    """Return the task of --task, made with the flags that concern it, such as --num-agents.

    `args` has train.py's flags, resolved. --reward becomes the task's own where it was not given.
    `workflow` is one of tasks.py, in which the task is played.
    """
    cls = task_class(args.task)
    in_workflow = workflow and not issubclass(cls, workflow)  # else the task is one already
    if in_workflow:
        cls = type(cls.__name__, (workflow, cls), {})
    arguments = {"num_agents": args.num_agents}
    if args.data:
        if not cls.takes_data:
            raise Mistake(
                f"task {args.task!r} makes its own problems: it takes no --data (a class that "
                "reads a file has takes_data = True)"
            )
        arguments["data"] = args.data
    if args.feedback:
        arguments["feedback"] = args.feedback
    parameters = inspect.signature(cls).parameters
    for name in args.task_arg.keys() & parameters.keys():
        value = args.task_arg[name]
        kind = parameters[name].annotation
        if kind in (int, str) and type(value) is not kind:
            raise Mistake(f"--task-arg {name}={value} has to be of type {kind.__name__}")
    try:
        task = cls(**arguments, **args.task_arg)
    except TypeError as error:
        if error.__traceback__.tb_next:
            raise  # a fault inside the constructor
        raise Mistake(f"task {args.task!r}: {error}; it takes {inspect.signature(cls)}") from error
    except ValueError as error:  # it refuses a value of a flag
        raise Mistake(f"task {args.task!r}: {error}") from error
    task.reward = args.reward or task.reward
    if isinstance(task.reward, str):  # else `find_reward` says what is missing
        task.reward = plug_in(task.reward)
        args.reward = task.reward
    task.num_agents = getattr(task, "num_agents", args.num_agents)
    task.turns = args.turns
    if in_workflow:
        task.turns *= task.asks // super(workflow, task).asks  # type: ignore[arg-type]
    return task


def find_reward(task: Task):
    """Return the reward of the task, or of --reward if given. The task itself: its `play` pays."""
    reward = task
    if isinstance(task.reward, str):
        if task.maximum:
            raise Mistake(
                "a task with a maximum pays by itself, in `play`: it takes no reward such as "
                f"{task.reward!r}"
            )
        reward = resolve(task.reward, REWARDS, "reward", callable)
    if not 0 < (getattr(reward, "maximum", None) or 0) < math.inf:
        raise Mistake(
            f"reward {task.reward!r} has to name a function with the attribute maximum, its "
            "largest value: a number above 0. A task whose `play` pays by itself has it"
        )
    return reward
