"""The checker of a Sizing: its placement, purchases, prices and utilisation.

Money is counted in whole millionths.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from math import ceil
from typing import Final

import msgspec

from kubestow.checker.capacity import buffers, usage_and_cost
from kubestow.checker.capacity.checked import CheckedDocument
from kubestow.checker.capacity.pools import selected
from kubestow.checker.capacity.survival import check_survival
from kubestow.checker.claims.statement import unjudged_pods
from kubestow.checker.placement import check
from kubestow.checker.violation import Violation
from kubestow.models.buffers.chunks import without_chunks
from kubestow.models.documents.catalogue import Shape
from kubestow.models.documents.placement import Placement
from kubestow.models.documents.sizing import Purchase, Sizing
from kubestow.models.edits.binding import placed_as
from kubestow.models.kube import objects, quantity
from kubestow.models.snapshot.snapshot import Snapshot

RULE: Final = "Sizing"
_ZONE: Final = "topology.kubernetes.io/zone"
_TYPE: Final = "node.kubernetes.io/instance-type"
_CONTROL_PLANE: Final = tuple(f"node-role.kubernetes.io/{role}" for role in ("control-plane", "master", "controlplane"))
_change: Final = msgspec.structs.replace


#: Claims that are not checked, in words for users.
UNCHECKED: Final = (
    "that no purchase is cheaper (the bounds), or that none places everything: they take a search",
    "the catalogue: which other shapes there are, how much of the CPU may be spot, and what the nodes that go cost",
)


def check_sizing(before: Snapshot, edited: Snapshot, sizing: Sizing) -> CheckedDocument:
    """Check a Sizing and return its faults and unchecked claims.

    Args:
        before: The snapshot as it was read.
        edited: The snapshot with the document's edits and manifests, so also with the nodes bought.
        sizing: The document.

    Raises:
        QuantityError, InputError: as for :func:`kubestow.checker.placement.verify`.
    """
    faults = [*_status_faults(sizing), *_node_faults(before, edited, sizing), *_purchase_faults(sizing), *_money_faults(sizing)]
    found = [Violation("", "", RULE, why) for why in faults]
    placement, left_open = sizing.placement, list(UNCHECKED)
    found += [Violation("", "", RULE, why) for why in buffers.sizing_faults(edited, sizing)]
    if placement is not None:
        judged = check(edited, placement, embedded=True)
        found += judged.violations
        left_open += unjudged_pods(judged.unjudged)
        found += [Violation("", "", RULE, why) for why in (*_placement_faults(sizing, placement), *usage_and_cost.faults(edited, sizing))]
        if sizing.survival is not None:
            survival = check_survival(without_chunks(placed_as(edited, placement)), sizing.survival)
            found += survival.violations
            left_open += [f"of the survival: {each}" for each in survival.open]
            if not sizing.survival.certified:
                found.append(Violation("", "", RULE, "the purchase must survive failures, and is not certified to"))
    elif sizing.survival is not None:
        found.append(Violation("", "", RULE, "there is no placement, and something is said to survive"))
    return CheckedDocument(found, left_open)


def _status_faults(sizing: Sizing) -> Iterator[str]:
    proved = sizing.cost.value == sizing.cost.bound and sizing.nodes.value == sizing.nodes.bound
    if sizing.status == "optimal" and not proved:
        yield "the status is optimal, and cost or number of nodes has a gap"
    if (sizing.status in ("optimal", "feasible")) != (sizing.placement is not None):
        yield f"the status is {sizing.status}, and there is {'no' if sizing.placement is None else 'a'} placement"
    if sizing.placement is None and (sizing.buy or sizing.utilisation or sizing.workloads):
        yield "there is no placement, and something is bought"
    if sizing.placement is not None and sizing.misfits:
        yield "pods are said to fit nowhere, and everything is placed"


def _placement_faults(sizing: Sizing, placement: Placement) -> Iterator[str]:
    unplaced = [entry.pod for entry in placement.unplaced if not entry.gated]
    if unplaced:
        yield f"{len(unplaced)} pods are left without a node, {unplaced[0]} among them"
    ours, theirs = sizing.snapshot, placement.snapshot
    for field in ("sha256", "nodes", "pods", "pending", "fromScratch", "includeGated", "daemonNamespaces", "workloads", "edits"):
        if getattr(ours, field) != getattr(theirs, field):
            yield f"its placement has another {field} of the snapshot"
    if placement.policy != sizing.policy:
        yield "its placement has another policy"
    if ours.fromScratch != (sizing.mode == "from-scratch"):
        yield f"the mode is {sizing.mode}, and running pods that may move are {'' if ours.fromScratch else 'not '}placed again"


def _node_faults(before: Snapshot, edited: Snapshot, sizing: Sizing) -> Iterator[str]:
    """Yield contradictions about the nodes that are removed and the nodes at the end."""
    old = {node.metadata.name or "": node for node in before.nodes}
    new = {node.metadata.name or "": node for node in edited.nodes}
    edits = sizing.snapshot.edits
    for name in sizing.removed:
        if name not in old:
            yield f"node {name} is said to go, and there is none"
        elif name in new:
            yield f"node {name} is said to go, and stays"
    if len(set(sizing.removed)) < len(sizing.removed):
        yield "a node is said to go twice"
    if sizing.replaced is not None and not 0 <= sizing.replaced.priced <= sizing.replaced.nodes == len(sizing.removed):
        yield f"{sizing.replaced.nodes} nodes are said to be replaced, {sizing.replaced.priced} with a price, {len(sizing.removed)} go"
    if sizing.mode == "add" and (sizing.removed or sizing.pool is not None):
        yield "nodes are added, and some are said to go"
    if sizing.mode == "replace":
        if sizing.pool is None:
            yield "nodes are replaced, and no pool is named"
        elif set(selected(before, sizing.pool)) != set(sizing.removed):
            yield f"the nodes of pool {sizing.pool} are others than those that go"
    if sizing.mode == "from-scratch":
        left_out = set(edits.removeNodes) if edits is not None else set()
        for name, node in old.items():
            if name in new and name not in left_out and not any(role in (node.metadata.labels or {}) for role in _CONTROL_PLANE):
                yield f"the mode is from-scratch, and node {name}, which is not of the control plane, stays"
    bought = [name for purchase in sizing.buy for name in purchase.nodes]
    clones = sum(int(text.partition(":")[0]) for text in edits.addNodes) if edits is not None else 0
    strange = [name for name in new if name not in old and name not in bought]
    if len(strange) != clones:
        yield (
            f"{len(strange)} nodes are neither old, bought nor added, for example {strange[0]}"
            if strange
            else "added nodes are listed as bought"
        )
    for purchase in sizing.buy:
        for name in purchase.nodes:
            if name in old or name not in new:
                yield f"node {name} is said to be bought, and {'was there before' if name in old else 'is not there'}"
            elif why := _purchase_mismatch(new[name], purchase, edits.shapes if edits is not None else []):
                yield f"node {name} is said to be bought as {purchase.shape} in {purchase.zone}, and {why}"


def _purchase_mismatch(node: objects.Node, purchase: Purchase, shapes: list[Shape]) -> str | None:
    """Return why a node differs from its purchase, or None."""
    labels = node.metadata.labels or {}
    shape = next((each for each in shapes if each.name == purchase.shape), None)
    wanted = {_TYPE: purchase.shape, _ZONE: purchase.zone, **(shape.labels if shape is not None else {})}
    key = next((key for key, value in wanted.items() if labels.get(key) != value), None)
    if key is not None:
        return f"its label {key} is {labels.get(key)}"
    offered = node.status.allocatable if node.status is not None else None
    return None if shape is None or offered == shape.allocatable else "it has other resources"


def _purchase_faults(sizing: Sizing) -> Iterator[str]:
    """Yield purchases that the document's shapes do not allow."""
    edits = sizing.snapshot.edits
    shapes = {shape.name: shape for shape in edits.shapes} if edits is not None else {}
    said = sorted(f"{purchase.count}:{purchase.shape}@{purchase.zone}" for purchase in sizing.buy)
    made = sorted(edits.buy) if edits is not None else []
    if said != made:
        yield f"{', '.join(said) or 'nothing'} is said to be bought, the edits buy {', '.join(made) or 'nothing'}"
    total: Counter[str] = Counter()
    for purchase in sizing.buy:
        total[purchase.shape] += purchase.count
        if purchase.count != len(purchase.nodes) or purchase.count < 1:
            yield f"{purchase.count} nodes of {purchase.shape} in {purchase.zone} are bought, {len(purchase.nodes)} are named"
        shape = shapes.get(purchase.shape)
        if shape is None:
            yield f"{purchase.shape} is bought, and the document has no such shape"
        elif purchase.zone not in shape.zones:
            yield f"{purchase.shape} is bought in {purchase.zone}, where it is not offered"
        elif usage_and_cost.millionths(purchase.price) != usage_and_cost.price(shape, purchase.zone):
            costs = usage_and_cost.price(shape, purchase.zone)
            yield f"{purchase.shape} in {purchase.zone} is said to cost {purchase.price}, it costs {costs} millionths"
    names = [name for purchase in sizing.buy for name in purchase.nodes]
    if len(set(names)) < len(names):
        yield "a node is bought twice"
    for name, count in total.items():
        limit = shapes[name].most if name in shapes else None
        if limit is not None and count > limit:
            yield f"{count} nodes of {name} are bought, there are {limit} at most"
    cpu = {name: ceil(quantity.parse(shape.allocatable.get("cpu", 0)) * 1000) for name, shape in shapes.items()}
    whole = sum(cpu[name] * count for name, count in total.items() if name in shapes)
    spot = sum(cpu[name] * count for name, count in total.items() if name in shapes and shapes[name].spot)
    if spot * 100 > sizing.mostSpot * whole:
        yield f"{spot} of {whole} mCPU are spot, {sizing.mostSpot} per cent may be"
    if sizing.kinds is not None and len(total) > sizing.kinds:
        yield f"{len(total)} shapes are bought, {sizing.kinds} may be"


def _money_faults(sizing: Sizing) -> Iterator[str]:
    value, bound = usage_and_cost.millionths(sizing.cost.value), usage_and_cost.millionths(sizing.cost.bound)
    paid = sum(usage_and_cost.millionths(purchase.price) * purchase.count for purchase in sizing.buy)
    if value != paid:
        yield f"the cost is said to be {sizing.cost.value}, the purchases cost {paid} millionths"
    if sizing.placement is not None and not 0 <= bound <= value:
        yield f"the claimed minimum cost {sizing.cost.bound} is not between 0 and the cost {sizing.cost.value}"
    count = sum(purchase.count for purchase in sizing.buy)
    if sizing.nodes.value != count:
        yield f"{sizing.nodes.value} nodes are said to be bought, {count} are"
    if sizing.placement is not None and not 0 <= sizing.nodes.bound <= sizing.nodes.value:
        yield f"the claimed minimum of {sizing.nodes.bound} nodes is not between 0 and the {sizing.nodes.value} nodes bought"
