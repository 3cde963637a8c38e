"""One CP-SAT solve: limits, workers, stopping, and what may be believed of its answer."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from ortools.sat.python import cp_model

from kubestow.models.cluster.cluster import Ints
from kubestow.solver.cpsat.solver import new_solver
from kubestow.solver.executors.cores import cores
from kubestow.solver.runtime.run_context import RunContext

if TYPE_CHECKING:
    from kubestow.solver.cpsat.model import PlacementModel

#: Interleaved workers of a deterministic run: fixed, so that machines of different size give the same bytes.
DETERMINISTIC_WORKERS = 4
OPTIMAL = cp_model.OPTIMAL
#: Deterministic seconds that a model counts which is refused.
REFUSED = 0.1
#: (incumbent, bound) of a solve, in the model's own terms
OnValue = Callable[[int, int], None]


class _Watch(cp_model.CpSolverSolutionCallback):
    """Passes on the incumbent and the bound of a solve."""

    def __init__(self, on_value: OnValue | None) -> None:
        super().__init__()
        self._on_value = on_value

    def on_solution_callback(self) -> None:
        if self._on_value is not None:
            self._on_value(round(self.objective_value), round(self.best_objective_bound))


@dataclass
class Answer:
    """Of one solve: CP-SAT's status, the solution (values by variable index), and a lower bound if one was proved."""

    status: cp_model.CpSolverStatus
    solution: list[int] | None
    bound: int | None


class CpSat:
    """Solves models under the options of one run, within its deadline, and stops when told to. ``lent``: cores that are busy otherwise.
    ``enough``: asked now and then whether a solve is of no use any more."""

    lent = 0
    enough: Callable[[], bool] | None = None

    def __init__(self, context: RunContext) -> None:
        self.context, self.options = context, context.options
        self.deadline, self.stop = context.deadline, context.stop

    def _solver(self, seconds: float, *, tight: bool, quick: bool, workers: int | None) -> cp_model.CpSolver:
        solver = new_solver()
        parameters = solver.parameters
        parameters.num_workers = workers or max(1, (self.options.workers or cores()) - self.lent)
        parameters.random_seed = self.options.seed
        parameters.catch_sigint_signal = False
        if self.options.deterministic:
            # Named subsolvers: with all of them an interleaved search given a hint fails a check inside CP-SAT 9.15 (max_lp).
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
        workers: int | None = None,
    ) -> Answer:
        """Solve in a thread of its own, so that ``stop`` and ^C are heard while CP-SAT works. ``tight``: with the full linear relaxation;
        ``quick``: with little presolve, for small models and short times.
        The bound is a lower one for minimising, an upper one for maximising."""
        solver = self._solver(seconds, tight=tight, quick=quick, workers=workers)
        bounds: list[float] = []
        solver.best_bound_callback = bounds.append
        watch = _Watch(on_value)
        result: list[cp_model.CpSolverStatus] = []

        def solve() -> None:
            try:
                result.append(solver.solve(model, watch))
            except IndexError:  # a fault inside CP-SAT 9.15 (absl::btree_map::at), rare: as if time had been too short
                return

        thread = threading.Thread(target=solve, daemon=True)
        thread.start()
        while thread.is_alive():
            thread.join(0.05)
            if self.stop.is_set() or (self.enough is not None and self.enough()):
                solver.stop_search()
        if not result:
            return Answer(cp_model.UNKNOWN, None, None)
        status = result[0]
        self.deadline.spend(solver)
        if status == cp_model.MODEL_INVALID:  # refused at once, of amounts that CP-SAT cannot add up: whoever asks again must end some day
            self.deadline.charge(REFUSED)
        solved = status in (cp_model.OPTIMAL, cp_model.FEASIBLE)
        # Without a solution the response's bound may be an unset 0: only what was reported on the way counts then.
        maximise = model.proto.objective.scaling_factor < 0
        proved = solver.best_objective_bound if solved else (min if maximise else max)(bounds, default=None)
        bound = None
        if proved is not None and np.isfinite(proved):
            bound = int(np.floor(proved + 1e-6)) if maximise else int(np.ceil(proved - 1e-6))
        return Answer(status, list(solver.response_proto.solution) if solved else None, bound)

    def assignment(
        self, encoding: PlacementModel, pods: Ints | Mapping[tuple[int, int], int], *, objective: bool = False
    ) -> list[int] | None:
        """Return :meth:`PlacementModel.assignment`, in a part of the time that is left."""
        seconds = min(10.0, max(0.2, self.deadline.left() / 4))
        return encoding.assignment(pods, seconds=seconds, deterministic=self.options.deterministic, objective=objective)

    def done(self) -> bool:
        return self.context.over()


def add_hint(model: cp_model.CpModel, values: Sequence[int]) -> None:
    """A complete hint: the value of every variable, by index."""
    for index, value in enumerate(values):
        model.add_hint(model.get_int_var_from_proto_index(index), value)
