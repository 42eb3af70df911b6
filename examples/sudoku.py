"""4 x 4 Sudoku for two agents over several turns: one fills in the board, the other corrects it.

    python train.py --task examples/sudoku.py:Sudoku --turns 2 --branching chain --model MODEL
    python train.py --task examples/sudoku.py:Sudoku --turns 4 --task-arg empty=4 --model MODEL
    python train.py --task examples/sudoku.py:Coded --turns 2 --branching chain --model MODEL

The agents answer in turn, each with a whole board. An agent sees the puzzle and the board as it is,
not what its partner wrote beside the board. The episode ends when the puzzle is solved.

A turn earns the share of the empty cells that it puts right, less the share that it makes wrong. If
it solves the puzzle, it earns 1 more. So an episode earns the share that is right at its end,
and 1 more if it is solved. With Coded the first response is a program, which the sandbox runs, and
only the second is paid. Puzzles have one solution. Dev and test have puzzles of their own.
"""

import functools
import operator
import random
import re
from typing import ClassVar

from examples.tools import output

EXAMPLE = {"puzzle": "12.4.4122..34321", "solution": "1234341221434321"}
WRONG = "1214241221434321"  # of the example
COUNT = 650  # puzzles
SPLITS = {"train": slice(0, 500), "dev": slice(500, 550), "test": slice(550, COUNT)}
RULES = (
    "This is a 4 x 4 Sudoku. Each row, each column and each of the four 2 x 2 boxes holds 1, 2, 3 "
    "and 4. A dot is an empty cell.\n\n{puzzle}\n\n"
)
FILL = "Fill in every dot. Answer with the four rows of the solved board, and nothing else."
CORRECT = (
    "A partner has filled it in like this:\n\n{board}\n\nThis board has mistakes. Correct them. "
    "Answer with the four rows of the solved board, and nothing else."
)

# The interpreter's seat: another puzzle, its solver, and what each response of Coded is asked.
LATIN = (
    "This is a 3 x 3 Latin square. Each row and each column holds 1, 2 and 3. A dot is an empty "
    "cell.\n\n1 . 3\n. 3 1\n3 . 2\n\n"
)
SOLVE = (
    "Write a Python function solve(board) that fills in every dot. The board is a text of its "
    "cells, row by row, without spaces. Return the solved board as such a text."
)
BEGIN = "```python\ndef solve(board):\n"
SOLVER = """\
    size = 3
    if "." not in board:
        return board
    cell = board.index(".")
    used = set()
    for other in range(size * size):
        if cell // size == other // size or cell % size == other % size:
            used.add(board[other])
    for digit in map(str, range(1, size + 1)):
        if digit not in used:
            solved = solve(board[:cell] + digit + board[cell + 1 :])
            if solved:
                return solved
```"""
OUTPUT = "A program returned:\n\n{output}\n\n"


@functools.cache
def grids():
    """Return the 288 solved boards, each as its 16 digits row by row."""
    boards = [""]
    for cell in range(16):  # one digit more on every board
        peers = [peer for peer in range(cell) if units(peer) & units(cell)]
        longer = []
        for board in boards:
            used = {board[peer] for peer in peers}
            longer += [board + digit for digit in "1234" if digit not in used]
        boards = longer
    return boards


def units(cell):
    """Return the row, the column and the box of a cell from 0 to 15."""
    row, column = divmod(cell, 4)
    return {("row", row), ("column", column), ("box", row // 2, column // 2)}


def rows(board):
    """Return a board of 16 characters as its four rows."""
    return "\n".join(" ".join(board[start : start + 4]) for start in range(0, 16, 4))


def question(item):
    """Return what an agent is asked: to fill in the puzzle, or to correct a filled board."""
    prompt = RULES.format(puzzle=rows(item["puzzle"]))
    if "board" not in item:
        return prompt + FILL
    return prompt + CORRECT.format(board=rows(item["board"]))


def filled(item, text):
    """Return the board after a response: its digits in the empty cells of the puzzle.

    The board stays as it is where the response is not a whole board.
    """
    cells = re.findall("[1-4.]", text)
    if len(cells) != 16:
        return item.get("board", item["puzzle"])
    given = zip(item["puzzle"], cells, strict=True)
    return "".join(cell if digit == "." else digit for digit, cell in given)


def right(item, board):
    """Return the share of the puzzle's empty cells that are right."""
    empty = item["puzzle"].count(".")
    wrong = sum(map(operator.ne, board, item["solution"]))
    return 1 - wrong / empty


class Sudoku:
    reward = f"{__file__}:improvement"
    field = "puzzle"
    measures: ClassVar = {"solved": "solved"}  # a column of eval.py

    def __init__(self, data=None, num_agents=2, empty: int = 8):
        """empty: the number of empty cells, 1 to 10."""
        if num_agents > 2 or not 1 <= empty <= 10:
            raise ValueError("a 4 x 4 Sudoku is for 1 or 2 agents and has 1 to 10 empty cells")
        self.num_agents = num_agents
        self.empty = empty

    def items(self, split):
        draw = random.Random(self.empty)
        boards = "\n".join(grids())
        items = {}  # by puzzle
        while len(items) < COUNT:
            solution = draw.choice(grids())
            cells = list(solution)
            for cell in draw.sample(range(16), self.empty):
                cells[cell] = "."
            puzzle = "".join(cells)
            if re.findall(puzzle, boards) == [solution]:  # in a pattern, a dot is any digit
                items[puzzle] = {"puzzle": puzzle, "solution": solution}
        return list(items.values())[SPLITS[split]]

    def speakers(self, item, turn):
        return [turn % self.num_agents]

    def observe(self, agent, item, history):
        """Return the messages of a chat: an example with its answer, and the puzzle."""
        example = EXAMPLE | {"board": WRONG} if "board" in item else EXAMPLE
        return [
            {"role": "user", "content": question(example)},
            {"role": "assistant", "content": rows(example["solution"])},
            {"role": "user", "content": question(item)},
        ]

    def advance(self, item, responses):
        board = filled(item, "".join(responses))  # who does not speak says ""
        return None if board == item["solution"] else item | {"board": board}


class Coded(Sudoku):
    """The first response is a program, which the sandbox runs. The second reads its output."""

    reward = f"{__file__}:answered"
    stop = "\n```"

    def begin(self, agent, item):
        return "" if "output" in item else BEGIN

    def observe(self, agent, item, history):
        """Return the messages of a chat: an example with its answer, and the puzzle."""
        if "output" in item:
            example = EXAMPLE | {"output": rows(EXAMPLE["solution"])}
            asked = [RULES + OUTPUT.format(**shown) + FILL for shown in (example, item)]
            reply = rows(EXAMPLE["solution"])
        else:
            asked = [LATIN + SOLVE, RULES + SOLVE]
            reply = BEGIN + SOLVER
        return [
            {"role": "user", "content": asked[0].format(puzzle=rows(EXAMPLE["puzzle"]))},
            {"role": "assistant", "content": reply},
            {"role": "user", "content": asked[1].format(puzzle=rows(item["puzzle"]))},
        ]

    def advance(self, item, responses):
        code = "".join(responses).removeprefix("```python\n")
        board = output(code, "solve", item["puzzle"])
        return item | {"output": rows(board) if len(board) == 16 else board}


def improvement(item, responses):
    """Pay for what a turn adds to the share of right cells, and for a solved board."""
    board = filled(item, "".join(responses))
    share = right(item, board)
    return {
        "cells": share - right(item, item.get("board", item["puzzle"])),
        "solved": float(board == item["solution"]),
        "metric/cells": share,
    }


improvement.maximum = 2.0
improvement.per_episode = True


def answered(item, responses):
    """Pay for the board of the second response."""
    return improvement(item, responses) if "output" in item else {}


answered.maximum = 2.0
answered.per_episode = True
