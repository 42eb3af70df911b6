"""Draw the pictures of docs/ that need no run.

    python -m examples.pictures     # seconds

`group.png` and `build.png` are figures that teaching.ipynb has stored. CONTRIBUTING.md names what
makes the other pictures.
"""

import base64
import json
from pathlib import Path

ROOT = Path(__file__).parent.parent
STORED = {"group.png": "column_advantage, color", "build.png": "draw_run"}  # words of the cell


def stored_figure(words: str) -> bytes:
    """Return the picture that the notebook's cell with these words has stored."""
    notebook = json.loads((ROOT / "teaching.ipynb").read_text("utf-8"))
    for cell in notebook["cells"]:
        if words in "".join(cell["source"]):
            for output in cell.get("outputs", []):
                if "image/png" in output.get("data", {}):
                    return base64.b64decode(output["data"]["image/png"])
    raise SystemExit(f"teaching.ipynb has stored no picture of a cell with {words!r}")


def main() -> None:
    for name, words in STORED.items():
        (ROOT / "docs" / name).write_bytes(stored_figure(words))


if __name__ == "__main__":
    main()
