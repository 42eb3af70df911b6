"""Task build, for the embedded team: no agent has enough material to build the target alone."""

from pathlib import Path
from typing import ClassVar

from building import blocks
from building.labour import Divisions, X, Y
from building.tasks import Building

SPLITS = {"train": 2000, "dev": 100, "test": 100}


class Build(Building):
    """A picture of coloured rectangles that a team has to build together, with /fill commands.

    Every agent reads the same prompt, which does not say who builds what: two copies of one policy
    spend their material on the same cells. With --turns 2 the world stays as it was built, and the
    next turn asks for what is left, with new material. The splits share no layout of rectangles.
    """

    reward = "build"
    site = blocks
    colors: ClassVar = {"red": "#d1495b", "green": "#66a182", "pink": "#f0a6ca", "tan": "#d2b48c"}

    @staticmethod
    def model(agents: int) -> str:
        """The warm start, whatever the number of agents."""
        return str(Path(__file__).resolve().parent.parent / "tiny" / "build")

    def items(self, split: str) -> list[dict]:
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
        """Raises ValueError where the item holds no picture of rectangles."""
        blocks.check(item.get("rectangles"))

    def observe(self, agent: int, item: dict, history: list[tuple[str, str]]) -> str:
        """What is left to build, and how many blocks each agent has; the same for every agent."""
        rectangles, agents = blocks.left(item), self.num_agents
        prompt = f"# a picture to build\n{blocks.listed(rectangles)}\n"
        prompt += history[-1][1] + "\n" if history else ""
        material = blocks.material(rectangles, agents)
        team = f"{agents} agents, {material} blocks each" if agents > 1 else f"{material} blocks"
        return prompt + f"# {team}\n"

    def feedback(self, item: dict, responses: list[str]) -> list[str]:
        _, correct = self.built(item, responses)
        told = f"# {len(correct)} of {len(blocks.target(item))} cells are right"
        return [told] * len(responses)

    def advance(self, item: dict, responses: list[str]) -> dict:
        stands = self.built(item, responses)[0].cells
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
