"""Houses of blocks, in layers: the five of HouseBuild's data set, and variants of them.

A house is `layers[y][z]`, a text of one character for each x; INVENTORY names their blocks. The
five houses have floor, walls and eaves in common and differ in the roof. A variant has one of these
roofs, a door in one of three places, and the five blocks in another order.
"""

import itertools
import random
import re
from collections import Counter
from collections.abc import Iterator

from examples.building.letters import split_of
from examples.building.world import AIR, Cell, Rules

_NAMES = ("white_concrete", "obsidian", "stone_stairs", "stone_bricks", "planks", AIR)
INVENTORY = dict(zip("COSBDA", _NAMES, strict=True))
_DRAWN = """
all   AAAAAA CCCCCC CCCCCC CCCCCC CCCCCC CCCCCC AAAAAA
all   AAAAAA OCDDCO CAAAAC CAAAAC CAAAAC OCCCCO AAAAAA
all   AAAAAA OCAACO CAAAAC CAAAAC CAAAAC OCCCCO AAAAAA
all   AAAAAA OCCCCO CAAAAC CAAAAC CAAAAC OCCCCO AAAAAA
all   SSSSSS BBBBBB BBBBBB BBBBBB BBBBBB BBBBBB SSSSSS
gable AAAAAA SSSSSS BBBBBB BBBBBB BBBBBB SSSSSS AAAAAA
gable AAAAAA AAAAAA SSSSSS BBBBBB SSSSSS AAAAAA AAAAAA
flat  BBBBBB BBBBBB BBBBBB BBBBBB BBBBBB BBBBBB BBBBBB
flat  BBBBBB BBBBBB BBBBBB BBBBBB BBBBBB BBBBBB BBBBBB
steep AAAAAA AAAAAA SSSSSS BBBBBB SSSSSS AAAAAA AAAAAA
steep AAAAAA AAAAAA AAAAAA BBBBBB AAAAAA AAAAAA AAAAAA
ridge SSBBSS SSBBSS SSBBSS SSBBSS SSBBSS SSBBSS SSBBSS
ridge ASBBSA ASBBSA ASBBSA ASBBSA ASBBSA ASBBSA ASBBSA
hip   AAAAAA ASSSSA ASBBSA ASBBSA ASBBSA ASSSSA AAAAAA
hip   AAAAAA AAAAAA AASSAA AABBAA AASSAA AAAAAA AAAAAA
"""
ROOFS = ("gable", "flat", "steep", "ridge", "hip")
DOORS = ("CDDC", "DDCC", "CCDD")  # the front wall between its posts; the first is the published one
BLOCKS = "COSBD"
PUBLISHED = {  # the authors' numbers, and the roof
    "train": {"0002": "gable"}
    | dict.fromkeys(("0101", "0102", "0103"), "flat")
    | dict.fromkeys(("0104", "0105"), "steep")
    | dict.fromkeys(("0106", "0107"), "ridge"),
    "test": dict.fromkeys(("0108", "0109"), "hip"),
}
MAX_COMMANDS = 600  # of a team


def layers(roof: str, door: str = DOORS[0], blocks: str = BLOCKS) -> list[list[str]]:
    """layers[y][z] of a house; blocks: the characters that take the place of those of BLOCKS."""
    text = _DRAWN.replace("CDDC", door).replace("CAAC", door.replace("D", "A"))
    lines = text.translate(str.maketrans(BLOCKS, blocks)).strip().split("\n")
    return [rows for part, *rows in map(str.split, lines) if part in ("all", roof)]


def houses(split: str) -> Iterator[tuple[str, list[list[str]]]]:
    """(name, layers) of a split: the published houses, then variants, each in one split only."""
    published = PUBLISHED.get(split, {})
    yield from ((name, layers(roof)) for name, roof in published.items())
    variants = list(itertools.product(ROOFS, DOORS, map("".join, itertools.permutations(BLOCKS))))
    random.Random("housebuild").shuffle(variants)
    for number, variant in enumerate(variants):
        house = layers(*variant)
        if variant[1:] != (DOORS[0], BLOCKS) and split_of(str(house)) == split:
            yield str(number), house


def target(item: dict) -> dict[Cell, str]:
    """The block of each cell that is not air, layer by layer."""
    found = {}
    for y, rows in enumerate(item["layers"]):
        for z, row in enumerate(rows):
            named = ((x, item["inventory"][one]) for x, one in enumerate(row))
            found |= {(x, y, z): block for x, block in named if block != AIR}
    return found


def rules(item: dict, agents: int) -> Rules:
    """What the agents of a HouseBuild item may do: all have all blocks, and of each block material
    for about three quarters of the house, ceil(count / n) + floor(count / 2n)."""
    house, layers = target(item), item["layers"]
    counts = Counter(house.values())
    palette = frozenset(item["inventory"].values()) - {AIR}
    material = {b: -(-counts[b] // agents) + counts[b] // (2 * agents) for b in palette}
    high = (len(layers[0][0]) - 1, len(layers) - 1, len(layers[0]) - 1)
    commands, most = frozenset({"fill", "kill"}), MAX_COMMANDS // agents
    return Rules(high, (palette,) * agents, most, house, commands, material)


def rectangles(item: dict) -> list[tuple[Cell, Cell, str]]:
    """(low, high, block) of the target, layer by layer: runs of equal blocks in a row, each merged
    with the same run of the rows behind it."""
    found = []
    for y, rows in enumerate(item["layers"]):
        runs = [[(*run.span(), run[1]) for run in re.finditer(r"(.)\1*", row)] for row in rows]
        for z, run in ((z, run) for z, here in enumerate(runs) for run in here):
            (start, end, one), last = run, z
            while run in [*runs, []][last + 1]:
                last += 1
            if item["inventory"][one] != AIR and run not in [[], *runs][z]:  # not in front
                found.append(((start, y, z), (end - 1, y, last), item["inventory"][one]))
    return found


def described(item: dict) -> str:
    """The target for a prompt: the rectangles of each layer on a line."""
    lines = {y: [] for y in range(len(item["layers"]))}
    for low, high, block in rectangles(item):
        lines[low[1]].append(f"({str((*low, *high))[1:-1]} {block})")
    return "\n".join(f"y={y}: {{{', '.join(found)}}}" for y, found in lines.items())
