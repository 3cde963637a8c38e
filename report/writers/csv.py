"""Results as rows of comma-separated values."""

from __future__ import annotations

from kubestow.report.writers import WrittenResult, writer

_KINDS = ("Audit", "Check", "Fit", "NodeTable", "Placement", "RebalancePlan", "Sizing", "Survival", "Upgrade")


@writer("csv", kinds=_KINDS, page="cli.md")
def csv(result: WrittenResult) -> bytes:
    """Return the rows of a result. Those of placements and plans also have zones and workloads of the snapshot."""
    from kubestow.report.documents import csv_rows

    match result.kind:
        case "Placement":
            return csv_rows.placement(result.document, result.snapshot)
        case "RebalancePlan":
            return csv_rows.plan(result.document, result.snapshot)
        case "NodeTable":
            return csv_rows.nodes(result.document)
        case kind:
            rows: bytes = getattr(csv_rows, kind.lower())(result.document)
            return rows
