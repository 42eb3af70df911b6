"""The building tasks as the agents see them, what they are told, and what is shown of their work.
python -m pytest tests/test_building_tasks.py
"""

import building_teams as teams
import pytest
from helpers import SMALL, read_json, resume, train_run
from PIL import Image
from test_palette import nearest

from examples.building import pictures
from examples.building.tasks import Build, HouseBuild, StrBuild
from training import recorder

STRINGS, HOUSES = teams.published(StrBuild()), teams.published(HouseBuild())
KINDS = {"strbuild": (StrBuild, STRINGS[8]), "housebuild": (HouseBuild, HOUSES[0])}


@pytest.mark.parametrize("name", KINDS)
def test_later_turns_show_the_own_commands_and_never_the_partners(name):
    kind, item = KINDS[name]
    mine, theirs = "/setblock 0 0 0 oak_planks", "/setblock 1 0 0 obsidian"
    if name == "housebuild":
        mine, theirs = "/fill 0 0 1 5 0 5 white_concrete", "/fill 0 4 0 5 4 0 stone_stairs"
    response = f"Here:\n{mine}\nnonsense"
    for mode in kind.modes:
        task = kind(feedback=mode)
        told = task.feedback(item, [response, theirs])
        text = task.observe(0, item, [(response, told[0])])
        assert text.startswith(task.observe(0, item, []).removesuffix("\nCommands:\n"))
        assert "Turn 2. " in text
        assert mine in text
        assert "nonsense" not in text
        assert theirs not in text


@pytest.mark.parametrize("name", ["strbuild", pytest.param("housebuild", marks=pytest.mark.slow)])
def test_a_step_of_a_team_and_its_pictures(tmp_path, monkeypatch, name):
    monkeypatch.setattr(recorder, "SHOWN", 1)
    task = f"examples.building.tasks.{KINDS[name][0].__name__}"
    run = train_run(tmp_path / "run", SMALL, "--max-prompt-tokens 4096 --task", task)
    line = read_json(run / "metrics.jsonl")
    assert {"reward/building", "metric/built/0", "metric/built/1", "metric/twice"} <= line.keys()
    resume(run, "--max-steps 2")
    pictures.draw_run(run)
    assert Image.open(run / "build.png").width > 1000
    assert Image.open(run / "build.gif").n_frames == 3


@pytest.mark.parametrize("kind", [Build, HouseBuild, StrBuild])
def test_blocks_differ_to_colour_blind_readers(kind):
    assert nearest(kind.colors.values()) > 15
