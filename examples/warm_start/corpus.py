"""The texts of the warm start: problems of task coop with programs that follow many conventions and
have faults. make.py says what is designed in them, and what is not."""

import random

import tasks
from tiny.problems import comprehension, problems

# How often a helper, and a main function, follow each convention.
HELPER = {"predicate": 0.16, "transform": 0.19, "filter": 0.21, "map": 0.30, "whole": 0.14}
MAIN = {"predicate": 0.32, "transform": 0.18, "filter": 0.20, "map": 0.13, "whole": 0.11}
MAIN |= {"ignore": 0.06}  # solves the problem alone
# How often which kind of example is written, and for how many agents.
KINDS = {"pair": (0.70, 2), "solo": (0.13, 1), "second turn": (0.12, 2), "three": (0.05, 3)}
MALFORMED = 0.28  # share of functions with a fault of form: name, return, syntax, no code
MISTAKEN = 0.06  # share of functions with one part of the problem replaced by another's
LOOPS = 0.15  # share of list helpers written as a loop, not as a comprehension

# A token is no longer than: a line's end and indentation, a digit, a word, marks, white space.
PIECES = r"\n *|\d| ?[A-Za-z_]+| ?[^\sA-Za-z\d_]+|\s+"

Parts = tuple[str, str, str]


def helper(convention: str, parts: Parts, name: str = "aux", loop: bool = False) -> str:
    """A helper function that does what the convention says of a problem with these parts."""
    predicate, transform, reducer = parts
    if loop and convention in ("filter", "map"):
        kept = (transform if convention == "map" else "") or "x"
        test = f"        if {predicate}:\n    " if predicate else ""
        return (
            f"def {name}(xs):\n    out = []\n    for x in xs:\n"
            f"{test}        out.append({kept})\n    return out"
        )
    argument, body = {
        "predicate": ("x", predicate),
        "transform": ("x", transform),
        "filter": ("xs", comprehension(predicate, "")),
        "map": ("xs", comprehension(predicate, transform)),
        "reduce": ("xs", reducer.format("xs")),
        "whole": ("xs", reducer.format(comprehension(predicate, transform))),
    }[convention]
    return f"def {name}({argument}):\n    return {body}"


def main_function(convention: str, parts: Parts) -> str:
    """A `solve` that supposes its helpers to follow the convention."""
    predicate, transform, reducer = parts
    body = {
        "predicate": reducer.format(comprehension("aux(x)", transform)),
        "transform": reducer.format(comprehension(predicate, "aux(x)")),
        "filter": reducer.format(comprehension("", transform, "aux(xs)")),
        "map": reducer.format("aux(xs)"),
        "whole": "aux(xs)",
        "ignore": reducer.format(comprehension(predicate, transform)),
        "split": reducer.format(comprehension("aux(x)", "aux2(x)")),
        "swapped": reducer.format(comprehension("aux2(x)", "aux(x)")),
        "chain": "aux2(aux(xs))",
    }[convention]
    return f"def solve(xs):\n    return {body}"


class Author:
    """Writes the corpus: responses as an imperfect author of either role would give them."""

    kinds = KINDS

    def __init__(self, seed: int, problems: list[dict]):
        self.rng = random.Random(seed)
        self.known: dict[tuple[str, int], list[str]] = {}  # (domain, 0 to 2): parts to confuse
        for item in problems:
            for at, part in enumerate(item["parts"]):
                self.known.setdefault((item["composition"][0], at), []).append(part)

    def parts(self, item: dict) -> Parts:
        """The parts that the author has in mind: at times, one of them is another problem's."""
        parts = list(item["parts"])
        if self.rng.random() < MISTAKEN:
            at = self.rng.choice([at for at, part in enumerate(parts) if part])
            parts[at] = self.rng.choice(self.known[item["composition"][0], at]) or parts[at]
        return tuple(parts)

    def spoil(self, code: str, name: str) -> str:
        """At times, the same function with a fault of form."""
        if self.rng.random() >= MALFORMED:
            return code
        wrong = self.rng.choice(["helper", "func", "f"] if name != "solve" else ["main", "answer"])
        return self.rng.choices(
            [
                code.replace(f"def {name}(", f"def {wrong}(", 1),
                code.replace("    return ", "    "),
                code.replace("):\n", ")\n", 1),
                f"# {name} goes here",
            ],
            [0.35, 0.25, 0.25, 0.15],
        )[0]

    def write(self, item: dict, name: str, weights: dict[str, float]) -> str:
        """A function by a convention that the problem, which may lack a part, allows."""
        parts = self.parts(item)
        missing = {"predicate", "filter"} if not parts[0] else set()
        missing |= {"transform", "map"} if not parts[1] else set()
        missing |= {"split", "swapped"} if not all(parts) else set()
        names = [convention for convention in weights if convention not in missing]
        convention = self.rng.choices(names, [weights[one] for one in names])[0]
        if name == "solve":
            return self.spoil(main_function(convention, parts), name)
        loop = self.rng.random() < LOOPS
        return self.spoil(helper(convention, parts, name, loop), name)

    def joint(self, item: dict, num_agents: int) -> list[str]:
        """One response per agent, each drawn without regard to the others."""
        if num_agents < 3:
            team = [self.write(item, "aux", HELPER), self.write(item, "solve", MAIN)]
            return team if num_agents == 2 else ["\n".join(team)]
        return [
            self.write(item, "aux", {"predicate": 0.35, "transform": 0.3, "map": 0.35}),
            self.write(item, "aux2", {"predicate": 0.3, "transform": 0.35, "reduce": 0.35}),
            self.write(item, "solve", {"split": 0.35, "swapped": 0.3, "chain": 0.35}),
        ]

    def example(self, item: dict) -> tuple[str, str]:
        """An observation without the problem's own text, and a response to it."""
        shares = [share for share, _ in self.kinds.values()]
        kind = self.rng.choices(list(self.kinds), shares)[0]
        num_agents = self.kinds[kind][1] or len(item["parts"])
        agent = self.rng.randrange(num_agents)
        responses, history = self.joint(item, num_agents), []
        if kind == "second turn":
            verdict = check(item, responses)
            history = [(responses[agent], tasks.passed_line(*verdict))]
            if verdict[0] < verdict[1]:  # what passes every test stays as it is
                responses = self.joint(item, num_agents)
        prompt = tasks.Coop(num_agents=num_agents).observe(agent, item, history)
        return prompt.removeprefix(item["prompt"]), responses[agent]


def check(item: dict, responses: list[str]) -> tuple[int, int, str | None]:
    """Tests passed, tests, first error that is no wrong answer. In process: we wrote the code."""
    passed, error = 0, None
    for test in item["tests"]:
        try:
            exec("\n".join([*responses, test]), {})
            passed += 1
        except AssertionError:
            pass
        except Exception as raised:
            error = error or type(raised).__name__
    return passed, len(item["tests"]), error


def rows(
    seed: int, count: int, examples: int, author: type = Author, agents: tuple[int, ...] = (2,)
) -> list[tuple[str, list[tuple[str, str]]]]:
    """`count` problems, of each number of agents in turn, and examples, as make.py takes them."""
    streams = [problems("train", f"/warm start {seed}", agents=number) for number in agents]
    items = [next(streams[number % len(streams)]) for number in range(count)]
    writer = author(seed, items)
    return [(item["prompt"], [writer.example(item) for _ in range(examples)]) for item in items]
