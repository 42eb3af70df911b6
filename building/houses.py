"""Houses of blocks, in layers: those of HouseBuild's data set, and a grammar for more of them.

A house is `layers[y][z]`, a text of one character per x; INVENTORY names their blocks. It has a
floor, walls with posts, a door and perhaps windows, an eave, and a roof of two layers. The five
houses of the data set are sentences of the grammar, which differ in the roof.
"""

import functools
import random
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from building.letters import share, split_of
from building.world import AIR, Cell, Rules, World, box

INVENTORY = {
    "C": "white_concrete",
    "O": "obsidian",
    "S": "stone_stairs",
    "B": "stone_bricks",
    "D": "planks",
    "A": "air",
}
WIDE, HIGH, DEEP = 6, 7, 7  # x, y, z
LARGEST = 64  # cells along a side of a world that is read from a file
# A roof is seen from the front and from the side: what it has at 0, 1, ... cells from the edge, in
# its lower and in its upper layer. T: tiles, E: edge, A: air; where both say something, E before T.
ALONG_Z = {"flat": ("TTTT", "TTTT"), "gable": ("AETT", "AAET"), "steep": ("AAET", "AAAT")}
ALONG_X = {"flat": ("TTT", "TTT"), "ridge": ("EET", "AET"), "hip": ("AET", "AAT")}


@dataclass(frozen=True)
class House:
    """The defaults are what all published houses share."""

    roof: tuple[str, str]  # of ALONG_Z, ALONG_X
    left: int = 0  # the walls' corners: x ...
    right: int = WIDE - 1
    front: int = 1  # ... and z
    back: int = DEEP - 2
    floor: str = "C"
    wall: str = "C"
    post: str = "O"
    tiles: str = "B"
    edge: str = "S"
    door: tuple[int, int] = (2, 3)  # from x to x, in the front wall
    sill: str = "D"  # of the door; its opening is above
    windows: frozenset[int] = frozenset()  # z, in the walls to the left and to the right


PUBLISHED = {  # the authors train on the first eight
    "train": {
        "0002": House(("gable", "flat")),
        "0101": House(("flat", "flat")),
        "0102": House(("flat", "flat")),
        "0103": House(("flat", "flat")),
        "0104": House(("steep", "flat")),
        "0105": House(("steep", "flat")),
        "0106": House(("flat", "ridge")),
        "0107": House(("flat", "ridge")),
    },
    "dev": {},
    "test": {"0108": House(("gable", "hip")), "0109": House(("gable", "hip"))},
}


def layers(house: House) -> list[list[str]]:
    """layers[y][z] of a house, the lowest first."""
    walls = [
        ["".join(_block(house, x, y, z) for x in range(WIDE)) for z in range(DEEP)]
        for y in range(HIGH - 3)
    ]
    return [*walls, *map(list, _roof(house.roof, house.tiles, house.edge))]


def _block(house: House, x: int, y: int, z: int) -> str:
    if not (house.left <= x <= house.right and house.front <= z <= house.back):
        return "A"
    if y == 0:
        return house.floor
    in_front, at_side = z == house.front, x in (house.left, house.right)
    if at_side and (in_front or z == house.back):
        return house.post
    if in_front and house.door[0] <= x <= house.door[1] and y < 3:
        return house.sill if y == 1 else "A"
    if at_side and z in house.windows and y == 2:
        return "A"
    return house.wall if in_front or at_side or z == house.back else "A"


@functools.cache
def _roof(roof: tuple[str, str], tiles: str, edge: str) -> list[tuple[str, ...]]:
    """The eave and the layers above it; few roofs serve all houses."""
    deep, wide = [[min(n, most - 1 - n) for n in range(most)] for most in (DEEP, WIDE)]
    found = [tuple((tiles if z else edge) * WIDE for z in deep)]
    for along_z, along_x in zip(ALONG_Z[roof[0]], ALONG_X[roof[1]], strict=True):
        seen = [[along_z[z] + along_x[x] for x in wide] for z in deep]
        rows = [["A" if "A" in s else edge if "E" in s else tiles for s in row] for row in seen]
        found.append(tuple("".join(row) for row in rows))
    return found


# --- items ----------------------------------------------------------------------------------------

MOST = 600  # commands of a team


def target(item: dict) -> dict[Cell, str]:
    """The block of each cell of a HouseBuild item that is not air."""
    found = {}
    for y, rows in enumerate(item["layers"]):
        for z, row in enumerate(rows):
            named = ((x, item["inventory"][one]) for x, one in enumerate(row))
            found |= {(x, y, z): block for x, block in named if block != AIR}
    return found


def right(target: dict[Cell, str], built: World) -> set[Cell]:
    """The target's cells that hold its block."""
    return {cell for cell, (block, _) in built.cells.items() if target.get(cell) == block}


def rectangles(item: dict) -> list[tuple[Cell, Cell, str]]:
    """(low, high, block) of the target, layer by layer: runs of a row, each merged with the same
    run of the rows behind it."""
    found = []
    for y, rows in enumerate(item["layers"]):
        open_runs: dict[tuple[int, int, str], int] = {}  # (from x, to x, character): its number
        for z, row in enumerate(rows):
            runs = [(m.start(), m.end() - 1, m[1]) for m in re.finditer(r"(.)\1*", row)]
            here = {}
            for run in runs:
                block = item["inventory"][run[2]]
                if block == AIR:
                    continue
                here[run] = open_runs.get(run, len(found))
                low = found[here[run]][0] if run in open_runs else (run[0], y, z)
                found[here[run] : here[run] + 1] = [(low, (run[1], y, z), block)]
            open_runs = here
    return found


def within(rectangle: tuple[Cell, Cell, str]) -> set[Cell]:
    return set(box(*rectangle[:2]))


def written(rectangles: list[tuple[Cell, Cell, str]]) -> str:
    return ", ".join(f"({str((*low, *high))[1:-1]} {block})" for low, high, block in rectangles)


def told(item: dict) -> str:
    """The target for a prompt, a line a layer."""
    found = rectangles(item)
    layered = ([r for r in found if r[0][1] == y] for y in range(len(item["layers"])))
    return "\n".join(f"y={y}: {{{written(rs)}}}" for y, rs in enumerate(layered))


def spec(layers: list[list[str]]) -> dict:
    """The field target_spec of a row."""
    named = [{"y": y, "rows": rows} for y, rows in enumerate(layers)]
    return {"type": "y_layers", "size": [WIDE, HIGH, DEEP], "layers": named}


def checked(row: dict) -> dict:
    """The item of a row of the published form, without spiders; ValueError names the bad field."""
    inventory, plan = row.get("inventory"), row.get("target_spec")
    if not isinstance(inventory, dict) or not inventory:
        raise ValueError("field 'inventory' has to name the block of each character: {\"C\": ...}")
    for one, block in inventory.items():
        if len(one) != 1 or not isinstance(block, str) or len(block.split()) != 1:
            raise ValueError(f"field 'inventory' has {one!r:.20}: {block!r:.40}, no block")
    if not isinstance(plan, dict) or plan.get("type") != "y_layers":
        raise ValueError("field 'target_spec' has to be of the type 'y_layers'")
    size = plan.get("size")
    if not isinstance(size, list) or [type(n) for n in size] != [int] * 3 or min(size) < 1:
        raise ValueError(f"field 'target_spec.size' has to be [x, y, z], not {size!r:.40}")
    if max(size) > LARGEST:
        raise ValueError(f"field 'target_spec.size': {size} is larger than {LARGEST} somewhere")
    item = {"inventory": inventory, "layers": _layers(plan, size, inventory)}
    item |= {"low": [0, 0, 0], "high": [n - 1 for n in size]}
    if (box_ := row.get("bbox")) is not None:
        item |= _bounds(box_)
    if not target(item):
        raise ValueError("field 'target_spec.layers' holds nothing but air")
    if not target(item).keys() <= set(box(item["low"], item["high"])):
        raise ValueError("field 'bbox' does not hold the whole target")
    return {"task_id": str(row.get("task_id", "house")), **item}


def _layers(plan: dict, size: list[int], inventory: dict[str, str]) -> list[list[str]]:
    wide, high, deep = size
    named = plan.get("layers")
    if not isinstance(named, list) or not all(isinstance(layer, dict) for layer in named):
        raise ValueError('field \'target_spec.layers\' has to be a list of {"y": ..., "rows": ...}')
    if sorted(str(layer.get("y")) for layer in named) != sorted(map(str, range(high))):
        raise ValueError(f"field 'target_spec.layers' has to hold each y of 0 to {high - 1} once")
    by_y = {int(layer["y"]): layer.get("rows") for layer in named}
    for y, rows in sorted(by_y.items()):
        where = f"field 'target_spec.layers', y {y}:"
        if not isinstance(rows, list) or len(rows) != deep:
            raise ValueError(f"{where} {deep} rows are needed")
        for row in rows:
            if not isinstance(row, str) or len(row) != wide:
                raise ValueError(f"{where} a row is {row!r:.40}, not {wide} characters")
            if stranger := set(row) - inventory.keys():
                raise ValueError(f"{where} {min(stranger)!r} is not in the inventory")
    return [by_y[y] for y in range(high)]


def _bounds(box_) -> dict[str, list[int]]:
    try:
        low, high = list(box_["from"]), list(box_["to"])
        right = [type(n) for n in low + high] == [int] * 6
        right = right and all(0 <= b - a < LARGEST for a, b in zip(low, high, strict=True))
    except (TypeError, KeyError, ValueError):
        right = False
    if not right:
        raise ValueError(f'field \'bbox\' has to be {{"from": [x, y, z], "to": ...}}: {box_!r:.60}')
    return {"low": low, "high": high}


def rules(item: dict, agents: int) -> Rules:
    """What the agents of a HouseBuild item may do: all have all blocks, and of each block material
    for about three quarters of the house, ceil(count / n) + floor(count / 2n)."""
    counts = Counter(target(item).values())
    material = {b: -(-count // agents) + count // (2 * agents) for b, count in counts.items()}
    palette = frozenset(item["inventory"].values()) - {AIR}
    return Rules(
        tuple(item["low"]),
        tuple(item["high"]),
        (palette,) * agents,
        share(MOST, agents),
        frozenset({"fill", "kill"}),
        ({block: material.get(block, 0) for block in palette},) * agents,
    )


def houses(split: str) -> Iterator[tuple[str, list[list[str]]]]:
    """(name, layers) of a split, without end: those of the data set, with their names, and then
    sentences of the grammar, all different. A house belongs to one split."""
    yield from ((name, layers(house)) for name, house in PUBLISHED[split].items())
    seen = {str(layers(house)) for named in PUBLISHED.values() for house in named.values()}
    rng = random.Random(f"housebuild/{split}")
    while True:
        drawn = layers(_draw(rng))
        if (text := str(drawn)) not in seen and split_of(text) == split:
            seen.add(text)
            yield str(len(seen)), drawn


def _draw(rng: random.Random) -> House:
    left, right = rng.choice((0, 0, 1)), rng.choice((WIDE - 1, WIDE - 1, WIDE - 2))
    front, back = rng.choice((0, 1, 1)), rng.choice((DEEP - 1, DEEP - 2, DEEP - 3))
    door = rng.randint(left + 1, right - 2)
    walls = range(front + 1, back)
    return House(
        roof=(rng.choice(list(ALONG_Z)), rng.choice(list(ALONG_X))),
        left=left,
        right=right,
        front=front,
        back=back,
        floor=rng.choice("CBD"),
        wall=rng.choice("CBD"),
        post=rng.choice("OSC"),
        tiles=rng.choice("BDC"),
        edge=rng.choice("SO"),
        door=(door, door + rng.choice((0, 1))),
        sill=rng.choice("DSB"),
        windows=frozenset(rng.sample(walls, rng.randint(0, min(2, len(walls))))),
    )
