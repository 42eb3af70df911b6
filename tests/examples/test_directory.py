"""examples/directory.py: who reads what, and what an episode earns."""

import json

import pytest

from examples.directory import COUNTS, PLACES, Deaf, Directory, Half, Told


def ideal(task, item):
    """Play an episode as its items foresee it: return the prompts by turn, and what it earns."""
    episode = task.play(item)
    prompts = []
    step = next(episode)
    answers = [["", item["request"]], [item["reply"], ""], ["", item["place"]]][-task.turns :]
    try:
        for texts in answers:
            ((agent, messages),) = step.items()
            prompts.append((agent, json.dumps(messages[-1])))
            step = episode.send(texts[-task.team :])
    except StopIteration as end:
        return prompts, end.value
    raise AssertionError("an episode ends after its last answer")


@pytest.mark.parametrize("make", [Directory, Half])
def test_neither_sees_the_other_s_file_and_the_ideal_texts_are_right(make):
    task = make(facts=5)
    for item in task.items("dev"):
        prompts, earned = ideal(task, item)
        (_, asked), (_, told), (_, heard) = prompts
        assert [agent for agent, _ in prompts] == [1, 0, 1]
        assert not any(fact in asked for fact in item["facts"])
        assert all(fact in told for fact in item["facts"])
        assert not any(line in told for line in item["question"].splitlines())
        assert item["request"] in told
        assert item["reply"] in heard
        texts = item["request"] + item["reply"] + item["place"]
        assert earned["right"] + earned["length"] == pytest.approx(1 - 0.002 * len(texts))


def test_half_needs_both_lists():
    for item in Half().items("test"):
        assert item["place"] not in item["question"]
        thing, person = item["question"].split("Where is the ")[1].strip("?").split(" of ")
        assert not any(f" {thing} " in fact or person in fact for fact in item["facts"])


def test_the_deaf_read_no_reply_and_one_who_is_told_sees_all():
    item = Deaf().items("test")[0]
    prompts, _ = ideal(Deaf(), item)
    assert item["place"] not in prompts[-1][1]
    [(agent, prompt)], earned = ideal(Told(num_agents=1), item)
    assert agent == 0
    assert all(fact in prompt for fact in [*item["facts"], item["question"]])
    assert earned["right"] == 1


def test_the_words_of_a_split_occur_in_no_other():
    seen = {}
    for split in ("train", "dev", "test"):
        items = Directory().items(split)
        assert items == Directory().items(split)
        text = " ".join(fact for item in items for fact in item["facts"])
        seen[split] = set(text.replace(".", "").split()) - {"The", "of", "is", "in", "the"}
        assert {item["place"] for item in items} <= seen[split]
    assert not seen["train"] & (seen["dev"] | seen["test"])
    assert not seen["dev"] & seen["test"]


def test_another_wording_and_a_longer_list():
    assert all(len(Directory(facts=11).items(split)[0]["facts"]) == 11 for split in COUNTS)
    item = Directory(facts=7, wording="other").items("test")[0]
    assert len(item["facts"]) == 7
    assert not any(" is in the " in fact for fact in item["facts"])
    assert item["reply"].endswith(f" is in the {item['place']}.")


@pytest.mark.parametrize(
    ("answer", "right"),
    [("{place}", 1), ("It is in the {place}.", 1), ("{place} or {other}", 0), ("somewhere", 0)],
)
def test_an_answer_names_one_place(answer, right):
    task = Told(num_agents=1)
    item = task.items("test")[0]
    other = next(place for place in PLACES if place != item["place"])
    text = answer.format(place=item["place"].upper(), other=other)
    assert ideal(task, item | {"place": text})[1]["right"] == 0  # another place is asked for
    episode = task.play(item)
    next(episode)
    with pytest.raises(StopIteration) as end:
        episode.send([text])
    assert end.value.value["metric/right"] == right


@pytest.mark.parametrize(
    ("make", "options", "message"),
    [
        (Directory, {"num_agents": 3}, "Directory is for 2 agents, not 3"),
        (Told, {}, "Told is for 1 agents, not 2"),
        (Half, {"wording": "odd"}, "wording is same or other, not odd"),
        (Half, {"facts": 12}, "a list has 1 to 11 facts, not 12"),
    ],
)
def test_what_it_does_not_take_is_said(make, options, message):
    with pytest.raises(ValueError, match=message):
        make(**options)
