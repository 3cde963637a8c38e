"""The entry point for checking any document about capacity."""

from __future__ import annotations

from kubestow.checker.capacity.checked import CheckedDocument
from kubestow.checker.capacity.fit import check_fit
from kubestow.checker.capacity.sizing import check_sizing
from kubestow.checker.capacity.survival import check_survival
from kubestow.checker.capacity.upgrade import check_upgrade
from kubestow.checker.claims.statement import unjudged_pods
from kubestow.checker.placement import check
from kubestow.models.documents.capacity import Capacity
from kubestow.models.documents.fit import Fit
from kubestow.models.documents.sizing import Sizing
from kubestow.models.documents.survival import Survival
from kubestow.models.edits.binding import placed_as
from kubestow.models.snapshot.snapshot import Snapshot


def check_capacity(before: Snapshot, edited: Snapshot, document: Capacity) -> CheckedDocument:
    """Check a document and return its faults and unchecked claims.

    Args:
        before: The snapshot as it was read.
        edited: The snapshot with the manifests and edits that the document names.
        document: The document.

    Raises:
        QuantityError, InputError: as the check of its kind.
    """
    if isinstance(document, Fit):
        return check_fit(edited, document)
    if isinstance(document, Sizing):
        return check_sizing(before, edited, document)
    return _check_survival(edited, document) if isinstance(document, Survival) else check_upgrade(edited, document)


def _check_survival(edited: Snapshot, document: Survival) -> CheckedDocument:
    """Check a Survival. If it has a placement of the pending pods, check that first and apply it."""
    if document.placement is None:
        return check_survival(edited, document)
    first = check(edited, document.placement, embedded=True)
    then = check_survival(placed_as(edited, document.placement), document)
    return CheckedDocument([*first.violations, *then.violations], [*unjudged_pods(first.unjudged), *then.open])
