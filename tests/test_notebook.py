"""teaching.ipynb runs from top to bottom: python -m pytest tests/test_notebook.py"""

import base64
import copy
import re
from pathlib import Path

import nbclient
import nbformat
import pytest

NOTEBOOK = Path(__file__).resolve().parent.parent / "teaching.ipynb"


def execute(notebook, monkeypatch, fast: bool):
    monkeypatch.setenv("MAGRPO_FAST", "1" if fast else "0")
    place = {"metadata": {"path": str(NOTEBOOK.parent)}}
    nbclient.NotebookClient(notebook, timeout=600, resources=place).execute()


def texts(cells) -> str:
    return "".join(output.get("text", "") for cell in cells for output in cell.get("outputs", []))


def pictures(cells) -> list[str]:
    found = [output.get("data", {}) for cell in cells for output in cell.get("outputs", [])]
    return [data["image/png"] for data in found if "image/png" in data]


def test_it_is_stored_with_outputs_of_one_run_and_of_no_machine():
    cells = [c for c in nbformat.read(NOTEBOOK, as_version=4).cells if c.cell_type == "code"]
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    kinds = {output.output_type for cell in cells for output in cell.outputs}
    assert kinds == {"stream", "display_data"}  # no error
    assert not re.findall(r"(?:^|[\s'\"(])/\w+/\S+", texts(cells), re.MULTILINE)  # no path
    assert NOTEBOOK.stat().st_size < 400_000
    *found, built = pictures(cells)
    assert built
    for name, stored in zip(("group", "schemes"), found, strict=True):
        data = base64.b64decode(stored)
        assert (NOTEBOOK.parent / "docs" / f"{name}.png").read_bytes() == data


@pytest.mark.parametrize("fast", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_every_cell_runs_and_its_claims_hold(fast, monkeypatch):
    stored = nbformat.read(NOTEBOOK, as_version=4)
    notebook = copy.deepcopy(stored)
    execute(notebook, monkeypatch, fast)
    told = texts(notebook.cells)
    assert len(pictures(notebook.cells)) == 3
    assert "largest difference" in told
    assert len(re.findall(r"^(?:row|column) \d, advantage", told, re.MULTILINE)) == 12
    seen = [texts(kept.cells[3:4]) for kept in (notebook, stored)]  # what an agent sees
    assert seen[0] == seen[1]  # or the stored outputs are of another task: store them anew
