"""Purchases as nodes that can be added to the snapshot."""

from __future__ import annotations

from kubestow.report.writers import WrittenResult, writer


@writer("nodes", kinds=("Sizing",), page="size.md")
def nodes(result: WrittenResult) -> bytes:
    """Return the purchased nodes as objects."""
    from kubestow.report.documents.bought_nodes import bought_nodes

    return bought_nodes(result.snapshot, [name for purchase in result.document.buy for name in purchase.nodes])
