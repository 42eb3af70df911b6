"""The writing tasks and rewards: python -m pytest tests/test_writing.py

tests/data/writing_pairs.jsonl has posts and abstracts, each with an honest pair of responses, in
the form that `eval.py --score` takes; all of it was written for the tests.
"""

import itertools
import json
import math
import string
import time
from pathlib import Path

import numpy as np
import pytest

import rewards
import train
from tasks import Arxiv, Tldr
from writing.text import SEPARATOR, has_end, transitions, words

TASKS = ("tldr", "arxiv")
STRICT = {task: getattr(rewards, task) for task in TASKS}
PAPER = {task: getattr(rewards, f"{task}_paper") for task in TASKS}
RELEASED = {task: getattr(rewards, f"{task}_released") for task in TASKS}
LINES = (Path(__file__).parent / "data" / "writing_pairs.jsonl").read_text().splitlines()


def honest(kind) -> list[tuple[str, tuple[str, str]]]:
    """(source, texts) of each pair of a task."""
    rows = [row for row in map(json.loads, LINES) if kind.field in row["item"]]
    return [(row["item"][kind.field], tuple(row["responses"])) for row in rows]


def total(parts: dict[str, float]) -> float:
    return sum(value for name, value in parts.items() if "/" not in name)


def score(reward, source: str, texts) -> dict[str, float]:
    item = {"prompt": source, "abstract_text": source}
    return reward(item, list(texts), *[Unigrams()] * getattr(reward, "needs_model", False))


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
    "text",
    [
        *("." * 10**5 + "a", "http://" * 10**4, "\n " * 2 * 10**4 + "a", "a\u0301" * 2 * 10**4),
        *("1,1" * 10**4, "it's'" * 10**4, " - " * 10**4, "word, " * 10**4, "\n\n- " * 10**4),
    ],
    ids=["dots", "urls", "lines", "accents", "numbers", "quotes", "dashes", "words", "items"],
)
def test_enormous_texts_take_linear_time(text):
    start = time.process_time()
    for reward in (*STRICT.values(), *PAPER.values(), *RELEASED.values()):
        parts = score(reward, text, (text, text))
        assert 0 <= total(parts) <= 1
    assert time.process_time() - start < 5  # quadratic time would be many minutes


# --- the released rewards: the figures that are published ----------------------------------------


def test_released_salad():
    """Twelve categories of transitions, one shared word: the most that the code pays."""
    salad = ["cat dog sat mat big red sun hat"]
    salad += ["cat also such as that is so but first indeed in short just as though if when"]
    assert total(RELEASED["tldr"]({}, salad)) == pytest.approx(2.98)
    assert total(PAPER["tldr"]({}, salad)) == pytest.approx(1.5)  # what their logger gave


def arxiv_pair(ratio: float) -> tuple[str, str]:
    """130 words each, the same ones with all twelve categories; lengths 2,000 and ratio x 2,000."""
    phrases = [phrases[0] for phrases in transitions().values()]
    names = ["q" + a + b for a, b in itertools.product(string.ascii_lowercase, repeat=2)]
    base = " ".join([*phrases, *names])
    base = " ".join(base.split()[:129])
    return tuple(f"{base} {'z' * (size - len(base) - 1)}" for size in (2000, round(2000 * ratio)))


@pytest.mark.parametrize(("ratio", "reward", "paper"), [(1.655, 2.84, 0.5), (1.116, 2.61, 3.0)])
def test_released_arxiv(ratio, reward, paper):
    """The two published figures differ in the ratio of lengths; all else earns the most it can."""
    pair = list(arxiv_pair(ratio))
    assert total(RELEASED["arxiv"]({}, pair)) == pytest.approx(reward, abs=0.005)
    assert total(PAPER["arxiv"]({}, pair)) == pytest.approx(paper)


def test_released_matches_letters_and_the_paper_words():
    first = "she wrote about the house and the river again today"
    second = (
        f"{first} because life strengthens every person who was ever lonely near any water at all"
    )
    second += " under dark grey skies of november"
    # so in person, as in was, then in strengthens, if in life: 4 categories, tau 0.55
    assert RELEASED["tldr"]({}, [first, second])["coherence"] == pytest.approx(0.4 * 0.55)
    assert PAPER["tldr"]({}, [first, second])["coherence"] == 0
    said = [first, f"{second}; however, so what"]  # however: contrast, concession; so: cause_effect
    assert PAPER["tldr"]({}, said)["coherence"] == pytest.approx(0.4 * 0.6 * math.log(4))
    joined = ["x" * 4 + " y" * 130 + " al", "so z" + " w" * 131]  # without a blank: also, so
    assert RELEASED["arxiv"]({}, joined)["coherence"] == pytest.approx(0.4 * 0.45)


# --- the paper's rewards --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ratio", "tldr", "arxiv", "arxiv_released"),
    [
        (0.79, None, None, None),
        (0.90, None, 0.5, 0.2),
        (1.00, None, 1.0, 0.4),
        (1.20, 0.2, 1.0, 0.8),
        (1.40, 0.6, 0.5, 1.0),
        (1.60, 1.0, None, 1.0),
        (1.80, 1.0, None, 0.5),
        (3.20, 1.0, None, None),
        (4.10, 0.5, None, None),
        (5.10, None, None, None),
    ],
)
def test_bands_of_length(ratio, tldr, arxiv, arxiv_released):
    """None: the level fails, and nothing after it counts."""
    expected = {"tldr": (tldr, tldr), "arxiv": (arxiv, arxiv_released)}
    text = " ".join(f"word{i:03}" for i in range(130))
    other = text[: len(text) - 1] + "z" * (round(len(text) * ratio) - len(text) + 1)
    if ratio < 1:
        text, other = text + "z" * (round(len(text) / ratio) - len(text)), text
    for task, values in expected.items():
        for value, reward in zip(values, (PAPER[task], RELEASED[task]), strict=True):
            parts = reward({}, [text, other])
            assert parts["structure"] == 0.5
            assert parts["length"] == pytest.approx(value or 0.0, abs=0.02)
            if value is None:
                assert total(parts) == 0.5


@pytest.mark.parametrize(
    ("unique", "tldr", "arxiv"),
    [(0.4, 0, 0), (0.6, 0, 0.25), (0.7, 0, 0.5), (1.3, 0.0, 0.5), (1.5, 1 / 7, 0.25),
     (1.8, 5 / 14, 0), (2.0, 0.5, 0), (3.0, 0.5, 0)],
)  # fmt: skip
def test_bands_of_vocabulary(unique, tldr, arxiv):
    one = " ".join(f"a{i % 40:02}" for i in range(200))
    two = " ".join(f"a{i % round(40 * unique):02}" for i in range(200))
    for reward in (PAPER["tldr"], RELEASED["tldr"]):
        scaled = two + "z" * round(0.8 * len(one))
        assert reward({}, [one, scaled])["vocabulary"] == pytest.approx(tldr, abs=0.02)
    for reward in (PAPER["arxiv"], RELEASED["arxiv"]):
        assert reward({}, [one, two])["vocabulary"] == pytest.approx(arxiv, abs=0.02)


# --- the rewards that ask a language model --------------------------------------------------------


class Unigrams:
    """A language model that can be computed by hand: a word costs 3 nats if the prompt has it, else
    6, and 2 if the one before it is the one before it in the prompt, too."""

    def __init__(self):
        self.asked = []

    def __call__(self, prompt: str, text: str) -> np.ndarray:
        self.asked.append((prompt, text))
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
    lm = Unigrams()
    # a red van took my bike away from us
    costs = [3, 2, 2, 6, 3, 2, 6, 3, 6]
    assert (-lm(POST, FIRST)).tolist() == costs
    # on Monday someone came with a red van a camera saw the man who took my bike away
    more = [3, 2, 6, 6, 3, 2, 2, 2, 3, 2, 6, 3, 3, 6, 6, 3, 2, 6]
    assert (-lm(POST, SECOND)).tolist() == more
    logistic = 1.0
    for cost in (np.array(costs), np.array(more)):  # without the post every word costs 6 nats
        fluent, grounded = -(cost.mean() + 6) / 2, (6 - cost.mean()) / 6
        logistic *= 1 / (1 + math.exp((-7 - fluent) / 0.5))
        logistic *= 1 / (1 + math.exp((0.16 - grounded) / 0.05))
    # of 6 + 15 runs, "with a red van" is the post's and "took my bike away" the partner's
    original = 1 - (2 / 21) ** 2
    asked = Unigrams()
    parts = rewards.tldr({"prompt": POST}, [FIRST, SECOND], asked)
    assert parts["writing"] == pytest.approx(3 * math.sqrt(logistic) * original)
    named = [value for name, value in parts.items() if name.startswith("metric/")]
    assert parts["writing"] == pytest.approx(3 * math.prod(named))
    assert named[2:] == pytest.approx([original, 1, 1])
    assert len(asked.asked) == len(set(asked.asked)) == 4  # two questions a text
    assert len({prompt for prompt, _ in asked.asked}) == 2  # and two prompts a source


def test_the_least_window_of_a_text_counts_for_half():
    """24 words that the source does not explain, among many that it does."""
    known = [f"w{n}" for n in range(200)]
    source, alien = " ".join(known), " ".join(f"x{n}" for n in range(24))
    good = " ".join(known[::3])  # no two of them stand together
    for text, mean, least in ((good, 3, 3), (f"{good} {alien}", 3 * 67 / 91, 0)):
        _, grounded = rewards._fluent_and_grounded(Unigrams(), source, "none", text)
        explained = (mean + least) / 2 / 6
        assert grounded == pytest.approx(1 / (1 + math.exp((0.16 - explained) / 0.05)))


@pytest.mark.parametrize("task", TASKS)
def test_each_part_falls_for_what_it_is_about(task):
    size = 200 if task == "arxiv" else 20
    source = " ".join(f"w{n} and" for n in range(3 * size))
    one = " ".join(f"w{n}" for n in range(0, size)) + "."
    two = " ".join(f"w{n}" for n in range(size, 2 * size + (size if task == "tldr" else 0))) + "."
    good = score(STRICT[task], source, (one, two))
    assert all(value > 0.95 for value in list(good.values())[1:]), good
    other = " ".join(f"x{n}" for n in range(2 * size)) + "."
    for spoilt, part in (
        ((one, other), "grounded"),
        ((other[: len(one)], two), "grounded"),
        ((one, one + two[: len(one)]), "original"),
        ((source[: len(one)] + ".", two), "original"),
        ((one, " ".join([two[: len(one)]] * 3) + "."), "original"),
        ((one, two[:-1]), "finished"),
        ((one[:20], two), "lengths"),
        ((two, one) if task == "tldr" else (one, two + two), "lengths"),
    ):
        parts = score(STRICT[task], source, spoilt)
        assert parts[f"metric/{part}"] < 0.97 * good[f"metric/{part}"], (part, spoilt)
        assert total(parts) < total(good)
    for nothing in (("", two), (one, " \n"), ("", "")):
        assert total(score(STRICT[task], source, nothing)) == 0


@pytest.mark.parametrize("text", ["It works.", 'He said "no."', "Is it?", "End…", "完了。", "अंत।"])
def test_an_end_is_told_in_any_script(text):
    assert has_end(text)
    assert not has_end(text.rstrip('"')[:-1].rstrip('."') + " and")
    assert not has_end(text[:2] + ",")


# --- one agent for both parts ---------------------------------------------------------------------


@pytest.mark.parametrize("kind", [STRICT, PAPER, RELEASED], ids=["strict", "paper", "released"])
@pytest.mark.parametrize("task", [Tldr, Arxiv])
def test_a_single_agent_is_scored_by_its_two_parts(kind, task):
    source, (one, two) = honest(task)[0]
    reward = kind[task.name]
    both = score(reward, source, (one, two))
    assert score(reward, source, [f"{one}{SEPARATOR}{two}"]) == both
    assert total(both) > (0 if kind is STRICT else 1)
    for text in (f"{one}\n\n{two}", f"{one}{SEPARATOR}{two}{SEPARATOR}", "", SEPARATOR):
        parts = score(reward, source, [text])
        assert total(parts) == 0
        assert set(parts) == set(both)
    with pytest.raises(ValueError, match="1 or 2 agents"):
        score(reward, source, (one, two, two))


# --- the tasks ------------------------------------------------------------------------------------


@pytest.fixture(params=[Tldr, Arxiv], ids=TASKS)
def kind(request):
    return request.param


@pytest.fixture
def data(kind, tmp_path) -> Path:
    path = tmp_path / f"{kind.name}.jsonl"
    path.write_text("".join(json.dumps({kind.field: f"text {n}"}) + "\n" for n in range(11)))
    return path


def test_mistakes_are_named(kind, data):
    with pytest.raises(ValueError, match="is for 2 agents, not 3"):
        kind(num_agents=3)
    data.write_text("\n".join(['{"prompt": "x", "abstract_text": "x"}', '{"text": "x"}'] * 2))
    with pytest.raises(ValueError, match=rf"row 2: .*{kind.field!r}"):
        kind(str(data)).items("train")


def test_observations(kind):
    source, _ = honest(kind)[0]
    item, task = {kind.field: source}, kind()
    one, two = (task.observe(agent, item, []) for agent in (0, 1))
    assert one != two
    shown = source.removesuffix("TL;DR:").strip()
    for prompt in (one, two):
        assert shown in prompt
        if kind is Tldr:  # neither agent is told that there is another one
            said = prompt.replace(shown, "").lower()
            assert not {"agent", "writer", "another", "other", "partner"} & set(words(said))
    again = task.observe(0, item, [("my text", "what I was told")])
    assert again.startswith(one)
    assert again.index("my text") < again.index("what I was told")
    assert kind(num_agents=1).observe(0, item, []).count(SEPARATOR) == 1


# --- end to end -----------------------------------------------------------------------------------


def test_training_with_the_embedded_team(tmp_path):
    (tmp_path / "posts.jsonl").write_text(f'{{"prompt": {json.dumps(POST)}}}\n' * 3)
    flags = ["--task", "tldr", "--data", f"{tmp_path}/posts.jsonl", "--run", f"{tmp_path}/run"]
    small = ["--max-steps", "2", "--batch-size", "1", "--num-generations", "2"]
    train.main([*flags, *small, "--eval-limit", "1", "--max-new-tokens", "16"])
    lines = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    metrics = [json.loads(line) for line in lines]
    assert len(metrics) == 2
    assert {"reward/writing", "metric/grounded", "seconds/judge"} <= set(metrics[0])
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert 0 <= summary["after"]["return"] <= 1
    assert len(summary["example"]["after"]["responses"]) == 2
