"""teaching.ipynb runs from top to bottom: python -m pytest tests/test_notebook.py"""

from pathlib import Path

import nbclient
import nbformat
import pytest

NOTEBOOK = Path(__file__).resolve().parent.parent / "teaching.ipynb"


def execute(notebook, monkeypatch, fast: bool):
    monkeypatch.setenv("MAGRPO_FAST", "1" if fast else "0")
    place = {"metadata": {"path": str(NOTEBOOK.parent)}}
    nbclient.NotebookClient(notebook, timeout=600, resources=place).execute()


def test_it_is_committed_without_outputs():
    cells = nbformat.read(NOTEBOOK, as_version=4).cells
    assert not any(cell.get("outputs") for cell in cells)


@pytest.mark.parametrize("fast", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_every_cell_runs_and_its_claims_hold(fast, monkeypatch):
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    execute(notebook, monkeypatch, fast)
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert sum("image/png" in output.get("data", {}) for output in outputs) == 2
    text = "".join(output.get("text", "") for output in outputs)
    assert "largest difference" in text
