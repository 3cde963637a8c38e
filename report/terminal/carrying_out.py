"""Preview of ``kubestow apply`` for terminals."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType
from rich.text import Text

from kubestow.models.documents.placement import Placement
from kubestow.models.documents.rebalance_plan import RebalancePlan
from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.report.documents.output import counted
from kubestow.report.terminal.canvas import Surface
from kubestow.report.terminal.placement import assignments
from kubestow.report.terminal.plan_waves import waves
from kubestow.report.terminal.rebalance_plan import verdict


def line(result: Placement | RebalancePlan) -> str:
    """Return the work to do in one line."""
    if isinstance(result, RebalancePlan):
        return verdict(result)
    return f"{counted(len(result.assignments), 'pod')} to bind"


def steps(result: Placement | RebalancePlan, snapshot: Snapshot, surface: Surface) -> Iterator[RenderableType]:
    """Yield the waves of a plan, or the pods of a placement in bind order."""
    yield Text(line(result), style="bold")
    if isinstance(result, RebalancePlan):
        yield from waves(result, snapshot, surface)
    else:
        yield from assignments(result, snapshot, surface)
