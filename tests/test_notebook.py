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
    kinds = {output.output_type for cell in cells for output in cell.outputs}
    assert kinds == {"stream", "display_data"}  # no error
    printed, pictures = outputs(cells)
    assert not re.findall(r"(?:^|[\s'\"(])/\w+/\S+", printed, re.MULTILINE)  # no path
    assert len(pictures) == 3
    for name, stored in zip(("group", "schemes"), pictures, strict=False):
        picture = (NOTEBOOK.parent / "docs" / f"{name}.png").read_bytes()
        assert picture == base64.b64decode(stored)


@pytest.mark.parametrize("fast", ["1", pytest.param("0", marks=pytest.mark.slow)])
def test_every_cell_runs_and_its_claims_hold(fast, monkeypatch):
    stored = nbformat.read(NOTEBOOK, as_version=4)
    notebook = copy.deepcopy(stored)
    monkeypatch.setenv("MAGRPO_FAST", fast)
    place = {"metadata": {"path": str(NOTEBOOK.parent)}}
    nbclient.NotebookClient(notebook, timeout=600, resources=place).execute()
    printed, pictures = outputs(notebook.cells)
    assert len(pictures) == 3
    assert "largest difference" in printed
    assert len(re.findall(r"^(?:row|column) \d, advantage", printed, re.MULTILINE)) == 12
    # What an agent sees. If it differs, the task has changed: store the outputs anew.
    assert outputs(notebook.cells[3:4]) == outputs(stored.cells[3:4])
