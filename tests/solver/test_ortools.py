"""OR-tools behind stand-ins: they are the modules themselves, imported at first use."""

from __future__ import annotations

import pickle
import subprocess
import sys

import pytest

from kubestow.solver import ortools

IMPORTING = """
import sys
from kubestow.solver import placed_tiers, soft_tiers, solve
from kubestow.solver.ortools import cp_model
before = "ortools" in sys.modules
cp_model.CpModel()
print(before, "ortools" in sys.modules)
"""


def test_ortools_is_imported_by_the_first_model() -> None:
    done = subprocess.run([sys.executable, "-c", IMPORTING], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]


def test_a_stand_in_has_the_attributes_of_its_module() -> None:
    assert ortools.cp_model.CpModel().__class__.__module__ == "ortools.sat.python.cp_model"
    assert pickle.loads(pickle.dumps(ortools.cp_model.OPTIMAL)) == ortools.cp_model.OPTIMAL
    assert ortools.mathopt.SolverType.GLOP.name == "GLOP"


def test_what_a_module_lacks_its_stand_in_lacks() -> None:
    with pytest.raises(AttributeError, match="no attribute 'sine'"):
        ortools.LazyModule("math").sine  # noqa: B018
