"""``kubestow rebalance``: plan moves of running pods, wave by wave."""

from __future__ import annotations

from functools import partial
from typing import Any

import click

from kubestow.commands.common import execution_grace as grace
from kubestow.commands.common import options
from kubestow.commands.common.exit_codes import DONE, INCOMPLETE, refuse
from kubestow.commands.common.help_text import GroupedCommand
from kubestow.commands.common.options import PolicyChoices, SearchChoices, Streams, bundled

_COUNT = click.IntRange(0, 2**31 - 1)
#: Points. Multiplied by all moves and 10,000 units a point it stays below 2**53, up to which CP-SAT is exact.
_GAIN = click.IntRange(0, 10**6)


@click.command(cls=GroupedCommand)
@options.snapshots
@options.table_output("RebalancePlan")
@click.option(
    "--goal",
    "goals",
    multiple=True,
    type=click.Choice(["repair", "improve", "consolidate", "admit"]),
    help="Goal of the plan; repeatable, the most important first.",
)
@click.option(
    "--drain", multiple=True, metavar="NODE|SELECTOR", help="Empty a node, or all nodes with these labels, before all goals; repeatable."
)
@click.option("--max-moves", "maxMoves", type=_COUNT, metavar="N", help="Maximum number of moves of the plan.")
@click.option(
    "--max-moves-per-namespace", "maxMovesPerNamespace", type=_COUNT, metavar="N", help="Maximum number of moves for each namespace."
)
@click.option(
    "--max-moves-per-workload", "maxMovesPerWorkload", type=_COUNT, metavar="N", help="Maximum number of moves for each workload."
)
@click.option("--max-waves", "maxWaves", type=_COUNT, metavar="N", help="Maximum number of waves of the plan.")
@click.option(
    "--max-freed",
    "maxFreed",
    type=_COUNT,
    metavar="N",
    help="Maximum number of nodes that the goal consolidate frees, with the fewest moves.",
)
@click.option(
    "--max-evictions",
    "maxEvictions",
    type=_COUNT,
    metavar="N",
    help="Maximum number of evictions without replacement; requires --allow-eviction.",
)
@click.option(
    "--allow-eviction", "allowEviction", is_flag=True, help="Allow evictions without replacement if moves alone do not reach a goal."
)
@click.option(
    "--also-move",
    "alsoMove",
    multiple=True,
    type=click.Choice(["bare", "local-storage"]),
    help="Also move pods without a controller (bare) or with data on their node; repeatable.",
)
@click.option(
    "--min-gain", "minGain", type=_GAIN, default=1, metavar="N", help="Minimum gain for each move of the goal improve, in points."
)
@grace.options
@options.requests
@options.search
@options.scoped
@bundled(streams=Streams, search=SearchChoices, choices=PolicyChoices)
def rebalance(
    streams: Streams,
    search: SearchChoices,
    choices: PolicyChoices,
    goals: tuple[str, ...],
    drain: tuple[str, ...],
    requests: tuple[str, ...],
    since: tuple[str, ...],
    execution_grace: int | None,
    **limits: Any,
) -> None:
    """Plan moves of running pods, in an order that breaks no rule on the way.

    Exit codes: 0 if all goals are reached or there is nothing to gain, 3 if a goal is not reached (the plan is written), 130 if interrupted
    (the best plan so far is written).
    """
    from kubestow.commands.core.goals import misuses, priced
    from kubestow.models.documents.rebalance_plan import Limits

    limits["alsoMove"] = list(dict.fromkeys(limits["alsoMove"]))
    bounds = Limits(**limits)
    wrong = next(misuses(goals, drain, bounds), None)
    refuse(wrong is not None, wrong or "")
    streams.check(*since)
    from kubestow.commands.common import inputs, output, searching
    from kubestow.report.documents import results
    from kubestow.report.terminal.rebalance_plan import plan_line, plan_table
    from kubestow.report.writers import WrittenResult
    from kubestow.solver.rebalance.problem.options import PlanOptions
    from kubestow.solver.rebalance.rebalance import rebalance as find

    policy = inputs.read_policy(choices)
    prices = priced(bounds, policy)
    refuse(prices is not None, prices or "")
    changes = inputs.what_if({"requests": requests}, streams)
    run = searching.SearchRun(streams)
    snapshot = inputs.edit(inputs.load(streams, policy), streams, changes).snapshot
    run.loaded = run.seconds()
    known = grace.history(snapshot, since, execution_grace, policy, streams)
    plan_options = PlanOptions(goals, drain, bounds, searching.search_options(search, choices, policy), known)
    plan = run.search(partial(find, snapshot, plan_options))
    plan.snapshot.edits = changes
    run.accept(plan, snapshot)
    result = WrittenResult(plan, snapshot)
    output.write_document(streams, partial(plan_table, plan, snapshot), partial(results.result_document, plan), result)
    searching.warn_of_gates(streams, choices, "carry the plan out")
    run.end(INCOMPLETE if plan.obstacles else DONE, plan_line(plan, run.seconds()))
