"""What a name on the command line stands for."""

import difflib
from pathlib import Path


def meant(name: str, known) -> str:
    """Which of the known names a name is close to, for an error's words; "" where none is."""
    near = difflib.get_close_matches(name, known, 1)
    return f" (did you mean {near[0]}?)" if near else ""


def run_folder(name: str) -> Path:
    """A run that is given as its folder, or as its name in runs/."""
    here, there = Path(name), Path("runs") / name
    return there if there.is_dir() and not (here / "args.json").is_file() else here
