"""Linear programs with integer data, and exact upper bounds that do not depend on the solver's precision.

Any multipliers y ≥ 0 give the bound b·y + Σ_j max(0, c_j - (A^T y)_j) · u_j of max c·x, A·x ≤ b, 0 ≤ x ≤ u. See
docs/bounds.md (Safe dual bounds)."""

from __future__ import annotations

import datetime
import threading
import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kubestow.models.cluster.cluster import Ints
from kubestow.models.kube.selectors import Bools
from kubestow.solver.cpsat.linear_sum import MAX_SUM
from kubestow.solver.ortools import mathopt, model_pb2, solve_interrupter

Floats = NDArray[np.float64]
#: Columns. Larger programs over domains or nodes take seconds to solve and are not built.
MAX_COLUMNS = 60_000
PROGRAM_SECONDS = 5.0  #: Time limit of one such program if it is too large for simplex.
BUILD_NONZEROS_PER_SECOND = 200_000  #: Nonzeros whose construction counts as one deterministic second.
#: Nonzeros. Up to here simplex ends within two seconds with exact vertices. Beyond, the first-order method (PDLP,
#: doi:10.48550/arXiv.2106.04756) is faster, and unlike simplex has good multipliers long before its end.
SIMPLEX_LIMIT = 60_000
SIMPLEX_ITERATIONS = 20_000  #: Iteration limit of simplex.
#: Nonzeros times iterations that PDLP does in about a second. Converts seconds to iterations in deterministic runs.
WORK_PER_SECOND = 100_000_000
#: Upper limit, and the default without a limit, on the time of a deterministic run, in such seconds.
MAX_SECONDS = 60.0


@dataclass
class Program:
    """max c·x with A·x ≤ b, 0 ≤ x ≤ u over the integers, without c. Shapes: M rows, J columns, K nonzeros.

    Attributes:
        rows: Row of each nonzero of A, int64[K].
        columns: Column of each nonzero, int64[K].
        values: Value of each nonzero, int64[K].
        limit: b, int64[M].
        upper: u, int64[J].
    """

    rows: Ints
    columns: Ints
    values: Ints
    limit: Ints
    upper: Ints

    def only(self, wanted: Bools) -> tuple[Program, Ints]:
        """Return the program restricted to the ``wanted`` columns (bool[J]), and their indices. All others are 0."""
        chosen = np.flatnonzero(wanted)
        position = np.full(len(wanted), -1, dtype=np.int64)
        position[chosen] = np.arange(len(chosen))
        kept = wanted[self.columns]
        return Program(self.rows[kept], position[self.columns[kept]], self.values[kept], self.limit, self.upper[chosen]), chosen

    def bound(self, objective: Ints, multipliers: Floats) -> int:
        """Return the exact bound of ``objective`` (int64[J]) that any multipliers float64[M] give, rounded down.

        Negative, NaN and absurdly large multipliers count as 0."""
        y = np.where((multipliers > 0) & (multipliers < MAX_SUM), multipliers, 0.0)
        sums = np.bincount(self.columns, weights=np.abs(self.values) * y[self.rows], minlength=len(self.upper))
        # A factor of two covers the rounding error of these float sums.
        largest = 2.0 * max(1.0, float(sums.max(initial=0.0)), float(y.max(initial=0.0)), float(np.abs(objective).max(initial=0)))
        shift = MAX_SUM.bit_length() - 1 - int(np.ceil(np.log2(largest))) - 1
        if shift < 0:
            y, shift = np.zeros_like(y), 0
        whole = np.rint(np.ldexp(y, shift)).astype(np.int64)
        reduced = objective << shift
        np.subtract.at(reduced, self.columns, self.values * whole[self.rows])
        gains = np.flatnonzero(reduced > 0)
        used = np.flatnonzero(whole)
        total = _dot(whole[used], self.limit[used]) + _dot(reduced[gains], self.upper[gains])
        return total >> shift


def _dot(a: Ints, b: Ints) -> int:
    """Return the dot product in Python integers, which do not overflow."""
    return sum(x * y for x, y in zip(a.tolist(), b.tolist(), strict=True))


def best_bound(
    program: Program, objective: Ints, *, seconds: float | None, deterministic: bool, stop: threading.Event | None = None
) -> int:
    """Return an exact upper bound of the program's maximum, as close to the LP bound as the solver gets in time.

    Args:
        seconds: Time limit; None for no limit. If ``deterministic``, it is converted to a number of iterations.
        stop: Event that ends the solve early.
    """
    started = time.monotonic()
    bound = program.bound(objective, np.zeros(len(program.limit)))
    if not len(program.rows) or not len(program.upper):
        return bound
    model, scale = _scaled(program, objective)
    work = max(1, len(program.rows))
    limit = MAX_SECONDS if seconds is None else min(seconds, MAX_SECONDS)
    attempts: list[tuple[mathopt.SolverType, mathopt.SolveParameters]] = []
    if work <= SIMPLEX_LIMIT:
        attempts.append((mathopt.SolverType.GLOP, mathopt.SolveParameters(iteration_limit=SIMPLEX_ITERATIONS)))
    iterations = max(10, int(limit * WORK_PER_SECOND / work))
    attempts.append((mathopt.SolverType.PDLP, mathopt.SolveParameters(iteration_limit=iterations if deterministic else None, threads=1)))
    for kind, parameters in attempts:
        if not deterministic and seconds is not None:
            parameters.time_limit = datetime.timedelta(seconds=max(0.01, seconds - (time.monotonic() - started)))
        result = _solve(model, kind, parameters, stop)
        if result is None:
            continue
        for solution in result.solutions:
            if solution.dual_solution is not None:
                bound = min(bound, program.bound(objective, _by_row(solution.dual_solution, scale)))
        if result.termination.reason == mathopt.TerminationReason.OPTIMAL or (stop is not None and stop.is_set()):
            break
    return bound


def optimum(program: Program, objective: Ints) -> tuple[Floats, Floats] | None:
    """Return the LP's optimal point, float64[J], and its multipliers, float64[M]. Both are hints that prove nothing.

    Simplex runs for a fixed number of iterations. Return None if it finds no solution."""
    model, scale = _scaled(program, objective)
    result = _solve(model, mathopt.SolverType.GLOP, mathopt.SolveParameters(iteration_limit=SIMPLEX_ITERATIONS), None)
    for solution in result.solutions if result is not None else ():
        if solution.primal_solution is not None and solution.dual_solution is not None:
            point = np.zeros(len(program.upper))
            for column, value in solution.primal_solution.variable_values.items():
                point[column.id] = value
            return point, _by_row(solution.dual_solution, scale)
    return None


def best_point(program: Program, objective: Ints) -> Floats | None:
    """Return the point of :func:`optimum`, or None."""
    solution = optimum(program, objective)
    return None if solution is None else solution[0]


def _scaled(program: Program, objective: Ints) -> tuple[mathopt.Model, Floats]:
    """Return MathOpt's model and the divisor of each of its rows."""
    scale = np.ones(len(program.limit))
    np.maximum.at(scale, program.rows, np.abs(program.values).astype(np.float64))
    return mathopt.Model.from_model_proto(_proto(program, objective, scale)), scale


def _by_row(solution: mathopt.DualSolution, scale: Floats) -> Floats:
    """Return the multipliers of the program's own rows."""
    y = np.zeros(len(scale))
    for row, value in solution.dual_values.items():
        y[row.id] = value
    return y / scale


def _proto(program: Program, objective: Ints, scale: Floats) -> model_pb2.ModelProto:
    """Return the program in MathOpt's form, with rows divided by their largest coefficients.

    It passes whole arrays, because one call per column takes seconds."""
    proto = model_pb2.ModelProto()
    size, height = len(program.upper), len(program.limit)
    proto.variables.ids.extend(range(size))
    proto.variables.lower_bounds.extend([0.0] * size)
    proto.variables.upper_bounds.extend(program.upper.astype(np.float64).tolist())
    proto.variables.integers.extend([False] * size)
    proto.linear_constraints.ids.extend(range(height))
    proto.linear_constraints.lower_bounds.extend([float("-inf")] * height)
    proto.linear_constraints.upper_bounds.extend((program.limit / scale).tolist())
    order = np.lexsort((program.columns, program.rows))
    matrix = proto.linear_constraint_matrix
    matrix.row_ids.extend(program.rows[order].tolist())
    matrix.column_ids.extend(program.columns[order].tolist())
    matrix.coefficients.extend((program.values[order] / scale[program.rows[order]]).tolist())
    gains = np.flatnonzero(objective)
    proto.objective.maximize = True
    proto.objective.linear_coefficients.ids.extend(gains.tolist())
    proto.objective.linear_coefficients.values.extend(objective[gains].astype(np.float64).tolist())
    return proto


def _solve(
    model: mathopt.Model, kind: mathopt.SolverType, parameters: mathopt.SolveParameters, stop: threading.Event | None
) -> mathopt.SolveResult | None:
    """Solve the model in a separate thread, so that ``stop`` and ^C take effect. Return None if the solver fails."""
    interrupter = solve_interrupter.SolveInterrupter()
    results: list[mathopt.SolveResult] = []

    def run() -> None:
        try:
            results.append(mathopt.solve(model, kind, params=parameters, interrupter=interrupter))
        except (RuntimeError, ValueError, AttributeError):  # 9.15's own handler of a failed solve raises an AttributeError
            return

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    while thread.is_alive():
        thread.join(0.05)
        if stop is not None and stop.is_set():
            interrupter.interrupt()
    return results[0] if results else None
