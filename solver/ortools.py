"""OR-tools, imported when first used: importing CP-SAT takes longer than solving many a snapshot.

All modules that build or solve models take OR-tools from here. Only modules with a class that derives from one of CP-SAT's
import it directly, and are themselves imported when they are needed."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any


class LazyModule:
    """Stand-in for a module, which is imported when one of its attributes is first read."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        value = getattr(import_module(self._name), name)
        setattr(self, name, value)  # later reads do not come here
        return value


if TYPE_CHECKING:
    from ortools.linear_solver import pywraplp as pywraplp
    from ortools.math_opt import model_pb2 as model_pb2
    from ortools.math_opt.python import mathopt as mathopt
    from ortools.sat.python import cp_model as cp_model
    from ortools.util.python import solve_interrupter as solve_interrupter
else:
    pywraplp = LazyModule("ortools.linear_solver.pywraplp")
    model_pb2 = LazyModule("ortools.math_opt.model_pb2")
    mathopt = LazyModule("ortools.math_opt.python.mathopt")
    cp_model = LazyModule("ortools.sat.python.cp_model")
    solve_interrupter = LazyModule("ortools.util.python.solve_interrupter")
