"""What is installed: the content of the wheel, packages of the same names, and a read-only place without a home."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import click
import pytest

import cli
import kubestow_start

pytest.importorskip("build")
pytestmark = pytest.mark.full
ROOT = Path(cli.__file__).resolve().parent
QUICK = ROOT / "instances/quickstart.yaml"
_PACKAGES = sorted(set(kubestow_start.OWN) - {"cli"})


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of the files that git would take, built aside, so that no folder ``build`` is left."""
    source, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("dist")
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True)
    for name in listed.stdout.splitlines():
        if (ROOT / name).is_file() and not name.startswith("tests/"):
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            (source / name).write_bytes((ROOT / name).read_bytes())
    command = [sys.executable, "-m", "build", "--wheel", "--outdir", str(out), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return next(out.glob("*.whl"))


@pytest.fixture
def installed(wheel: Path, tmp_path: Path) -> Path:
    """A folder with what the wheel puts among the packages of a venv."""
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(tmp_path / "site")
    return tmp_path / "site"


def start(site: Path, *arguments: str, program: str = "import kubestow_start; kubestow_start.main()") -> tuple[int, str]:
    """Run the program as its script does, with the packages of that folder first."""
    environment = {**os.environ, "PYTHONPATH": str(site), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-c", program, *arguments]
    done = subprocess.run(command, cwd=site.parent, env=environment, capture_output=True, text=True, timeout=120, check=False)
    return done.returncode, done.stdout + done.stderr


def test_the_wheel_has_all_that_is_needed_and_no_more(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as packed:
        names = {name for name in packed.namelist() if ".dist-info/" not in name}
    tracked = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True)
    files = {name for name in tracked.stdout.splitlines() if (ROOT / name).is_file()}
    ours = {name for name in files if name.split("/")[0] in _PACKAGES}
    code = {name for name in ours if name.endswith(".py")} | {name for name in files if "/" not in name and name.endswith(".py")} - {
        "setup.py"
    }
    data = {name for name in ours if "/assets/" in name or name.endswith(("api_types.json", "py.typed"))}
    schemas = {name for name in files if name.startswith("docs/schema/") and name.endswith(".json")}
    assert code | data | {"kubestow-stubs/__init__.pyi"} == {name for name in names if ".data/" not in name}
    assert {Path(name).name for name in names if "/share/kubestow/schema/" in name} == {Path(name).name for name in schemas}
    assert not any(name.split("/")[0] in ("tests", "docs", "packaging") for name in names)


def test_the_installed_program_solves(installed: Path) -> None:
    code, said = start(installed, "solve", str(QUICK), "-q", "-f", "table")
    assert code == 0, said
    assert "15 of 15 pods placed" in said


def _others_may_read(path: Path) -> bool:
    """Return whether no folder above keeps other users away, as the one of a temporary venv does."""
    return all(folder.stat().st_mode & 0o001 for folder in path.resolve().parents)


def test_it_needs_no_home_and_writes_nothing_where_it_is_and_where_it_runs(installed: Path, tmp_path: Path) -> None:
    """As with a read-only root: only TMPDIR can be written."""
    scratch = tmp_path / "scratch"
    scratch.mkdir(mode=0o777)
    scratch.chmod(0o777)
    before = sorted(path for path in tmp_path.rglob("*") if scratch not in path.parents)
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(installed), "HOME": "/nonexistent", "TMPDIR": str(scratch)}
    program = "import kubestow_start; kubestow_start.main()"
    command = [sys.executable, "-B", "-c", program, "report", str(QUICK), "-o", str(scratch / "page.html")]
    if os.getuid() == 0 and _others_may_read(Path(click.__file__)):
        command = ["setpriv", "--reuid=65532", "--regid=65532", "--clear-groups", *command]
        for folder in [tmp_path, *tmp_path.parents]:
            if not folder.stat().st_mode & 0o001:
                folder.chmod(folder.stat().st_mode | 0o011)
    for folder in (installed, tmp_path):
        folder.chmod(0o555)
    try:
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120, check=False)
    finally:
        tmp_path.chmod(0o755)
        installed.chmod(0o755)
    if "Permission denied" in done.stderr and str(ROOT) in done.stderr:
        pytest.skip(f"another user may not read {ROOT}")
    assert done.returncode == 0, done.stderr
    assert (scratch / "page.html").stat().st_size > 10_000
    assert sorted(path for path in tmp_path.rglob("*") if scratch not in path.parents) == before


@pytest.mark.parametrize("name", ["models", "commands", "solver"])
def test_a_package_of_that_name_that_replaced_ours_is_named(installed: Path, name: str) -> None:
    """One folder of packages, and another distribution that was installed later: pip replaces files of the same name, and says nothing."""
    (installed / name / "__init__.py").write_text("raise SystemExit('another program runs')\n", encoding="utf-8")
    code, said = start(installed, "--version")
    assert code == 1
    where = installed / name / "__init__.py"
    way = "install kubestow in a venv of its own, e.g. with pipx"
    assert said == f"kubestow: another distribution's package `{name}` is in the way ({where}): {way}\n"
    _, said = start(installed, program="import kubestow")
    assert said.splitlines()[-1] == f"ImportError: another distribution's package `{name}` is in the way ({where}): {way}"


def test_a_package_of_that_name_that_comes_first_is_named(installed: Path, tmp_path: Path) -> None:
    other = tmp_path / "other/models"
    other.mkdir(parents=True)
    (other / "__init__.py").write_text("")
    program = f"import sys; sys.path.insert(0, {str(other.parent)!r}); import kubestow_start; kubestow_start.main()"
    code, said = start(installed, "--version", program=program)
    assert code == 1
    assert said.startswith("kubestow: another distribution's package `models` is in the way")


def test_a_module_cli_of_another_is_named_and_a_package_that_is_gone(installed: Path) -> None:
    (installed / "cli.py").write_text("def main(): print('another program')\n")
    assert "another distribution's package `cli` is in the way" in start(installed)[1]
    (installed / "audit/__init__.py").unlink()
    # Without the packages of this venv: kubestow may be installed in it, too, and Python would go on to that one.
    alone = "import sys; sys.path = [each for each in sys.path if not each.endswith('-packages')]; "
    code, said = start(installed, program=alone + "import kubestow_start; kubestow_start.main()")
    assert code == 1
    assert "the package `audit` is not beside" in said


def test_type_checkers_find_the_types(installed: Path, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("import kubestow\nreveal_type(kubestow.solve(kubestow.load('a')).status)\nkubestow.load(7)\n")
    (tmp_path / "mypy.ini").write_text("[mypy]\nstrict = true\n")
    # Folders of stubs are found among installed packages alone, which is what a `.pth` or a venv would make of this one.
    search = {"MYPYPATH": str(installed), "MYPY_CACHE_DIR": str(tmp_path / "cache")}
    stubs = installed / "kubestow-stubs/__init__.pyi"
    (installed / "kubestow.pyi").write_bytes(stubs.read_bytes())
    command = [sys.executable, "-m", "mypy", "--config-file", str(tmp_path / "mypy.ini"), "--follow-imports=silent", str(script)]
    done = subprocess.run(command, cwd=tmp_path, env=os.environ | search, capture_output=True, text=True, timeout=200, check=False)
    assert "Literal['optimal']" in done.stdout
    assert 'Argument 1 to "load" has incompatible type "int"' in done.stdout
    assert "Found 1 error" in done.stdout
