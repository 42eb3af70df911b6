"""The corpus of task coop: programs that follow many conventions and have faults.

make.py says what is designed in it, and what is not.
"""

import random

import tasks
from examples.warm_start.problems import comprehension, problems

# How often a helper, and a main function, follow each convention.
HELPER = {"predicate": 0.16, "transform": 0.19, "filter": 0.21, "map": 0.30, "whole": 0.14}
MAIN = {
    "predicate": 0.32,
    "transform": 0.18,
    "filter": 0.20,
    "map": 0.13,
    "whole": 0.11,
    "ignore": 0.06,  # solves the problem alone
}
OF_THREE = {  # agents: two helpers and a main function
    "aux": {"predicate": 0.35, "transform": 0.3, "map": 0.35},
    "aux2": {"predicate": 0.3, "transform": 0.35, "reduce": 0.35},
    "solve": {"split": 0.35, "swapped": 0.3, "chain": 0.35},
}
# (agents, turn) of an example -> its share
KINDS = {(2, 1): 0.70, (1, 1): 0.13, (2, 2): 0.12, (3, 1): 0.05}
MALFORMED = 0.28  # share of functions with a fault of form (name, return, syntax, no code)
MISTAKEN = 0.06  # share of functions with one part of the problem replaced by another's
LOOPS = 0.15  # share of list helpers written as a loop, not as a comprehension

# A token is at most a line's end with indentation, a digit, a word, marks, or white space.
PIECES = r"\n *|\d| ?[A-Za-z_]+| ?[^\sA-Za-z\d_]+|\s+"


def draw(rng, shares):
    """Return a key of the table, each as often as its share says."""
    return rng.choices(list(shares), list(shares.values()))[0]


def helper(convention, parts, name="aux", loop=False):
    """Return a helper that does the convention's part of a problem with these parts."""
    predicate, transform, reducer = parts
    if loop and convention in ("filter", "map"):
        value = transform if convention == "map" and transform else "x"
        test = f"        if {predicate}:\n    " if predicate else ""
        return (
            f"def {name}(xs):\n    out = []\n    for x in xs:\n"
            f"{test}        out.append({value})\n    return out"
        )
    body = {
        "predicate": predicate,
        "transform": transform,
        "filter": comprehension(predicate, ""),
        "map": comprehension(predicate, transform),
        "reduce": reducer.format("xs"),
        "whole": reducer.format(comprehension(predicate, transform)),
    }[convention]
    argument = "x" if convention in ("predicate", "transform") else "xs"
    return f"def {name}({argument}):\n    return {body}"


def main_function(convention, parts):
    """Return a `solve` that supposes its helpers to follow the convention."""
    predicate, transform, reducer = parts
    reduced = {  # what the reducer takes
        "predicate": comprehension("aux(x)", transform),
        "transform": comprehension(predicate, "aux(x)"),
        "filter": comprehension("", transform, "aux(xs)"),
        "map": "aux(xs)",
        "ignore": comprehension(predicate, transform),
        "split": comprehension("aux(x)", "aux2(x)"),
        "swapped": comprehension("aux2(x)", "aux(x)"),
    }
    complete = {"whole": "aux(xs)", "chain": "aux2(aux(xs))"}
    body = complete.get(convention) or reducer.format(reduced[convention])
    return f"def solve(xs):\n    return {body}"


class Author:
    """Writes responses as an imperfect author of any role would give them."""

    kinds = KINDS

    def __init__(self, problems):
        self.rng = random.Random(0)
        self.known = {}  # (domain, 0 to 2): parts to confuse
        for item in problems:
            for at, part in enumerate(item["parts"]):
                self.known.setdefault((item["composition"][0], at), []).append(part)

    def parts(self, item):
        """Return the parts of the problem. At times, one of them is another problem's."""
        parts = list(item["parts"])
        if self.rng.random() < MISTAKEN:
            at = self.rng.choice([at for at, part in enumerate(parts) if part])
            parts[at] = self.rng.choice(self.known[item["composition"][0], at]) or parts[at]
        return parts

    def spoil(self, code, name):
        """Return the function, at times with a fault of form."""
        if self.rng.random() >= MALFORMED:
            return code
        names = ["main", "answer"] if name == "solve" else ["helper", "func", "f"]
        faults = {
            code.replace(f"def {name}(", f"def {self.rng.choice(names)}(", 1): 0.35,
            code.replace("    return ", "    "): 0.25,
            code.replace("):\n", ")\n", 1): 0.25,
            f"# {name} goes here": 0.15,
        }
        return draw(self.rng, faults)

    def write(self, item, name, weights):
        """Return a function by a convention that the problem, which may lack a part, allows."""
        parts = self.parts(item)
        excluded = []
        if not parts[0]:
            excluded += ["predicate", "filter", "split", "swapped"]
        if not parts[1]:
            excluded += ["transform", "map", "split", "swapped"]
        convention = draw(self.rng, {k: v for k, v in weights.items() if k not in excluded})
        if name == "solve":
            return self.spoil(main_function(convention, parts), name)
        loop = self.rng.random() < LOOPS
        return self.spoil(helper(convention, parts, name, loop), name)

    def joint(self, item, num_agents):
        """Return one response per agent, each drawn without regard to the others."""
        tables = OF_THREE if num_agents == 3 else {"aux": HELPER, "solve": MAIN}
        team = [self.write(item, name, weights) for name, weights in tables.items()]
        return ["\n".join(team)] if num_agents == 1 else team

    def example(self, item):
        """Return an observation without the problem's own text, and a response to it."""
        num_agents, turn = draw(self.rng, self.kinds)
        num_agents = num_agents or len(item["parts"])
        agent = self.rng.randrange(num_agents)
        responses = self.joint(item, num_agents)
        history = []
        if turn == 2:
            verdict = check(item, responses)
            history = [(responses[agent], tasks.passed_line(*verdict))]
            if verdict[0] < verdict[1]:  # a program that passes every test stays as it is
                responses = self.joint(item, num_agents)
        prompt = tasks.Coop(num_agents=num_agents).observe(agent, item, history)
        return prompt.removeprefix(item["prompt"]), responses[agent]


def check(item, responses):
    """Return tests passed, tests, and the first error but wrong answers. In process: our code."""
    passed = 0
    error = None
    for test in item["tests"]:
        try:
            exec("\n".join([*responses, test]), {})
            passed += 1
        except AssertionError:
            continue
        except Exception as raised:
            error = error or type(raised).__name__
    return passed, len(item["tests"]), error


def rows(count, examples, author=Author, agents=(2,)):
    """Return (problem, its (context, response) pairs), of each number of agents in turn."""
    streams = [problems("train", "/warm start 0", agents=number) for number in agents]
    items = [next(streams[number % len(streams)]) for number in range(count)]
    writer = author(items)
    return [(item["prompt"], [writer.example(item) for _ in range(examples)]) for item in items]
