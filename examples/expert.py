"""Feedback of a larger model, an expert, which edits each agent's own function.

    python train.py @recipes/humaneval-2turns.args --task-arg expert_url=URL expert_model=NAME

It goes around any task of functions, as in `class Mine(ByExpert, MBPP)`. The expert reads the
problem and the team's functions, never a test, a verdict or the reward. It is asked to show no
author another author's code. --feedback tests or plain is that of the task.
"""

import json

import tasks
from examples.endpoint import Endpoint
from policies import Mistake
from programs.feedback import authored
from programs.teams import team_parts

EDIT = 2_000  # characters of an edit
INSTRUCTIONS = """\
You are an expert reviewer of Python programs. The functions below are parts of one program. Each
was written by another author, and no author sees what the others wrote. Judge them together, then
suggest to each author an edit of that author's own function: corrected code, or what to change in
which line. Do not show an author another author's code. Answer with one JSON object and nothing
else. Its keys are {keys}; each value is a string, empty if that function is good as it is."""


class ByExpert:
    def __init__(self, *given, feedback="expert", expert_url=None, expert_model=None, **options):
        if feedback != "expert":
            options["feedback"] = feedback
        super().__init__(*given, **options)
        if feedback == "expert":
            if not (expert_url and expert_model):
                raise Mistake(
                    "the expert needs --task-arg expert_url=URL expert_model=NAME: a server with "
                    "OpenAI's chat completions"
                )
            endpoint = Endpoint(expert_url, expert_model)
            self.tell = lambda item, responses: edits(endpoint, item, responses)


class HumanEval(ByExpert, tasks.HumanEval):
    pass


class CoopHumanEval(ByExpert, tasks.CoopHumanEval):
    pass


def edits(endpoint, item, responses):
    """Return the expert's edits of each agent's functions."""
    team = team_parts(item, responses)
    texts = responses * len(team) if len(responses) == 1 else responses
    functions = {}
    for (name, part), text in zip(team.items(), texts, strict=True):
        functions[name] = part.source or text  # all of it where no code was found
    parts = [f"Problem:\n{item['prompt']}"]
    parts += [f"Function {name}:\n{code}" for name, code in functions.items()]
    system = INSTRUCTIONS.format(keys=", ".join(map(json.dumps, functions)))
    text = endpoint.ask(system, "\n\n".join(parts))
    try:
        answers = dict(json.loads(text[text.find("{") : text.rfind("}") + 1]))
    except (ValueError, RecursionError):
        answers = {}  # it did not answer in JSON
    messages = []
    for names in authored(team, responses):
        messages.append("\n\n".join(edit(name, answers.get(name)) for name in names))
    return messages


def edit(name, answer):
    if not isinstance(answer, str) or not answer.strip():
        return f"No edit of {name}."
    text = answer.strip().encode(errors="replace").decode()  # prompts hold no half characters
    if len(text) > EDIT:
        text = f"{text[:EDIT]}\n(cut)"
    return f"An expert's edit of {name}:\n{text}"
