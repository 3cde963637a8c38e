"""The installation: the content of the wheel, packages of the same names, and a read-only place without a home."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import click
import pytest

from kubestow import cli

pytest.importorskip("build")
pytestmark = pytest.mark.full
ROOT = Path(cli.__file__).resolve().parent
QUICK = ROOT / "instances/quickstart.yaml"
_PACKAGES = {path.parent.name for path in ROOT.glob("*/__init__.py")} - {"build", "docs", "tests"}


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


def start(site: Path, *arguments: str, program: str = "from kubestow.cli import main; main()") -> tuple[int, str]:
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
    code = {name for name in ours if name.endswith(".py")}
    code |= {name for name in files if "/" not in name and name.endswith((".py", "py.typed"))}
    data = {name for name in ours if "/assets/" in name or name.endswith("api_types.json") or "/custom_workloads/kinds/" in name}
    schemas = {name for name in files if name.startswith("docs/schema/") and name.endswith(".json")}
    assert {f"kubestow/{name}" for name in code | data} == {name for name in names if ".data/" not in name}
    assert {Path(name).name for name in names if "/share/man/man1/" in name} >= {"kubestow.1", "kubestow-solve.1"}
    assert {Path(name).name for name in names if "/share/kubestow/schema/" in name} == {Path(name).name for name in schemas}
    assert {name.split("/")[0] for name in names if ".data/" not in name} == {"kubestow"}


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
    program = "from kubestow.cli import main; main()"
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


def test_a_folder_with_modules_of_those_names_is_no_obstacle(installed: Path, tmp_path: Path) -> None:
    """As in any project: `models.py`, `cli.py` and the like in the folder where kubestow is called."""
    place = tmp_path / "shop"
    (place / "solver").mkdir(parents=True)
    for name in ("models.py", "solver/__init__.py", "report.py", "cli.py", "audit.py"):
        (place / name).write_text("raise SystemExit('another program runs')\n", encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(installed), "PYTHONDONTWRITEBYTECODE": "1"}
    script = "from kubestow.cli import main; main()"
    for words in (["-c", "import kubestow; kubestow.load"], ["-m", "kubestow", "--version"], ["-c", script, "nodes", str(QUICK), "-q"]):
        command = [sys.executable, *words]
        done = subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True, timeout=120, check=False)
        assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
def test_type_checkers_find_the_types(installed: Path, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("import kubestow\nreveal_type(kubestow.solve(kubestow.load('a')).status)\nkubestow.load(7)\n")
    (tmp_path / "mypy.ini").write_text("[mypy]\nstrict = true\n")
    search = {"MYPYPATH": str(installed), "MYPY_CACHE_DIR": str(tmp_path / "cache")}
    command = [sys.executable, "-m", "mypy", "--config-file", str(tmp_path / "mypy.ini"), "--follow-imports=silent", str(script)]
    done = subprocess.run(command, cwd=tmp_path, env=os.environ | search, capture_output=True, text=True, timeout=200, check=False)
    assert "Literal['optimal']" in done.stdout
    assert 'Argument 1 to "load" has incompatible type "int"' in done.stdout
    assert "Found 1 error" in done.stdout
