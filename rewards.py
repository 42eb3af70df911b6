"""Score joint responses: what a reward is, and the rewards of the paper's tasks.

A reward scores one joint response.

    def reward(item: dict, responses: list[str]) -> float | dict[str, float]

`reward.maximum` is its largest value, which normalised returns need. Whether an episode earns it
once or at each turn, a task says (`Task.per_episode`). The values of a dict are summed and logged
as reward/<key>. A key that only some responses have counts as 0 in the others. Two kinds of keys
differ.

- "metric/..." does not count towards the sum. It is logged under its own name.
- "agent/<i>" goes to agent i alone, on top of the sum. It is logged as agent/<i>/reward. The logged
  return is then the sum plus the mean of the agents' own rewards. `maximum` limits this return.

An empty dict means that this turn is not scored. A reward scores all joint responses to the same
prompts or none. A response that earns nothing gets 0.

A reward has to be pure. Several threads call it at once, equal joint responses to a problem are
scored once, and a resumed run calls it again. It ends the run (training/reward_runner.py) if it
raises, hangs, exceeds its maximum or returns a number that is not finite.

A reward that sees them all has `reward.batch = True`. It is called once a turn, with a list of the
distinct (item, responses), problem by problem, and returns a list. So it may rank the responses to
a problem, or ask a model in one batch. With a second argument it gets `likelihoods(questions)`, for
a list of (prompt, text). That returns an array for each, the log-probabilities of the text's tokens
after the prompt. They are from the team's frozen base. The reward runs outside of the threads, with
its own limits of time.

--reward takes a name of the table at the end, a dotted path (my_pkg.my_rewards.rhymes) or
file.py:function. The names have two forms.

- A bare name (code, tldr) is the strict reward. It is the one to train with.
- <name>_paper follows the paper's description. Its scores compare with the paper's figures.

1. The rewards of code tasks: code, code_paper.
2. The rewards of writing tasks: tldr, arxiv.
3. The writing rewards of the paper: tldr_paper, arxiv_paper. examples/released.py has the
   rewards of the authors' code.
4. The table of names.
"""

import ast
import itertools
import math
import re
from dataclasses import dataclass

from programs.extraction import share_of
from programs.teams import Team, contributions, run, share_passed, team_parts, used_helpers
from programs.texts import (
    ARXIV_LENGTHS,
    STOP_WORDS,
    TLDR_LENGTHS,
    TRANSITIONS,
    Lengths,
    copied_share,
    has_end,
    length_score,
    ramp,
    split,
    words,
)

Scores = dict[str, float]  # the parts of a reward
EQUAL = 1e-9  # the largest difference between rewards that are equal but for rounding

# --------------------------------------------------------------------------------------------------
# 1. Code: Python functions of several agents, run on the item's tests
#
# Each level counts only if the levels before it hold. p is the fraction of the tests that pass.
#
# | level            | `code`, the strict default            | `code_paper`                       |
# |------------------|---------------------------------------|------------------------------------|
# | helpers defined  | 0.4 x share that return or are needed | 0.4 x share with the word return   |
# | main defined     | 0.6 if it returns                     | 0.6 if it has the word return      |
# | syntax           | 0.35 if all of it compiles            | 0.5 if all of it compiles          |
# |                  | 0.15 x share of the text that is code |                                    |
# | tests            | 1.0 p                                 | 1.0 p                              |
# | cooperation      | 1.5 c if p = 1                        | 0.5 if p > 0 and "aux(" is in main |
# |                  | (1 - p) c if p < 1                    | 1.0 more if main is not a wrapper  |
# |                  |                                       | 0.5 less if all calls are bare     |
#
# c is defined in the docstring of `code`.
#
# `code_paper` is the reward of arXiv 2508.04652. docs/rewards.md says where the
# released code differs.
# --------------------------------------------------------------------------------------------------

HELPERS = 0.4  # structure of the helpers
MAIN = 0.6  # structure of main
SYNTAX = 0.5
TEXT = 0.15  # part of SYNTAX, for responses that are code as a whole
TESTS = 1.0
COOPERATION = 1.5
COMPONENTS = ("structure", "syntax", "tests", "cooperation")
METRICS = (
    "metric/pass",
    "metric/tests",
    "metric/aux_called",
    "metric/load_bearing",
    "metric/coop",
)


def code(item: dict, responses: list[str]) -> Scores:
    """Return the levels of the strict reward, 0 to 4 in all.

    Cooperation rewards a part for what the team loses without it. The team passes a fraction p of
    the tests. With a stand-in for the part it passes at most a fraction q. Then the part adds
    `(p - q) / (1 - q)`. For one helper, c is the smaller of what the helper adds and what main
    adds. For several helpers, c is the mean.

    A stand-in is a short function that knows nothing of any problem. The function of that name
    that a partner wrote is a stand-in, too. A program that passes all tests is also observed. Its
    helper adds nothing if what it gave in another test does as well. Main adds nothing if its
    helper's value is its answer. (This is a difference reward, Wolpert and Tumer 2002. COMA,
    Foerster et al. 2018, calls a stand-in a default action.)

    Some tricks are not caught. Main may assert that its helper agrees, or undo the helper's work.
    The answer may travel by a side effect. docs/rewards.md lists them.
    """
    team = team_parts(item, responses)
    *helpers, _ = team
    scores = levels_of(item, team, lambda part: part.returns)
    if scores["syntax"]:
        scores["syntax"] -= TEXT * (1 - share_kept(team, responses))
        scores["metric/aux_called"] = len(used_helpers(team)) / len(helpers)
    p = scores["tests"]
    if not p:
        return scores
    adds = contributions(item, responses, team, p)
    # A helper that adds something and returns nothing changes its argument.
    in_place = [name for name in helpers if adds[name] and not team[name].returns]
    scores["structure"] += HELPERS * len(in_place) / len(helpers)
    c, metrics = division(adds)
    scores["cooperation"] = cooperation(p, c)
    if p == 1:
        scores |= metrics
    return scores


code.maximum = 4.0


def division(adds: Scores) -> tuple[float, Scores]:
    """Return c, and what is logged of a program that passes all tests."""
    *helpers, main = adds
    needed = [name for name in helpers if adds[name]]
    c = sum(min(adds[name], adds[main]) for name in helpers) / len(helpers)
    metrics = {
        "metric/load_bearing": len(needed) / len(helpers),
        "metric/coop": float(c == 1),
    }
    return c, metrics


def cooperation(p: float, c: float) -> float:
    """Return the reward on top of p.

    With p < 1, both together are `1 - (1 - p) (1 - c)`. That is less than the 1.0 of a right answer
    without cooperation. With p = 1, c is the fraction of the helpers that are needed, or 0 if main
    is not needed.
    """
    return c * (COOPERATION if p == 1 else TESTS - p)


def code_paper(item: dict, responses: list[str]) -> Scores:
    """Return the paper's reward, 0 to 4. Its weaknesses are kept, such as "aux(" in a comment."""
    team = team_parts(item, responses)
    scores = levels_of(item, team, lambda part: bool(re.search(r"return\s", part.raw)))
    del scores["metric/coop"], scores["metric/load_bearing"]  # it does not measure them
    *helpers, main = team
    written = team[main].raw
    call = rf"\b({'|'.join(helpers)})\s*\("
    calls = len(re.findall(call, written))
    if scores["tests"] and calls and any(team[name].raw for name in helpers):
        wrapper = _looks_like_wrapper(team[main].node)
        bare = len(re.findall(rf"^\s*{call}", written, re.MULTILINE)) == calls
        scores["cooperation"] = 0.5 + 1.0 * (not wrapper) - 0.5 * bare
        scores["metric/aux_called"] = 1.0
    return scores


code_paper.maximum = 4.0


def levels_of(item: dict, team: Team, is_defined) -> Scores:
    """Return structure, syntax and tests, each 0 if the one before does not hold.

    is_defined(part) says whether a part counts as defined.
    """
    scores = dict.fromkeys([*COMPONENTS, *METRICS], 0.0)
    *helpers, main = map(is_defined, team.values())
    share_defined = sum(helpers) / len(helpers)
    scores["structure"] = HELPERS * share_defined + MAIN * main
    if not main or any(part.broken for part in team.values()):
        return scores
    scores["syntax"] = SYNTAX
    share = share_passed(run(item, team))
    scores["tests"] = TESTS * share
    scores["metric/tests"] = share
    scores["metric/pass"] = float(share == 1)
    return scores


def share_kept(team: Team, responses: list[str]) -> float:
    """Return the fraction of the text that the functions are made of, averaged over agents."""
    kept = [part.kept for part in team.values()]
    if len(responses) == 1:  # one agent wrote all functions
        kept = [frozenset().union(*kept)]
    return sum(map(share_of, responses, kept)) / len(responses)


def _looks_like_wrapper(definition: ast.stmt | None) -> bool:
    """Apply the paper's rule, by lines.

    A wrapper has no lines, or `return ... aux ...` alone, or `x = aux(...)` and then `return x`. A
    lambda counts as one line that returns its body.
    """
    if isinstance(definition, ast.Assign) and isinstance(definition.value, ast.Lambda):
        return "aux" in ast.unparse(definition.value.body)
    if not isinstance(definition, ast.FunctionDef):
        return False
    documented = ast.get_docstring(definition) is not None
    match [ast.unparse(statement) for statement in definition.body[documented:]]:
        case []:
            return True
        case [line]:
            return line.startswith("return ") and "aux" in line
        case [first, last]:
            name, _, value = first.partition(" = ")
            return value.startswith("aux") and last == f"return {name}"
    return False


# --------------------------------------------------------------------------------------------------
# 2. Writing: a language model that reads the two texts (questions)
#
#    3 sqrt(fluent_1 grounded_1 fluent_2 grounded_2) original lengths finished
#
# c is the log-probability per token of a text after its source, and u without the source.
#
#    `fluent`    `(c + u) / 2`.
#    `grounded`  `(c - u) / -u`, the fraction of a text's information that its source explains.
#                `c - u` is the mean of the whole text's value and that of its worst 24 tokens.
#    `original`  `1 - s^2`. s is the fraction of four-word runs that stand in the source, in the
#                partner's text, or elsewhere in the same text.
#    `lengths`   1 at the wanted lengths, less in proportion. With `tldr` these are at least 8 words
#                each, and the second 1.6 times as long as the first. With `arxiv` they are at least
#                128 words each, and the longer at most 1.3 times the shorter.
#    `finished`  0.7 for each text that was cut off, and so does not end with a full stop.
#
# Sigmoids make fluent and grounded smooth, so that a weak model has a slope to climb.
#
# docs/rewards.md has the purpose of each part and its source, and how the rewards rank people's
# texts.
# --------------------------------------------------------------------------------------------------

FLUENT = (-7.0, 0.5)  # middle and width of its sigmoid, nats per token
GROUNDED = (0.16, 0.05)  # middle and width of its sigmoid, a fraction
WINDOW = 24  # tokens of the least grounded part of a text
CUT_OFF = 0.7  # factor for each text that was cut off
TLDR_QUESTION = "Summarize this text."
ARXIV_QUESTION = "Write the introduction of the paper with this abstract."


def tldr(calls: list[tuple], likelihoods) -> list[Scores]:
    """Return the strict reward of each concise summary and longer one, 0 to 3."""
    return _read_texts("prompt", TLDR_QUESTION, TLDR_LENGTHS, calls, likelihoods)


def arxiv(calls: list[tuple], likelihoods) -> list[Scores]:
    """Return the strict reward of each introduction in two halves, 0 to 3."""
    return _read_texts("abstract_text", ARXIV_QUESTION, ARXIV_LENGTHS, calls, likelihoods)


tldr.maximum = arxiv.maximum = 3.0
tldr.batch = arxiv.batch = True


def _read_texts(
    field: str, question: str, lengths: Lengths, calls: list[tuple], likelihoods
) -> list[Scores]:
    """Ask about all texts at once, and score each pair."""
    asked = [_questions(item[field], question, responses) for item, responses in calls]
    answers = iter(likelihoods(list(itertools.chain(*asked))))
    scores = []
    for (item, responses), questions in zip(calls, asked, strict=True):
        own = [next(answers) for _ in questions]
        scores.append(_score_texts(item[field], lengths, responses, own))
    return scores


def _questions(source: str, question: str, responses: list[str]) -> list[tuple]:
    """Return (prompt, text) of each text with its source and without. Nothing if one is empty."""
    texts = [text.strip() for text in split(responses) or ()]
    if not all(texts):
        return []
    prompts = (f"{source.strip()}\n\n{question}", question)
    return [(prompt, text) for text in texts for prompt in prompts]


def _score_texts(source: str, lengths: Lengths, responses: list[str], answers: list) -> Scores:
    factors = dict.fromkeys(("fluent", "grounded", "original", "lengths", "finished"), 0.0)
    if answers:
        texts = split(responses)
        first = _fluent_and_grounded(*answers[:2])
        second = _fluent_and_grounded(*answers[2:])
        factors["fluent"] = math.sqrt(first[0] * second[0])
        factors["grounded"] = math.sqrt(first[1] * second[1])
        factors["original"] = 1 - copied_share(source.strip(), *texts) ** 2
        factors["lengths"] = length_score(lengths, *texts)
        factors["finished"] = CUT_OFF ** sum(not has_end(text) for text in texts)
    parts = {"writing": 3 * math.prod(factors.values())}
    for name, value in factors.items():
        parts[f"metric/{name}"] = value
    return parts


def _fluent_and_grounded(given, without) -> tuple[float, float]:
    """Return how fluent a text is, and how much of it the source explains, each 0 to 1.

    `given` has the log-probabilities of its tokens with the source, `without` those without it.
    """
    import numpy as np

    if not len(given):
        return 0.0, 0.0
    gain = given - without
    width = min(WINDOW, len(gain))
    least = np.convolve(gain, np.ones(width) / width, "valid").min()
    information = max(-without.mean(), 0.1)
    fluent = (given.mean() + without.mean()) / 2
    explained = (gain.mean() + least) / 2 / information
    return _sigmoid(float(fluent), *FLUENT), _sigmoid(float(explained), *GROUNDED)


def _sigmoid(value: float, middle: float, width: float) -> float:
    return 1 / (1 + math.exp(min((middle - value) / width, 700.0)))


# --------------------------------------------------------------------------------------------------
# 3. Writing: the rewards of arXiv 2508.04652, as the paper describes them and as its code has them
#
# Both have four levels. A level that fails ends the count, and earlier levels keep their reward.
# Each level has a part with a maximum, and the last level has two parts.
#
#    `structure`    0.5  Both responses have a number of words within limits.
#    `length`       1.0  Characters of the second text / characters of the first.
#    `vocabulary`   0.5  Different content words of the second text / those of the first.
#    `coherence`    0.4  `0.4 tau` grows with k, the number of transition categories that occur.
#    `consistency`  0.6  `0.6 min(J, cap) / cap`. J is the Jaccard index of the content words.
#
# Content words are all words but the paper's 106 stop-words. The released code is that of the
# authors' writing experiments since 31 Dec 2025. examples/released.py lists how
# it differs.
#
# These rewards never read the post or the abstract.
# --------------------------------------------------------------------------------------------------


# A ratio scores 1 between the inner two numbers, and 0 outside the outer two.
Band = tuple[float, float, float, float]


@dataclass(frozen=True)
class Levels:
    """The numbers of the four levels of one task."""

    words: tuple[int, int]
    length: Band
    vocabulary: Band
    tau: float  # factor of the logarithm, in the paper's form
    cap: float  # Jaccard index from which consistency is full


TLDR = Levels((8, 256), (1.1, 1.6, 3.2, 5.0), (1.3, 2.0, math.inf, math.inf), 0.6, 0.03)
ARXIV = Levels((128, 256), (0.8, 1.0, 1.3, 1.5), (0.5, 0.7, 1.3, 1.7), 0.4, 0.23)


def tldr_paper(item: dict, responses: list[str]) -> Scores:
    """Return the paper's reward, 0 to 3. Five categories of transitions reach 3."""
    return four_levels(TLDR, as_in_the_paper, responses)


def arxiv_paper(item: dict, responses: list[str]) -> Scores:
    """Return the paper's reward, 0 to 3. Only all categories of transitions reach 3."""
    return four_levels(ARXIV, as_in_the_paper, responses)


tldr_paper.maximum = arxiv_paper.maximum = 3.0


def four_levels(levels: Levels, read, responses: list[str]) -> Scores:
    """Return the parts. `read` returns what as_in_the_paper does."""
    parts = dict.fromkeys(("structure", "length", "vocabulary", "coherence", "consistency"), 0.0)
    texts = split(responses)
    if texts is None:
        return parts
    sizes, vocabularies, tau = read(levels, texts)
    fewest, largest = levels.words
    if not all(fewest <= size <= largest for size in sizes):
        return parts
    parts["structure"] = 0.5

    length_ratio = len(texts[1]) / max(len(texts[0]), 1)
    if not levels.length[0] <= length_ratio <= levels.length[3]:
        return parts
    parts["length"] = 1.0 * _band(length_ratio, levels.length)

    vocabulary_ratio = len(vocabularies[1]) / max(len(vocabularies[0]), 1)
    if not levels.vocabulary[0] <= vocabulary_ratio <= levels.vocabulary[3]:
        return parts
    parts["vocabulary"] = 0.5 * _band(vocabulary_ratio, levels.vocabulary)

    first, second = [vocabulary - STOP_WORDS for vocabulary in vocabularies]
    jaccard = len(first & second) / len(first | second) if first | second else 1.0
    parts["coherence"] = 0.4 * tau
    parts["consistency"] = 0.6 * ramp(jaccard, 0.0, levels.cap)
    return parts


def _band(ratio: float, band: Band) -> float:
    """Return 1 within a band, less towards its two ends."""
    low, first, last, high = band
    if ratio > last:
        return 1.0 - ramp(ratio, last, high)
    return ramp(ratio, low, first)


def as_in_the_paper(levels: Levels, texts: tuple[str, str]):
    """Return the texts' sizes in words, their sets of different words, and tau."""
    listed = [words(text) for text in texts]
    joined = f" {' '.join(listed[0])} | {' '.join(listed[1])} "
    kinds = sum(any(f" {p} " in joined for p in phrases) for phrases in TRANSITIONS.values())
    tau = min(levels.tau * math.log(kinds + 1), 1.0)
    sizes = [len(text_words) for text_words in listed]
    vocabularies = [set(text_words) - STOP_WORDS for text_words in listed]
    return sizes, vocabularies, tau


# --------------------------------------------------------------------------------------------------
# 4. The table of names: --reward
# --------------------------------------------------------------------------------------------------

REWARDS = {
    "code": "rewards.code",
    "code_paper": "rewards.code_paper",
    "tldr": "rewards.tldr",
    "tldr_paper": "rewards.tldr_paper",
    "arxiv": "rewards.arxiv",
    "arxiv_paper": "rewards.arxiv_paper",
}


def largest_return(maximum: float, turns: int, gamma: float) -> float:
    """Return the largest return of an episode of so many scored turns, each of `maximum`.

    The logged returns are shares of it.
    """
    return maximum * sum(gamma**turn for turn in range(turns))


def logged(part: str) -> str:
    """Return the name of a reward's part in metrics and tables."""
    if part.startswith("agent/"):
        return f"{part}/reward"
    return part if part.startswith("metric/") else f"reward/{part}"


def total(parts: Scores, agents: int) -> float:
    """Return the value that the maximum limits: the sum, plus the mean of the agents' own parts."""
    team = 0.0
    agent_sum = 0.0
    for name, value in parts.items():
        if name.startswith("agent/"):
            agent_sum += value
        elif not name.startswith("metric/"):
            team += value
    return team + agent_sum / agents
