"""Calls of CP-SAT count against the remaining time, also if it refuses to answer."""

from __future__ import annotations

from ortools.sat.python import cp_model

from kubestow.solver.cpsat.run import REJECTED_MODEL_SECONDS, CpSat
from kubestow.solver.runtime.options import Options
from kubestow.solver.runtime.run_context import RunContext


def test_a_model_that_is_refused_takes_time_so_that_a_deterministic_search_ends() -> None:
    model = cp_model.CpModel()
    amounts = [model.new_int_var(0, 2**61, f"x{i}") for i in range(8)]
    model.add(sum(amounts) <= 2**61)
    cpsat = CpSat(RunContext.start(Options(time_limit=10.0, deterministic=True, workers=1)))
    before = cpsat.deadline.elapsed()
    answer = cpsat.run(model, 1.0)
    assert answer.status == cp_model.MODEL_INVALID
    assert answer.solution is None
    assert cpsat.deadline.elapsed() >= before + REJECTED_MODEL_SECONDS
