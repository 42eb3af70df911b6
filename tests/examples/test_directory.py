"""examples/directory.py: who reads what, and what an episode earns."""

import json

import pytest

from examples.directory import Deaf, Directory, Half, Told, paid, words


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
        assert f" {item['place']}" not in asked
        assert item["reply"] in item["facts"]
        assert all(fact in told for fact in item["facts"])
        assert not any(line in told for line in item["question"].splitlines())
        assert item["request"] in told
        assert item["reply"] in heard
        texts = item["request"] + item["reply"] + item["place"]
        assert earned["right"] + earned["length"] == pytest.approx(1 - 0.002 * len(texts))


def test_the_deaf_read_no_reply_and_one_who_is_told_sees_all():
    item = Deaf().items("test")[0]
    prompts, _ = ideal(Deaf(), item)
    assert item["place"] not in prompts[-1][1]
    [(_, prompt)], earned = ideal(Told(num_agents=1), item)
    assert all(fact in prompt for fact in [*item["facts"], item["question"]])
    assert earned["right"] == 1


def test_the_words_of_a_split_occur_in_no_other():
    seen = []
    for split in ("train", "dev", "test"):
        facts = [fact for item in Directory().items(split) for fact in item["facts"]]
        seen.append({*words(" ".join(facts).replace(".", ""))} - {"The", "of", "is", "in", "the"})
    train, dev, test = seen
    assert not train & (dev | test)
    assert not dev & test


def test_another_wording_and_a_longer_list():
    longest = [Directory(facts=11).items(split)[0]["facts"] for split in ("train", "dev", "test")]
    assert [len(set(facts)) for facts in longest] == [11, 11, 11]
    item = Directory(facts=7, wording="other").items("test")[0]
    assert len(item["facts"]) == 7
    assert not any(" is in the " in fact for fact in item["facts"])
    assert item["reply"].endswith(f" is in the {item['place']}.")


@pytest.mark.parametrize(
    "answer, right",
    [("ATTIC", 1), ("It is in the attic.", 1), ("attic or barn", 0), ("barn", 0), ("away", 0)],
)
def test_an_answer_names_one_place(answer, right):
    assert paid({"place": "attic"}, [], answer)["right"] == right
