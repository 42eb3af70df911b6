"""teaching.ipynb runs from top to bottom: python -m pytest tests/test_notebook.py"""

import base64
import copy
import re
from pathlib import Path

import nbclient
import nbformat
import pytest

NOTEBOOK = Path(__file__).resolve().parent.parent / "teaching.ipynb"


def outputs(cells) -> tuple[str, list[str]]:
    """The printed texts, as one, and the pictures."""
    printed = ""
    pictures = []
    for cell in cells:
        for output in cell.get("outputs", []):
            printed += output.get("text", "")
            pictures += [value for key, value in output.get("data", {}).items() if "png" in key]
    return printed, pictures


def test_it_is_stored_with_outputs_of_one_run_and_of_no_machine():
    cells = [c for c in nbformat.read(NOTEBOOK, as_version=4).cells if c.cell_type == "code"]
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    kinds = {output.get("name", output.output_type) for cell in cells for output in cell.outputs}
    assert kinds == {"stdout", "display_data"}  # no error and no warning
    printed, pictures = outputs(cells)
    assert not re.findall(r"(?:^|[\s'\"(])/\w+/\S+", printed, re.MULTILINE)  # no path
    pictures = [base64.b64decode(picture) for picture in pictures]
    assert max(map(len, pictures)) < 60_000
    group, _, _, schemes, _ = pictures
    assert (NOTEBOOK.parent / "docs/group.png").read_bytes() == group
    assert (NOTEBOOK.parent / "docs/schemes.png").read_bytes() == schemes


@pytest.mark.parametrize("fast", ["1", pytest.param("0", marks=pytest.mark.slow)])
def test_every_cell_runs_and_its_claims_hold(fast, monkeypatch):
    stored = nbformat.read(NOTEBOOK, as_version=4)
    notebook = copy.deepcopy(stored)
    monkeypatch.setenv("MAGRPO_FAST", fast)
    place = {"metadata": {"path": str(NOTEBOOK.parent)}}
    nbclient.NotebookClient(notebook, timeout=600, resources=place).execute()
    printed, pictures = outputs(notebook.cells)
    assert len(pictures) == 5
    assert "largest difference" in printed
    assert len(re.findall(r"^(?:row|column) \d, advantage", printed, re.MULTILINE)) == 12
    # What an agent sees. If it differs, the task has changed: store the outputs anew.
    assert outputs(notebook.cells[4:5]) == outputs(stored.cells[4:5])
