"""CP-SAT is imported without pandas, and works with it for those who use it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
_SOLVE = """
import sys
from kubestow import cli
try:
    cli.main(["solve", "instances/quickstart.yaml", "--engine", "exact", "-q", "-o", "/dev/null"])
except SystemExit as end:
    print(end.code, "ortools.sat.python.cp_model" in sys.modules, "pandas" in sys.modules)
"""
_SERIES = """
import kubestow.solver
from ortools.sat.python import cp_model
import pandas
model = cp_model.CpModel()
chosen = model.new_bool_var_series("x", pandas.Index([1, 2]))
model.add_bool_or(chosen)
print(type(chosen) is pandas.Series, len(chosen), len(model.proto.variables))
"""
_PANDAS_FIRST = "import pandas, kubestow.solver; from ortools.sat.python import cp_model; print(cp_model.pd is pandas)"


@pytest.mark.parametrize(("code", "printed"), [(_SOLVE, "0 True False"), (_SERIES, "True 2 2"), (_PANDAS_FIRST, "True")])
@pytest.mark.full
def test_a_process_has_pandas_only_if_it_asks_for_it(code: str, printed: str) -> None:
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == printed
