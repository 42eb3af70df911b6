"""The building tasks: StrBuild and HouseBuild, the authors' (OpenMLRL/LLM_Collab_Minecraft), and
Build, for the embedded team. StrBuild's and HouseBuild's rules, numbers and what each role is told
are the authors', the wording is ours. docs/building.md has the differences, and what teams learn.
"""

import itertools
import random
from collections import Counter
from collections.abc import Callable, Iterator
from operator import itemgetter
from pathlib import Path
from typing import ClassVar

from examples.building import blocks, houses, letters, rewards
from examples.building.world import ANY, Cell, Rules, World, build, read
from tasks import Task

MOSTLY = 0.9  # share of the correct cells that a division of the work has to fit
Divisions = dict[tuple[str, str], Callable[[Cell], int]]  # (low, high): a number of each cell
X, Y, Z = itemgetter(0), itemgetter(1), itemgetter(2)
DIVISIONS: Divisions = {
    ("left", "right"): X,
    ("below", "above"): Y,
    ("in front", "behind"): Z,
    ("even", "odd"): lambda cell: sum(cell) % 2,  # a checkerboard
}
BUILD = Path(__file__).resolve().parents[2] / "tiny" / "build"
_SYSTEM = """\
You are a building agent in a world of blocks. Answer with commands only, one on each line: no \
markdown, no other text. Everything else is invalid.

"""
_SECOND = "You write after agent 1, and your commands overwrite its: choose a reasonable part.\n"
_AGAIN = "The world is empty again: write everything that should stand, not only what is new."
_STRBUILD = """\
{second}{target}
The world goes from [0, 0, 0] to {high}: x from left to right, y from bottom to top, z always 0.
Your blocks: {blocks}, air
Rules:
- One command on each line, and only /setblock.
- Coordinates are absolute integers, within the world.
{place}- Blocks that share a side must not have the same texture.
The form of a command: /setblock x y z block
"""
_HOUSEBUILD = """\
Your blocks: {blocks}, air

The target, layer by layer, as rectangles from corner to corner (all else is air):
{target}

The world goes from [0, 0, 0] to {high}; y is up.
{spiders}
Rules:
- One command on each line, and only /fill and /kill.
- Coordinates are absolute integers, within the world.
- Only your own blocks.
The form of a command: /fill x1 y1 z1 x2 y2 z2 block

Limits of material, for each agent (air is free):
{limits}"""


class Building(Task):
    """What all building tasks share. rules: of an item and a number of agents. A task's own
    `problems` yields the items of a split."""

    rules: Callable[[dict, int], Rules]
    sizes: ClassVar = {"train": 1000, "dev": 100, "test": 100}
    measures: ClassVar = {"pass@k": "metric/pass"}
    takes_data = False

    def items(self, split: str) -> list[dict]:
        return list(itertools.islice(self.problems(split), self.sizes[split]))

    def built(self, item: dict, responses: list[str]) -> World:
        return build(self.rules(item, len(responses)), responses)

    def scheme(self, item: dict, responses: list[str]) -> str:
        """How the team divided its work: the rule that fits best, if it fits nine in ten of the
        correct cells; of several that fit alike, the first.

        Each division orders the cells by a number; the rule is that one agent has the cells up to
        some number, and the other has the rest. The name says which agent has which side: so a
        convention that holds for all problems is one name, and a division by chance is two.
        """
        world = self.built(item, responses)
        owners = {cell: world.cells[cell][1] for cell in world.correct()}
        if not owners or len(responses) == 1:
            return "one agent" if owners else "nothing stands"
        agent, most = Counter(owners.values()).most_common(1)[0]
        if most >= MOSTLY * len(owners):
            return f"agent {agent} alone"
        fits = {}
        for (low, high), number in self.divisions(item).items():
            numbers = {cell: number(cell) for cell in owners}
            cuts = sorted(set(numbers.values()))[:-1]  # fit: the cells that agree with each cut
            fit = [sum((owners[c] == 0) == (numbers[c] <= cut) for c in owners) for cut in cuts]
            fits[f"agent 0 {low}, 1 {high}"] = max(fit, default=0)
            fits[f"agent 0 {high}, 1 {low}"] = len(owners) - min(fit, default=len(owners))
        best = max(fits, key=fits.get)
        return best if len(responses) == 2 and fits[best] >= MOSTLY * len(owners) else "mixed"

    def divisions(self, item: dict) -> Divisions:
        """The ways to divide the work that have a name."""
        return DIVISIONS

    def draw(self, item: dict, responses: list[str]) -> dict[str, list[list[tuple]]]:
        """(block, agent, whether it is wrong) of each cell, in rows: of a flat world, its highest
        row first; else of each layer, the lowest first. Of no responses, the target."""
        rules = self.rules(item, self.num_agents)
        cells, wrong = {cell: (block, None) for cell, block in rules.target.items()}, set()
        if responses:
            world = self.built(item, responses)
            cells, wrong = world.cells, (rules.target.keys() | world.cells.keys()) - world.correct()
        across, heights, *depths = (range(n + 1) for n in rules.high)
        if any(rules.high[2:]):
            layers = {f"y={y}": [[(x, y, z) for x in across] for z in depths[0]] for y in heights}
        else:
            layers = {"": [[(x, y, *rules.high[2:]) for x in across] for y in reversed(heights)]}
        return {
            title: [[(*cells.get(cell, ("", None)), cell in wrong) for cell in row] for row in rows]
            for title, rows in layers.items()
        }


class Build(Building):
    """A picture of coloured rectangles, for which no agent has enough material alone. All read the
    same prompt, which does not say who builds what. With --turns 2 the world stays as it was built,
    and the next turn asks for what is left, with new material."""

    reward = "build"
    rules = staticmethod(blocks.rules)
    sizes: ClassVar = {"train": 2000, "dev": 100, "test": 100}
    colors: ClassVar = {"red": "#d1495b", "green": "#66a182", "pink": "#f0a6ca", "tan": "#d2b48c"}
    model = str(BUILD)  # the warm start, whatever the number of agents

    def problems(self, split: str) -> Iterator[dict]:
        seen = set()
        for rectangles in blocks.problems(split):
            if (key := str(sorted(rectangles))) not in seen:
                found = {"task_id": f"build/{split}/{len(seen)}", "rectangles": rectangles}
                seen.add(key)
                yield found | {"solution": blocks.listed(rectangles)}

    def check(self, item: dict) -> None:
        """Raises ValueError where the item holds no rectangles on the grid."""
        rectangles = item.get("rectangles") or [[]]
        if not isinstance(rectangles, list):
            rectangles = [rectangles]
        for one in rectangles:
            match one:
                case [int(x1), int(y1), int(x2), int(y2), color] if (
                    0 <= x1 <= x2 < blocks.SIDE > y2 >= y1 >= 0
                ):
                    if color in blocks.COLORS:
                        continue
            form = f"[x1, y1, x2, y2, colour], 0 <= x1 <= x2 < {blocks.SIDE}, y alike, of colours "
            raise ValueError(f"task build: {one} is no {form}{', '.join(blocks.COLORS)}")

    def observe(self, agent: int, item: dict, history: list[tuple[str, str]]) -> str:
        """What is left to build, and how many blocks each agent has; the same for every agent."""
        rectangles, agents = blocks.left(item), self.num_agents
        prompt = f"# a picture to build\n{blocks.listed(rectangles)}\n"
        prompt += history[-1][1] + "\n" if history else ""
        material = blocks.material(rectangles, agents)
        team = f"{agents} agents, {material} blocks each" if agents > 1 else f"{material} blocks"
        return prompt + f"# {team}\n"

    def feedback(self, item: dict, responses: list[str]) -> list[str]:
        right = len(self.built(item, responses).correct())
        return [f"# {right} of {len(blocks.target(item))} cells are right"] * len(responses)

    def advance(self, item: dict, responses: list[str]) -> dict:
        stands = self.built(item, responses).cells
        return item | {"standing": [[*cell, *stands[cell]] for cell in sorted(stands)]}

    def divisions(self, item: dict) -> Divisions:
        rectangles = [blocks.cells(one) for one in item["rectangles"]]
        number = {cell: n for n, one in enumerate(rectangles) for cell in one}
        size = {cell: len(one) for one in rectangles for cell in one}
        color = {cell: blocks.COLORS.index(name) for cell, name in blocks.target(item).items()}
        return {
            ("first", "last"): number.get,
            ("left", "right"): X,
            ("below", "above"): Y,
            ("small", "large"): size.get,
            ("first colours", "last colours"): color.get,
        }


class StrBuild(Building):
    """Strings in a 5 x 5 font, built of blocks of which no two neighbours may look alike. Each
    agent has two blocks of its own. The authors' strings come first, then random ones."""

    name = reward = "strbuild"
    rules = staticmethod(letters.rules)
    modes: ClassVar = ("position_feedback", "score_feedback")  # the first is the default
    most_agents = 2
    shown, apart = True, ", no two of yours side by side"
    colors: ClassVar = {
        "oak_planks": "#d9a760",
        "stone": "#8d8d8d",
        "white_concrete": "#c9d6e2",
        "obsidian": "#3b2a5c",
        ANY: "#5b7fb5",
    }

    def __init__(self, data: str | None = None, num_agents: int = 2, feedback: str | None = None):
        super().__init__(data, num_agents)
        self.mode = feedback or self.modes[0]

    def problems(self, split: str) -> Iterator[dict]:
        for text in letters.strings(split):
            yield {"task_id": f"strbuild/{text}", "rows": letters.picture(text)}

    def observe(self, agent: int, item: dict, history: list[tuple[str, str]]) -> str:
        """The role and the problem, then the agent's commands and feedback of earlier turns."""
        rules = self.rules(item, self.num_agents)
        role = f"You are agent {agent + 1} of a team of two, and place some of the blocks."
        role = "You build alone." if self.num_agents == 1 else role
        prompt = f"{_SYSTEM}{role}\n" + self.problem(agent, item, rules)
        for turn, (response, feedback) in enumerate(history, 1):
            accepted = read(response, rules, agent)
            lines = "\n".join(command.line for command in accepted) or "(none)"
            prompt += f"\nYour commands in turn {turn}:\n{lines}\n\nTurn {turn + 1}. {feedback}\n"
        return prompt + "\nCommands:\n"

    def problem(self, agent: int, item: dict, rules: Rules) -> str:
        target, place, rows = "", "", "\n".join(item["rows"])
        if self.shown:
            target = f"\nThe target, its top row first (# is a target, . is not):\n{rows}\n"
            place = "- Place blocks on # only.\n"
        return _STRBUILD.format(
            second=_SECOND if agent else "",
            target=target,
            place=place,
            blocks=", ".join(letters.PALETTES[agent]),
            high=list(rules.high),
        )

    def feedback(self, item: dict, responses: list[str]) -> list[str]:
        """score_feedback: the turn's reward; position_feedback: all target cells, whatever the team
        has built. The authors have more modes; they train with these two."""
        if self.mode == "score_feedback":
            scorer = getattr(rewards, self.reward, getattr(rewards, self.name))  # a user's: ours
            parts = scorer(item, responses)
            score = sum(part for name, part in parts.items() if not name.startswith("metric/"))
            return [f"Your team's reward was {score:.4f}. {_AGAIN}"] * len(responses)
        rules = self.rules(item, len(responses))
        text = f"The target's cells are {', '.join(map(str, rules.target))}. Choose about half of "
        text += f"them, some {len(rules.target) // 2}{self.apart}. You may write "
        text += f"{rules.max_commands} commands, with "
        return [f"{text}{', '.join(sorted(palette))}." for palette in rules.palettes]


class StrBuildHidden(StrBuild):
    """StrBuild as released (provide_graph: false): an agent knows the world's size and its blocks,
    not the target, until position_feedback lists its cells: --turns 2."""

    shown = False


class HouseBuild(StrBuild):
    """Houses in layers of blocks, of which each agent has material for about three quarters. The
    authors' houses come first, then variants of them. The spiders' attacks are drawn once an item,
    and variants have none to three spiders, so that /kill is not always right."""

    name = reward = "housebuild"
    rules = staticmethod(houses.rules)
    modes: ClassVar = ("score_feedback", "position_feedback")
    apart = ""
    colors: ClassVar = {
        "white_concrete": "#c9d6e2",
        "obsidian": "#3b2a5c",
        "stone_stairs": "#a9a9a9",
        "stone_bricks": "#6f7a80",
        "planks": "#d9a760",
    }

    def problems(self, split: str) -> Iterator[dict]:
        for name, layers in houses.houses(split):
            published = name in houses.PUBLISHED.get(split, {})
            task_id = f"house_builder_{name}" if published else f"housebuild/{split}/{name}"
            rng = random.Random(name)
            count = 3 if published else rng.randint(0, 3)
            rng.seed(task_id)
            item = {"task_id": task_id, "inventory": houses.INVENTORY, "layers": layers}
            yield item | {"spiders": [rng.randint(1, 3) for _ in range(count)]}

    def problem(self, agent: int, item: dict, rules: Rules) -> str:
        attacks, spiders = item["spiders"], "There are no spiders."
        if attacks:
            spiders = f"There are {len(attacks)} spiders, with attacks of {attacks}, "
            spiders += f"{sum(attacks)} in all; you have {rewards.HIT_POINTS} hit points. To kill "
            spiders += "the spiders, write exactly one line: /kill"
        limits = sorted((block, most) for block, most in rules.material.items() if most)
        return _HOUSEBUILD.format(
            blocks=", ".join(sorted(rules.palettes[agent])),
            target=houses.described(item),
            high=list(rules.high),
            spiders=spiders,
            limits="".join(f"{block} {most}\n" for block, most in limits),
        )
