"""Letters of blocks: a 5 x 5 font, the strings of StrBuild's data set, and more strings.

I, L, C and M are drawn as in that data set; the other letters are ours, in its style. A character
that the font lacks is blank. Between two letters are GAP empty columns. x runs to the right and y
up: the last row of a picture is y = 0.
"""

import hashlib
import random
from collections.abc import Iterator

from building.world import Cell, Rules, World

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
    heights = range(len(rows) - 1, -1, -1)
    picture = zip(heights, rows, strict=True)
    return [(x, y, 0) for y, row in picture for x, one in enumerate(row) if one == "#"]


PALETTES = (("oak_planks", "stone"), ("white_concrete", "obsidian"))
MOST = 300  # commands of a team
TARGET = "target"  # a cell for any block
_STONES = {"stone", "cobblestone", "smooth_stone", "stone_bricks"}


def rules(item: dict, agents: int) -> Rules:
    """What the agents of a StrBuild item may do: set single cells to one of their two blocks."""
    high = (len(item["rows"][0]) - 1, len(item["rows"]) - 1, 0)
    palettes = tuple(map(frozenset, PALETTES[:agents]))
    return Rules(high, palettes, share(MOST, agents), frozenset({"setblock"}))


def target(item: dict) -> dict[Cell, str]:
    """The cells that are to hold a block; any will do."""
    return dict.fromkeys(cells(item["rows"]), TARGET)


def correct(target: dict[Cell, str], built: World) -> set[Cell]:
    """The target's cells that hold a block whose texture no block beside it has."""
    looks = {cell: texture(block) for cell, (block, _) in built.cells.items()}
    alike = {cell for pair in pairs(looks) if looks[pair[0]] == looks[pair[1]] for cell in pair}
    return target.keys() & looks.keys() - alike


def texture(block: str) -> str:
    """The look of a block: two blocks of one texture must not share a side."""
    if block.endswith(("_planks", "_wood")):
        return "wood"
    if block in _STONES or block.endswith(("_stone", "_stone_bricks")):
        return "stone"
    return "concrete" if block.endswith("_concrete") else block


def pairs(cells) -> list[tuple[Cell, Cell]]:
    """The pairs of the given cells that share a side and have the same z."""
    return [
        (cell, other)
        for cell in cells
        for other in ((cell[0] + 1, *cell[1:]), (cell[0], cell[1] + 1, *cell[2:]))
        if other in cells
    ]


def share(most: int, agents: int) -> tuple[int, ...]:
    """How many of a team's commands each agent has; the first also gets the remainder."""
    return (most // agents + most % agents, *[most // agents] * (agents - 1))


def strings(split: str) -> Iterator[str]:
    """The strings of a split, without end: those of the data set, then random ones, all different.
    A string belongs to one split."""
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
