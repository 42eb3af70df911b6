"""Names that were misspelt."""

import difflib


def meant(name: str, known) -> str:
    """Which of the known names a name is close to, for an error's words; "" where none is."""
    near = difflib.get_close_matches(name, known, 1)
    return f" (did you mean {near[0]}?)" if near else ""
