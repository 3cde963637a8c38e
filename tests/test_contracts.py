"""The contracts of .importlinter cover every package, those of tomorrow too, and do fail."""

from __future__ import annotations

import ast
import configparser
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import cli

ROOT = Path(cli.__file__).resolve().parent
CONTRACTS = configparser.ConfigParser()
CONTRACTS.read(ROOT / ".importlinter")

#: Folders at the top that hold no package of the product.
_OTHER = {"build", "docs", "tests"}
#: Parts of ``models`` that the checker may read, directly and by way of others.
_SHARED = {
    "models.admission",
    "models.buffers",
    "models.catalogue",
    "models.cel",
    "models.documents",
    "models.edits",
    "models.gangs",
    "models.helm",
    "models.kube",
    "models.numa.annotation_yaml",
    "models.numa.annotations",
    "models.numa.container_affinity",
    "models.numa.container_expressions",
    "models.snapshot",
    "models.workloads",
}
#: Packages of the solver that build or solve models.
_MODELLING = {
    "solver.bounds",
    "solver.capacity",
    "solver.cpsat",
    "solver.explain",
    "solver.numa",
    "solver.objective",
    "solver.placed_tiers",
    "solver.rebalance",
    "solver.rollout",
    "solver.rules",
    "solver.runtime",
    "solver.search",
    "solver.soft_tiers",
    "solver.solve",
    "solver.tight_packing",
}


def _listed(contract: str, option: str) -> set[str]:
    """Return the names that a contract lists, layers taken apart."""
    section = "importlinter" if contract == "" else f"importlinter:contract:{contract}"
    return set(CONTRACTS[section][option].replace("|", " ").split())


def _parts(package: str) -> set[str]:
    """Return the modules and packages right inside a package, with their full names."""
    folder = ROOT / package.replace(".", "/")
    modules = {path.stem for path in folder.glob("*.py")} - {"__init__"}
    return {f"{package}.{name}" for name in modules | {path.parent.name for path in folder.glob("*/__init__.py")}}


def test_every_package_at_the_top_has_its_layer() -> None:
    packages = {path.parent.name for path in ROOT.glob("*/__init__.py")} - _OTHER
    assert _listed("", "root_packages") == packages
    assert _listed("packages", "layers") == packages
    assert _listed("circles", "ancestors") == packages
    assert _listed("cli", "source_modules") == packages
    assert {path.stem for path in ROOT.glob("*.py")} == _listed("cli", "forbidden_modules") | {"kubestow_start", "setup"}


@pytest.mark.parametrize("package", ["audit", "checker", "models", "report", "solver"])
def test_layers_inside_a_package_name_all_its_parts(package: str) -> None:
    assert CONTRACTS[f"importlinter:contract:{package}"]["exhaustive"] == "True"


def test_of_models_everything_is_either_shared_with_the_checker_or_forbidden_to_it() -> None:
    forbidden = _listed("independence", "forbidden_modules")
    parts = (_parts("models") - {"models.numa"}) | _parts("models.numa")
    assert parts <= _SHARED | forbidden
    assert not _SHARED & forbidden


def test_of_the_solver_everything_either_builds_models_or_must_not_import_ortools() -> None:
    free = _listed("ortools", "source_modules")
    assert _parts("solver") <= _MODELLING | free
    assert not _MODELLING & free


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of the packages and their contracts."""
    for package in _listed("", "root_packages"):
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__", "*.yaml", "*.json", "*.md"))
    shutil.copy(ROOT / ".importlinter", tmp_path)
    return tmp_path


def _lint(tree: Path) -> tuple[int, str]:
    command = [sys.executable, "-c", "from importlinter.cli import lint_imports_command; lint_imports_command()", "--no-cache"]
    done = subprocess.run(command, cwd=tree, capture_output=True, text=True, timeout=120, check=False)
    return done.returncode, done.stdout + done.stderr


def test_contracts_are_kept(tree: Path) -> None:
    code, said = _lint(tree)
    assert code == 0, said


@pytest.mark.parametrize(
    ("file", "text", "contract"),
    [
        ("models/kube/new_module.py", "from solver.solve import place\n", "Dependencies run one way"),
        ("checker/rules/new_rule.py", "from models.cluster.cluster import Cluster\n", "The checker shares reading"),
        ("checker/new_module.py", "", "Layers of the checker"),
        ("solver/new_package/__init__.py", "", "Layers of the solver"),
        ("solver/search/new_engine.py", "from checker.placement import verify\n", "Only commands, and the entry modules"),
        (
            "models/gangs/new_module.py",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from models.cluster.cluster import Cluster\n",
            "Layers of models",
        ),
    ],
)
def test_a_misplaced_import_in_a_new_file_fails(tree: Path, file: str, text: str, contract: str) -> None:
    (tree / file).parent.mkdir(exist_ok=True)
    (tree / file).write_text(text, encoding="utf-8")
    code, said = _lint(tree)
    assert code != 0
    assert re.search(re.escape(contract) + r"((?!KEPT|BROKEN).)*BROKEN", " ".join(said.split())), said


def test_every_cp_sat_solver_is_made_in_one_place() -> None:
    """Where the family of presolve that loses best solutions is left out (solver/cpsat/solver.py); doctor proves nothing with its own."""
    made = {
        path.relative_to(ROOT).as_posix() for path in (ROOT / "solver").rglob("*.py") if "CpSolver()" in path.read_text(encoding="utf-8")
    }
    assert made == {"solver/cpsat/solver.py"}


def _modules() -> list[Path]:
    """Every module outside tests/."""
    listed = subprocess.run(["git", "ls-files", "*.py"], cwd=ROOT, capture_output=True, text=True, check=False).stdout.split()
    found = [ROOT / name for name in listed] or sorted(ROOT.rglob("*.py"))
    return [path for path in found if path.is_file() and path.relative_to(ROOT).parts[0] not in ("tests", "build", "dist")]


@pytest.mark.full
def test_modules_and_functions_have_the_length_that_contributing_names() -> None:
    assert len(_modules()) > 500
    long = []
    for path in _modules():
        text = path.read_text(encoding="utf-8")
        if len(text.splitlines()) > 400:
            long.append(f"{path.relative_to(ROOT)}: {len(text.splitlines())} lines")
        functions = (each for each in ast.walk(ast.parse(text)) if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef))
        lengths = [(each.name, (each.end_lineno or 0) - each.lineno + 1) for each in functions]
        long += [f"{path.relative_to(ROOT)}: {name}: {lines} lines" for name, lines in lengths if lines > 60]
    assert not long


def test_folders_have_the_modules_that_contributing_names() -> None:
    rooms = Counter(path.parent.relative_to(ROOT) for path in _modules() if path.name != "__init__.py")
    assert {str(room): count for room, count in rooms.items() if count > 15 and room != Path("commands")} == {}
