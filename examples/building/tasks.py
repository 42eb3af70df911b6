"""The building tasks. Build is for the embedded team.

    python train.py --task examples.building.tasks.Build
    python train.py @recipes/strbuild.args

StrBuild and HouseBuild have the rules, the numbers and the roles of OpenMLRL/LLM_Collab_Minecraft
in our words. These differ. The ten published rows of each task come first, and rules make the
others. The first turn shows the target of strbuild, which the release hides. /kill costs a tenth of
the reward without an attack, or if both agents write it. Later turns start from an empty world, and
those of Build go on building.
"""

import itertools
import random
from typing import ClassVar

from examples.building import blocks, houses, letters, rewards
from examples.building.world import build, read
from rewards import total
from tasks import Task, observations

_SYSTEM = """\
You are a building agent in a world of blocks. Answer with commands only, one on each line: no \
markdown, no other text. Everything else is invalid.

"""
_SECOND = "You write after agent 1, and your commands overwrite its: choose a reasonable part.\n"
_AGAIN = "The world is empty again: write everything that should stand, not only what is new."
_HALF = "Choose about half of them, some {}, no two of yours side by side. "
_SPIDERS = """\
There are {count} spiders, with attacks of {attacks}, {total} in all; you have {points} hit \
points. To kill the spiders, write exactly one line: /kill"""
_STRBUILD = """\
{second}
The target, its top row first (# is a target, . is not):
{target}

The world goes from [0, 0, 0] to {high}: x from left to right, y from bottom to top, z always 0.
Your blocks: {blocks}, air
Rules:
- One command on each line, and only /setblock.
- Coordinates are absolute integers, within the world.
- Place blocks on # only.
- Blocks that share a side must not have the same texture.
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
    """The building tasks' common part.

    A task has `rules`, from an item and a number of agents, and `problems`, the items of a split.
    """

    sizes: ClassVar = {"train": 1000, "dev": 100, "test": 100}
    measures: ClassVar = {"pass@k": "metric/pass"}

    def items(self, split):
        return list(itertools.islice(self.problems(split), self.sizes[split]))

    def built(self, item, responses):
        return build(self.rules(item, len(responses)), responses)


class Build(Building):
    """A picture of coloured rectangles, for which no agent has enough material alone.

    All agents read the same prompt, which does not say who builds what. With --turns 2 the world
    stays as it was built. The next turn asks for what is left, with new material.
    """

    reward = "examples.building.rewards.build_together"
    rules = staticmethod(blocks.rules)
    sizes: ClassVar = {"train": 2000, "dev": 100, "test": 100}
    # The warm start of any number of agents.
    model = "tiny/build"

    def problems(self, split):
        for number, rectangles in enumerate(blocks.problems(split)):
            yield {
                "task_id": f"build/{split}/{number}",
                "rectangles": rectangles,
                "solution": blocks.listed(rectangles),
            }

    def play(self, item):
        history = []
        while True:
            texts = yield observations(self, item, [history] * self.num_agents)
            yield item, texts
            feedback, *_ = self.feedback(item, texts)
            history = [("", feedback)]
            item = self.after(item, texts)

    def observe(self, agent, item, history):
        """Return the rectangles left to build and the blocks of each agent, the same for all."""
        rectangles = blocks.left(item)
        lines = ["# a picture to build", blocks.listed(rectangles)]
        if history:
            lines.append(history[-1][1])
        material = blocks.material(rectangles, self.num_agents)
        if self.num_agents == 1:
            lines.append(f"# {material} blocks")
        else:
            lines.append(f"# {self.num_agents} agents, {material} blocks each")
        return "\n".join(lines) + "\n"

    def feedback(self, item, responses):
        right = len(self.built(item, responses).correct())
        return [f"# {right} of {len(blocks.target(item))} cells are right"] * len(responses)

    def after(self, item, responses):
        """Return the item with the world as it was built."""
        cells = self.built(item, responses).cells
        return item | {"standing": [[*cell, *cells[cell]] for cell in sorted(cells)]}


class StrBuild(Building):
    """Strings in a 5 x 5 font, built of blocks of which no two neighbours may look alike.

    Each agent has two blocks that the other lacks. The authors' strings come first, then random
    ones.
    """

    reward = "examples.building.rewards.strbuild"
    rules = staticmethod(letters.rules)
    most_agents = 2

    def problems(self, split):
        for text in letters.strings(split):
            yield {"task_id": f"strbuild/{text}", "rows": letters.picture(text)}

    def observe(self, agent, item, history):
        """Return the role and the problem, then the agent's earlier commands and feedback."""
        rules = self.rules(item, self.num_agents)
        role = "You build alone."
        if self.num_agents == 2:
            role = f"You are agent {agent + 1} of a team of two, and place some of the blocks."
        prompt = f"{_SYSTEM}{role}\n{self.problem(agent, item, rules)}"
        for turn, (response, feedback) in enumerate(history, 1):
            commands = [command.line for command in read(response, rules, agent)] or ["(none)"]
            lines = "\n".join(commands)
            prompt += f"\nYour commands in turn {turn}:\n{lines}\n\nTurn {turn + 1}. {feedback}\n"
        return prompt + "\nCommands:\n"

    def problem(self, agent, item, rules):
        return _STRBUILD.format(
            second=_SECOND if agent else "",
            target="\n".join(item["rows"]),
            blocks=", ".join(letters.PALETTES[agent]),
            high=[end - 1 for end in rules.size],
        )

    def feedback(self, item, responses):
        """Return all cells of the target, and what the agent may write."""
        rules = self.rules(item, len(responses))
        text = f"The target's cells are {', '.join(map(str, rules.target))}. "
        if len(responses) == 2:
            text += _HALF.format(len(rules.target) // 2)
        text += f"You may write {rules.max_commands} commands, with "
        return [f"{text}{', '.join(sorted(palette))}." for palette in rules.palettes]


class HouseBuild(StrBuild):
    """Houses in layers of blocks, of which each agent has material for about three quarters.

    The authors' houses come first, then variants. The spiders' attacks are drawn once for each
    item. Variants have none to three spiders, so that /kill is not always right.
    """

    reward = "examples.building.rewards.housebuild"
    rules = staticmethod(houses.rules)

    def problems(self, split):
        for task_id, spiders, layers in houses.houses(split):
            rng = random.Random(task_id)
            yield {
                "task_id": task_id,
                "inventory": houses.INVENTORY,
                "layers": layers,
                "spiders": [rng.randint(1, 3) for _ in range(spiders)],
            }

    def problem(self, agent, item, rules):
        attacks = item["spiders"]
        spiders = "There are no spiders."
        if attacks:
            spiders = _SPIDERS.format(
                count=len(attacks), attacks=attacks, total=sum(attacks), points=rewards.HIT_POINTS
            )
        material = sorted(rules.material.items())
        return _HOUSEBUILD.format(
            blocks=", ".join(sorted(rules.palettes[agent])),
            target=houses.described(item),
            high=[end - 1 for end in rules.size],
            spiders=spiders,
            limits="".join(f"{block} {count}\n" for block, count in material if count),
        )

    def feedback(self, item, responses):
        """Return the turn's reward: the run's, or the strict one for a user's own reward."""
        is_paper = self.reward.endswith("housebuild_paper")
        scorer = rewards.housebuild_paper if is_paper else rewards.housebuild
        score = total(scorer(item, responses), len(responses))
        return [f"Your team's reward was {score:.4f}. {_AGAIN}"] * len(responses)
