"""The README and the pages of docs/ keep their word: python -m pytest tests/test_readme.py"""

import re
import shlex
from pathlib import Path

import pytest
from helpers import ROOT, as_the_card_says, assert_close, output_of, read_json
from transformers import AutoModelForCausalLM, AutoTokenizer

import eval as evaluation
import train
from rewards import code, total
from tasks import Coop

README = (ROOT / "README.md").read_text()
PAGES = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *ROOT.glob("[br]e*/README.md")]
HELPS = [train.__doc__, evaluation.__doc__]
TEXT = "\n".join([*(page.read_text() for page in PAGES), *HELPS])
COMMANDS = sorted(set(re.findall(r"python (?:train|eval)\.py[^`\n#|;]*", TEXT)))
PLUGIN = "my_task.py"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_and_picture_is_there(page):
    for link, anchor in re.findall(r"\]\(([^)#\s]*)#?([^)\s]*)\)", page.read_text()):
        target = page.parent / link if link else page
        assert link.startswith("https://") or target.exists(), link
        if anchor:
            headings = re.findall(r"^#+ (.*)$", target.read_text(), re.MULTILINE)
            slugs = [re.sub(r"[^\w -]", "", h).lower().replace(" ", "-") for h in headings]
            assert anchor in slugs, (link, anchor)


def test_every_file_and_folder_that_it_names_is_there():
    kinds = r"`((?:[\w.-]+/)+|(?:[\w.-]+/)*[\w-]+\.(?:py|md|txt|ipynb|args|diff))`"
    made = ("runs/", "checkpoints/", "agents/", "kept/")  # by a run
    for page in PAGES:
        for name in re.findall(kinds, page.read_text()):
            places = (ROOT / name, page.parent / name)
            assert name.startswith((*made, PLUGIN)) or any(p.exists() for p in places), (page, name)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_is_understood(command):
    for folder in ("recipes", "examples"):  # as in the project's folder, which may have runs
        Path(folder).symlink_to(ROOT / folder)
    script, *argv = shlex.split(command.replace("$s", "0").replace("{}", "0"))[1:]
    if {"--help", "--resume"} & set(argv) or PLUGIN in command:  # it is run below
        return
    if script == "train.py" and "median" in command:  # tests/examples/test_ablations.py runs it
        return
    if script == "eval.py":
        evaluation.parse(argv)
        return
    train.parse(argv)


def test_every_flag_and_make_target_that_it_names_exists():
    helps = train.parser().format_help() + evaluation.parser().format_help()
    named = set(re.findall(r"`(--[a-z][a-z-]+)", README))  # other pages name other programs' flags
    assert named <= set(re.findall(r"--[a-z][a-z-]+", helps))
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"(?:`|^)make ([a-z]+)", TEXT, re.MULTILINE)) <= targets


@pytest.mark.parametrize("target", ["train", "real", "test"])
def test_make_passes_flags_on_and_only_tests_install_their_tools(target):
    make = ["make", "--dry-run", "--always-make", target, "ARGS=--max-steps 3"]
    printed = output_of(make, cwd=ROOT).stdout
    assert (" --max-steps 3\n" in printed) == (target != "test")
    assert ("-r requirements-dev.txt" in printed) == (target == "test")


def test_the_task_and_the_reward_of_the_readme_train(tmp_path, monkeypatch, capsys):
    """The code block, as a file, through the command that stands at its top."""
    blocks = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    (source,) = [block for block in blocks if "class Rhyme" in block and "def rhymes" in block]
    (using,) = [block for block in blocks if "PeftModel" in block]
    (command,) = [command for command in COMMANDS if PLUGIN in command]
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    Path("tiny").symlink_to(ROOT / "tiny")  # as in the project's folder
    Path(PLUGIN).write_text(source, encoding="utf-8")
    small = "--max-steps 1 --batch-size 2 --num-generations 2 --max-new-tokens 8"
    Path("words.jsonl").write_text('{"word": "cat"}\n' * 5, encoding="utf-8")
    flags = [word for word in shlex.split(command)[2:] if word != "--dry-run"] + small.split()
    train.main([*flags, "--run", "x"])
    row = read_json(Path("runs/x/metrics.jsonl"))
    assert 0 <= row["return"] <= 1
    capsys.readouterr()
    using = using.replace("runs/coop-1", "runs/x")
    exec(using, found := {})
    assert "# write solve, you can call aux\ndef solve(xs):" in capsys.readouterr().out
    ids = found["tokenizer"](found["prompt"], return_tensors="pt")["input_ids"]
    merged = AutoModelForCausalLM.from_pretrained("solver")
    agent, _ = as_the_card_says(Path("runs/x/agents/1"))
    assert_close(merged(ids).logits, agent(ids).logits)
    card = Path("runs/x/agents/1/README.md").read_text("utf-8")
    assert using.partition("\n\nprompt")[0] in card
    assert AutoTokenizer.from_pretrained("solver")(found["prompt"])["input_ids"] == ids[0].tolist()


def test_the_metrics_table_is_complete():
    from test_train import NAMES

    table = (ROOT / "docs/metrics.md").read_text()
    rows = re.findall(r"^\| (`[^|]*`) \|", table, re.MULTILINE)
    named = re.findall("`([^`]+)`", " ".join(rows))
    pattern = "|".join(re.sub(r"<\w+>", "[^/]+", name) for name in named)
    assert [name for name in NAMES if not re.fullmatch(pattern, name)] == []


def test_the_programs_of_the_readme_earn_what_it_says():
    [text] = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    item = next(item for item in Coop().items("test") if "longest of the upper" in item["prompt"])
    before, after = re.split(r"^# .*\n", text, flags=re.MULTILINE)[1:]
    for program, earned in ((before, 1.5), (after, 4.0)):
        helper, main = program.split("def solve")
        assert total(code(item, [helper, f"def solve{main}"]), agents=2) == earned


def test_the_map_of_magrpo_names_what_is_there_in_its_section():
    sections = re.split(r"^# (?=\d\. )", (ROOT / "magrpo.py").read_text(), flags=re.MULTILINE)
    rows = re.findall(r"^\| .* \| section (\d): (.*) \|$", README, re.MULTILINE)
    assert {number for number, _ in rows} == {"1", "2", "3"}
    for number, names in rows:
        for name in re.findall(r"`(?:\w+\.)?(\w+)`", names):
            kinds = rf"^ *(def|class) {name}\b"
            assert re.search(kinds, sections[int(number)], re.MULTILINE), (number, name)


def test_the_ablations_of_the_readme_are_the_diffs():
    table = (ROOT / "docs/results/ablations.md").read_text()
    named = set(re.findall(r"^\| `(\w+)`", table, re.MULTILINE))
    assert named == {path.stem for path in (ROOT / "examples/ablations").glob("*.diff")}
