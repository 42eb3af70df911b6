"""Observe a function of a program: record what it gives, or give what it gave in another test.

The program calls `watch` when the function, a helper, is defined, and `serve` when its entry point,
main, is defined. Its tests are then

    main.number = number, each test             the helper runs, and its outcomes are recorded
    raise ValueError(main.report())             see `Observer.report`
    main.number = number, each test once more   the outcomes of another test take their place

An outcome is a value or an exception. programs/teams.py says what for.
"""

import contextlib
import copy
import functools
import itertools
from collections import defaultdict
from collections.abc import Iterator

RECORDED = 1_000  # outcomes of a test that are kept
COMPARED = 50  # outcomes by which two tests are compared
PATIENCE = 10  # the outcomes of a test are given so many times; then the helper raises
LOADING = -1  # number of what is no test
SMALL = 6  # characters of a value that is written as fast as a call: aux(x)
DATA = {"__init__", "__repr__", "__eq__"}  # methods of an object that does nothing
observer = None  # of the program that is being loaded
function_of = functools.cache(eval)


class Unknown(Exception):
    """The replay of a helper says nothing about it."""


class Hole:
    """Stands in a value where an argument of the function stood that gave it."""

    def __init__(self, name):
        self.name = name

    def __repr__(self):
        return f"<argument {self.name}>"


def copied(value, others: dict | None = None):
    """Return a copy. others: what stands in it for objects, by id."""
    try:
        return copy.deepcopy(value, others)
    except Exception:  # a generator inside
        return value


def changed(value):
    """Return a copy of plain data whose numbers and texts are others."""
    match value:
        case bool():
            return not value
        case int() | float():
            return value + 1
        case str():
            return "".join(chr(ord(character) ^ 1) for character in value)
        case dict():
            return value | {key: changed(part) for key, part in value.items()}
        case list() | tuple() | set():
            return type(value)(map(changed, value))
    return value


class Value:
    """A function's return value, with holes for its arguments."""

    def __init__(self, value, arguments: dict):
        self.holes = {name: Hole(name) for name in arguments}
        others = {id(argument): self.holes[name] for name, argument in arguments.items()}
        self.value = copied(value, others)
        self.form = repr(self.value)

    def replayed(self, arguments: dict, change: bool):
        """Return the value for other arguments. change: its numbers and texts are others."""
        if acts(self.value):
            raise Unknown
        others = {id(hole): arguments.get(name) for name, hole in self.holes.items()}
        value = copied(self.value, others)
        return changed(value) if change else value


class Raised(Value):
    def replayed(self, _arguments: dict, _change: bool):
        raise self.value


def acts(value) -> bool:
    """Return whether a value does something: a function, an iterator, an object of the program."""
    if type(value).__module__ == "solution":
        return any(callable(part) for name, part in vars(type(value)).items() if name not in DATA)
    return callable(value) or isinstance(value, Iterator)


class Answers:
    """Compare main's answers with the first or the last value that its helper gave.

    `views` are expressions of the value that have been the answer to every call so far. `forms` are
    of the helper's arguments, by name. `work` has the names of arguments that are not trivial
    functions of main's arguments.
    """

    def __init__(self, place: int, views: list):
        self.place = place  # of the value among those of a call of main
        self.views = views
        self.forms = defaultdict(set)
        self.work: set = set()

    def compare(self, answer: str, value) -> None:
        """Keep the views of a value that are main's answer to a call."""
        views = []
        for view in self.views:
            with contextlib.suppress(Exception):
                if repr(view(value)) == answer:
                    views.append(view)
        self.views = views

    def add(self, arguments: dict, trivial: set[str]) -> None:
        for name, form in arguments.items():
            self.forms[name].add(form)
            if form not in trivial:
                self.work.add(name)

    def is_given(self) -> bool:
        """Return whether a helper gives the answer for arguments that take no work.

        An argument that is always the same takes no work, such as a password.
        """
        return bool(self.views) and all(len(self.forms[name]) == 1 for name in self.work)


class Observer:
    """Observes one helper of a program.

    `trivial` are expressions of `args`, a list of arguments, and `x`, one of them, that take no
    work. `views` are expressions of `value`, the result of a helper. `known` are numbers and texts
    that main's author wrote.
    """

    def __init__(self, space: dict, trivial: list, views: list, known: list):
        self.space = space
        self.trivial = [function_of(f"lambda args, x: {expression}") for expression in trivial]
        views = [function_of(f"lambda value: {expression}") for expression in views]
        self.answers = [Answers(0, views), Answers(-1, views)]
        self.known = known
        self.outcomes: dict[int, list] = {}  # by test
        self.calls: list[tuple] = []  # of the helper by main: forms of its arguments, value
        self.replaying = False
        self.test(LOADING)

    def watch(self, helper: str) -> None:
        function = self.space[helper]

        def shown(*args, **kwargs):
            arguments = dict(enumerate(args)) | kwargs
            forms = {name: repr(value) for name, value in arguments.items()}
            if self.replaying:
                self.calls.append((forms, None))
                return next(self.play).replayed(arguments, self.change)
            self.space[helper] = function  # its calls of itself are its own affair
            try:
                value = function(*args, **kwargs)
            except Exception as error:
                self.record(Raised(error, {}), forms, error.args[0] if error.args else None)
                raise
            finally:
                self.space[helper] = shown
            seen = None if isinstance(value, Iterator) else copied(value)  # it may be endless
            self.record(Value(value, arguments), forms, seen)
            return value

        self.space[helper] = shown

    def serve(self, main: str) -> None:
        function = self.space[main]

        def shown(*args, **kwargs):
            if "number" in vars(shown):
                self.test(vars(shown).pop("number"))
            given = copied([*args, *kwargs.values()])
            self.calls = []
            self.space[main] = function
            try:
                answer = function(*args, **kwargs)
            except Exception as error:
                self.take_down(error, given)
                raise
            finally:
                self.space[main] = shown
            self.take_down(answer, given)
            return answer

        shown.report = self.report
        self.space[main] = shown

    def test(self, number: int) -> None:
        """Begin a test."""
        self.number = number
        self.calls = []
        if self.replaying:
            self.start_replay()
        else:
            self.outcomes[number] = []

    def record(self, outcome: Value, forms: dict, value) -> None:
        outcomes = self.outcomes[self.number]
        if len(outcomes) < RECORDED:
            outcomes.append(outcome)
        self.calls.append((forms, value))

    def take_down(self, answer, given: list) -> None:
        """Compare main's answer to a call with what its helper gave it."""
        if self.replaying:
            if self.outcomes[self.number] and not self.calls:  # main remembers an answer
                raise Unknown
            return
        for side in self.answers:
            if not self.calls:
                side.views = []
            if side.views:
                arguments, value = self.calls[side.place]
                side.compare(repr(answer), value)
            if side.views:
                side.add(arguments, self.without_work(given))

    def without_work(self, given: list) -> set[str]:
        """Return the forms of what takes no work, for main's arguments."""
        forms = set()
        for expression, place in itertools.product(self.trivial, range(len(given))):
            args = copied(given)
            with contextlib.suppress(Exception):
                forms.add(repr(expression(args, args[place])))
        return forms

    def start_replay(self) -> None:
        """Let the helper give the outcomes of the test that differs most from this one."""
        forms = {}
        for test, outcomes in self.outcomes.items():
            if outcomes and test != LOADING:
                forms[test] = [outcome.form for outcome in outcomes[:COMPARED]]
        if not forms:
            raise Unknown
        own = forms.get(self.number, [])

        def difference(test: int) -> int:
            return sum(a != b for a, b in itertools.zip_longest(own, forms[test]))

        most = max(forms, key=difference)
        kinds = set().union(*forms.values())
        is_constant = len(kinds) == 1
        is_same = is_constant or difference(most) == 0
        is_small = is_constant and self.is_small(self.outcomes[most][0])
        self.change = is_same and not is_small and "<argument" not in str(kinds)
        self.play = itertools.chain(*[self.outcomes[most]] * PATIENCE)

    def is_small(self, outcome: Value) -> bool:
        """Return whether main's author writes a value as fast as a call, or wrote it."""
        value = outcome.value
        is_short = isinstance(value, int | float) or len(outcome.form) <= SMALL
        return is_short or value in self.known

    def report(self) -> str:
        """Return "main" if main adds nothing to what its helper gives. From here on, replay."""
        self.replaying = True
        return "main" if any(answer.is_given() for answer in self.answers) else ""


def watch(space: dict, helper: str, *expressions: list) -> None:
    """Observe a helper. `serve` takes the observer from there."""
    global observer
    observer = None
    observer = Observer(space, *expressions)
    observer.watch(helper)


def serve(main: str) -> None:
    observer.serve(main)
