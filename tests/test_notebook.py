"""teaching.ipynb runs from top to bottom: python -m pytest tests/test_notebook.py"""

import base64
import copy
import io
import re
from pathlib import Path

import nbclient
import nbformat
import numpy as np
import pytest
from PIL import Image

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


def pixels(picture: str) -> np.ndarray:
    """A picture's grey values, 0 to 255, coarsely."""
    image = Image.open(io.BytesIO(base64.b64decode(picture))).convert("L")
    return np.asarray(image.resize((300, 100)), dtype=float)


def test_it_is_stored_with_outputs_of_one_run_and_of_no_machine():
    cells = [c for c in nbformat.read(NOTEBOOK, as_version=4).cells if c.cell_type == "code"]
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    kinds = {output.get("name", output.output_type) for cell in cells for output in cell.outputs}
    assert kinds == {"stdout", "display_data"}  # no error and no warning
    printed, _ = outputs(cells)
    assert not re.findall(r"(?:^|[\s'\"(])/\w+/\S+", printed, re.MULTILINE)  # no path


@pytest.mark.parametrize("fast", ["1", pytest.param("0", marks=pytest.mark.slow)])
def test_every_cell_runs_and_its_claims_hold(fast, monkeypatch):
    stored = nbformat.read(NOTEBOOK, as_version=4)
    notebook = copy.deepcopy(stored)
    monkeypatch.setenv("MAGRPO_FAST", fast)
    place = {"metadata": {"path": str(NOTEBOOK.parent)}}
    nbclient.NotebookClient(notebook, timeout=600, resources=place).execute()
    printed, pictures = outputs(notebook.cells)
    names = {output.get("name") for cell in notebook.cells for output in cell.get("outputs", [])}
    assert "stderr" not in names
    assert "largest difference" in printed
    assert len(re.findall(r"^(?:row|column) \d, advantage", printed, re.MULTILINE)) == 12
    # What differs from the stored outputs was changed by the code: store them anew.
    assert outputs(notebook.cells[4:9])[0] == outputs(stored.cells[4:9])[0]
    _, stored_pictures = outputs(stored.cells)
    assert len(pictures) == len(stored_pictures) == 5
    trained = 3 if fast == "1" else 5  # the last two are of runs, which are shorter here
    for fresh, kept in zip(pictures[:trained], stored_pictures[:trained], strict=True):
        assert np.abs(pixels(fresh) - pixels(kept)).mean() < 5
