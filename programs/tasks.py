"""HumanEval, CoopHumanEval and MBPP: the paper's coding problems (arXiv 2508.04652).

Their rows hold a prompt (a signature with its docstring), the entry_point that it defines, and a
test: a function check(candidate) with assertions. programs/items.py turns rows into items.
"""

import functools
import re
from typing import ClassVar

from programs.extraction import helper_names
from programs.feedback import MODES, configured
from programs.items import code_item, read_items
from programs.rows import fifths
from programs.schemes import classify
from tasks import Task

# Change the wording here; programs/paper.py has the paper's roles. An answer is a file that the
# prompt begins: a pretrained model continues it where it would explain in a chat. What the authors
# share is one example, and the convention of what a helper says.

DEF = r"(?m)^\s*(?:async\s+)?def\b"  # a line that begins a function

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


def fenced(name: str, *texts: str) -> str:
    """A file in a prompt, its fence still open."""
    return f"{name}.py:\n```python\n" + "\n".join(texts)


class CodeTask(Task):
    """What the tasks share whose responses are Python functions that tests call. Agents 0 to n-2
    write the helpers (aux, aux2, ...), the last one the entry point; one agent alone writes both.
    """

    reward, modes = "code", MODES
    measures: ClassVar = {
        "pass@k": "metric/pass",
        "coop_rate": "cooperation",  # the paper's: how often the bonus is earned at all
        "metric/coop": "metric/coop",
        "accuracy@k": "tests",
    }
    bonuses: ClassVar = {"cooperation": "tests"}
    signs = "programs.signs.SIGNS"

    def __init__(self, data: str | None = None, num_agents: int = 2, feedback=None):
        super().__init__(data, num_agents)
        self.helpers, self.tell = helper_names(num_agents), feedback

    @classmethod
    def teller(cls, args):
        """The function of programs/feedback.py with the run's flags."""
        return configured(args.feedback, args.feedback_tests, args.expert_url, args.expert_model)

    def scheme(self, item: dict, responses: list[str]) -> str:
        return classify(responses, item["entry_point"])

    def ask(self, text: str) -> dict:
        """An item without tests, of a question, or of a signature with its docstring."""
        if not re.search(DEF, text):
            text = f'def solve(xs):\n    """{text}"""\n'
        names = re.findall(rf"{DEF}\s+(\w+)", text)
        if not names:
            raise ValueError("--ask of a code task: a question, or a signature, def name(...): ...")
        return {"prompt": text, "entry_point": names[-1], "setup": "", "tests": []}


class HumanEval(CodeTask):
    """openai/openai_humaneval: 164 problems, with reference solutions.

    `ranges` are the rows of each split: train and dev are the training and the in-training
    evaluation split of the paper, test is what its evaluation used. A local file with another
    number of rows is divided in its own order: the last fifth is test, the fifth before it dev.
    """

    stop = "``"  # of the fence that ends a file; a tokenizer may cut the three apart
    rows = 164
    hub = ("openai/openai_humaneval", None, "test")  # name, configuration, split
    ranges: ClassVar = {"train": (33, 133), "dev": (0, 32), "test": (133, 164)}

    @functools.cached_property
    def problems(self) -> list[dict]:
        """Every item of every split, in the order of its source; ValueError names a bad row."""
        return read_items(self.data, self.hub, code_item)

    def items(self, split: str) -> list[dict]:
        published = len(self.problems) == self.rows
        cut = slice(*self.ranges[split])
        return self.problems[cut] if published else fifths(self.problems, split)

    def observe(self, agent: int, item: dict, history: list[tuple[str, str]]) -> str:
        """The problem, and the agent's file as far as it is written. At later turns its own
        responses follow, each with what it was told, and its file once more."""
        files = {f"helper{name[3:]}": name for name in self.helpers}
        if self.num_agents == 1:
            intro, shown = _ALONE, [fenced("main", _HELPER, _MAIN)]
        else:
            writes = (f"One writes {file}.py with the function `{files[file]}`." for file in files)
            names = ", ".join(f"`{name}`" for name in self.helpers)
            intro = _TOGETHER.format(count=self.num_agents, helpers=" ".join(writes), names=names)
            shown = [fenced("helper", _HELPER), fenced("main", "from helper import aux\n", _MAIN)]
        example = _EXAMPLE + "\n" + "".join(f"{file}```\n\n" for file in shown)
        problem = "### Program 2\n\n" + item["prompt"].strip("\n") + "\n\n"
        prompt = f"{intro}{_CONVENTION}\n\n### Program 1\n\n{example}{problem}"
        if self.num_agents == 1:
            begun = fenced("main", "")
        elif agent < self.num_agents - 1:
            begun = fenced(list(files)[agent], "")
        else:
            imports = [f"from {file} import {name}" for file, name in files.items()]
            begun = fenced("main", *imports, "", "")
        for response, feedback in history:
            prompt += begun + response.strip("\n") + "\n```\n\n"
            prompt += (f"{feedback}\n\n" if feedback else "") + "Revised: "
        return prompt + begun

    def feedback(self, item: dict, responses: list[str]) -> list[str]:
        return (self.tell or configured("tests"))(item, responses)


class CoopHumanEval(HumanEval):
    """OpenMLRL/CoopHumanEval: 82 problems that leave something to divide, without solutions."""

    rows = 82
    hub = ("OpenMLRL/CoopHumanEval", None, "test")
    ranges: ClassVar = {"train": (0, 50), "dev": (50, 66), "test": (66, 82)}


class MBPP(HumanEval):
    """The sanitized MBPP of google-research-datasets: 427 problems, with reference solutions.

    Its rows (prompt, code, test_list) are brought to HumanEval's form. The authors did so too, but
    their copy, OpenMLRL/MBPP, leaves out the parameters and has tests that nothing can pass. The
    hub's test split comes first, as in theirs: train and dev are their rows, test is its rest.
    """

    rows = 427
    hub = ("google-research-datasets/mbpp", "sanitized", "test+train+validation+prompt")
    ranges: ClassVar = {"train": (15, 65), "dev": (0, 15), "test": (65, 257)}
