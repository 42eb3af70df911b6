"""The writing tasks and rewards: python -m pytest tests/test_writing.py"""

import itertools
import math
import time

import numpy as np
import pytest
from helpers import total

import rewards
from programs.texts import SEPARATOR, has_end, words
from tasks import Arxiv, Tldr

TASKS = ("tldr", "arxiv")
STRICT = {task: getattr(rewards, task) for task in TASKS}
PAPER = {task: getattr(rewards, f"{task}_paper") for task in TASKS}


def score(reward, source, texts):
    item = {"prompt": source, "abstract_text": source}
    texts = list(texts)
    if not hasattr(reward, "batch"):
        return reward(item, texts)
    [parts] = reward([(item, texts)], lambda asked: [unigrams(*question) for question in asked])
    return parts


# --- words ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text, expected",
    [
        (" \n\t… 😞🙏🐍 -- !!", ""),
        ("DON'T stop, it\u2019s 5 o'clock: dogs' bones", "don't stop it's 5 o'clock dogs bones"),
        ("$40,000 at 4.5% by 10.30", "40,000 at 4.5 by 10.30"),
        ("two-year-old foo_bar == `x1`", "two year old foo_bar x1"),
        ("Straße, NAI\u0308VE नमस्ते Привет 你好", "straße nai\u0308ve नमस्ते привет 你好"),
        ("see https://a.org/b?c=d,e. or (www.x.org)!", "see https://a.org/b?c=d,e or www.x.org"),
        ("👩‍💻codes❤️love", "codes love"),
    ],
)
def test_words(text, expected):
    assert words(text) == expected.split()


@pytest.mark.parametrize(
    "piece", [".", "http://", "\n ", "a\u0301", "1,1", "it's'", " - ", "word, ", "\n\n- "]
)
def test_enormous_texts_take_linear_time(piece):
    text = piece * 20_000 + "a"
    start = time.process_time()
    for reward in (*STRICT.values(), *PAPER.values()):
        assert 0 <= total(score(reward, text, (text, text))) <= 1
    assert time.process_time() - start < 5  # quadratic time would be many minutes


# --- the paper's rewards --------------------------------------------------------------------------


def numbers(text):
    return list(map(float, text.split()))


def sized(ratio):
    """Two texts, and the ratio of their lengths."""
    text = " ".join(f"word{i:03}" for i in range(130))
    return [
        text.ljust(round(len(text) / min(ratio, 1)), "z"),
        text.ljust(round(len(text) * max(ratio, 1)), "y"),
    ]


def varied(ratio):
    """Two texts of one length, and the ratio of their numbers of different words."""
    return [" ".join(f"a{i % round(size):02}" for i in range(200)) for size in (40, 40 * ratio)]


def varied_and_longer(ratio):
    first, second = varied(ratio)
    return [first, second + "z" * round(0.8 * len(first))]


@pytest.mark.parametrize(
    "task, part, texts, ratios, values",
    [
        ("tldr", "length", sized, "0.79 0.90 1.2 1.4 1.8 4.1 5.1", "0 0 0.2 0.6 1 0.5 0"),
        ("arxiv", "length", sized, "0.79 0.90 1.2 1.4 1.8", "0 0.5 1 0.5 0"),
        ("tldr", "vocabulary", varied_and_longer, "1.2 1.5 1.8 3.0", "0 0.143 0.357 0.5"),
        ("arxiv", "vocabulary", varied, "0.4 0.6 1.3 1.5 1.8", "0 0.25 0.5 0.25 0"),
    ],
)
def test_bands(task, part, texts, ratios, values):
    for ratio, value in zip(numbers(ratios), numbers(values), strict=True):
        parts = PAPER[task]({}, texts(ratio))
        assert parts[part] == pytest.approx(value, abs=0.02)
        assert value or not parts["consistency"]  # a level that fails ends the count


# --- the rewards that ask a language model --------------------------------------------------------


def unigrams(prompt, text):
    """A language model that can be computed by hand: a word costs 3 nats if the prompt has it, else
    6, and 2 if the one before it is the one before it in the prompt, too."""
    known, found = words(prompt), words(text)
    pairs = set(itertools.pairwise(known))
    costs = [3.0 if word in known else 6.0 for word in found]
    for place, pair in enumerate(itertools.pairwise(found), 1):
        costs[place] = 2.0 if pair in pairs else costs[place]
    return -np.array(costs)


POST = "My bike was stolen from the yard on Monday. A camera shows a man with a red van."
FIRST = "A red van took my bike away from us."
SECOND = "On Monday someone came with a red van; a camera saw the man who took my bike away."


def test_the_parts_by_hand():
    """Both texts are shorter than a window, so their least window is all of them."""
    logistic = 1.0
    for text, costs in ((FIRST, "322632636"), (SECOND, "326632223263366326")):  # of each word
        assert "".join(f"{-cost:.0f}" for cost in unigrams(POST, text)) == costs
        mean = sum(map(int, costs)) / len(costs)  # without the post every word costs 6 nats
        logistic *= 1 / (1 + math.exp((-7 + (mean + 6) / 2) / 0.5))
        logistic *= 1 / (1 + math.exp((0.16 - (6 - mean) / 6) / 0.05))
    # of 6 + 15 runs, "with a red van" is the post's and "took my bike away" the partner's
    original = 1 - (2 / 21) ** 2
    parts = score(rewards.tldr, POST, (FIRST, SECOND))
    assert parts["writing"] == pytest.approx(3 * math.sqrt(logistic) * original)
    writing, *factors = parts.values()
    assert writing == pytest.approx(3 * math.prod(factors))
    assert factors[2:] == pytest.approx([original, 1, 1])
    questions = rewards._questions(POST, rewards.TLDR_QUESTION, [FIRST, SECOND])
    assert len(set(questions)) == 4  # two questions a text
    assert len({prompt for prompt, _ in questions}) == 2  # and two prompts a source


def test_the_least_window_of_a_text_counts_for_half():
    """24 words that the source does not explain, among many that it does."""
    known = [f"w{n}" for n in range(200)]
    good = " ".join(known[::3])  # no two of them stand together
    alien = " ".join(f"x{n}" for n in range(24))
    for text, mean, least in ((good, 3, 3), (f"{good} {alien}", 3 * 67 / 91, 0)):
        given, without = unigrams(" ".join(known), text), unigrams("none", text)
        _, grounded = rewards._fluent_and_grounded(given, without)
        explained = (mean + least) / 2 / 6
        assert grounded == pytest.approx(1 / (1 + math.exp((0.16 - explained) / 0.05)))


def numbered(start, end):
    return " ".join(f"w{n}" for n in range(start, end)) + "."


@pytest.mark.parametrize("task, size, longer", [("tldr", 20, 60), ("arxiv", 200, 400)])
def test_each_part_falls_for_what_it_is_about(task, size, longer):
    source = " ".join(f"w{n} and" for n in range(3 * size))
    one, two = numbered(0, size), numbered(size, longer)
    good = score(STRICT[task], source, (one, two))
    assert all(value > 0.95 for value in good.values()), good
    for part, texts in {
        "grounded": (one, two.replace("w", "x")),
        "original": (one, one + two[: len(one)]),
        "finished": (one, two[:-1]),
        "lengths": (one[:20], two),
    }.items():
        parts = score(STRICT[task], source, texts)
        assert parts[f"metric/{part}"] < 0.97 * good[f"metric/{part}"]
        assert total(parts) < total(good)
    for nothing in (("", two), (one, " \n")):
        assert total(score(STRICT[task], source, nothing)) == 0


@pytest.mark.parametrize(
    "text", ["It works.", 'He said "no."', "_Do._", "Is it?", "End…", "完了。」", "अंत।"]
)
def test_an_end_is_told_in_any_script(text):
    assert has_end(text)
    assert not has_end(text[:2] + ",")
    assert not has_end(text[:2] + " 50%")


# --- one agent for both parts ---------------------------------------------------------------------


@pytest.mark.parametrize("reward", [*STRICT.values(), *PAPER.values()])
def test_a_single_agent_is_scored_by_its_two_parts(reward):
    both = score(reward, POST, (FIRST, SECOND))
    assert score(reward, POST, [f"{FIRST}{SEPARATOR}{SECOND}"]) == both
    for text in (f"{FIRST}\n\n{SECOND}", f"{FIRST}{SEPARATOR}{SECOND}{SEPARATOR}", SEPARATOR):
        assert score(reward, POST, [text]) == dict.fromkeys(both, 0)
    with pytest.raises(ValueError, match="1 or 2 agents"):
        score(reward, POST, (FIRST, SECOND, SECOND))


# --- the tasks ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [Tldr, Arxiv])
def test_observations(kind):
    item, task = {kind.field: f"{POST} TL;DR:"}, kind()
    one, two = (task.observe(agent, item, []) for agent in (0, 1))
    assert one != two
    assert one.count(POST) == two.count(POST) == 1
    again = task.observe(0, item, [("my text", "what I was told")])
    assert again.startswith(f"{one} my text\n\nwhat I was told ")
    assert kind(num_agents=1).observe(0, item, []).count(SEPARATOR) == 1
