"""Observe a function of a program: record what it gives, or give what it gave in another test.

The only statement of an observed program makes an `Observer`, which runs the program's own. The
function is a helper of its entry point, main. The tests are

    main.number = number, each test             the helper runs, and its outcomes are recorded
    raise ValueError(main.report())             the program begins anew; see `Observer.report`
    main.number = number, each test once more   the outcomes of another test take their place

An outcome is a value or an exception. programs/teams.py says what for.
"""

import contextlib
import copy
import functools
import itertools
import random
import sys
from collections import defaultdict
from collections.abc import Iterator

RECORDED = 1_000  # outcomes of a test that are kept
PATIENCE = 10  # the outcomes of a test are given so many times; then the helper raises
LOADING = -1  # number of what is no test
SMALL = 6  # characters of a value that is written as fast as a call: aux(x)
DATA = {"__init__", "__repr__", "__eq__"}  # methods of an object that does nothing
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
        case int() | float():
            return 1 - value  # of a truth value, too
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


def form_of(expression, *arguments) -> str | None:
    try:
        return repr(expression(*arguments))
    except Exception:
        return None


def acts(value) -> bool:
    """Return whether a value does something: a function, an iterator, an object of the program."""
    if type(value).__module__ == "solution":
        return any(callable(part) for name, part in vars(type(value)).items() if name not in DATA)
    return callable(value) or isinstance(value, Iterator)


def call(space: dict, name: str, function, args: tuple, kwargs: dict) -> tuple:
    """Return what a function returned, and what it raised. Its calls of itself are not observed."""
    shown = space[name]
    space[name] = function
    try:
        return function(*args, **kwargs), None
    except Exception as error:
        return None, error
    finally:
        space[name] = shown


class Observer:
    """Observes one helper of a program.

    `parts` are statements: those up to the helper's, and the others, main's among them. `trivial`
    are expressions of `args`, a list of arguments, and `x`, one of them, that take no work. `views`
    are expressions of `value`, the result of a helper.
    """

    def __init__(
        self, space: dict, helper: str, main: str, parts: tuple, trivial: tuple, views: tuple
    ):
        sys.set_int_max_str_digits(0)  # forms of large numbers
        self.space = space
        self.empty = dict(space)  # but for what setup defines
        self.helper = helper
        self.main = main
        self.parts = parts
        self.trivial = [function_of(f"lambda args, x: {expression}") for expression in trivial]
        self.views = [function_of(f"lambda value: {expression}") for expression in views]
        self.number = LOADING
        self.outcomes: dict[int, list] = {LOADING: []}  # by test
        self.calls: list[tuple] = []  # of the helper by main: forms of its arguments, value
        self.served: list[tuple] = []  # calls of main: arguments, answer, calls of the helper
        self.replaying = False
        self.load()

    def load(self) -> None:
        """Run the program's statements, from the beginning, and observe its helper and main."""
        self.number = LOADING
        self.space.clear()
        self.space.update(self.empty)
        random.seed(0)
        before, after = self.parts
        for statements, observe in ((before, self.watch), (after, self.serve)):
            for statement in statements:
                with contextlib.suppress(BaseException):
                    exec(statement, self.space)
            observe()

    def watch(self) -> None:
        function = self.space[self.helper]

        def shown(*args, **kwargs):
            arguments = dict(enumerate(args)) | kwargs
            if self.replaying:
                self.calls.append(())
                outcome = next(self.play)
                return outcome.replayed(arguments, self.change and not self.is_known(outcome))
            forms = {name: repr(value) for name, value in arguments.items()}
            value, error = call(self.space, self.helper, function, args, kwargs)
            if error:
                outcome = Raised(error, {})
                value = next(iter(error.args), None)
            else:
                outcome = Value(value, arguments)
            seen = None if isinstance(value, Iterator) else copied(value)  # it may be endless
            self.calls.append((forms, seen))
            if len(self.outcomes[self.number]) < RECORDED:
                self.outcomes[self.number].append(outcome)
            if error:
                raise error
            return value

        self.space[self.helper] = shown

    def serve(self) -> None:
        function = self.space[self.main]

        def shown(*args, **kwargs):
            if "number" in vars(shown):
                self.test(vars(shown).pop("number"))
            given = copied([*args, *kwargs.values()])
            self.calls = []
            answer, error = call(self.space, self.main, function, args, kwargs)
            if not self.replaying:  # the first and the last call of the helper
                self.served.append((given, repr(error or answer), self.calls[:1] + self.calls[-1:]))
            if error:
                raise error
            return answer

        shown.report = self.report
        self.space[self.main] = shown

    def test(self, number: int) -> None:
        """Begin a test."""
        self.number = number
        self.calls = []
        if self.replaying:
            self.start_replay()
        else:
            self.outcomes[number] = []

    def gives_answer(self, place: int) -> bool:
        """Return whether main's answers are what its helper gave, for arguments that take no work.

        `place` is 0 for the helper's first value in each call of main, and -1 for its last one. An
        argument takes no work if it is a trivial function of main's arguments, or always the same,
        such as a password.
        """
        views = self.views
        forms = defaultdict(set)  # of the helper's arguments, by name
        work = set()  # names of arguments
        for given, answer, calls in self.served:
            if not calls:
                return False
            arguments, value = calls[place]
            views = [view for view in views if form_of(view, value) == answer]
            if not views:
                return False
            for name, form in arguments.items():
                forms[name].add(form)
                if self.takes_work(form, given):
                    work.add(name)
        return all(len(forms[name]) == 1 for name in work)

    def takes_work(self, form: str, given: list) -> bool:
        """Return whether an argument of this form is no trivial function of main's arguments."""
        for expression, place in itertools.product(self.trivial, range(len(given))):
            args = copied(given)
            if form_of(expression, args, args[place]) == form:
                return False
        return True

    def start_replay(self) -> None:
        """Let the helper give the outcomes of the first test that has others than this one."""
        forms = {}
        for test, outcomes in self.outcomes.items():
            if outcomes and test != LOADING:
                forms[test] = [outcome.form for outcome in outcomes]
        if not forms:
            raise Unknown
        own = forms.get(self.number)
        other = next((test for test in forms if forms[test] != own), self.number)
        kinds = set().union(*forms.values())
        is_constant = len(kinds) == 1
        value = self.outcomes[other][0].value
        # Main's author writes it as fast as a call.
        is_short = isinstance(value, int | float) or len(forms[other][0]) <= SMALL
        is_small = is_constant and is_short
        is_same = is_constant or other == self.number
        self.change = is_same and not is_small
        self.play = itertools.chain(*[self.outcomes[other]] * PATIENCE)

    def is_known(self, outcome: Value) -> bool:
        """Return whether an outcome has an argument, or main's author wrote it, as a password."""
        _, after = self.parts
        return "<argument" in outcome.form or any(outcome.form in text for text in after)

    def report(self) -> str:
        """Return "main" if main adds nothing to what its helper gives. From here on, replay.

        The program begins anew, so that it forgets what it remembers.
        """
        self.load()
        self.replaying = True
        return "main" if self.gives_answer(0) or self.gives_answer(-1) else ""
