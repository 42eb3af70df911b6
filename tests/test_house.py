"""The house: what stands where, and which way imports run. python -m pytest tests/test_house.py

Reads the imports of every module, those inside functions too, and draws an arrow from room to room.
"""

import ast
import itertools
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ["eval", "evaluation", "train", "running", "magrpo", "policies"]  # each may import the next
SUBJECTS = {"building", "coding", "writing"}  # each may be deleted
NAMES = {"tasks", "rewards"}  # which name the subjects in strings, and import none
DATA = "data"  # beneath everything that reads rows


def modules() -> dict[str, Path]:
    """The product's modules by dotted name: the root's and those of its rooms."""
    files = [*ROOT.glob("*.py"), *itertools.chain(*((ROOT / r).rglob("*.py") for r in rooms()))]
    return {module_name(path.relative_to(ROOT)): path for path in files}


def rooms() -> set[str]:
    return {*ROOMS, *SUBJECTS, DATA} - {path.stem for path in ROOT.glob("*.py")}


def module_name(path: Path) -> str:
    return ".".join(path.with_suffix("").parts).removesuffix(".__init__")


def imported(source: str, known: set[str]) -> set[str]:
    """Which of the known modules a source imports, at its top or within a function."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found & known


def arrows() -> dict[str, set[str]]:
    files = modules()
    return {name: imported(path.read_text(), files.keys() - {name}) for name, path in files.items()}


def cycle(graph: dict[str, set[str]]) -> list[str]:
    """Some cycle of a graph, [] where there is none."""
    done: set[str] = set()

    def walk(node: str, path: list[str]) -> list[str]:
        if node in path:
            return [*path[path.index(node) :], node]
        if node in done:
            return []
        for after in sorted(graph.get(node, ())):
            if found := walk(after, [*path, node]):
                return found
        done.add(node)
        return []

    return next(filter(None, (walk(node, []) for node in sorted(graph))), [])


def by_room(graph: dict[str, set[str]]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for name, others in graph.items():
        room = name.partition(".")[0]
        found.setdefault(room, set()).update(other.partition(".")[0] for other in others)
    return {room: others - {room} for room, others in found.items()}


def allowed(room: str) -> set[str]:
    if room in ROOMS:
        names = NAMES if ROOMS.index(room) < ROOMS.index("magrpo") else set()
        return {*ROOMS[ROOMS.index(room) + 1 :], *names}
    if room in SUBJECTS:
        return {DATA, "tasks"}
    return set()


def test_the_root_holds_five_modules():
    assert sorted(path.stem for path in ROOT.glob("*.py")) == [
        "eval",
        "magrpo",
        "rewards",
        "tasks",
        "train",
    ]


def test_imports_run_one_way():
    graph = arrows()
    assert len(graph) > 40
    assert cycle(graph) == []
    assert cycle(by_room(graph)) == []
    for room, others in by_room(graph).items():
        assert others <= allowed(room), f"{room} imports {sorted(others - allowed(room))}"


def test_a_planted_cycle_and_an_arrow_that_runs_back_up_are_seen():
    graph = arrows()
    graph["policies.sampling"] = {"policies.decoding"}
    ring = ["policies.attention", "policies.sampling", "policies.decoding", "policies.attention"]
    assert cycle(graph) == ring
    known = {"magrpo", "running.metrics", "data.rows"}
    assert imported("def f():\n    from running import metrics\n", known) == {"running.metrics"}
    assert imported("import os, data.rows", known) == {"data.rows"}
    assert "running" not in allowed("magrpo")
    assert "tasks" not in allowed("magrpo")
    assert "magrpo" not in allowed("coding")


@pytest.mark.parametrize(
    ("module", "absent"),
    [
        ("magrpo", ["building", "coding", "writing", "tasks", "rewards", "running", "data"]),
        ("train", ["torch", "lightning", "transformers", "building", "coding", "writing"]),
        (
            "eval",
            ["torch", "lightning", "transformers", "building", "coding", "writing", "matplotlib"],
        ),
    ],
)
def test_nobody_pays_for_what_they_do_not_use(module, absent):
    code = f"import sys, {module}; print(*sorted({{m.partition('.')[0] for m in sys.modules}}))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert not {*absent} & {*done.stdout.split()}


def test_files_and_functions_are_short():
    """Tests and the notebook aside: 350 lines a file, but for the algorithm, 60 a function."""
    others = [path for room in ("bench", "tiny", "examples") for path in (ROOT / room).glob("*.py")]
    for path in [*modules().values(), *others]:
        name, source = path.name, path.read_text()
        assert name == "magrpo.py" or source.count("\n") <= 350, name
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.FunctionDef):
                assert node.end_lineno - node.lineno < 60, (name, node.name)
