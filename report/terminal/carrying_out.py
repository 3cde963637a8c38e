"""What ``kubestow apply`` will do, for people."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType
from rich.text import Text

from models.documents.placement import Placement
from models.documents.rebalance_plan import RebalancePlan
from models.snapshot.snapshot import Snapshot
from report.documents.output import counted
from report.terminal.canvas import Surface
from report.terminal.placement import assignments
from report.terminal.plan_waves import waves
from report.terminal.rebalance_plan import verdict


def line(result: Placement | RebalancePlan) -> str:
    """Return one line: what there is to carry out."""
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
