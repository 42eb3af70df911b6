"""A world of blocks: a dictionary of cells, and the commands that fill it.

    /setblock x y z block            one cell
    /fill x1 y1 z1 x2 y2 z2 block    a box of cells between two corners, given in any order
    /kill ...                        the spiders

A world may have any number of coordinates; a flat one has two, and /fill x1 y1 x2 y2 block.
Responses are read as StrBuild and HouseBuild do it (OpenMLRL/LLM_Collab_Minecraft, MIT licence):

- If a text has two ``` or more, only what stands between the first two is read.
- Each line may be a command. A list mark before it is dropped; its slash is optional.
- A line is ignored, at no cost, if it is no command, has a word too many (a mode such as keep), a
  coordinate that is no plain integer (~, ^) or lies outside, or a block that is not the agent's.
  So is a fill for which the agent's material does not suffice, and all after its last command.
- The first agent's commands are applied first; a later command overwrites an earlier one.

A response is read in time linear in its length, and no fill is larger than the world.
"""

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

Cell = tuple[int, ...]
AIR = "air"
ANY = "target"  # in a target: a cell for any block, as long as no cell beside it has the same
_MARK = re.compile(r"(?:[-*]|[0-9]{1,9}[.)])\s*")
_INTEGER = re.compile(r"-?[0-9]{1,9}")
_LANGUAGE = re.compile(r"[\w+-]*\s*")  # after the first fence


@dataclass(frozen=True)
class Rules:
    """A problem: the world, what the agents may do in it, and what is to stand there."""

    high: Cell  # the world's last cell; the first has zeros
    palettes: tuple[frozenset[str], ...]  # per agent: its blocks; air is always allowed
    max_commands: int  # of each agent that are accepted
    target: dict[Cell, str] = field(default_factory=dict)  # the block of each cell but air
    commands: frozenset[str] = frozenset({"setblock", "fill", "kill"})
    # each agent's: cells of each block, and of all blocks together under ""; {}: no limit
    material: dict[str, int] = field(default_factory=dict)
    standing: dict[Cell, tuple[str, int]] = field(default_factory=dict)  # before the first command


@dataclass(frozen=True)
class Command:
    """An accepted line: puts `block` into the cells; /kill puts "" into none."""

    line: str
    block: str
    cells: tuple[Cell, ...] = ()


@dataclass
class World:
    """What stands where, and how it came about."""

    rules: Rules
    commands: list[list[Command]]  # by agent: those accepted
    cells: dict[Cell, tuple[str, int]]  # (block, agent that put it)

    def block(self, cell: Cell) -> str:
        return self.cells[cell][0] if cell in self.cells else AIR

    def correct(self) -> set[Cell]:
        """The target's cells that hold what they have to."""
        found = set()
        for cell, wanted in self.rules.target.items():
            block = self.block(cell)
            alone = wanted == ANY and block not in map(self.block, beside(cell))
            if block != AIR and (block == wanted or alone):
                found.add(cell)
        return found

    def kills(self) -> int:
        """How many agents wrote /kill."""
        return sum(any(not command.block for command in mine) for mine in self.commands)


def box(low: Cell, high: Cell) -> Iterator[Cell]:
    """All cells between two corners, both included."""
    return itertools.product(*(range(a, b + 1) for a, b in zip(low, high, strict=True)))


def beside(cell: Cell) -> list[Cell]:
    """The cells that share a side with one, along x and y."""
    x, y, *z = cell
    return [(x - 1, y, *z), (x + 1, y, *z), (x, y - 1, *z), (x, y + 1, *z)]


def build(rules: Rules, responses: list[str]) -> World:
    """The world after the agents' commands."""
    commands = [read(text, rules, agent) for agent, text in enumerate(responses)]
    cells = dict(rules.standing)
    for agent, command in ((agent, c) for agent, mine in enumerate(commands) for c in mine):
        cells |= dict.fromkeys(command.cells, (command.block, agent))
    return World(rules, commands, {c: stands for c, stands in cells.items() if stands[0] != AIR})


def read(text: str, rules: Rules, agent: int) -> list[Command]:
    """The accepted commands of an agent's response."""
    found: list[Command] = []
    left = dict(rules.material)
    for command in filter(None, (parse(line, rules, agent) for line in lines(text))):
        if len(found) == rules.max_commands:
            break
        cost = 0 if command.block == AIR else len(command.cells)
        if all(left.get(kind, cost) >= cost for kind in (command.block, "")):
            left |= {kind: left[kind] - cost for kind in (command.block, "") if kind in left}
            found.append(command)
    return found


def lines(text: str) -> Iterator[str]:
    """The lines that may be commands, without fences and list marks."""
    _, *fenced = text.split("```", 2)
    if len(fenced) == 2:
        first, *rest = fenced[0].split("\n")
        text = "\n".join(rest if _LANGUAGE.fullmatch(first) else [first, *rest])
    for line in map(str.strip, text.split("\n")):
        if line := line[mark.end() :] if (mark := _MARK.match(line)) else line:
            yield line


def parse(line: str, rules: Rules, agent: int) -> Command | None:
    """The command of a line; None if it is none, or not one that this agent may give."""
    word, *rest = line.split()
    name = word.removeprefix("/").lower()
    if name not in rules.commands:
        return None
    if name == "kill":
        return Command(line, "")
    axes, corners = len(rules.high), 1 if name == "setblock" else 2
    if len(rest) != corners * axes + 1 or not all(map(_INTEGER.fullmatch, rest[:-1])):
        return None
    block = rest.pop().removeprefix("minecraft:")
    numbers = list(map(int, rest))
    ends = list(zip(numbers[:axes], numbers[-axes:], strict=True))
    low, high = tuple(map(min, ends)), tuple(map(max, ends))
    inside = all(0 <= a <= b <= c for a, b, c in zip(low, high, rules.high, strict=True))
    own = block == AIR or block in rules.palettes[agent]
    return Command(line, block, tuple(box(low, high))) if inside and own else None
