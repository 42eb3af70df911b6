"""The README and the pages keep their word: python -m pytest tests/test_readme.py

Links, files, commands and flags are there, each figure stands on one page, and code blocks run.
"""

import re
import shlex
import textwrap
from pathlib import Path

import pytest
from helpers import ROOT
from test_train import NAMES

import eval as evaluation
import train
from rewards import code, total
from tasks import Coop
from training.report import NEXT

README = (ROOT / "README.md").read_text()
RESULTS = sorted((ROOT / "docs/results").glob("*.md"))
PAGES = [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *RESULTS]
PAGES += [
    *ROOT.glob("[br]e*/README.md"),
    ROOT / "tiny/README.md",
    *(ROOT / "examples").glob("*/README.md"),
]
TEXT = "\n".join([*(page.read_text() for page in PAGES), train.__doc__, evaluation.__doc__, NEXT])
COMMANDS = sorted(set(re.findall(r"python (?:train|eval)\.py[^`\n#|;(]*", TEXT)))
PLUGIN = "my_task.py"
WRITTEN = (PLUGIN, "file.py", "pipeline.py", "my_rewards.py")  # by the reader
MADE = ("runs/", "checkpoints/", "agents/")  # by a run


def blocks(text, word):
    """Return the Python blocks of a page that contain a word."""
    return [block for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL) if word in block]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_and_file_is_there(page):
    text = page.read_text()
    for link, anchor in re.findall(r"\]\(([^)#\s]*)#?([^)\s]*)\)", text):
        target = page.parent / link if link else page
        assert link.startswith("https://") or target.exists(), link
        if anchor:
            headings = re.findall(r"^#+ (.*)$", target.read_text(), re.MULTILINE)
            slugs = [re.sub(r"[^\w -]", "", h).lower().replace(" ", "-") for h in headings]
            assert anchor in slugs, (link, anchor)
    kinds = r"`((?:[\w.-]+/)+|(?:[\w.-]+/)*[\w-]+\.(?:py|md|txt|ipynb|args|diff))(?::\w+)?`"
    for name in re.findall(kinds, text):
        places = (ROOT / name, page.parent / name, ROOT / "examples" / name)
        assert name.startswith((*MADE, *WRITTEN)) or any(p.exists() for p in places), name


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_is_understood(command, monkeypatch):
    monkeypatch.chdir(ROOT)
    command = re.sub(r"\$s|\{\w*\}", "0", command.replace("$a", "mean"))
    script, *argv = shlex.split(command)[1:]
    # --resume and plug-ins need files; the median and a critic need their diffs.
    if {"--help", "--resume", "[table]"} & {*argv} or any(
        name in command for name in (*WRITTEN, "median", "central")
    ):
        return
    (evaluation if script == "eval.py" else train).parse(argv)


def test_every_flag_and_make_target_of_the_readme_exists():
    known = train.parser().format_help() + evaluation.parser().format_help()
    named = set(re.findall(r"(?:`| )(--[a-z][a-z-]+)", README))
    assert named <= set(re.findall(r"--[a-z][a-z-]+", known))
    makefile = (ROOT / "Makefile").read_text()
    targets = set(" ".join(re.findall(r"^([\w ]+):", makefile, re.MULTILINE)).split())
    assert set(re.findall(r"(?:`|^)make ([a-z0-9]+)", TEXT, re.MULTILINE)) <= targets
    (checked,) = re.findall("CHECKED := (.*)", makefile)
    assert all((ROOT / f"tests/test_{name}.py").is_file() for name in checked.split())


def test_a_bold_figure_stands_on_one_page_of_results_and_in_the_readme_at_most():
    """Lists by seed, such as .962/.793, may have an equal one."""
    for home in RESULTS:
        for figure in re.findall(r"\*\*(\.\d{3})\*\*", home.read_text()):
            alone = re.compile(rf"(?<![/\d]){re.escape(figure)}(?![/\d])")
            pages = [page for page in PAGES[1:] if page != home]
            assert [page for page in pages if alone.search(page.read_text())] == [], figure


def test_python_blocks_are_programs_and_the_loop_of_the_readme_is_the_example():
    for block in blocks(TEXT, ""):
        compile(block, "a block", "exec")
    [loop] = blocks(README, "add_gradients")
    assert textwrap.indent(loop, "    ") in (ROOT / "examples/loop.py").read_text()


def test_the_programs_of_the_readme_earn_what_it_says():
    [text] = blocks(README, "# before training")
    item = next(item for item in Coop().items("test") if "longest of the upper" in item["prompt"])
    before, after = re.split(r"^# .*\n", text, flags=re.MULTILINE)[1:]
    for program, earned in ((before, 1.5), (after, 4.0)):
        helper, main = program.split("def solve")
        assert total(code(item, [helper, f"def solve{main}"]), agents=2) == earned


def test_the_task_of_the_docs_is_played_and_its_agent_is_loaded(trained, capsys):
    """The code blocks of docs/own.md, the first by the command that stands at its top."""
    [source] = blocks(TEXT, "class Rhyme")
    [reward] = blocks(TEXT, "def mine")
    [using] = blocks(TEXT, "PeftModel")
    [command] = [command for command in COMMANDS if "--dry-run" in command and PLUGIN in command]
    Path("tiny").symlink_to(ROOT / "tiny")  # as in the project's folder
    Path(PLUGIN).write_text(source, "utf-8")
    Path("words.jsonl").write_text('{"word": "cat"}\n' * 5, "utf-8")
    small = "--batch-size 2 --num-generations 2 --max-new-tokens 8"
    train.main([*shlex.split(command)[2:], *small.split()])
    Path("my_rewards.py").write_text(reward, "utf-8")
    train.main(["--reward", "my_rewards.py:mine", "--dry-run", *small.split()])
    exec(using.replace("runs/coop-1", str(trained)), {})
    assert "# write solve, you can call aux\ndef solve(xs):" in capsys.readouterr().out


def test_the_metrics_table_is_complete():
    """A row may name several: "`seconds/rollout`, `/reward`"."""
    table = (ROOT / "docs/metrics.md").read_text()
    for name in NAMES:
        first, _, last = name.rpartition("/")
        assert re.search(rf"[`/]{last}`|`{first}/<\w+>`", table), name
