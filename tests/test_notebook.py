"""teaching.ipynb, its exercises and their answers: python -m pytest tests/test_notebook.py"""

import copy
import re

import nbclient
import nbformat
import pytest
from helpers import ROOT

STORED = nbformat.read(ROOT / "teaching.ipynb", as_version=4)
_, ANSWERS = (ROOT / "docs/teaching.md").read_text("utf-8").split("The exercises:\n")


def numbered(text, pattern):
    """Return the parts of a text that begin with a number, by number."""
    _, *parts = re.split(pattern, text, flags=re.MULTILINE)
    return dict(zip(map(int, parts[::2]), parts[1::2], strict=True))


EXERCISES = numbered(STORED.cells[-1].source, r"^\*\*(\d)\. ")
SOLUTIONS = numbered(ANSWERS, r"^(\d)\. ")


def blocks(number, kind):
    """Return an exercise's blocks: cells (python), or commands ("")."""
    return re.findall(rf"```{kind}\n(.*?)```", EXERCISES[number], re.DOTALL)


def printed(cells):
    """Return all that cells print. Nothing comes but texts and pictures, so no warning does."""
    outputs = [output for cell in cells for output in cell.get("outputs", [])]
    kinds = {output.get("name", output.output_type) for output in outputs}
    assert kinds <= {"stdout", "display_data"}
    return "".join(output.get("text", "") for output in outputs)


def numbers(text):
    return [float(number) for number in re.findall(r"-?\d+\.?\d*(?:e-?\d+)?", text)]


# What the cells of exercises 1 to 3 print.
PRINTED = {
    1: "1 8 4  32 64 512",
    2: "-.875 -.875 .125 1.625  -.875 -.875 .125 1.625  1.5 1.5 2.5 4  101.5 101.5 102.5 104",
    3: ".125 .125 .125 -.375  .577 .577 .577 -1.732  1.25 1.25 -1.25 -1.25  1 1 -1 -1",
}
FIGURES = {1: "8, 32 and 512", 3: ".58 and from -.375 to -1.73", 4: "1e-7", 5: "3.97"}


def check_exercises(results):
    """Compare what the cells of exercises 1 to 5 print with the figures of their solutions."""
    for number, text in PRINTED.items():
        wanted = list(map(float, text.split()))
        assert numbers(results[number]) == pytest.approx(wanted, abs=1e-3)
    _, faulty, _, right = numbers(results[4])
    assert right < 1e-5 < 1e-3 < faulty
    assert numbers(results[5])[-1] == pytest.approx(3.97, abs=0.005)
    for number, figure in FIGURES.items():
        assert figure in SOLUTIONS[number]


@pytest.mark.parametrize("fast", ["1", pytest.param("0", marks=pytest.mark.slow)])
def test_every_cell_runs_and_its_claims_hold(fast, monkeypatch):
    notebook = copy.deepcopy(STORED)
    exercises = {}
    for number in range(1, 6):
        [cell] = blocks(number, "python")
        exercises[number] = nbformat.v4.new_code_cell(cell)
    notebook.cells += exercises.values()
    monkeypatch.setenv("MAGRPO_FAST", fast)
    place = {"metadata": {"path": str(ROOT)}}
    nbclient.NotebookClient(notebook, timeout=600, resources=place).execute()
    text = printed(notebook.cells)
    assert "largest difference" in text
    assert len(re.findall(r"^(?:row|column) \d, advantage", text, re.MULTILINE)) == 12
    # What differs from the stored outputs was changed by the code: store them anew.
    assert printed(notebook.cells[4:11]) == printed(STORED.cells[4:11])
    check_exercises({number: printed([cell]) for number, cell in exercises.items()})


def test_an_agent_that_was_freed_is_compared_with_the_stored_run():
    """Exercise 6 gives the figures of the cell that it names."""
    [figures] = re.findall(r"seed 1, last .*return 0(.*), unused 0(.*)", printed(STORED.cells))
    for figure in figures:
        assert figure in SOLUTIONS[6]
