"""The plug-in of the README, through the command line: pytest tests/test_examples.py"""

import itertools
import json
from pathlib import Path

import pytest

import train
from examples.rendezvous import Rendezvous, meet

ROOT = Path(train.__file__).parent
PLUGIN = ROOT / "examples" / "rendezvous.py"


def test_it_is_short():
    assert len(PLUGIN.read_text().splitlines()) < 60


@pytest.mark.parametrize("flags", [[], ["--reward", f"{PLUGIN}:meet"]])
def test_it_trains_by_flag(flags, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    small = "--max-steps 2 --batch-size 2 --num-generations 4 --max-new-tokens 30 --run x"
    train.main(["--task", f"{PLUGIN}:Rendezvous", *flags, *small.split(), "--eval-limit", "2"])
    rows = list(map(json.loads, Path("runs/x/metrics.jsonl").read_text().splitlines()))
    assert len(rows) == 2
    for row in rows:
        parts = row["reward/open"] + row["reward/met"]
        assert row["return"] == pytest.approx(parts / meet.maximum)


def test_every_split_has_pairs_of_its_own_in_both_orders():
    pairs = {s: {i["open"] for i in Rendezvous().items(s)} for s in ("train", "dev", "test")}
    assert all({pair[::-1] for pair in of} == of for of in pairs.values())
    assert sum(map(len, pairs.values())) == len(set.union(*pairs.values())) == 42


def test_nobody_sees_the_partners_map():
    item = Rendezvous().items("test")[0]
    maps = [Rendezvous().observe(agent, item, []) for agent in (0, 1)]
    for place, other in (item["open"], item["open"][::-1]):
        first = [text.index(str(place)) < text.index(str(other)) for text in maps]
        assert first[0] != first[1]


@pytest.mark.parametrize(
    ("responses", "worth"),
    [
        (["x % 3", "x > 3"], 1.0),
        (["x > 7", "return 7, not 3"], 1.0),
        (["3", "7"], 0.5),
        (["3", "5"], 0.25),
        (["5", "5"], 0.0),
        (["37", "37"], 0.0),
    ],
)
def test_what_a_meeting_is_worth(responses, worth):
    assert sum(meet({"open": (3, 7)}, responses).values()) == worth <= meet.maximum


def test_garbage_earns_nothing_and_raises_nothing():
    texts = ["", "\0", "def", "\u0663", "\u00b2", "9" * 10_000, "-" * 99, "0x", "\ud800"]
    for pair in itertools.product(texts, repeat=2):
        assert sum(meet({"open": (3, 7)}, list(pair)).values()) == 0
