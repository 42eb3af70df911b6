"""eval.py on small runs of the embedded team: python -m pytest tests/test_eval.py

A run of a team and one of a single agent are trained for a step; then they are evaluated.
"""

import csv
import json
import re
import shutil
from collections import defaultdict

import pytest
from helpers import edit_args, read_json, run_eval, train_run, words

import eval as evaluation
from evaluation import players
from tasks import Coop, Discussion, InTurn, Task
from training.held_out import shown
from training.run_folder import read_records
from training.terminal import printable

SMALL = "--batch-size 1 --num-generations 2 --eval-limit 2 --max-steps 1 --max-new-tokens 24 "
SMALL += "--lr 0.1 --advantage none --eval-every 1"  # every agent moves
METHODS = words("trained naive sequential discussion only-0 only-1 single")


@pytest.fixture(scope="module")
def team(tmp_path_factory):
    return train_run(tmp_path_factory.mktemp("runs") / "team", SMALL)


@pytest.fixture(scope="module")
def solo(team):
    return train_run(team.parent / "solo", SMALL, "--num-agents 1")


def evaluated(folder, *flags):
    """Evaluate, and return the folder of every file that it can write."""
    folder.mkdir()
    run_eval(*flags, f"--json {folder}/json --csv {folder}/csv --samples {folder}/samples")
    return folder


@pytest.fixture(scope="module")
def whole(team, solo):
    """A whole evaluation of both runs."""
    return evaluated(team.parent / "whole", f"--run {team} {solo} --limit 2 --num-samples 4")


def methods(path):
    return read_json(path / "json")["methods"]


def records(path, method):
    """The sampled records of a method."""
    lines = read_records(path / "samples")
    return [line for line in lines if line["method"] == method and not line["greedy"]]


# --- the table ------------------------------------------------------------------------------------


def test_every_run_plays_every_method_of_its_own(whole, team, solo):
    table = methods(whole)
    names = [f"{team}/{name}" for name in METHODS]
    names += [f"{solo}/{name}" for name in ("trained", "naive")]
    assert list(table) == names
    keys = "return return_se greedy/return reward/tests reward/cooperation pass@1 pass@3 accuracy@3"
    keys += " coop_rate distinct length/0 tokens_per_problem latency_s latency_s_se"
    for name, row in table.items():
        shares = [row[key] for key in row if re.fullmatch("scheme/.*(?<!_se)", key)]
        assert sum(shares) == pytest.approx(1)
        assert ("difference" in row) == (name != names[0])
        assert row.keys() >= {*keys.split(), "tokens_per_s"}
    with (whole / "csv").open() as file:
        lines = list(csv.DictReader(file))
    assert [line["method"] for line in lines] == names
    assert float(lines[0]["return"]) == table[names[0]]["return"]
    for run in (team, solo):
        own = read_json(run / "eval.json")
        assert own["settings"] == read_json(whole / "json")["settings"]
        for name, row in own["methods"].items():
            shown = table[f"{run}/{name}"]
            assert row == {key: shown[key] for key in shown if "difference" not in key}


def test_it_measures_what_the_runs_measured(whole, team, solo):
    """Same random numbers, prompts and rewards as the run's own evaluation."""
    table = methods(whole)
    for run in (team, solo):
        for when, name in (("before", "naive"), ("after", "trained")):
            measured = read_json(run / "summary.json")[when]
            for key in ("return", "return_se", "greedy/return", "reward/structure"):
                assert table[f"{run}/{name}"][key] == pytest.approx(measured[key], abs=1e-9)


def test_the_dev_problems_were_those_of_the_split_dev(team, tmp_path):
    flags = f"--run {team} --split dev --method trained --limit 2 --num-samples 4"
    again = methods(evaluated(tmp_path / "dev", flags))["trained"]
    [step] = read_records(team / "metrics.jsonl")
    for key in ("return", "greedy/return", "reward/structure"):
        assert step[f"dev/{key}"] == pytest.approx(again[key], abs=1e-9)


def test_who_is_trained_and_who_sees_what_decides_the_texts(whole, team):
    texts = defaultdict(list)
    for method in METHODS[:6]:
        for line in records(whole, f"{team}/{method}"):
            for agent, text in enumerate(line["turns"][0]["responses"]):
                texts[method, agent].append(text)
    same = "only-0 0 trained, only-0 1 naive, only-1 0 naive, only-1 1 trained, "
    same += "sequential 0 naive, discussion 0 naive, discussion 1 naive"
    for pair in same.split(", "):
        method, agent, like = pair.split()
        assert texts[method, int(agent)] == texts[like, int(agent)]
    for method, agent in (("trained", 0), ("trained", 1), ("sequential", 1)):
        assert texts[method, agent] != texts["naive", agent]


def test_a_baseline_whose_prompts_do_not_fit_is_left_out(team):
    player = players.Player(evaluation.run_flags(evaluation.parse(["--run", str(team)]), team))
    items = player.task.items("test")[:1]
    codec = player.team.bases[0].codec
    sizes = [len(codec.literal(player.task.observe(agent, items[0], []))) for agent in (0, 1)]
    codec.context = max(sizes) + player.flags.max_new_tokens  # no room for a partner's text
    player.play("x", player.rollout(), items, 0, 1)
    for kind in (InTurn, Discussion):
        with pytest.raises(ValueError, match="partners' texts does not fit"):
            player.play("x", player.rollout((), kind), items, 0, 1)


GAME = """
class Game:
    reward = "FOLDER/game.py:won"
    per_episode = ONCE
    def items(self, split):
        return [{"due": due, "turn": 0} for due in (0, 1, 1, 2)]
    def play(self, item):
        for turn in range(item["due"] + 1):
            texts = yield {turn % 2: "go"} if ALTERNATE else {0: "go", self.num_agents - 1: "go"}
            yield item | {"turn": turn}, texts
    def scheme(self, item, responses): return f"turn {item['turn']}"
def won(item, responses): return float(item["turn"] == item["due"])
won.maximum = 1.0
"""


@pytest.mark.parametrize("alternate, once, largest", [(False, False, 1.75), (True, True, 1)])
def test_equal_play_has_equal_returns(alternate, once, largest, tmp_path, monkeypatch, capsys):
    """Every method wins at the turn that is due, whatever it writes. Then the episode is over."""
    game = GAME.replace("FOLDER", str(tmp_path)).replace("ALTERNATE", str(alternate))
    (tmp_path / "game.py").write_text(game.replace("ONCE", str(once)))
    flags = evaluation.run_flags(evaluation.parse(["--task", f"{tmp_path}/game.py:Game"]), None)
    flags.gamma = 0.5
    flags.turns = 3
    flags.max_new_tokens = 2
    monkeypatch.setattr(evaluation, "run_flags", lambda *_: flags)
    path = evaluated(tmp_path / "game", "--greedy --task x")
    returns = defaultdict(list)
    for line in read_records(path / "samples"):
        returns[line["method"]].append(line["return"])
        assert line["scheme"] == f"turn {(0, 1, 1, 2)[line['item']]}"
    names = ["naive", "sequential", "discussion"]
    assert list(returns) == names if alternate else [*names, "single"]
    for values in returns.values():
        assert values == pytest.approx([0.5**due / largest for due in (0, 1, 1, 2)])
    assert read_json(path / "json")["settings"]["maximum"] == largest
    if alternate:  # it is for two: who is named has to play
        assert "no method single (the task was made with one agent): " in capsys.readouterr().err
        with pytest.raises(SystemExit):
            run_eval("--greedy --task x --method single")
        assert "no method" not in capsys.readouterr().err


# --- showing, asking ------------------------------------------------------------------------------


def test_show_prints_the_joint_responses_of_each_method(team, capsys):
    run_eval("show 2 --run", team, "--method trained naive")
    said = capsys.readouterr().out
    for method in ("trained, sampled", "trained, greedy", "naive, sampled", "naive, greedy"):
        assert said.count(f"\n=== {method}\nreward ") == 2
    assert said.count("; coop/test/1, turn 0\n\nagent 0 was asked:\n") == 4


def test_a_model_s_text_cannot_control_the_terminal():
    assert printable("a\x1b[2Jb\r\n\tc\x07") == "a[2Jb\n    c"


class Told(Coop):
    """Two turns, with feedback."""

    def feedback(self, item, responses):
        return [f"told {len(responses[0])}", "more"]


def test_ask_answers_as_the_evaluation_does(team, tmp_path, capsys):
    """With another task and reward than the run's, and on dev."""
    flags = f"--run {team} --task test_eval.Told --turns 2"
    play = "--limit 1 --method trained --greedy --reward code_paper --split dev"
    path = evaluated(tmp_path / "told", flags, play)
    settings = read_json(path / "json")["settings"]
    assert (settings["reward"], settings["maximum"], settings["split"]) == ("code_paper", 8, "dev")
    row = methods(path)["trained"]
    assert not {"greedy/return", "pass@3"} & row.keys()
    assert row["tokens_per_problem"] > row["length/0"] + row["length/1"]  # of both turns
    [line] = read_records(path / "samples")
    first, second = line["turns"]
    read = f"told {len(first['responses'][0])}"
    assert read in second["prompts"][0]
    capsys.readouterr()
    item = Coop().items("dev")[0]
    two_runs = flags.replace(str(team), f"{team} {team}")  # each answers
    evaluation.main(["ask", json.dumps(item), *words(two_runs)])
    said, warned = capsys.readouterr()
    assert not warned
    assert said.count(f"=== {team}/the team, greedy") == 2
    for turn in (first, second):
        asked = shown(turn | {"parts": {}, "task_id": item["task_id"]})
        assert printable(asked) in said


class Poem(Task):
    def items(self, split):
        return [{"task_id": "poem/0", "prompt": "x", "lines": 4}]


def test_ask_names_what_it_borrows(capsys):
    assert Poem().ask("y") == Poem().items("test")[0] | {"prompt": "y"}
    assert capsys.readouterr().err == "the problem has your prompt, and is otherwise poem/0\n"


def test_ask_of_a_task_whose_play_pays_by_itself(capsys):
    evaluation.main(words("ask Double. --task examples.workflows.Router --model", *["tiny"] * 3))
    assert "=== the team, greedy" in capsys.readouterr().out


def test_one_model_has_as_many_scored_turns_as_the_team(tmp_path):
    (tmp_path / "mine.py").write_text("import tasks\nclass Mine(tasks.InTurn, tasks.Coop): pass\n")
    mine = f"--task {tmp_path}/mine.py:Mine"
    cases = [(mine, (2, 1)), (f"{mine} --turns 1", (1, 1)), ("--turns 2", (2, 2))]
    for flags, turns in cases:
        team = evaluation.run_flags(evaluation.parse(words(flags)), None)
        single = players.alone(team, None)
        assert (team.turns, single.turns) == turns
        assert single.max_new_tokens == 2 * team.max_new_tokens


def test_what_is_of_training_or_of_another_task_does_not_bind_an_evaluation(team, tmp_path):
    run = shutil.copytree(team, tmp_path / "run")
    edit_args(run, kl_coef=0.1, turns=3, feedback="tests")
    for flags, want in (
        ("--top-p 0.9", (3, "tests")),
        ("--turns 1", (1, None)),
        ("--task examples.workflows.Debate", (2, None)),
        ("--task examples.workflows.Debate --turns 4", (4, None)),
    ):
        played = evaluation.run_flags(evaluation.parse(words(flags)), run)
        assert (played.turns, played.feedback) == want


def test_models_without_a_run_make_a_team_of_their_number():
    flags = evaluation.run_flags(evaluation.parse(["--model", *["tiny"] * 3]), None)
    assert flags.num_agents == len(flags.model) == len(flags.lr) == 3
    assert evaluation.parse(words("--run a --run b c")).run == words("a b c")


def test_a_run_s_table_is_written_when_it_was_played(team, solo, tmp_path, monkeypatch):
    first, other = (shutil.copytree(team, tmp_path / name) for name in "ab")
    (other / "eval.json").unlink(missing_ok=True)
    play = players.play_run

    def stopped(flags, run, *options):
        if run == other:
            raise KeyboardInterrupt
        return play(flags, run, *options)

    with monkeypatch.context() as patched:
        patched.setattr(players, "play_run", stopped)
        with pytest.raises(KeyboardInterrupt):
            run_eval(f"--run {first} {other} --limit 1 --greedy --method naive")
    assert [*read_json(first / "eval.json")["methods"]] == ["naive"]
    assert not (other / "eval.json").exists()
    run_eval(f"--run {solo} {first} --limit 1 --greedy --method only-0")  # solo has none
    assert [*read_json(first / "eval.json")["methods"]] == ["only-0"]
