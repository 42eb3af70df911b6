"""The building tasks as the agents see them, what they are told, and what is shown of their work.
python -m pytest tests/test_building_tasks.py
"""

import json

import pytest
from PIL import Image

import train
from bench import building as teams
from building import houses, rewards
from building import tasks as building_tasks
from building.tasks import HouseBuild, StrBuild, StrBuildHidden
from building.world import ANY, build
from running import pictures
from running.plugins import make_task

STRINGS, HOUSES = teams.published(StrBuild()), teams.published(HouseBuild())
KINDS = {"strbuild": (StrBuild, STRINGS[8]), "housebuild": (HouseBuild, HOUSES[0])}


# --- what an agent is told ------------------------------------------------------------------------


def test_strbuild_tells_the_target_and_the_own_blocks():
    one, two = (StrBuild().observe(agent, STRINGS[0], []) for agent in (0, 1))
    told = ((one, "planks, stone", "obsidian"), (two, "concrete, obsidian", "planks"))
    for text, own, other in told:
        assert "#####\n..#..\n..#..\n..#..\n#####\n" in text
        assert "[0, 0, 0] to [4, 4, 0]" in text
        assert "/setblock x y z block" in text
        assert own in text
        assert other not in text
        assert ("overwrite" in text) == (text is two)
    alone = StrBuild(num_agents=1).observe(0, STRINGS[0], [])
    assert "team" not in alone
    assert "overwrite" not in alone


def test_the_released_form_hides_the_target_until_the_feedback():
    task = StrBuildHidden()
    first = task.observe(0, STRINGS[0], [])
    assert "#" not in first
    assert "[0, 0, 0] to [4, 4, 0]" in first
    [told, other] = task.feedback(STRINGS[0], ["", ""])
    assert told.startswith("The target's cells are (0, 4, 0), (1, 4, 0), ")
    assert "about half of them, some 6, no two of yours side by side. You may write 150 " in told
    assert "(2, 1, 0)" in task.observe(0, STRINGS[0], [("/setblock 0 0 0 stone", told)])
    assert told.partition("with")[0] == other.partition("with")[0]


def test_housebuild_tells_layers_limits_and_spiders_and_both_the_same():
    one, two = (HouseBuild().observe(agent, HOUSES[0], []) for agent in (0, 1))
    assert "y=4: {(0, 4, 0, 5, 4, 0 stone_stairs), (0, 4, 1, 5, 4, 5 stone_bricks), " in one
    assert "white_concrete 51\n" in one
    attacks = HOUSES[0]["spiders"]
    assert f"3 spiders, with attacks of {attacks}, {sum(attacks)} in all; you have 5" in one
    assert one.replace("agent 1 of", "agent 2 of") == two
    assert "There are no spiders" in HouseBuild().observe(0, HOUSES[0] | {"spiders": []}, [])
    told = HouseBuild(feedback="position_feedback").feedback(HOUSES[0], ["", ""])
    assert told[0].count("(") == len(houses.target(HOUSES[0]))


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


def test_score_feedback_tells_the_reward_of_the_run():
    args = train.parse(["--task", "strbuild", "--turns", "2", "--feedback", "score_feedback"])
    team = teams.LETTERS["agent 0 fills all targets, checkered"](STRINGS[0])
    assert "was 0.0000." in make_task(args).feedback(STRINGS[0], team)[1]
    args.reward = "strbuild_paper"
    assert "was 1.7500." in make_task(args).feedback(STRINGS[0], team)[1]


# --- data and bad input ---------------------------------------------------------------------------


def test_mistakes_are_named():
    with pytest.raises(ValueError, match="is for 2 agents, not 3"):
        StrBuild(num_agents=3)
    with pytest.raises(ValueError, match="makes its own problems: it takes no --data"):
        HouseBuild("data.json")


# --- who built what -------------------------------------------------------------------------------


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


def test_schemes_of_houses():
    def named(mine) -> str:
        target = houses.target(HOUSES[0]).items()
        lines = ([(c, c, b) for c, b in target if mine(c) == agent] for agent in (0, 1))
        return HouseBuild().scheme(HOUSES[0], [teams.fill(cells) for cells in lines])

    assert named(lambda cell: cell[1] > 3) == "agent 0 below, 1 above"
    assert named(lambda cell: cell[0] < 3) == "agent 0 right, 1 left"
    assert named(lambda cell: cell[2] < 3) == "agent 0 behind, 1 in front"
    assert named(lambda cell: hash(cell) % 7 > 3) == "mixed"
    assert HouseBuild(num_agents=1).scheme(HOUSES[0], [teams.listed(HOUSES[0])]) == "one agent"


def test_a_scheme_needs_nine_cells_in_ten_of_two_agents():
    owners = {(x, 0): int(x >= 10) for x in range(20)}
    axes = {("left", "right"): lambda cell: cell[0]}
    for moved, scheme in (((), "left, 1 right"), ((0, 19), "left, 1 right"), ((0, 1, 19), None)):
        changed = owners | {(x, 0): 1 - owners[x, 0] for x in moved}
        expected = f"agent 0 {scheme}" if scheme else "mixed"
        assert building_tasks.scheme(changed, 2, axes) == expected
    assert building_tasks.scheme(owners, 3, axes) == "mixed"


def test_shares_of_the_work_are_counted():
    item = HOUSES[0]
    rules, target = houses.rules(item, 2), houses.target(item)
    lines = ["/fill 0 0 1 5 0 2 white_concrete", "/fill 0 0 2 5 0 3 white_concrete\n/setblock 0 0"]
    built = build(rules, lines)
    assert rewards.measures(built, built.correct()) == {
        "metric/pass": 0.0,
        "metric/iou": 18 / len(target),
        "metric/built/0": 6 / len(target),
        "metric/built/1": 12 / len(target),
        "metric/twice": 6 / 18,
        "metric/unused": 1 - 24 / (2 * sum(rules.material.values())),
    }


# --- pictures -------------------------------------------------------------------------------------


def test_a_drawing_says_what_stands_whose_it_is_and_what_is_wrong():
    item = STRINGS[3]  # an L
    drawn = StrBuild().draw(item, [teams.place([(0, 0, 0), (4, 4, 0)], teams.OAK), ""])
    assert drawn[""][4][0] == (teams.OAK, 0, False)
    target = StrBuild().draw(item, [])[""]
    assert [[cell[0] for cell in row] for row in target][4] == [ANY] * 5
    layers = HouseBuild().draw(HOUSES[0], [])
    assert list(layers) == [f"y={y}" for y in range(7)]
    assert layers["y=1"][1][2] == ("planks", None, False)


# --- a run ----------------------------------------------------------------------------------------

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
