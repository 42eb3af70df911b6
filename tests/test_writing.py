"""The writing tasks and rewards: python -m pytest tests/test_writing.py

The table of the README (strict beside the paper's reward): python -m tests.writing_pairs
"""

import itertools
import json
import math
import string
import sys
import time
import types
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from writing_pairs import SALAD, degenerate, honest, permuted

import tasks
import train
from writing import paper as writing_paper
from writing import strict as writing
from writing import words as writing_words
from writing.tasks import Arxiv, Tldr
from writing.text import (
    SEPARATOR,
    Band,
    content,
    copied,
    faults,
    find_transitions,
    neighbours,
    read,
    repeated,
    stem,
)

TASKS = ("tldr", "arxiv")
STRICT = {task: getattr(writing, task) for task in TASKS}
PAPER = {task: getattr(writing_paper, f"{task}_paper") for task in TASKS}
RELEASED = {task: getattr(writing_paper, f"{task}_released") for task in TASKS}
RECIPES = Path(train.__file__).parent / "recipes"


def total(parts: dict[str, float]) -> float:
    return sum(value for name, value in parts.items() if "/" not in name)


def score(reward, source: str, texts) -> dict[str, float]:
    return reward({"prompt": source, "abstract_text": source}, list(texts))


def words(text: str) -> list[str]:
    return read(text).words


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


def test_sentences():
    text = 'He left. "Why?" she asked!? See e.g. Smith et al. (2.5 of 3) in file.py. End…'
    text += "\n- one\n- two"
    found = read(text)
    said = [" ".join(found.words[i] for i in sentence) for sentence in found.sentences]
    assert said[:3] == ["he left", "why", "she asked"]
    assert said[3:] == ["see e g smith et al 2.5 of 3 in file py", "end", "one", "two"]
    assert read("no full stop").sentences == [range(3)]
    assert read("A line\nthat is wrapped.").sentences == [range(5)]


def test_stems():
    assert len({stem(word) for word in ("study", "studies", "studied", "studying")}) == 1
    assert len({stem(word) for word in ("plan", "plans", "planned", "planning")}) == 1
    assert stem("mother's") == stem("mothers") == stem("mother")
    assert stem("many") != stem("man")
    assert stem("bus") != stem("but")
    assert content(read("The dogs of 1,150 cities")) == ["", "dog", "", "1,150", "city"]


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
        assert 0 <= total(parts) < 1
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
    for task, rewards in expected.items():
        for value, reward in zip(rewards, (PAPER[task], RELEASED[task]), strict=True):
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


# --- the strict rewards ---------------------------------------------------------------------------

POST = """TITLE: My bike was stolen
POST: My bike was stolen from the yard on Monday. The camera shows a man with a red van. The police
will not watch the video, and my insurance wants a receipt that I lost. What can I do?"""
FIRST = "My bike was stolen from the yard, and the police are no help."
SECOND = """A camera filmed a man and a red van. However, the police refuse to watch, and I lost my
receipt."""


def test_worked_example():
    """The one in the docstring of writing.tldr, where each figure is computed by hand."""
    assert " ".join(SECOND.split()) in " ".join(writing.tldr.__doc__.split())
    parts = score(STRICT["tldr"], POST, (FIRST, SECOND))
    expected = {"structure": 0.7706, "consistency": 0.9451, "coherence": 0.4725}
    part = dict.fromkeys([f.__name__ for f in writing.TRUST + writing.EARNED], 1.0)
    part |= {"original": 0.9451, "ratio": 0.7231, "connected": 0.5}
    expected |= {f"metric/{name}": value for name, value in part.items()}
    assert parts == pytest.approx(expected, abs=5e-5)


@pytest.fixture(scope="module")
def scored() -> dict[str, dict[str, list]]:
    """{task: {honest or degenerate: [(name, strict, paper's)]}}, scored from several threads."""

    def both(task, pair):
        name, source, texts = pair
        return name, *(score(kind[task], source, texts) for kind in (STRICT, PAPER))

    with ThreadPoolExecutor(4) as pool:
        return {
            task: {
                kind.__name__: list(pool.map(both, itertools.repeat(task), kind(task)))
                for kind in (honest, degenerate)
            }
            for task in TASKS
        }


@pytest.mark.parametrize("task", TASKS)
def test_no_inversion(scored, task):
    good, bad = scored[task]["honest"], scored[task]["degenerate"]
    assert len(good) >= 12
    assert len({name.partition(": ")[2] for name, *_ in bad}) >= 40
    worst = min(good, key=lambda row: total(row[1]))
    best = max(bad, key=lambda row: total(row[1]))
    assert total(worst[1]) > total(best[1]), (worst[0], best[0])


@pytest.mark.parametrize("task", TASKS)
def test_the_papers_reward_fails(scored, task):
    good, bad = scored[task]["honest"], scored[task]["degenerate"]
    pairs = [total(b[2]) >= total(h[2]) for h in good for b in bad]
    assert sum(pairs) > 0.25 * len(pairs)
    assert sum(total(row[1]) > 2 for row in good) > len(good) / 2  # and the strict one is no miser


@pytest.mark.parametrize("task", TASKS)
def test_ranges_and_names(scored, task):
    named = {f"metric/{part.__name__}" for part in writing.TRUST + writing.EARNED}
    for name, strict, paper in scored[task]["honest"] + scored[task]["degenerate"]:
        assert set(strict) == {"structure", "consistency", "coherence"} | named, name
        assert all(0 <= value <= 1 for value in strict.values()), name
        assert set(paper) == set(writing_paper.PARTS), name
        assert 0 <= total(paper) <= 3
    for reward in (STRICT[task], PAPER[task], RELEASED[task]):
        assert reward.maximum == 3.0


@pytest.mark.parametrize("task", TASKS)
def test_under_two_milliseconds(task):
    pairs = honest(task)
    best = []
    for _ in range(7):
        start = time.process_time()
        for _, source, texts in pairs:
            score(STRICT[task], source, texts)
        best.append((time.process_time() - start) / len(pairs))
    assert min(best) < 0.002


def part(name: str, first: str = FIRST, second: str = SECOND, source: str = POST) -> float:
    return score(STRICT["tldr"], source, (first, second))[f"metric/{name}"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("However, the police refuse to watch.", 0.5),
        ("The police refuse to watch because the camera failed.", 0.5),
        ("The police refuse to watch, so the insurance pays.", 0.5),
        ("Although the police saw the man, nothing happened to him, yet the insurance pays.", 0.5),
        ("However, the police refuse. Therefore, the insurance will pay.", 0.75),
        ("However, the police refuse. However, the insurance will not pay.", 0.5),  # one kind
        ("The police had a camera, and the man was so fast.", 0.0),  # joins nothing
        ("The person was strengthened by life near the police.", 0.0),  # letters of words
        ("However, that is all there is to it.", 0.0),  # about nothing
        ("The police refuse to watch the video, however.", 0.0),  # nothing follows
        ("However, therefore, moreover, the police refuse to watch the video.", 0.0),  # in a row
    ],
)
def test_transitions_count_where_they_join(text, expected):
    parsed = writing.Part(text, writing.Source(POST))
    crammed = sum(
        phrase not in writing_words.EVERYDAY
        for sentence in parsed.text.sentences
        for *_, phrase in find_transitions(parsed.text, sentence)
    )
    fair = min(1.0, parsed.size / (12 * max(crammed, 1)))
    assert part("connected", second=text) == pytest.approx(expected * fair)


@pytest.mark.parametrize("task", TASKS)
def test_cramming_connectors_never_pays(task):
    for name, source, (one, two) in honest(task):
        crammed = two.replace(". ", ". Moreover, in fact, thus, ")
        plain = score(STRICT[task], source, (one, two))
        assert total(score(STRICT[task], source, (one, crammed))) <= total(plain), name


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("The boss of the shop is an old friend of mine.", 0),
        ("The of boss the shop is an friend old mine of.", 3),  # the of, an friend, of.
        ("We want to accepted a apple.", 2),
        ("Cat, red hat, sun, mat, dog, van, moon.", 4),  # after three short pieces
        ("cats dogs mats hats vans suns yards moons rings books", 2),  # after eight
        ("It is what it is and that was what it was.", 2),  # after nine function words
    ],
)
def test_faults(text, count):
    assert faults(read(text)) == count


def test_parts_fall_for_what_they_are_about():
    name, source, (one, two) = honest("tldr")[0]
    other = honest("tldr")[2][2]
    sentence = two.partition(". ")[0] + "."
    low = {
        "length": (one, "Too short."),
        "order": (" ".join(one.split()[::-1]), " ".join(two.split()[::-1])),
        "balance": ("bakery lease sister flat dog couch Oslo Leeds", two),
        "varied": (one, " ".join([sentence] * 5)),
        "grounded": other,
        "specific": ("The author describes a difficult situation.", "The post asks for advice."),
        "linked": (permuted(one, 1), permuted(two, 2)),
        "original": (one, f"{one} {one}"),
        "ratio": (two, one),
        "vocabulary": (two, one),
        "shared": (other[0], two),
        "focus": other,
        "connected": (two, "Tom took the job. He sleeps on the couch."),
    }
    for name, texts in low.items():
        assert part(name, one, two, source) > part(name, *texts, source) + 0.3, name
    assert part("original", one, source.partition("POST: ")[2][:300], source) == 0


def test_copies_are_found_through_replaced_words():
    text = words("the quick brown fox jumps over the lazy dog near a quiet river bank at dawn")
    known = neighbours(text)
    assert copied(text, known) == 1
    third = [word if i % 3 else "else" for i, word in enumerate(text)]
    assert copied(third, known) > 0.6
    assert copied([word for i, word in enumerate(text) if i % 3], known) > 0.9
    pieces = [" ".join(text[i : i + 2]) for i in range(0, len(text), 2)]
    assert copied(" because ".join(pieces).split(), known) > 0.6
    assert copied(words("a dog and a fox sat at the river"), known) == 0
    assert copied([], known) == 0


def test_repeated_patterns():
    one = "She wants to sell the bakery and he wants to buy the flat."
    assert repeated(read(one)) == 0
    assert (
        repeated(read("We go to the yard and we see a van. We go to the shop and we see a man."))
        > 12
    )
    assert repeated(read(f"{one} {one}")) == 26
    assert repeated(read(f"{one} They keep the dog, but nobody asked for it.")) == 0


def test_bands():
    band = Band(1.0, 2.0, 3.0, 5.0)
    assert [band(x) for x in (0, 1, 1.5, 2, 2.5, 3, 4, 5, 9)] == [0, 0, 0.5, 1, 1, 1, 0.5, 0, 0]
    assert [Band(1.3, 2.0)(x) for x in (1.3, 2.0, 99.0)] == [0, 1, 1]
    assert (1.0 in band, 5.0 in band, 5.1 in band, 0.9 in band) == (True, True, False, False)


# --- one agent for both parts ---------------------------------------------------------------------


@pytest.mark.parametrize("kind", [STRICT, PAPER, RELEASED])
@pytest.mark.parametrize("task", TASKS)
def test_a_single_agent_is_scored_by_its_two_parts(kind, task):
    _, source, (one, two) = honest(task)[0]
    both = score(kind[task], source, (one, two))
    alone = score(kind[task], source, [f"{one}{SEPARATOR}{two}"])
    assert alone == both
    assert total(both) > 1
    for text in (f"{one}\n\n{two}", f"{one}{SEPARATOR}{two}{SEPARATOR}", "", SEPARATOR):
        parts = score(kind[task], source, [text])
        assert parts["structure"] == 0
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
    for row in ({"text": "x"}, {kind.field: "  "}, {kind.field: 7}):
        lines = data.read_text().splitlines()
        data.write_text("\n".join([lines[0], json.dumps(row), *lines[2:]]))
        with pytest.raises(ValueError, match=f"row 2: .*{kind.field!r}"):
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
    assert "structure" in told[0]
    assert "Weakest part" in told[0]
    assert len(told[0]) < 150


# --- end to end -----------------------------------------------------------------------------------


def test_training_with_the_embedded_team(kind, data, tmp_path):
    known = kind.name in tasks.TASKS  # or else as a forker would name it
    flags = ["--task", kind.name if known else f"writing_tasks.{type(kind()).__name__}"]
    flags += [] if known else ["--reward", f"writing.strict.{kind.name}"]
    flags += ["--data", str(data), "--max-steps", "3", "--run", str(tmp_path / "run")]
    small = ["--batch-size", "1", "--num-generations", "2", "--eval-limit", "1"]
    train.main([*flags, *small, "--max-new-tokens", "16"])
    lines = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    metrics = [json.loads(line) for line in lines]
    assert len(metrics) == 3
    assert {"reward/structure", "reward/consistency", "reward/coherence"} <= set(metrics[0])
    assert "metric/order" in metrics[0]
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
        small = train.parse([f"@{RECIPES}/{task}-laptop.args"])
        assert (small.task, small.reward, small.bits) == (task, None, 4)
