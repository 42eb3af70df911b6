"""A judge. A language model behind a server with OpenAI's API reads what the team wrote.

    export JUDGE_URL=http://localhost:8000/v1 JUDGE_MODEL=NAME
    python train.py --reward examples/judge.py:pairwise
    python train.py --reward examples/judge.py:rubric

`pairwise` compares the joint responses to a problem. Each meets two others, once as the first of
the two and once as the second, since judges prefer one place. It earns the share of what it wins,
0 to 1, and half for a tie. `rubric` asks for a number from 0 to 10 for each, by the item's field
`rubric` or by RUBRIC. All questions of a turn are asked at once, and a question that was asked
before is not asked again (examples/endpoint.py).

A rank says which response is better, not how good it is. So the mean of `pairwise` stays near one
half while a team learns, in training and on held-out problems, and a greedy response alone gets one
half. To see progress, evaluate with a reward that is not a rank, such as `eval.py --reward
examples/judge.py:rubric`, or the task's own.
"""

import functools
import itertools
import os
import re
import sys

from examples.endpoint import Endpoint
from policies import Mistake

COMPARE = "You compare two answers to a problem. Answer with one letter: A, B, or T for a tie."
RATE = "You rate an answer to a problem by a rubric. Answer with one whole number from 0 to 10."
RUBRIC = "Is the answer right, complete, clear and short?"


def pairwise(calls):
    """Return the share of its comparisons that each joint response wins."""
    groups = {}  # numbers of the calls, by problem
    for number, (item, _) in enumerate(calls):
        groups.setdefault(problem(item), []).append(number)
    questions = []
    pairs = []
    for text, numbers in groups.items():
        if len(numbers) > 1:
            for first, second in itertools.pairwise([*numbers, numbers[0]]):
                pairs.append((first, second))
                answers = f"Answer A:\n{joined(calls[first])}\n\nAnswer B:\n{joined(calls[second])}"
                questions.append(f"{text}\n\n{answers}")
    scores = [0.0] * len(calls)
    verdicts = asked(
        COMPARE, questions, r"^\W*(?:Answer\W+)?(A tie|[ABT])\b(?! (?!is )\w)"
    )  # A may be an article
    for (first, second), verdict in zip(pairs, verdicts, strict=True):
        wins = {"A": 1.0, "B": 0.0}.get(verdict, 0.5)
        scores[first] += wins / 2
        scores[second] += (1 - wins) / 2
    compared = set(itertools.chain(*pairs))
    return [score if number in compared else 0.5 for number, score in enumerate(scores)]


def rubric(calls):
    """Return a tenth of the judge's number for each joint response, 0 where it gives none."""
    questions = []
    for item, texts in calls:
        wanted = item.get("rubric", RUBRIC)
        questions.append(f"{problem(item)}\n\nAnswer:\n{joined((item, texts))}\n\nRubric: {wanted}")
    return [min(int(number or 0), 10) / 10 for number in asked(RATE, questions, r"(\d{1,3})")]


pairwise.maximum = rubric.maximum = 1.0
pairwise.batch = rubric.batch = True


def asked(system, questions, pattern):
    """Return what the pattern finds in each answer, after its thoughts: a text or None."""
    answers = endpoint().ask_all(system, questions)
    found = [re.search(pattern, answer.rpartition("</think>")[2]) for answer in answers]
    if answers and not any(found):
        print(f"warning: the judge decides nothing: {answers[0]!r:.80}", file=sys.stderr)
    return [match and match[1] for match in found]


def problem(item):
    """Return what the judge reads of an item, which must not be its solution."""
    if "prompt" not in item:
        raise Mistake("a judge reads an item's field prompt, and an item has none")
    return f"Problem:\n{item['prompt']}"


def joined(call):
    _, texts = call
    return "\n\n".join(f"Part {agent + 1}:\n{text}" for agent, text in enumerate(texts))


@functools.cache
def endpoint():
    try:
        return Endpoint(os.environ["JUDGE_URL"], os.environ["JUDGE_MODEL"])
    except KeyError as error:
        raise Mistake(
            f"a judge needs {error} in the environment: JUDGE_URL, JUDGE_MODEL"
        ) from error
