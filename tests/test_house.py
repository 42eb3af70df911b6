"""The house: what stands where, which way imports run, what can be deleted. python -m pytest
tests/test_house.py

Reads the imports of every module, those inside functions too, and draws an arrow from room to room.
"""

import ast
import graphlib
import itertools
import os
import re
import shutil
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
    root = {path.stem for path in ROOT.glob("*.py")}
    assert root == {"eval", "magrpo", "rewards", "tasks", "train"}


def test_imports_run_one_way():
    graph = arrows()
    assert len(graph) > 30
    graphlib.TopologicalSorter(graph).prepare()  # raises CycleError, with the cycle
    for room, others in by_room(graph).items():
        assert others <= allowed(room), f"{room} imports {sorted(others - allowed(room))}"


def test_files_and_functions_are_short():
    """Tests and the notebook aside: 350 lines a file, but for the algorithm, 60 a function."""
    others = [path for room in ("bench", "tiny", "examples") for path in (ROOT / room).glob("*.py")]
    for path in [*modules().values(), *others]:
        name, source = path.name, path.read_text()
        assert name == "magrpo.py" or source.count("\n") <= 350, name
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.FunctionDef):
                assert node.end_lineno - node.lineno < 60, (name, node.name)


LEFT_BEHIND = shutil.ignore_patterns(".*", "runs", "__pycache__", "docs", *SUBJECTS, DATA)


@pytest.fixture(scope="module")
def core(tmp_path_factory) -> Path:
    """A copy without the subjects, what imports them (tests and examples of theirs, the makers of
    the models in tiny/), and their lines in the tables of names."""
    copy = tmp_path_factory.mktemp("core") / "copy"
    shutil.copytree(ROOT, copy, ignore=LEFT_BEHIND)
    places = [
        path.relative_to(ROOT) for path in ROOT.rglob("[a-z]*.py") if ".venv" not in str(path)
    ]
    known = {module_name(place).removeprefix("tests.") for place in places}
    lost = {name for name in known if name.partition(".")[0] in {*SUBJECTS, DATA}}
    left = {path: imported(top(path), known) for path in copy.rglob("*.py")}
    while gone := [path for path in left if left[path] & lost]:
        for path in gone:
            path.unlink()
            del left[path]
            lost |= {module_name(path.relative_to(copy)).removeprefix("tests.")}
    assert not {name.partition(".")[0] for name in lost} & {*ROOMS, *NAMES}
    for name in NAMES:
        line = rf'    "\w+": "(?:{"|".join(SUBJECTS)})\..*\n'
        (copy / f"{name}.py").write_text(re.sub(line, "", (ROOT / f"{name}.py").read_text()))
    return copy


def top(path: Path) -> str:
    """The imports that a file makes whenever it is imported itself."""
    body = ast.parse(path.read_text()).body
    return "\n".join(ast.unparse(n) for n in body if isinstance(n, ast.Import | ast.ImportFrom))


def in_copy(core: Path, *command: str) -> None:
    alone = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": ""}
    done = subprocess.run(
        [sys.executable, *command], cwd=core, env=alone, capture_output=True, text=True
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]


def test_what_is_left_without_the_subjects_trains_and_evaluates(core):
    small = "--max-steps 2 --batch-size 2 --num-generations 2 --max-new-tokens 12 --eval-limit 1"
    trains = ["--task", "examples/rendezvous.py:Rendezvous", "--run", "x", *small.split()]
    plays = ["--show", "1", "--greedy", "--method", "trained"]
    in_copy(core, "-c", f"import train, eval; train.main({trains}); eval.main({plays})")
    assert len((core / "runs/x/metrics.jsonl").read_text().splitlines()) == 2


# Tests of one agent: without the subjects, no task that is left is for one.
SWITCHES = "test_train.py::test_every_switch_trains_and_writes"
ALONE = [
    f"--deselect=tests/{name}"
    for name in (
        "test_engine.py::test_eval_asks_the_server_too",
        "test_learners.py::test_an_evaluation_and_a_score_know_own_pay",
        f"{SWITCHES}[--num-agents 1 --bits 8]",
        f"{SWITCHES}[--model tiny tiny --bits 4 --joint aligned]",
    )
]


@pytest.mark.slow
def test_what_is_left_without_the_subjects_passes_its_tests(core):
    """But for those of what shows the subjects (README.md, the notebook, the ablations)."""
    assert len(list((core / "tests").glob("test_*.py"))) > 15
    about = [f"--ignore=tests/test_{name}.py" for name in ("readme", "notebook", "ablations")]
    in_copy(core, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *about, *ALONE)
