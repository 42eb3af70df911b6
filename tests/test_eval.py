"""eval.py on small runs of the embedded team: python -m pytest tests/test_eval.py

A run of a team and one of a single agent are trained for a step; then they are evaluated.
"""

import contextlib
import csv
import dataclasses
import io
import shutil
import sys
from collections import defaultdict
from pathlib import Path

import pytest
from helpers import (
    edit_args,
    edit_json,
    output_of,
    read_json,
    refused_by_eval,
    run_eval,
    total,
    train_run,
    watch,
    words,
)

import eval as evaluation
import rewards
from evaluation import baselines as playing
from evaluation import load_team, report
from magrpo import Play, Rollout
from policies.codec import TooLong
from tasks import Coop
from training.flags import part_of
from training.plugins import TaskOptions, find_reward, make_task
from training.run_folder import data_hash, read_records

SMALL = "--batch-size 1 --num-generations 2 --eval-limit 2 --max-steps 1 --max-new-tokens 24 "
SMALL += "--lr 0.1 --advantage none"  # every agent moves
METHODS = words("trained naive sequential discussion single single-trained only-0 only-1")


@pytest.fixture(scope="module")
def team(tmp_path_factory) -> Path:
    return train_run(tmp_path_factory.mktemp("runs") / "team", SMALL)


@pytest.fixture(scope="module")
def solo(team) -> Path:
    return train_run(team.parent / "solo", SMALL, "--num-agents 1")


@pytest.fixture(scope="module")
def whole(team, solo) -> Path:
    """The folder of a whole evaluation: all methods and outputs, and what was said."""
    path = team.parent / "whole"
    path.mkdir()
    outputs = f"--json {path}/json --csv {path}/csv --samples {path}/samples"
    said, progress = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(progress):
        run_eval(f"--run {team} {solo} --limit 2 --num-samples 4", outputs)
    (path / "said").write_text(said.getvalue())
    (path / "progress").write_text(progress.getvalue())
    return path


def methods(path: Path) -> dict:
    return read_json(path / "json")["methods"]


def records(path: Path, method: str) -> list[dict]:
    """The sampled records of a method."""
    lines = read_records(path / "samples")[1:]
    return [record for record in lines if record["method"] == method and not record["greedy"]]


# --- the table ------------------------------------------------------------------------------------


def test_every_method_has_every_measure(whole):
    table = methods(whole)
    assert [name for name in table if name != "reference"] == METHODS
    keys = "return return_se greedy/return reward/tests reward/cooperation pass@1 pass@3 accuracy@3"
    keys += " coop_rate distinct schemes length/0 tokens_per_problem"
    keys += " latency_s latency_s_se latency_problems tokens_per_s"
    said = (whole / "said").read_text()
    progress = (whole / "progress").read_text()
    for name in METHODS:
        row = table[name]
        assert row.keys() >= set(keys.split())
        assert sum(scheme["count"] for scheme in row["schemes"].values()) == 8
        assert ("vs" in row) == (name != "trained")
        assert name in said
        at = [progress.index(f"{name}, {what}: ") for what in ("sampled", "greedy", "latency")]
        assert at == sorted(at)
    with (whole / "csv").open() as file:
        lines = list(csv.DictReader(file))
    assert [line["method"] for line in lines] == list(table)
    assert float(lines[0]["return"]) == table["trained"]["return"]


def test_it_measures_what_the_run_measured(whole, team, solo):
    """Same random numbers, prompts and rewards as the run's own evaluation: equal, not close."""
    table = methods(whole)
    for directory, when, name in (
        (team, "before", "naive"),
        (team, "after", "trained"),
        (solo, "before", "single"),
        (solo, "after", "single-trained"),
    ):
        measured = read_json(directory / "summary.json")[when]
        for key in ("return", "return_se", "greedy/return", "reward/structure"):
            assert table[name][key] == pytest.approx(measured[key], abs=1e-9)
    assert table["trained"]["return"] != table["naive"]["return"]


SAME = ["only-0 0 trained", "only-0 1 naive", "only-1 0 naive", "only-1 1 trained"]
SAME += ["sequential 0 naive", "discussion 0 naive", "discussion 1 naive"]
OTHER = ["trained 0 naive", "trained 1 naive", "sequential 1 naive"]


@pytest.mark.parametrize("pair", SAME + OTHER)
def test_who_writes_at_first_what_the_same_agent_writes_elsewhere(pair, whole):
    method, agent, like = pair.split()
    texts = []
    for name in (method, like):
        turns = [record["turns"][0] for record in records(whole, name)]
        texts.append([turn["responses"][int(agent)] for turn in turns])
    assert len(texts[0]) == 8
    assert (texts[0] == texts[1]) == (pair in SAME)


def test_the_second_round_of_a_discussion_counts(whole):
    table = methods(whole)
    assert table["discussion"]["tokens_per_problem"] > table["naive"]["tokens_per_problem"]
    for record in records(whole, "discussion"):
        parts = record["turns"][1]["parts"]
        assert record["return"] == pytest.approx(total(parts) / 4)


def test_greedy_only_and_another_reward_and_turns(team, tmp_path):
    short = f"--limit 1 --method trained --json {tmp_path}/json --greedy"
    run_eval("--run", team, short, "--reward code_paper --turns 2 --split dev")
    assert ": 1 dev problem, greedy" in read_json(tmp_path / "json")["settings"]["title"]
    row = methods(tmp_path)["trained"]
    assert not {"greedy/return", "pass@3"} & row.keys()
    assert row["tokens_per_problem"] > row["length/0"] + row["length/1"]  # of both turns


# --- prompts --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def player(team):
    flags = evaluation.run_flags(evaluation.parse(["--run", str(team)]), team)
    return load_team.Player(flags, team, find_reward(make_task(part_of(flags, TaskOptions))))


def asked(player, kind, monkeypatch) -> list[str]:
    """The prompts of the first item, of one sample, in the order in which they are asked."""
    with monkeypatch.context() as patch:
        calls = watch(patch, Rollout, "encode")
        items = player.task.items("test")[:1]
        player.rollout(kind)(items, (0, 1, 0, 0), player.sampling, Play(1, 1, chain=True))
    return [text for *_, text in calls]


def test_only_the_baselines_show_a_partner_s_text(player, monkeypatch):
    own = asked(player, Rollout, monkeypatch)
    assert len(own) == 2
    assert not any("wrote:" in prompt for prompt in own)
    first, second = asked(player, playing.Sequential, monkeypatch)
    assert first == own[0]
    assert second.startswith("Agent 0 wrote:\n")
    assert second.endswith(own[1])
    *at_first, third, fourth = asked(player, playing.Discussion, monkeypatch)
    assert at_first == own
    assert "Agent 1 wrote:" in third
    assert "Agent 0 wrote:" not in third
    assert "Agent 0 wrote:" in fourth


GAME = """
class Game:
    reward = "FOLDER/game.py:won"
    def items(self, split):
        return [{"due": due, "turn": 0, "solution": "x"} for due in (0, 1, 1, 2)]
    def speakers(self, item, turn):
        return [turn % 2] if ALTERNATE else None
    def observe(self, agent, item, history):
        assert not ALTERNATE or agent == item["turn"] % 2
        return "go"
    def advance(self, item, responses):
        return None if item["turn"] == item["due"] else item | {"turn": item["turn"] + 1}
    def scheme(self, item, responses): return f"turn {item['turn']}"
def won(item, responses): return float(item["turn"] == item["due"])
won.maximum = 1.0
won.per_episode = ONCE
"""


@pytest.mark.parametrize(("alternate", "once", "largest"), [(False, False, 1.75), (True, True, 1)])
def test_equal_play_has_equal_returns(alternate, once, largest, tmp_path, monkeypatch):
    """Every method wins at the turn that is due, whatever it writes. Then the episode is over."""
    game = GAME.replace("FOLDER", str(tmp_path)).replace("ALTERNATE", str(alternate))
    (tmp_path / "game.py").write_text(game.replace("ONCE", str(once)))
    run_flags = evaluation.run_flags

    def discounted(*args):
        return dataclasses.replace(run_flags(*args), gamma=0.5)

    monkeypatch.setattr(evaluation, "run_flags", discounted)
    argv = f"--task {tmp_path}/game.py:Game --turns 3 --greedy --max-new-tokens 2"
    run_eval(argv, f"--samples {tmp_path}/samples --json {tmp_path}/json")
    returns = defaultdict(list)
    header, *lines = read_records(tmp_path / "samples")
    for line in lines:
        returns[line["method"]].append(line["return"])
    names = words("naive sequential discussion", "" if alternate else "single", "reference")
    assert list(returns) == names
    for values in returns.values():
        assert values == pytest.approx([0.5**due / largest for due in (0, 1, 1, 2)])
    assert [line["scheme"] for line in lines[:4]] == ["turn 0", "turn 1", "turn 1", "turn 2"]
    unit = f"reward {tmp_path}/game.py:won, {largest:g} in an episode of 3 turns, gamma 0.5;"
    assert unit in header["settings"]["title"]


# --- reference, showing, asking -------------------------------------------------------------------


def test_solutions_are_played_whoever_speaks_first(tmp_path):
    source = "from tasks import Coop\nclass Mine(Coop):\n"
    source += "    def speakers(self, item, turn):\n        return [1]\n"
    (tmp_path / "mine.py").write_text(source)
    run_eval(f"--task {tmp_path}/mine.py:Mine --limit 2 --method reference --json {tmp_path}/json")
    assert methods(tmp_path)["reference"]["pass@1"] == 1


def test_a_model_s_text_cannot_control_the_terminal():
    assert report.printable("a\x1b[2Jb\r\n\tc\x07") == "a[2Jb\n    c"


def test_ask_answers_as_the_evaluation_does_and_without_lightning(whole, team):
    header, *lines = read_records(whole / "samples")
    evaluated = next(row for row in lines if row["method"] == "trained" and row["greedy"])
    prompt = header["items"][0]["prompts"][0].rpartition("# write")[0]
    argv = ["ask", "--run", str(team), prompt]
    code = f"import sys, eval; eval.main({argv}); assert 'lightning' not in sys.modules"
    done = output_of([sys.executable, "-c", code])
    said = " ".join(done.stdout.partition(f"the team trained by {team}:")[2].split())
    for text in evaluated["turns"][0]["responses"]:
        for line in text.splitlines():
            assert " ".join(line.split()) in said


# --- comparing, examining -------------------------------------------------------------------------


def test_compare_and_doctor_read_real_runs(team, solo, capsys):
    run_eval("compare", team, solo)
    mean = read_json(team / "summary.json")["after"]["return"]
    assert f"{mean:.3f} (1)" in capsys.readouterr().out
    run_eval("doctor", team)
    assert "fewer than 20 steps" in capsys.readouterr().out


TEAM = """
class Two:
    reward = "FOLDER/two.py:both"
    def __init__(self, data=None, num_agents=2): CHECK
    def items(self, split): return [{"prompt": f"# word {n}\\n", "solution": n} for n in (1, 2, 3)]
    def observe(self, agent, item, history): return item["prompt"]
def both(item, responses): return float(responses[0][:1] == responses[1][:1])
both.maximum = 1.0
"""


@pytest.mark.parametrize(
    ("check", "reason"),
    [
        ("pass", "\nno method single: IndexError: "),
        ("1 / (num_agents - 1)", ""),
    ],
)
def test_what_is_for_teams_alone_is_evaluated_without_single(check, reason, tmp_path, capsys):
    (tmp_path / "two.py").write_text(TEAM.replace("FOLDER", str(tmp_path)).replace("CHECK", check))
    argv = f"--task {tmp_path}/two.py:Two --limit 1 --greedy --max-new-tokens 4"
    run_eval(argv, f"--json {tmp_path}/json")
    assert list(methods(tmp_path)) == ["naive", "sequential", "discussion"]
    title = read_json(tmp_path / "json")["settings"]["title"]
    assert reason in title
    assert ("no method" in title) == bool(reason)
    with pytest.raises(SystemExit):
        run_eval(argv, "--method single")
    assert ("error: --method single: what" in capsys.readouterr().err) == (not reason)


def test_a_baseline_whose_prompts_do_not_fit_is_left_out(monkeypatch, tmp_path, capsys):
    """Its prompts hold partners' texts, so nobody knows their lengths before."""
    monkeypatch.setattr(playing, "shown", lambda *_: "a " * 9000)
    flags = f"--task coop --model tiny --limit 1 --greedy --max-new-tokens 4 --json {tmp_path}/json"
    run_eval(flags)
    assert list(methods(tmp_path)) == ["naive", "single", "reference"]
    assert "no method sequential: TooLong: " in read_json(tmp_path / "json")["settings"]["title"]
    with pytest.raises(SystemExit):
        run_eval(flags, "--method sequential")
    assert "error: a prompt has" in capsys.readouterr().err


def test_a_method_that_fails_in_its_greedy_play_is_left_out_whole(monkeypatch, tmp_path):
    """Its prompts may fit in the sampled play alone. The title says that it is left out."""
    play = playing.play_method

    def play_method(name, *arguments):
        if name == "sequential" and arguments[-1] == 0:
            raise TooLong("a prompt has 9 tokens")
        return play(name, *arguments)

    monkeypatch.setattr(playing, "play_method", play_method)
    flags = "--task coop --model tiny --limit 1 --num-samples 1 --max-new-tokens 4"
    run_eval(flags, f"--json {tmp_path}/json")
    assert list(methods(tmp_path)) == ["naive", "discussion", "single", "reference"]
    assert "no method sequential: TooLong: " in read_json(tmp_path / "json")["settings"]["title"]


def test_a_task_may_ask_in_chat_messages(team):
    class Chat(Coop):
        def observe(self, agent, item, history):
            return [{"role": "user", "content": "Hi."}]

    args = evaluation.parse(["--run", str(team)])
    flags = evaluation.run_flags(args, team)
    header = evaluation.describe(args, flags, Chat(), rewards.code, [{"task_id": 1}])
    assert header["items"] == [{"task_id": 1, "prompts": ["[user] Hi."] * 2}]


def test_rows_that_a_run_was_not_trained_on_play_on_purpose_alone(team, tmp_path, capsys):
    other = shutil.copytree(team, tmp_path / "other")
    file = tmp_path / "rows.jsonl"
    file.write_text("{}")
    edit_json(other / "args.json", data_hash=data_hash(str(file)))
    edit_args(other, data=str(file))

    def data_with(*flags) -> str | None:
        return evaluation.run_flags(evaluation.parse([*flags]), other).data

    assert data_with() == str(file)
    assert data_with("--task", "humaneval") is None  # it has its own problems
    file.write_text("{ }")
    assert "rows.jsonl has other rows than those that" in refused_by_eval(capsys, "--run", other)
    assert data_with("--data", str(file))
    assert "note: " in capsys.readouterr().err


def test_an_agent_alone_plays_as_the_team_does(team, solo, tmp_path, capsys):
    other = shutil.copytree(solo, tmp_path / "solo")
    for name, value in (("top_k", 5), ("top_p", 0.9)):
        edit_args(other, **{name: value})
        told = refused_by_eval(capsys, "--run", team, other)
        flag = name.replace("_", "-")
        assert f"was trained with another --{flag} than the team plays with" in told
