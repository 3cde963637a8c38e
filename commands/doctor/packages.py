"""Checks of kubestow, Python, the required packages, and a run of CP-SAT."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata
from typing import Final

from kubestow.commands import VERSION
from kubestow.models.custom_workloads import table
from kubestow.models.documents.doctor import Examined

_NEEDED: Final = ("ortools", "numpy", "protobuf", "msgspec", "PyYAML", "click", "rich", "Jinja2")
#: Optional package -> the missing feature, and the package to install.
_OPTIONAL: Final = {
    "cel-expr-python": ("selectors of devices are not evaluated; claims that have one are named under unmodelled", "cel-expr-python"),
    "kubernetes": ("`kubestow apply` does not run", "'kubestow[apply]'"),
    "distributed": ("`--dask` and `batch --dask` do not run", "'kubestow[dask]'"),
}
_PACKAGE: Final = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_OLDEST: Final = (3, 11)
#: A tiny model: one pod, two nodes. Prints the status and the value.
_MODEL: Final = """
from ortools.sat.python import cp_model
model = cp_model.CpModel()
here, there = model.new_bool_var("here"), model.new_bool_var("there")
model.add_exactly_one(here, there)
model.maximize(here + 2 * there)
solver = cp_model.CpSolver()
solver.parameters.num_workers = 1
print(solver.status_name(solver.solve(model)), int(solver.objective_value))
"""
#: Time limit in seconds of that run, which may include a cold start.
_MODEL_TIMEOUT_SECONDS: Final = 120


def examine() -> Iterator[Examined]:
    """Yield the results for kubestow, Python, and the required and optional packages."""
    yield Examined("kubestow", "ok", f"{VERSION}, in {_PACKAGE}")
    version = f"{platform.python_implementation()} {platform.python_version()}, {sys.executable}"
    old = sys.version_info < _OLDEST
    yield Examined("Python", "failed" if old else "ok", version, "3.11 or newer is needed" if old else "")
    for name in _NEEDED:
        found = _version(name)
        why = "" if found else f"needed: pip install {name}"
        yield Examined(name, "ok" if found else "failed", found or "not installed", why)
    for name, (without, brings) in _OPTIONAL.items():
        found = _version(name)
        yield Examined(name, "ok" if found else "note", found or "not installed", "" if found else f"{without}: pip install {brings}")
    yield cp_sat(sys.executable)
    yield workload_kinds()


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def workload_kinds() -> Examined:
    """Return the workload kinds that are read in addition to those of Kubernetes, as a line of the report."""
    found = [entry for entry in table.entries() if entry.sets or entry.wraps]
    listed = f"{len(found)}: {', '.join(entry.name for entry in found)}"
    if table.available():
        return Examined("workload kinds", "ok", listed)
    return Examined("workload kinds", "note", listed, "not read without the CEL library: pip install cel-expr-python")


def cp_sat(program: str) -> Examined:
    """Solve a tiny model in a separate process, which a broken library may kill. ``program``: path of Python."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    try:
        done = subprocess.run(
            [program, "-c", _MODEL],
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_MODEL_TIMEOUT_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return Examined("CP-SAT", "failed", "does not run", " ".join(str(error).split()))
    said = done.stdout.decode(errors="replace").strip()
    if done.returncode == 0 and said == "OPTIMAL 2":
        return Examined("CP-SAT", "ok", "solves")
    last = (done.stderr.decode(errors="replace").strip().splitlines() or [said])[-1]
    ended = f"signal {-done.returncode}" if done.returncode < 0 else f"exit code {done.returncode}"
    return Examined("CP-SAT", "failed", f"a tiny model ended with {ended}", f"{last or 'no message'}; install OR-tools again")
