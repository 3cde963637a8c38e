"""One CP-SAT model, priority tier after priority tier, each proved before the next: wiring only."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from ortools.sat.python import cp_model

from models.cluster import Cluster, Ints
from solver import rules
from solver.encoding import Encoding
from solver.options import Options
from solver.ordering import Sequence_, find_order
from solver.rules.node_resources_fit import least_loads

#: Interleaved workers of a deterministic run: fixed, so that machines of different size give the same bytes.
DETERMINISTIC_WORKERS = 4
#: Up to this many variables the feasibility problem is solved with the full linear relaxation: perfect packings need it, large models
#: are found faster without.
TIGHT_LIMIT = 2_000
#: (priority, value, bound) of the tier that is being solved
Report = Callable[[int, int, int], None]
OnValue = Callable[[int, int], None]


@dataclass
class Outcome:
    """The best placement found that has a bind order. ``bounds``: per priority, pods that no placement can exceed, given the value of
    the higher tiers. ``counts``: int64[G, N]."""

    counts: Ints
    sequence: Sequence_
    bounds: dict[int, int]
    notes: list[str] = field(default_factory=list)
    interrupted: bool = False


class Budget:
    """Time that is left: wall-clock seconds, or CP-SAT's deterministic seconds."""

    def __init__(self, options: Options, started: float) -> None:
        self._deterministic = options.deterministic
        self._limit = options.time_limit
        self._started = started
        self._spent = 0.0

    def left(self) -> float:
        if self._limit is None:
            return float("inf")
        return self._limit - (self._spent if self._deterministic else time.monotonic() - self._started)

    def grant(self, solver: cp_model.CpSolver, seconds: float) -> None:
        """Limit a solve to a share of what is left."""
        seconds = min(seconds, self.left())
        if seconds != float("inf"):
            if self._deterministic:
                solver.parameters.max_deterministic_time = max(seconds, 0.01)
            else:
                solver.parameters.max_time_in_seconds = max(seconds, 0.01)

    def spend(self, solver: cp_model.CpSolver) -> None:
        self._spent += solver.deterministic_time


class _Watch(cp_model.CpSolverSolutionCallback):
    """Keeps the values of the last solution and reports it."""

    def __init__(self, on_value: OnValue | None) -> None:
        super().__init__()
        self._on_value = on_value

    def on_solution_callback(self) -> None:
        if self._on_value is not None:
            self._on_value(round(self.objective_value), round(self.best_objective_bound))


class Exact:
    """The exact engine over one compiled cluster."""

    def __init__(self, cluster: Cluster, options: Options, budget: Budget, stop: threading.Event, report: Report | None = None) -> None:
        self.cluster, self.options, self.budget, self.stop = cluster, options, budget, stop
        self.report = report
        self.encoding = Encoding(cluster, rules.build(cluster))
        self.tiers = sorted({int(p) for p in cluster.priority}, reverse=True)
        self.members = {p: np.flatnonzero(cluster.priority == p).tolist() for p in self.tiers}
        self.fits = {p: sum(self._fits(g) for g in self.members[p]) for p in self.tiers}

    def _fits(self, g: int) -> int:
        return min(int(self.cluster.count[g]), int(self.encoding.limits[g].sum()))

    def _solver(self, seconds: float, *, tight: bool = False) -> cp_model.CpSolver:

        solver = cp_model.CpSolver()
        parameters = solver.parameters
        parameters.num_workers = self.options.workers or _cores()
        parameters.random_seed = self.options.seed
        parameters.catch_sigint_signal = False
        if self.options.deterministic:
            # Named subsolvers: with all of them an interleaved search given a hint fails a check inside CP-SAT 9.15 (max_lp).
            parameters.interleave_search = True
            parameters.num_workers = self.options.workers or DETERMINISTIC_WORKERS
            parameters.subsolvers.extend(["default_lp", "quick_restart", "no_lp"])
        if tight and len(self.encoding.x) <= TIGHT_LIMIT:
            parameters.linearization_level = 2
        self.budget.grant(solver, seconds)
        return solver

    def _run(
        self, model: cp_model.CpModel, seconds: float, on_value: OnValue | None = None, *, tight: bool = False
    ) -> tuple[cp_model.CpSolverStatus, cp_model.CpSolver]:
        """Solve in a thread of its own, so that ``stop`` and ^C are heard while CP-SAT works."""
        solver = self._solver(seconds, tight=tight)
        watch = _Watch(on_value)
        result: list[cp_model.CpSolverStatus] = []
        thread = threading.Thread(target=lambda: result.append(solver.solve(model, watch)), daemon=True)
        thread.start()
        while thread.is_alive():
            thread.join(0.05)
            if self.stop.is_set():
                solver.stop_search()
        self.budget.spend(solver)
        return (result[0] if result else cp_model.UNKNOWN), solver

    def _counts(self, solver: cp_model.CpSolver) -> Ints:
        counts = np.zeros((self.cluster.n_classes, self.cluster.n_nodes), dtype=np.int64)
        solution = solver.response_proto.solution
        for (g, n), variable in self.encoding.x.items():
            counts[g, n] = solution[variable.index]
        return counts

    def _placed(self, counts: Ints, priority: int) -> int:
        return int(counts[self.members[priority]].sum())

    def _done(self) -> bool:
        return self.stop.is_set() or self.budget.left() <= 0

    def solve(self, counts: Ints, sequence: Sequence_) -> Outcome:
        """Improve a valid placement until every tier is proved, time is up, or ``stop`` is set."""
        best = Outcome(counts, sequence, dict(self.fits))
        hint = self.encoding.assignment(counts)
        if hint is None:
            raise AssertionError("the model refuses the greedy placement")
        self.encoding.hint(hint)
        self._all_at_once(best)
        if any(self._placed(best.counts, p) < best.bounds[p] for p in self.tiers):
            self._tier_by_tier(best)
        best.interrupted = self.stop.is_set()
        return best

    def _all_at_once(self, best: Outcome) -> None:
        """Pose "every pod that fits somewhere is placed" as plain feasibility, which is far easier than maximising."""
        if self._done():
            return
        model = self.encoding.model.clone()
        for g in range(self.cluster.n_classes):
            # Class by class: the same set of placements as one equation over the tier, found a hundred times faster.
            model.add(self._total(model, [g]) == self._fits(g))
        rows, possible = least_loads(self.cluster, np.array([self._fits(g) for g in range(self.cluster.n_classes)]))
        for n, r, unit, least in rows:
            here = self.encoding.classes_on(n)
            demand = [int(self.cluster.demand[g, r]) // unit for g in here]
            variables = [model.get_int_var_from_proto_index(self.encoding.x[g, n].index) for g in here]
            model.add(cp_model.LinearExpr.weighted_sum(variables, demand) >= least)
        while possible and not self._done():
            status, solver = self._run(model, self.budget.left() * 0.6, tight=True)
            if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
                return
            if self._adopt(best, self._counts(solver), model):
                return

    def _total(self, model: cp_model.CpModel, classes: list[int]) -> cp_model.LinearExprT:
        variables = [
            model.get_int_var_from_proto_index(v.index) for g in classes for v in self.encoding.variables(g, self.encoding.nodes_of(g))
        ]
        return cp_model.LinearExpr.sum(variables)

    def _adopt(self, best: Outcome, counts: Ints, *models: cp_model.CpModel) -> bool:
        """Take a placement over if it has a bind order; else cut it off in the models. Whether it was taken."""
        found = find_order(self.cluster, counts, seed=self.options.seed)
        if found.sequence is not None:
            best.counts, best.sequence = counts, found.sequence
            return True
        note = "an assignment without a bind order was cut off; proofs refer to placements that can be bound one by one"
        if not found.exhausted:
            note = "an assignment was set aside because no bind order was found in time; bounds count it as possible"
        if note not in best.notes:
            best.notes.append(note)
        for model in models:
            self._cut(model, counts, found.stuck)
        return False

    def _cut(self, model: cp_model.CpModel, counts: Ints, stuck: list[int]) -> None:
        """Forbid this very assignment of the classes whose order could not be found."""
        differs = []
        for g in stuck:
            for n in self.encoding.nodes_of(g).tolist():
                variable = model.get_int_var_from_proto_index(self.encoding.x[g, n].index)
                value = int(counts[g, n])
                for side in (variable <= value - 1, variable >= value + 1):
                    literal = model.new_bool_var("")
                    model.add(side).only_enforce_if(literal)
                    differs.append(literal)
        model.add_bool_or(differs)

    def _tier_by_tier(self, best: Outcome) -> None:
        model = self.encoding.model
        for i, p in enumerate(self.tiers):
            value = self._placed(best.counts, p)
            if value >= self.fits[p]:
                best.bounds[p] = self.fits[p]
            else:
                self._maximise(best, model, p, len(self.tiers) - i)
            model.add(self._total(model, self.members[p]) >= self._placed(best.counts, p))

    def _maximise(self, best: Outcome, model: cp_model.CpModel, p: int, tiers_left: int) -> None:
        total = self._total(model, self.members[p])
        complete = True  # every assignment that was cut off is proved to have no order
        while not self._done():
            model.maximize(total)
            hint = self.encoding.assignment(best.counts)
            if hint is not None:
                self.encoding.hint(hint)
            on_value = None if self.report is None else partial(self.report, p)
            status, solver = self._run(model, self.budget.left() / tiers_left, on_value)
            model.proto.clear_objective()
            if status == cp_model.INFEASIBLE:
                return
            if complete and status in (cp_model.OPTIMAL, cp_model.FEASIBLE, cp_model.UNKNOWN):
                bound = solver.best_objective_bound
                if np.isfinite(bound):
                    best.bounds[p] = max(self._placed(best.counts, p), min(best.bounds[p], int(np.floor(bound + 1e-6))))
            if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
                return
            counts = self._counts(solver)
            if self._placed(counts, p) <= self._placed(best.counts, p):
                return
            before = len(best.notes)
            if self._adopt(best, counts, model):
                if best.bounds[p] < self._placed(counts, p):
                    best.bounds[p] = self._placed(counts, p)
                return
            complete = complete and not any("set aside" in note for note in best.notes[before:])


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
