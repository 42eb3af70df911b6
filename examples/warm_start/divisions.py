"""The corpus of three and four agents: coop's problems, a part for each author.

Nothing says who takes which part. A helper does one part, an element or a list at a time, and each
part is as likely for one helper as for another. A main function supposes an assignment of the parts
to the helpers, each as likely too. No main function does all of the work alone. Faults are those of
corpus.py.
"""

import functools

from examples.warm_start import corpus
from examples.warm_start.problems import comprehension, whole
from programs.extraction import part_names

# How often a helper of three agents, and one of four, does what. "filter" is by one predicate.
HELPER = {
    3: {"predicate": 0.36, "transform": 0.40, "filter": 0.14, "map": 0.05, "reduce": 0.05},
    4: {
        "predicate": 0.28,
        "predicate second": 0.28,
        "transform": 0.34,
        "filter": 0.05,
        "filter second": 0.05,
    },
}
KINDS = {(0, 1): 0.88, (0, 2): 0.12}  # 0 agents: one for each part
# How a main function calls its helpers. On lists, one takes what another returns.
MAIN = {"elements": 0.82, "lists": 0.18}


def helper(convention, parts, name, loop):
    """Return a helper that does the convention's part of a problem with these parts."""
    convention, _, second = convention.partition(" ")
    if second:
        parts = (parts[3], *parts[1:3])
    elif convention in ("predicate", "filter"):
        parts = parts[:3]
    return corpus.helper(convention, whole(parts), name, loop)


def main_function(convention, parts, names):
    """Return a `solve` that supposes these helpers to do the predicates, the last the transform."""
    *tests, change = names
    if convention == "elements":
        body = comprehension(" and ".join(f"{name}(x)" for name in tests), f"{change}(x)")
    else:
        source = "xs"
        for name in tests:
            source = f"{name}({source})"
        body = comprehension("", f"{change}(x)", source)
    return f"def solve(xs):\n    return {parts[2].format(body)}"


class Author(corpus.Author):
    """Writes as corpus.Author does, for as many agents as a problem has parts."""

    kinds = KINDS

    def joint(self, item, num_agents):
        *names, _ = part_names(item, num_agents)
        team = []
        for name in names:
            convention = corpus.draw(self.rng, HELPER[num_agents])
            loop = self.rng.random() < corpus.LOOPS
            code = helper(convention, self.parts(item), name, loop)
            team.append(self.spoil(code, name))
        convention = corpus.draw(self.rng, MAIN)
        order = self.rng.sample(names, len(names))
        code = main_function(convention, self.parts(item), order)
        return [*team, self.spoil(code, "solve")]


# Half of the problems are of three parts and half of four.
rows = functools.partial(corpus.rows, author=Author, agents=(3, 4))
