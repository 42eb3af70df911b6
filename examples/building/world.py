"""The world of the building tasks, a dict of cells, and the commands that fill it.

    `/setblock x y z block`           One cell.
    `/fill x1 y1 z1 x2 y2 z2 block`   A box of cells between two corners, given in any order.
    `/kill ...`                       The spiders.

A world may have any number of coordinates. A flat one has two: /fill x1 y1 x2 y2 block.
Responses are read as StrBuild and HouseBuild do it (OpenMLRL/LLM_Collab_Minecraft, MIT licence).

1. If a text has two ``` or more, only the part between the first two is read.
2. Each line may be a command. A list mark before it is dropped. Its slash is optional.
3. A line is ignored at no cost if it is not a command or has a word too many (a mode such as keep).
   It is ignored if a coordinate is not a plain integer (~, ^) or lies outside the world. It is
   ignored if the block is not the agent's, or if the agent's material does not suffice.
4. Lines after the agent's last allowed command are ignored.
5. The first agent's commands are applied first. A later command overwrites an earlier one.

Reading takes time linear in the length of a response. A fill is never larger than the world.
"""

import itertools
import operator
import re
from dataclasses import dataclass

AIR = "air"
ANY = "target"  # in a target: any block, but not that of a cell beside it
_MARK = re.compile(r"^(?:[-*]|[0-9]{1,9}[.)])\s*")
_INTEGER = re.compile(r"-?[0-9]{1,9}")


@dataclass(frozen=True)
class Rules:
    """A problem: the world, its target, and what the agents may do."""

    size: tuple  # cells along each axis, from 0
    palettes: tuple  # each agent's blocks; air is always allowed
    max_commands: int  # accepted from each agent
    target: dict  # cell -> block, without air
    commands: set
    # Each agent's material: block -> cells. "" limits all blocks together. {}: no limit.
    material: dict
    standing: dict  # the cells of the World before the first command


@dataclass(frozen=True)
class Command:
    """An accepted line: puts `block` into the cells. /kill puts "" into none."""

    line: str
    block: str
    cells: tuple = ()


@dataclass
class World:
    """The cells that hold a block, and the commands that put them there."""

    rules: Rules
    commands: list  # the accepted Commands of each agent
    cells: dict  # cell -> (block, agent that put it)

    def block(self, cell):
        return self.cells.get(cell, (AIR,))[0]

    def correct(self):
        """Return the cells of the target that hold the right block."""
        correct = set()
        for cell, wanted in self.rules.target.items():
            block = self.block(cell)
            alone = wanted == ANY and block not in (AIR, *map(self.block, beside(cell)))
            if block == wanted or alone:
                correct.add(cell)
        return correct

    def without(self, agent):
        """Return the world that the agent's partners build alone."""
        commands = list(self.commands)
        commands[agent] = []
        return carry_out(self.rules, commands)

    def kills(self):
        """Return how many agents wrote /kill."""
        blocks = [{command.block for command in commands} for commands in self.commands]
        return sum("" in used for used in blocks)


def box(low, high):
    """Return all cells between two corners, both included."""
    return itertools.product(*(range(a, b + 1) for a, b in zip(low, high, strict=True)))


def beside(cell):
    """Return the cells that share a side with this one, along x and y."""
    x, y, *z = cell
    return [(x - 1, y, *z), (x + 1, y, *z), (x, y - 1, *z), (x, y + 1, *z)]


def build(rules, responses):
    """Return the world that the agents' responses build."""
    commands = [read(text, rules, agent) for agent, text in enumerate(responses)]
    return carry_out(rules, commands)


def carry_out(rules, commands):
    """Return the world after each agent's accepted commands."""
    cells = dict(rules.standing)
    for agent, accepted in enumerate(commands):
        for command in accepted:
            cells |= dict.fromkeys(command.cells, (command.block, agent))
    return World(rules, commands, {cell: put for cell, put in cells.items() if put[0] != AIR})


def read(text, rules, agent):
    """Return the accepted commands of an agent's response."""
    accepted = []
    left = dict(rules.material)
    for line in lines(text):
        if len(accepted) == rules.max_commands:
            break
        command = parse(line, rules, agent)
        if not command:
            continue
        cost = 0 if command.block == AIR else len(command.cells)
        limits = [name for name in (command.block, "") if name in left]
        if all(left[name] >= cost for name in limits):
            left |= {name: left[name] - cost for name in limits}
            accepted.append(command)
    return accepted


def lines(text):
    """Return the lines that may be commands, without fences and list marks."""
    parts = text.split("```", 2)
    if len(parts) == 3:
        text = parts[1]
    return filter(None, (_MARK.sub("", line.strip()) for line in text.split("\n")))


def parse(line, rules, agent):
    """Return the command of a line, None if this agent may not give it."""
    word, *words = line.split()
    name = word.removeprefix("/").lower()
    if name not in rules.commands:
        return None
    if name == "kill":
        return Command(line, "")
    axes = len(rules.size)
    corners = 1 if name == "setblock" else 2
    if len(words) != corners * axes + 1 or not all(map(_INTEGER.fullmatch, words[:-1])):
        return None
    block = words.pop().removeprefix("minecraft:")
    numbers = list(map(int, words))
    low = tuple(map(min, numbers[:axes], numbers[-axes:]))
    high = tuple(map(max, numbers[:axes], numbers[-axes:]))
    inside = min(low) >= 0 and all(map(operator.lt, high, rules.size))
    if not inside or block not in (AIR, *rules.palettes[agent]):
        return None
    return Command(line, block, tuple(box(low, high)))
