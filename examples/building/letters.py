"""Letters of blocks: a 5 x 5 font, the strings of StrBuild's data set, and more strings.

I, L, C and M are drawn as in that data set; the other letters are ours, in its style. A character
that the font lacks is blank. Between two letters are GAP empty columns. x runs to the right and y
up: the last row of a picture is y = 0.
"""

import hashlib
import random
from collections.abc import Iterator

from examples.building.world import ANY, Cell, Rules

SIZE, GAP = 5, 2
_DRAWN = """
A .###. #...# ##### #...# #...#    N #...# ##..# #.#.# #..## #...#
B ####. #...# ####. #...# ####.    O .###. #...# #...# #...# .###.
C .#### #.... #.... #.... .####    P ####. #...# ####. #.... #....
D ####. #...# #...# #...# ####.    Q .###. #...# #.#.# #..#. .##.#
E ##### #.... ####. #.... #####    R ####. #...# ####. #..#. #...#
F ##### #.... ####. #.... #....    S .#### #.... .###. ....# ####.
G .#### #.... #..## #...# .###.    T ##### ..#.. ..#.. ..#.. ..#..
H #...# #...# ##### #...# #...#    U #...# #...# #...# #...# .###.
I ##### ..#.. ..#.. ..#.. #####    V #...# #...# #...# .#.#. ..#..
J ..### ...#. ...#. #..#. .##..    W #...# #...# #.#.# ##.## #...#
K #...# #..#. ###.. #..#. #...#    X #...# .#.#. ..#.. .#.#. #...#
L #.... #.... #.... #.... #####    Y #...# .#.#. ..#.. ..#.. ..#..
M #...# ##.## #.#.# #...# #...#    Z ##### ...#. ..#.. .#... #####
"""
_WORDS = _DRAWN.split()
FONT = {letter: _WORDS[6 * n + 1 : 6 * n + 6] for n, letter in enumerate(_WORDS[::6])}
PUBLISHED = {"train": ("I", "C", "M", "L", "MC", "CM", "LI", "LLM"), "test": ("ICML", "CLIM")}
LONGEST = 4  # letters of a string that is drawn at random


def picture(text: str) -> list[str]:
    """The five rows of a string, the top one first; # is a target."""
    blank = ["." * SIZE] * SIZE
    glyphs = [FONT.get(letter, blank) for letter in text.upper()]
    return [("." * GAP).join(glyph[row] for glyph in glyphs) for row in range(SIZE)]


def cells(rows: list[str]) -> list[Cell]:
    """The (x, y, 0) of a picture's targets, its top row first."""
    picture = zip(reversed(range(len(rows))), rows, strict=True)
    return [(x, y, 0) for y, row in picture for x, one in enumerate(row) if one == "#"]


PALETTES = (("oak_planks", "stone"), ("white_concrete", "obsidian"))  # four textures
MOST = 300  # commands of a team, of one agent or two: nothing is left over


def rules(item: dict, agents: int) -> Rules:
    """What the agents of a StrBuild item may do: set single cells to one of their two blocks."""
    high = (len(item["rows"][0]) - 1, len(item["rows"]) - 1, 0)
    target = dict.fromkeys(cells(item["rows"]), ANY)
    palettes = tuple(map(frozenset, PALETTES[:agents]))
    return Rules(high, palettes, MOST // agents, target, frozenset({"setblock"}))


def strings(split: str) -> Iterator[str]:
    """The strings of a split, without end: the data set's, then random ones, all different."""
    yield from PUBLISHED.get(split, ())
    seen = {text for published in PUBLISHED.values() for text in published}
    rng = random.Random(f"strbuild/{split}")
    while True:
        text = "".join(rng.choices(sorted(FONT), k=rng.choice(range(1, LONGEST + 1))))
        if text not in seen and split_of(text) == split:
            seen.add(text)
            yield text


def split_of(name: str) -> str:
    """train, dev or test by a hash of the name, so that no name is in two of them."""
    return {0: "dev", 1: "test"}.get(hashlib.md5(name.encode()).digest()[0] % 10, "train")
