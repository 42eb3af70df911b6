"""Letters of blocks for task StrBuild: a 5 x 5 font, the authors' strings, and random strings.

I, L, C and M are drawn as in the authors' data set. The other letters are ours, in its style. A
character that the font lacks is blank. Between two letters are GAP empty columns. x runs to the
right and y up: the last row of a picture is y = 0.
"""

import hashlib
import random

from examples.building.world import ANY, Rules

SIZE = 5
GAP = 2
_DRAWN = """
A .###. #...# ##### #...# #...#
B ####. #...# ####. #...# ####.
C .#### #.... #.... #.... .####
D ####. #...# #...# #...# ####.
E ##### #.... ####. #.... #####
F ##### #.... ####. #.... #....
G .#### #.... #..## #...# .###.
H #...# #...# ##### #...# #...#
I ##### ..#.. ..#.. ..#.. #####
J ..### ...#. ...#. #..#. .##..
K #...# #..#. ###.. #..#. #...#
L #.... #.... #.... #.... #####
M #...# ##.## #.#.# #...# #...#
N #...# ##..# #.#.# #..## #...#
O .###. #...# #...# #...# .###.
P ####. #...# ####. #.... #....
Q .###. #...# #.#.# #..#. .##.#
R ####. #...# ####. #..#. #...#
S .#### #.... .###. ....# ####.
T ##### ..#.. ..#.. ..#.. ..#..
U #...# #...# #...# #...# .###.
V #...# #...# #...# .#.#. ..#..
W #...# #...# #.#.# ##.## #...#
X #...# .#.#. ..#.. .#.#. #...#
Y #...# .#.#. ..#.. ..#.. ..#..
Z ##### ...#. ..#.. .#... #####
"""


def table(text):
    """Return the words of each line."""
    return [line.split() for line in text.strip().split("\n")]


FONT = {letter: rows for letter, *rows in table(_DRAWN)}
PUBLISHED = {"train": ("I", "C", "M", "L", "MC", "CM", "LI", "LLM"), "test": ("ICML", "CLIM")}
LONGEST = 4  # letters of a random string
PALETTES = (("oak_planks", "stone"), ("white_concrete", "obsidian"))  # four textures
MAX_COMMANDS = 300  # of a team


def picture(text):
    """Return the five rows of a string, the top one first. # is a target."""
    blank = ["." * SIZE] * SIZE
    glyphs = [FONT.get(letter, blank) for letter in text.upper()]
    return [("." * GAP).join(glyph[row] for glyph in glyphs) for row in range(SIZE)]


def cells(rows):
    """Return (x, y, 0) of each target of a picture, from its top row down."""
    targets = []
    for number, row in enumerate(rows, 1):
        targets += [(x, len(rows) - number, 0) for x, mark in enumerate(row) if mark == "#"]
    return targets


def rules(item, agents):
    """Let each agent set single cells to one of its two blocks."""
    rows = item["rows"]
    return Rules(
        size=(len(rows[0]), len(rows), 1),
        palettes=tuple(map(frozenset, PALETTES[:agents])),
        max_commands=MAX_COMMANDS // agents,
        target=dict.fromkeys(cells(rows), ANY),
        commands={"setblock"},
        material={},
        standing={},
    )


def strings(split):
    """Yield a split's published strings, then random ones without end, all different."""
    yield from PUBLISHED.get(split, ())
    seen = {*PUBLISHED["train"], *PUBLISHED["test"]}
    rng = random.Random(f"strbuild/{split}")
    while True:
        text = "".join(rng.choices(sorted(FONT), k=rng.randint(1, LONGEST)))
        if text not in seen and split_of(text) == split:
            seen.add(text)
            yield text


def split_of(name):
    """Return train, dev or test by a hash of the name, so that no name is in two of them."""
    digest = hashlib.md5(name.encode()).digest()
    return {0: "dev", 1: "test"}.get(digest[0] % 10, "train")
