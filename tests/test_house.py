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
import sys
from pathlib import Path

import pytest
from helpers import ROOT, output_of, read_json
from test_train import assert_same_run

# Each may import those after it, and nothing imports what stands before it.
# Only scripts and examples import a script.
ROOMS = [
    "examples",
    "eval",
    "train",
    "evaluation",
    "training",
    "magrpo",
    "fast",
    "policies",
    "concurrency",
]
DELETABLE = ("examples", "fast", "bench")  # in tests/, too
TABLES = {"tasks", "rewards"}  # which name the examples in strings, and import none
SUBJECTS = {"programs", "writing", "tiny", "sandbox"}  # what tasks and rewards stand on


def modules() -> dict[str, Path]:
    """The product's modules by dotted name: the root's and those of its rooms."""
    files = [*ROOT.glob("*.py"), *itertools.chain(*((ROOT / r).rglob("*.py") for r in rooms()))]
    return {module_name(path.relative_to(ROOT)): path for path in files}


def rooms() -> set[str]:
    return {*ROOMS, *SUBJECTS} - {path.stem for path in ROOT.glob("*.py")}


def module_name(path: Path) -> str:
    return ".".join(path.with_suffix("").parts).removesuffix(".__init__")


def imported(source: str, known: set[str]) -> set[str]:
    """Which of the known modules a source imports, at its top or within a function."""
    names = set()
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            node.body = []  # names for annotations, which no run imports
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        if isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return names & known


def allowed(room: str) -> set[str]:
    if room == "examples":
        return {*ROOMS, *TABLES, *SUBJECTS}
    if room in ROOMS:
        names = TABLES if ROOMS.index(room) < ROOMS.index("magrpo") else set()
        if room == "evaluation":
            names = {*names, "programs"}  # which --recombine puts together
        if room == "training":
            names = {*names, "sandbox"}  # which counts the cores
        return {*ROOMS[ROOMS.index(room) + 1 :], *names}
    return {*SUBJECTS, "tasks"}  # the tables and the subjects


def test_the_root_holds_five_modules():
    root = {path.stem for path in ROOT.glob("*.py")}
    assert root == {"eval", "magrpo", "rewards", "tasks", "train"}


def test_imports_run_one_way():
    files = modules()
    assert len(files) > 30
    graph = {}
    for name, path in files.items():
        graph[name] = imported(path.read_text(), files.keys() - {name})
    graphlib.TopologicalSorter(graph).prepare()  # raises CycleError, with the cycle
    for name, others in graph.items():
        room = name.partition(".")[0]
        other_rooms = {other.partition(".")[0] for other in others}
        assert other_rooms <= {room, *allowed(room)}, name


@pytest.fixture(scope="module")
def core(tmp_path_factory) -> Path:
    """A copy without what can be deleted, and without the tests of that."""
    copy = tmp_path_factory.mktemp("core") / "copy"
    left_behind = shutil.ignore_patterns(".*", "runs", "__pycache__", *DELETABLE)
    shutil.copytree(ROOT, copy, ignore=left_behind)
    return copy


def in_copy(core: Path, *command: str, cwd: Path | None = None, warn: str = "1"):
    """Run Python there. warn: where a file has the locale's encoding; "" is off."""
    alone = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(core)}
    warned = {"PYTHONWARNDEFAULTENCODING": warn}
    done = output_of([sys.executable, *command], cwd=cwd or core, env=alone | warned)
    assert not re.findall(rf"{core.parent}.*EncodingWarning", done.stderr)


def test_without_what_can_be_deleted_a_team_trains_and_its_run_travels(core, tmp_path):
    """The project is moved, and a run out of it. Elsewhere the run goes on to the end of one that
    never moved, is evaluated, and plays with it."""
    small = "--batch-size 2 --num-generations 2 --max-new-tokens 12 --eval-limit 1 --save-every 1"
    small += " --lr-schedule constant --optimism 0 --max-steps"
    first = tmp_path / "first"
    second = tmp_path / "second"
    shutil.copytree(core, first)
    runs = [[*small.split(), steps, "--run", steps] for steps in "24"]
    in_copy(first, "-c", f"import train; [train.main(flags) for flags in {runs}]")
    first.rename(second)
    shutil.move(second / "runs/2", tmp_path / "moved")
    code = "import train, eval; train.main('--resume moved --max-steps 4'.split())\n"
    for argv in ("--run moved --method trained", "--crossplay moved second/runs/4"):
        code += f"eval.main('{argv} --limit 1 --greedy'.split())\n"
    in_copy(second, "-c", code, cwd=tmp_path)
    assert_same_run(tmp_path / "moved", second / "runs/4")
    record = read_json(second / "runs/4/args.json")  # of the code, what was executed
    assert {"magrpo.py", "policies/team.py", "sandbox/worker.py"} < record["files"].keys()
    assert not [file for file in record["files"] if file.startswith(("/", "eval", "fast"))]


@pytest.mark.slow
def test_without_what_can_be_deleted_the_tests_pass(core):
    """All but those of the documents, which name examples."""
    documents = [f"--ignore=tests/test_{name}.py" for name in ("readme", "notebook")]
    argv = ["-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *documents]
    in_copy(core, *argv, warn="")  # of peft's files, a test that reads all warnings would get more
