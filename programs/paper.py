"""The coding tasks with the paper's roles (arXiv 2508.04652): helpers have to return useful data,
main may call them and has its signature. `--task programs.paper.HumanEval`, and so on.
"""

from collections.abc import Iterable

from programs import tasks
from programs.items import signature

RULES = "Write only Python code: no markdown, no tests, no examples, no explanation."

_END = """
    # your code here
    return result

Your code:
"""
WORDING = {
    "helper": """\
{problem}

Several programmers solve this problem together, and none of them sees what another one writes.
You write the helper function `{name}`.
The programmer of `{entry}` will call it, so let it return data that is useful for the solution.
{rules}
Write `{name}` and nothing else, in this form:

def {name}(...):"""
    + _END,
    "main": """\
{problem}

Several programmers solve this problem together, and none of them sees what another one writes.
You write the function `{entry}`, and you have access to {calls}.
You can call what helps you and keep the returned value in a variable.
Do not define {helpers} yourself.
{rules}
Write `{entry}` and nothing else, with exactly this signature:

{signature}"""
    + _END,
    "single": """\
{problem}

Solve this problem with two functions.
The helper `aux` returns data that is useful for the solution, and `{entry}` calls `aux`.
{rules}
Write both functions and nothing else, in this form:

def aux(...):
    # your code here
    return result

{signature}"""
    + _END,
}

_AGAIN = """\
{response}

{said}Revise {names}.
{rules}

Your code:
"""


class Roles:
    stop = ""

    def observe(self, agent: int, item: dict, history: list[tuple[str, str]]) -> str:
        """The problem and the agent's role, then its own responses with what it was told."""
        entry = item["entry_point"]
        team = [*self.helpers, entry]
        own = team if self.num_agents == 1 else [team[agent]]
        role = "single" if own == team else "main" if own == [entry] else "helper"
        prompt = WORDING[role].format(
            problem=item["prompt"].strip("\n"),
            entry=entry,
            name=own[0],
            calls=_and(f"`{helper}(...)`" for helper in self.helpers),
            helpers=_and(f"`{helper}`" for helper in self.helpers),
            signature=signature(item["prompt"], entry),
            rules=RULES,
        )
        names = _and(f"`{name}`" for name in own)
        for response, feedback in history:
            text, said = response.strip("\n"), f"{feedback}\n\n" if feedback else ""
            prompt += _AGAIN.format(response=text, said=said, names=names, rules=RULES)
        return prompt


class HumanEval(Roles, tasks.HumanEval):
    pass


class CoopHumanEval(Roles, tasks.CoopHumanEval):
    pass


class MBPP(Roles, tasks.MBPP):
    pass


def _and(names: Iterable[str]) -> str:
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last
