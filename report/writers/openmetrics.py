"""Results as metrics."""

from __future__ import annotations

from kubestow.report.writers import WrittenResult, writer


@writer("openmetrics", kinds=("Audit", "Check", "Placement", "Survival"), page="metrics.md")
def openmetrics(result: WrittenResult) -> bytes:
    """Return metrics in the OpenMetrics text format."""
    from kubestow.report.documents import metrics

    text: bytes = getattr(metrics, result.kind.lower())(result.document, result.version, result.seconds())
    return text
