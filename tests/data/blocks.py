"""Texts of several parts, as tables of programs are written."""


def blocks(text):
    """Return (head, part) for each part of a text. A line "=== head" stands above it."""
    parts = text.strip("\n").removeprefix("=== ").split("\n=== ")
    return [part.split("\n", 1) for part in parts]
