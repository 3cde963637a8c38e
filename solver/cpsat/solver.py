"""A CP-SAT solver whose optimality proofs hold."""

from __future__ import annotations

from kubestow.solver.ortools import cp_model


def new_solver() -> cp_model.CpSolver:
    """Return a solver without one family of presolve: detection of rows included in others, mainly at-most-one rows in
    linear rows.

    With this presolve, CP-SAT 9.15 sometimes loses optimal solutions, depending on the random seed, and calls a worse one
    optimal: https://github.com/google/or-tools/issues/5293."""
    solver = cp_model.CpSolver()
    solver.parameters.presolve_inclusion_work_limit = 0
    return solver
