"""Task build: the embedded team's building problems, which no agent has the material for alone."""

from pathlib import Path
from typing import ClassVar

from building import blocks
from building.tasks import StrBuild
from building.world import build

SPLITS = {"train": 2000, "dev": 100, "test": 100}


class Build(StrBuild):
    """A picture of coloured rectangles that a team has to build together, with /fill commands.

    Every agent reads the same prompt: nothing says who builds what, and nothing tells the agents
    apart but what each of them has learned. Two copies of one policy spend their material on the
    same cells. With one agent, it has all the material.

    With --turns 2 the world stays as it was built; the next turn is about what is left of the
    target, and brings new material for it.

    The splits share no layout of rectangles, and nothing depends on a seed.
    """

    name = reward = "build"
    site, modes = blocks, ()
    colors: ClassVar = {"red": "#d1495b", "green": "#66a182", "pink": "#f0a6ca", "tan": "#d2b48c"}

    @staticmethod
    def model(agents: int) -> str:
        """The warm start, whatever the number of agents."""
        return str(Path(__file__).resolve().parent.parent / "tiny" / "build")

    def __init__(self, data: str | None = None, num_agents: int = 2, feedback=None):
        if data is not None or feedback is not None:
            raise ValueError("task build makes its own problems: it takes no --data, no --feedback")
        self.num_agents = num_agents

    def items(self, split: str) -> list[dict]:
        if split not in SPLITS:
            raise ValueError(f"task build has no split {split!r}: {', '.join(SPLITS)}")
        found, seen = [], set()
        for rectangles in blocks.problems(split):
            if len(found) == SPLITS[split]:
                return found
            if (key := str(sorted(rectangles))) not in seen:
                seen.add(key)
                task_id = f"build/{split}/{len(found)}"
                solution = blocks.listed(rectangles)
                found.append({"task_id": task_id, "rectangles": rectangles, "solution": solution})

    def check(self, item: dict) -> None:
        """Raises ValueError where the splits could have no target like the item's."""
        blocks.check(item.get("rectangles"))

    def observe(self, agent: int, item: dict, history: list[tuple[str, str]]) -> str:
        """What is left to build, and with how much; the same for every agent."""
        rectangles, agents = blocks.left(item), self.num_agents
        prompt = f"# a picture to build\n{blocks.listed(rectangles)}\n"
        prompt += history[-1][1] + "\n" if history else ""
        material = blocks.material(rectangles, agents)
        team = f"{agents} agents, {material} blocks each" if agents > 1 else f"{material} blocks"
        return prompt + f"# {team}\n"

    def feedback(self, item: dict, responses: list[str]) -> list[str]:
        target = blocks.target(item)
        right = blocks.right(target, build(blocks.rules(item, len(responses)), responses))
        return [f"# {len(right)} of {len(target)} cells are right"] * len(responses)

    def advance(self, item: dict, responses: list[str]) -> dict:
        stands = build(blocks.rules(item, len(responses)), responses).cells
        return item | {"standing": [[*cell, *stands[cell]] for cell in sorted(stands)]}

    def divisions(self, item: dict) -> tuple[dict, dict]:
        x, y = (lambda cell: cell[0]), (lambda cell: cell[1])
        rectangles, color = [blocks.cells(one) for one in item["rectangles"]], blocks.target(item)
        number = {cell: n for n, one in enumerate(rectangles) for cell in one}
        size = {cell: len(one) for one in rectangles for cell in one}
        halves = {
            ("first", "last"): number.get,
            ("left", "right"): x,
            ("below", "above"): y,
            ("small", "large"): size.get,
            ("first colours", "last colours"): lambda c: blocks.COLORS.index(color[c]),
        }
        return halves, {"by colour": color.get, "rectangles in turn": lambda c: number[c] % 2}

    def draw(self, item: dict, responses: list[str]) -> dict[str, list[list[tuple]]]:
        side = range(blocks.SIDE)
        return {"": self.painted(item, responses, [[(x, y) for x in side] for y in reversed(side)])}
