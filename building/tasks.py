"""StrBuild and HouseBuild: the authors' building tasks (OpenMLRL/LLM_Collab_Minecraft).

Two agents write commands for one world of blocks, at the same time, and neither sees the other's.
No Minecraft is run: a world is a dictionary of cells (world.py). Every turn starts with an empty
world. The rules, the numbers and what each role is told are the authors', the wording is ours.
"""

import functools
import itertools
import random
from collections import Counter
from typing import ClassVar

from building import houses, labour, letters, paper, rewards
from building.feedback import MODES
from building.world import build, read
from data.rows import file_rows

SPLITS = {"train": 1000, "dev": 100, "test": 100}
_SYSTEM = """\
You are a building agent in a world of blocks. Answer with commands only, one on each line: no \
markdown, no other text. Everything else is invalid.

"""


class StrBuild:
    """Strings in a 5 x 5 font, built of blocks of which no two that touch may look alike.

    Each agent has two blocks of its own. train and test begin with the rows of the authors' data
    set that they train and evaluate on; all others are random strings of one to four letters. No
    string is in two splits. --data: rows with `string`, and perhaps `difficulty`.

    The released configuration hides the target in the first turn (provide_graph: false), so that
    nobody can know what to build until position_feedback lists the cells; here it is shown. The
    other way: --task building.tasks.StrBuildHidden --turns 2.
    """

    name = reward = "strbuild"
    site, scorers = letters, (rewards.strbuild, paper.strbuild_paper)
    modes: ClassVar = ("position_feedback", "score_feedback", "perfect_feedback")  # first: default
    shown = True
    colors: ClassVar = {
        "oak_planks": "#d9a760",
        "stone": "#8d8d8d",
        "white_concrete": "#c9d6e2",
        "obsidian": "#3b2a5c",
        letters.TARGET: "#5b7fb5",
    }

    def __init__(self, data: str | None = None, num_agents: int = 2, feedback: str | None = None):
        if num_agents not in (1, 2):
            raise ValueError(f"task {self.name} is for 1 or 2 agents, not {num_agents}")
        feedback = feedback or self.modes[0]
        if feedback not in self.modes:
            told = f"task {self.name} has no feedback {feedback!r}: {', '.join(self.modes)}"
            raise ValueError(told)
        self.data, self.num_agents, self.mode = data, num_agents, feedback

    # -- problems

    def items(self, split: str) -> list[dict]:
        if split not in SPLITS:
            raise ValueError(f"task {self.name} has no split {split!r}: {', '.join(SPLITS)}")
        return self.local[split] if self.data else self.made(split, SPLITS[split])

    def made(self, split: str, count: int) -> list[dict]:
        rows = itertools.islice(letters.strings(split), count)
        return [self.item({"string": text, "difficulty": level}) for text, level in rows]

    def published(self) -> list[dict]:
        """The rows of the authors' data set, train's before test's."""
        counts = {split: len(rows) for split, rows in self.site.PUBLISHED.items()}
        return [item for split, count in counts.items() for item in self.made(split, count)]

    @functools.cached_property
    def local(self) -> dict[str, list[dict]]:
        """The rows of --data: the last fifth is test, the fifth before it dev, the rest train."""
        items = []
        for number, row in file_rows(self.data):
            try:
                items.append(self.item(row))
            except ValueError as error:
                raise ValueError(f"{self.data}, row {number}: {error}") from error
        if len(items) < 3:
            raise ValueError(f"{self.data} holds {len(items)} rows: train, dev, test need 3")
        fifth = max(len(items) // 5, 1)
        parts = (items[: -2 * fifth], items[-2 * fifth : -fifth], items[-fifth:])
        return dict(zip(SPLITS, parts, strict=True))

    def item(self, row: dict) -> dict:
        """An item of a row; ValueError names the field that is wrong."""
        text = row.get("string")
        if not isinstance(text, str) or not text.strip():
            raise ValueError(f"field 'string' has to be a text, not {text!r:.40}")
        if not letters.cells(rows := letters.picture(text.strip())):
            raise ValueError(f"field 'string' has no letter of A to Z: {text!r:.40}")
        return {"task_id": f"strbuild/{text.strip()}", "rows": rows}

    # -- what an agent is told

    def observe(self, agent: int, item: dict, history: list[tuple[str, str]]) -> str:
        """The problem and the role, then what the agent wrote and was told in earlier turns."""
        rules = self.site.rules(item, self.num_agents)
        prompt = _SYSTEM + self.role(agent) + self.problem(agent, item, rules)
        for turn, (response, told) in enumerate(history, 1):
            accepted = read(response, rules, agent, Counter())
            lines = "\n".join(command.line for command in accepted) or "(none)"
            prompt += f"\nYour commands in turn {turn}:\n{lines}\n\nTurn {turn + 1}. {told}\n"
        return prompt + "\nCommands:\n"

    def role(self, agent: int) -> str:
        if self.num_agents == 1:
            return "You build alone.\n"
        return f"You are agent {agent + 1} of a team of two, and place some of the blocks.\n"

    def problem(self, agent: int, item: dict, rules) -> str:
        text, last = "", agent == self.num_agents - 1 > 0
        if last:
            text += "You write after agent 1, and your commands overwrite its: choose a reasonable "
            text += "part.\n"
        if self.shown:
            rows = "\n".join(item["rows"])
            text += f"\nThe target, its top row first (# is a target, . is not):\n{rows}\n"
        text += f"\nThe world goes from {list(rules.low)} to {list(rules.high)}: x from left to "
        text += "right, y from bottom to top, z always 0.\n"
        text += f"Your blocks: {', '.join(letters.PALETTES[agent])}, air\n"
        text += "Rules:\n- One command on each line, and only /setblock.\n"
        text += "- Coordinates are absolute integers, within the world.\n"
        if self.shown:
            text += "- Place blocks on # only.\n"
        text += "- Blocks that share a side must not have the same texture.\n"
        return text + "The form of a command: /setblock x y z block\n"

    def feedback(self, item: dict, responses: list[str]) -> list[str]:
        strict, published = self.scorers
        parts = (published if self.reward == published.__name__ else strict)(item, responses)
        score = sum(part for name, part in parts.items() if not name.startswith("metric/"))
        rules = self.site.rules(item, len(responses))
        return MODES[self.mode](item, rules, build(rules, responses), score)

    # -- what came of it

    def scheme(self, item: dict, responses: list[str]) -> str:
        built = build(self.site.rules(item, len(responses)), responses)
        right = self.site.right(self.site.target(item), built)
        owners = {cell: built.cells[cell][1] for cell in right}
        return labour.scheme(owners, len(responses), *self.divisions(item))

    def divisions(self, item: dict) -> tuple[dict, dict]:
        x, y = (lambda cell: cell[0]), (lambda cell: cell[1])
        halves = {("left", "right"): x, ("below", "above"): y}
        return halves, {"checkered": lambda c: sum(c) % 2, "by rows": y, "by columns": x}

    def draw(self, item: dict, responses: list[str]) -> dict[str, list[list[tuple]]]:
        width, height = len(item["rows"][0]), len(item["rows"])
        rows = [[(x, y, 0) for x in range(width)] for y in reversed(range(height))]
        return {"": self.painted(item, responses, rows)}

    def painted(self, item: dict, responses: list[str], rows: list) -> list[list[tuple]]:
        """(block, agent, is it wrong?) of each cell; of no responses, the target."""
        target = self.site.target(item)
        if not responses:
            return [[(target.get(cell, ""), None, False) for cell in row] for row in rows]
        built = build(self.site.rules(item, len(responses)), responses)
        right, concerned = self.site.right(target, built), target.keys() | built.cells.keys()
        return [
            [(*built.cells.get(c, ("", None)), c in concerned and c not in right) for c in row]
            for row in rows
        ]


class StrBuildHidden(StrBuild):
    """StrBuild as released: an agent knows the world's size and its blocks, not the target."""

    shown = False


class HouseBuild(StrBuild):
    """Houses in layers of blocks, of which each agent has material for about three quarters.

    train and test begin with the rows of the authors' data set that they train and evaluate on; all
    others are of a grammar. No house is in two splits. --data: rows as theirs, with `inventory`,
    `target_spec` and perhaps `task_id` and `bbox`.

    Spiders: three, whose attacks are drawn from 1 to 3; the authors draw them once a run, here it
    is once an item, and the houses of the grammar have none to three of them, so that /kill is not
    always right.
    """

    name = reward = "housebuild"
    site, scorers = houses, (rewards.housebuild, paper.housebuild_paper)
    modes: ClassVar = ("score_feedback", *(mode for mode in MODES if mode != "score_feedback"))
    colors: ClassVar = {
        "white_concrete": "#c9d6e2",
        "obsidian": "#3b2a5c",
        "stone_stairs": "#a9a9a9",
        "stone_bricks": "#6f7a80",
        "planks": "#d9a760",
    }

    def made(self, split: str, count: int) -> list[dict]:
        named = houses.PUBLISHED[split]
        found = []
        for name, layers in itertools.islice(houses.houses(split), count):
            task_id = f"house_builder_{name}" if name in named else f"housebuild/{split}/{name}"
            row = {"task_id": task_id, "inventory": houses.INVENTORY}
            item = self.item(row | {"target_spec": houses.spec(layers)})
            if name not in named:
                item["spiders"] = item["spiders"][: random.Random(name).randint(0, 3)]
            found.append(item)
        return found

    def item(self, row: dict) -> dict:
        item = houses.checked(row)
        rng = random.Random(item["task_id"])
        return item | {"spiders": [rng.randint(1, 3) for _ in range(3)]}

    def problem(self, agent: int, item: dict, rules) -> str:
        text = f"Your blocks: {', '.join(sorted(rules.palettes[agent]))}, air\n"
        text += "\nThe target, layer by layer, as rectangles from corner to corner (all else is "
        text += f"air):\n{houses.told(item)}\n"
        text += f"\nThe world goes from {list(rules.low)} to {list(rules.high)}; y is up.\n"
        attacks = item["spiders"]
        if attacks:
            text += f"There are {len(attacks)} spiders, with attacks of {attacks}, "
            text += f"{sum(attacks)} in all; you have {paper.HIT_POINTS} hit points. To kill the "
            text += "spiders, write exactly one line: /kill\n"
        else:
            text += "There are no spiders.\n"
        text += "Rules:\n- One command on each line, and only /fill and /kill.\n"
        text += "- Coordinates are absolute integers, within the world.\n- Only your own blocks.\n"
        text += "The form of a command: /fill x1 y1 z1 x2 y2 z2 block\n\n"
        text += "Limits of material, for each agent (air is free):\n"
        limits = rules.material[agent].items()
        return text + "".join(f"{block} {most}\n" for block, most in sorted(limits) if most)

    def divisions(self, item: dict) -> tuple[dict, dict]:
        x, y, z = ((lambda cell, axis=axis: cell[axis]) for axis in range(3))
        number = {c: n for n, r in enumerate(houses.rectangles(item)) for c in houses.within(r)}
        kinds = {block: n for n, block in enumerate(self.colors)}
        block = houses.target(item)
        halves = {
            ("below", "above"): y,
            ("left", "right"): x,
            ("in front", "behind"): z,
            ("first blocks", "last blocks"): lambda c: kinds.get(block[c], 0),
            ("first rectangles", "last rectangles"): number.get,
        }
        groups = {"rectangles in turn": lambda c: number[c] % 2, "by layers": y}
        return halves, groups | {"by blocks": block.get, "by columns": x, "by depth": z}

    def draw(self, item: dict, responses: list[str]) -> dict[str, list[list[tuple]]]:
        (x0, y0, z0), (x1, y1, z1) = item["low"], item["high"]
        layers = {
            f"y={y}": [[(x, y, z) for x in range(x0, x1 + 1)] for z in range(z0, z1 + 1)]
            for y in range(y0, y1 + 1)
        }
        return {name: self.painted(item, responses, rows) for name, rows in layers.items()}
