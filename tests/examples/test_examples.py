"""The recipes and the worked plug-ins: rewards of one's own, pipelines, messages, tools, data sets.

The package reasoning-gym is replaced by one of two data sets.

python -m pytest tests/examples/test_examples.py
"""

import itertools
import json
import runpy
import sys
from pathlib import Path
from types import ModuleType

import pytest
from code_pairs import EVEN, FILTERED, SQUARES, main
from helpers import ROOT, refused, table, total, write_lines, write_run

import train
from examples import gym, ledger, mbpp, messages, own_pay, tools, workflows
from examples.building import tasks as building
from examples.rendezvous import Rendezvous
from programs import teams
from programs.items import signature
from rewards import REWARDS, code
from training.episodes import follow
from training.plugins import resolve, task_class


@pytest.mark.parametrize("recipe", sorted((ROOT / "recipes").glob("*.args")))
def test_a_recipe_names_flags_a_task_and_a_reward_that_are_there(recipe):
    args = train.parse([f"@{recipe}"])
    task = task_class(args.task)
    name = args.reward or task.reward
    pays = resolve(name, REWARDS, "reward", callable) if name else task
    assert pays.maximum > 0


# --- data sets ------------------------------------------------------------------------------------


class ProceduralDataset(list):
    """The class whose verifier compares texts, as in the package."""

    def score_answer(self, answer, entry):
        return float(answer == entry["answer"])


class Evaluated(ProceduralDataset):
    def score_answer(self, answer, entry):
        return eval(answer)


def create_dataset(name, size, seed, lowest=0):
    assert lowest >= 0, "lowest must be >= 0"
    kind = {"sums": ProceduralDataset, "evaluated": Evaluated}[name]
    first = lowest + 45 * seed // 10_000_000  # so dev begins in the numbers of train
    numbers = range(first, first + size)
    return kind({"question": f"{n} + 1?", "answer": str(n + 1)} for n in numbers)


@pytest.fixture(autouse=True)
def package(monkeypatch):
    """Put the package where `import` finds it."""
    contents = {
        "": {"create_dataset": create_dataset},
        ".dataset": {"ProceduralDataset": ProceduralDataset},
        ".utils": {"extract_answer": lambda text: "8" if "<answer> 8 </answer>" in text else None},
    }
    for name, attributes in contents.items():
        module = ModuleType(f"reasoning_gym{name}")
        vars(module).update(attributes)
        monkeypatch.setitem(sys.modules, module.__name__, module)
    gym.make.cache_clear()


def sums(agents, **options):
    return gym.Gym(agents, "sums", **options)


@pytest.mark.parametrize(
    "make, field, sizes",
    [
        (Rendezvous, "open", "18 12 12"),
        (ledger.Ledger, "halves", "600 60 60"),
        (lambda: tools.Tools(level=2), "problem", "200 20 40"),
        (lambda: sums(1, size=50, config={"lowest": 3}), "prompt", "50 5 10"),
        (building.StrBuild, "rows", "1000 100 100"),
        (building.HouseBuild, "layers", "996 100 99"),  # five houses are published twice
    ],
)
def test_no_problem_is_in_two_splits_and_a_split_is_always_the_same(make, field, sizes):
    splits = [make().items(split) for split in ("train", "dev", "test")]
    problems = [{str(item[field]) for item in items} for items in splits]
    counts = list(map(len, problems))
    assert " ".join(map(str, counts)) == sizes
    assert len(set().union(*problems)) == sum(counts)
    assert splits[1] == make().items("dev")


MBPP_ROW = {
    "task_id": 7,
    "prompt": "Write a function to scale a number.",
    "code": "import math\nUNIT = 2\ndef half(x):\n    return x / UNIT\ndef other(): pass\n"
    "def scale(p, k=1.5, *rest):\n    return half(2 * p) * k\n",
    "test_imports": ["import math"],
    "test_list": ["assert math.isclose(scale(half(4)), 3)", "assert scale(1, 2) == 2"],
}


def test_an_mbpp_row_becomes_an_item_with_its_signature(tmp_path):
    data = tmp_path / "a.jsonl"
    write_lines(data, [MBPP_ROW | {"task_id": number} for number in range(427)])
    task = mbpp.MBPP(str(data))
    for split, first, end in (("train", 15, 65), ("dev", 0, 15), ("test", 65, 257)):
        items = task.items(split)
        assert [item["task_id"] for item in items] == [str(number) for number in range(first, end)]
    item = items[0]
    assert signature(item["prompt"], "scale") == "def scale(p, k=1.5, *rest):"
    assert '"""Write a function to scale a number."""' in item["prompt"]
    assert "def half" in item["setup"]  # a test calls it
    assert "other" not in item["setup"]
    assert len(item["tests"]) == 2
    assert all(teams.run(item, teams.team_parts(item, [item["solution"]])).passed)


# A command, and what its one line has to name
MISTAKES = """
examples/score.py none.jsonl     cannot read none.jsonl: No such file or directory
examples/score.py rows.jsonl     rows.jsonl, row 1: 'item' has to be an object, and 'responses'
examples/score.py null.jsonl     null.jsonl, row 1: 'item' has to be an object, and 'responses'
examples/score.py text.jsonl     text.jsonl, row 1: 'item' has to be an object, and 'responses'
examples/score.py items.jsonl    items.jsonl: a line, or its item, has no field 'entry_point'
examples/crossplay.py            the following arguments are required: runs
examples/crossplay.py nowhere    nowhere: there is no run
examples/crossplay.py a b        the runs differ in --turns
examples/credit/trap.py nowhere  nowhere: there is no run
examples/credit/trap.py a        a has no metric/load_bearing in its metrics.jsonl: is it of coop?
examples/whole.py none folder    none is neither a .gguf file nor the folder of an adapter
examples/whole.py .              the following arguments are required: folder
train.py --task examples/directory.py:Directory --num-agents 3            is for 2 agents, not 3
train.py --task examples/directory.py:Told                                is for 1 agents, not 2
train.py --task examples/directory.py:Half --task-arg wording=odd         same or other, not odd
train.py --task examples/directory.py:Half --task-arg facts=12            1 to 11 facts, not 12
train.py --task examples/ledger.py:Ledger --task-arg lines=1              2 to 450 lines, not 1
train.py --task examples/credit/strangers.py:Strangers --num-agents 5     not 5 agents
train.py --task examples/expert.py:HumanEval --turns 2 --feedback expert  expert_url=URL
train.py --task examples/mbpp.py:MBPP --data rows.jsonl                   row 1: field 'prompt'
train.py --task examples/gym.py:Gym --task-arg dataset=no                 gym refuses no with {}
train.py --task examples/gym.py:Gym --task-arg dataset=sums config={"lowest":-1}  must be >= 0
train.py --task examples/gym.py:Gym --task-arg dataset=evaluated          not compare answers as
"""


@pytest.mark.parametrize("command, named", table(MISTAKES))
def test_a_mistake_is_one_line(command, named, tmp_path, monkeypatch, capsys):
    (tmp_path / "rows.jsonl").write_text('{"item": {}}')
    (tmp_path / "null.jsonl").write_text('{"item": {}, "responses": ["", null]}')
    (tmp_path / "text.jsonl").write_text('{"item": "{}", "responses": ["", ""]}')
    (tmp_path / "items.jsonl").write_text('{"item": {}, "responses": ["", ""]}')
    write_run(tmp_path / "a")
    write_run(tmp_path / "b", turns=2)
    script, *words = command.split()
    monkeypatch.setattr("sys.argv", [script, *words])
    with pytest.raises(SystemExit) as stopped:
        runpy.run_path(str(ROOT / script), run_name="__main__")
    assert stopped.value.code == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith(f"{Path(script).name}: error: ")
    assert named in line


def test_without_the_package_there_is_one_line(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "reasoning_gym", None)
    line = refused(capsys, f"--task {gym.__file__}:Gym --task-arg dataset=sums")
    assert "examples/gym.py needs pip install reasoning-gym==0.1.25" in line


# --- what agents read -----------------------------------------------------------------------------

CALL = ["<python>7 * 31", ""]
LONG = "one\nand " + 60 * "x"
SENT = ["8 is\nit", LONG]
FINAL = ["3 7", "217"]
WRITTEN = r"# agent 0 wrote\n```\nONE\n```\n"


def asks(task, item, *turns):
    """Return who is asked what after these answers, as JSON, and what is scored then."""
    history = []
    for texts in turns:
        history.append((follow(task, item, history).asked, texts))
    step = follow(task, item, history)
    prompts = {agent: json.dumps(prompt) for agent, prompt in (step.asked or {}).items()}
    return prompts, step.scored


@pytest.mark.parametrize(
    "make, texts, only_0, only_1, nobody",  # what they read at the second turn, if asked
    [
        (messages.Messages, SENT, "one and " + 40 * "x", "8 is it", 41 * "x"),
        (messages.Deaf, SENT, "greater than 0", "modulo 0", "8 is it"),
        (ledger.Ledger, SENT, "one and " + 52 * "x", None, 53 * "x"),
        (ledger.Deaf, SENT, "Partner: ", None, "one and"),
        (tools.Tools, CALL, None, '{"role": "tool", "content": "217"}', "7 * 31"),
        (tools.NoTool, CALL, None, tools.ANSWER, "217"),
        (lambda: sums(2, size=5), ["a hint", ""], None, "partner: a hint", "8"),
        (workflows.Sequential, ["```\nONE", ""], None, WRITTEN, "TWO"),
    ],
)
def test_only_the_partner_reads_a_message(make, texts, only_0, only_1, nobody):
    task = make()
    task.num_agents = 2
    item = task.items("test")[0]
    reads = {agent: text for agent, text in enumerate((only_0, only_1)) if text}
    first, scored = asks(task, item)
    assert first.keys() == ({0, 1} if len(reads) == 2 else {0, 1} - reads.keys())
    assert scored is None
    prompts, scored = asks(task, item, texts)
    assert (prompts.keys(), scored) == (reads.keys(), None)
    for agent, text in reads.items():
        assert [other for other in prompts if text in prompts[other]] == [agent]
        assert nobody not in prompts[agent]
    assert asks(task, item, texts, FINAL)[1][1][max(reads)] == FINAL[max(reads)]


def test_one_agent_calls_the_tool_and_answers():
    task = tools.Tools(num_agents=1)
    task.num_agents = 1
    item = task.items("test")[0]
    assert tools.CALL in asks(task, item)[0][0]
    prompts, _ = asks(task, item, CALL[:1])
    assert '{"role": "tool", "content": "217"}' in prompts[0]
    assert asks(task, item, CALL[:1], ["217"])[1] == (item | {"called": CALL[0]}, ["217"])


def test_the_deaf_reader_s_example_has_a_message():
    task = ledger.Deaf()
    *_, shown, _, asked = task.chat(0, task.items("test")[0], "348")
    assert shown["content"].endswith(f"Partner: {ledger.EXAMPLE['message']}")
    assert asked["content"].endswith("Partner: ")


def test_a_ledger_s_reader_sees_its_own_half():
    item = ledger.Ledger(lines=5).items("test")[0]
    first, second = map(set, item["halves"])
    for task, agent, lines in (
        (ledger.Ledger(), 0, first),
        (ledger.Ledger(), 1, second),
        (ledger.Half(1), 0, first),
        (ledger.Full(1), 0, first | second),
    ):
        shown = task.chat(agent, item)[-1]["content"].splitlines()
        assert (first | second).intersection(shown) == lines
    lines = item["halves"][0] + item["halves"][1]
    own = [int(line.split()[2]) for line in lines if line.startswith(item["who"])]
    assert own == item["amounts"]


def test_a_debate_shows_all_answers_and_a_router_decides_who_is_asked():
    task = workflows.Debate()
    item = task.items("test")[0]
    answers = "Agent 0 wrote:\nONE\n\nAgent 1 wrote:\nTWO\n\n"
    shown = {agent: json.dumps(answers + task.observe(agent, item, [])) for agent in (0, 1)}
    assert asks(task, item, ["ONE", "TWO"]) == (shown, None)
    assert asks(task, item, ["ONE", "TWO"], ["x", "y"]) == ({}, (item, ["x", "y"]))
    task = workflows.Router(num_agents=3)
    for answer, solver in (("agent 2", 2), ("me", 1)):
        assert asks(task, item, [answer, "", ""])[0].keys() == {solver}
        texts = ["" if agent != solver else item["solution"] for agent in range(3)]
        assert task.scheme(item, texts) != "other"  # there is a main function


# --- what they are paid ---------------------------------------------------------------------------

PAYS = {
    "ledger": (ledger.found, {"amounts": [101, 202, 303]}),
    "messages": (messages.find, {"door": (3, 7), "sent": ["3", ""]}),
    "tools": (tools.answer, {"answer": 1234, "called": "<python>1"}),
    "gym": (gym.verified, {"entry": {"answer": "8"}, "source": ("sums", "{}")}),
}
# Responses, with bars between them, and the parts that they earn
PAID = """
ledger    303, 101 and 202 | 303      1 -0.019 1
ledger    101, 9 |                    0.4 0 0
messages  3, 7 or 9 | so 3 7          1 -0.0005
tools     | So 1,234.                 1 -0.018 1 1
tools     1234 or 7                   0 0 0 1
gym       8                           1 1
gym       So <answer> 8 </answer>.    1 1
gym       8 | 9                       0 0
"""


@pytest.mark.parametrize("name, texts, parts", table(PAID))
def test_a_joint_response_is_paid(name, texts, parts):
    reward, item = PAYS[name]
    responses = [text.strip() for text in texts.split("|")]
    wanted = list(map(float, parts.split()))
    assert [*reward(item, responses).values()] == pytest.approx(wanted)


def test_a_long_answer_costs_a_tenth_at_most():
    reward, item = PAYS["ledger"]
    assert reward(item, ["101 202 303" + 99 * "x", ""])["length"] == -0.1


OWN = main("return sum(x * x for x in xs if x % 2 == 0)")


def worth(*responses):
    return total(code(SQUARES, list(responses)))


def test_alone_a_helper_is_of_no_use_and_a_difference_knows_its_worth():
    both, main_alone, helper_alone = worth(EVEN, FILTERED), worth("", FILTERED), worth(EVEN, "")
    assert both > worth(EVEN, OWN) > worth("", OWN) > main_alone
    for reward, first, second in (
        (own_pay.alone, helper_alone, main_alone),
        (own_pay.difference, both - main_alone, both - helper_alone),
        (own_pay.mixed, helper_alone, main_alone),
    ):
        parts = reward(SQUARES, [EVEN, FILTERED])
        assert [parts["agent/0"], parts["agent/1"]] == pytest.approx([first, second])
        assert parts["metric/joint"] == both / 4
        paid_to_all = [parts[name] for name in parts if "/" not in name]
        assert paid_to_all == ([both] if reward is own_pay.mixed else [])


def test_a_shapley_value_is_the_mean_over_the_orders_in_which_a_team_forms():
    texts = [EVEN, "def aux_2(x):\n    return x * x\n", FILTERED]
    values = [0.0] * 3
    for order in itertools.permutations(range(3)):
        present = [""] * 3
        for agent in order:
            before = worth(*present)
            present[agent] = texts[agent]
            values[agent] += (worth(*present) - before) / 6
    parts = own_pay.shapley(SQUARES, texts)
    assert [parts[f"agent/{agent}"] for agent in range(3)] == pytest.approx(values)
    assert sum(values) == pytest.approx(worth(*texts) - worth("", "", ""))


@pytest.mark.parametrize(
    "text, result",
    [
        ("<python>12 * 30 - 5", "355"),
        ("So <python> (1 +\n2)", "3"),
        ("<python>" + "1+" * 59 + "12345", "12404"),
        ("<python>1 / 0", "ZeroDivisionError: division by zero"),
        ("<python>12 books", "SyntaxError"),
        ("<python>open('/etc/passwd').read()", "Error"),
        ("12 * 30", ""),
        ("<python> ", ""),
        ("<python>''", ""),
    ],
)
def test_the_tool_computes_in_the_sandbox(text, result):
    computed = tools.computed(text)
    assert result in computed
    assert bool(computed) == bool(result)
