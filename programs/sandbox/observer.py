"""Observe a function of a program: record what it gives, or give what it gave in another test.

The program calls `watch` when the function, a helper, is defined, and `serve` when its entry point,
main, is defined. Its tests are then

    main.number = number, each test             the helper runs, and its outcomes are recorded
    raise ValueError(main.report())             see `Observer.report`
    main.number = number, each test once more   the outcomes of another test take their place

An outcome is a value or an exception. An iterator that the helper returns is observed in its turn,
and so is a function. programs/teams.py says what for.
"""

import contextlib
import copy
import functools
import itertools
import json
import types
from collections import defaultdict
from collections.abc import Iterator

from wire import pack, unpacker

RECORDED = 1_000  # outcomes of a test that are kept
COMPARED = 50  # outcomes by which two tests are compared
PATIENCE = 10  # a replayed function may be called so many times as often as it was
LOADING = -1  # number of what is no test
ITERATORS = ("builtins", "itertools")  # modules of iterators that give their items and no more
DATA = {"__init__", "__repr__", "__eq__"}  # methods of an object that does nothing
SMALL = 3  # numbers and characters of a value that is written as fast as a call: aux ( )
observer = None  # of the program that is being loaded
function_of = functools.cache(eval)


class Unknown(Exception):
    """The replay of a helper says nothing about it."""


class Picture:
    """A value as it was, in the form of JSON. `holed` has holes where given values stand in it."""

    def __init__(self, value, given: dict):
        things: list = []  # objects that are not plain data
        self.flats = [plain(value, things)]  # then what is inside of each thing
        for thing in things:  # grows while it is read
            self.flats.append(plain(inside(thing), things))
        self.things = list(map(shell, things))
        holes = {}
        if not any(map(acts, self.things)):
            for name, argument in given.items():
                holes[json.dumps(plain(argument, things))] = name
        self.holed = [with_holes(flat, holes) for flat in self.flats]
        self.form = json.dumps([self.holed, [type(thing).__name__ for thing in self.things]])

    def value(self):
        """Return a copy of the value."""
        return self.built(self.flats, list(self.things))

    def other_value(self, given: dict, change: bool):
        """Return the value with other given values. change: its numbers and texts are others."""
        things = list(self.things)
        flat_given = {name: plain(argument, things) for name, argument in given.items()}
        flats = []
        for flat in self.holed:
            flats.append(filled(changed(flat) if change else flat, flat_given))
        return self.built(flats, things)

    def built(self, flats: list, things: list):
        count = len(self.things)
        things[:count] = map(shell, self.things)
        unpack = unpacker(things.__getitem__)
        value, *insides = [unpack(json.dumps(flat).encode()) for flat in flats]
        for thing, attributes in zip(things[:count], insides, strict=True):
            if isinstance(attributes, dict):
                for name, attribute in attributes.items():
                    object.__setattr__(thing, name, attribute)
        return value


def plain(value, things: list):
    """Return a value in the form of JSON. Other objects than plain data are added to `things`."""

    def handle(thing) -> int:
        for number, other in enumerate(things):
            if other is thing:
                return number
        things.append(thing)
        return len(things) - 1

    return pack(value, handle)


def inside(thing):
    if isinstance(thing, BaseException):
        return list(thing.args)
    if type(thing).__module__ == "solution" and hasattr(thing, "__dict__"):
        return dict(vars(thing))
    return id(thing)


def shell(thing):
    try:
        return copy.copy(thing)
    except Exception:  # a generator
        return thing


def acts(thing) -> bool:
    """Return whether an object of the program does something, whatever its data."""
    functions = {name for name, member in vars(type(thing)).items() if callable(member)}
    return type(thing).__module__ == "solution" and bool(functions - DATA)


def with_holes(flat, holes: dict):
    name = holes.get(json.dumps(flat))
    if name is not None:
        return {"hole": name}
    return mapped(flat, lambda part: with_holes(part, holes))


def filled(flat, given: dict):
    match flat:
        case {"hole": name}:
            if name not in given:
                raise Unknown
            return given[name]
    return mapped(flat, lambda part: filled(part, given))


def changed(flat):
    match flat:
        case bool():
            return not flat
        case int() | float():
            return flat + 1
        case str():
            return "".join(chr(ord(character) ^ 1) for character in flat)
    return mapped(flat, changed)


def mapped(flat, function):
    """Return a copy in which function(part) stands for each part of a list, a dict and so on."""
    match flat:
        case list():
            return [function(part) for part in flat]
        case {"d": pairs} | {"C": pairs}:
            [tag] = flat
            return {tag: [[key, function(part)] for key, part in pairs]}
        case dict():
            [(tag, inside)] = flat.items()
            return {tag: mapped(inside, function)}
    return flat


def leaves(flat) -> list:
    if isinstance(flat, dict):
        flat = [*flat.values()]
    if isinstance(flat, list):
        return [leaf for part in flat for leaf in leaves(part)]
    return [flat]


class Value:
    """What a function returned."""

    def __init__(self, value, given: dict):
        self.shown = value
        self.picture = Picture(value, given)
        self.form = self.picture.form
        self.pictures = [self.picture]

    def seen(self):
        return self.picture.value()

    def replayed(self, given: dict, change: bool):
        if change and acts(self.shown):
            raise Unknown
        return self.picture.other_value(given, change)


class Raised(Value):
    """The exception that a function raised."""

    def seen(self):
        return self.shown.args[0] if self.shown.args else None

    def replayed(self, _given: dict, _change: bool):
        raise self.shown


class Items:
    """The items that the program takes from an iterator."""

    def __init__(self, iterator, given: dict):
        self.given = given
        self.items: list[Value] = []
        self.shown = self.recorded(iterator)

    def recorded(self, iterator):
        for item in iterator:
            self.items.append(Value(item, self.given))
            yield item

    @property
    def form(self) -> str:
        return str([item.form for item in self.items])

    @property
    def pictures(self) -> list[Picture]:
        return [item.picture for item in self.items]

    def seen(self):
        return [item.seen() for item in self.items[:1]]  # main decides how many it takes

    def replayed(self, given: dict, change: bool):
        return (item.replayed(given, change) for item in self.items)


def arguments_of(args: tuple, kwargs: dict, outer: dict) -> dict:
    """Return arguments by name, beside those of the function that returned this one."""
    named = {**dict(enumerate(args)), **kwargs}
    return outer | {f"{len(outer)} {name}": value for name, value in named.items()}


class Tape:
    """The outcomes of a function, in order."""

    def __init__(self, function=None, outer: dict | None = None):
        self.outer = outer or {}
        self.outcomes: list = []
        self.shown = lambda *args, **kwargs: self.call(function, args, kwargs)

    def call(self, function, args: tuple, kwargs: dict):
        """Return what the function returns, as it is shown to the program."""
        if len(self.outcomes) == RECORDED:
            return function(*args, **kwargs)
        given = arguments_of(args, kwargs, self.outer)
        outcome: Value | Items | Tape
        try:
            value = function(*args, **kwargs)
        except Exception as error:
            self.outcomes.append(Raised(error, {}))
            raise
        if isinstance(value, types.FunctionType):
            outcome = Tape(value, given)
        elif isinstance(value, Iterator) and type(value).__module__ in ITERATORS:
            outcome = Items(value, given)
        else:
            outcome = Value(value, given)
        self.outcomes.append(outcome)
        return outcome.shown

    @property
    def form(self) -> str:
        return str(self.forms())

    @property
    def pictures(self) -> list[Picture]:
        return [picture for outcome in self.outcomes for picture in outcome.pictures]

    def forms(self) -> list[str]:
        return [outcome.form for outcome in self.outcomes[:COMPARED]]

    def seen(self):
        return self.replayed(self.outer, False)

    def replayed(self, outer: dict, change: bool):
        """Return a function that gives the outcomes, over and over."""
        numbers = iter(range(PATIENCE * len(self.outcomes)))

        def play(*args, **kwargs):
            for number in numbers:
                outcome = self.outcomes[number % len(self.outcomes)]
                return outcome.replayed(arguments_of(args, kwargs, outer), change)
            raise Unknown

        return play


class Answer:
    """What main's answers have in common with one of the outcomes of its helper.

    views: expressions of the outcome that have been the answer to every call so far
    forms: of the helper's arguments, by name
    work: names of arguments that are no trivial functions of main's arguments
    """

    def __init__(self, place: int, views: list):
        self.place = place  # of the outcome among those of a call of main
        self.views = views
        self.forms = defaultdict(set)
        self.work: set[str] = set()

    def compare(self, answer, outcome) -> None:
        """Keep the views of an outcome that are main's answer to a call."""
        form = Picture(answer, {}).form
        if isinstance(outcome, Raised) and outcome.form == form:
            return
        views = []
        value = outcome.seen()
        for view in self.views:
            with contextlib.suppress(Exception):
                if Picture(view(value), {}).form == form:
                    views.append(view)
        self.views = views

    def add(self, arguments: dict[str, str], trivial: set[str]) -> None:
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

    trivial: expressions of `args`, a list of arguments, and x, one of them, that take no work
    views: expressions of `value`, what a helper gives
    known: numbers and texts that main's author wrote
    """

    def __init__(self, space: dict, trivial: list, views: list, known: list):
        self.space = space
        self.trivial = [function_of(f"lambda args, x: {expression}") for expression in trivial]
        views = [function_of(f"lambda value: {expression}") for expression in views]
        self.answers = [Answer(0, views), Answer(-1, views)]
        self.known = known
        self.tapes: dict[int, Tape] = {}  # by test
        self.uses: dict[int, list] = {}  # by test, by call of main: how often main used the helper
        self.replaying = False
        self.test(LOADING)

    def watch(self, helper: str) -> None:
        function = self.space[helper]

        def shown(*args, **kwargs):
            self.calls.append(self.pictured(arguments_of(args, kwargs, {})))
            if self.replaying:
                return self.play(*args, **kwargs)
            self.space[helper] = function  # its calls of itself are its own affair
            try:
                return self.tapes[self.number].call(function, args, kwargs)
            finally:
                self.space[helper] = shown

        self.space[helper] = shown

    def serve(self, main: str) -> None:
        function = self.space[main]

        def shown(*args, **kwargs):
            if "number" in vars(shown):
                self.test(vars(shown).pop("number"))
            self.given = {}
            if self.is_open():
                given = arguments_of(args, kwargs, {})
                self.given = {name: Picture(value, {}).value() for name, value in given.items()}
            self.calls = []
            self.space[main] = function
            try:
                answer = function(*args, **kwargs)
            except Exception as error:
                self.take_down(error)
                raise
            finally:
                self.space[main] = shown
            self.take_down(answer)
            return answer

        shown.report = self.report
        self.space[main] = shown

    def is_open(self) -> bool:
        """Return whether the helper may yet turn out to give the answer."""
        return not self.replaying and any(answer.views for answer in self.answers)

    def pictured(self, arguments: dict) -> dict[str, str]:
        """Return the forms of the helper's arguments, in which main's are holes."""
        if not self.is_open():
            return {}
        return {name: Picture(value, self.given).form for name, value in arguments.items()}

    def test(self, number: int) -> None:
        """Begin a test."""
        self.number = number
        self.given: dict = {}  # main's arguments
        self.calls: list[dict] = []  # of the helper, see `pictured`
        self.count = 0  # of calls of main in this test
        if self.replaying:
            self.play = self.other_test()
        else:
            self.tapes[number] = Tape()
            self.uses[number] = []

    def take_down(self, answer) -> None:
        """Compare main's answer to a call with what its helper gave it."""
        if self.replaying:
            used = self.uses[self.number][self.count]
            self.count += 1
            if used and not self.calls:  # main remembers an answer
                raise Unknown
            return
        self.uses[self.number].append(len(self.calls))
        outcomes = self.tapes[self.number].outcomes[-len(self.calls) :]
        for side in self.answers:
            if not self.calls or len(outcomes) < len(self.calls):
                side.views = []
            if side.views:
                side.compare(answer, outcomes[side.place])
            if side.views:
                side.add(self.calls[side.place], self.without_work())

    def without_work(self) -> set[str]:
        """Return the forms of what takes no work, for main's arguments."""
        forms = set()
        for expression, name in itertools.product(self.trivial, self.given):
            given = Picture(self.given, {}).value()
            with contextlib.suppress(Exception):
                forms.add(Picture(expression([*given.values()], given[name]), self.given).form)
        return forms

    def other_test(self):
        """Return a function that gives the outcomes of the test that differs most from this one."""
        forms = {test: tape.forms() for test, tape in self.tapes.items() if tape.outcomes}
        forms.pop(LOADING, None)
        if not forms:
            raise Unknown
        own = forms.get(self.number, [])

        def difference(test: int) -> int:
            return sum(a != b for a, b in itertools.zip_longest(own, forms[test]))

        most = max(forms, key=difference)
        kinds = set().union(*forms.values())
        is_constant = len(kinds) == 1
        is_small = is_constant and self.is_small(self.tapes[most].outcomes[0])
        is_same = is_constant or difference(most) == 0
        change = is_same and not is_small and '"hole"' not in str(kinds)
        return self.tapes[most].replayed({}, change)

    def is_small(self, outcome) -> bool:
        """Return whether main's author writes a value as fast as a call, or wrote it."""
        size = 0
        for picture in outcome.pictures:
            if picture.things:
                return False
            for leaf in leaves(picture.flats):
                if leaf not in self.known:
                    size += len(leaf) if isinstance(leaf, str) else 1
        return size <= SMALL

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
