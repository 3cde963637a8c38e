"""The contracts of .importlinter cover every package, those of tomorrow too, and do fail."""

from __future__ import annotations

import ast
import configparser
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from kubestow import cli

ROOT = Path(cli.__file__).resolve().parent
CONTRACTS = configparser.ConfigParser()
CONTRACTS.read(ROOT / ".importlinter")
#: The stand-in for a cluster, a package of its own.
STAND_IN = ROOT / "tests" / "api_server"

#: Folders at the top that hold no package of the product.
_OTHER = {"build", "docs", "tests"}
#: Parts of ``models`` that the checker may read, directly and by way of others.
_SHARED = {
    "kubestow.models.admission",
    "kubestow.models.buffers",
    "kubestow.models.catalogue",
    "kubestow.models.cel",
    "kubestow.models.custom_workloads",
    "kubestow.models.documents",
    "kubestow.models.edits",
    "kubestow.models.gangs",
    "kubestow.models.helm",
    "kubestow.models.input_error",
    "kubestow.models.kube",
    "kubestow.models.numa.annotation_yaml",
    "kubestow.models.numa.annotations",
    "kubestow.models.numa.container_affinity",
    "kubestow.models.numa.container_expressions",
    "kubestow.models.snapshot",
    "kubestow.models.workloads",
}
#: Packages of the solver that build or solve models.
_MODELLING = {
    "kubestow.solver.bounds",
    "kubestow.solver.capacity",
    "kubestow.solver.cpsat",
    "kubestow.solver.explain",
    "kubestow.solver.numa",
    "kubestow.solver.objective",
    "kubestow.solver.ortools",
    "kubestow.solver.placed_steps",
    "kubestow.solver.placed_tiers",
    "kubestow.solver.rebalance",
    "kubestow.solver.rollout",
    "kubestow.solver.rules",
    "kubestow.solver.runtime",
    "kubestow.solver.search",
    "kubestow.solver.soft_tiers",
    "kubestow.solver.solve",
    "kubestow.solver.tight_packing",
}


def _listed(contract: str, option: str) -> set[str]:
    """Return the names that a contract lists, layers taken apart."""
    section = "importlinter" if contract == "" else f"importlinter:contract:{contract}"
    return set(CONTRACTS[section][option].replace("|", " ").split())


def _parts(package: str) -> set[str]:
    """Return the modules and packages right inside a package, with their full names."""
    folder = ROOT.joinpath(*package.split(".")[1:])
    modules = {path.stem for path in folder.glob("*.py")} - {"__init__"}
    return {f"{package}.{name}" for name in modules | {path.parent.name for path in folder.glob("*/__init__.py")}}


def test_the_list_of_modules_that_name_a_single_rule_only_shrinks() -> None:
    listed = {name for name in _listed("concrete", "allowed_importers") if name.startswith(("kubestow.solver.", "kubestow.audit."))}
    for module in listed - {"kubestow.solver.rules"}:
        source = ROOT.joinpath(*module.split(".")[1:]).with_suffix(".py").read_text(encoding="utf-8")
        assert re.search(r"from kubestow\.solver\.rules\.\w+\.", source), f"{module} names no rule: remove it from .importlinter"


def test_every_package_at_the_top_has_its_layer() -> None:
    packages = {path.parent.name for path in ROOT.glob("*/__init__.py")} - _OTHER
    named = {f"kubestow.{name}" for name in packages}
    assert _listed("packages", "layers") == packages
    assert _listed("circles", "ancestors") == named
    assert _listed("cli", "source_modules") == named
    modules = {f"kubestow.{path.stem}" for path in ROOT.glob("*.py") if not path.stem.startswith("_")}
    assert modules == _listed("cli", "forbidden_modules")


@pytest.mark.parametrize("package", ["audit", "checker", "models", "report", "solver"])
def test_layers_inside_a_package_name_all_its_parts(package: str) -> None:
    assert CONTRACTS[f"importlinter:contract:{package}"]["exhaustive"] == "True"


def test_of_models_everything_is_either_shared_with_the_checker_or_forbidden_to_it() -> None:
    forbidden = _listed("independence", "forbidden_modules")
    parts = (_parts("kubestow.models") - {"kubestow.models.numa"}) | _parts("kubestow.models.numa")
    assert parts <= _SHARED | forbidden
    assert not _SHARED & forbidden


def test_of_the_solver_everything_either_builds_models_or_must_not_import_ortools() -> None:
    free = _listed("ortools", "source_modules")
    assert _parts("kubestow.solver") <= _MODELLING | free
    assert not _MODELLING & free


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of the package and its contracts."""
    package = tmp_path / "kubestow"
    for name in _listed("packages", "layers"):
        shutil.copytree(ROOT / name, package / name, ignore=shutil.ignore_patterns("__pycache__", "*.yaml", "*.json", "*.md"))
    for path in ROOT.glob("*.py"):
        shutil.copy(path, package)
    shutil.copy(ROOT / ".importlinter", tmp_path)
    return tmp_path


def _lint(tree: Path) -> tuple[int, str]:
    command = [sys.executable, "-c", "from importlinter.cli import lint_imports_command; lint_imports_command()", "--no-cache"]
    environment = {**os.environ, "PYTHONPATH": str(tree)}
    done = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True, timeout=120, check=False)
    return done.returncode, done.stdout + done.stderr


def test_contracts_are_kept(tree: Path) -> None:
    code, said = _lint(tree)
    assert code == 0, said


@pytest.mark.parametrize(
    ("file", "text", "contract"),
    [
        ("models/kube/new_module.py", "from kubestow.solver.solve import place\n", "Dependencies run one way"),
        ("checker/rules/new_rule.py", "from kubestow.models.cluster.cluster import Cluster\n", "The checker shares reading"),
        ("checker/new_module.py", "", "Layers of the checker"),
        ("solver/new_package/__init__.py", "", "Layers of the solver"),
        ("solver/search/new_engine.py", "from kubestow.checker.placement import verify\n", "Only commands, and the entry modules"),
        (
            "models/gangs/new_module.py",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from kubestow.models.cluster.cluster import Cluster\n",
            "Layers of models",
        ),
    ],
)
def test_a_misplaced_import_in_a_new_file_fails(tree: Path, file: str, text: str, contract: str) -> None:
    path = tree / "kubestow" / file
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")
    code, said = _lint(tree)
    assert code != 0
    assert re.search(re.escape(contract) + r"((?!KEPT|BROKEN).)*BROKEN", " ".join(said.split())), said


def test_every_cp_sat_solver_is_made_in_one_place() -> None:
    """A family of presolve that loses optima is switched off (solver/cpsat/solver.py); doctor proves nothing with its own solver."""
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
    assert {str(room): count for room, count in rooms.items() if count > 15} == {}


def _imports(path: Path) -> set[str]:
    """Return the modules that a file of tests imports, wherever the statement is."""
    found = set()
    for each in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(each, ast.Import):
            found |= {alias.name for alias in each.names}
        elif isinstance(each, ast.ImportFrom):
            found |= {f"{each.module}.{alias.name}" for alias in each.names} if each.module == "tests" else {str(each.module)}
    return {name for name in found if name.partition(".")[0] in ("kubestow", "tests")}


def _misplaced(path: Path, imported: str) -> bool:
    """Return True if an import crosses the border of ``tests/api_server`` elsewhere than at its public names."""
    own = imported == "tests.api_server" or imported.startswith("tests.api_server.")
    if STAND_IN not in path.parents:
        return own and imported != "tests.api_server"
    return not own and not (path.name.startswith("test_") and imported in ("tests.objects", "tests.devices"))


def test_the_stand_in_for_a_cluster_is_a_package_of_its_own() -> None:
    files = sorted((ROOT / "tests").rglob("*.py"))
    assert sum(STAND_IN in path.parents for path in files) > 40
    assert [f"{path.relative_to(ROOT)}: {each}" for path in files for each in sorted(_imports(path)) if _misplaced(path, each)] == []


@pytest.mark.parametrize(
    ("file", "imported", "misplaced"),
    [
        ("tests/api_server/core.py", "kubestow.models.kube.quantity", True),
        ("tests/api_server/core.py", "tests.objects", True),
        ("tests/api_server/core.py", "tests.api_server.store", False),
        ("tests/api_server/test_api.py", "kubestow.checker.placement", True),
        ("tests/api_server/test_api.py", "tests.objects", False),
        ("tests/live/test_new.py", "tests.api_server.core", True),
        ("tests/live/test_new.py", "tests.api_server", False),
    ],
)
def test_an_import_across_its_border_fails(file: str, imported: str, misplaced: bool) -> None:
    assert _misplaced(ROOT / file, imported) is misplaced
