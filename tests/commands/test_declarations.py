"""Each command is a package with a light declaration, a module ``run`` behind one import, and tests."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from kubestow import commands
from kubestow.commands import COMMANDS

_FOLDER = Path(commands.__file__).resolve().parent
_ROOT = _FOLDER.parent
_IMPORTING = """
import sys
from kubestow.commands import COMMANDS
assert all(command.name == name for name, command in COMMANDS.items())
print(*sys.modules)
"""


def _functions(path: Path) -> list[ast.FunctionDef]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]


def test_every_package_with_a_run_is_a_command() -> None:
    assert {path.parent.name for path in _FOLDER.glob("*/run.py")} == set(COMMANDS)


def test_declarations_import_nothing_slow() -> None:
    done = subprocess.run([sys.executable, "-c", _IMPORTING], cwd=_ROOT, capture_output=True, text=True, check=True)
    slow = ("msgspec", "numpy", "rich", "yaml", "ortools", "asyncio", "tempfile")
    ours = [name for name in done.stdout.split() if name.startswith("kubestow.")]
    assert [name for name in done.stdout.split() if name in slow] == []
    light = ("kubestow.commands", "kubestow.report.writers", "kubestow.models.input_error")
    packages = ("kubestow.report", "kubestow.models")
    assert [name for name in ours if name.endswith(".run") or (name not in packages and not name.startswith(light))] == []


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_imports_run_alone_and_hands_it_one_request(name: str) -> None:
    inside = [
        ast.unparse(node)
        for function in _functions(_FOLDER / name / "__init__.py")
        for node in ast.walk(function)
        if isinstance(node, ast.Import | ast.ImportFrom)
    ]
    assert inside == [f"from kubestow.commands.{name}.run import run"]
    (run,) = (function for function in _functions(_FOLDER / name / "run.py") if function.name == "run")
    assert [argument.arg for argument in run.args.args] == ["request"]


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_has_tests(name: str) -> None:
    tests = Path(__file__).parent
    assert [*tests.glob(f"test_{name}*.py"), *tests.glob(f"{name}/test_*.py"), *(_ROOT / "tests").glob(f"*/{name}/test_*.py")]
