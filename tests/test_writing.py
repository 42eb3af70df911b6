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


def score(reward, source: str, texts) -> dict[str, float]:
    item = {"prompt": source, "abstract_text": source}
    texts = list(texts)
    if not hasattr(reward, "questions"):
        return reward(item, texts)
    return reward(item, texts, [unigrams(*asked) for asked in reward.questions(item, texts)])


# --- words ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
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


@pytest.mark.parametrize(
    ("ratio", "tldr", "arxiv"),  # the value of the length; None: nothing else counts
    [
        (0.79, None, None),
        (0.90, None, 0.5),
        (1.20, 0.2, 1.0),
        (1.40, 0.6, 0.5),
        (1.80, 1.0, None),
        (4.10, 0.5, None),
        (5.10, None, None),
    ],
)
def test_bands_of_length(ratio, tldr, arxiv):
    text = " ".join(f"word{i:03}" for i in range(130))
    one = text.ljust(round(len(text) / min(ratio, 1)), "z")
    two = text.ljust(round(len(text) * max(ratio, 1)), "z")
    for task, value in (("tldr", tldr), ("arxiv", arxiv)):
        parts = PAPER[task]({}, [one, two[:-1] + "y"])
        assert parts["length"] == pytest.approx(value or 0.0, abs=0.02)
        assert total(parts) > 0.5 if value else total(parts) == parts["structure"] == 0.5


@pytest.mark.parametrize(
    ("ratio", "tldr", "arxiv"),  # of the numbers of unique words: the value of the vocabulary
    [
        (0.4, 0, 0),
        (0.6, 0, 0.25),
        (1.3, 0, 0.5),
        (1.5, 1 / 7, 0.25),
        (1.8, 5 / 14, 0),
        (3.0, 0.5, 0),
    ],
)
def test_bands_of_vocabulary(ratio, tldr, arxiv):
    first = " ".join(f"a{i % 40:02}" for i in range(200))
    second = " ".join(f"a{i % round(40 * ratio):02}" for i in range(200))
    longer = second + "z" * round(0.8 * len(first))
    assert PAPER["tldr"]({}, [first, longer])["vocabulary"] == pytest.approx(tldr, abs=0.02)
    assert PAPER["arxiv"]({}, [first, second])["vocabulary"] == pytest.approx(arxiv, abs=0.02)


# --- the rewards that ask a language model --------------------------------------------------------


def unigrams(prompt: str, text: str) -> np.ndarray:
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
    first = [3, 2, 2, 6, 3, 2, 6, 3, 6]  # a red van took my bike away from us
    # on Monday someone came with a red van a camera saw the man who took my bike away
    second = [3, 2, 6, 6, 3, 2, 2, 2, 3, 2, 6, 3, 3, 6, 6, 3, 2, 6]
    logistic = 1.0
    for text, costs in ((FIRST, first), (SECOND, second)):
        assert (-unigrams(POST, text)).tolist() == costs
        mean = np.mean(costs)  # without the post every word costs 6 nats
        logistic *= 1 / (1 + math.exp((-7 + (mean + 6) / 2) / 0.5))
        logistic *= 1 / (1 + math.exp((0.16 - (6 - mean) / 6) / 0.05))
    # of 6 + 15 runs, "with a red van" is the post's and "took my bike away" the partner's
    original = 1 - (2 / 21) ** 2
    parts = score(rewards.tldr, POST, (FIRST, SECOND))
    assert parts["writing"] == pytest.approx(3 * math.sqrt(logistic) * original)
    metrics = [value for name, value in parts.items() if name.startswith("metric/")]
    assert parts["writing"] == pytest.approx(3 * math.prod(metrics))
    assert metrics[2:] == pytest.approx([original, 1, 1])
    questions = rewards.tldr.questions({"prompt": POST}, [FIRST, SECOND])
    assert len(set(questions)) == 4  # two questions a text
    assert len({prompt for prompt, _ in questions}) == 2  # and two prompts a source


def test_the_least_window_of_a_text_counts_for_half():
    """24 words that the source does not explain, among many that it does."""
    known = [f"w{n}" for n in range(200)]
    good = known[::3]  # no two of them stand together
    alien = [f"x{n}" for n in range(24)]
    for text, mean, least in ((good, 3, 3), (good + alien, 3 * 67 / 91, 0)):
        given, without = (unigrams(prompt, " ".join(text)) for prompt in (" ".join(known), "none"))
        _, grounded = rewards._fluent_and_grounded(given, without)
        explained = (mean + least) / 2 / 6
        assert grounded == pytest.approx(1 / (1 + math.exp((0.16 - explained) / 0.05)))


def numbered(start: int, end: int) -> str:
    return " ".join(f"w{n}" for n in range(start, end)) + "."


@pytest.mark.parametrize(("task", "size", "longer"), [("tldr", 20, 60), ("arxiv", 200, 400)])
def test_each_part_falls_for_what_it_is_about(task, size, longer):
    source = " ".join(f"w{n} and" for n in range(3 * size))
    one, two = numbered(0, size), numbered(size, longer)
    good = score(STRICT[task], source, (one, two))
    assert all(value > 0.95 for value in list(good.values())[1:]), good
    for spoilt, part in (
        ((one, two.replace("w", "x")), "grounded"),
        ((one, one + two[: len(one)]), "original"),
        ((one, two[:-1]), "finished"),
        ((one[:20], two), "lengths"),
    ):
        parts = score(STRICT[task], source, spoilt)
        assert parts[f"metric/{part}"] < 0.97 * good[f"metric/{part}"], (part, spoilt)
        assert total(parts) < total(good)
    for nothing in (("", two), (one, " \n")):
        assert total(score(STRICT[task], source, nothing)) == 0


@pytest.mark.parametrize("text", ["It works.", 'He said "no."', "Is it?", "End…", "完了。", "अंत।"])
def test_an_end_is_told_in_any_script(text):
    assert has_end(text)
    assert not has_end(text[:2] + ",")
    assert not has_end(text[:2] + " 50%")


# --- one agent for both parts ---------------------------------------------------------------------


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("kind", [STRICT, PAPER], ids=["strict", "paper"])
def test_a_single_agent_is_scored_by_its_two_parts(kind, task):
    reward = kind[task]
    both = score(reward, POST, (FIRST, SECOND))
    assert score(reward, POST, [f"{FIRST}{SEPARATOR}{SECOND}"]) == both
    for text in (f"{FIRST}\n\n{SECOND}", f"{FIRST}{SEPARATOR}{SECOND}{SEPARATOR}", SEPARATOR):
        parts = score(reward, POST, [text])
        assert total(parts) == 0
        assert parts.keys() == both.keys()
    with pytest.raises(ValueError, match="1 or 2 agents"):
        score(reward, POST, (FIRST, SECOND, SECOND))


# --- the tasks ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [Tldr, Arxiv])
def test_mistakes_are_named(kind, tmp_path):
    with pytest.raises(ValueError, match="is for 2 agents, not 3"):
        kind(num_agents=3)
    data = tmp_path / "data.jsonl"
    data.write_text('{"prompt": "x", "abstract_text": "x"}\n{"text": "x"}\n' * 2)
    with pytest.raises(ValueError, match=rf"row 2: .*{kind.field!r}"):
        kind(str(data)).items("train")


@pytest.mark.parametrize("kind", [Tldr, Arxiv])
def test_observations(kind):
    item, task = {kind.field: f"{POST} TL;DR:"}, kind()
    one, two = (task.observe(agent, item, []) for agent in (0, 1))
    assert one != two
    assert one.count(POST) == two.count(POST) == 1
    again = task.observe(0, item, [("my text", "what I was told")])
    assert again.startswith(f"{one} my text\n\nwhat I was told ")
    assert kind(num_agents=1).observe(0, item, []).count(SEPARATOR) == 1
