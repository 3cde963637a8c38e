"""The cluster that results from a purchase: the removed nodes, the pending pods and the new nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from kubestow.models.catalogue.catalogue import Offer
from kubestow.models.documents.placement import Edits
from kubestow.models.edits.edits import apply
from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.models.workloads.expand import Expansion
from kubestow.solver.capacity.size.options import SizeOptions

#: Labels of control plane nodes, which stay in every mode.
_CONTROL_PLANE_LABELS = tuple(f"node-role.kubernetes.io/{role}" for role in ("control-plane", "master", "controlplane"))


@dataclass(frozen=True)
class PurchaseBase:
    """The cluster without a purchase: the snapshot, the caller's edits and the nodes to remove.

    Attributes:
        snapshot: The snapshot as read.
        manifests: The manifests as read.
        base: Edits of the caller, including the nodes to remove.
        removed: Names of the nodes to remove.
        before: The cluster with ``base``, without a purchase.
    """

    snapshot: Snapshot
    manifests: Snapshot | None
    base: Edits
    removed: tuple[str, ...]
    before: Expansion

    def edits(self, bought: Sequence[tuple[Offer, int]]) -> Edits:
        """Return the edits that make the cluster with a purchase."""
        chosen = [(offer, count) for offer, count in bought if count]
        known = {shape.name for shape in self.base.shapes}
        shapes = {offer.shape.name: offer.shape for offer, _ in chosen if offer.shape.name not in known}
        return msgspec.structs.replace(
            self.base,
            buy=[*self.base.buy, *(f"{count}:{offer.shape.name}@{offer.zone}" for offer, count in chosen)],
            shapes=[*self.base.shapes, *shapes.values()],
        )

    def expanded(self, bought: Sequence[tuple[Offer, int]]) -> Expansion:
        """Return the cluster with a purchase. Its new nodes are in the order of the purchase."""
        return apply(self.snapshot, self.manifests, self.edits(bought)) if any(count for _, count in bought) else self.before

    def new_nodes(self, snapshot: Snapshot) -> list[str]:
        """Return the names of a cluster's purchased nodes, in their order."""
        known = {node.metadata.name for node in self.before.snapshot.nodes}
        return [node.metadata.name or "" for node in snapshot.nodes if node.metadata.name not in known]


def purchase_base(snapshot: Snapshot, request: SizeOptions, edits: Edits | None) -> PurchaseBase:
    """Return the cluster on which purchases are tried.

    Raises:
        InputError: Edits that cannot be made.
    """
    base = edits or Edits()
    gone = request.gone if request.mode == "replace" else ()
    if request.mode == "from-scratch":
        gone = tuple(
            node.metadata.name or ""
            for node in snapshot.nodes
            if not any(role in (node.metadata.labels or {}) for role in _CONTROL_PLANE_LABELS)
        )
    if request.mode != "add":
        base = msgspec.structs.replace(base, removeNodes=[*base.removeNodes, *gone], rehouse=True)
    if request.buffers and any(each is not None and each.capacity_buffers for each in (snapshot, request.manifests)):
        base = msgspec.structs.replace(base, buffers=True)
    return PurchaseBase(snapshot, request.manifests, base, gone, apply(snapshot, request.manifests, base))
