"""The callback of a solve. It derives from a class of CP-SAT, so this module is imported only when CP-SAT runs."""

from __future__ import annotations

from collections.abc import Callable

from ortools.sat.python import cp_model


class SolutionCallback(cp_model.CpSolverSolutionCallback):
    """Forwards the incumbent and bound of a solve."""

    def __init__(self, on_value: Callable[[int, int], None] | None) -> None:
        super().__init__()
        self._on_value = on_value

    def on_solution_callback(self) -> None:
        if self._on_value is not None:
            self._on_value(round(self.objective_value), round(self.best_objective_bound))
