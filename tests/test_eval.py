"""eval.py on small runs of the embedded team: python -m pytest tests/test_eval.py

A run of a team and one of a single agent are trained for a step; then they are evaluated.
"""

import contextlib
import csv
import functools
import io
import json
import math
import re
import shutil
import types
from pathlib import Path

import helpers
import pytest
from test_code_signs import samples
from test_doctor import rows, write

import eval as evaluation
import train
from evaluation import methods as playing
from evaluation import players, report
from magrpo import Rollout
from policies.sampling import Sampling
from training.flags import part_of
from training.plugins import TaskOptions, find_reward, make_task

SMALL = ["--batch-size", "1", "--num-generations", "2", "--eval-limit", "2", "--max-steps", "1"]
SMALL += ["--max-new-tokens", "32", "--lr", "0.1", "--advantage", "none"]  # every agent moves
METHODS = ["trained", "naive", "sequential", "discussion", "single", "single-trained"]
METHODS += ["frozen-0", "frozen-1"]


refused = functools.partial(helpers.refused, program=evaluation)


def run(*argv) -> None:
    evaluation.main(list(map(str, argv)))


@pytest.fixture(scope="module")
def team(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("runs") / "team"
    train.main([*SMALL, "--run", str(path)])
    return path


@pytest.fixture(scope="module")
def solo(team) -> Path:
    train.main([*SMALL, "--num-agents", "1", "--run", str(team.parent / "solo")])
    return team.parent / "solo"


@pytest.fixture(scope="module")
def whole(team, solo) -> Path:
    """The folder of a whole evaluation: all methods and outputs, and what was said."""
    path = team.parent / "whole"
    path.mkdir()
    outputs = [f"--{name}={path / name}" for name in ("json", "csv", "samples")]
    said, progress = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(progress):
        run("--run", team, "--run", solo, "--limit", 2, "--num-samples", 4, *outputs)
    (path / "said").write_text(said.getvalue())
    (path / "progress").write_text(progress.getvalue())
    return path


def methods(path: Path) -> dict:
    return json.loads((path / "json").read_text())["methods"]


def records(path: Path) -> dict[str, list[dict]]:
    """The sampled records of each method."""
    lines = [json.loads(line) for line in (path / "samples").read_text().splitlines()][1:]
    return {name: [r for r in lines if r["method"] == name and not r["greedy"]] for name in METHODS}


def texts(records: list[dict], agent: int, turn: int = 0) -> list[str]:
    return [record["turns"][turn]["responses"][agent] for record in records]


def timeless(path: Path) -> dict:
    timing = re.compile("latency|tokens_per_s")
    return {
        name: {key: value for key, value in row.items() if not timing.match(key)}
        for name, row in methods(path).items()
    }


# --- the table ------------------------------------------------------------------------------------


class Clock:
    """A rollout and the clock it is timed by, which nothing else moves: a problem takes its item's
    seconds, half of them decoding; the warm-up takes none."""

    def __init__(self):
        self.now, self.seconds = 0.0, {}

    def perf_counter(self) -> float:
        return self.now

    def __call__(self, items, key, samples, sampling, *_):
        taken = items[0]["seconds"] if sampling.max_new_tokens == 64 else 0
        self.now += taken
        self.seconds["rollout"] = taken / 2
        said = [[types.SimpleNamespace(tokens=[0] * 4)], [types.SimpleNamespace(tokens=[0] * 3)]]
        return [[types.SimpleNamespace(responses=said)]]


@pytest.mark.parametrize(
    ("seconds", "spent", "timed"),
    [
        ([1] * 20, 1e4, 10),  # never more than ten
        ([2] * 20, 89, 4),
        ([1, 1, 9, 1, 1], 90, 3),  # the third took more than those before it
        ([100] * 3, 9, 1),  # one at least
    ],
)
def test_the_timing_of_single_problems_takes_a_tenth(seconds, spent, timed, monkeypatch):
    rollout = Clock()
    monkeypatch.setattr(playing, "time", rollout)
    items = [{"seconds": float(value)} for value in seconds]
    found = playing.latencies("x", rollout, items, Sampling(1.0, 0, 1.0, 64), 0, spent)
    assert found == {"seconds": [value / 2 for value in seconds[:timed]], "tokens": [7] * timed}


def test_every_method_has_every_measure(whole):
    found = methods(whole)
    assert [name for name in found if name != "reference"] == METHODS
    told = (whole / "progress").read_text()
    for name in METHODS:
        row = found[name]
        expected = {"return", "return_se", "greedy/return", "reward/tests", "reward/cooperation"}
        expected |= {"pass@1", "pass@3", "accuracy@3", "coop_rate", "distinct", "schemes"}
        expected |= {"length/0", "tokens_per_problem", "latency_s", "latency_s_se", "tokens_per_s"}
        assert row.keys() >= expected
        assert sum(scheme["count"] for scheme in row["schemes"].values()) == 8
        assert 0 <= row["return"] <= 1
        assert row["latency_s"] > 0
        assert 1 <= row["latency_problems"] <= 2
        assert ("vs" in row) == (name != "trained")
        if "vs" in row:
            assert sum(row["vs"][key] for key in ("win", "tie", "loss")) == 2
        at = [told.index(f"{name}, {what}: ") for what in ("sampled", "greedy", "latency")]
        assert at == sorted(at)
    said = (whole / "said").read_text()
    assert all(name in said for name in METHODS)
    assert f"{found['trained']['return']:.3f} ±" in said
    with (whole / "csv").open() as file:
        lines = list(csv.DictReader(file))
    assert [line["method"] for line in lines] == list(found)
    assert float(lines[0]["return"]) == found["trained"]["return"]
    assert lines[0]["vs/difference"] == ""
    assert float(lines[1]["vs/difference"]) == found["naive"]["vs"]["difference"]


def test_it_measures_what_the_run_measured(whole, team, solo):
    """Same random numbers, prompts and rewards as the run's own evaluation: equal, not close."""
    found = methods(whole)
    for directory, after, before in (
        (team, "trained", "naive"),
        (solo, "single-trained", "single"),
    ):
        summary = json.loads((directory / "summary.json").read_text())
        for name, when in ((after, "after"), (before, "before")):
            for key in ("return", "return_se", "greedy/return", "reward/structure"):
                assert found[name][key] == pytest.approx(summary[when][key], abs=1e-9)
    assert found["trained"]["return"] != found["naive"]["return"]


def test_who_is_trained_in_which_method(whole):
    played = records(whole)
    assert texts(played["frozen-0"], 0) == texts(played["trained"], 0)
    assert texts(played["frozen-0"], 1) == texts(played["naive"], 1)
    assert texts(played["frozen-1"], 0) == texts(played["naive"], 0)
    assert texts(played["frozen-1"], 1) == texts(played["trained"], 1)
    assert texts(played["trained"], 0) != texts(played["naive"], 0)
    assert texts(played["trained"], 1) != texts(played["naive"], 1)


def test_sequential_and_discussion_start_like_naive(whole):
    played = records(whole)
    assert texts(played["sequential"], 0) == texts(played["naive"], 0)
    assert texts(played["sequential"], 1) != texts(played["naive"], 1)
    for agent in (0, 1):
        assert texts(played["discussion"], agent) == texts(played["naive"], agent)
    spent = methods(whole)
    assert spent["discussion"]["tokens_per_problem"] > spent["naive"]["tokens_per_problem"]
    for record in played["discussion"]:  # the second round's score counts
        parts = record["turns"][1]["parts"]
        worth = sum(value for name, value in parts.items() if "/" not in name)
        assert record["return"] == pytest.approx(worth / 4)


def test_from_samples_gives_the_identical_table_without_a_model(
    whole, tmp_path, capsys, monkeypatch
):
    monkeypatch.setattr(players, "Player", None)
    run("--from-samples", whole / "samples", "--json", tmp_path / "json")
    assert capsys.readouterr().out == (whole / "said").read_text()
    assert (tmp_path / "json").read_text() == (whole / "json").read_text()
    run("--from-samples", whole / "samples", "--method", "naive", "trained")
    said = capsys.readouterr().out
    assert "trained - naive" in said
    assert "discussion" not in said.partition("latency:")[0]


def test_two_evaluations_with_one_seed_are_identical_and_another_seed_differs(team, tmp_path):
    for name, seed in (("one", 7), ("two", 7), ("other", 8)):
        (tmp_path / name).mkdir()
        some = ["--method", "sequential", "discussion", "trained", "--limit", 1, "--num-samples", 2]
        run("--run", team, *some, "--seed", seed, "--json", tmp_path / name / "json")
    assert timeless(tmp_path / "one") == timeless(tmp_path / "two")
    assert timeless(tmp_path / "one") != timeless(tmp_path / "other")
    assert list(timeless(tmp_path / "one")) == ["sequential", "discussion", "trained"]


def test_greedy_only_and_another_task_reward_and_turns(team, tmp_path):
    short = ["--limit", 2, "--method", "trained", "--json", tmp_path / "json"]
    run("--run", team, *short, "--greedy", "--reward", "code_paper", "--turns", 2)
    row = methods(tmp_path)["trained"]
    assert "greedy/return" not in row
    assert "pass@3" not in row
    assert row["tokens_per_problem"] > row["length/0"] + row["length/1"]  # of both turns


# --- prompts --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def player(team):
    flags = evaluation.run_flags(evaluation.parse(["--run", str(team)]), team)
    return players.Player(flags, team, find_reward(make_task(part_of(flags, TaskOptions))))


def asked(player, kind, monkeypatch) -> list[tuple[int, str]]:
    """(agent, prompt) of all that is asked for the first item, one sample."""
    found, encode = [], Rollout.encode

    def spy(self, agent, text):
        found.append((agent, text))
        return encode(self, agent, text)

    monkeypatch.setattr(Rollout, "encode", spy)
    items = player.task.items("test")[:1]
    player.rollout(kind)(items, (0, 1, 0, 0), 1, player.sampling, 1, True)
    return found


def test_only_the_baselines_show_a_partner_s_text(player, monkeypatch):
    own = [prompt for _, prompt in asked(player, Rollout, monkeypatch)]
    assert len(own) == 2
    assert not any("wrote:" in prompt for prompt in own)
    first, second = asked(player, playing.Sequential, monkeypatch)
    assert first == (0, own[0])
    assert second[1].startswith("Agent 0 wrote:\n")
    assert second[1].endswith(own[1])
    talk = asked(player, playing.Discussion, monkeypatch)
    assert talk[:2] == [(0, own[0]), (1, own[1])]
    assert "Agent 1 wrote:" in talk[2][1]
    assert "Agent 0 wrote:" not in talk[2][1]
    assert "Agent 0 wrote:" in talk[3][1]


# --- reference, showing, asking -------------------------------------------------------------------


def test_show_prints_joint_responses_side_by_side(whole, team, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "90")
    run("--from-samples", whole / "samples", "--show", 2, "--method", "trained", "single")
    said = capsys.readouterr().out
    assert said.count("=== coop/test/") == 2
    assert "--- trained, sampled, turn 0: structure" in said
    assert " | agent 1" in said
    assert max(map(len, said.splitlines())) <= 100
    run("--run", team, "--show", 1, "--method", "trained")  # plays only what it shows
    said = capsys.readouterr().out
    assert said.count("=== coop/test/") == 1
    assert "--- trained, greedy, turn 0" in said


def test_a_model_s_text_cannot_control_the_terminal():
    assert report.printable("a\x1b[2Jb\r\n\tc\x07") == "a[2Jb\n    c"


def test_ask_answers_a_problem_of_the_user_s(team, capsys):
    run("--run", team, "--ask", "Return the sum of the squares of the even numbers in xs.")
    said = capsys.readouterr().out
    assert '    """Return the sum of the squares' in said
    assert f"the team trained by {team}:" in said
    assert "agent 0" in said
    run("--run", team, "--ask", 'def main(xs):\n    """Return the largest of xs."""\n')
    assert "def main(xs):" in capsys.readouterr().out


# --- comparing, examining -------------------------------------------------------------------------


def write_run(directory: Path, seed: int, end: float, rank: int = 16, code: str = "") -> None:
    """What --compare reads of a run."""
    directory.mkdir()
    flags = {"seed": seed, "run": str(directory), "lora_rank": rank}
    flags |= {"model": ["tiny"], "num_agents": 2}
    (directory / "args.json").write_text(json.dumps({"args": flags, "code": [code]}))
    write(directory, rows(**{"return": (0.35, end)}))
    with (directory / "metrics.jsonl").open("a") as file:  # a kill cut it off
        file.write('{"step": 60, "re')
    returns = {
        when: {name: [value + 0.01 * seed + 0.05 * i for i in range(-2, 3)] for name in names}
        for when, value in {"before": 0.35, "after": end}.items()
        for names in [("return", "greedy/return")]
    }
    (directory / "summary.json").write_text(json.dumps({"returns": returns}))


def test_compare_groups_seeds_and_draws(tmp_path, capsys):
    for seed in range(3):
        write_run(tmp_path / f"a-seed{seed}", seed, 0.9)
        write_run(tmp_path / f"b-seed{seed}", seed, 0.7, rank=8)
    run("--compare", *sorted(tmp_path.iterdir()), "--json", tmp_path / "json")
    said = capsys.readouterr().out
    assert re.search(r"^a +3 ", said, re.MULTILINE)
    found = json.loads((tmp_path / "json").read_text())["groups"]
    assert list(found) == ["a", "b"]
    assert found["a"]["after/return"] == pytest.approx(0.91)
    assert found["a"]["after/return_low"] < 0.9 < 0.92 < found["a"]["after/return_high"]
    assert found["b"]["before/greedy/return"] == pytest.approx(0.36)
    png = (tmp_path / "compare.png").read_bytes()
    assert png[1:4] == b"PNG"
    assert 5_000 < len(png) < 300_000


def test_compare_takes_one_run_and_tells_apart_runs_of_one_name(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("runs").mkdir()
    write_run(Path("runs/coop-1"), 0, 0.9)
    run("--compare", "coop-1")
    assert "0.900 [" in capsys.readouterr().out
    write_run(Path("runs/coop-2"), 0, 0.5, rank=8)  # other flags: no second seed
    Path("runs/coop-2/summary.json").unlink()  # and not finished
    run("--compare", "coop-1", "coop-2")
    said = capsys.readouterr().out
    assert re.search(r"^coop --lora-rank 8 +1 +- +- +- +-$", said, re.M)


def test_compare_tells_what_a_change_of_the_code_did(tmp_path, capsys):
    """Seed by seed, though neither name nor flags tell the two kinds of runs apart."""
    for seed in range(3):
        write_run(tmp_path / f"coop-{seed}", seed, 0.9, code="aaa")
        write_run(tmp_path / f"coop-{seed + 3}", seed, 0.85 + 0.01 * seed, code="bbb")
    run("--compare", *(tmp_path / f"coop-{number}" for number in range(6)))
    said = capsys.readouterr().out
    gaps = "seed 0 -0.050, seed 1 -0.040, seed 2 -0.030"
    half = 4.303 * 0.01 / math.sqrt(3)  # Student's t
    assert (
        f"coop (code bbb) - coop (code aaa), sampled, after: -0.040 ± {half:.3f} ({gaps})" in said
    )
    again = shutil.copytree(tmp_path / "coop-0", tmp_path / "coop-99")
    told = refused(capsys, "--compare", tmp_path / "coop-0", again)
    assert "one experiment with one seed" in told


def test_compare_and_doctor_read_real_runs(team, solo, tmp_path, capsys):
    run("--compare", team, solo)
    summary = json.loads((team / "summary.json").read_text())
    mean = summary["after"]["return"]
    assert f"{mean:.3f} [" in capsys.readouterr().out
    assert len(summary["returns"]["before"]["greedy/return"]) == 2
    run("--doctor", team)
    assert "too short" in capsys.readouterr().out
    write(team, rows(), samples(0.4))
    run("--doctor", team)
    assert "cascading errors         SEEN" in capsys.readouterr().out


def test_a_task_for_teams_alone_is_evaluated_without_single(tmp_path, capsys):
    run("--task", "rendezvous", "--limit", 1, "--greedy", "--json", tmp_path / "json")
    assert list(methods(tmp_path)) == ["naive", "sequential", "discussion"]
    assert "no method single: this task is for teams alone" in capsys.readouterr().out
    assert "--method single: what" in refused(capsys, "--task", "rendezvous", "--method", "single")
