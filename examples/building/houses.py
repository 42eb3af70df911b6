"""Houses of blocks for task HouseBuild: the authors' five, and variants of them.

A house is `layers[y][z]`, a text of one character for each x. INVENTORY names their blocks. The
five houses have floor, walls and eaves in common and differ in the roof. A variant has one of these
roofs, a door in one of three places, and the five blocks in another order.
"""

import itertools
import random
import re
from collections import Counter

from examples.building.letters import split_of, table
from examples.building.world import AIR, Rules, box

INVENTORY = {
    "C": "white_concrete",
    "O": "obsidian",
    "S": "stone_stairs",
    "B": "stone_bricks",
    "D": "planks",
    "A": AIR,
}
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
_PUBLISHED = """
train 0002 gable
train 0101 flat
train 0102 flat
train 0103 flat
train 0104 steep
train 0105 steep
train 0106 ridge
train 0107 ridge
test  0108 hip
test  0109 hip
"""  # the authors' numbers, and the roof
MAX_COMMANDS = 600  # of a team


def layers(roof, door=DOORS[0], blocks=BLOCKS):
    """Return the layers of a house. blocks: the characters that replace those of BLOCKS."""
    text = _DRAWN.replace("CDDC", door).replace("CAAC", door.replace("D", "A"))
    text = text.translate(str.maketrans(BLOCKS, blocks))
    return [rows for part, *rows in table(text) if part in ("all", roof)]


def houses(split):
    """Yield (task_id, number of spiders, layers), each house in one split only.

    The published houses come first, then the variants.
    """
    for part, number, roof in table(_PUBLISHED):
        if part == split:
            yield f"house_builder_{number}", 3, layers(roof)
    variants = list(itertools.product(ROOFS, DOORS, map("".join, itertools.permutations(BLOCKS))))
    random.Random("housebuild").shuffle(variants)
    for number, variant in enumerate(variants):
        house = layers(*variant)
        if variant[1:] != (DOORS[0], BLOCKS) and split_of(str(house)) == split:
            spiders = random.Random(str(number)).randint(0, 3)
            yield f"housebuild/{split}/{number}", spiders, house


def target(item):
    """Return the block of each cell that is not air."""
    blocks = {}
    for low, high, block in rectangles(item):
        blocks |= dict.fromkeys(box(low, high), block)
    return blocks


def rules(item, agents):
    """Give each agent all blocks, and of each block material for about 3/4 of the house.

    If the house has a block c times, each of n agents has ceil(c / n) + floor(c / 2n) of it.
    """
    house = target(item)
    layers = item["layers"]
    palette = frozenset(item["inventory"].values()) - {AIR}
    material = {}
    counts = Counter(house.values())
    for block in palette:
        material[block] = -(-counts[block] // agents) + counts[block] // (2 * agents)
    return Rules(
        size=(len(layers[0][0]), len(layers), len(layers[0])),
        palettes=(palette,) * agents,
        max_commands=MAX_COMMANDS // agents,
        target=house,
        commands={"fill", "kill"},
        material=material,
        standing={},
    )


def rectangles(item):
    """Return (low, high, block) of the target, layer by layer.

    A run of equal blocks in a row is merged with the same runs of the rows behind it.
    """
    merged = {}  # by their low corner; a later row moves the high one
    for y, rows in enumerate(item["layers"]):
        first_rows = {}  # of each run of the row in front
        for z, row in enumerate(rows):
            runs = [(*run.span(), run[1]) for run in re.finditer(r"(.)\1*", row)]
            first_rows = {run: first_rows.get(run, z) for run in runs}
            for (start, end, character), first in first_rows.items():
                low = (start, y, first)
                merged[low] = (low, (end - 1, y, z), item["inventory"][character])
    return [rectangle for rectangle in merged.values() if rectangle[2] != AIR]


def described(item):
    """Return the target for a prompt: the rectangles of each layer on a line."""
    lines = [[] for _ in item["layers"]]
    for low, high, block in rectangles(item):
        lines[low[1]].append(f"({str((*low, *high))[1:-1]} {block})")
    return "\n".join(f"y={y}: {{{', '.join(texts)}}}" for y, texts in enumerate(lines))
