"""Placements as objects for ``kubectl create``, and as manifests with preferred nodes."""

from __future__ import annotations

from kubestow.report.writers import WrittenResult, writer


@writer("kubectl", kinds=("Placement",), page="solve.md")
def kubectl(result: WrittenResult) -> bytes:
    """Return Binding objects."""
    from kubestow.report.documents.results import bindings

    return bindings(result.document, result.snapshot)


@writer("manifests", kinds=("Placement",), page="solve.md")
def manifests(result: WrittenResult) -> bytes:
    """Return the manifests with the planned nodes as preferences."""
    from kubestow.report.documents.manifests import manifests as text

    assert result.manifests is not None
    return text(result.manifests)
