"""CP-SAT checks whether some facts alone make it impossible to place pods together."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from kubestow.solver.cpsat.run import CpSat
from kubestow.solver.cpsat.solver import new_solver
from kubestow.solver.explain.conflict.fact_model import FactEncoding, Tag
from kubestow.solver.ortools import cp_model
from kubestow.solver.runtime.run_context import RunContext

#: Seconds for a search without presolve. Longer runs rarely find more.
PLAIN_SECONDS = 0.05
#: Additional seconds per variable of the model.
PLAIN_SECONDS_PER_VARIABLE = 1e-4


class SubsetCheck:
    """A check whether a set of facts alone is impossible."""

    def __init__(self, encoding: FactEncoding, context: RunContext) -> None:
        self.encoding, self._context, self._cpsat = encoding, context, CpSat(context)

    def impossible(self, tags: Collection[Tag], seconds: float) -> bool | None:
        """Return whether the needed pods cannot be placed under these facts alone; None if time runs out.

        A plain search comes first, which often finds a placement or a conflict at once. Then presolve and the
        linear relaxation are used, with fixed literals, because neither exploits assumptions.
        """
        if self._context.over():
            return None
        kept = set(tags)
        model = self.encoding.model.clone()
        for tag, literal in self.encoding.literals.items():
            model.add(model.get_bool_var_from_proto_index(literal.index) == (tag in kept))
        verdict, _ = self._solve_plain(model, seconds)
        if verdict is None and not self._context.over():
            verdict = _verdict(self._cpsat.run(model, seconds, quick=True).status)
        return verdict

    def core(self, groups: Sequence[Sequence[Tag]], seconds: float) -> tuple[bool | None, list[int]]:
        """Return whether the groups together are impossible (None if not quickly known), and the indices of the responsible groups.

        The indices are CP-SAT's sufficient assumptions.
        """
        if self._context.over():
            return None, []
        model = self.encoding.model.clone()
        names = []
        for group in groups:
            name = model.new_bool_var("")
            for tag in group:
                model.add_implication(name, model.get_bool_var_from_proto_index(self.encoding.literals[tag].index))
            names.append(name)
        model.add_assumptions(names)
        verdict, solver = self._solve_plain(model, seconds)
        index = {name.index: i for i, name in enumerate(names)}
        return verdict, sorted(index[i] for i in solver.sufficient_assumptions_for_infeasibility()) if verdict else []

    def _solve_plain(self, model: cp_model.CpModel, seconds: float) -> tuple[bool | None, cp_model.CpSolver]:
        solver = new_solver()
        solver.parameters.num_workers = 1
        solver.parameters.random_seed = self._context.options.seed
        solver.parameters.catch_sigint_signal = False
        solver.parameters.cp_model_presolve = False
        solver.parameters.linearization_level = 0
        self._context.deadline.grant(solver, min(seconds, PLAIN_SECONDS + PLAIN_SECONDS_PER_VARIABLE * len(model.proto.variables)))
        status = solver.solve(model)
        self._context.deadline.spend(solver)
        return _verdict(status), solver


def _verdict(status: cp_model.CpSolverStatus) -> bool | None:
    if status == cp_model.INFEASIBLE:
        return True
    return False if status in (cp_model.OPTIMAL, cp_model.FEASIBLE) else None
