"""Linear programs with integer data, and upper bounds on them that are exact whatever the solver answers.

An LP solved in floating point proves nothing by itself. What it returns is taken as a hint only: for max c·x, A·x ≤ b, 0 ≤ x ≤ u, *every*
vector y ≥ 0 gives b·y + Σ_j max(0, c_j - (A^T y)_j) · u_j ≥ c·x by weak duality. The solver's multipliers are rounded to integers over a
power of two, negative ones are set to 0, and that expression is evaluated in integers (Neumaier and Shcherbina, Safe bounds in linear
and mixed-integer linear programming, 2004, doi:10.1007/s10107-003-0433-3). So an early end, tolerances or a fault of the solver can make
the bound weaker, never wrong.
"""

from __future__ import annotations

import datetime
import threading
import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from ortools.math_opt import model_pb2
from ortools.math_opt.python import mathopt
from ortools.util.python.solve_interrupter import SolveInterrupter

from kubestow.models.cluster.cluster import Ints
from kubestow.models.kube.selectors import Bools

Floats = NDArray[np.float64]
#: Sums of integer products stay below this power of two.
_BITS = 60
#: Up to this many nonzeros simplex ends within a second or two and its multipliers are exact vertices; beyond, the first-order method
#: (PDLP, doi:10.48550/arXiv.2106.04756) is faster, and its multipliers are good long before the end, those of simplex are not.
SIMPLEX_LIMIT = 60_000
SIMPLEX_ITERATIONS = 20_000
#: Nonzeros times iterations that PDLP does in about a second: what a second means where the clock may not be looked at.
WORK_PER_SECOND = 100_000_000
#: A deterministic run without a limit, and at most, in such seconds.
LONGEST = 60.0


@dataclass
class Program:
    """max c·x with A·x ≤ b, 0 ≤ x ≤ u over the integers, but for c. Shapes: M rows, J columns, K nonzeros.

    ``rows``, ``columns``, ``values``: int64[K], A's nonzeros. ``limit``: int64[M], b. ``upper``: int64[J], u.
    """

    rows: Ints
    columns: Ints
    values: Ints
    limit: Ints
    upper: Ints

    def only(self, wanted: Bools) -> tuple[Program, Ints]:
        """Return the program without the columns that are not ``wanted`` (bool[J]: they are 0), and the indices of those that stay."""
        chosen = np.flatnonzero(wanted)
        position = np.full(len(wanted), -1, dtype=np.int64)
        position[chosen] = np.arange(len(chosen))
        kept = wanted[self.columns]
        return Program(self.rows[kept], position[self.columns[kept]], self.values[kept], self.limit, self.upper[chosen]), chosen

    def bound(self, objective: Ints, multipliers: Floats) -> int:
        """Return ⌊an upper bound of ``objective`` (int64[J])⌋ from any float64[M]; negative, NaN and absurdly large ones count as 0.
        Exact."""
        y = np.where((multipliers > 0) & (multipliers < 2.0**_BITS), multipliers, 0.0)
        sums = np.bincount(self.columns, weights=np.abs(self.values) * y[self.rows], minlength=len(self.upper))
        # The sums are floats: a factor of two covers their error.
        largest = 2.0 * max(1.0, float(sums.max(initial=0.0)), float(y.max(initial=0.0)), float(np.abs(objective).max(initial=0)))
        shift = _BITS - int(np.ceil(np.log2(largest))) - 1
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
    """In Python's integers, which do not overflow."""
    return sum(x * y for x, y in zip(a.tolist(), b.tolist(), strict=True))


def best_bound(
    program: Program, objective: Ints, *, seconds: float | None, deterministic: bool, stop: threading.Event | None = None
) -> int:
    """Return an exact upper bound of the program's maximum, as near to the LP's as the solver comes in time.

    ``seconds`` (None: as long as it takes) are of the clock; where ``deterministic`` they stand for a number of iterations.
    ``stop``: set from elsewhere, it ends the solve early.
    """
    started = time.monotonic()
    found = program.bound(objective, np.zeros(len(program.limit)))
    if not len(program.rows) or not len(program.upper):
        return found
    model, scale = _scaled(program, objective)
    work = max(1, len(program.rows))
    limit = LONGEST if seconds is None else min(seconds, LONGEST)
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
                found = min(found, program.bound(objective, _by_row(solution.dual_solution, scale)))
        if result.termination.reason == mathopt.TerminationReason.OPTIMAL or (stop is not None and stop.is_set()):
            break
    return found


def optimum(program: Program, objective: Ints) -> tuple[Floats, Floats] | None:
    """Return float64[J], where the LP has its maximum, and float64[M], its multipliers, as near as simplex comes in a fixed number of
    iterations: hints that prove nothing. None where it finds none."""
    model, scale = _scaled(program, objective)
    result = _solve(model, mathopt.SolverType.GLOP, mathopt.SolveParameters(iteration_limit=SIMPLEX_ITERATIONS), None)
    for solution in result.solutions if result is not None else ():
        if solution.primal_solution is not None and solution.dual_solution is not None:
            found = np.zeros(len(program.upper))
            for column, value in solution.primal_solution.variable_values.items():
                found[column.id] = value
            return found, _by_row(solution.dual_solution, scale)
    return None


def best_point(program: Program, objective: Ints) -> Floats | None:
    """Return the point of :func:`optimum`, or None."""
    found = optimum(program, objective)
    return None if found is None else found[0]


def _scaled(program: Program, objective: Ints) -> tuple[mathopt.Model, Floats]:
    """MathOpt's model, and what each of its rows is divided by."""
    scale = np.ones(len(program.limit))
    np.maximum.at(scale, program.rows, np.abs(program.values).astype(np.float64))
    return mathopt.Model.from_model_proto(_proto(program, objective, scale)), scale


def _by_row(solution: mathopt.DualSolution, scale: Floats) -> Floats:
    """Multipliers of the program's own rows."""
    y = np.zeros(len(scale))
    for row, value in solution.dual_values.items():
        y[row.id] = value
    return y / scale


def _proto(program: Program, objective: Ints, scale: Floats) -> model_pb2.ModelProto:
    """MathOpt's form of the program, rows divided by their largest coefficients; whole arrays, since calls per column take seconds."""
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
    """In a thread of its own, so that ``stop`` and ^C are heard. None where the solver fails: the bound then stays what it was."""
    interrupter = SolveInterrupter()
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
