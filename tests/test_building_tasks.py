"""The building tasks as the agents see them, what they are told, and what is shown of their work.
python -m pytest tests/test_building_tasks.py
"""

import json
import re

import numpy as np
import pytest
from PIL import Image

import eval as evaluation
import train
from bench import building as teams
from building import houses, labour, letters
from building.tasks import HouseBuild, StrBuild, StrBuildHidden
from running import pictures
from running.plugins import make_task

STRINGS, HOUSES = StrBuild().published(), HouseBuild().published()
KINDS = {"strbuild": (StrBuild, STRINGS[8]), "housebuild": (HouseBuild, HOUSES[0])}


# --- what an agent is told ------------------------------------------------------------------------


def test_strbuild_tells_the_target_and_the_own_blocks():
    one, two = (StrBuild().observe(agent, STRINGS[0], []) for agent in (0, 1))
    for text in (one, two):
        assert "#####\n..#..\n..#..\n..#..\n#####\n" in text
        assert "[0, 0, 0] to [4, 4, 0]" in text
        assert "/setblock x y z block" in text
    assert "oak_planks, stone, air" in one
    assert "obsidian" not in one
    assert "white_concrete, obsidian, air" in two
    assert "oak_planks" not in two
    assert "overwrite" in two
    assert "overwrite" not in one
    alone = StrBuild(num_agents=1).observe(0, STRINGS[0], [])
    assert "team" not in alone
    assert "overwrite" not in alone


def test_the_released_form_hides_the_target_until_the_feedback():
    task = StrBuildHidden()
    first = task.observe(0, STRINGS[0], [])
    assert "#" not in first
    assert "[0, 0, 0] to [4, 4, 0]" in first
    [told, other] = task.feedback(STRINGS[0], ["", ""])
    assert "(0, 4, 0), (1, 4, 0)" in told
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


@pytest.mark.parametrize("name", KINDS)
def test_later_turns_show_the_own_commands_and_never_the_partners(name):
    kind, item = KINDS[name]
    task = kind()
    mine, theirs = "/setblock 0 0 0 oak_planks", "/setblock 1 0 0 obsidian"
    if name == "housebuild":
        mine, theirs = "/fill 0 0 1 5 0 5 white_concrete", "/fill 0 4 0 5 4 0 stone_stairs"
    for mode in task.modes:
        task = kind(feedback=mode)
        told = task.feedback(item, [f"Here:\n{mine}\nnonsense", theirs])
        text = task.observe(0, item, [(f"Here:\n{mine}\nnonsense", told[0])])
        assert mine in text
        assert "nonsense" not in text
        assert "Turn 2. " in text
        assert theirs not in text
        assert text.startswith(task.observe(0, item, []).removesuffix("\nCommands:\n"))


# --- feedback -------------------------------------------------------------------------------------


def test_score_feedback_tells_the_reward_of_the_run():
    args = train.parse(["--task", "strbuild", "--turns", "2", "--feedback", "score_feedback"])
    team = teams.LETTERS["agent 0 fills all targets, checkered"](STRINGS[0])
    assert "was 0.0000." in make_task(args).feedback(STRINGS[0], team)[1]
    args.reward = "strbuild_paper"
    assert "was 1.7500." in make_task(args).feedback(STRINGS[0], team)[1]


def test_perfect_feedback_of_strbuild_asks_for_the_published_map():
    task, item = StrBuild(feedback="perfect_feedback"), STRINGS[3]
    told = task.feedback(item, ["", teams.place([(4, 4, 0)], "obsidian")])
    assert "0 4 0 oak_planks" in told[0]
    assert "0 3 0 obsidian" in told[1]
    assert "4 4 0 air" in told[1]
    team = teams.LETTERS["the map of perfect_feedback"](item)
    assert task.feedback(item, team) == ["Nothing of yours is wrong. Write it again."] * 2


def test_the_feedback_of_housebuild():
    item, empty = HOUSES[0], ["", ""]
    wanted = houses.target(item)

    def told(mode, responses):
        return HouseBuild(feedback=mode).feedback(item, responses)

    one, two = told("perfect_feedback", empty)
    cells = [line.split(" ") for line in (one + ";" + two).replace(".", "").split(": ")]
    assert len(cells) == 3
    assert one.count(";") + two.count(";") + 2 == len(wanted)
    assert told("position_feedback", empty)[0].count("(") == len(wanted)
    assert told("position_modification", empty)[0].count("(") == 20
    built = teams.HOUSES["agent 0 layers 0 to 2, agent 1 the others"](item)
    low, high = told("rect_modification", [built[0], ""])
    assert "y=" not in low
    assert "(0, 4, 0, 5, 4, 0 stone_stairs)" in high
    assert "(0, 0, 1, 5, 0, 5 white_concrete)" not in low + high.partition("accepted")[2]
    assert "/fill 0 0 1 5 0 5 white_concrete" in low
    assert "/fill 0 0 1 5 0 5 white_concrete" not in high
    schedule = told("resource_schedule", [built[0], ""])
    assert "white_concrete 51" in schedule[1]
    assert "white_concrete 51" not in schedule[0]
    assert [text.partition("suffices for")[2] for text in schedule] == [
        schedule[0].partition("suffices for")[2]
    ] * 2


# --- data and bad input ---------------------------------------------------------------------------


def rows() -> list[dict]:
    """The published file of houses, as its authors have it."""
    found = []
    for item in HOUSES:
        spec = houses.spec(item["layers"])
        row = {"task_id": item["task_id"], "inventory": item["inventory"], "target_spec": spec}
        found.append(row | {"count": {}, "bbox": None})
    found[0]["bbox"] = {"from": [0, 0, 0], "to": [5, 6, 6]}
    return found


def test_the_published_files_are_read(tmp_path):
    (tmp_path / "data.json").write_text(json.dumps(rows()))
    task = HouseBuild(str(tmp_path / "data.json"))
    items = [item for split in ("train", "dev", "test") for item in task.items(split)]
    assert items == HOUSES
    assert task.items("test") == HOUSES[8:]
    lines = [
        f"{text},{level}" for part in letters.PUBLISHED.values() for text, level in part.items()
    ]
    (tmp_path / "data.csv").write_text("\n".join(["string,difficulty", *lines]) + "\n")
    task = StrBuild(str(tmp_path / "data.csv"))
    items = [item for split in ("train", "dev", "test") for item in task.items(split)]
    assert items == STRINGS


def spoiled(change) -> list[dict]:
    """The rows, of which the third is changed."""
    found = json.loads(json.dumps(rows()))
    change(found[2])
    return found


HOUSE_MISTAKES = {
    "inventory": lambda row: row.pop("inventory"),
    "inventory' has 'CC'": lambda row: row["inventory"].update(CC="stone"),
    "inventory' has 'C': 3": lambda row: row["inventory"].update(C=3),
    "target_spec": lambda row: row.pop("target_spec"),
    "y_layers": lambda row: row["target_spec"].update(type="voxels"),
    "target_spec.size": lambda row: row["target_spec"].update(size=[6, 7]),
    "larger than 64": lambda row: row["target_spec"].update(size=[6, 7, 10**9]),
    "each y of 0 to 6": lambda row: row["target_spec"]["layers"].pop(),
    "y 3: 7 rows": lambda row: row["target_spec"]["layers"][3]["rows"].pop(),
    "'AAAAA'": lambda row: row["target_spec"]["layers"][3]["rows"].__setitem__(0, "AAAAA"),
    "'Z' is not in": lambda row: row["target_spec"]["layers"][3]["rows"].__setitem__(0, "AAAAAZ"),
    "'bbox' has to be": lambda row: row.update(bbox={"from": [0, 0, 0]}),
    "does not hold the whole": lambda row: row.update(bbox={"from": [0, 0, 0], "to": [4, 6, 6]}),
    "nothing but air": lambda row: row["inventory"].update(dict.fromkeys("COSBD", "air")),
}


@pytest.mark.parametrize("told", HOUSE_MISTAKES)
def test_a_wrong_house_is_told_with_its_row_and_field(tmp_path, told):
    (tmp_path / "data.json").write_text(json.dumps(spoiled(HOUSE_MISTAKES[told])))
    with pytest.raises(ValueError, match="row 3: field") as error:
        HouseBuild(str(tmp_path / "data.json")).items("train")
    assert told in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("text", ["", "  ", "???", 7, None, ["I"]])
def test_a_wrong_string_is_told_with_its_row_and_field(tmp_path, text):
    lines = [json.dumps({"string": each}) for each in ("I", text, "C", "M")]
    (tmp_path / "data.jsonl").write_text("\n".join(lines))
    with pytest.raises(ValueError, match="row 2: field 'string'"):
        StrBuild(str(tmp_path / "data.jsonl")).items("train")


@pytest.mark.parametrize(
    ("argv", "told"),
    [
        (["--num-agents", "3"], "is for 1 or 2 agents, not 3"),
        (["--turns", "2", "--feedback", "tests"], "known to task 'strbuild': position_feedback"),
        (["--turns", "2", "--feedback", "score_feedbak"], "did you mean score_feedback?"),
        (["--data", "no.csv"], "cannot read no.csv"),
    ],
)
def test_bad_flags_get_one_line(tmp_path, monkeypatch, capsys, argv, told):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stopped:
        train.main(["--task", "strbuild", *argv])
    assert stopped.value.code == 2
    [line] = capsys.readouterr().err.splitlines()
    assert told in line
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("draw = lambda self, item: {}", "needs draw(item, responses)"),
        ("colors = None", "draws: it needs colors"),
    ],
)
def test_a_plug_in_that_draws_wrongly_is_told_so(tmp_path, body, told):
    file = tmp_path / "mine.py"
    file.write_text(f"import building.tasks\n\nclass Mine(building.tasks.StrBuild):\n    {body}\n")
    with pytest.raises(ValueError, match=re.escape(told)):
        make_task(train.parse(["--task", f"{file}:Mine"]))


# --- schemes --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("team", "scheme"),
    [
        ("nothing", "nothing stands"),
        ("agent 0 fills all targets, checkered", "agent 0 alone"),
        ("both fill all targets, checkered", "agent 1 alone"),
        ("the map of perfect_feedback", "checkered"),
        ("each a half of the targets, checkered", "agent 0 left, 1 right"),
    ],
)
def test_schemes_of_letters(team, scheme):
    for item in STRINGS[4:]:
        assert StrBuild().scheme(item, teams.LETTERS[team](item)) == scheme


def test_schemes_of_houses():
    item = HOUSES[0]
    target = houses.target(item)

    def named(mine) -> str:
        lines = ([(c, c, b) for c, b in target.items() if mine(c, b) == agent] for agent in (0, 1))
        return HouseBuild().scheme(item, [teams.fill(cells) for cells in lines])

    assert named(lambda cell, block: cell[1] > 3) == "agent 0 below, 1 above"
    assert named(lambda cell, block: cell[0] < 3) == "agent 0 right, 1 left"
    assert named(lambda cell, block: cell[2] < 3) == "agent 0 behind, 1 in front"
    assert named(lambda cell, block: cell[1] % 2) == "by layers"
    assert named(lambda cell, block: hash(cell) % 7 > 3) == "mixed"
    assert HouseBuild(num_agents=1).scheme(item, [teams.listed(item)]) == "one agent"


def test_a_scheme_needs_nine_cells_in_ten():
    halves = {("left", "right"): lambda cell: cell[0]}
    owners = {(x, 0): int(x >= 10) for x in range(20)}
    assert labour.scheme(owners, 2, halves, {}) == "agent 0 left, 1 right"
    owners |= {(0, 0): 1, (19, 0): 0}
    assert labour.scheme(owners, 2, halves, {}) == "agent 0 left, 1 right"
    owners |= {(1, 0): 1}
    assert labour.scheme(owners, 2, halves, {}) == "mixed"


def test_shares_of_the_work_are_counted():
    item = HOUSES[0]
    parts = houses.rules(item, 2), houses.target(item)
    rules, target = parts
    from building.world import build

    lines = ["/fill 0 0 1 5 0 2 white_concrete", "/fill 0 0 2 5 0 3 white_concrete\n/setblock 0 0"]
    built = build(rules, lines)
    found = labour.measures(rules, built, houses.right(target, built), len(target))
    had = 2 * sum(rules.material[0].values())
    assert found == {
        "metric/built/0": 6 / len(target),
        "metric/built/1": 12 / len(target),
        "metric/twice": 6 / 18,
        "metric/unused": 1 - 24 / had,
    }


# --- pictures -------------------------------------------------------------------------------------


def test_a_drawing_says_what_stands_whose_it_is_and_what_is_wrong():
    item = STRINGS[3]  # an L
    drawn = StrBuild().draw(item, [teams.place([(0, 0, 0), (4, 4, 0)], teams.OAK), ""])[""]
    assert drawn[4][0] == (teams.OAK, 0, False)
    assert drawn[0][4] == (teams.OAK, 0, True)
    assert drawn[0][0] == ("", None, True)
    assert drawn[0][1] == ("", None, False)
    target = StrBuild().draw(item, [])[""]
    assert [[cell[0] for cell in row] for row in target][4] == ["target"] * 5
    layers = HouseBuild().draw(HOUSES[0], [])
    assert list(layers) == [f"y={y}" for y in range(7)]
    assert layers["y=1"][1][2] == ("planks", None, False)


@pytest.mark.parametrize("name", KINDS)
def test_images_show_target_and_worlds(name):
    kind, item = KINDS[name]
    task = kind()
    team = (teams.LETTERS if name == "strbuild" else teams.HOUSES).values()
    worlds = [task.draw(item, answer(item)) for answer in team]
    target = task.draw(item, [])
    frames = [{"name": "a", "drawn": [w], "returns": [0.5]} for w in (worlds[0], worlds[-1])]
    seen = pictures.compared([target], frames, task.colors, 150)
    assert seen.dtype == np.uint8
    assert seen.shape[2] == 3
    colors = set(np.unique(seen.astype(int) @ (65536, 256, 1)))
    for block in {cell[0] for rows in worlds[-1].values() for row in rows for cell in row} - {""}:
        assert int(task.colors[block][1:], 16) in colors
    assert int(pictures.WRONG[1:], 16) in colors


def test_a_picture_in_a_terminal(monkeypatch):
    item = STRINGS[3]
    drawn = StrBuild().draw(item, [teams.place([(0, 0, 0), (4, 4, 0)], teams.OAK), ""])
    plain = pictures.as_text(drawn, StrBuild.colors, colored=False)
    assert plain.splitlines() == [
        "- . . . x0",
        "- . . . .",
        "- . . . .",
        "- . . . .",
        "o0- - - -",
    ]
    colored = pictures.as_text(drawn, StrBuild.colors, colored=True)
    assert "\x1b[48;2;217;167;96m" in colored
    assert "\x1b" not in pictures.as_text(drawn, StrBuild.colors)  # this is no terminal
    assert len(set(pictures.letters(["red", "rust", "r", "x"]))) == 4
    monkeypatch.setenv("COLUMNS", "40")
    wide = pictures.as_text(HouseBuild().draw(HOUSES[0], []), HouseBuild.colors)
    assert max(map(len, wide.splitlines())) <= 40


# --- a run ----------------------------------------------------------------------------------------

SMALL = ["--batch-size", "1", "--num-generations", "2", "--max-new-tokens", "12"]
SMALL += ["--eval-limit", "2", "--max-prompt-tokens", "4096"]


@pytest.mark.parametrize("name", ["strbuild", pytest.param("housebuild", marks=pytest.mark.slow)])
def test_three_steps_of_a_team_and_its_pictures(tmp_path, monkeypatch, capsys, name):
    monkeypatch.chdir(tmp_path)
    train.main(["--task", name, "--max-steps", "3", "--run", "x", *SMALL])
    folder = tmp_path / "runs" / "x"
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert len(lines) == 3
    assert {"reward/building", "metric/built/0", "metric/built/1", "metric/twice"} <= set(lines[0])
    with Image.open(folder / "build.png") as still, Image.open(folder / "build.gif") as moving:
        assert still.width > 1000
        assert moving.n_frames == 4
    out = capsys.readouterr().out
    assert "build.png" in out
    assert "before training" in out
    if name == "strbuild":
        train.main(["--resume", "runs/x", "--max-steps", "4"])
        with Image.open(folder / "build.gif") as moving:  # what was drawn before is not lost
            assert moving.n_frames == 5
    evaluation.main(["--run", "runs/x", "--show", "1", "--greedy", "--method", "trained"])
    shown = capsys.readouterr().out
    assert "target" in shown
    assert "x: wrong, -: missing" in shown
