"""``kubestow rebalance``: plan moves of running pods, wave by wave."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import click

from kubestow.commands.common import execution_grace as grace
from kubestow.commands.common import options
from kubestow.commands.common.help_text import GroupedCommand
from kubestow.commands.common.options import PolicyChoices, SearchChoices, Streams, requested
from kubestow.commands.core.goals import ALSO_MOVE, GOALS, MAX_COUNT, MAX_GAIN

_COUNT, _GAIN = click.IntRange(0, MAX_COUNT), click.IntRange(0, MAX_GAIN)


@dataclass(frozen=True)
class RebalanceRequest:
    """The options of ``kubestow rebalance``. ``limits``: by field of :class:`kubestow.models.documents.rebalance_plan.Limits`."""

    streams: Streams
    search: SearchChoices
    choices: PolicyChoices
    goals: tuple[str, ...]
    drain: tuple[str, ...]
    requests: tuple[str, ...]
    since: tuple[str, ...]
    execution_grace: int | None
    limits: dict[str, Any]


@click.command(cls=GroupedCommand)
@options.snapshots
@options.table_output("RebalancePlan")
@click.option(
    "--goal",
    "goals",
    multiple=True,
    type=click.Choice(GOALS),
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
    type=click.Choice(ALSO_MOVE),
    help="Also move pods without a controller (bare) or with data on their node; repeatable.",
)
@click.option(
    "--min-gain",
    "minGain",
    type=_GAIN,
    default=1,
    metavar="N",
    help="Minimum gain for each move of the goal improve, in points.",
)
@grace.options
@options.requests
@options.search
@options.scoped
@requested(RebalanceRequest, streams=Streams, search=SearchChoices, choices=PolicyChoices, limits=dict)
def rebalance(request: RebalanceRequest) -> None:
    """Plan moves of running pods, in an order that breaks no rule on the way.

    Exit codes: 0 if all goals are reached or there is nothing to gain, 3 if a goal is not reached (the plan is written), 130 if interrupted
    (the best plan so far is written).
    """
    from kubestow.commands.rebalance.run import run

    run(request)
