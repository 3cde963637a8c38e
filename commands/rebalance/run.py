"""The work of ``kubestow rebalance``."""

from __future__ import annotations

from functools import partial
from typing import NoReturn

from kubestow.commands.common.exit_codes import DONE, INCOMPLETE, refuse
from kubestow.commands.core.goals import misuses, priced
from kubestow.commands.naming import examples
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
    limits = Limits(**{**request.limits, "alsoMove": list(dict.fromkeys(request.limits["alsoMove"]))})
    wrong = next(misuses(request.goals, request.drain, limits), None)
    example = "" if request.goals or request.drain else examples.example("--goal", streams.snapshots)
    refuse(wrong is not None, f"{wrong}.{example}" if example else wrong or "")
    streams.check(*request.since)
    policy = inputs.read_policy(request.choices)
    prices = priced(limits, policy)
    refuse(prices is not None, prices or "")
    changes = inputs.what_if({"requests": request.requests}, streams)
    run = searching.SearchRun(streams)
    snapshot = inputs.edit(inputs.load(streams, policy), streams, changes).snapshot
    run.loaded = run.seconds()
    known = inputs.history(snapshot, request.since, request.execution_grace, policy, streams)
    search_options = searching.search_options(request.search, request.choices, policy)
    plan_options = PlanOptions(request.goals, request.drain, limits, search_options, known)
    plan = run.search(partial(find, snapshot, plan_options))
    plan.snapshot.edits = changes
    run.accept(plan, snapshot)
    result = WrittenResult(plan, snapshot)
    output.write_document(streams, partial(plan_table, plan, snapshot), partial(results.result_document, plan), result)
    searching.warn_of_gates(streams, request.choices, "carry the plan out")
    run.end(INCOMPLETE if plan.obstacles else DONE, plan_line(plan, run.seconds()))
