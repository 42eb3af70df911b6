"""Letters of blocks: a 5 x 5 font, the strings of StrBuild's data set, and more of them.

I, L, C and M are drawn as in that data set; the other letters are ours, in its style. A character
that the font lacks is blank. A string's letters stand side by side, GAP empty columns between them;
x runs to the right, and y up: the picture's last row is y = 0.
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
PUBLISHED = {  # string: difficulty; the authors train on the first eight
    "train": {"I": 1, "C": 1, "M": 1, "L": 1, "MC": 2, "CM": 2, "LI": 3, "LLM": 3},
    "dev": {},
    "test": {"ICML": 3, "CLIM": 3},
}


def picture(text: str) -> list[str]:
    """The five rows of a string, the top one first; # is a target."""
    blank = ["." * SIZE] * SIZE
    glyphs = [FONT.get(letter, blank) for letter in text.upper()]
    return [("." * GAP).join(glyph[row] for glyph in glyphs) for row in range(SIZE)]


def cells(rows: list[str]) -> list[Cell]:
    """The (x, y, 0) of a picture's targets, its top row first."""
    height = len(rows)
    return [
        (x, height - 1 - y, 0)
        for y, row in enumerate(rows)
        for x, one in enumerate(row)
        if one == "#"
    ]


PALETTES = (("oak_planks", "stone"), ("white_concrete", "obsidian"))
MOST = 300  # commands of a team
TARGET = "target"  # a cell for any block
_STONES = {"stone", "cobblestone", "smooth_stone", "stone_bricks"}


def rules(item: dict, agents: int) -> Rules:
    """What the agents of a StrBuild item may do: one cell a command, each its own two blocks."""
    high = (len(item["rows"][0]) - 1, len(item["rows"]) - 1, 0)
    palettes = tuple(map(frozenset, PALETTES[:agents]))
    return Rules((0, 0, 0), high, palettes, share(MOST, agents), frozenset({"setblock"}))


def target(item: dict) -> dict[Cell, str]:
    """The cells that are to hold a block; any will do."""
    return dict.fromkeys(cells(item["rows"]), TARGET)


def right(target: dict[Cell, str], built: World) -> set[Cell]:
    """The target's cells that hold a block which looks like none beside it."""
    looks = {cell: texture(block) for cell, (block, _) in built.cells.items()}
    alike = {cell for pair in pairs(looks) if looks[pair[0]] == looks[pair[1]] for cell in pair}
    return target.keys() & looks.keys() - alike


def texture(block: str) -> str:
    """What a block looks like, of two that stand side by side."""
    if block.endswith(("_planks", "_wood")):
        return "wood"
    if block in _STONES or block.endswith(("_stone", "_stone_bricks")):
        return "stone"
    return "concrete" if block.endswith("_concrete") else block


def pairs(cells) -> list[tuple[Cell, Cell]]:
    """The pairs of the given cells that share a side, of those in a plane of constant z."""
    return [
        (cell, other)
        for cell in cells
        for other in ((cell[0] + 1, *cell[1:]), (cell[0], cell[1] + 1, *cell[2:]))
        if other in cells
    ]


def share(most: int, agents: int) -> tuple[int, ...]:
    """A team's commands, divided; the first agent has the remainder."""
    return (most // agents + most % agents, *[most // agents] * (agents - 1))


def strings(split: str, longest: int = 4) -> Iterator[tuple[str, int]]:
    """(string, difficulty) of a split, without end but for the short ones: those of the data set,
    and then strings of one to `longest` letters, all different. A string belongs to one split."""
    yield from PUBLISHED[split].items()
    seen = {text for published in PUBLISHED.values() for text in published}
    rng = random.Random(f"strbuild/{split}")
    while True:
        text = "".join(rng.choices(sorted(FONT), k=rng.choice(range(1, longest + 1))))
        if text not in seen and split_of(text) == split:
            seen.add(text)
            yield text, min(len(text), 3)


def split_of(name: str) -> str:
    """train, dev or test, by a hash: the same word is never in two of them."""
    return {0: "dev", 1: "test"}.get(hashlib.md5(name.encode()).digest()[0] % 10, "train")
