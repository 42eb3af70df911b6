"""StrBuild and HouseBuild: the authors' building tasks (OpenMLRL/LLM_Collab_Minecraft).

Two agents write commands for one world of blocks, at the same time, and neither sees the other's.
No Minecraft is run: a world is a dictionary of cells (world.py). Every turn starts with an empty
world. The rules, the numbers and what each role is told are the authors', the wording is ours.
"""

import itertools
import random
from collections.abc import Iterator
from typing import ClassVar

from building import houses, labour, letters, paper, rewards
from building.world import Cell, Rules, World, build, read
from tasks import Task

SPLITS = {"train": 1000, "dev": 100, "test": 100}
_SYSTEM = """\
You are a building agent in a world of blocks. Answer with commands only, one on each line: no \
markdown, no other text. Everything else is invalid.

"""
_SECOND = """\
You write after agent 1, and your commands overwrite its: choose a reasonable part.
"""
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
_AGAIN = "The world is empty again: write everything that should stand, not only what is new."


class Building(Task):
    """What all building tasks share. site: the module with a task's rules, target and correct
    cells; colors: block -> "#rrggbb", for pictures."""

    measures: ClassVar = {"pass@k": "metric/pass"}
    takes_data = False

    def built(self, item: dict, responses: list[str]) -> tuple[World, set[Cell]]:
        """The team's world, and the target's cells that are right in it."""
        world = build(self.site.rules(item, len(responses)), responses)
        return world, self.site.correct(self.site.target(item), world)

    def scheme(self, item: dict, responses: list[str]) -> str:
        """How the team divided its work, as labour.scheme names it."""
        world, correct = self.built(item, responses)
        owners = {cell: world.cells[cell][1] for cell in correct}
        return labour.scheme(owners, len(responses), self.divisions(item))

    def divisions(self, item: dict) -> labour.Divisions:
        """The ways to divide the work that have a name."""
        return labour.DIVISIONS

    def draw(self, item: dict, responses: list[str]) -> dict[str, list[list[tuple]]]:
        """(block, agent, whether it is wrong) of each cell; of no responses, the target."""
        target, wrong = self.site.target(item), set()
        cells = {cell: (block, None) for cell, block in target.items()}
        if responses:
            world, correct = self.built(item, responses)
            cells = world.cells
            wrong = (target.keys() | cells.keys()) - correct
        return {
            title: [[(*cells.get(cell, ("", None)), cell in wrong) for cell in row] for row in rows]
            for title, rows in self.grids(item).items()
        }

    def grids(self, item: dict) -> dict[str, list[list[Cell]]]:
        """The cells of a picture by title, in rows: of a flat world, its highest row first; else of
        each layer, the lowest first."""
        rules = self.site.rules(item, self.num_agents)
        across, heights, *depths = (range(n + 1) for n in rules.high)
        if not any(rules.high[2:]):
            flat = rules.high[2:]
            return {"": [[(x, y, *flat) for x in across] for y in reversed(heights)]}
        return {f"y={y}": [[(x, y, z) for x in across] for z in depths[0]] for y in heights}


class StrBuild(Building):
    """Strings in a 5 x 5 font, built of blocks of which no two neighbours may look alike.

    Each agent has two blocks of its own. train and test begin with the rows of the authors' data
    set that they train and evaluate on; all others are random strings of one to four letters. No
    string is in two splits.

    The released configuration hides the target in the first turn (provide_graph: false), so that
    nobody can know what to build until position_feedback lists the cells. Here it is shown; the
    released form is --task building.tasks.StrBuildHidden --turns 2.
    """

    name = reward = "strbuild"
    site = letters
    scorers: ClassVar = {"strbuild": rewards.strbuild, "strbuild_paper": paper.strbuild_paper}
    modes: ClassVar = ("position_feedback", "score_feedback")  # the first is the default
    most_agents = 2
    shown, apart = True, ", no two of yours side by side"
    colors: ClassVar = {
        "oak_planks": "#d9a760",
        "stone": "#8d8d8d",
        "white_concrete": "#c9d6e2",
        "obsidian": "#3b2a5c",
        letters.TARGET: "#5b7fb5",
    }

    def __init__(self, data: str | None = None, num_agents: int = 2, feedback: str | None = None):
        super().__init__(data, num_agents)
        self.mode = feedback or self.modes[0]

    # -- problems

    def items(self, split: str) -> list[dict]:
        return list(itertools.islice(self.problems(split), SPLITS[split]))

    def problems(self, split: str) -> Iterator[dict]:
        for text in letters.strings(split):
            yield {"task_id": f"strbuild/{text}", "rows": letters.picture(text)}

    # -- what an agent is told

    def observe(self, agent: int, item: dict, history: list[tuple[str, str]]) -> str:
        """The role and the problem, then the agent's commands and feedback of earlier turns."""
        rules = self.site.rules(item, self.num_agents)
        prompt = _SYSTEM + self.role(agent) + self.problem(agent, item, rules)
        for turn, (response, feedback) in enumerate(history, 1):
            accepted = read(response, rules, agent)
            lines = "\n".join(command.line for command in accepted) or "(none)"
            prompt += f"\nYour commands in turn {turn}:\n{lines}\n\nTurn {turn + 1}. {feedback}\n"
        return prompt + "\nCommands:\n"

    def role(self, agent: int) -> str:
        if self.num_agents == 1:
            return "You build alone.\n"
        return f"You are agent {agent + 1} of a team of two, and place some of the blocks.\n"

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
            scorer = self.scorers.get(self.reward, self.scorers[self.name])
            parts = scorer(item, responses)
            score = sum(part for name, part in parts.items() if not name.startswith("metric/"))
            return [f"Your team's reward was {score:.4f}. {_AGAIN}"] * len(responses)
        rules, target = self.site.rules(item, len(responses)), list(self.site.target(item))
        text = f"The target's cells are {', '.join(map(str, target))}. Choose about half of them, "
        text += f"some {len(target) // 2}{self.apart}. You may write "
        return [
            f"{text}{limit} commands, with {', '.join(sorted(palette))}."
            for limit, palette in zip(rules.max_commands, rules.palettes, strict=True)
        ]


class StrBuildHidden(StrBuild):
    """StrBuild as released: an agent knows the world's size and its blocks, not the target."""

    shown = False


class HouseBuild(StrBuild):
    """Houses in layers of blocks, of which each agent has material for about three quarters.

    train and test begin with the rows of the authors' data set that they train and evaluate on; all
    others are variants of these houses (houses.py). No house is in two splits.

    Spiders: three, whose attacks are drawn from 1 to 3. The authors draw them once a run, here they
    are drawn once an item, and variants have none to three spiders, so that /kill is not always
    right.
    """

    name = reward = "housebuild"
    site = houses
    scorers: ClassVar = {
        "housebuild": rewards.housebuild,
        "housebuild_paper": paper.housebuild_paper,
    }
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
            spiders += f"{sum(attacks)} in all; you have {paper.HIT_POINTS} hit points. To kill "
            spiders += "the spiders, write exactly one line: /kill"
        limits = sorted((block, most) for block, most in rules.material.items() if most)
        return _HOUSEBUILD.format(
            blocks=", ".join(sorted(rules.palettes[agent])),
            target=houses.described(item),
            high=list(rules.high),
            spiders=spiders,
            limits="".join(f"{block} {most}\n" for block, most in limits),
        )
