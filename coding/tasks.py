"""HumanEval, CoopHumanEval and MBPP: the paper's coding problems (arXiv 2508.04652).

python -m coding.tasks humaneval --data FILE    checks a data set: every reference solution, whole
                                                and split over two agents, passes all its tests

Their rows hold a prompt (a signature with its docstring), the entry_point that it defines, and a
test: a function check(candidate) with assertions. coding/items.py turns rows into items.
"""

import argparse
import ast
import functools
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import ClassVar

from coding.feedback import MODES, configured
from coding.items import asked, code_item, read_items
from coding.rewards import verdict
from coding.schemes import classify
from tasks import Task

# --- what the agents are asked --------------------------------------------------------------------
# Change the wording here; coding/paper.py has the paper's roles, bench/prompts.py measures what a
# frozen team makes of a wording. An answer is a file that the prompt begins: a pretrained model
# continues it where it would explain in a chat. Neither author is told which part of the problem
# is the other's; what they share is one example, and the convention of what a helper says.

_TOGETHER = (
    "{count} programmers write each of these programs. {helpers} The last one writes main.py, "
    "which calls {names}. Nobody sees the file of another one. "
)
_ALONE = (
    "Each of these programs has a helper, the function `aux`, and a main function that calls it. "
)
_CONVENTION = "A helper takes one value and says whether it counts: True or False."

_EXAMPLE = '''\
def frost_days(days):
    """Days are dicts with the temperatures "low" and "high". Return the days on which it froze all
    day.
    """
'''
_HELPER = """\
def aux(value):
    return value["high"] < 0
"""
_MAIN = """\
def frost_days(days):
    return [day for day in days if aux(day)]
"""


def _file(name: str, *texts: str) -> str:
    return f"{name}.py:\n```python\n" + "\n".join(texts)


class CodeTask(Task):
    """What the tasks share whose responses are Python functions that tests call."""

    reward, modes = "code", MODES
    measures: ClassVar = {
        "pass@k": "metric/pass",
        "coop_rate": "cooperation",  # the paper's: how often the bonus is earned at all
        "metric/coop": "metric/coop",
        "accuracy@k": "tests",
    }
    bonuses: ClassVar = {"cooperation": "tests"}
    signs = "coding.signs.SIGNS"

    @classmethod
    def teller(cls, args):
        """The function of coding/feedback.py with the run's flags."""
        flags = (args.feedback_tests, args.expert_url, args.expert_model)
        return configured(args.feedback, *flags)

    def scheme(self, item: dict, responses: list[str]) -> str:
        return classify(responses, item["entry_point"])

    def ask(self, text: str) -> dict:
        return asked(text)


class HumanEval(CodeTask):
    """openai/openai_humaneval: 164 problems, with reference solutions.

    Agents 0 to n-2 write the helpers (aux, aux2, ...), the last one writes the entry point; one
    agent alone writes aux and the entry point in one response.

    `ranges` are the rows of each split: train and dev are the training and the in-training
    evaluation split of the paper, test is what its evaluation used. (Later configurations of the
    authors trained on rows 33 to 162.) A local file with another number of rows is divided in its
    own order: the last fifth is test, the fifth before it dev, the rest train.
    """

    stop = "``"  # of the fence that ends a file; a tokenizer may cut the three apart
    rows = 164
    hub, config, hub_split = "openai/openai_humaneval", None, "test"
    ranges: ClassVar = {"train": (33, 133), "dev": (0, 32), "test": (133, 164)}

    def __init__(self, data: str | None = None, num_agents: int = 2, feedback=None):
        super().__init__(data, num_agents)
        self.helpers = ["aux", *(f"aux{i}" for i in range(2, num_agents))]
        self.tell = feedback or configured("tests")

    @functools.cached_property
    def problems(self) -> list[dict]:
        """Every item of every split, in the order of its source; ValueError names a bad row."""
        hub = (self.hub, self.config, self.hub_split)
        return read_items(self.data, hub, code_item)

    def items(self, split: str) -> list[dict]:
        count = len(self.problems)
        fifth = max(count // 5, 1)
        shares = {
            "train": (0, count - 2 * fifth),
            "dev": (count - 2 * fifth, count - fifth),
            "test": (count - fifth, count),
        }
        start, end = (self.ranges if count == self.rows else shares)[split]
        return self.problems[start:end]

    def observe(self, agent: int, item: dict, history: list[tuple[str, str]]) -> str:
        """The problem, and the agent's file as far as it is written. At later turns its own
        responses follow, each with what it was told, and its file once more."""
        files = {f"helper{name[3:]}": name for name in self.helpers}
        prompt = self._programs(files, item["prompt"].strip("\n"))
        if self.num_agents == 1:
            begun = _file("main", "")
        elif agent < self.num_agents - 1:
            begun = _file(list(files)[agent], "")
        else:
            for file, name in files.items():
                stub = f"def {name}(value):\n    ...  # written by another programmer\n"
                prompt += _file(file, stub) + "```\n\n"
            imports = [f"from {file} import {name}" for file, name in files.items()]
            begun = _file("main", *imports, "", "")
        for response, told in history:
            prompt += begun + response.strip("\n") + "\n```\n\n"
            prompt += (f"{told}\n\n" if told else "") + "Revised: "
        return prompt + begun

    def _programs(self, files: dict[str, str], problem: str) -> str:
        """The example's files, and the problem whose files {file: function} are to be written."""
        if self.num_agents == 1:
            intro, shown = _ALONE, [_file("main", _HELPER, _MAIN)]
        else:
            writes = (f"One writes {file}.py with the function `{files[file]}`." for file in files)
            names = ", ".join(f"`{name}`" for name in self.helpers)
            intro = _TOGETHER.format(count=self.num_agents, helpers=" ".join(writes), names=names)
            shown = [_file("helper", _HELPER), _file("main", "from helper import aux\n", _MAIN)]
        example = _EXAMPLE + "\n" + "".join(f"{file}```\n\n" for file in shown)
        parts = [intro + _CONVENTION, "### Program 1", example + "### Program 2", problem, ""]
        return "\n\n".join(parts)

    def feedback(self, item: dict, responses: list[str]) -> list[str]:
        return self.tell(item, responses)


class CoopHumanEval(HumanEval):
    """OpenMLRL/CoopHumanEval: 82 problems that leave something to divide, without solutions."""

    rows = 82
    hub = "OpenMLRL/CoopHumanEval"
    ranges: ClassVar = {"train": (0, 50), "dev": (50, 66), "test": (66, 82)}


class MBPP(HumanEval):
    """The sanitized MBPP of google-research-datasets: 427 problems, with reference solutions.

    Its rows (prompt, code, test_list) are brought to HumanEval's form. The authors did so too, but
    their copy, OpenMLRL/MBPP, leaves out the parameters and has tests that nothing can pass. The
    hub's test split comes first, as in theirs: train and dev are their rows, test is its rest.
    """

    rows = 427
    hub, config = "google-research-datasets/mbpp", "sanitized"
    hub_split = "test+train+validation+prompt"
    ranges: ClassVar = {"train": (15, 65), "dev": (0, 15), "test": (65, 257)}


# --- the check of a data set ----------------------------------------------------------------------


def check(task: HumanEval) -> bool:
    """Prints how many reference solutions pass all of their tests; False if one does not."""
    items = task.problems
    tests = sum(len(item["tests"]) for item in items)
    print(f"{len(items)} problems with {tests} tests")
    solved = [item for item in items if "solution" in item]
    forms = {
        "one response": lambda item: [item["solution"]],
        "trivial helper": lambda item: ["def aux(*args):\n    return None", item["solution"]],
        "helper does it all": _delegated,
    }
    good = True
    with ThreadPoolExecutor(8) as pool:
        raising = [f"def {item['entry_point']}(*_):\n    raise KeyError" for item in items]
        verdicts = pool.map(verdict, items, ([text] for text in raising))
        empty = sum(sum(verdict.passed) for verdict in verdicts)
        print(f"{empty} tests pass with a function that always raises")
        for form, write in forms.items() if solved else ():
            verdicts = pool.map(verdict, solved, map(write, solved))
            failed = [
                (item["task_id"], next(filter(None, verdict.errors), verdict.outcome))
                for item, verdict in zip(solved, verdicts, strict=True)
                if not all(verdict.passed)
            ]
            print(
                f"{form:>20}: {len(solved) - len(failed)} of {len(solved)} solutions pass all tests"
            )
            for task_id, error in failed:
                print(f"{'':>22}{task_id}: {error}")
            good = good and not failed
    return good


def _delegated(item: dict) -> list[str]:
    """The reference as a team in which aux is the whole solution and main calls it."""
    entry, tree = item["entry_point"], ast.parse(item["solution"])
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name == entry:
            node.name = "aux"
    main = f"def {entry}(*args, **kwargs):\n    return aux(*args, **kwargs)"
    return [ast.unparse(tree), main]


def main() -> None:
    known = {kind.__name__.lower(): kind for kind in (HumanEval, CoopHumanEval, MBPP)}
    flags = argparse.ArgumentParser(description=__doc__.split("\n\n")[1])
    flags.add_argument("task", choices=known)
    flags.add_argument("--data", help="local file instead of the hub")
    args = flags.parse_args()
    try:
        sys.exit(0 if check(known[args.task](data=args.data)) else 1)
    except ValueError as error:
        flags.error(str(error))


if __name__ == "__main__":
    main()
