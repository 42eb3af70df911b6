"""teaching.ipynb runs from top to bottom: python -m pytest tests/test_notebook.py"""

import copy
import re

import nbclient
import nbformat
import pytest
from helpers import ROOT

STORED = nbformat.read(ROOT / "teaching.ipynb", as_version=4)


def printed(cells):
    """Return all that cells print. Nothing comes but texts and pictures, so no warning does."""
    outputs = [output for cell in cells for output in cell.get("outputs", [])]
    kinds = {output.get("name", output.output_type) for output in outputs}
    assert kinds <= {"stdout", "display_data"}
    return "".join(output.get("text", "") for output in outputs)


@pytest.mark.parametrize("fast", ["1", pytest.param("0", marks=pytest.mark.slow)])
def test_every_cell_runs_and_its_claims_hold(fast, monkeypatch):
    notebook = copy.deepcopy(STORED)
    monkeypatch.setenv("MAGRPO_FAST", fast)
    place = {"metadata": {"path": str(ROOT)}}
    nbclient.NotebookClient(notebook, timeout=600, resources=place).execute()
    text = printed(notebook.cells)
    assert "largest difference" in text
    assert len(re.findall(r"^(?:row|column) \d, advantage", text, re.MULTILINE)) == 12
    # What differs from the stored outputs was changed by the code: store them anew.
    assert printed(notebook.cells[4:9]) == printed(STORED.cells[4:9])
