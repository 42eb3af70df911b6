"""The recipes and the worked plug-ins: rewards of one's own, a pipeline, messages, tools, a game.

python -m pytest tests/examples/test_examples.py
"""

import json

import pytest
from code_pairs import EVEN, FILTERED, SQUARES, main
from helpers import ROOT, SMALL, total, train_run

import train
from examples import ledger, messages, own_pay, tools, workflows
from examples.rendezvous import Rendezvous
from rewards import REWARDS, code
from tasks import Coop
from training.plugins import resolve, task_class
from training.run_folder import read_records


@pytest.mark.parametrize("recipe", sorted((ROOT / "recipes").glob("*.args")))
def test_a_recipe_names_flags_a_task_and_a_reward_that_are_there(recipe):
    args = train.parse([f"@{recipe}", "--model", "tiny"])
    task = task_class(args.task)
    assert resolve(args.reward or task.reward, REWARDS, "reward").maximum > 0


def test_every_split_has_pairs_of_its_own_in_both_orders():
    splits = [{item["open"] for item in Rendezvous().items(s)} for s in ("train", "dev", "test")]
    for pairs in splits:
        assert {pair[::-1] for pair in pairs} == pairs
    assert sum(map(len, splits)) == len(set.union(*splits)) == 42


def test_in_turn_each_sees_what_those_before_it_wrote():
    task = workflows.Sequential(num_agents=2)
    item = task.items("test")[0]
    after = task.advance(item, ["ONE", ""])
    assert [task.speakers(item, 0), task.speakers(after, 1)] == [[0], [1]]
    with pytest.raises(ValueError, match="ends after --turns 2"):
        task.speakers(task.advance(after, ["", "TWO"]), 2)
    prompt = task.observe(1, after, [])
    assert "agent 0 wrote\nONE" in prompt
    assert prompt.endswith(Coop().observe(1, item, []))
    assert workflows.paid_last(item, ["ONE", ""]) == {}
    assert workflows.paid_last(after, ["", "TWO"]) == code(item, ["ONE", "TWO"])
    assert task.scheme(after, ["", "TWO"]) == Coop().scheme(item, ["ONE", "TWO"])


def test_a_workflow_trains_and_its_return_is_that_of_its_last_turn(tmp_path):
    argv = f"--task {workflows.__file__}:Sequential --turns 2 --max-new-tokens 24"
    path = train_run(tmp_path / "run", SMALL, argv, "--branching tree")
    for row in read_records(path / "metrics.jsonl"):
        paid = sum(value for name, value in row.items() if name.startswith("reward/"))
        assert row["return"] == pytest.approx(paid / code.maximum)
        assert row["turn_0/reward"] == 0


ITEM = {"task_id": "messages/3-7", "door": (3, 7)}
SENT = ["8 is\nit", "a message that is longer than it may be " * 2]


@pytest.mark.parametrize(
    ("kind", "reads"), [(messages.Messages, "8 is it"), (messages.Told, 3), (messages.Deaf, 0)]
)
def test_only_the_partner_reads_a_message(kind, reads):
    task = kind()
    assert "7" not in task.observe(0, ITEM, [])
    after = task.advance(ITEM, SENT)
    assert f"modulo {reads} of the numbers greater than 7" in task.observe(1, after, [])
    assert "modulo 3 of" in task.observe(0, after, [])


def test_a_half_reaches_its_reader_alone_and_the_message_the_other():
    task = ledger.Ledger(lines=5)
    item = task.items("test")[0]
    heard = task.advance(item, ["", "one\nand " + 60 * "x"])
    assert [task.speakers(item, 0), task.speakers(heard, 1)] == [[1], [0]]
    seen = [json.dumps(task.observe(agent, heard, [])) for agent in (0, 1)]
    everything = json.dumps(ledger.Full(1, lines=5).observe(0, item, []))
    half = json.dumps(ledger.Half(1, lines=5).observe(0, item, []))
    for agent, lines in enumerate(item["halves"]):
        assert len(lines) == 5
        for line in lines:
            assert line in seen[agent]
            assert line in everything
            assert line not in seen[1 - agent]
            assert (line in half) == (agent == 0)
    message = "one and " + 52 * "x"
    assert message in seen[0]
    assert f"{message}x" not in seen[0]
    assert message not in seen[1]
    assert message not in json.dumps(ledger.Deaf().observe(0, heard, []))


def test_a_ledger_is_paid_for_its_amounts_less_the_length_of_what_is_right():
    items = [item for split in ledger.SIZES for item in ledger.Ledger().items(split)]
    assert len({str(item["halves"]) for item in items}) == len(items) == 720
    for item in items:
        lines = item["halves"][0] + item["halves"][1]
        own = [line.split()[2] for line in lines if line.startswith(item["who"])]
        assert own == list(map(str, item["amounts"]))
        assert len(own) in (2, 3)
    item = {"amounts": [101, 202, 303]}
    assert ledger.found(item, ["101, 202, 303", ""]) == {}
    item["message"] = "303"
    right = ledger.found(item, ["303, 101 and 202", ""])
    assert right == {"f1": 1, "length": -0.001 * 19, "metric/exact": 1}
    part = ledger.found(item, ["101, 9", ""])  # a half is right, a third is named
    assert part == {"f1": pytest.approx(0.4), "length": 0, "metric/exact": 0}
    assert ledger.found(item, ["9" * 4301, ""])["f1"] == 0


@pytest.mark.parametrize("lines", [1, 451])
def test_a_ledger_refuses_halves_that_no_ledger_has(lines):
    with pytest.raises(ValueError, match=f"2 to 450 lines, not {lines}"):
        ledger.Ledger(lines=lines)


OWN = main("return sum(x * x for x in xs if x % 2 == 0)")


def worth(*responses):
    return total(code(SQUARES, list(responses)))


def test_alone_a_helper_is_of_no_use_and_a_difference_knows_its_worth():
    both, main_alone, helper_alone = worth(EVEN, FILTERED), worth("", FILTERED), worth(EVEN, "")
    assert both > worth(EVEN, OWN) > worth("", OWN) > main_alone
    for reward, first, second in (
        (own_pay.alone, helper_alone, main_alone),
        (own_pay.difference, both - main_alone, both - helper_alone),
    ):
        parts = reward(SQUARES, [EVEN, FILTERED])
        assert [parts["agent/0"], parts["agent/1"]] == pytest.approx([first, second])
        assert parts["metric/joint"] == both / 4
        assert all("/" in name for name in parts)  # nothing is paid to all


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("<python>12 * 30 - 5", "355"),
        ("So <python> (1 +\n2)", "3"),
        ("<python>1 / 0", "ZeroDivisionError: division by zero"),
        ("<python>12 books", "SyntaxError"),
        ("<python>open('/etc/passwd').read()", "Error"),
        ("12 * 30", ""),
    ],
)
def test_the_tool_computes_in_the_sandbox(text, result):
    item = tools.Tools().items("test")[0]
    after = tools.Tools().advance(item, [text, ""])
    assert result in after["result"]
    assert bool(after["result"]) == bool(result)
    messages = tools.Tools().observe(1, after, [])
    assert messages[-1]["role"] == ("tool" if result else "user")
    assert "12 * 30" not in json.dumps(messages)  # what agent 0 wrote
    assert tools.NoTool().advance(item, [text, ""])["result"] == ""


def test_arithmetic_is_paid_for_the_right_number_less_the_length():
    task = tools.Tools(level=2)
    items = task.items("train") + task.items("test")
    assert {item["level"] for item in items} == {2}
    assert len({item["problem"] for item in items}) == len(items) == 240
    item = items[0] | {"called": "<python>1", "result": "1"}
    right = tools.answer(item, ["", f"So {item['answer']:,}."])
    assert right["exact"] == 1
    assert right["length"] == -0.001 * (9 + len(f"So {item['answer']:,}."))
    assert tools.answer(item, ["", f"{item['answer']} or 7"])["exact"] == 0
    assert tools.answer(items[0], ["<python>1", ""]) == {}
