"""The texts of the warm start of three and four agents: problems of task coop, divided in as many
parts as there are authors, with no convention of who takes which.
`python -m examples.warm_start.make --task many` makes an adapter on the base of them, many/.

A helper does one part, an element or a list at a time, and each part is as likely for one helper as
for another. A main function supposes some assignment of the parts to the helpers, each as likely
too. Nobody has read a main function that does all of the work alone. Faults are those of corpus.py.
"""

import functools

from examples.warm_start import corpus
from tiny.problems import comprehension, whole

# How often a helper of three agents, and one of four, does what; a list of one predicate: filter.
HELPER = {
    3: {"predicate": 0.36, "transform": 0.40, "filter": 0.14, "map": 0.05, "reduce": 0.05},
    4: {
        "predicate": 0.28,
        "second": 0.28,
        "transform": 0.34,
        "filter": 0.05,
        "filter second": 0.05,
    },
}
KINDS = {"first turn": (0.88, None), "second turn": (0.12, None)}  # an agent for each part
# How a main function calls its helpers: on elements, in some order; on lists.
MAIN = {"elements": 0.82, "lists": 0.18}


def helper(convention: str, parts: tuple[str, ...], name: str, loop: bool) -> str:
    """A helper function that does what the convention says of a problem with these parts."""
    kind = convention.removesuffix("second").strip() or "predicate"
    if kind in ("predicate", "filter"):  # of one predicate
        parts = (parts[3 if "second" in convention else 0], *parts[1:3])
    return corpus.helper(kind, whole(parts), name, loop)


def main_function(convention: str, parts: tuple[str, ...], names: list[str]) -> str:
    """A `solve` that supposes these helpers to do the predicates, and the last the transform."""
    *tests, change = names
    reducer, source = parts[2], "xs"
    if convention == "elements":
        body = comprehension(" and ".join(f"{name}(x)" for name in tests), f"{change}(x)")
    else:
        for name in tests:
            source = f"{name}({source})"
        body = comprehension("", f"{change}(x)", source)
    return f"def solve(xs):\n    return {reducer.format(body)}"


class Author(corpus.Author):
    """Writes as corpus.Author does, for as many agents as a problem has parts."""

    kinds = KINDS

    def joint(self, item: dict, num_agents: int) -> list[str]:
        names = ["aux", *(f"aux{i}" for i in range(2, num_agents))]
        team = []
        for name in names:
            convention = self.rng.choices([*HELPER[num_agents]], [*HELPER[num_agents].values()])[0]
            loop = self.rng.random() < corpus.LOOPS
            code = helper(convention, self.parts(item), name, loop)
            team.append(self.spoil(code, name))
        convention = self.rng.choices([*MAIN], [*MAIN.values()])[0]
        order = self.rng.sample(names, len(names))
        code = main_function(convention, self.parts(item), order)
        return [*team, self.spoil(code, "solve")]


# Half of the problems are of three parts and half of four.
rows = functools.partial(corpus.rows, author=Author, agents=(3, 4))
