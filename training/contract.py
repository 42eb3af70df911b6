"""Check and convert what a user's task returns, once, where it enters: `guard`.

All later code may rely on types and shapes. A checkpoint and a file can hold every value,
because it is plain Python and its texts are UTF-8.
"""

import copy
import functools
import inspect
import operator
from collections.abc import Callable

from tasks import Task


def check_signature(name: str, function: Callable, *wanted: str, **options) -> None:
    """Raise ValueError if a user's function does not take these arguments."""
    try:
        inspect.signature(function).bind(*wanted, **options)
    except TypeError as error:
        listed = ", ".join([*wanted, *options])
        raise ValueError(f"{name} has to take ({listed}): {error}") from error


def called(name: str, function: Callable, *arguments, **named):
    """Return what a user's function returns. RuntimeError: it called sys.exit."""
    try:
        return function(*arguments, **named)
    except SystemExit as error:  # it would end the run without a word
        raise RuntimeError(f"{name} raised SystemExit: {error}") from error


def plain(value):
    """Return a value as plain Python. Raise ValueError where it is not plain data.

    Numbers and texts of numpy and of enums become Python's.
    """
    import numpy as np  # here, so that --help stays fast

    match value:
        case None | bool():
            return value
        case str():
            return text(value)
        case int():
            return int(value)
        case float():
            return float(value)
        case list():
            return [plain(part) for part in value]
        case tuple():
            return tuple(plain(part) for part in value)
        case dict():
            return {plain(key): plain(part) for key, part in value.items()}
        case np.generic() | np.ndarray():
            return plain(value.tolist())
    raise ValueError(f"{value!r:.60} is not plain data: texts, numbers, lists and dicts of these")


def text(value) -> str:
    """Return a text as plain Python. Raise ValueError if it is not a text, or half of one."""
    if not isinstance(value, str):
        raise ValueError(f"{value!r:.60} is not a text")
    value.encode()  # ValueError: half of a surrogate pair, which no file can hold
    return str.__str__(value)


def guard(task: Task, agents: int) -> None:
    """Check a task, and let its methods check and convert what they return."""
    contract: dict[str, tuple[str, Callable]] = {  # what it returns in words, and a converter
        "items": ("a list of dicts", _items),
        "speakers": ("numbers of agents or None", _optional(_speakers, agents)),
        "observe": ('a text or a list of chat messages, {"role": ..., "content": ...}', _prompt),
        "begin": ("a text", text),
        "feedback": (f"a list of {agents} texts", functools.partial(_texts, agents)),
        "advance": ("a dict or None", _optional(_item)),
        "scheme": ("a text or None", _optional(text)),
        "check": ("None", _optional(plain)),
        "ask": ("a dict", _item),
    }
    for name, (wanted, convert) in contract.items():
        where = f"{type(task).__name__}.{name}"
        method = getattr(task, name)
        _, *parameters = inspect.signature(getattr(Task, name)).parameters
        check_signature(where, method, *parameters)
        is_own = getattr(type(task), name) is not getattr(Task, name)
        if name in ("observe", "advance") and is_own:
            method = functools.partial(unshared, method)
        check = checked
        if name == "feedback" and inspect.iscoroutinefunction(method):
            check = checked_later
        setattr(task, name, functools.partial(check, where, wanted, convert, method))
    stops = [task.stop] if isinstance(task.stop, str) else task.stop
    if not isinstance(stops, list | tuple) or not all(isinstance(stop, str) for stop in stops):
        raise ValueError(f"a task's stop has to be a text or a list of texts, not {stops!r:.60}")
    if not isinstance(task.measures, dict):
        raise ValueError(f"a task's measures has to be a dict, not {task.measures!r:.60}")
    for word in (*task.measures, *task.measures.values()):
        if not isinstance(word, str):
            raise ValueError(f"a task's measures has to hold texts, not {word!r:.60}")


def unshared(method: Callable, *arguments, **named):
    """Return what a method returns for copies of its arguments, which it may change."""
    return method(*copy.deepcopy(arguments), **copy.deepcopy(named))


def checked(where: str, wanted: str, convert: Callable, method: Callable, *arguments, **named):
    """Return what a method returns, converted. Raise ValueError if it is not what is wanted."""
    value = called(where, method, *arguments, **named)
    return converted(where, wanted, convert, value, arguments)


async def checked_later(where: str, wanted: str, convert: Callable, method: Callable, *arguments):
    """Return what a coroutine method returns, as `checked` does."""
    return converted(where, wanted, convert, await method(*arguments), arguments)


def converted(where: str, wanted: str, convert: Callable, value, arguments: tuple):
    """Return a method's value, converted. Raise ValueError if it is not what is wanted."""
    try:
        return convert(value)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{where} has to return {wanted}, not {value!r:.60}: {error} "
            f"(it was given {arguments!r:.300})"
        ) from error


def _optional(convert: Callable, *options) -> Callable:
    return lambda value: None if value is None else convert(*options, value)


def _items(value) -> list[dict]:
    if not isinstance(value, list):
        raise ValueError("it is not a list")
    items = []
    for number, item in enumerate(value, 1):
        try:
            items.append(_item(item))
            if items[-1].get("task_id") is None:
                items[-1]["task_id"] = number
        except ValueError as error:
            raise ValueError(f"item {number}: {error}") from error
    return items


def _item(value) -> dict:
    if not isinstance(value, dict):
        raise ValueError(f"{value!r:.60} is not a dict")
    if "task_id" in value:  # the only field that is written
        value["task_id"] = plain(value["task_id"])
    return value


def _speakers(agents: int, value) -> list[int]:
    speakers = {operator.index(agent) for agent in value}
    if not speakers or not speakers <= set(range(agents)):
        raise ValueError(f"the agents are 0 to {agents - 1}")
    return sorted(speakers)


def _prompt(value) -> str | list[dict]:
    if isinstance(value, str):
        return text(value)
    if not isinstance(value, list) or not value:
        raise ValueError("it is neither")
    messages = plain(value)
    for message in messages:
        if not isinstance(message, dict) or "role" not in message:
            raise ValueError(f"{message!r:.60} is not a message")
    return messages


def _texts(count: int, value) -> list[str]:
    if isinstance(value, str) or len(value) != count:
        raise ValueError("every agent needs one")
    return [text(part) for part in value]
