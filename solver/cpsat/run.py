"""A single CP-SAT solve: limits, workers, stopping, and the bounds that are safe to use."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from kubestow.models.cluster.cluster import Ints
from kubestow.solver.cpsat.model import PlacementModel
from kubestow.solver.cpsat.solver import new_solver
from kubestow.solver.executors.cores import cores
from kubestow.solver.ortools import cp_model
from kubestow.solver.runtime.run_context import RunContext

#: Interleaved workers of a deterministic run. A fixed number gives the same output on machines of any size.
DETERMINISTIC_WORKERS = 4
#: Variables. Smaller problems use the full linear relaxation, which perfect packings need. Larger ones are solved faster without.
MAX_TIGHT_VARIABLES = 2_000
REJECTED_MODEL_SECONDS = 0.1  #: Deterministic seconds charged for a model that CP-SAT rejects.
#: Receives (incumbent, bound) of a solve, in units of the model's objective.
OnValue = Callable[[int, int], None]


@dataclass
class CpSatAnswer:
    """Result of one solve.

    Attributes:
        status: CP-SAT's status.
        solution: Values by variable index, or None.
        bound: Proved bound, or None: a lower bound when minimising, an upper bound when maximising.
    """

    status: cp_model.CpSolverStatus
    solution: list[int] | None
    bound: int | None


class CpSat:
    """Solver for the models of one run, within its deadline.

    Attributes:
        lent: Cores in use by another process.
        enough: Called repeatedly during a solve. If it returns True, the solve stops.
    """

    lent = 0
    enough: Callable[[], bool] | None = None

    def __init__(self, context: RunContext, workers: int | None = None) -> None:
        self._workers = workers
        self.context, self.options = context, context.options
        self.deadline, self.stop = context.deadline, context.stop

    def _solver(self, seconds: float, *, tight: bool, quick: bool) -> cp_model.CpSolver:
        solver = new_solver()
        parameters = solver.parameters
        parameters.num_workers = self._workers or max(1, (self.options.workers or cores()) - self.lent)
        parameters.random_seed = self.options.seed
        parameters.catch_sigint_signal = False
        if self.options.deterministic:
            # Named subsolvers: the full set fails a check inside CP-SAT 9.15 (max_lp) in interleaved search with a hint.
            parameters.interleave_search = True
            parameters.num_workers = self.options.workers or DETERMINISTIC_WORKERS
            parameters.subsolvers.extend(["default_lp", "quick_restart", "no_lp"])
        if quick:
            parameters.cp_model_probing_level = 0
            parameters.max_presolve_iterations = 1
        if tight:
            parameters.linearization_level = 2
        self.deadline.grant(solver, seconds)
        return solver

    def run(
        self,
        model: cp_model.CpModel,
        seconds: float,
        on_value: OnValue | None = None,
        *,
        tight: bool = False,
        quick: bool = False,
    ) -> CpSatAnswer:
        """Solve a model in a separate thread, so that ``stop`` and ^C take effect while CP-SAT works.

        Args:
            on_value: Receives each new incumbent and bound.
            tight: Use the full linear relaxation.
            quick: Use little presolve, for small models and short times.
        """
        from kubestow.solver.cpsat.solution_callback import SolutionCallback

        solver = self._solver(seconds, tight=tight, quick=quick)
        bounds: list[float] = []
        solver.best_bound_callback = bounds.append
        callback = SolutionCallback(on_value)
        result: list[cp_model.CpSolverStatus] = []

        def solve() -> None:
            try:
                result.append(solver.solve(model, callback))
            except IndexError:  # rare fault in CP-SAT 9.15 (absl::btree_map::at): treat as a timeout
                return

        thread = threading.Thread(target=solve, daemon=True)
        thread.start()
        while thread.is_alive():
            thread.join(0.05)
            if self.stop.is_set() or (self.enough is not None and self.enough()):
                solver.stop_search()
        if not result:
            return CpSatAnswer(cp_model.UNKNOWN, None, None)
        status = result[0]
        self.deadline.spend(solver)
        if status == cp_model.MODEL_INVALID:  # amounts too large for CP-SAT, rejected at once: charge time so that retries end
            self.deadline.charge(REJECTED_MODEL_SECONDS)
        solved = status in (cp_model.OPTIMAL, cp_model.FEASIBLE)
        # Without a solution the response's bound may be an unset 0; only reported bounds count then.
        maximise = model.proto.objective.scaling_factor < 0
        proved = solver.best_objective_bound if solved else (min if maximise else max)(bounds, default=None)
        bound = None
        if proved is not None and np.isfinite(proved):
            bound = int(np.floor(proved + 1e-6)) if maximise else int(np.ceil(proved - 1e-6))
        return CpSatAnswer(status, list(solver.response_proto.solution) if solved else None, bound)

    def assignment(
        self, encoding: PlacementModel, pods: Ints | Mapping[tuple[int, int], int], *, objective: bool = False
    ) -> list[int] | None:
        """Return :meth:`PlacementModel.assignment`, within a fraction of the remaining time."""
        seconds = min(10.0, max(0.2, self.deadline.remaining() / 4))
        return encoding.assignment(pods, seconds=seconds, deterministic=self.options.deterministic, objective=objective)

    def done(self) -> bool:
        return self.context.over()


def add_hint(model: cp_model.CpModel, values: Sequence[int]) -> None:
    """Add a complete hint: the value of every variable, by index."""
    for index, value in enumerate(values):
        model.add_hint(model.get_int_var_from_proto_index(index), value)
