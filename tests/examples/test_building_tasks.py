"""The building tasks as the agents see them, what they are told, and what is shown of their work.
python -m pytest tests/test_building_tasks.py
"""

import json
from pathlib import Path

import building_teams as teams
import pytest
from PIL import Image

import train
from examples.building.tasks import HouseBuild, StrBuild
from training import pictures

STRINGS, HOUSES = teams.published(StrBuild()), teams.published(HouseBuild())
KINDS = {"strbuild": (StrBuild, STRINGS[8]), "housebuild": (HouseBuild, HOUSES[0])}


@pytest.mark.parametrize("name", KINDS)
def test_later_turns_show_the_own_commands_and_never_the_partners(name):
    kind, item = KINDS[name]
    mine, theirs = "/setblock 0 0 0 oak_planks", "/setblock 1 0 0 obsidian"
    if name == "housebuild":
        mine, theirs = "/fill 0 0 1 5 0 5 white_concrete", "/fill 0 4 0 5 4 0 stone_stairs"
    for mode in kind.modes:
        task = kind(feedback=mode)
        told = task.feedback(item, [f"Here:\n{mine}\nnonsense", theirs])
        text = task.observe(0, item, [(f"Here:\n{mine}\nnonsense", told[0])])
        assert mine in text
        assert "nonsense" not in text
        assert "Turn 2. " in text
        assert theirs not in text
        assert text.startswith(task.observe(0, item, []).removesuffix("\nCommands:\n"))


@pytest.mark.parametrize("name", KINDS)
def test_the_recipes_leave_room_for_the_prompts_of_four_turns(name):
    """ICML at turn 3 has 2,627 tokens, CLIM 2,731, house 0108 2,215 (of Qwen3)."""
    args = train.parse([f"@{Path(train.__file__).parent}/recipes/{name}.args"])
    assert (args.turns, args.max_prompt_tokens) == (4, 4096)


def test_schemes_of_letters():
    for team, scheme in (
        ("nothing", "nothing stands"),
        ("agent 0 fills all targets, checkered", "agent 0 alone"),
        ("both fill all targets, checkered", "agent 1 alone"),
        ("the map of perfect_feedback", "agent 0 even, 1 odd"),
        ("each a half of the targets, checkered", "agent 0 left, 1 right"),
    ):
        for item in STRINGS[4:]:
            assert StrBuild().scheme(item, teams.LETTERS[team](item)) == scheme


SMALL = ["--batch-size", "1", "--num-generations", "2", "--max-new-tokens", "12"]
SMALL += ["--eval-limit", "1", "--max-prompt-tokens", "4096"]


@pytest.mark.parametrize("name", ["strbuild", pytest.param("housebuild", marks=pytest.mark.slow)])
def test_a_step_of_a_team_and_its_pictures(tmp_path, monkeypatch, capsys, name):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(pictures, "SHOWN", 1)
    train.main(["--task", name, "--max-steps", "1", "--run", "x", *SMALL])
    folder = tmp_path / "runs" / "x"
    [line] = map(json.loads, (folder / "metrics.jsonl").read_text().splitlines())
    assert {"reward/building", "metric/built/0", "metric/built/1", "metric/twice"} <= set(line)
    with Image.open(folder / "build.png") as still, Image.open(folder / "build.gif") as moving:
        assert still.width > 1000
        assert moving.n_frames == 2
    assert "build.png" in capsys.readouterr().out
    train.main(["--resume", "runs/x", "--max-steps", "2"])
    with Image.open(folder / "build.gif") as moving:  # what was drawn before is not lost
        assert moving.n_frames == 3
