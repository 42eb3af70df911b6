"""The house: what stands where, which way imports run, what can be deleted. python -m pytest
tests/test_house.py

Reads the imports of every module, those inside functions too, and draws an arrow from room to room.
"""

import ast
import graphlib
import os
import shutil
import sys
import tomllib
from collections import defaultdict

import pytest
from breaks import BREAKS
from helpers import ROOT, output_of
from test_train import assert_same_run

ROOMS = "evaluation examples policies programs tiny training"
# What these import, at most: the algorithm knows no task, and nothing of what makes it faster.
IMPORTS = {
    "magrpo": {"policies"},
    "policies.fast": {"policies"},
    "policies": set(),
    "tasks": {"policies", "programs", "tiny"},  # of policies Mistake alone
    "rewards": {"programs"},
    "programs": {"policies", "programs.sandbox"},
    "programs.sandbox": set(),
}
DELETABLE = ("examples", "policies/fast", "bench")  # in tests/, too


def modules():
    """The product's modules by dotted name: the root's and those of its rooms."""
    files = [*ROOT.glob("*.py")]
    for room in ROOMS.split():
        files += (ROOT / room).rglob("*.py")
    by_name = {}
    for path in files:
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        by_name[name.removesuffix(".__init__")] = path
    return by_name


def room_of(name):
    """The two rooms within a room are rooms of their own."""
    inner = ("policies.fast", "programs.sandbox")
    return next((room for room in inner if name.startswith(room)), name.partition(".")[0])


def imported(source):
    """Which names a source imports, at its top or within a function."""
    names = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        if isinstance(node, ast.ImportFrom):
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return names


def test_imports_run_one_way():
    """Between modules and between rooms. So nothing imports the examples, which import the rest."""
    files = modules()
    assert len(files) > 30
    graph = {}
    rooms = defaultdict(set)
    for name, path in files.items():
        graph[name] = imported(path.read_text()) & files.keys() - {name}
        rooms[room_of(name)] |= {room_of(other) for other in graph[name]} - {room_of(name)}
    for arrows in (graph, rooms):
        graphlib.TopologicalSorter(arrows).prepare()  # raises CycleError, with the cycle
    for room, others in IMPORTS.items():
        assert rooms[room] <= others, room


def test_what_is_installed_is_what_a_program_imports():
    """`make setup` does it, and leaves out tests and bench."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    installed = project["tool"]["setuptools"]
    rooms = [pattern.rstrip("*") for pattern in installed["packages"]["find"]["include"]]
    names = {name.partition(".")[0] for name in modules()}
    assert {*installed["py-modules"], *rooms} == names | {"examples"}  # which can be deleted


def test_a_break_finds_its_text_and_its_test():
    for row in BREAKS:
        tests, _, name = row["test"].partition("::")
        function = f"def {name.partition('[')[0]}("
        for file, text in ((row["file"], row["old"]), (f"tests/{tests}", function)):
            path = ROOT / file
            if path.exists() or not file.removeprefix("tests/").startswith((*DELETABLE, "fast")):
                assert path.read_text().count(text) == 1, (file, text)


@pytest.fixture(scope="module")
def core(tmp_path_factory):
    """A copy without what can be deleted, and without the tests of that."""
    copy = tmp_path_factory.mktemp("core") / "copy"
    shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(".*", "runs", "__pycache__"))
    for folder in (*DELETABLE, "tests/examples", "tests/fast"):
        shutil.rmtree(copy / folder, ignore_errors=True)  # this one may be such a copy
    return copy


def in_copy(core, *command, cwd):
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(core)}
    output_of([sys.executable, *command], cwd=cwd, env=environment)


def test_without_what_can_be_deleted_a_team_trains_and_its_run_travels(core, tmp_path):
    """The project is moved, and a run out of it. Elsewhere the run goes on to the end of one that
    never moved, is evaluated, and plays with it."""
    small = "--batch-size 2 --num-generations 2 --max-new-tokens 12 --eval-limit 1"
    small += " --lr-schedule constant --optimism 0 --max-steps"
    first = tmp_path / "first"
    second = tmp_path / "second"
    shutil.copytree(core, first)
    runs = [[*small.split(), steps, "--run", steps] for steps in "12"]
    in_copy(first, "-c", f"import train; [train.main(flags) for flags in {runs}]", cwd=first)
    first.rename(second)
    shutil.move(second / "runs/1", tmp_path / "moved")
    code = "import train, eval; train.main('--resume moved --max-steps 2'.split())\n"
    code += "eval.main('--run moved --method trained --limit 1 --greedy'.split())\n"
    in_copy(second, "-c", code, cwd=tmp_path)
    assert_same_run(tmp_path / "moved", second / "runs/2")


@pytest.mark.slow
def test_without_what_can_be_deleted_the_tests_pass(core):
    """All but those of the documents, which name examples."""
    documents = [f"--ignore=tests/test_{name}.py" for name in ("readme", "notebook")]
    in_copy(core, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *documents, cwd=core)
