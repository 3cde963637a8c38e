"""The work of ``kubestow rebalance``."""

from __future__ import annotations

from functools import partial
from typing import NoReturn

from kubestow.commands.common.exit_codes import DONE, INCOMPLETE
from kubestow.commands.core import goals
from kubestow.commands.rebalance import RebalanceRequest
from kubestow.commands.running import inputs, output, searching
from kubestow.models.documents.rebalance_plan import Limits
from kubestow.report.documents import results
from kubestow.report.terminal.rebalance_plan import plan_line, plan_table
from kubestow.report.writers import WrittenResult
from kubestow.solver.rebalance.problem.options import PlanOptions
from kubestow.solver.rebalance.rebalance import rebalance as find


def run(request: RebalanceRequest) -> NoReturn:
    """Plan the moves and write the result."""
    streams = request.streams
    policy = inputs.read_policy(request.choices)
    limits = Limits(**request.limits)
    goals.check(request.goals, request.drain, limits, policy)
    streams.check(*request.since)
    changes = inputs.what_if(streams, {"requests": request.requests})
    run = searching.SearchRun(streams)
    given = run.read(policy, changes)
    snapshot = given.after
    known = inputs.history(snapshot, request.since, request.execution_grace, policy, streams)
    search_options = searching.search_options(request.search, request.choices, policy)
    plan_options = PlanOptions(request.goals, request.drain, limits, search_options, known)
    plan = run.search(partial(find, snapshot, plan_options))
    given.sign(plan)
    run.accept(plan)
    result = WrittenResult(plan, snapshot)
    output.write_document(streams, partial(plan_table, plan, snapshot), partial(results.result_document, plan), result)
    searching.warn_of_gates(streams, request.choices, "carry the plan out")
    run.end(INCOMPLETE if plan.obstacles else DONE, plan_line(plan, run.seconds()))
